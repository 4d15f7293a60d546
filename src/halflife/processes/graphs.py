"""Random walks on graphs, and a bound on how fast they forget that needs no eigenvalues."""

from __future__ import annotations

from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.processes.base import read_rows
from halflife.processes.markov import MarkovChain


def walk_on_graph(adjacency: Any) -> MarkovChain:
    """Return the random walk that goes to each neighbour with the same probability.

    adjacency  a symmetric matrix of zeros and ones: 1 where two vertices are joined, on the diagonal where one may stay

    >>> walk_on_graph([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).matrix.tolist()
    [[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]]
    """
    joined = _read(adjacency)
    _diameter(joined)
    return MarkovChain(joined / joined.sum(axis=1, keepdims=True))


def graph_bound(adjacency: object) -> float:
    """Return 1 − 1/(n d* (1 + γ*)) ≥ λ*, for n vertices, largest degree d* and diameter γ* (Proposition 6, eq. 57; corrected).

    λ* is the largest absolute value of an eigenvalue of the walk beside 1. As printed, for any connected graph, eq. 57 is false:
    on two vertices and one edge it says λ* ≤ 3/4, and the walk there, as on every bipartite graph, has the eigenvalue −1 and
    never forgets on which side it is. Bipartite graphs are refused. For all others it holds. Let f be an eigenvector with
    Σ deg(u) f(u)² = 1, so f(u)² ≥ 1/(n d*) somewhere. For λ > 0 follow a shortest path from u to a vertex where f has the other
    sign; for λ < 0 an odd closed walk, at most γ* edges out, one across, and as many back; and use Cauchy and Schwarz on the
    differences or sums along it.

    >>> graph_bound([[0, 1, 1], [1, 0, 1], [1, 1, 0]])  # the walk on a triangle has λ* = 1/2
    0.9166666666666666
    """
    joined = _read(adjacency)
    diameter = _diameter(joined)
    if _bipartite(joined):
        raise InvalidInput(
            "the graph is bipartite: a walk changes sides at every step and never forgets on which it was (an eigenvalue is −1), "
            "so eq. 57 does not hold: let the walk stay at some vertex, with a 1 on the diagonal"
        )
    return 1 - 1 / (len(joined) * float(joined.sum(axis=1).max()) * (1 + diameter))


def _read(adjacency: Any) -> Floats:
    rows = read_rows("an adjacency matrix", adjacency)
    for i, row in enumerate(rows):
        if len(row) != len(rows):
            raise InvalidInput(
                f"row {i} of the adjacency matrix has {len(row)} entries, not {len(rows)}: it must be square"
            )
        for j, entry in enumerate(row):
            if entry not in (0, 1):
                raise InvalidInput(f"row {i}, column {j} of the adjacency matrix must be 0 or 1, not {entry!r}")
            if rows[j][i] != entry:
                raise InvalidInput(
                    f"vertex {i} is joined to {j} but not the other way: a walk needs a graph without directions"
                )
    return np.array(rows, dtype=np.float64)


def _diameter(joined: Floats) -> int:
    from scipy.sparse.csgraph import shortest_path

    steps = shortest_path(joined, unweighted=True)
    if not np.isfinite(steps).all():
        apart = np.flatnonzero(~np.isfinite(steps[0])).tolist()
        raise InvalidInput(
            f"the graph is not connected: no way leads from vertex 0 to {apart}: describe each part on its own"
        )
    if len(joined) == 1 and not joined[0, 0]:
        raise InvalidInput("vertex 0 has no neighbour, so a walk cannot leave it: put a 1 on the diagonal")
    return int(steps.max())


def _bipartite(joined: Floats) -> bool:
    from scipy.sparse.csgraph import shortest_path

    side = shortest_path(joined, unweighted=True, indices=0) % 2
    return not (joined * (side[:, None] == side[None, :])).any()
