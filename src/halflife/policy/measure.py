"""A statistic in whole units: how readings become units, its sensitivity, and the value of a unit in the output.

All of it in whole numbers and fractions, so that nothing is rounded between the policy and the sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise

from halflife.engines.base import LARGEST_TOTAL, LARGEST_UNITS
from halflife.errors import InvalidInput
from halflife.numerics.trees import CountTree, best_tree
from halflife.parsing.quantities import parse_quantity
from halflife.policy.groups import GroupList
from halflife.policy.model import Grid, PolicyKeys, Statistic
from halflife.policy.tables import read_public_table
from halflife.release import Noise
from halflife.sensitivity import Sensitivity, bounded_sensitivity, histogram_sensitivity, tree_sensitivity


@dataclass(frozen=True)
class Measure:
    """What one person contributes to a statistic, in whole units.

    low, high   the bounds of what one person counts as in a step, after the fold
    readings    the bounds of single readings, before the fold; None for none
    missing     what a person without a good reading counts as
    resolution  what a unit is worth, in the statistic's unit
    edges       of the bins of a histogram, or of those under a tree of counts
    quantiles   which are asked for;  tree  the tree of counts that they are worked out from
    weights     each person's public weight, in whole multiples of `weight_unit`, none beyond `heaviest`
    """

    kind: str
    low: int = 1
    high: int = 1
    readings: tuple[int, int] | None = None
    missing: int = 0
    resolution: Fraction = Fraction(1)
    edges: tuple[int, ...] = ()
    weights: Mapping[str, int] | None = field(default=None, repr=False)
    weight_unit: Fraction = Fraction(1)
    heaviest: int = 1
    quantiles: tuple[Fraction, ...] = ()
    tree: CountTree | None = None

    @property
    def numbers(self) -> int:
        """How many numbers of each group get noise: the nodes of a tree, the bins of a histogram, or one."""
        return self.tree.nodes if self.tree is not None else max(1, len(self.edges) - 1)

    @property
    def bins(self) -> tuple[tuple[float, float], ...]:
        """The bins of a histogram, in the statistic's unit."""
        edges = [float(self.resolution * e) for e in self.edges]
        return tuple(pairwise(edges))

    def sensitivity(self, policy: PolicyKeys, groups: GroupList) -> Sensitivity:
        """Return how far one person can move the numbers of one step."""
        neighbours, count = policy.population.neighbours, max(1, len(groups.names))
        if self.tree is not None:
            return tree_sensitivity(
                self.tree.levels, self.tree.total, neighbours=neighbours, groups=count, most_groups=groups.most,
                fixed=groups.fixed,
            )  # fmt: skip
        if self.edges:
            return histogram_sensitivity(
                len(self.edges) - 1, neighbours=neighbours, groups=count, most_groups=groups.most, fixed=groups.fixed
            )
        return bounded_sensitivity(
            self.low, self.high, self.missing, neighbours=neighbours, weight=self.heaviest,
            groups=count, most_groups=groups.most, fixed=groups.fixed,
        )  # fmt: skip

    def factors(self, groups: GroupList, population: int) -> tuple[Fraction, ...]:
        """The value of a unit in the output, by group: the resolution, divided by the number of people for a mean.

        A histogram and a tree count people: their resolution is that of their edges.
        """
        people = groups.people(population)
        worth = Fraction(1) if self.edges else self.resolution * self.weight_unit
        if self.kind != "mean":
            return (worth,) * len(people)
        if groups.names and len(groups.sizes) < len(groups.names):
            raise InvalidInput("the mean of a group needs its public size: give `sizes`, or a table of groups")
        return tuple(worth / max(1, n) for n in people)

    def offsets(self, groups: GroupList, population: int) -> tuple[int, ...]:
        """The total of a group if everyone in it is missing, by group, in units."""
        people = groups.people(population)
        reach = self.heaviest * max(abs(self.low), abs(self.high), abs(self.missing))
        if reach * max(population, *people) >= LARGEST_TOTAL:
            raise InvalidInput("totals would not fit 64 bits: choose a coarser resolution")
        if self.weights is None:
            return tuple(self.missing * n for n in people)
        totals = [0] * len(people)
        for person, weight in self.weights.items():
            if groups.table is None:
                totals[0] += weight
            elif person in groups.table:
                totals[groups.table[person]] += weight
        return tuple(self.missing * total for total in totals)


