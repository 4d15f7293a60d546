"""The age-dependent paper on electricity: Figure 7, the table of risks by age, and what the model misses (A7, A8).

One chain is fitted to each home (its own quantile states, tied ones merged), and the worst home counts, as in eq. 55. "12
intervals" can also mean intervals of equal width, and eq. 55 then says something from another age on: both are computed. Beside
it are direct kernels: x(t − lag) given x(t), counted at each lag, without a model. Point estimates are no bounds: rare states
make them too large, and what chance does to them is shown by shuffling.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from halflife.lab.households.readings import MAX_KWH, SLOTS_PER_DAY, simulate
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.papers.age_dependent.trade_off import crude, errors_of, trade_off
from halflife.papers.figures import DASH, DASHDOT, DOT, SOLID, Curve, Panel, read_london
from halflife.processes import EmpiricalProcess, MarkovChain, ProcessFamily
from halflife.processes.check import Check
from halflife.processes.contraction import Frontier, contract, merge, theorem_1

HOMES, LEAST_READINGS = 40, 17_000
LONG = "lcl_long_5_households.parquet"
"""Five homes over 16 to 22 months, about as long as the paper's."""
PAPER_HOURS = 18.0
"""From which age on eq. 55 is below 1, by the paper."""
STATES, FEW_STATES = 12, 6
CONFIDENCE, SHUFFLE = 0.99, 1
"""How sure direct bounds are, all together; and the seed of what is shuffled to see what chance does."""
LAGS = 96
"""Two days of half hours."""
A_DAY, A_WEEK = SLOTS_PER_DAY, 7 * SLOTS_PER_DAY
EPSILONS = (1.0, 2.0, 4.0)
LOSS_EPSILONS = (1.0, 2.0, 4.0)
RISKS = tuple(float(f"{r:.3g}") for r in np.geomspace(0.02, 4.0, 26))

WHERE_TO_GET = (
    "The real data is not here. The London Datastore publishes it as 'SmartMeter Energy Consumption Data in London "
    "Households'; give the folder with --data or HALFLIFE_DATA. Running on generated homes."
)


@dataclass(frozen=True, eq=False)
class Source:
    """Readings of some homes, half hour by half hour, NaN where one is missing: `homes[i, t]` in kWh.

    long  other homes, each over as long as there is
    """

    name: str
    homes: Floats
    notes: tuple[str, ...]
    real: bool
    long: tuple[Floats, ...] = ()

    @property
    def mean(self) -> Floats:
        """The mean per home of each half hour, each reading clipped to a public bound."""
        result: Floats = np.nanmean(np.clip(self.homes, 0.0, MAX_KWH), axis=0)
        return result

    @property
    def sensitivity(self) -> float:
        """How far one home can move the mean."""
        return MAX_KWH / len(self.homes)


def real_source(folder: Path) -> Source:
    """Return the first 40 homes, by id, with at least 17,000 readings in 2013 (the rule of A7)."""
    homes = read_london(folder, LEAST_READINGS, HOMES)
    notes = (
        "The homes are the first 40, by id, with at least 17,000 readings in 2013; the paper does not say which 40 it took, "
        "nor how it cut readings into 12 intervals. Where nothing else is said each home has 12 quantile states of its own, "
        "tied ones merged; eq. 55 is also drawn for intervals of equal width over the range of all homes.",
    )
    return Source("London, 40 homes, 2013", homes, notes, True, read_long(folder))


