"""Does a process under-report on data? Its Δ(t) against what is counted directly, lag by lag, with family-wise confidence.

A *unit* is one person's sequence (or one stretch of it, if there are fewer than 16 people). At each lag, and for each unit,

- *at any time*: two states x, x′ and a set B are chosen on the first half of the person's time, where they look most apart, and
  d̂ = P̂(x(t − lag) ∈ B | x(t) = x) − P̂(x(t − lag) ∈ B | x(t) = x′) is counted on the second half. Under the model its mean is at
  most Δ(lag), whatever was chosen.
- *at the same time of day*: each reading becomes "above" or "below" the person's own median of that time of day. d̂ is by how
  much "above" is likelier before "above" than before "below", counted within each time of day and then averaged. Whatever the
  medians are, under the model it is at most Δ(lag) within each time of day, by data processing; what only the clock explains cancels.

The model under-reports at a lag if the mean over units of d̂ − Δ(lag) lies above 0 beyond doubt: by a one-sided Student bound over
units, so nothing is assumed about how readings within a unit hang together, with 0.001 shared by all lags, sides and kinds
(Bonferroni). Where a unit rarely sees the less likely outcome, Student's bound trusts too few events; so its standard error is never
taken below that of a binomial count with z²/2 events added (Agresti and Coull 1998; known). The test is ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics import real, whole
from halflife.processes.base import Process
from halflife.processes.contraction import Floats
from halflife.processes.empirical import quantise_person
from halflife.processes.sequences import MISSING, States, read_sequences

FAMILY_WISE = 1e-3
FEWEST_UNITS, ENOUGH_UNITS = 8, 16
FEWEST_VISITS, FEWEST_STRETCHES = 30, 5
WIDEST = 0.25
"""A lag at which an excess of this much could have gone unseen says nothing."""
LEAST_DELTA = 1e-6
"""Factors are told up to 1 over this."""

Outcome = Literal["under-reports", "no contradiction found", "too little data"]
Kind = Literal["any time", "same time of day"]
KINDS: tuple[Kind, ...] = ("any time", "same time of day")


class Row(NamedTuple):
    """One lag, one kind.

    units           how many units had enough data
    model, largest  Δ(lag) of the model: mean over these units, and the largest, which is what a promise uses
    direct          mean of d̂, an estimate from below;  low, high  its simultaneous confidence interval
    excess          simultaneous lower bound on the mean of d̂ − Δ(lag)
    model_risk      what is left of ε = 1 by the model, the largest;  direct_risk  by the two frequencies behind d̂, the mean
    """

    kind: Kind
    lag: int
    units: int
    model: float
    largest: float
    direct: float
    low: float
    high: float
    excess: float
    model_risk: float
    direct_risk: float
    outcome: Outcome


@dataclass(frozen=True)
class Check:
    """What came of comparing a process with data.

    outcome  "under-reports", "no contradiction found" or "too little data";  rows  lag by lag, both kinds
    people, units   how many sequences, and into how many units they were cut at most
    """

    process: str
    outcome: Outcome
    rows: tuple[Row, ...]
    people: int
    units: int
    step_minutes: float
    family_wise: float = FAMILY_WISE

    @property
    def good(self) -> bool:
        """Whether the data was enough, and nothing in it contradicts the process."""
        return self.outcome == "no contradiction found"

    @property
    def worst(self) -> Row | None:
        """The row with the largest excess that is beyond doubt; None if there is none."""
        bad = [row for row in self.rows if row.outcome == "under-reports"]
        return max(bad, key=lambda row: row.excess) if bad else None

    @property
    def factor(self) -> float:
        """How many times the largest Δ of the model the average Δ of the data is, where it is worst; 1 if nothing was found.

        It is a factor from below, as the data's worst person is not the average one, and is told up to 10⁶.
        """
        worst = self.worst
        return 1.0 if worst is None else max(1.0, worst.direct / max(worst.largest, LEAST_DELTA))

    @property
    def verdict(self) -> str:
        """The outcome as a sentence."""
        tested = [row for row in self.rows if row.outcome != "too little data"]
        worst = self.worst
        if worst is not None:
            return self._contradicted(worst)
        if self.outcome == "too little data":
            return (
                f"Too little data: {len(tested)} of {len(self.rows)} comparisons had enough of it, so this says nothing about the "
                "process. Give more people or longer sequences."
            )
        longest, width = max(row.lag for row in tested), max((row.high - row.low) / 2 for row in tested)
        return (
            f"No contradiction found between the process and the data of {people_text(self.people)}, up to {self.ago(longest)} "
            f"back; an under-report of Δ by {width:.2f} or more, on average over people, would have been seen."
        )

    def _contradicted(self, worst: Row) -> str:
        bad = {row.lag for row in self.rows if row.outcome == "under-reports"}
        of = {row.lag for row in self.rows}
        when = "" if worst.kind == "any time" else ", with the time of day held fixed"
        times = f"{self.factor:,.0f}" if self.factor >= 10 else f"{self.factor:.1f}"
        says = f"{worst.model:.2g}"
        if worst.largest > 1.01 * worst.model:
            says += f" on average and {worst.largest:.2g} for the worst person"
        more = f", {times} times as much" if self.factor >= 1.05 else ""
        return (
            f"The process under-reports: {self.ago(worst.lag)} back{when}, it says Δ = {says}; the data says {worst.direct:.2f} on "
            f"average or more (at least {worst.low:.2f}){more}. Of a loss ε = 1 the process leaves {worst.model_risk:.2g} at most, "
            f"the data {worst.direct_risk:.2f} or more. {len(bad)} of {len(of)} lags contradict it."
        )

    def ago(self, lag: int) -> str:
        """Return a lag in human time."""
        return duration(lag * self.step_minutes)

    def summary(self) -> dict[str, Any]:
        """Return what certificates carry, as JSON can hold it."""
        worst = self.worst
        tested = [row for row in self.rows if row.outcome != "too little data"]
        found = {} if worst is None else {
            "worst": {
                "kind": worst.kind, "lag": worst.lag, "model": worst.model, "largest": worst.largest,
                "direct": worst.direct, "at_least": worst.low,
                "model_risk": worst.model_risk, "direct_risk": worst.direct_risk,
            },
        }  # fmt: skip
        return {
            "outcome": self.outcome,
            "good": self.good,
            "verdict": self.verdict,
            "factor": self.factor,
            "people": self.people,
            "units": self.units,
            "confidence": 1 - self.family_wise,
            "lags": sorted({row.lag for row in tested}),
            "kinds": [kind for kind in KINDS if any(row.kind == kind for row in tested)],
            **found,
        }

    def __str__(self) -> str:
        lines = [self.verdict, ""]
        for kind in KINDS:
            rows = [row for row in self.rows if row.kind == kind]
            if rows:
                lines += [kind, f"{'back':>12} {'model Δ':>9} {'direct':>7} {'interval':>15}  outcome"]
            for row in rows:
                span = "" if row.units < FEWEST_UNITS else f"[{row.low:.3f}, {row.high:.3f}]"
                lines.append(
                    f"{self.ago(row.lag):>12} {row.model:>9.3g} {row.direct:>7.3f} {span:>15}  {row.outcome}"
                )
        confidence = 100 * (1 - self.family_wise)
        lines.append(f"{people_text(self.people)}, up to {self.units} units; intervals hold together with {confidence:g} %")
        return "\n".join(lines)


def duration(minutes: float) -> str:
    """Return a span of time in its natural unit.

    >>> duration(30), duration(90), duration(1440), duration(10080)
    ('30 minutes', '1.5 hours', '24 hours', '7 days')
    """
    for size, unit in ((1440.0, "days"), (60.0, "hours")):
        if minutes >= (2 if unit == "days" else 1) * size:
            number = f"{minutes / size:.3g}"
            return f"{number} {unit if number != '1' else unit[:-1]}"
    return f"{minutes:.3g} minutes"


def people_text(people: int) -> str:
    """One person, two people."""
    return "1 person" if people == 1 else f"{people:,} people"


def check(
    process: Process,
    sequences: Any,
    *,
    states: int | Sequence[float] | None = None,
    lags: Sequence[int] | None = None,
    slots: int | None = 48,
    step_minutes: float = 30.0,
) -> Check:
    """Compare Δ(t) of a process with direct estimates on people's sequences.

    process       if it is a `Population` with as many members as there are sequences, each is compared with its own
    sequences     readings one step apart, a list a person; missing ones are None or NaN
    states        how readings become states, as in `quantise`; by default as the process was fitted, else the numbers are states.
                  For an autoregressive process six quantile states, of readings within one span.
    lags          in steps; by default up to 14 times `slots`, as far as the data goes
    slots         steps in a day, for the comparison with the time of day held fixed; None leaves it out
    step_minutes  how long a step is, for the text

    Both kinds look at functions of the state of the model, so what a state hides is not put to the test. What is found is an average
    over people: a few whose model is wrong among many whose is right may go unseen. A process with a clock of its own
    (`PeriodicMarkovChain`) is compared with the time of day held fixed only, as people do know the time.

    >>> from halflife.processes import MarkovChain
    >>> rng, chain = np.random.default_rng(1), MarkovChain([[0.9, 0.1], [0.2, 0.8]])
    >>> people = [chain.sample(2000, rng) for _ in range(20)]
    >>> chain.check(people, lags=[1, 4, 48]).good
    True
    >>> MarkovChain([[0.7, 0.3], [0.6, 0.4]]).check(people, lags=[1, 4, 48]).outcome
    'under-reports'
    """
    readings = read_sequences(sequences)
    day = None if slots is None else whole("slots", slots, least=2)
    minutes = real("step_minutes", step_minutes, positive=True)
    people = list(_people(process, readings, states))
    asked = _lags(lags, readings, day)
    kinds = [kind for kind in KINDS if kind == "any time" or day is not None]
    if any(hasattr(person.process, "kernels") for person in people):
        kinds = [kind for kind in kinds if kind == "same time of day"]
    if not kinds:
        raise InvalidInput("a process with a clock is compared with the time of day held fixed: give slots, the steps in its cycle")
    parts = -(-ENOUGH_UNITS // len(people))
    model = _Model(people, asked)
    sides = 2 * len(asked) * len(kinds)
    rows = tuple(
        _row(kind, k, lag, _seen(kind, people, k, lag, parts, day, model), model, FAMILY_WISE / sides)
        for kind in kinds
        for k, lag in enumerate(asked)
    )
    return Check(process.name, _outcome(rows), rows, len(people), parts * len(people), minutes)


def _outcome(rows: Sequence[Row]) -> Outcome:
    if any(row.outcome == "under-reports" for row in rows):
        return "under-reports"
    tested = sum(row.outcome != "too little data" for row in rows)
    return "no contradiction found" if 2 * tested >= len(rows) else "too little data"


# People and what the model says of them -----------------------------------------------------------------------------


class _Person(NamedTuple):
    """States then, the same now (without those that the model says nothing about), and how many there are."""

    process: Process
    then: States
    now: States
    count: int


def _people(process: Process, readings: list[Floats], states: Any) -> Iterator[_Person]:
    members = getattr(process, "processes", ())
    own = members if len(members) == len(readings) else [process] * len(readings)
    for i, (member, values) in enumerate(zip(own, readings, strict=True)):
        found = quantise_person(i, values, _states(member) if states is None else states)
        most = getattr(member, "states", None)
        if isinstance(most, int) and found.states.max() >= most:
            raise InvalidInput(
                f"sequence {i} holds state {found.states.max()}, but its process has states 0 to {most - 1}: say with `states` how "
                "readings become states"
            )
        now, span = found.states, getattr(member, "span", None)
        if span is not None:
            inside = np.abs(values - np.nanmedian(values)) <= span / 2
            now = np.where(inside, now, MISSING)
        yield _Person(member, found.states, now, found.state_count)


def _states(process: Process) -> Any:
    fitted = getattr(process, "fitted", None) or {}
    if hasattr(process, "span"):
        return 6
    return fitted.get("edges", fitted.get("states"))


def _lags(lags: Sequence[int] | None, readings: list[Floats], slots: int | None) -> list[int]:
    if lags is None:
        day = slots or 48
        grid = {2**k for k in range(day.bit_length() - 1)} | {day // 4, day // 2, 3 * day // 4}
        grid |= {day * k for k in range(1, 15)}
        longest = max(len(values) for values in readings) // (2 * FEWEST_STRETCHES)
        return sorted(lag for lag in grid if 1 <= lag <= max(1, longest))
    asked = sorted({whole("lag", lag, least=1) for lag in lags})
    if not asked:
        raise InvalidInput("give at least one lag, or none to have them chosen")
    for i, values in enumerate(readings):
        if len(values) <= asked[-1]:
            raise InvalidInput(f"sequence {i} has {len(values)} readings, too few for a lag of {asked[-1]}")
    return asked


class _Model:
    """Δ(lag) and what is left of ε = 1, by person and lag; and after how many steps the model says that things are forgotten."""

    def __init__(self, people: list[_Person], lags: list[int]) -> None:
        each = {id(person.process): person.process for person in people}
        delta = {key: np.array([one.total_variation(lag) for lag in lags]) for key, one in each.items()}
        left = {key: np.array([one.amplify(1.0, lag) for lag in lags]) for key, one in each.items()}
        self.delta = np.array([delta[id(person.process)] for person in people])
        self.risk = np.array([left[id(person.process)] for person in people])
        before = np.concatenate([np.ones((len(people), 1)), self.delta[:, :-1]], axis=1)
        forgotten = 1 + np.cumsum(before * np.diff([0, *lags]), axis=1)  # at least the sum of Δ(s) over s < lag
        self.stretch = np.ceil(np.minimum(forgotten, np.array(lags))).astype(np.int64)


# What the data says -------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """One unit: the two frequencies whose difference is d̂, and on how many stretches that tell something new each rests."""

    person: int
    upper: float
    lower: float
    upper_count: int
    lower_count: int


def _seen(
    kind: Kind, people: list[_Person], k: int, lag: int, parts: int, slots: int | None, model: _Model
) -> list[_Seen]:
    found: list[_Seen] = []
    for i, person in enumerate(people):
        if person.count > 1 and lag < len(person.then):
            stretch = int(model.stretch[i, k])
            seen = _at_any_time if slots is None or kind == "any time" else _at_the_same_time
            found.extend(seen(i, person, lag, parts, stretch, slots or 1))
    return found


def _at_any_time(i: int, person: _Person, lag: int, parts: int, stretch: int, slots: int) -> Iterator[_Seen]:
    half = len(person.then) // 2
    if lag >= half:
        return
    chosen = _choose(_counts(person.now[lag:half], person.then[: half - lag], person.count))
    if chosen is None:
        return
    x, other, inside = chosen
    now, then = person.now[half + lag :], person.then[half : len(person.then) - lag]
    now = np.where(then >= 0, now, MISSING)
    hit = inside[then]
    for part in np.array_split(np.arange(len(now)), parts):
        upper, lower = part[now[part] == x], part[now[part] == other]
        counts = _stretches(upper, stretch), _stretches(lower, stretch)
        if min(len(upper), len(lower)) >= FEWEST_VISITS and min(counts) >= FEWEST_STRETCHES:
            yield _Seen(i, float(hit[upper].mean()), float(hit[lower].mean()), *counts)


def _at_the_same_time(i: int, person: _Person, lag: int, parts: int, stretch: int, slots: int) -> Iterator[_Seen]:
    above = _above(person.then, slots)
    then = above[:-lag]
    now = np.where((person.now[lag:] >= 0) & (then >= 0), above[lag:], MISSING)
    slot = np.arange(lag, len(above)) % slots
    for part in np.array_split(np.arange(len(now)), parts):
        known = part[now[part] >= 0]
        cells = np.bincount(slot[known] * 4 + now[known] * 2 + then[known], minlength=4 * slots)
        counts = cells.reshape(slots, 2, 2)  # [slot, now, then]
        visits = counts.sum(axis=2)
        both = visits.min(axis=1) > 0
        news = tuple(_stretches(known[now[known] == side], stretch) for side in (1, 0))
        if visits[both].sum(axis=0).min(initial=FEWEST_VISITS) >= FEWEST_VISITS and both.any() and min(news) >= FEWEST_STRETCHES:
            weights = visits[both].prod(axis=1) / visits[both].sum(axis=1)
            shares = (counts[both, :, 1] / visits[both] * weights[:, None]).sum(axis=0) / weights.sum()
            yield _Seen(i, float(shares[1]), float(shares[0]), *news)


def _above(states: States, slots: int) -> States:
    """1 where a state lies above the median of its time of day, 0 elsewhere, −1 where it is missing."""
    padded = np.full(-(-len(states) // slots) * slots, np.nan)
    padded[: len(states)] = np.where(states >= 0, states, np.nan)
    days = padded.reshape(-1, slots)
    some = np.isfinite(days).any(axis=0)
    middle = np.zeros(slots)
    middle[some] = np.nanmedian(days[:, some], axis=0)
    above = np.where(np.isnan(days), MISSING, days > middle).astype(np.int64)
    return above.ravel()[: len(states)]


def _counts(now: States, then: States, count: int) -> NDArray[np.int64]:
    both = (now >= 0) & (then >= 0)
    return np.bincount(now[both] * count + then[both], minlength=count * count).reshape(count, count)


def _choose(counts: NDArray[np.int64]) -> tuple[int, int, NDArray[np.bool_]] | None:
    """Return the two rows that look most apart after what chance alone would show is taken off, and the set where the first leads."""
    from scipy.spatial.distance import cdist

    visits = counts.sum(axis=1)
    usable = np.flatnonzero(visits >= FEWEST_VISITS)
    if len(usable) < 2:
        return None
    rows = counts[usable] / visits[usable, None]
    chance = 0.4 * np.sqrt(len(counts) / visits[usable])
    apart = cdist(rows, rows, "cityblock") / 2 - chance[:, None] - chance[None, :]
    np.fill_diagonal(apart, -np.inf)
    first, second = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return int(usable[first]), int(usable[second]), rows[first] > rows[second]


def _stretches(places: NDArray[np.int64], stretch: int) -> int:
    """How many stretches of that many steps hold one of these places, which ascend."""
    return 0 if not len(places) else 1 + int(np.count_nonzero(np.diff(places // stretch)))


# The test -----------------------------------------------------------------------------------------------------------


def _row(kind: Kind, k: int, lag: int, seen: list[_Seen], model: _Model, alpha: float) -> Row:
    who = [unit.person for unit in seen]
    delta, risk = model.delta[who, k], model.risk[who, k]
    if len(seen) < FEWEST_UNITS:
        largest = float(model.delta[:, k].max())
        nothing = (len(seen), float(model.delta[:, k].mean()), largest, math.nan, 0.0, 1.0, -1.0)
        return Row(kind, lag, *nothing, float(model.risk[:, k].max()), math.nan, "too little data")
    from scipy.special import stdtrit

    upper, lower = np.array([u.upper for u in seen]), np.array([u.lower for u in seen])
    z = float(stdtrit(len(seen) - 1, 1 - alpha))
    direct = upper - lower
    floor = math.hypot(
        _binomial(upper, sum(u.upper_count for u in seen), z), _binomial(lower, sum(u.lower_count for u in seen), z)
    )
    width = z * max(float(direct.std(ddof=1)) / math.sqrt(len(seen)), floor)
    apart = z * max(float((direct - delta).std(ddof=1)) / math.sqrt(len(seen)), floor)
    excess, mean = float((direct - delta).mean()) - apart, float(direct.mean())
    blind = apart > WIDEST and float(delta.mean()) + WIDEST < 1
    outcome: Outcome = (
        "under-reports" if excess > 0 else "too little data" if blind else "no contradiction found"
    )
    left = np.log1p(math.expm1(1.0) * upper) - np.log1p(math.expm1(1.0) * lower)
    return Row(
        kind, lag, len(seen), float(delta.mean()), float(delta.max()), mean, max(0.0, mean - width), min(1.0, mean + width),
        excess, float(risk.max()), float(left.mean()), outcome,
    )  # fmt: skip


def _binomial(shares: Floats, count: int, z: float) -> float:
    """The standard error of a pooled share, with z²/2 events of either outcome added."""
    share = (float(shares.mean()) * count + z * z / 2) / (count + z * z)
    return math.sqrt(share * (1 - share) / (count + z * z))