def read_measure(policy: PolicyKeys, i: int, noise: Noise = "laplace") -> Measure:
    """Work out the statistic of a stream; the tree of a quantile is the best one for this family of noise."""
    part, s = policy.streams[i], policy.streams[i].statistic
    at = ("streams", i, "statistic")
    if s.kind in ("count", "events"):
        return _read_count(policy, i)
    _refuse(policy, i, f"a {s.kind}", "most_events")
    with policy.about("streams", i, "source", "value"):
        if part.source is not None and part.source.value is None and not part.source.wide:
            raise InvalidInput(f"missing: a {s.kind} needs the column of the readings")
    with policy.about(*at, "fold"):
        if s.fold is None:
            raise InvalidInput("missing: how several readings of one person in a step become one (sum, mean, last, …)")
    with policy.about(*at, "resolution"):
        resolution = _resolution(s)
    with policy.about(*at, "clip_readings"):
        readings = _bounds(s.clip_readings, s, resolution)
    if s.kind in ("histogram", "quantile"):
        _refuse(policy, i, f"a {s.kind}", "clip", "missing", "weights")
        with policy.about(*at, "edges" if s.grid is None else "grid"):
            edges = read_edges(s, resolution)
        made = Measure(s.kind, edges[0], edges[-1], readings, resolution=resolution, edges=edges)
        if s.kind == "quantile":
            return _with_tree(policy, i, made, noise)
        _refuse(policy, i, "a histogram", "quantiles")
        return made
    _refuse(policy, i, f"a {s.kind}", "edges", "grid", "quantiles", *([] if s.kind == "weighted sum" else ["weights"]))
    with policy.about(*at, "clip"):
        low, high = _clip(s, resolution, readings)
    with policy.about(*at, "missing"):
        missing = _multiple(s.missing or "0", s.unit, resolution)
        if missing and part.groups is not None and part.groups.table is None:
            raise InvalidInput("must be 0 where a person's group may change: nobody knows the group of who is missing")
    with policy.about(*at, "weights"):
        weights, unit, heaviest = _weights(policy, s)
    return Measure(s.kind, low, high, readings, missing, resolution, (), weights, unit, heaviest)


def _read_count(policy: PolicyKeys, i: int) -> Measure:
    """A count of people, in which each is 0 or 1; or of events, of which each person has 0 to `most_events` (ours).

    Whatever rows a person has in a step, min(n, most) lies in [0, most]: events are a sum of ones, clipped.
    """
    s = policy.streams[i].statistic
    what = "a count of people" if s.kind == "count" else "a count of events"
    _refuse(
        policy,
        i,
        what,
        "clip",
        "clip_readings",
        "resolution",
        "missing",
        "edges",
        "grid",
        "quantiles",
        "weights",
        "fold",
    )
    if s.kind == "count":
        _refuse(policy, i, what, "most_events")
        return Measure("count")
    with policy.about("streams", i, "statistic", "most_events"):
        if s.most_events is None:
            raise InvalidInput(
                "missing: the most events of one person that count in a step: a public bound, such as `most_events: 5`"
            )
    return Measure("events", 0, s.most_events)


def _with_tree(policy: PolicyKeys, i: int, measure: Measure, noise: Noise) -> Measure:
    """The measure of a quantile: which quantiles, and the tree of counts.

    The count of everybody is a node of the tree where it costs nothing: for replace-one neighbours whose groups are fixed.
    """
    part = policy.streams[i]
    with policy.about("streams", i, "statistic", "quantiles"):
        quantiles = _quantiles(part.statistic)
    with policy.about("streams", i, "statistic", "edges" if part.statistic.grid is None else "grid"):
        if len(measure.edges) < 3:
            raise InvalidInput("a quantile is found among at least 2 bins: give more, as fine as the answer shall be")
    if part.post:
        raise policy.error((
            ("streams", i, "post"),
            "the error band of a quantile after post-processing is not worked out: leave this out. Quantiles lie within the grid",
        ))  # fmt: skip
    fixed = part.groups is None or part.groups.table is not None
    free = fixed and policy.population.neighbours == "replace-one"
    return replace(measure, quantiles=quantiles, tree=best_tree(len(measure.edges) - 1, noise, total=free))


def _quantiles(s: Statistic) -> tuple[Fraction, ...]:
    if s.quantiles is None:
        raise InvalidInput("missing: which quantiles, such as `quantiles: [0.5, 0.95]`")
    found = tuple(read_quantile(text) for text in s.quantiles)
    for q, text in zip(found, s.quantiles, strict=True):
        if not 0 < q < 1:
            raise InvalidInput(f"a quantile lies between 0 and 1, not at {text!r}")
    for below, above, text in zip(found, found[1:], s.quantiles[1:], strict=False):
        if above <= below:
            raise InvalidInput(f"quantiles must ascend: {text!r} does not")
    return found


def read_quantile(text: str) -> Fraction:
    """Return a quantile as people write it.

    >>> read_quantile("0.5"), read_quantile("95 %")
    (Fraction(1, 2), Fraction(19, 20))
    """
    return parse_quantity(text, "%") / 100 if text.rstrip().endswith("%") else parse_quantity(text, None)


def _refuse(policy: PolicyKeys, i: int, what: str, *names: str) -> None:
    for name in names:
        if getattr(policy.streams[i].statistic, name) is not None:
            raise policy.error((("streams", i, "statistic", name), f"{what} has no `{name}`: leave it out"))


