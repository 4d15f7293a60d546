"""Composition for processes that are not known to be Markov: one release is amplified, the others count in full."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.fading import Fade, add_up
from halflife.numerics.arrays import Integers
from halflife.numerics.parameters import real, whole
from halflife.processes.contraction import ROUND_UP

MOST = 20_000
AT_ONCE = 20_000
"""Pairs of a step and a data time that are looked at together, so that memory stays small."""


class LossesByTime(NamedTuple):
    """Data times, ascending, and the sum of losses about each."""

    times: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()


class Once:
    """Σ_k ε_k − max_n (ε_n − K_{t − τ_n}(ε_n)): all losses, at most one of them amplified (T4; ours).

    Stationarity is enough for one release; for more the Markov property is what makes amplified losses compose. Adding them up
    is unsound: X_t = X_{t−1} ⊕ X_{t−2} with fair coins has K_1 = K_2 = 0, and two randomised responses at ε = 1 tell 0.434.
    About the past nothing is amplified.

    fade  K, which must not rise with the lag up to `last_lag`; beyond it nothing is known, and a release counts in full again
    """

    name: ClassVar[str] = "once"

    def __init__(self, fade: Fade, last_lag: int | None = None) -> None:
        self._fade, self._last_lag = fade, last_lag

    def start(self) -> LossesByTime:
        """Nothing published."""
        return LossesByTime()

    def add(self, state: LossesByTime, time: int, loss: float) -> LossesByTime:
        """Put a loss to its data time."""
        known = dict(zip(*state, strict=True))
        known[time] = add_up(known.get(time, 0.0), loss)
        if len(known) > MOST:
            raise InvalidInput(
                f"an account without the Markov property remembers {MOST:,} data times, no more: end the promise there"
            )
        return LossesByTime(*(tuple(x) for x in zip(*sorted(known.items()), strict=True)))

    def risk(self, state: LossesByTime, step: int) -> float:
        """Return the loss of all releases about X_step."""
        return self._worst(state, np.array([step]))

    def peak(self, state: LossesByTime, step: int, horizon: int | None) -> float:
        """The largest risk at any step from this one to the horizon if nothing more is published.

        K falls with the lag up to the last one, so the risk rises only at steps where a release passes that lag.
        """
        if self._last_lag is None or horizon is None:
            return self.risk(state, step)
        passing = np.array(state.times, dtype=np.int64) + self._last_lag + 1
        return self._worst(state, np.array([step, *passing[(passing > step) & (passing <= horizon)].tolist()]))

    def _worst(self, state: LossesByTime, steps: Integers) -> float:
        """The largest risk at any of these steps."""
        if not state.times:
            return 0.0
        times, losses, least = np.array(state.times), np.array(state.losses), np.inf
        for some in np.array_split(steps, -(-len(steps) * len(times) // AT_ONCE)):
            gaps = some[:, None] - times
            saved = losses - self._fade(gaps.ravel(), np.tile(losses, len(some))).reshape(gaps.shape)
            least = min(least, float(saved.max(axis=1).min()))
        return float(losses.sum() - max(0.0, least) / ROUND_UP) * ROUND_UP

    def about(self, state: LossesByTime, moments: Sequence[int]) -> float:
        """Return the sum of all losses, whatever the steps: none is amplified about the past.

        Given any states at any steps the law of the outputs is a mixture over paths, on each of which the likelihood lies between
        c and c e^{Σε}, c of the outputs alone. What is between the steps is not independent of what is outside without the
        Markov property, so no part may fade by itself.
        """
        return float(np.sum(state.losses)) * ROUND_UP

    def dump(self, state: LossesByTime) -> object:
        """As a list."""
        return [list(x) for x in zip(state.times, state.losses, strict=True)]

    def load(self, data: object) -> LossesByTime:
        """Read what `dump` gave."""
        if (
            not isinstance(data, list)
            or not all(isinstance(item, list) and len(item) == 2 for item in data)
            or len(data) > MOST
        ):
            raise InvalidInput(f"an account must hold [data time, loss] each, not {data!r}")
        times = tuple(whole("data time", t) for t, _ in data)
        if any(b <= a for a, b in pairwise(times)):
            raise InvalidInput("the data times of an account must ascend")
        return LossesByTime(times, tuple(real("loss", x) for _, x in data))
