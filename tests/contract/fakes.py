"""A small fake of each notion to come, written before any of them, to see whether the spine carries it.

Not for use: rounding is careless here, and the mathematics is the simplest that has the right shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, UnboundedLoss
from halflife.notions.base import Exposure, Notion
from halflife.release import Release


class Fake(Notion[Any]):
    summary = "A fake."
    not_protected = ("everything: this is a fake",)
    assumptions = ("none",)

    @classmethod
    def examples(cls):
        return (cls(),)

    def to_facts(self):
        return self.to_dict()

    def dump(self, state):
        return state

    def risks(self, losses, age, noise):
        raise NotImplementedError


@dataclass(frozen=True)
class FakeDiscount(Fake):
    """Exponential discounting: one number and the step it is of."""

    epsilon: float = 1.0
    alpha: float = 0.9
    name = "fake-discount"

    def start(self):
        return (0, 0.0)

    def record(self, state, releases):
        step = releases[0].step
        return (step, self.alpha ** (step - state[0]) * state[1] + sum(r.loss for r in releases))

    def exposure(self, state, step):
        risk = self.alpha ** (step - state[0]) * state[1]
        return Exposure(risk, risk, self.epsilon)

    def headroom(self, state, step, age):
        return max(0.0, self.epsilon - self.exposure(state, step).risk)

    def load(self, data):
        if not isinstance(data, list):
            raise InvalidInput("no state")
        return tuple(data)


@dataclass(frozen=True)
class FakeAged(Fake):
    """A symmetric two-state chain: r ↦ K_gap(ρ + r) in data time, K_t(ε) = 2 atanh(λ^t tanh(ε/2))."""

    epsilon: float = 1.0
    stay: float = 0.8
    name = "fake-aged"

    def _fade(self, risk, gap):
        return 2 * math.atanh(self.stay**gap * math.tanh(risk / 2))

    def start(self):
        return (None, 0.0)

    def record(self, state, releases):
        for r in sorted(releases, key=lambda r: r.data_time):
            if state[0] is not None and r.data_time < state[0]:
                raise InvalidInput(f"data time {r.data_time} lies before {state[0]}")
            state = (r.data_time, r.loss + (0.0 if state[0] is None else self._fade(state[1], r.data_time - state[0])))
        return state

    def exposure(self, state, step):
        risk = 0.0 if state[0] is None else self._fade(state[1], step - state[0])
        return Exposure(risk, risk, self.epsilon)

    def headroom(self, state, step, age):
        allowed = 2 * math.atanh(min(1 - 1e-9, math.tanh(self.epsilon / 2) / self.stay**age))
        before = 0.0 if state[0] is None else self._fade(state[1], step - age - state[0])
        return max(0.0, allowed - before)

    def load(self, data):
        if not isinstance(data, list):
            raise InvalidInput("no state")
        return tuple(data)


@dataclass(frozen=True)
class FakeSwellfish(Fake):
    """Secrets (power, duration, start, end, ε), one-window reading: Σ over any T steps of Δ_t/λ_t ≤ ε, from scales."""

    secrets: tuple[tuple[float, int, int, int, float], ...] = ((3.0, 4, 1, 10**9, 1.0), (1.0, 2, 10, 60, 0.1))
    name = "fake-swellfish"

    def __post_init__(self):
        object.__setattr__(self, "secrets", tuple(tuple(s) for s in self.secrets))

    def _power(self, step):
        return sum(p for p, _, a, b, _ in self.secrets if a <= step <= b)

    def start(self):
        return tuple(() for _ in self.secrets)

    def record(self, state, releases):
        for r in releases:
            if r.scale is None and r.loss > 0:
                raise InvalidInput(f"release at step {r.step} lacks its scale, which a secret's loss comes from")
            x = self._power(r.step) / r.scale if r.scale else 0.0
            state = tuple(
                (*(pair for pair in window if pair[0] > r.step - s[1]), (r.step, x))
                if s[2] <= r.step <= s[3]
                else window
                for s, window in zip(self.secrets, state, strict=True)
            )
        return state

    def _losses(self, state, step):
        return [sum(x for at, x in window if at > step - s[1]) for s, window in zip(self.secrets, state, strict=True)]

    def exposure(self, state, step):
        losses = self._losses(state, step)
        worst = max(range(len(losses)), key=lambda i: losses[i] / self.secrets[i][4])
        return Exposure(losses[worst], losses[worst], self.secrets[worst][4])

    def headroom(self, state, step, age):
        relevant = [
            (s[4] - loss) / self._power(step)
            for s, loss in zip(self.secrets, self._losses(state, step), strict=True)
            if s[2] <= step <= s[3]
        ]
        return max(0.0, min(relevant)) if relevant else math.inf

    def load(self, data):
        if not isinstance(data, list):
            raise InvalidInput("no state")
        return tuple(tuple(tuple(pair) for pair in window) for window in data)


@dataclass(frozen=True)
class FakePeriodic(Fake):
    """Shared noise by phase costs once; fresh noise atop it (strong) counts in a window of one period."""

    epsilon: float = 1.0
    period: int = 4
    strong: bool = False
    name = "fake-periodic"
    shares_draws = True

    def start(self):
        return ((), ())

    def record(self, state, releases):
        pattern, fresh = dict(state[0]), list(state[1])
        for r in releases:
            if r.draw is not None:
                if pattern.setdefault(r.draw, r.loss) != r.loss:
                    raise UnboundedLoss(f"step {r.step}: {r.draw!r} has another loss than before", step=r.step)
            elif r.atop in pattern and self.strong:
                fresh = [(s, x) for s, x in fresh if s > r.step - self.period] + [(r.step, r.loss)]
            else:
                raise UnboundedLoss(f"step {r.step}: noise without a pattern tells periods apart", step=r.step)
        return (tuple(sorted(pattern.items())), tuple(fresh))

    def draws(self, state):
        return frozenset(name for name, _ in state[0])

    def exposure(self, state, step):
        risk = max(sum(x for _, x in state[0]), sum(x for s, x in state[1] if s > step - self.period))
        return Exposure(risk, sum(x for _, x in state[0]) if not self.strong else risk, self.epsilon)

    def headroom(self, state, step, age):
        phase = dict(state[0]).get(f"phase {step % self.period}")
        return phase if phase is not None else max(0.0, self.epsilon - sum(x for _, x in state[0]))

    def load(self, data):
        if not isinstance(data, list):
            raise InvalidInput("no state")
        return tuple(tuple(tuple(pair) for pair in part) for part in data)

    def release(self, step, loss):
        return Release(step, loss, scale=1 / loss if loss else None, draw=f"phase {step % self.period}")


class FakePeriodicMechanism:
    """y(t) = f(t) + v(t mod T), and fresh noise on top if strong."""

    name = "fake-periodic"
    adaptive = False

    def __init__(self, notion):
        self.notion = notion

    def step(self, step, truth, draw):
        key, scale = f"phase {step % self.notion.period}", self.notion.period / self.notion.epsilon
        if self.notion.strong:
            return truth + draw(None, 1.0, scale=scale, lattice=1e-3, atop=(key, 1.0, scale * 1.000001))
        return truth + draw(key, 1.0, scale=scale * 1.000001, lattice=1e-3)

    def state(self):
        return None

    def restore(self, state):
        assert state is None


@dataclass
class FakeBudgetDistribution:
    """Two charges a step, as BD has them: a noisy dissimilarity, then perhaps a publication, chosen from it."""

    epsilon: float = 1.0
    w: int = 8
    sensitivity: float = 1.0
    name = "fake-bd"
    adaptive = True
    last: Any = None
    spent: list[Any] = field(default_factory=list)

    def step(self, step, truth, draw):
        last = np.zeros_like(truth) if self.last is None else np.asarray(self.last)
        distance = np.abs(truth - last) + draw(None, self.sensitivity, loss=self.epsilon / (2 * self.w))
        budget = np.maximum(0.0, self.epsilon / 2 - sum(self.spent[-(self.w - 1) :], np.zeros_like(truth))) / 2
        loss = np.where((distance > self.sensitivity / np.maximum(budget, 1e-3)) & (budget > 1e-3), budget, 0.0)
        self.spent = [*self.spent[-(self.w - 1) :], loss]
        if np.any(loss > 0):
            noise = draw(None, self.sensitivity, loss=loss if np.ndim(loss) else float(loss))
            last = np.where(loss > 0, truth + noise, last)
        self.last = last if np.ndim(truth) else float(last)
        return self.last

    def state(self):
        return {"last": np.asarray(self.last).tolist(), "spent": [np.asarray(x).tolist() for x in self.spent]}

    def restore(self, state):
        self.last = np.array(state["last"]) if isinstance(state["last"], list) else state["last"]
        self.spent = [np.array(x) if isinstance(x, list) else x for x in state["spent"]]


NOTIONS = {cls.name: cls for cls in (FakeDiscount, FakeAged, FakeSwellfish, FakePeriodic)}
"""To be made known by a test that saves an account of one, for that test alone: the registry is everybody's."""
