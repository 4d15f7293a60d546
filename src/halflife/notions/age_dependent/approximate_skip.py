"""Composition of (ε, δ) losses by data time, leaping over releases where that is better: T4a with a δ."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from halflife.notions.age_dependent.approximate import Approximate, Charge, Charges
from halflife.notions.age_dependent.fading import Fade, Frontiers, add_up
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.arrays import Floats
from halflife.processes.base import Process
from halflife.processes.contraction import ROUND_UP
from halflife.release import Noise


class Pair(NamedTuple):
    """An (ε, δ) of some outputs about a state: both belong together."""

    epsilon: float
    delta: float


class Leaps(NamedTuple):
    """The pairs of all leaps to one step; the last is that of the nearest release, which leaps over none."""

    epsilons: Floats
    deltas: Floats

    def least(self, limit: float) -> Pair | None:
        """Return the pair of the least ε among those whose δ is within a limit, and of these the one of the least δ."""
        allowed = np.flatnonzero(self.deltas <= limit)
        if not len(allowed):
            return None
        k = allowed[np.lexsort((self.deltas[allowed], self.epsilons[allowed]))[0]]
        return Pair(float(self.epsilons[k]), float(self.deltas[k]))


class ApproximateSkip(Approximate):
    """Sorted by data time τ_1 ≤ τ_2 ≤ …, release n being (ε_n, δ_n)-private about X_{τ_n}, all releases before n are, for every
    j < n, (r, d)-private about X_{τ_n} with

        r = Σ_{j<i<n} ε_i + ln(1 + Δ(e^{ε_j + r_j} − 1)),    d = Σ_{j<i<n} δ_i + Δ·(δ_j + d_j),    Δ = Δ(τ_n − τ_j)      (ours)

    (r_n, d_n) is *one* of these pairs: the least ε of one leap with the least δ of another is no bound. While δ_j + d_j = 0 the
    pure contraction K serves in place of Theorem 1, so that of Laplace releases alone this is T4a. The risk about X_t is the same
    with t in place of τ_n.

    **Proof.** Write y_{≤j} for the outputs of releases 1 … j. About X_{τ_j} they are (ε_j + r_j, δ_j + d_j)-private, by basic
    composition: given X_{τ_j} and any earlier outputs, y_j is a mixture over what else it is about. Given X_{τ_n} = x they are
    a mixture over X_{τ_j}, with weights P̂(x, ·) that overlap in 1 − Δ at least for any two x: (ln(1 + Δ(e^{ε_j + r_j} − 1)),
    Δ(δ_j + d_j)), by the advanced joint convexity of Balle, Barthe and Gaboardi 2018 (known). Now fix y_{≤j}. Given X_{τ_n} = x
    the outputs leapt over are a mixture over the states that they are about, with weights that depend on x and y_{≤j}; but the
    laws of these outputs about any two paths are (Σε_i, Σδ_i)-close, and so are all mixtures of them, as e^ε-divergences are
    jointly convex. That holds for every y_{≤j}, so both parts add up by basic composition. ∎ The same argument shows that any
    release adds at most (ε, δ) to a pair, wherever its data time lies.

    **Which pair.** Among those whose δ is at most that of the nearest release, the one that leaves the least ε_n + r_n: a
    Gaussian release is charged at half of the δ that is not in use, so a smaller d_n makes its ε_n smaller. By induction no
    account of data times in order comes out above the one without leaps, neither in ε nor in δ. Only the risk, after which
    nothing is charged, may use all of δ.

    A six-state walk (left, stay, right with 1/3 each, held at the ends), a Laplace loss of 0.5 at every step: 100 after 200
    releases without leaps, 6.27 with them.
    """

    name: ClassVar[str] = "approximate skip"

    def __init__(self, process: Process, fade: Fade, delta: float) -> None:
        super().__init__(process, fade, delta)
        self._theorem_1 = Frontiers(process, "paper")
        self._variations: dict[int, float] = {}

    def add(self, state: Charges, time: int, loss: float, noise: Noise = "laplace") -> Charges:
        """Charge a release about this data time, and see what that tells about later ones."""
        recent = list(state.recent)
        place = bisect_right([c.time for c in recent], time)
        forgotten, inside = place == 0 and state.forgot, place < len(recent)
        leaps = None if place == 0 else self._leap(recent[:place], time)
        if inside:
            in_use = max(c.delta + c.delta_before for c in recent) * ROUND_UP
            own = self._price(loss, noise, in_use)
            before = Pair(0.0, 0.0) if leaps is None else leaps.least(in_use)
        else:
            own, before = self._charge_newest(leaps, loss, noise)
        assert before is not None  # the nearest release's own δ, faded, is within what is in use
        if forgotten:
            recent[0] = _raise(recent[0], own)
        else:
            recent.insert(place, Charge(time, *own, *before))
        for k in range(place + 1, len(recent)):
            raised = _raise(recent[k], own)
            better = self._leap(recent[:k], recent[k].time).least(raised.delta_before)
            if better is not None and better.epsilon < raised.before:
                raised = raised._replace(before=better.epsilon, delta_before=better.delta)
            recent[k] = raised
        return self._keep(state, recent, loss, noise)

    def _price(self, loss: float, noise: Noise, in_use: float) -> Pair:
        """What a release costs where so much δ is in use."""
        if noise == "laplace":
            return Pair(loss, 0.0)
        delta = self._take_delta(in_use)
        return Pair(gaussian_epsilon(loss, delta), delta)

    def _charge_newest(self, leaps: Leaps | None, loss: float, noise: Noise) -> tuple[Pair, Pair]:
        """Return what a release after all others costs, and the pair of these: of the leaps the one with the least of both."""
        if leaps is None:
            return self._price(loss, noise, 0.0), Pair(0.0, 0.0)
        before = leaps.least(float(leaps.deltas[-1]))
        assert before is not None
        own = self._price(loss, noise, before.delta * ROUND_UP)
        while before.delta > 0 and noise == "gaussian":  # a smaller δ may leave room for a smaller ε of this release
            other = leaps.least(float(np.nextafter(before.delta, 0.0)))
            if other is None:
                break
            priced = self._price(loss, noise, other.delta * ROUND_UP)
            if priced.epsilon + other.epsilon >= own.epsilon + before.epsilon:
                break
            own, before = priced, other
        return own, before

    def _leap(self, charges: Sequence[Charge], at: int) -> Leaps:
        """Return the pairs about X_at of leaps to each of these charges, rounded up."""
        times, own, own_delta, before, delta_before = (np.array(column) for column in zip(*charges, strict=True))
        gaps, told, told_delta = at - times, own + before, own_delta + delta_before
        if len(charges) == 1:
            over, over_delta, up = np.zeros(1), np.zeros(1), 1.0
        else:
            over, over_delta, up = _sum_after(own), _sum_after(own_delta), ROUND_UP
        with_delta = told_delta > 0
        left = self._fade(gaps, told * up)
        deltas = over_delta * ROUND_UP
        if with_delta.any():
            left = np.where(with_delta, self._theorem_1(gaps, told * ROUND_UP), left)
            kept = np.array([self._variation(int(gap)) for gap in gaps])
            deltas = deltas + np.minimum(kept * told_delta * ROUND_UP, told_delta * ROUND_UP)
        return Leaps(over * ROUND_UP + left, deltas)

    def _variation(self, gap: int) -> float:
        if gap not in self._variations:
            self._variations[gap] = self._process.total_variation(gap)
        return self._variations[gap]

    def _faded(self, state: Charges, step: int) -> float:
        """The least ε of all pairs about X_step whose δ is within the promised one."""
        found = self._leap(state.recent, step).least(self._delta)
        assert found is not None
        return found.epsilon


def _raise(charge: Charge, by: Pair) -> Charge:
    """A charge about which one more release tells, counted in full."""
    return charge._replace(before=add_up(charge.before, by.epsilon), delta_before=add_up(charge.delta_before, by.delta))


def _sum_after(values: Floats) -> Floats:
    """Σ_{i>j} of each j."""
    result: Floats = np.concatenate([np.cumsum(values[:0:-1])[::-1], [0.0]])
    return result
