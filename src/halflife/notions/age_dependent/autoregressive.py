"""Composition for AR(1) on a span, where the step-by-step recursion is unsound because states between leave the span."""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.fading import add_up
from halflife.notions.age_dependent.skip import WINDOW
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.processes.autoregressive import AutoRegressive
from halflife.processes.contraction import ROUND_UP


class Faded(NamedTuple):
    """(data time, loss) of the newest; the faded sum of older ones at the first of them; the sum of all; whether any is older."""

    recent: tuple[tuple[int, float], ...] = ()
    older: float = 0.0
    total: float = 0.0
    forgot: bool = False


class OnASpan:
    """min{ Σ_k |φ|^{t − τ_k} ε_k D/Δ_k, K_{t − τ_N}(Σ_k ε_k) }, φ the coefficient of the process, D its span (T4; ours).

    Two people whose states differ by D at t can be coupled so that they differed by |φ|^{t−τ} D at τ, and Laplace noise on the
    clipped value loses in proportion to the difference: a loss of ε_k is that of a move by the sensitivity Δ_k ≥ D, as from one
    end of the clip to the other, so a move by D costs ε_k D/Δ_k. That is the first bound. (By the rules of version 1 it has ε_k
    for ε_k D/Δ_k.) All releases together are one Σε-private mechanism that looks no later than τ_N, whatever the states were
    then, which may lie further apart than D: so the second bound has losses in full. Recursing K on the span itself says 0.525
    where 0.7886 is attained on the span [0, 1] and 1.067 on [4, 5] (φ = 0.9, σ = ε = 1, 20 releases). Into the future the
    process fades as into the past (Lemma 7), so about a past step both sides are summed.

    **About several steps** s_1 < … < s_m, at each of which two people's states differ by D at most, a loss at τ counts
    |φ|^{s_1 − τ} before all of them, |φ|^{τ − s_m} after, 1 at one of them, and u steps after one and v before the next

        (|φ|^u + |φ|^v) / (1 + |φ|^{u+v})

    (ours). For: given all these states the path between two of them, x and y, is a Gaussian bridge. Its covariance is the same
    for all x, y, and the mean at τ is a x + b y with a = φ^u (1 − φ^{2v})/(1 − φ^{2(u+v)}) and b the same with u and v
    exchanged. So paths between other states can be coupled that differ by (|a| + |b|) D at most, which is the factor above;
    outside, the process given s_1 or s_m is as before. All these losses together are in proportion to how far each state moves.
    The spread of a state given all others is no less than above, so rounding costs no more.

    **Rounding** to multiples of a resolution r before the clip is no contraction: a small move may change the value by a whole
    r. What is lost at a data time τ ≠ t is then, per unit that the state at τ moves, at most (1 + q)/(1 − q) of 1/b, with q = 2
    Σ_{k≥1} e^{−2π²k²s²/r²} and s the spread of the state given all others (ours). For: given these it is N(m, s²), the
    likelihood f of an output is constant between the points (j + ½) r, and ln f changes there by at most η = r/b. Let g(m) be
    its mean. g′/g is the mean of (u − m)/s², which rises with u, weighted by f: so no f has more than e^{ηj}, and clips have
    less. For it g′ = (e^η − 1) Σ_j e^{ηj} φ_s((j + ½) r − m), which by Poisson's summation formula is a constant times e^{ηm/r}
    [1 + 2 Σ_k e^{−2π²k²s²/r²} cos(…)], between 1 − q and 1 + q times it; and g is the integral of g′. The spread s is least if
    both neighbours are known, σ/√(1 + φ²), so with r at most half of that (`AutoRegressive.coarsest`) q < 10⁻³³. With r = 4.4 s
    (φ = 0.9, σ = 0.1, r = ε = 1, one release of age 20) 0.2097 is lost where φ^20 ε = 0.1216. At τ = t the value is known: if D
    is a whole multiple of r it moves by no more than D, as ⌊x + k⌋ = ⌊x⌋ + k. Releases about one data time must share r, and
    then count as one.
    """

    name: ClassVar[str] = "on a span"

    def __init__(self, process: AutoRegressive) -> None:
        self._process, self._fading = process, abs(process.rho)

    def start(self) -> Faded:
        """Nothing published."""
        return Faded()

    def add(self, state: Faded, time: int, loss: float, moved: float = 1.0) -> Faded:
        """Put a loss to its data time; one older than all that is remembered counts as if it were about the first of these.

        moved  D/Δ: what part of its sensitivity the span can move the release by
        """
        recent, older, total = list(state.recent), state.older, add_up(state.total, loss)
        loss = loss if moved == 1 else loss * moved * ROUND_UP
        forgot = state.forgot or len(recent) == WINDOW
        if forgot and time < recent[0][0]:
            older = add_up(older, loss)
        else:
            insort(recent, (time, loss))
        if len(recent) > WINDOW:
            gone = recent.pop(0)
            older = add_up(older, gone[1]) * self._fading ** (recent[0][0] - gone[0]) * ROUND_UP
        return Faded(tuple(recent), older, total, forgot)

    def risk(self, state: Faded, step: int) -> float:
        """Return the loss of all releases about X_step, a step not before any data time."""
        if not state.recent:
            return 0.0
        gap = step - state.recent[-1][0]
        return min(self.about(state, (step,)), self._process.contract(state.total, gap) if gap else state.total)

    def about(self, state: Faded, moments: Sequence[int]) -> float:
        """Return the loss of all releases about the states at these steps, ascending."""
        if not state.recent:
            return 0.0
        first, moment = state.recent[0][0], moments[0]
        if state.forgot and moment < first:
            raise InvalidInput(
                f"the account remembers data times from {state.recent[0][0]} on, so it cannot say what is known about step "
                f"{moment}: ask earlier, or replay the history of that time"
            )
        left = self._left(np.array([time for time, _ in state.recent], dtype=np.float64), moments)
        faded = float((np.array([loss for _, loss in state.recent]) * left).sum())
        older = state.older * self._fading ** (moment - first) if state.older else 0.0
        return min((faded + older) * ROUND_UP, state.total)

    def _left(self, times: Floats, moments: Sequence[int]) -> Floats:
        """Return what is left of a loss at each time about the states at these moments."""
        asked = np.array(moments, dtype=np.float64)
        place = np.searchsorted(asked, times)
        since = np.abs(times - asked[np.maximum(place - 1, 0)])  # from the last of them before, or the first
        until = np.abs(asked[np.minimum(place, len(asked) - 1)] - times)
        one_sided = (place == 0) | (place == len(asked))
        between = (self._fading**since + self._fading**until) / (1 + self._fading ** (since + until))
        return np.where(one_sided, self._fading ** np.minimum(since, until), between)

    def dump(self, state: Faded) -> object:
        """As lists."""
        recent = [[time, loss] for time, loss in state.recent]
        return {"recent": recent, "older": state.older, "total": state.total, "forgot": state.forgot}

    def load(self, data: object) -> Faded:
        """Read what `dump` gave."""
        data = read_form("an account of an autoregressive process", data, ("recent", "older", "total", "forgot"))
        if not isinstance(data["recent"], list) or len(data["recent"]) > WINDOW:
            raise InvalidInput("an account of an autoregressive process must hold its recent losses")
        if not all(isinstance(item, list) and len(item) == 2 for item in data["recent"]):
            raise InvalidInput("recent losses must be [data time, loss] each")
        recent = tuple((whole("data time", t), real("loss", x)) for t, x in data["recent"])
        if any(b[0] < a[0] for a, b in pairwise(recent)):
            raise InvalidInput("the data times of an account must not go back")
        older, total, forgot = real("older losses", data["older"]), real("total", data["total"]), data["forgot"]
        if not isinstance(forgot, bool) or (forgot and not recent) or (older and not forgot):
            raise InvalidInput(
                "an account of an autoregressive process must say whether it has forgotten releases, and which follow"
            )
        if total < math.fsum(x for _, x in recent):
            raise InvalidInput(f"the losses of an account add up to more than the total of {total:g} that it holds")
        return Faded(recent, older, total, forgot)
