"""Quantiles, with their error bands, from a noisy tree of counts: post-processing, which costs no privacy.

All quantiles of a step come from one release. Let e_0 < … < e_m be the edges, C_j how many people are below e_j (all of them, N,
for j = m), and D_j = C_j − q·N. The q-quantile x is the least reading that at least q·N people do not exceed: it lies in the bin
b with

    D_b < 0 ≤ D_{b+1}.

D̂_j, from the least-squares counts (`numerics/trees.py`), is linear in the noise: unbiased, with a standard deviation σ_j that is
known, and t_j is such that D̂_j − D_j passes +t_j, or −t_j, with probability 2.5 % at most.

**The value** is where a monotone Ĉ reaches q·N̂, people spread evenly over a bin: the mean of the running maximum of Ĉ from below
and of its running minimum from above. Isotonic regression has the same error.

**The band** (ours). From the lowest edge upwards, edges are passed as long as D̂_j < −t_j; from the highest downwards as long as
D̂_j > t_j. The two edges where that ends, e_low < e_high, hold x with probability 95 % at least, whatever the data. If e_low lies
above x, then e_{b+1} was passed: D̂_{b+1} < −t_{b+1} although D_{b+1} ≥ 0, which happens with 2.5 % at most. If e_high lies below
x, then D̂_b > t_b although D_b < 0. Edges b and b + 1 follow from the data and not from the noise, so no other edge enters: these
are tests in a fixed order, which need no allowance for how many there are. As e_low and e_high are edges of the grid, the band
allows for how coarse the grid is too. It is told as one half-width, max(value − e_low, e_high − value).

t_j is what one noise of standard deviation σ_j passes with 2.5 %: exact for Gaussian noise. A sum of Laplace noises passes it
less often than a single one of its variance: computed by inverting characteristic functions for the edges of trees that
`best_tree` gives (in the tests), not proved for all sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.trees import CountTree


@dataclass(frozen=True)
class TreeQuantiles:
    """How the quantiles of a stream follow from the noisy numbers of its steps.

    edges      of the bins, in the unit of the readings
    quantiles  which are asked for, in ascending order
    """

    tree: CountTree
    edges: tuple[float, ...]
    quantiles: tuple[float, ...]

    def of(self, noisy: Floats, bounds: Floats) -> Floats:
        """Return the quantiles of each step, group by group, and behind them their error bands: steps × 2·groups·quantiles.

        noisy   the nodes of all groups, one group after the other: steps × groups·nodes
        bounds  of each step, what the noise of one node passes with 2.5 %, either way
        """
        groups = noisy.shape[1] // self.tree.nodes
        rows = noisy.reshape(-1, self.tree.nodes)
        found = quantiles_of_tree(rows, self.tree, np.array(self.edges), self.quantiles, np.repeat(bounds, groups))
        return np.concatenate([x.reshape(len(noisy), -1) for x in found], axis=1)


def quantiles_of_tree(
    noisy: Floats, tree: CountTree, edges: Floats, quantiles: Sequence[float], bounds: Floats
) -> tuple[Floats, Floats]:
    """Return the quantiles of each row of noisy nodes, and the half-widths of their 95 % bands: rows × quantiles each.

    edges   of the bins, in the unit of the readings
    bounds  of each row, what the noise of one node passes with 2.5 %, either way: 2.996 scales if Laplace, 1.960 if Gaussian

    Where noise leaves nobody (N̂ ≤ 0) the value is the middle of the grid, and the band all of it. If there is nobody, there is no
    quantile that it could hold.

    >>> tree, edges = CountTree(4, 2, True), np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    >>> exact = tree.add_up(np.array([20, 30, 40, 10])).astype(float)
    >>> values, bands = quantiles_of_tree(exact[None], tree, edges, [0.25, 0.5], np.array([3.0]))
    >>> values.round(6).tolist(), bands.round(6).tolist()            # of 100 people, the 25th is the 5th of 30
    ([[11.666667, 20.0]], [[8.333333, 10.0]])
    """
    if noisy.ndim != 2 or noisy.shape[1] != tree.nodes or len(edges) != tree.bins + 1:
        raise InvalidInput(
            f"{tree.nodes} nodes and {tree.bins + 1} edges are needed, not {noisy.shape} and {len(edges)}"
        )
    below = np.concatenate([np.zeros((len(noisy), 1)), np.cumsum(tree.estimate(noisy), axis=1)], axis=1)
    everybody = below[:, -1]
    found = [
        _one_quantile(below, everybody, q, edges, bounds[:, None] * np.sqrt(tree.rank_variance(q))) for q in quantiles
    ]
    values, bands = (np.stack(parts, axis=1) for parts in zip(*found, strict=True))
    return values, bands


def _one_quantile(below: Floats, everybody: Floats, q: float, edges: Floats, bounds: Floats) -> tuple[Floats, Floats]:
    ranks = below - q * everybody[:, None]
    inner, last = slice(1, -1), len(edges) - 1
    low = np.logical_and.accumulate(ranks[:, inner] < -bounds[:, inner], axis=1).sum(axis=1)
    high = last - np.logical_and.accumulate(ranks[:, inner][:, ::-1] > bounds[:, inner][:, ::-1], axis=1).sum(axis=1)
    nobody = everybody <= 0
    low, high = np.where(nobody, 0, low), np.where(nobody, last, high)
    values = np.where(nobody, (edges[0] + edges[-1]) / 2, _crossing(ranks, edges))
    return values, np.maximum(values - edges[low], edges[high] - values)


def _crossing(ranks: Floats, edges: Floats) -> Floats:
    """Where the monotone ranks pass 0, by a straight line within a bin; the last edge if they never do."""
    rising = np.maximum.accumulate(ranks, axis=1) + np.minimum.accumulate(ranks[:, ::-1], axis=1)[:, ::-1]
    rows, above = np.arange(len(ranks)), np.maximum(1, np.argmax(rising >= 0, axis=1))
    from_, to = rising[rows, above - 1], rising[rows, above]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.clip(np.where(to > from_, -from_ / (to - from_), 1.0), 0.0, 1.0)
    values: Floats = edges[above - 1] + part * (edges[above] - edges[above - 1])
    return values
