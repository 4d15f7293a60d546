"""A statistical check of a process against data: its Δ(t) beside direct estimates, lag by lag, at family-wise confidence.

A *unit* is one person's sequence (or one stretch of it, if there are fewer than 16 people). At each lag, and for each unit,

- *at any time*: two states x, x′ and a set B are chosen on the first half of the person's time, where they look most apart, and
  d̂ = P̂(x(t − lag) ∈ B | x(t) = x) − P̂(x(t − lag) ∈ B | x(t) = x′) is counted on the second half. Under the model its mean is
  at most Δ(lag), whatever was chosen.
- *at the same time of day*: each state becomes "above" or "not above" the person's own median of that time of day. d̂ is by how
  much "above" is likelier before "above" than before "not above", counted within each time of day and then averaged. Whatever the
  medians are, under the model it is at most Δ(lag) within each time of day (data processing); what the clock explains cancels.

The model under-reports at a lag if the mean over units of d̂ − Δ(lag) lies above 0 beyond doubt: by a one-sided Student bound
over units, so nothing is assumed about how readings within a unit hang together, with 0.001 shared by all lags, sides and kinds
(Bonferroni). Three things keep it honest. Units are weighted by n n′/(n + n′), n and n′ being how often the two states were
seen (Mantel and Haenszel 1959; known): leaving out units that saw little would keep those whose rare states happened to last.
Stretches shorter than ten times what the model takes to forget are not used, as frequencies within them are off. And where the
less likely outcome is rare, Student's bound trusts too few events, so its standard error is never taken below that of a
binomial count with z²/2 events added (Agresti and Coull 1998; known). The test as a whole is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.processes.base import Process
from halflife.processes.empirical import quantise_person
from halflife.processes.sequences import MISSING, InvalidSequence, States, read_sequences
from halflife.processes.verdict import FAMILY_WISE, KINDS, Check, Kind, Outcome, Row

__all__ = ["Check", "check"]

FEWEST_UNITS, ENOUGH_UNITS = 8, 16
FEWEST_VISITS = 30
"""How often a state must be seen in the first half to be chosen."""
FEWEST_STRETCHES = 10
"""How many times as long as the model takes to forget a stretch of data must be."""
WIDEST = 0.25
"""A lag at which an excess of this much could have gone unseen says nothing."""


def check(
    process: Process,
    sequences: Any,
    *,
    states: int | Sequence[float] | None = None,
    lags: Sequence[int] | None = None,
    slots: int | None = 48,
    step_minutes: float = 30.0,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Check:
    """Compare Δ(t) of a process with direct estimates on people's sequences.

    process       if it is a `ProcessFamily` with as many members as there are sequences, each is compared with its own
    sequences     readings one step apart, a list a person; missing ones are None or NaN
    states        how readings become states, as in `quantise`; by default as the process was fitted, else the numbers are states.
                  For an autoregressive process six quantile states, of readings within one span.
    lags          in steps; by default up to 14 times `slots`, as far as the data goes
    slots         steps in a day, for the comparison with the time of day held fixed; None leaves it out
    step_minutes  how long a step is, for the text
    progress      is called with what is done, and how many of how many lags are

    Both kinds look at functions of the state of the model, so what a state hides is not put to the test. What is found is an
    average over people: a few whose model is wrong among many whose is right may go unseen. A process with a clock of its own
    (`PeriodicMarkovChain`) is compared with the time of day held fixed only, as everybody knows the time.

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
    people = list(_people(process, readings, states, day or 1))
    asked = _lags(lags, readings, day)
    kinds = [kind for kind in KINDS if kind == "any time" or day is not None]
    cycles = [cycle for person in people for cycle in _cycles(person.process)]
    if cycles:
        kinds = ["same time of day"]
        if day is None or any(day % cycle for cycle in cycles):
            raise InvalidInput(f"the process has a clock of {cycles[0]} steps: give slots={cycles[0]}, or a multiple")
    parts = -(-ENOUGH_UNITS // len(people))
    model = _Model(people, asked)
    sides = 2 * len(asked) * len(kinds)
    rows: list[Row] = []
    for kind, (k, lag) in product(kinds, enumerate(asked)):
        progress(f"comparing {kind}", len(rows), len(kinds) * len(asked))
        seen = _compare_people(kind, people, k, lag, parts, day, model)
        rows.append(_row(kind, k, lag, seen, model, FAMILY_WISE / sides))
    return Check(process.name, _outcome(rows), tuple(rows), len(people), parts * len(people), minutes)


def _cycles(process: Process) -> list[int]:
    """How many steps the clock of a process has, if it has one."""
    slots = getattr(process, "slots", None)
    return [slots] if isinstance(slots, int) else [c for one in getattr(process, "processes", ()) for c in _cycles(one)]


def _outcome(rows: Sequence[Row]) -> Outcome:
    if any(row.outcome == "under-reports" for row in rows):
        return "under-reports"
    tested = sum(row.outcome != "too little data" for row in rows)
    return "no contradiction found" if 2 * tested >= len(rows) else "too little data"


# People and what the model says of them -----------------------------------------------------------------------------


class _Person(NamedTuple):
    """States then, the same now (without those that the model says nothing about), how many, and which are above their slot's."""

    process: Process
    then: States
    now: States
    states: int
    above: States


def _people(process: Process, readings: list[Floats], states: object, slots: int) -> Iterator[_Person]:
    members = getattr(process, "processes", ())
    own = members if len(members) == len(readings) else [process] * len(readings)
    for i, (member, values) in enumerate(zip(own, readings, strict=True)):
        found = quantise_person(i, values, _states(member) if states is None else states)
        most = getattr(member, "states", None)
        if isinstance(most, int) and found.states.max() >= most:
            raise InvalidSequence(
                i,
                f" holds state {found.states.max()}, but its process has states 0 to {most - 1}: say with `states` how "
                "readings become states",
            )
        now, span = found.states, getattr(member, "span", None)
        if span is not None:
            inside = np.abs(values - np.nanmedian(values)) <= span / 2
            now = np.where(inside, now, MISSING)
        yield _Person(member, found.states, now, found.state_count, _above(found.states, slots))


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
        longest = max(len(values) for values in readings) // 12
        return sorted(lag for lag in grid if 1 <= lag <= max(1, longest))
    asked = sorted({whole("lag", lag, least=1) for lag in lags})
    if not asked:
        raise InvalidInput("give at least one lag, or none to have them chosen")
    for i, values in enumerate(readings):
        if len(values) <= asked[-1]:
            raise InvalidSequence(i, f" has {len(values)} readings, too few for a lag of {asked[-1]}")
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
    """One unit: its weight, the two frequencies whose difference is d̂, and on how much that tells something new each rests."""

    person: int
    weight: float
    upper: float
    lower: float
    upper_count: int
    lower_count: int


def _compare_people(
    kind: Kind, people: list[_Person], k: int, lag: int, parts: int, slots: int | None, model: _Model
) -> list[_Seen]:
    found: list[_Seen] = []
    for i, person in enumerate(people):
        if person.states > 1 and lag < len(person.then):
            stretch = int(model.stretch[i, k])
            if kind == "any time":
                found.extend(_at_any_time(i, person, lag, parts, stretch))
            else:
                found.extend(_at_the_same_time(i, person, lag, parts, stretch, slots or 1))
    return found


def _at_any_time(i: int, person: _Person, lag: int, parts: int, stretch: int) -> Iterator[_Seen]:
    half = len(person.then) // 2
    if lag >= half:
        return
    chosen = _choose(_counts(person.now[lag:half], person.then[: half - lag], person.states))
    if chosen is None:
        return
    x, other, inside = chosen
    now, then = person.now[half + lag :], person.then[half : len(person.then) - lag]
    now = np.where(then >= 0, now, MISSING)
    hit = inside[then]
    for part in _parts(len(now), parts, stretch):
        upper, lower = part[now[part] == x], part[now[part] == other]
        if len(upper) and len(lower):
            weight = len(upper) * len(lower) / (len(upper) + len(lower))
            news = _stretches(upper, stretch), _stretches(lower, stretch)
            yield _Seen(i, weight, float(hit[upper].mean()), float(hit[lower].mean()), *news)


def _at_the_same_time(i: int, person: _Person, lag: int, parts: int, stretch: int, slots: int) -> Iterator[_Seen]:
    then = person.above[:-lag]
    now = np.where((person.now[lag:] >= 0) & (then >= 0), person.above[lag:], MISSING)
    slot = np.arange(lag, len(person.above)) % slots
    for part in _parts(len(now), parts, stretch):
        known = part[now[part] >= 0]
        cells = np.bincount(slot[known] * 4 + now[known] * 2 + then[known], minlength=4 * slots)
        counts = cells.reshape(slots, 2, 2)  # [slot, now, then]
        counts = counts[counts.sum(axis=2).min(axis=1) > 0]
        if len(counts):
            visits = counts.sum(axis=2)
            weights = visits.prod(axis=1) / visits.sum(axis=1)
            lower, upper = (counts[:, :, 1] / visits * weights[:, None]).sum(axis=0) / weights.sum()
            news = tuple(_stretches(known[now[known] == side], stretch) for side in (1, 0))
            yield _Seen(i, float(weights.sum()), float(upper), float(lower), *news)


def _parts(length: int, parts: int, stretch: int) -> list[NDArray[np.int64]]:
    """Return these places cut into parts; none if they are too short for the model's time to forget."""
    return np.array_split(np.arange(length), parts) if length // parts >= FEWEST_STRETCHES * stretch else []


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
    """Return the two rows that look most apart, less what chance alone would show, and the set where the first leads."""
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
    weights = np.array([unit.weight for unit in seen])
    units = (
        float(weights.sum() ** 2 / (weights**2).sum()) if seen else 0.0
    )  # as many of equal weight would say as much (Kish 1965)
    if units < FEWEST_UNITS:
        delta, risk = model.delta[:, k], model.risk[:, k]
        return Row(
            kind, lag, int(units), float(delta.mean()), float(delta.max()), math.nan, 0.0, 1.0, -1.0, float(risk.max()), math.nan,
            "too little data",
        )  # fmt: skip
    from scipy.special import stdtrit

    weights /= weights.sum()
    who = [unit.person for unit in seen]
    upper, lower, delta = np.array([u.upper for u in seen]), np.array([u.lower for u in seen]), model.delta[who, k]
    z = float(stdtrit(units - 1, 1 - alpha))
    least = math.hypot(
        _binomial(float(weights @ upper), sum(u.upper_count for u in seen), z),
        _binomial(float(weights @ lower), sum(u.lower_count for u in seen), z),
    )
    direct, width = _mean(upper - lower, weights, units, z, least)
    excess, apart = _mean(upper - lower - delta, weights, units, z, least)
    outcome: Outcome = "no contradiction found"
    if excess - apart > 0:
        outcome = "under-reports"
    elif apart > WIDEST and float(weights @ delta) + WIDEST < 1:
        outcome = "too little data"
    left = np.log1p(math.expm1(1.0) * upper) - np.log1p(math.expm1(1.0) * lower)
    return Row(
        kind, lag, int(units), float(weights @ delta), float(delta.max()), direct, max(0.0, direct - width),
        min(1.0, direct + width), excess - apart, float(model.risk[who, k].max()), float(weights @ left), outcome,
    )  # fmt: skip


def _mean(values: Floats, weights: Floats, units: float, z: float, least: float) -> tuple[float, float]:
    """The weighted mean, and z times its standard error."""
    mean = float(weights @ values)
    error = math.sqrt(float(((weights * (values - mean)) ** 2).sum()) * units / (units - 1))
    return mean, z * max(error, least)


def _binomial(share: float, count: int, z: float) -> float:
    """The standard error of a pooled share, with z²/2 events of either outcome added."""
    share = (share * count + z * z / 2) / (count + z * z)
    return math.sqrt(share * (1 - share) / (count + z * z))
