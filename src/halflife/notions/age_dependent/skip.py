"""Composition by data time for Markov processes, leaping over releases where that is better (T4, T4a)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from halflife.errors import InvalidInput
from halflife.notions.age_dependent.between import Covered, told_between
from halflife.notions.age_dependent.fading import AnyPrior, Fade, add_up
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import real, whole
from halflife.processes.contraction import ROUND_UP

WINDOW = 128
"""How many data times an account remembers. A leap over more of them than that is not tried, which is sound: it is one of
many."""


class Past(NamedTuple):
    """Data times, ascending; the losses about each; what earlier ones tell about each; the oldest step that releases about each
    cover; whether older ones were forgotten."""

    times: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()
    before: tuple[float, ...] = ()
    firsts: tuple[int, ...] = ()
    forgot: bool = False


class Skip:
    """Sorted by data time τ_1 < τ_2 < …, with ε_n lost about τ_n, what releases before n tell about X_{τ_n} is at most

        r_n = min over j < n of  Σ_{j<i<n} ε_i + K_{τ_n − τ_j}(ε_j + r_j)          (T4a; ours)

    and the risk about X_t is the same expression with t in place of τ_n. With j = n − 1 alone this is T4, which on its own can
    diverge where the true risk does not (a walk between neighbours); leaping over releases costs their losses in full and lets
    the kernel mix. Losses about one data time add up. A data time between known ones is put in its place, and one older than all
    that is remembered adds its loss in full: any ε-private release adds at most ε. A release that covers several steps is put to
    the newest of them (`AgeDependent` has the proof); about the past, to the oldest.

    back, ahead  K of the kernels into the past and into the future;  between  what is left against any prior, for states between
    two that are asked about;  reach  how many releases to leap over, 1 for none
    """

    name: ClassVar[str] = "skip"

    def __init__(self, back: Fade, ahead: Fade, between: AnyPrior, reach: int = WINDOW) -> None:
        self._back, self._ahead, self._between, self._reach = back, ahead, between, reach

    def start(self) -> Past:
        """Nothing published."""
        return Past()

    def add(self, state: Past, time: int, loss: float, first: int | None = None) -> Past:
        """Put a loss to its data time, the newest of those that it is about, and see what that tells about later ones.

        first  the oldest step that the release covers, if it is another one
        """
        times, losses, before, firsts = list(state.times), list(state.losses), list(state.before), list(state.firsts)
        oldest = time if first is None else first
        place = bisect_left(times, time)
        if place == 0 and state.forgot and times[0] != time:
            before[0] = add_up(before[0], loss)
        elif place < len(times) and times[place] == time:
            losses[place], firsts[place] = add_up(losses[place], loss), min(firsts[place], oldest)
        else:
            before.insert(place, self._compose(times[:place], losses[:place], before[:place], time))
            times.insert(place, time)
            losses.insert(place, loss)
            firsts.insert(place, oldest)
        for k in range(place + 1, len(times)):
            before[k] = min(self._compose(times[:k], losses[:k], before[:k], times[k]), add_up(before[k], loss))
        forgot = state.forgot or len(times) > WINDOW
        kept = slice(-WINDOW, None)
        return Past(tuple(times[kept]), tuple(losses[kept]), tuple(before[kept]), tuple(firsts[kept]), forgot)

    def _compose(self, times: Sequence[int], losses: Sequence[float], before: Sequence[float], at: int) -> float:
        """Return the loss about X_at of releases about these times."""
        if not times:
            return 0.0
        recent = slice(-self._reach, None)
        own = np.array(losses[recent])
        return self._leap(at - np.array(times[recent]), own, own + np.array(before[recent]), self._back)

    @staticmethod
    def _leap(gaps: Any, own: Floats, told: Floats, fade: Fade) -> float:
        """Return the least of Σ of the losses leapt over + K(the loss at the landing); the last entry is the nearest."""
        over = np.concatenate([np.cumsum(own[:0:-1])[::-1], [0.0]])
        return (
            float((over * ROUND_UP + fade(gaps, told * ROUND_UP)).min()) if len(own) > 1 else float(fade(gaps, told)[0])
        )

    def risk(self, state: Past, step: int) -> float:
        """Return the loss of all releases about X_step, a step not before any data time."""
        return self._compose(state.times, state.losses, state.before, step)

    def about(self, state: Past, moments: Sequence[int]) -> float:
        """What all releases tell about the states at these steps s_1 < … < s_m, those about later times included (T4; ours):

            r←(s_1) + Σ_i ε(s_i) + Σ_i g(s_i, s_{i+1}) + r→(s_m)

        Given the states at these steps, the data before s_1, those between two neighbours and those after s_m are independent, so
        the logarithm of the likelihood is a sum, and varies by no more than the sum of what its terms vary by: r← and r→ by T4a,
        g by `told_between`. A release that covers any of the steps adds its loss in full; of others, all steps are in one part.
        """
        first, last = moments[0], moments[-1]
        if state.forgot and state.times and first < state.times[0]:
            raise InvalidInput(
                f"the account remembers data times from {state.times[0]} on, so it cannot say what is known about step {first}: "
                "ask earlier, or replay the history of that time"
            )
        split = bisect_right(state.times, first)
        told = self._compose(state.times[:split], state.losses[:split], state.before[:split], first)
        parts: dict[int, list[Covered]] = {}  # by how many of the moments come before
        rest = map(Covered, state.firsts[split:], state.times[split:], state.losses[split:])
        for one in sorted(rest, key=lambda one: (one.first, one.loss)):
            place = bisect_left(moments, one.first)
            if place < bisect_right(moments, one.last):
                told = add_up(told, one.loss)
            else:
                parts.setdefault(place, []).append(one)
        ahead = parts.pop(len(moments), [])
        for place, inside in parts.items():
            start, end = moments[place - 1], moments[place]
            told = add_up(told, told_between(inside, start, end, self._between, self.compose_ahead))
        later = self.compose_ahead([one.first for one in ahead], [one.loss for one in ahead], last, self._ahead)
        return add_up(told, later)

    def compose_ahead(self, times: Sequence[int], losses: Sequence[float], at: int, fade: Fade) -> float:
        """Return the loss about X_at of releases about later times: the same recursion, newest first, with a kernel ahead."""
        after: list[float] = []
        for k in range(len(times) - 1, -2, -1):
            here = times[k] if k >= 0 else at
            far = slice(k + 1, k + 1 + self._reach)
            own = np.array(losses[far])[::-1]
            told = own + np.array(after[-len(own) :] if len(own) else [])
            after.append(self._leap(np.array(times[far])[::-1] - here, own, told, fade) if len(own) else 0.0)
        return after[-1]

    def dump(self, state: Past) -> object:
        """As lists."""
        rows = zip(state.times, state.losses, state.before, state.firsts, strict=True)
        past = [
            [time, loss, before] if first == time else [time, loss, before, first] for time, loss, before, first in rows
        ]
        return {"past": past, "forgot": state.forgot}

    def load(self, data: object) -> Past:
        """Read what `dump` gave."""
        data = read_form("an age-dependent account", data, ("past", "forgot"))
        if not isinstance(data["past"], list) or not isinstance(data["forgot"], bool):
            raise InvalidInput("an age-dependent account must hold its past, and whether it forgot any of it")
        if not all(isinstance(item, list) and len(item) in (3, 4) for item in data["past"]):
            raise InvalidInput(
                "the past of an age-dependent account must be [data time, loss, told before, first step?] each"
            )
        times = tuple(whole("data time", item[0]) for item in data["past"])
        if any(b <= a for a, b in pairwise(times)) or len(times) > WINDOW:
            raise InvalidInput(f"the data times of an age-dependent account must ascend, {WINDOW} at most")
        if data["forgot"] and not times:
            raise InvalidInput("an age-dependent account that has forgotten releases must remember later ones")
        losses = tuple(real("loss", item[1]) for item in data["past"])
        firsts = tuple(whole("first step", (*item, item[0])[3]) for item in data["past"])
        if any(first > time for first, time in zip(firsts, times, strict=True)):
            raise InvalidInput("a release of an age-dependent account cannot cover steps after its data time alone")
        return Past(times, losses, tuple(real("told before", item[2]) for item in data["past"]), firsts, data["forgot"])