def _resolution(s: Statistic) -> Fraction:
    if s.resolution is None:
        raise InvalidInput("missing: readings become whole multiples of it, such as 1 Wh, so that sums are exact")
    resolution = parse_quantity(s.resolution, s.unit)
    if resolution <= 0:
        raise InvalidInput(f"the resolution must be above 0, not {s.resolution!r}")
    return resolution


def read_edges(s: Statistic, resolution: Fraction) -> tuple[int, ...]:
    """Return the edges of the bins in whole resolutions, from a list or from a grid."""
    if s.grid is not None:
        return _grid(s, s.grid, resolution)
    if s.edges is None:
        raise InvalidInput(f"missing: a {s.kind} needs the bounds of its bins")
    edges = tuple(_multiple(e, s.unit, resolution) for e in s.edges)
    for below, above, text in zip(edges, edges[1:], s.edges[1:], strict=False):
        if above <= below:
            raise InvalidInput(f"the edges of a histogram must increase: {text!r} does not")
    return edges


def _grid(s: Statistic, grid: Grid, resolution: Fraction) -> tuple[int, ...]:
    if s.edges is not None:
        raise InvalidInput("`edges` say it already: give one of the two")
    low, high = (_multiple(text, s.unit, resolution) for text in (grid.low, grid.high))
    width, rest = divmod(high - low, grid.bins)
    if low >= high:
        raise InvalidInput(f"must go from low to high, not from {grid.low} to {grid.high}")
    if rest:
        raise InvalidInput(
            f"{grid.bins} bins from {grid.low} to {grid.high} have no width of whole resolutions ({s.resolution}): choose "
            "another number of bins, or a finer resolution"
        )
    return tuple(range(low, high + 1, width))


def _clip(s: Statistic, resolution: Fraction, readings: tuple[int, int] | None) -> tuple[int, int]:
    """The bounds of what one person counts as in a step, after the fold (ours).

    Where there is no `clip`, those of single readings serve: the first, last, least or largest of readings within [l, h] is one
    of them, and their mean, rounded to the nearest whole number, lies in [l, h] too, as l and h are whole. A sum of n of them
    reaches n · l or n · h, and a step's readings have no public number: it is refused.
    """
    bounds = _bounds(s.clip, s, resolution)
    if bounds is not None:
        return bounds
    if readings is None:
        raise InvalidInput(
            "missing: the least and the largest that one person counts as in a step: public bounds, such as `clip: [0, 5 kWh]`"
            + ("" if s.fold == "sum" else "; or those of a single reading, `clip_readings`")
        )
    if s.fold == "sum":
        raise InvalidInput(
            "missing: `clip_readings` bounds each reading, and with `fold: sum` one person may have any number of them in a "
            "step: give the least and the largest that one person counts as, such as `clip: [0, 5 kWh]`"
        )
    return readings


def _bounds(written: list[str] | None, s: Statistic, resolution: Fraction) -> tuple[int, int] | None:
    if written is None:
        return None
    low, high = (_multiple(x, s.unit, resolution) for x in written)
    if low >= high:
        raise InvalidInput(f"must go from low to high, not from {written[0]} to {written[1]}")
    return low, high


def _multiple(text: str, unit: str | None, resolution: Fraction) -> int:
    units = parse_quantity(text, unit) / resolution
    if units.denominator != 1:
        raise InvalidInput(f"{text!r} is no whole multiple of the resolution ({resolution} {unit or ''}".rstrip() + ")")
    if abs(units) > LARGEST_UNITS:
        raise InvalidInput(f"{text!r} is more than {LARGEST_UNITS:,} resolutions from 0: choose a coarser resolution")
    return int(units)


def _weights(policy: PolicyKeys, s: Statistic) -> tuple[Mapping[str, int] | None, Fraction, int]:
    """Return each person's public weight in multiples of the resolution, clipped; the resolution; and the largest weight."""
    w = s.weights
    if w is None:
        if s.kind == "weighted sum":
            raise InvalidInput("missing: a weighted sum needs a public table of weights")
        return None, Fraction(1), 1
    unit, largest = parse_quantity(w.resolution, None), parse_quantity(w.largest, None)
    if not 0 < unit <= largest:
        raise InvalidInput("the largest weight must be at least the resolution, and both above 0")
    heaviest = int(largest / unit)
    if heaviest > LARGEST_UNITS:
        raise InvalidInput(
            f"the largest weight is more than {LARGEST_UNITS:,} resolutions: choose a coarser resolution"
        )
    rows = read_public_table(policy.path(w.file), w.person, w.weight)
    if len(rows) > policy.members.largest:
        raise InvalidInput(f"{w.file} has {len(rows)} people, more than the population ({policy.members.largest})")
    weights = {}
    for person, text in rows.items():
        nearest = math.floor(parse_quantity(text, None) / unit + Fraction(1, 2))
        weights[person] = max(-heaviest, min(heaviest, nearest))
    return weights, unit, heaviest