def read_long(folder: Path) -> tuple[Floats, ...]:
    """Return the homes with readings of more than a year, NaN where one is missing; none if the file is not there.

    Readings off the half-hour grid and without a value are left out; what is there twice, with equal values, counts once.
    """
    if not (folder / LONG).exists():
        return ()
    import duckdb

    with duckdb.connect() as database:
        rows = database.execute(
            "SELECT dense_rank() OVER (ORDER BY lclid) - 1 AS home, kwh, "
            "(epoch(ts) - min(epoch(ts)) OVER (PARTITION BY lclid))::BIGINT // 1800 AS slot "
            "FROM read_parquet(?) WHERE kwh IS NOT NULL AND epoch(ts)::BIGINT % 1800 = 0",
            [str(folder / LONG)],
        ).fetchnumpy()
    homes = []
    for i in range(int(rows["home"].max()) + 1):
        mine = rows["home"] == i
        home = np.full(int(rows["slot"][mine].max()) + 1, np.nan)
        home[rows["slot"][mine]] = rows["kwh"][mine]
        homes.append(home)
    return tuple(homes)


def generated_source(seed: int, homes: int = HOMES, days: int = 365) -> Source:
    """Return as many generated homes."""
    town = simulate(homes, days, datetime.datetime(2013, 1, 1), seed)
    return Source(f"{homes:,} generated homes (seed {seed})", town.kwh, (WHERE_TO_GET,), False)


# What is fitted and counted -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fitted:
    """Chains and direct kernels of every home.

    model, few     one chain a home, with 12 states (Figure 7) and with 6 (A7)
    equal          one chain a home, with up to 12 states of equal width over the range of all homes
    direct, plain  direct kernels of each home with 12 states, and with 6 at the lag of one day
    chance         the same with 12 states and all readings of a home in random order: what counting shows where nothing is told
    """

    source: Source
    model: ProcessFamily
    few: ProcessFamily
    equal: tuple[MarkovChain, ...]
    direct: tuple[EmpiricalProcess, ...]
    plain: tuple[EmpiricalProcess, ...]
    chance: tuple[EmpiricalProcess, ...]
    check: Check


def fit(source: Source, progress: Progress = lambda what, done, total: None) -> Fitted:
    """Fit and count everything; all direct bounds hold together with 99 %."""
    homes, total = list(source.homes), len(source.homes) + 3
    sure = 1 - (1 - CONFIDENCE) / len(homes)
    progress("fitting chains", 0, total)
    model, few = ProcessFamily.fit(homes, STATES), ProcessFamily.fit(homes, FEW_STATES)
    direct = []
    for i, home in enumerate(homes):
        progress(f"counting home {i + 1} of {len(homes)}", 1 + i, total)
        direct.append(EmpiricalProcess.fit([home], STATES, LAGS, sure))
    progress("counting a day back", total - 2, total)
    plain = tuple(EmpiricalProcess.fit([home], FEW_STATES, A_DAY, sure) for home in homes)
    rng = np.random.default_rng(SHUFFLE)
    chance = tuple(EmpiricalProcess.fit([rng.permutation(home)], STATES, 1, sure) for home in homes)
    progress("checking the model", total - 1, total)
    return Fitted(source, model, few, cut_equally(homes), tuple(direct), plain, chance, few.check(homes))


def eq_55(chains: Sequence[MarkovChain], t: int) -> float:
    """min{1, max √((1 − π)/π) λ*^t} over homes, as the paper computes it. **Not a bound here** (erratum A8).

    Proposition 5 is about reversible chains. λ* is the second largest |eigenvalue| of the matrix as it is.

    >>> round(eq_55([MarkovChain([[0.9, 0.1], [0.1, 0.9]])], 3), 6)
    0.512
    """
    several = [chain for chain in chains if chain.states > 1]
    return (
        min(1.0, max((_first(chain) * _second_eigenvalue(chain) ** t for chain in several), default=0.0)) if t else 1.0
    )


def _first(chain: MarkovChain) -> float:
    least = float(chain.stationary.min())
    return math.sqrt((1 - least) / least)


def _second_eigenvalue(chain: MarkovChain) -> float:
    return float(np.sort(np.abs(np.linalg.eigvals(chain.matrix)))[-2])


