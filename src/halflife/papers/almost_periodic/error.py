"""The almost-periodic paper: what is published (Figures 7 and 9), its error against ε (Figures 8 and 10), and the gain.

The relative error is the paper's: √E(y − f)² / max_t |f|. Expectations are over the noise, and where noise differs between the
first period and later ones, over the horizon too. In closed form they follow from the noise scales; a seeded simulation that runs
the paper's own recursion stands beside them.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.mechanisms.reused import ReusedNoise
from halflife.mechanisms.simulated_draw import SimulatedDraw
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.notions.classical import Classical
from halflife.numerics.arrays import Floats
from halflife.papers.almost_periodic.homes import DAY, WEEK, Stream, first_monday
from halflife.papers.figures import DASH, DASHDOT, DOT, SOLID, Curve, Panel

EPSILON = 5.0
"""Of Figures 7 and 9."""
EPSILONS = tuple(sorted({EPSILON, *(float(f"{e:.3g}") for e in np.geomspace(0.1, 100, 13))}))
CHECKED = (0.1, 1.0, EPSILON, 10.0, 100.0)
"""Where the closed form is checked by simulation."""
RUNS, LOT = 200, 25

WEAK, STRONG, PAPER, SPLIT = (
    "weak (Theorem 5)",
    "strong (corrected, C1)",
    "strong (paper, Corollary 8): UNSOUND",
    "splitting ε over the horizon",
)
MECHANISMS = (WEAK, STRONG, PAPER, SPLIT)
STYLES = {WEAK: (0, SOLID), STRONG: (2, DASH), PAPER: (1, DASHDOT), SPLIT: (6, DOT)}


class Ranges(NamedTuple):
    """Δf_z of patterns, Δf_w of variations, and Δf of the value itself, which splitting ε must hide."""

    z: float
    w: float
    x: float


def public_ranges(stream: Stream) -> Ranges:
    """Return the sensitivities that follow from the public bound alone."""
    return Ranges(stream.sensitivity, stream.sensitivity, stream.sensitivity)


def read_off_ranges(stream: Stream) -> Ranges | None:
    """Return them as the paper has them, from the ranges that the data shows: no bounds, so nothing is promised."""
    return None if stream.read_off is None else Ranges(*(value / stream.homes for value in stream.read_off))


# Closed form --------------------------------------------------------------------------------------------------------


class Scales(NamedTuple):
    """Noise scales of a mechanism: of what is drawn in the first period and reused, and of fresh noise then and later."""

    reused: float
    fresh_first: float
    fresh_later: float


def noise_scales(mechanism: str, epsilon: float, ranges: Ranges, period: int, horizon: int) -> Scales:
    """Return the noise scales: from halflife's plans, and for Corollary 8, which the plans refuse, as printed.

    >>> noise_scales(PAPER, 1.0, Ranges(1.0, 0.5, 1.0), 2, 10)
    Scales(reused=3.0, fresh_first=0.0, fresh_later=1.0)
    """
    if mechanism == WEAK:
        return Scales(AlmostPeriodic(epsilon, period).plan(ranges.z).scale(1), 0.0, 0.0)
    if mechanism == STRONG:
        plan = AlmostPeriodic(epsilon, period, strong=True).plan(ranges.z, variation_sensitivity=ranges.w)
        fresh, reused = plan.layers(1)
        return Scales(reused, fresh, fresh)
    if mechanism == PAPER:
        return Scales(period * (ranges.z + ranges.w) / epsilon, 0.0, period * ranges.w / epsilon)
    split = Classical(epsilon).plan(ranges.x, horizon=horizon, method="constant").scale(1)
    return Scales(0.0, split, split)


def root_mean_square(scales: Scales, period: int, horizon: int) -> float:
    """√E(y − f)² over the horizon: 2b² for each Laplace noise of scale b.

    >>> round(root_mean_square(Scales(3.0, 0.0, 4.0), 10, 20), 6)  # 18 in the first half, 18 + 32 in the second
    5.830952
    """
    first = min(period, horizon) / horizon
    fresh = first * scales.fresh_first**2 + (1 - first) * scales.fresh_later**2
    return math.sqrt(2 * (scales.reused**2 + fresh))


def relative_error(mechanism: str, epsilon: float, ranges: Ranges, stream: Stream, period: int = DAY) -> float:
    """Return √E(y − f)² / max_t |f| in closed form."""
    scales = noise_scales(mechanism, epsilon, ranges, period, stream.horizon)
    return root_mean_square(scales, period, stream.horizon) / float(np.abs(stream.mean).max())


# Simulation ---------------------------------------------------------------------------------------------------------


def simulated_error(
    mechanism: str, epsilon: float, ranges: Ranges, stream: Stream, seed: int, runs: int = RUNS, period: int = DAY
) -> float:
    """Return the same from `runs` years of noise, with y made as the paper makes it: z and w apart, and y(t mod T) reused."""
    rng = np.random.default_rng(seed)
    scales = noise_scales(mechanism, epsilon, ranges, period, stream.horizon)
    f = stream.mean[: stream.horizon // period * period].reshape(-1, period)
    squares = 0.0
    for begun in range(0, runs, LOT):
        y = publish_runs(f, scales, rng, min(LOT, runs - begun))
        squares += float(((y - f) ** 2).sum())
    return math.sqrt(squares / (runs * f.size)) / float(np.abs(stream.mean).max())


def publish_runs(f: Floats, scales: Scales, rng: np.random.Generator, runs: int) -> Floats:
    """Return y of Theorem 5, or with fresh noise of Corollary 8 (or C1), runs × periods × phases; f is periods × phases.

    y(t) = f(x(t)) + v(t) in the first period, then y(t) = y(t mod T) − f(w(t mod T)) + f(w(t)). Fresh noise is added last.
    """
    w, (periods, phases) = f - f.mean(axis=0), f.shape
    first = f[0] + rng.laplace(0.0, scales.reused, (runs, 1, phases))
    y: Floats = first - w[0] + w
    y[:, 0] += rng.laplace(0.0, scales.fresh_first, (runs, phases))
    y[:, 1:] += rng.laplace(0.0, scales.fresh_later, (runs, periods - 1, phases))
    return y


# Figures 8 and 10 ---------------------------------------------------------------------------------------------------


class ErrorRow(NamedTuple):
    """The relative error of one mechanism at one ε: in closed form, and simulated where it was (NaN elsewhere)."""

    stream: str
    mechanism: str
    epsilon: float
    closed: float
    simulated: float
    read_off: float


def error_data(
    stream: Stream, seed: int = 1, runs: int = RUNS, progress: Callable[[str], None] = lambda what: None
) -> list[ErrorRow]:
    """Return the relative errors of every mechanism; `read_off` is with the paper's way to sensitivities, NaN without homes.

    (Figure 8; recomputed), (Figure 10; recomputed on London's homes)
    """
    public, seen = public_ranges(stream), read_off_ranges(stream)
    rows = []
    for place, mechanism in enumerate(MECHANISMS):
        progress(mechanism)
        for i, epsilon in enumerate(EPSILONS):
            closed = relative_error(mechanism, epsilon, public, stream)
            found = math.nan
            if epsilon in CHECKED:
                found = simulated_error(mechanism, epsilon, public, stream, _seed(seed, stream.homes, place, i), runs)
            other = math.nan if seen is None else relative_error(mechanism, epsilon, seen, stream)
            rows.append(ErrorRow(stream.name, mechanism, epsilon, closed, found, other))
    return rows


def _seed(seed: int, *place: int) -> int:
    return int(np.random.SeedSequence([seed, *place]).generate_state(1)[0])


def error_panels(figure: str, stream: Stream, rows: Sequence[ErrorRow]) -> tuple[Panel, ...]:
    """Draw the errors: with the public bound, and where single homes are at hand as the paper does."""
    x = np.array(EPSILONS)
    by = {m: [row for row in rows if row.mechanism == m] for m in MECHANISMS}
    lines = [Curve(m, np.array([row.closed for row in by[m]]), *STYLES[m]) for m in MECHANISMS]
    marks = [
        Curve(f"simulated: {m.split(':')[0]}", np.array([row.simulated for row in by[m]]), STYLES[m][0], marks=True)
        for m in MECHANISMS
    ]
    title, x_title, y_title = "relative error against ε", "ε (log)", "√E(y − f)² / max |f| (log)"
    public = Panel(
        f"{figure}a" if stream.read_off else figure, f"{title}: {stream.name}",
        f"Sensitivities from a public bound: {stream.bound:g} kWh per half hour over {stream.homes:,} homes for z, w and x "
        f"alike ({stream.bound_why}). Lines are the closed form, rings the simulation. Corollary 8 promises what it does not "
        "keep (P1), and needs more noise than C1, which does.", x_title, y_title, x, (*lines, *marks), log_x=True, log_y=True,
    )  # fmt: skip
    if stream.read_off is None:
        return (public,)
    seen = stream.read_off
    theirs = [Curve(m, np.array([row.read_off for row in by[m]]), *STYLES[m]) for m in MECHANISMS]
    return public, Panel(
        f"{figure}b", f"{title}, with ranges read off the data", f"As the paper has it: z ranges over {seen.z:.2f} kWh, w over "
        f"{seen.w:.2f}, x over {seen.x:.2f} in the data itself. Ranges read off the data are no bounds: nothing is promised "
        "here.",
        x_title, y_title, x, tuple(theirs), log_x=True, log_y=True,
    )  # fmt: skip


# Figures 7 and 9 ----------------------------------------------------------------------------------------------------


def outcome_panel(figure: str, stream: Stream, seed: int = 1) -> Panel:
    """Return a week of what Theorem 5 publishes at ε = 5: with the public bound, with the range of z read off the data, exact.

    (Figure 7; recomputed), (Figure 9; recomputed on London's homes)
    """
    days = stream.horizon // DAY
    day = min(first_monday(stream.start, days // 2), max(0, days - 7))
    week = range(day * DAY, min(day * DAY + WEEK, stream.horizon))
    exact = stream.mean[week.start : week.stop]
    y = outcome(stream, stream.sensitivity, week, seed)
    curves = [Curve(f"published, ε = {EPSILON:g}, public bound", y, 1)]
    seen = read_off_ranges(stream)
    if seen is not None:
        theirs = outcome(stream, seen.z, week, seed)
        curves.append(Curve("published, range read off: no promise", theirs, 2, DOT))
    curves.append(Curve("exact", exact))
    first = stream.start + datetime.timedelta(days=day)
    noise = noise_scales(WEAK, EPSILON, public_ranges(stream), DAY, stream.horizon).reused
    return Panel(
        figure, f"what Theorem 5 publishes, ε = {EPSILON:g}: {stream.name}",
        f"One week. With the public bound the noise has a scale of {noise:.2g} kWh, where the mean is {exact.mean():.2g}. It is "
        "the same every day, so its shape repeats, and changes from day to day are exact.",
        f"days from {first:%A, %-d %B %Y}", "kWh per home and half hour", np.arange(len(exact)) / DAY, tuple(curves),
    )  # fmt: skip


def outcome(stream: Stream, sensitivity: float, places: range, seed: int) -> Floats:
    """Return what halflife's own mechanism publishes at these places (from 0), with seeded noise drawn on the first day."""
    notion = AlmostPeriodic(EPSILON, DAY)
    mechanism, draw = (
        ReusedNoise(notion.plan(sensitivity)),
        SimulatedDraw([Accountant(notion)], _seed(seed, stream.homes)),
    )
    wanted = sorted({*range(DAY), *places})
    outputs = draw.run_batch(mechanism, [at + 1 for at in wanted], stream.mean[wanted].tolist())
    y = dict(zip(wanted, outputs, strict=True))
    return np.array([float(y[at][0]) for at in places])


# The gain -----------------------------------------------------------------------------------------------------------

ABSTRACT = 200
"""What the abstract says of the gain: "approximately 200 folds in terms of the standard deviation of the DP noise"."""


class Gain(NamedTuple):
    """How many times less noise than with ε split over the horizon, at equal sensitivities: horizon / T for Theorem 5."""

    data: str
    days: int
    horizon: int
    printed_horizon: int
    weak: float
    strong: float
    corollary_8: float


PERIODS_OF = {
    "Ausgrid": (datetime.date(2012, 7, 1), datetime.date(2013, 6, 30), 16_752),
    "UMass": (datetime.date(2016, 1, 1), datetime.date(2016, 12, 14), 17_520),
}
"""First and last day that the paper uses of each set, and the horizon that it prints beside it (swapped: P2)."""


def gain_data() -> list[Gain]:
    """Return the gain for the days of both sets.

    >>> [(g.data, g.days, round(g.weak)) for g in gain_data()]
    [('Ausgrid', 365, 365), ('UMass', 349, 349)]
    """
    found = []
    for name, (first, last, printed) in PERIODS_OF.items():
        days = (last - first).days + 1
        horizon, equal = days * DAY, Ranges(1.0, 1.0, 1.0)
        size = {m: root_mean_square(noise_scales(m, 1.0, equal, DAY, horizon), DAY, horizon) for m in MECHANISMS}
        weak, strong, paper = (size[SPLIT] / size[m] for m in (WEAK, STRONG, PAPER))
        found.append(Gain(name, days, horizon, printed, weak, strong, paper))
    return found
