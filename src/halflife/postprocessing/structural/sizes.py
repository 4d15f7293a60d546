"""How large errors of predictions are beside what the model says, by week, time of day and cell, from published values alone.

**Models are wrong**, and y − p shows it: its noise is known, and independent of p. A prediction's error, of variance f says the
model, is taken to have the variance 2^k·c·f, with c from step to step another, drawn from one of the SHAPES, and

    k = w(week) + g(time of day) + a(cell),

whole numbers. w moves from week to week and g around the day, as Markov chains, each of one of several SPREADS. ln of the density
of y − p (`find_density`) for each k, added up over the steps of a week and a time of day, is all that need be kept. Given
the values, w, g and a are taken to be independent (known: mean field, a variational posterior):

    ln q(w) = ln chain(w) + Σ E[ln density(w + g + a)]   over q(g)·q(a),       and likewise q(g) and q(a),

by turns, each chain by the forward-backward recursion (known: Baum et al. 1970). Shapes and spreads are weighed by how likely
they make the values. Where noise hides the errors of predictions, what was expected holds, and q stays wide. A step is told the
chances of SIZES: the distribution of w + g + a and c together. Models whose variance changes are known (stochastic volatility);
that they are fitted to predictions whose noise is known, which makes bands hold where a model is wrong, is ours.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import NamedTuple

import numpy as np

from halflife.numerics.arrays import Floats, Integers
from halflife.postprocessing.structural.combining import AT_ONCE, CELL, LOWEST, SIZES, Doubt, find_density, is_mixed

SHAPES = (
    {0: 1.0},
    {-1: 0.4, 0: 0.42, 1: 0.14, 2: 0.03, 3: 0.01},
    {-2: 0.35, -1: 0.3, 0: 0.2, 1: 0.08, 2: 0.04, 3: 0.02, 4: 0.01},
)
"""Chances of the powers of 2 that c may be: a normal error, one with a heavier tail, one with jumps."""
WEEK, DAY = np.arange(-3, 5), np.arange(-2, 3)
"""What w and g may be; a may be one of CELL."""
REACH = np.arange(WEEK[0] + DAY[0] + CELL[0], WEEK[-1] + DAY[-1] + CELL[-1] + 1)
WEEK_AND_DAY = np.arange(WEEK[0] + DAY[0], WEEK[-1] + DAY[-1] + 1)
DAY_AND_CELL = np.arange(DAY[0] + CELL[0], DAY[-1] + CELL[-1] + 1)
WEEK_SPREADS, DAY_SPREADS, ANEW = (0.0, 0.3, 1.0), (0.0, 0.3, 0.8), 0.4
"""How far the chains may move in a step, as standard deviations; when parameters are fitted anew, w moves by as much as this."""
TIMES_OF_DAY, ROUNDS = 12, 3
KEPT = 0.96
"""Of what was seen of times of day and cells, this part still counts a week later."""
LEAST = 1e-150
"""No chance along a chain is smaller: what came before and what comes later may contradict each other."""
LAST_BIT = 2.0**20
"""Logarithms are rounded to 1 over this before they are added up: sums are exact, whatever blocks values come in."""
COUNTS = 0.75
"""A value counts for this part of what it says: parameters were fitted to the same values (known: tempered likelihoods)."""
PARTS = 4096
"""Chances are whole numbers of such parts, so that machines whose last bits differ find the same."""


def times_of_day(days: Floats, steps_per_day: float) -> Integers:
    """Return which part of the day local times lie in.

    >>> times_of_day(np.array([0.0, 1.5, 2.99]), 24).tolist(), times_of_day(np.array([0.5]), 1).tolist()
    ([0, 6, 11], [0])
    """
    parts = count_times(steps_per_day)
    return np.floor(np.mod(days, 1.0) * parts + 1e-6).astype(np.int64) % parts


def count_times(steps_per_day: float) -> int:
    """Return into how many parts a day is cut."""
    return max(1, min(TIMES_OF_DAY, math.floor(steps_per_day)))


def week_length(steps_per_day: float) -> int:
    """Return how many values a week has: eight at least, so that steps of a week have weeks of eight.

    >>> week_length(48), week_length(1), week_length(1 / 7)
    (336, 8, 8)
    """
    return max(8, math.ceil(7 * steps_per_day))


def find_logs(surprise: Floats, variances: Floats, noise: Floats, laplace: bool) -> Floats:
    """Return ln of the density of each surprise for each of SIZES: sizes × steps × cells; 0 where nothing was predicted."""
    mixed = is_mixed(variances, noise)
    v, f, R = surprise[mixed], variances[mixed], np.broadcast_to(noise, surprise.shape)[mixed]
    logs = np.zeros((len(SIZES), *surprise.shape))
    for row, c in zip(logs, SIZES, strict=True):
        row[mixed] = find_density(v, c * f, R, laplace)
    logs[:, mixed] -= logs[:, mixed].max(axis=0)
    return logs


def shape_up(logs: Floats) -> Floats:
    """Return ln of the density for each shape and each k of REACH, rounded, of what `find_logs` gave."""
    found = np.empty((len(SHAPES), len(REACH), *logs.shape[1:]))
    densities = np.exp(logs)
    for shape, rows in zip(SHAPES, found, strict=True):
        for k, row in zip(REACH.tolist(), rows, strict=True):
            places = [min(max(k + power - LOWEST, 0), len(SIZES) - 1) for power in shape]
            total = reduce(np.add, (chance * densities[i] for i, chance in zip(places, shape.values(), strict=True)))
            row[...] = np.log(np.maximum(total, np.finfo(float).tiny))
    return round_logs(found)


def round_logs(logs: Floats) -> Floats:
    """Return what a value says about sizes, as ln, in exact parts."""
    result: Floats = np.round(COUNTS * LAST_BIT * logs) / LAST_BIT
    return result


# Chains -------------------------------------------------------------------------------------------------------------


def expect(grid: Integers, lower: float, higher: float) -> Floats:
    """Return the chances of a grid before anything is seen: each power of 2 below 0 has `lower` of that above it, and so on.

    >>> expect(np.arange(-1, 3), 0.5, 0.25).round(3).tolist()
    [0.276, 0.552, 0.138, 0.034]
    """
    chances = np.where(grid < 0, lower ** np.abs(grid), higher ** np.abs(grid))
    result: Floats = chances / chances.sum()
    return result


def find_moves(before: Floats, spread: float) -> Floats:
    """Return the chances of moves from each point of a grid (rows) to each other, under which `before` stays as it is.

    Steps have a normal density of this standard deviation, and one that leads to where less is expected is taken as seldom as
    that is (known: Metropolis et al. 1953); so a chain of which nothing is seen does not wander off.

    >>> before = np.array([0.2, 0.7, 0.1])
    >>> (before @ find_moves(before, 0.8)).round(9).tolist()
    [0.2, 0.7, 0.1]
    """
    if not spread:
        return np.eye(len(before))
    places = np.arange(len(before))
    steps = np.exp(-((np.subtract.outer(places, places) / spread) ** 2) / 2)
    found = steps / steps.sum(axis=1).max() * np.minimum(1.0, before / before[:, None])
    found[places, places] += 1 - found.sum(axis=1)
    result: Floats = found
    return result


BEFORE_WEEK, BEFORE_DAY, BEFORE_CELL = expect(WEEK, 0.42, 0.27), expect(DAY, 0.15, 0.12), expect(CELL, 0.35, 0.3)
"""What is expected of w, g and a before anything is seen: about as many larger errors as smaller ones, and a mean size near 1."""
WEEK_MOVES = tuple(find_moves(BEFORE_WEEK, spread) for spread in WEEK_SPREADS)
DAY_MOVES = tuple(find_moves(BEFORE_DAY, spread) for spread in DAY_SPREADS)
ANEW_MOVES = find_moves(BEFORE_WEEK, ANEW)


class Chain(NamedTuple):
    """What a chain makes of its values: the chances of each step's points, and ln of how likely the values are."""

    chances: Floats
    evidence: float


