"""Both experiments of the Swellfish paper, recomputed: every zone beside Figure 3, and what differs explained by computing.

Streams are in `streams`, what is printed in `printed`, the secrets, plans and certificates in `secrets`, errors in `error`,
RescueDP in `rescue`, and tables and words in `tables`. All noise is seeded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from halflife.lab.views.text import three_figures
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.papers.swellfish.error import FILTERED, Uniform, Zone, post_of, uniform_data, zone_data
from halflife.papers.swellfish.printed import (
    APPROXIMATE,
    EXPERIMENTS,
    FIGURE_3,
    FILTERED_UNIFORM,
    PURE,
    REPETITIONS,
    RESCUE,
    SWELLFISH,
    UNIFORM,
    printed_error,
)
from halflife.papers.swellfish.rescue import AHEAD, SOUND, UNFILTERED, RescueErrors, rescue_errors
from halflife.papers.swellfish.secrets import (
    HOUSEHOLDS,
    ONE,
    Households,
    Scales,
    household_data,
    plan_data,
    town_secrets,
)
from halflife.papers.swellfish.streams import WEEK, Source

CLOSE = 0.10
"""Ours and printed agree if they are within this of each other; beyond it a reason is given."""


class Row(NamedTuple):
    """One zone and mechanism of Experiment 1: errors in per cent, as in the figure, as in the text, and as printed (or None)."""

    zone: int
    mechanism: str
    promise: str
    label: str
    figure: float
    text: float
    printed: float | None
    reason: str

    @property
    def ratio(self) -> float | None:
        """Ours over printed."""
        return None if self.printed is None else self.figure / self.printed


class ZoneFacts(NamedTuple):
    """What explains a zone's errors.

    inverse   mean of 1/load;  implied  the same as Figure 3's Uniform implies it, NaN where that is filtered or not printed
    history   mean of 1/load of the history's rows alone, NaN without them
    lag       error of the one-day average without any noise, in per cent
    low       steps with loads below a twentieth of the mean, and `low_share`, their share in the mean of 1/load
    smoothed  Uniform's error with the filter and no truncation, in per cent
    scale     Swellfish's mean scale in kW that Figure 3 implies, NaN if it is not printed
    """

    zone: int
    mean_load: float
    inverse: float
    implied: float
    history: float
    lag: float
    low: int
    low_share: float
    smoothed: float
    scale: float


class Stretch(NamedTuple):
    """The stretch of whole weeks whose mean of 1/load comes nearest to what Figure 3 implies, and how far off it still is."""

    first_day: int
    last_day: int
    zones: int
    off: float


class WeekRow(NamedTuple):
    """Experiment 2, one mechanism: the mean over zones (but zone 4, as in Figure 4) of the error in each of the first weeks."""

    label: str
    errors: Floats


@dataclass(frozen=True, eq=False)
class Reproduction:
    """All that was computed; `secrets` says how many secrets the town has."""

    source: Source
    repetitions: int
    secrets: int
    households: Households
    plans: tuple[Scales, ...]
    uniform: tuple[Uniform, ...]
    rows: tuple[Row, ...]
    facts: tuple[ZoneFacts, ...]
    rescue: tuple[RescueErrors, ...]
    weeks: tuple[WeekRow, ...]
    stretch: Stretch | None

    def plan(self, who: str, method: str, promise: str, noise: str = "laplace") -> Scales:
        """Return one plan."""
        return next(
            p for p in self.plans
            if (p.who, p.method, p.noise) == (who, method, noise) and (p.delta > 0) == (promise == APPROXIMATE)
        )  # fmt: skip


def reproduce(
    source: Source,
    seed: int = 1,
    progress: Progress = lambda what, done, total: None,
    *,
    households: int = HOUSEHOLDS,
    repetitions: int = REPETITIONS,
    exact: bool = True,
) -> Reproduction:
    """Compute both experiments and all that is shown beside them; `exact`: see `plan_data`."""
    progress(f"secrets of {households} households", 0, 1)
    town = town_secrets(source.steps, seed, households)
    homes = household_data(town, source.steps)
    plans = tuple(plan_data(town, source.steps, homes.middle, progress, exact=exact))
    first, second = (uniform_data(e.w, source.steps) for e in EXPERIMENTS)
    runs = ((SOUND, 0), (UNFILTERED, 0), (AHEAD, 0), (SOUND, 1))
    rescue = tuple(rescue_errors(kind, EXPERIMENTS[i].w, source.loads, repetitions, seed, progress) for kind, i in runs)
    rows: list[Row] = []
    facts: list[ZoneFacts] = []
    weeks: list[dict[str, Floats]] = []
    for zone in zone_data(source.loads, repetitions, seed):
        progress("errors by zone", zone.number - 1, source.zones)
        facts.append(_zone_facts(zone, source))
        rows += _rows(zone, facts[-1], first, plans, rescue, source.printed)
        weeks.append(_weeks(zone, second, plans, rescue[-1]))
    return Reproduction(
        source, repetitions, len(town), homes, plans, tuple(first), tuple(rows), tuple(facts), rescue,
        tuple(_over_zones(weeks)), find_stretch(source.loads) if source.printed else None,
    )  # fmt: skip


def _zone_facts(zone: Zone, source: Source) -> ZoneFacts:
    printed = FIGURE_3.get(zone.number) if source.printed else None
    uniform = uniform_scale()
    implied = printed[1] / 100 / uniform if printed and zone.number not in FILTERED_UNIFORM else math.nan
    old = math.nan
    if source.history is not None:
        load = source.history[zone.number - 1]
        old = float(np.mean(1 / load[load > 0]))
    low, share = zone.low_share()
    scale = printed[0] / 100 / zone.inverse() if printed else math.nan
    smoothed = zone.error(uniform, "laplace", FILTERED)
    return ZoneFacts(
        zone.number, float(zone.load.mean()), zone.inverse(), implied, old, zone.lag(), low, share, smoothed, scale
    )


def uniform_scale() -> float:
    """Return Uniform's scale in Experiment 1, in kW: w·Δ/ε."""
    return uniform_data(EXPERIMENTS[0].w, 1)[0].scale


