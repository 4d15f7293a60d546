"""Composition of (ε, δ) losses by data time, which the paper leaves open."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.fading import Fade, add_up
from halflife.notions.age_dependent.skip import WINDOW
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.numerics.rounding import TOLERANCE
from halflife.processes.base import Process
from halflife.processes.contraction import ROUND_UP, theorem_1
from halflife.release import Noise


class Charge(NamedTuple):
    """An (ε, δ) loss about a data time, and the loss of earlier charges about it."""

    time: int
    epsilon: float
    delta: float
    before: float
    delta_before: float


class Charges(NamedTuple):
    """The newest charges by data time, whether older ones were forgotten, and all losses unfaded: Σε of Laplace, Σμ² of
    Gaussian."""

    recent: tuple[Charge, ...] = ()
    forgot: bool = False
    pure: float = 0.0
    squares: float = 0.0


class Approximate:
    """(ε, δ) about X_τ is (ln(1 + Δ(t)(e^ε − 1)), Δ(t)·δ) about X_{τ+t}; before it fades it is (ε_n + r_n, δ_n + d_n) (T4; ours).

    The rules of version 1, under which earlier accounts were begun; later ones leap as well (`ApproximateSkip`).

    By the advanced joint convexity of Balle, Barthe and Gaboardi 2018. While no δ is spent the pure contraction K_t serves.
    Gaussian noise of loss μ is (ε, δ)-private for every δ. A release is charged at half of the δ that is not in use at its data
    time, so that δ never runs out, whatever comes later: δ_n + d_n ≤ δ at all times. Where fading does not pay, all releases
    together count as Gaussian differential privacy has it.
    """

    name: ClassVar[str] = "approximate"

    def __init__(self, process: Process, fade: Fade, delta: float) -> None:
        self._process, self._fade, self._delta = process, fade, delta

    def start(self) -> Charges:
        """Nothing published."""
        return Charges()

    def add(self, state: Charges, time: int, loss: float, noise: Noise = "laplace") -> Charges:
        """Charge a release about this data time."""
        epsilon, delta = self._charge(state, time, loss, noise)
        recent = list(state.recent)
        place = bisect_right([c.time for c in recent], time)
        if place == 0 and state.forgot:
            first = recent[0]
            recent[0] = first._replace(
                before=add_up(first.before, epsilon), delta_before=add_up(first.delta_before, delta)
            )
            place = 1
        else:
            recent.insert(place, Charge(time, epsilon, delta, 0.0, 0.0))
        for k in range(place, len(recent)):
            before = self._fade_from(recent[k - 1], recent[k].time) if k else (0.0, 0.0)
            recent[k] = recent[k]._replace(before=before[0], delta_before=before[1])
        return self._keep(state, recent, loss, noise)

    @staticmethod
    def _keep(state: Charges, recent: Sequence[Charge], loss: float, noise: Noise) -> Charges:
        """Return the state after a release, with the newest of these charges."""
        pure, squares = (loss, 0.0) if noise == "laplace" else (0.0, loss * loss * ROUND_UP)
        forgot = state.forgot or len(recent) > WINDOW
        return Charges(tuple(recent[-WINDOW:]), forgot, add_up(state.pure, pure), add_up(state.squares, squares))

    def _charge(self, state: Charges, time: int, loss: float, noise: Noise) -> tuple[float, float]:
        if noise == "laplace":
            return loss, 0.0
        in_use, recent = 0.0, state.recent
        if recent and time >= recent[-1].time:
            in_use = self._fade_from(recent[-1], time)[1]
        elif recent:
            in_use = max(c.delta + c.delta_before for c in recent)
        delta = self._take_delta(in_use)
        return gaussian_epsilon(loss, delta), delta

    def _take_delta(self, in_use: float) -> float:
        """Return half of the δ that is not in use."""
        delta = max(0.0, (self._delta - in_use * ROUND_UP) / 2)
        if delta < 1e-300:
            raise InvalidInput("no δ is left for another Gaussian release: publish less often, or with Laplace noise")
        return delta

    def _fade_from(self, charge: Charge, step: int) -> tuple[float, float]:
        """Return (ε, δ) of a charge and all before it about X_step."""
        gap, epsilon = step - charge.time, add_up(charge.epsilon, charge.before)
        delta = add_up(charge.delta, charge.delta_before)
        if delta == 0:
            return float(self._fade(np.array([gap]), np.array([epsilon]))[0]), 0.0
        variation = self._process.total_variation(gap)
        return theorem_1(variation, epsilon), min(delta, variation * delta * ROUND_UP)

    def risk(self, state: Charges, step: int) -> float:
        """ε of what all releases tell about X_step, its δ within the promised one: faded, or all at once as if nothing faded."""
        if not state.recent:
            return 0.0
        unfaded = add_up(state.pure, gaussian_epsilon(math.sqrt(state.squares) * ROUND_UP, self._delta))
        return min(self._faded(state, step), unfaded)

    def _faded(self, state: Charges, step: int) -> float:
        """ε as it has faded; infinite if its δ has come above the promised one, as data times out of order can make it: between
        two data times Δ(s + t) fades more than Δ(s)·Δ(t), which is what a third one between them leaves."""
        epsilon, delta = self._fade_from(state.recent[-1], step)
        return epsilon if delta <= self._delta * (1 + TOLERANCE) else math.inf

    def about(self, state: Charges, moments: Sequence[int]) -> float:
        """Not answered: about the past the δ of both sides, and of gaps between steps, would add up to more than is promised."""
        raise InvalidInput(
            "the risk about past steps is worked out for pure losses alone: ask an account with delta = 0"
        )

    def dump(self, state: Charges) -> object:
        """As lists."""
        recent = [[c.time, c.epsilon, c.delta, c.before, c.delta_before] for c in state.recent]
        return {"recent": recent, "forgot": state.forgot, "pure": state.pure, "squares": state.squares}

    def load(self, data: object) -> Charges:
        """Read what `dump` gave."""
        data = read_form("an age-dependent account with a δ", data, ("recent", "forgot", "pure", "squares"))
        if not isinstance(data["recent"], list) or not isinstance(data["forgot"], bool):
            raise InvalidInput(
                "an age-dependent account with a δ must hold its recent charges, and whether it forgot any"
            )
        if (
            not all(isinstance(item, list) and len(item) == 5 for item in data["recent"])
            or len(data["recent"]) > WINDOW
        ):
            raise InvalidInput("recent charges must be [data time, ε, δ, ε before, δ before] each")
        recent = tuple(
            Charge(
                whole("data time", c[0]),
                real("ε", c[1]),
                real("δ", c[2]),
                real("ε before", c[3]),
                real("δ before", c[4]),
            )
            for c in data["recent"]
        )
        if any(b.time < a.time for a, b in pairwise(recent)) or (data["forgot"] and not recent):
            raise InvalidInput("the data times of an account must not go back, nor all be forgotten")
        if any(c.delta + c.delta_before > self._delta * (1 + TOLERANCE) for c in recent):
            raise InvalidInput(f"an account cannot have more δ in use than the promised {self._delta:g}")
        return Charges(recent, data["forgot"], real("pure losses", data["pure"]), real("squares", data["squares"]))
