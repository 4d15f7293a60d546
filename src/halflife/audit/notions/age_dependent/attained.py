"""What some outputs of some mechanism really tell about the state of now: lower bounds on the true risk."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halflife.audit.notions.age_dependent.kernels import reversed_kernel
from halflife.errors import InvalidInput
from halflife.processes import MarkovChain
from halflife.release import Release

FEW_STATES = 8
"""Up to so many states all sets are asked about; beyond, intervals."""


def attained_loss(chain: MarkovChain, releases: Sequence[Release], now: int | None = None) -> float:
    """Return what some outputs of some mechanism with these losses really tell about X_now: a lower bound on the true risk.

    The mechanism is randomised response to "is the state in B?", and every answer says yes. Their likelihood as a function of the
    state is followed from the oldest data time on. All sets B are tried where there are few states, else the intervals.

    >>> coin = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
    >>> round(attained_loss(coin, [Release(k, 0.5) for k in range(1, 9)]), 5)
    1.75867
    """
    charges: dict[int, float] = {}
    for r in releases:
        charges[r.data_time] = charges.get(r.data_time, 0.0) + r.loss
    at = max((r.step for r in releases), default=0) if now is None else now
    if charges and at < max(charges):
        raise InvalidInput(f"step {at} lies before the newest data, of step {max(charges)}: ask about a later one")
    kernel = cache(lambda gap: reversed_kernel(chain, gap))
    inside = _sets(chain.states)
    likelihood, last = np.ones((len(inside), chain.states)), None
    for time, loss in sorted(charges.items()):
        if last is not None:
            likelihood = likelihood @ kernel(time - last).T
        likelihood = likelihood * np.where(inside, math.exp(loss), 1.0)
        likelihood, last = likelihood / likelihood.max(axis=1, keepdims=True), time
    if last is None:
        return 0.0
    likelihood = likelihood @ kernel(at - last).T
    return float(np.log(likelihood.max(axis=1) / likelihood.min(axis=1)).max())


def _sets(states: int) -> NDArray[np.bool_]:
    if states <= FEW_STATES:
        rows: list[Any] = [row for row in itertools.product((False, True), repeat=states) if any(row) and not all(row)]
    else:
        ends = itertools.combinations(range(states + 1), 2)
        rows = [[a <= z < b for z in range(states)] for a, b in ends if b - a < states]
    return np.array(rows or [[True] * states])