def smooth_line(logs: Floats, before: Floats, move: Floats) -> Chain:
    """Return the chances along a line (steps × points) given ln of how likely each point makes each step's values.

    >>> move = np.array([[0.8, 0.2], [0.2, 0.8]])
    >>> smooth_line(np.log([[0.9, 0.1], [0.5, 0.5]]), np.full(2, 0.5), move).chances.round(2).tolist()
    [[0.9, 0.1], [0.74, 0.26]]
    """
    top = logs.max(axis=1, keepdims=True)
    likely, reached, evidence = np.maximum(np.exp(logs - top), LEAST), [], float(top.sum())
    now = before
    for t, row in enumerate(likely):
        now = (now @ move if t else now) * row
        evidence += math.log(now.sum())
        now = np.maximum(now / now.sum(), LEAST)
        reached.append(now)
    later, found = np.ones(len(before)), np.empty_like(likely)
    for t in range(len(likely) - 1, -1, -1):
        found[t] = reached[t] * later / (reached[t] @ later)
        later = move @ (likely[t] * later)
        later = np.maximum(later / later.sum(), LEAST)
    return Chain(found, evidence)


def smooth_circle(logs: Floats, before: Floats, move: Floats) -> Chain:
    """Return the same around a circle: the first step follows the last. Each first point has a line of its own.

    >>> smooth_circle(np.log([[0.9, 0.1], [0.5, 0.5]]), np.full(2, 0.5), np.eye(2)).chances.round(2).tolist()
    [[0.9, 0.1], [0.9, 0.1]]
    """
    lines = []
    for point, chance in enumerate(before.tolist()):
        alone = np.zeros(len(before))
        alone[point] = chance
        closed = np.vstack([logs, np.log(np.maximum(np.eye(len(before))[point], np.finfo(float).tiny))])
        lines.append(smooth_line(closed, alone, move))
    weights = np.exp(np.array([line.evidence for line in lines]) - max(line.evidence for line in lines))
    found = reduce(np.add, (w * line.chances[:-1] for w, line in zip(weights, lines, strict=True))) / weights.sum()
    return Chain(found, max(line.evidence for line in lines) + math.log(weights.sum()))


