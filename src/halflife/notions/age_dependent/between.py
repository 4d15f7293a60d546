"""What releases about data between two steps tell about the states at both of them, for Markov processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.fading import AnyPrior, Fade
from halflife.numerics.arrays import Floats
from halflife.processes.contraction import any_prior_rows

SUMMED_UP = 1 + 2.0**-44
"""Covers the rounding of sums of as many losses as an account remembers."""


class Covered(NamedTuple):
    """The oldest and the newest step that releases are about, and their loss."""

    first: int
    last: int
    loss: float


Pass = Callable[[Sequence[int], Sequence[float], int, Fade], float]
"""What releases about later times tell about a step, fading by this: `Skip.compose_ahead`."""


def told_between(inside: Sequence[Covered], start: int, end: int, fade: AnyPrior, compose_ahead: Pass) -> float:
    """Return how far ln P(outputs | X_start, X_end) varies over all pairs of states, at most, rounded up (ours).

    The outputs are of releases n = 1 … N that see no step but those strictly between `start` and `end`. Given both ends the path
    between is still a Markov process, with the law  P(x, z_1) P(z_1, z_2) ⋯ P(z_k, y) / norm(x, y).  The least of two bounds:

    1. **A block** of releases, of which the oldest step is f and the newest l, the others in full:

           Σ_{n outside} ε_n + 4 atanh( tanh((D_{f−start} + D_{end−l})/4) tanh(Σ_{n inside} ε_n/4) )

       Proof. A release outside changes the ratio by e^{ε_n} at most (T4a). Take two paths w, w′ of steps f … l and two pairs of
       ends. In the ratio of odds  P(w|x,y) P(w′|x′,y′) / (P(w′|x,y) P(w|x′,y′))  norms and all kernels within the block cancel.
       What is left is a cross-ratio of the kernel from `start` to f, at most e^{D_{f−start}}, times one of that from l to `end`,
       at most e^{D_{end−l}}. So for every set of paths the odds under both pairs of ends are within that factor, and with a
       likelihood that varies by Σε_n the proof for an adversary with any prior applies word by word. Nothing grows as it
       fades, so it is at most Σ_n ε_n.
    2. **One end after the other**: from (x, y) to (x′, y), then to (x′, y′). With y fixed the kernel of the path from u to v
       is P(z, z′) h_v(z′)/norm(z), with h_v(z′) = P(X_end = y | X_v = z′). To its cross-ratios neither h nor the norm matters, so
       D of the process serves, and T4 and T4a with it: r→ towards `start`, against any prior, and by the same argument r← towards
       `end`. A release of several steps counts at the one nearest to the state asked for. The pair (x′, y) must be possible:
       where fading helps, some D within the gap is finite, so the kernel over the whole gap has no zero, and every pair is.

    One release between two steps of a symmetric two-state chain costs 4 atanh(c tanh(ε/4)), c = (λ^u + λ^v)/(1 + λ^{u+v}) for u
    steps to one side and v to the other, where 2 atanh(c tanh(ε/2)) is attained.

    A process that does not say how single states compare (`GeometricMixing`) has the sum of the losses.

    >>> from halflife.notions.age_dependent.skip import Skip
    >>> from halflife.processes import MarkovChain
    >>> fade = AnyPrior(MarkovChain([[0.9, 0.1], [0.1, 0.9]]))
    >>> middle = [Covered(5, 5, 0.5)]
    >>> round(told_between(middle, 0, 10, fade, Skip(fade, fade, fade).compose_ahead), 4)
    0.2949
    """
    losses = [one.loss for one in inside]
    total = math.fsum(losses) * SUMMED_UP if len(losses) > 1 else sum(losses)
    if not total:
        return 0.0
    try:
        to_start = fade.spreads(np.array([one.first - start for one in inside]))
        to_end = fade.spreads(np.array([end - one.last for one in inside]))
    except InvalidInput:
        return total
    towards_start = compose_ahead([one.first for one in inside], losses, start, fade)
    mirrored = sorted((-one.last, one.loss) for one in inside)
    towards_end = compose_ahead([time for time, _ in mirrored], [loss for _, loss in mirrored], -end, fade)
    return min(total, (towards_start + towards_end) * SUMMED_UP, _least_block(np.array(losses), to_start, to_end))


def _least_block(losses: Floats, to_start: Floats, to_end: Floats) -> float:
    """Return the least of the first bound over blocks of neighbours, in the order of their oldest steps.

    to_start, to_end  D from `start` to each release's oldest step, and from its newest to `end`
    """
    least, count = math.inf, len(losses)
    after = np.append(np.cumsum(losses[::-1])[::-1][1:], 0.0)
    for j in range(count):
        inside = np.cumsum(losses[j:])
        spread = to_start[j] + np.maximum.accumulate(to_end[j:])
        outside = losses[:j].sum() + after[j:]
        least = min(least, float((outside + any_prior_rows(spread, inside * SUMMED_UP)).min()))
    return least * SUMMED_UP