def cut_equally(homes: Sequence[Floats], states: int = STATES) -> tuple[MarkovChain, ...]:
    """Fit a chain to each home, whose states are intervals of equal width from 0 to the largest reading of all homes.

    Intervals that a home never is in are no states of it; a home that is always in one has one state.

    >>> [chain.states for chain in cut_equally([np.array([0.0, 3.0, 12.0, 0.0, 3.0]), np.array([0.1, 0.2, 0.1])])]
    [3, 1]
    """
    edges = np.linspace(0.0, max(float(np.nanmax(home)) for home in homes), states + 1)[1:-1]
    chains = []
    for home in homes:
        visited = np.unique(np.digitize(home[np.isfinite(home)], edges))
        own = edges[visited[1:] - 1].tolist()
        chains.append(MarkovChain.fit([home], own) if own else MarkovChain([[1.0]]))
    return tuple(chains)


class Crossing(NamedTuple):
    """From which age on eq. 55 is below 1, for some homes whose readings are cut into 12 states in one way."""

    homes: str
    states: str
    hours: float


def crossing_data(fitted: Fitted) -> list[Crossing]:
    """Return when eq. 55 begins to say anything, by what "12 intervals" may mean: max over homes of ln √((1 − π)/π) / −ln λ*."""
    source = fitted.source
    found = [
        Crossing(source.name, "quantiles of each home", _crossing(chains_of(fitted.model))),
        Crossing(source.name, "equal width, range of all homes", _crossing(fitted.equal)),
    ]
    if source.long:
        name, homes = f"{len(source.long)} other homes, 16 to 22 months", list(source.long)
        quantiles = chains_of(ProcessFamily.fit(homes, STATES))
        found += [
            Crossing(name, "quantiles of each home", _crossing(quantiles)),
            Crossing(name, "equal width, range of all homes", _crossing(cut_equally(homes))),
        ]
    return found


def _crossing(chains: Sequence[MarkovChain]) -> float:
    several = [chain for chain in chains if chain.states > 1]
    steps = [math.log(_first(chain)) / -math.log(_second_eigenvalue(chain)) for chain in several]
    return max(steps, default=0.0) / 2


def chains_of(people: ProcessFamily) -> list[MarkovChain]:
    """Return a population's chains."""
    return [one for one in people.processes if isinstance(one, MarkovChain)]