def weigh(evidence: Floats) -> Floats:
    """Return chances from ln of how likely each makes the values."""
    chances = np.exp(evidence - evidence.max())
    result: Floats = chances / chances.sum()
    return result


def average_chains(chains: list[Chain]) -> Chain:
    """Return what chains of different spreads say together."""
    evidence = np.array([chain.evidence for chain in chains])
    found = reduce(np.add, (w * chain.chances for w, chain in zip(weigh(evidence), chains, strict=True)))
    return Chain(found, float(evidence.max() + np.log(np.exp(evidence - evidence.max()).mean())))


def fold(logs: Floats, chances: Floats, grid: Integers, reach: Integers, wanted: Integers) -> Floats:
    """Return the mean of ln density over a summand of k: of Σ_j chances_j·logs(k + grid_j), for k in `wanted`.

    logs  the last axis is k, over `reach`;  chances  the last axis is the grid
    """
    terms = (chances[..., j, None] * logs[..., wanted + point - reach[0]] for j, point in enumerate(grid.tolist()))
    return reduce(np.add, terms)


def shapes_together(week: Floats, day: Floats, shares: Floats) -> Floats:
    """Return the chances of SIZES at each time of day: of w (shapes × points), g (shapes × times × points) and shape together."""
    table = np.zeros((day.shape[1], len(SIZES)))
    for shape, share, w, times in zip(SHAPES, shares, week, day, strict=True):
        powers, chances = np.array(list(shape)), np.array(list(shape.values()))
        for row, g in zip(table, times, strict=True):
            both = np.convolve(w, g)
            places = np.clip(np.add.outer(WEEK_AND_DAY, powers) - LOWEST, 0, len(SIZES) - 1)
            np.add.at(row, places, share * np.multiply.outer(both, chances))
    return round_chances(table)


def round_chances(table: Floats) -> Floats:
    """Return rows of chances in parts of PARTS."""
    parts = np.round(table / table.sum(axis=-1, keepdims=True) * PARTS)
    result: Floats = parts / parts.sum(axis=-1, keepdims=True)
    return result


def expect_cells(cells: int) -> Floats:
    """Return the chances of a before anything is seen; one cell has none."""
    chances = (CELL == 0).astype(np.float64) if cells == 1 else BEFORE_CELL
    return round_chances(np.tile(chances, (cells, 1)))


def settle_cells(sums: Floats) -> Floats:
    """Return the chances of a in each cell, given ln of how likely each makes its values."""
    logs = sums + np.log(BEFORE_CELL)
    chances = np.exp(logs - logs.max(axis=1, keepdims=True))
    return round_chances(chances)


