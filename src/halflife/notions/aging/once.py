"""Composition where nothing is known about how lags hang together: one release is amplified, the others count in full."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.aging.fading import Fade, add_up
from halflife.numerics import real, whole
from halflife.processes.contraction import ROUND_UP

MOST = 20_000


class Told(NamedTuple):
    """Data times, ascending, and the losses about each."""

    times: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()


class Once:
    """Σ_k ε_k − max_n (ε_n − K_{t − τ_n}(ε_n)): all losses, at most one of them amplified (T4; ours).

    Stationarity is enough for one release; for more the Markov property is what makes amplified losses compose. Adding them up
    is unsound: X_t = X_{t−1} ⊕ X_{t−2} with fair coins has K_1 = K_2 = 0, and two randomised responses at ε = 1 tell 0.434.
    About the past nothing is amplified.
    """

    def __init__(self, fade: Fade) -> None:
        self._fade = fade

    def start(self) -> Told:
        """Nothing published."""
        return Told()

    def add(self, state: Told, time: int, loss: float) -> Told:
        """Put a loss to its data time."""
        known = dict(zip(*state, strict=True))
        known[time] = add_up(known.get(time, 0.0), loss)
        if len(known) > MOST:
            raise InvalidInput(
                f"an account without the Markov property remembers {MOST:,} data times, no more: end the promise there"
            )
        return Told(*(tuple(x) for x in zip(*sorted(known.items()), strict=True)))

    def risk(self, state: Told, step: int) -> float:
        """What all releases tell about X_step."""
        if not state.times:
            return 0.0
        losses = np.array(state.losses)
        saved = losses - self._fade(step - np.array(state.times), losses)
        return float(losses.sum() - max(0.0, float(saved.max())) / ROUND_UP) * ROUND_UP

    def about(self, state: Told, moment: int) -> float:
        """All losses in full."""
        return float(np.sum(state.losses)) * ROUND_UP

    def dump(self, state: Told) -> Any:
        """As a list."""
        return [list(x) for x in zip(*state, strict=True)]

    def load(self, data: Any) -> Told:
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
        return Told(times, tuple(real("loss", x) for _, x in data))