def find_stretch(loads: Floats) -> Stretch:
    """Return the stretch of whole weeks that fits Figure 3's unfiltered Uniform errors best in all zones (but 9) at once.

    There is none that fits: the printed errors are of no part of these streams.
    """
    zones = [z for z in FIGURE_3 if z <= len(loads) and z not in (*FILTERED_UNIFORM, 9)]
    implied = np.array([FIGURE_3[z][1] for z in zones]) / 100 / uniform_scale()
    sums = np.cumsum(1 / loads[[z - 1 for z in zones]], axis=1)
    ends = np.append(np.arange(0, sums.shape[1], WEEK), sums.shape[1])
    sums = np.concatenate([np.zeros((len(zones), 1)), sums], axis=1)[:, ends]
    best = Stretch(0, 0, len(zones), math.inf)
    for i in range(len(ends) - 1):
        means = (sums[:, i + 1 :] - sums[:, i : i + 1]) / (ends[i + 1 :] - ends[i])
        off = np.abs(means / implied[:, None] - 1).max(axis=0)
        j = int(np.argmin(off))
        if off[j] < best.off:
            best = Stretch(int(ends[i]) // 96 + 1, -(-int(ends[i + 1 + j]) // 96), len(zones), float(off[j]))
    return best


# Experiment 1 -------------------------------------------------------------------------------------------------------


def _rows(
    zone: Zone, facts: ZoneFacts, uniform: Sequence[Uniform], plans: Sequence[Scales], rescue: Sequence[RescueErrors], real: bool
) -> Iterator[Row]:  # fmt: skip
    """Every mechanism in one zone: Table II's beside what is printed, then ours."""
    number = zone.number
    for plan in plans:
        promise = APPROXIMATE if plan.delta else PURE
        post = post_of(SWELLFISH, number, text=False)
        error = zone.error(plan.first, plan.noise, post)
        beside = plan.method == "paper" and plan.who == ONE
        yield _row(facts, SWELLFISH, promise, plan.label, error, error, real and beside, f"{plan.mean:.3g}")
    for u in uniform:
        posts = [post_of(u.mechanism, number, text) for text in (False, True)]
        figure, text = (zone.error(u.scale, u.noise, post) for post in posts)
        yield _row(facts, u.mechanism, u.promise, u.label, figure, text, real and u.promise != "exact")
    for found in rescue[:3]:
        error = float(found.mean[number - 1])
        others = ", ".join(
            f"{r.kind} {three_figures(float(r.mean[number - 1]))} %" for r in rescue[:3] if r is not found
        )
        label = f"{RESCUE}, {found.kind}"
        yield _row(facts, RESCUE, PURE, label, error, error, real and found.kind == SOUND, others)


def _row(
    facts: ZoneFacts, mechanism: str, promise: str, label: str, figure: float, text: float, beside: bool, more: str = ""
) -> Row:
    printed = printed_error(facts.zone, mechanism, promise) if beside else None
    far = printed is not None and abs(figure / printed - 1) > CLOSE
    reason = _reason(facts, mechanism, figure / printed, printed, more) if far and printed is not None else ""
    return Row(facts.zone, mechanism, promise, label, figure, text, printed, reason)


def _reason(facts: ZoneFacts, mechanism: str, ratio: float, printed: float, more: str) -> str:
    """Say what makes ours differ from what is printed, from what was computed."""
    if mechanism == SWELLFISH:
        return f"other secrets: mean scale {more} kW here, about {facts.scale:.3g} kW implied there"
    if mechanism == RESCUE:
        return f"not matched by any filter, and the code behind the figure is not at hand: {more}"
    if mechanism == UNIFORM and facts.zone in FILTERED_UNIFORM and facts.lag > printed:
        return (
            f"the one-day average misses the exact stream by {facts.lag:.3g} % without any noise: more than is printed"
        )
    stream = facts.inverse / facts.implied  # NaN where nothing printed tells of the stream by itself
    fits = abs(ratio / stream - 1) <= CLOSE
    if fits and facts.low_share > 0.1:
        return (
            f"{facts.low} steps with next to no load make {100 * facts.low_share:.0f} % of the mean of 1/load, which is "
            f"{stream:.2f} of what Uniform's printed error implies"
        )
    if fits:
        return f"the stream, not the noise: the mean of 1/load is {stream:.3f} of what Uniform's printed error implies here"
    return f"not found: 1/load would have to be {1 / ratio:.3g} times ours"


# Experiment 2 -------------------------------------------------------------------------------------------------------


def _weeks(zone: Zone, uniform: Sequence[Uniform], plans: Sequence[Scales], rescue: RescueErrors) -> dict[str, Floats]:
    """The error of each mechanism in the first weeks, in one zone."""
    found = {
        f"{SWELLFISH}, {p.label}": zone.by_week(p.second, p.noise, post_of(SWELLFISH, zone.number, text=False))
        for p in plans
    }
    found |= {u.label: zone.by_week(u.scale, u.noise, post_of(u.mechanism, zone.number, text=False)) for u in uniform}
    return found | {f"{RESCUE}, {rescue.kind}": rescue.by_week[zone.number - 1]}


def _over_zones(weeks: Sequence[dict[str, Floats]]) -> Iterator[WeekRow]:
    """The mean over zones; zone 4 is left out where there are others, as in Figure 4."""
    kept = [found for z, found in enumerate(weeks, start=1) if z != 4 or len(weeks) == 1]
    for label in kept[0]:
        yield WeekRow(label, np.mean([found[label] for found in kept], axis=0))