def judge_cells(logs: Floats, table: Floats, rows: Integers) -> Floats:
    """Return ln of how likely each a makes the values of each cell: cells × points, of what `find_logs` gave.

    table, rows  chances of SIZES where a is 0, and which row of them each step has
    """
    densities = np.exp(logs)
    found = np.empty((logs.shape[2], len(CELL)))
    for column, a in enumerate(CELL.tolist()):
        places = np.clip(np.arange(len(SIZES)) + a, 0, len(SIZES) - 1)
        total = reduce(np.add, (table[rows, i][:, None] * densities[place] for i, place in enumerate(places.tolist())))
        found[:, column] = round_logs(np.log(np.maximum(total, np.finfo(float).tiny))).sum(axis=0)
    return found


class Field(NamedTuple):
    """Chances of w (weeks × points), g (times × points) and a (cells × points) under one shape, and how likely all is (as ln)."""

    week: Floats
    day: Floats
    cell: Floats
    evidence: float


def find_field(logs: Floats) -> Field:
    """Return what cells, weeks and times of day have in common under one shape: logs of cells × weeks × times × REACH."""
    cells, weeks = logs.shape[:2]
    week = np.tile(BEFORE_WEEK, (weeks, 1))
    cell, lost = expect_cells(cells), 0.0
    for _ in range(ROUNDS):
        shared = fold(logs, cell[:, None, None], CELL, REACH, WEEK_AND_DAY).sum(axis=0)
        around = fold(shared, week[:, None], WEEK, WEEK_AND_DAY, DAY).sum(axis=0)
        circles = [smooth_circle(around, BEFORE_DAY, move) for move in DAY_MOVES]
        day, evidence = average_chains(circles)
        lost = float((day * around).sum()) - evidence
        if cells > 1:
            both = fold(logs, week[:, None], WEEK, REACH, DAY_AND_CELL)
            alone = fold(both, day, DAY, DAY_AND_CELL, CELL).sum(axis=(1, 2))
            cell = settle_cells(alone)
            lost += float((cell * np.log(np.maximum(cell, 1e-12) / BEFORE_CELL)).sum())
            shared = fold(logs, cell[:, None, None], CELL, REACH, WEEK_AND_DAY).sum(axis=0)
        line = fold(shared, day, DAY, WEEK_AND_DAY, WEEK).sum(axis=1)
        lines = [smooth_line(line, BEFORE_WEEK, move) for move in WEEK_MOVES]
        week, evidence = average_chains(lines)
    return Field(week, day, cell, evidence - lost)


def judge_series(
    surprise: Floats,
    variances: Floats,
    noise: Floats,
    days: Floats,
    steps_per_day: float,
    pool: Integers,
    laplace: bool,
) -> Doubt:
    """Return the chances of SIZES in a whole series, of all weeks together; weeks and days are learnt of the cells of a pool."""
    times, weeks = times_of_day(days, steps_per_day), np.arange(len(days)) // week_length(steps_per_day)
    parts = count_times(steps_per_day)
    logs = shape_up(find_logs(surprise[:, pool], variances[:, pool], noise[:, None], laplace))
    sums = np.zeros((weeks[-1] + 1, parts, len(SHAPES), len(REACH), len(pool)))
    np.add.at(sums, (weeks, times), np.moveaxis(logs, 2, 0))
    fields = [find_field(one) for one in sums.transpose(2, 4, 0, 1, 3)]
    shares = weigh(np.array([field.evidence for field in fields]))
    day = np.stack([field.day for field in fields])
    tables = [
        shapes_together(np.stack([field.week[k] for field in fields]), day, shares) for k in range(int(weeks[-1]) + 1)
    ]
    table, rows, cells = np.concatenate(tables), weeks * parts + times, surprise.shape[1]
    if cells == 1:
        return Doubt(rows, table, expect_cells(1))
    width = max(1, AT_ONCE // len(days))
    found = [
        judge_cells(
            find_logs(surprise[:, k : k + width], variances[:, k : k + width], noise[:, None], laplace), table, rows
        )
        for k in range(0, cells, width)
    ]
    return Doubt(rows, table, settle_cells(np.concatenate(found)))