# The table ----------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What is left of a loss at one age, seven ways.

    eq_55      Theorem 1 with eq. 55, which is not valid for these chains (A8);  exact  Theorem 1 with the model's exact Δ
    equal      as eq_55, with states of equal width
    tight      K_t of the model (T3);  median, worst  K of the kernel counted at this lag, of the middle and of the worst home
    promised   what the counts can promise with 99 %: the worst home, and the worst lag from this age to two days
    """

    epsilon: float
    hours: float
    eq_55: float
    exact: float
    tight: float
    median: float
    worst: float
    promised: float
    equal: float


class Chance(NamedTuple):
    """What is counted as left of ε_C where nothing is: of the middle home, and of the worst."""

    epsilon: float
    median: float
    worst: float


def chance_data(fitted: Fitted, epsilons: Sequence[float] = EPSILONS) -> list[Chance]:
    """Return how far up chance alone moves the direct estimates: readings in random order, lag 1."""
    found = {e: [contract(home.estimate(1), e) for home in fitted.chance] for e in epsilons}
    return [Chance(e, float(np.median(homes)), max(homes)) for e, homes in found.items()]


def table_data(
    fitted: Fitted, epsilons: Sequence[float] = EPSILONS, lags: Sequence[int] = range(1, LAGS + 1)
) -> list[Row]:
    """Return risks by age, for each ε_C and lag in half hours."""
    chains = chains_of(fitted.model)
    found = []
    for lag in lags:
        variation, equal = eq_55(chains, lag), eq_55(fitted.equal, lag)
        for epsilon in epsilons:
            homes = [contract(home.estimate(lag), epsilon) for home in fitted.direct]
            found.append(
                Row(
                    epsilon, lag / 2, theorem_1(variation, epsilon), fitted.model.amplify(epsilon, lag, "theorem1"),
                    fitted.model.amplify(epsilon, lag), float(np.median(homes)), max(homes),
                    max(home.amplify(epsilon, lag) for home in fitted.direct), theorem_1(equal, epsilon),
                )
            )  # fmt: skip
    return sorted(found, key=lambda row: (row.epsilon, row.hours))


# Figure 7 -----------------------------------------------------------------------------------------------------------


def staleness(series: Floats, lag: int) -> float:
    """The mean squared change of a series over exactly this many steps."""
    return float(np.nanmean((series[lag:] - series[: len(series) - lag]) ** 2)) if lag else 0.0


def figure_7_data(fitted: Fitted, rows: Sequence[Row]) -> tuple[Panel, ...]:
    """(a) Error of the delayed mean by age, (b) risk by age for each ε_C, (c) the best of both (Figure 7; recomputed)."""
    return (_loss_by_age(fitted.source), *(_risk_by_age(rows, e) for e in EPSILONS), _best(fitted))


def _loss_by_age(source: Source) -> Panel:
    lags = range(LAGS + 1)
    stale = np.array([staleness(source.mean, lag) for lag in lags])
    curves = [
        Curve(f"ε_C = {epsilon:g}", stale + 2 * (source.sensitivity / epsilon) ** 2, i)
        for i, epsilon in enumerate(LOSS_EPSILONS)
    ]
    curves.append(Curve("without noise", stale, 6, DOT))
    said = (
        f"The mean of {len(source.homes)} homes, each reading clipped to {MAX_KWH:g} kWh (ours), published late with Laplace "
        "noise. The mean repeats itself after a day, so data a day old is better than data half a day old."
    )
    y_title = "mean squared error (kWh²)"
    return Panel("7a", "Accuracy loss by age", said, "age (hours)", y_title, np.array(lags) / 2, tuple(curves))


def _risk_by_age(rows: Sequence[Row], epsilon: float) -> Panel:
    mine = [row for row in rows if row.epsilon == epsilon]
    x = np.array([0.0, *(row.hours for row in mine)])
    styles = (
        ("eq_55", "paper: eq. 55, quantiles (no bound: A8)", 0, DASH),
        ("equal", "paper: eq. 55, equal width (no bound: A8)", 5, DASH),
        ("exact", "model: exact Δ, Theorem 1", 2, DOT),
        ("tight", "model: tight", 1, SOLID),
        ("median", "counted, no model: middle home", 3, SOLID),
        ("worst", "counted, no model: worst home", 4, DASHDOT),
    )
    curves = tuple(
        Curve(name, np.array([epsilon, *(getattr(row, field) for row in mine)]), colour, dash)
        for field, name, colour, dash in styles
    )
    day = next((row for row in mine if row.hours == 24), mine[-1])
    said = (
        f"ε_C = {epsilon:g}. At {day.hours:g} h the model leaves {day.tight:.3g}; counted directly it is {day.median:.2g} "
        f"for the middle home and {day.worst:.2g} for the worst (A7)."
    )
    return Panel(f"7b, ε_C = {epsilon:g}", "Risk by age", said, "age (hours)", "risk (nats)", x, curves)


def _best(fitted: Fitted) -> Panel:
    """Figure 7c: the least error of one release at each risk, with the risk counted in five ways."""
    source, chains, ages = fitted.source, chains_of(fitted.model), range(LAGS + 1)
    mean = source.mean
    stale = [staleness(mean, lag) for lag in ages]

    def error(age: int, epsilon: float) -> float:
        return stale[age] + 2 * (source.sensitivity / epsilon) ** 2

    now = fitted.model.frontier(0)
    ways = (
        *(
            (
                f"paper: eq. 55, {cut} (not valid here, A8)",
                [now._replace(d=np.array([eq_55(c, t)])) for t in ages],
                i,
                DASH,
            )
            for cut, c, i in (("quantiles", chains, 0), ("equal width", fitted.equal, 5))
        ),
        ("model: exact Δ, Theorem 1", [crude(fitted.model.frontier(t)) for t in ages], 2, DOT),
        ("model: tight", [fitted.model.frontier(t) for t in ages], 1, SOLID),
        ("counted, no model: worst home", [now, *(_worst_home(fitted, t) for t in ages[1:])], 4, DASHDOT),
    )
    curves = [Curve("noise only", np.array([error(0, r) for r in RISKS]), 6, DOT)]
    for name, each, colour, dash in ways:
        best = trade_off(RISKS, dict(zip(ages, each, strict=True)), error)
        curves.append(Curve(name, errors_of(best), colour, dash))
    said = (
        "The least error of one release at each risk, over ages up to two days. By the model a small risk costs a bounded "
        "error; by what is counted for the worst home, aging buys far less."
    )
    return Panel("7c", "Trade-off", said, "risk (nats, log)", "mean squared error (kWh², log)", np.array(RISKS), tuple(curves),
                 True, True)  # fmt: skip


def _worst_home(fitted: Fitted, lag: int) -> Frontier:
    return merge([home.estimate(lag) for home in fitted.direct])


# What the model misses (A7) -----------------------------------------------------------------------------------------


class Distance(NamedTuple):
    """Δ at one lag: of the middle home and of the worst."""

    what: str
    hours: float
    median: float
    worst: float


def distance_data(fitted: Fitted, seed: int = SHUFFLE) -> list[Distance]:
    """Return finding A7: Δ of the fitted chains, counted directly, with the time of day held fixed, and with days shuffled."""
    homes = fitted.source.homes
    model = [one.total_variation(A_DAY) for one in fitted.few.processes]
    counted = [one.direct_variations(A_DAY).worst for one in fitted.plain]
    above = [above_median(home) for home in homes]
    rng = np.random.default_rng(seed)
    shuffled = [_shuffle(one, rng) for one in above]
    rows: tuple[tuple[str, int, Sequence[float]], ...] = (
        (f"fitted chains, {FEW_STATES} states", A_DAY, model),
        (f"counted directly, {FEW_STATES} states", A_DAY, counted),
        ("above or below the median of that half hour", A_DAY, [same_time(one, A_DAY) for one in above]),
        ("above or below the median of that half hour", A_WEEK, [same_time(one, A_WEEK) for one in above]),
        ("the same with days shuffled: what chance does", A_DAY, [same_time(one, A_DAY) for one in shuffled]),
    )
    return [Distance(what, lag / 2, float(np.median(values)), max(values)) for what, lag, values in rows]


def above_median(home: Floats) -> Floats:
    """Return 1 where a reading is above the home's own median of that half hour, 0 where not, NaN where it is missing."""
    days = home[: len(home) // A_DAY * A_DAY].reshape(-1, A_DAY)
    result: Floats = np.where(np.isnan(days), np.nan, days > np.nanmedian(days, axis=0)).ravel()
    return result


def same_time(above: Floats, lag: int) -> float:
    """|Pr[above then | above now] − Pr[above then | below now]|; 0 if a home is never above."""
    then, now = above[:-lag], above[lag:]
    high, low = then[(now == 1) & ~np.isnan(then)], then[(now == 0) & ~np.isnan(then)]
    return abs(float(high.mean()) - float(low.mean())) if len(high) and len(low) else 0.0


def _shuffle(above: Floats, rng: np.random.Generator) -> Floats:
    result: Floats = rng.permutation(above.reshape(-1, A_DAY)).ravel()
    return result


class Reversible(NamedTuple):
    """How many of the fitted chains are reversible, as eq. 55 needs them to be (A8)."""

    reversible: int
    chains: int


def reversible_data(fitted: Fitted) -> Reversible:
    """Count the reversible chains among those with more than two states; two states are always reversible."""
    several = [chain for chain in chains_of(fitted.model) if chain.states > 2]
    return Reversible(sum(chain.reversible for chain in several), len(several))
