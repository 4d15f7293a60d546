"""Trees of counts over the bins of a histogram: their nodes, the least-squares counts from noisy nodes, and their variance.

    level 0          the count of everybody (a node only if `total`)
    level l          counts of b^(L − l) neighbouring bins each, the last of fewer;  level L: the bins

with L levels below the top and the least b with b^L ≥ bins. A person who counts in one bin counts in one node of each level:
noise is needed for L nodes instead of one, and any run of bins is the sum of few nodes instead of many (Hay, Rastogi, Miklau and
Suciu 2010, *Boosting the accuracy of differentially private histograms through consistency*). Fewer, wider levels are better than
b = 2 with Laplace noise (Qardaji, Yang and Li 2013, *Understanding hierarchical methods for differentially private histograms*,
about b = 16): see `best_tree`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.parameters import whole

NEARLY = 1 + 1e-9
"""Errors that are closer than this are alike: of two such trees the one of fewer levels is taken, on every machine."""


@dataclass(frozen=True)
class CountTree:
    """A tree of counts of people by bin.

    bins    how many bins there are, at least 2
    levels  how many levels of nodes lie below the top: L
    total   whether the count of everybody is a node too

    >>> tree = CountTree(bins=4, levels=2, total=True)
    >>> tree.add_up(np.array([3, 0, 1, 5])).tolist()                  # all, the two halves, the bins
    [9, 3, 6, 3, 0, 1, 5]
    >>> CountTree(5, 1, False).add_up(np.arange(5)).tolist()
    [0, 1, 2, 3, 4]
    """

    bins: int
    levels: int
    total: bool

    def __post_init__(self) -> None:
        whole("bins", self.bins, least=2)
        whole("levels", self.levels, least=1)
        if self.levels > 1 and self.branching ** (self.levels - 1) >= self.bins:
            raise InvalidInput(
                f"{self.levels} levels are too many for {self.bins} bins: one would count everybody again"
            )

    @cached_property
    def branching(self) -> int:
        """How many nodes have one above them in common: the least b with b^L ≥ bins."""
        b = 1
        while b**self.levels < self.bins:
            b += 1
        return b

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has, from the top, which has one, down to the bins."""
        return tuple(-(-self.bins // self.branching ** (self.levels - level)) for level in range(self.levels + 1))

    @property
    def nodes(self) -> int:
        """How many numbers get noise."""
        return sum(self.sizes) - (not self.total)

    def add_up(self, counts: Integers) -> Integers:
        """Return all nodes, level by level from the top, from counts by bin along the last axis."""
        levels = [np.asarray(counts)]
        for size in self.sizes[-2::-1]:
            levels.append(np.add.reduceat(levels[-1], np.arange(size) * self.branching, axis=-1))
        return np.concatenate(levels[::-1] if self.total else levels[-2::-1], axis=-1)

    def estimate(self, noisy: Floats) -> Floats:
        """Return the counts by bin that fit noisy nodes best: least squares, so every node is the sum of those below it.

        Nodes lie along the last axis, and have independent noise of one variance. These are the two passes of Hay et al. (2010),
        Theorem 3, for trees that need not be full (ours). Upwards each node takes z, the best estimate from itself and what lies
        below, of variance s (that of one noise is 1); downwards what a node has above the sum of those below it is shared out by
        their variances:

            z = s·(y + Σ z_below / Σ s_below),   1/s = 1 + 1/Σ s_below          (s = Σ s_below for a top without a node)
            x_below = z_below + (s_below / Σ s_below)·(x − Σ z_below)

        >>> CountTree(4, 2, True).estimate(np.array([9.0, 4.0, 6.0, 3.0, 0.0, 1.0, 5.0])).round(4).tolist()
        [3.2381, 0.2381, 0.9048, 4.9048]
        """
        own = np.split(noisy, np.cumsum(self.sizes if self.total else self.sizes[1:])[:-1], axis=-1)
        estimates, sums = [own[-1]], []
        for level in range(self.levels - 1, -1, -1):
            sums.append(np.add.reduceat(estimates[-1], self._firsts(level), axis=-1))
            below = self._below[level]
            s = self._variances[level]
            if level or self.total:
                estimates.append(s * (own[level - (not self.total)] + sums[-1] / below))
            else:
                estimates.append(sums[-1])
        fitted = estimates.pop()
        for level in range(self.levels):
            above, z = self._above(level + 1), estimates.pop()
            share = self._variances[level + 1] / self._below[level][above]
            fitted = z + share * (fitted - sums.pop())[..., above]
        return fitted

    def rank_variance(self, quantile: float) -> Floats:
        """Return the variance of Ĉ_j − q·N̂ at every edge j = 0 … bins, where that of the noise of a node is 1 (ours).

        Ĉ_j is how many are below the edge and N̂ how many there are at all, by `estimate`; C_j − q·N is how far the q-quantile's
        rank lies below the edge. Within the nodes below one, what is left of z_below once its part of their sum is taken out is
        uncorrelated with that sum, and with all that lies outside. So Ĉ_j = α·N̂ + r with r uncorrelated with N̂, and with k_i
        the part of node i that lies below the edge (1, 0, or the α of the one node that the edge cuts), level by level upwards

            α = Σ k_i s_i / S,    Var r = Σ k_i² s_i − (Σ k_i s_i)² / S + Var r of the node that is cut,    S = Σ s_i.

        >>> CountTree(2, 1, True).rank_variance(0.5).round(4).tolist()        # N̂: 2/3; Ĉ_1 − N̂/2 = (y_1 − y_2)/2: 1/2
        [0.1667, 0.5, 0.1667]
        """
        parts, rest = self._prefixes
        variance: Floats = (parts - quantile) ** 2 * self._variances[0][0] + rest
        return variance

    @property
    def rank_error(self) -> float:
        """The standard deviation of a median's rank, as a multiple of that of one noise: root mean square over inner edges."""
        return float(np.sqrt(self.rank_variance(0.5)[1:-1].mean()))

    @cached_property
    def _prefixes(self) -> tuple[Floats, Floats]:
        """α and Var r of every edge."""
        edges = np.arange(self.bins)
        parts, rest = np.zeros(self.bins), np.zeros(self.bins)
        for level in range(self.levels - 1, -1, -1):
            s, below = self._variances[level + 1], self._below[level]
            cut = edges // self.branching ** (self.levels - level - 1)
            above = cut // self.branching
            before = np.concatenate([[0.0], np.cumsum(s)])
            whole_ones = before[cut] - before[above * self.branching]
            sum_, squares = whole_ones + parts * s[cut], whole_ones + parts**2 * s[cut]
            rest = rest + squares - sum_**2 / below[above]
            parts = sum_ / below[above]
        return np.append(parts, 1.0), np.append(rest, 0.0)

    def _above(self, level: int) -> Integers:
        """The node above each node of a level."""
        return np.arange(self.sizes[level]) // self.branching

    def _firsts(self, level: int) -> Integers:
        """The first node below each node of a level."""
        return np.arange(self.sizes[level]) * self.branching

    @cached_property
    def _both(self) -> tuple[list[Floats], list[Floats]]:
        """s of every level, and Σ s_below of every level but the last."""
        s, below = [np.ones(self.bins)], []
        for level in range(self.levels - 1, -1, -1):
            below.append(np.add.reduceat(s[-1], self._firsts(level)))
            s.append(below[-1] / (1 + below[-1]) if level or self.total else below[-1])
        return s[::-1], below[::-1]

    @property
    def _variances(self) -> list[Floats]:
        return self._both[0]

    @property
    def _below(self) -> list[Floats]:
        return self._both[1]


@lru_cache(maxsize=1_000)
def best_tree(bins: int, noise: str, *, total: bool) -> CountTree:
    """Return the tree whose quantiles have the least error, from public facts alone: how many bins, and which noise (ours).

    With L levels one person moves 2L nodes, or L (`sensitivity.tree_sensitivity`), so Laplace noise grows as L and Gaussian noise
    as √L. The error is that of a median's rank, on average over all edges: L²·V or L·V, with V the mean of `rank_variance(½)`.
    For 100 bins and Laplace noise two levels of b = 10 have 0.55 of the error of seven of b = 2, and 0.86 of that of the bins
    alone; for Gaussian noise three of b = 5 have 0.97 of that of seven of b = 2. A ledger remembers its tree: another rule here
    would refuse to go on with it.

    >>> [best_tree(bins, "laplace", total=True).levels for bins in (2, 32, 100, 1_000, 10_000)]
    [1, 1, 2, 3, 3]
    >>> best_tree(100, "laplace", total=True).branching, best_tree(100, "gaussian", total=True).branching
    (10, 5)
    """
    most = max(1, (bins - 1).bit_length())
    trees: list[CountTree] = []
    for levels in range(1, most + 1):
        try:
            trees.append(CountTree(bins, levels, total))
        except InvalidInput:
            continue
    power = 2 if noise == "laplace" else 1
    errors = np.array([tree.levels**power * tree.rank_error**2 for tree in trees])
    return trees[int(np.argmax(errors <= errors.min() * NEARLY))]
