"""A plan: how much noise each step needs so that a notion's promise holds, and why it holds for ever."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.notions.base import Notion, PlanRequest
from halflife.notions.gaussian_dp import gaussian_epsilon
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole
from halflife.numerics.rounding import TOLERANCE, divide_up
from halflife.release import Noise, Release

STD_OF_UNIT_SCALE: dict[str, float] = {"laplace": math.sqrt(2), "gaussian": 1.0}
BLOCK = 256
Series = Callable[[int, int], Floats]
MEAN_ABSOLUTE_OF_UNIT_SCALE: dict[str, float] = {"laplace": 1.0, "gaussian": math.sqrt(2 / math.pi)}


@dataclass(frozen=True)
class Plan:
    """Losses for steps 1, 2, …: release number m (at step 1 + (m−1)·every) may cost ρ_m. Other steps cost nothing.

    `series(first, last)` gives ρ_first … ρ_last, at a cost that does not grow with their place, and each the same to the last bit
    whichever others are asked for. Everything else follows: the scale of a step is sensitivity / ρ, rounded up, and infinite
    at a step without a release. `source` names the theorem, `tail` says why the infinite tail holds.
    """

    notion: Notion[Any]
    request: PlanRequest
    noise: Noise
    series: Series
    source: str
    tail: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """What must be read before anything else."""
    _newest: dict[int, Floats] = field(default_factory=dict, repr=False, compare=False)
    """The losses of the block of releases that was asked for last."""

    @property
    def sensitivity(self) -> float:
        """Δf of each release, the largest if they differ."""
        return self.request.sensitivity

    def sensitivity_at(self, k: int) -> float:
        """Δf of the release at step k."""
        varying = self.request.varying
        return self.request.sensitivity if varying is None else varying[(self._check(k) - 1) // self.request.every]

    @property
    def horizon(self) -> int | None:
        """The last step, None if there is none."""
        return self.request.horizon

    def _check(self, n: int) -> int:
        n = whole("step", n, least=1)
        if self.horizon is not None and n > self.horizon:
            raise InvalidInput(
                f"step {n} lies beyond the plan's horizon of {self.horizon}: ask for a longer one, or for none"
            )
        return n

    def loss(self, k: int) -> float:
        """Return the loss of step k, 0 if nothing is published then."""
        before, rest = divmod(self._check(k) - 1, self.request.every)
        if rest:
            return 0.0
        block, place = divmod(before, BLOCK)
        if block not in self._newest:  # losses come by the block, so that asking step by step stays cheap
            last, limit = (block + 1) * BLOCK, self.request.releases
            self._newest.clear()
            self._newest[block] = self.series(block * BLOCK + 1, last if limit is None else min(last, limit))
        return float(self._newest[block][place])

    def losses_of_releases(self, first: int, last: int) -> Floats:
        """Return the losses of releases number first … last, of which there are `every` steps between two."""
        first = whole("release", first, least=1)
        self._check(1 + (whole("release", last, least=first) - 1) * self.request.every)
        return self.series(first, last)

    def sensitivities_of_releases(self, first: int, last: int) -> Floats:
        """Return Δf of releases number first … last."""
        varying = self.request.varying
        return np.full(last - first + 1, self.sensitivity) if varying is None else np.array(varying[first - 1 : last])

    def losses(self, n: int) -> Floats:
        """Return the losses of steps 1 … n."""
        every = self.request.every
        result = np.zeros(self._check(n))
        result[::every] = self.losses_of_releases(1, -(-n // every))
        return result

    def releases_at(self, k: int) -> tuple[Release, ...]:
        """Return what step k records if it goes by the plan; nothing if nothing is published then."""
        loss = self.loss(k)
        if loss == 0:
            return ()
        release = Release(
            k, loss, self.request.age, sensitivity=self.sensitivity_at(k), scale=self.scale(k), noise=self.noise,
            span=self.request.span,
        )  # fmt: skip
        return (release,)

    def scale(self, k: int) -> float:
        """Return the noise scale of step k, rounded up; infinite if nothing is published then."""
        loss = self.loss(k)
        return divide_up(self.sensitivity_at(k), loss) if loss > 0 else math.inf

    def scales(self, n: int) -> Floats:
        """Return the noise scales of steps 1 … n, rounded up."""
        losses = self.losses(n)
        result = np.full(n, np.inf)
        every = self.request.every
        result[::every] = self.sensitivities_of_releases(1, -(-n // every)) / losses[::every]
        rounded: Floats = np.nextafter(result, np.inf)
        return rounded

    def layers(self, k: int) -> tuple[float, ...]:
        """Return the scales of the independent noises that the value of step k carries."""
        return (self.scale(k),)

    def std(self, k: int) -> float:
        """Return the standard deviation of the noise at step k."""
        return STD_OF_UNIT_SCALE[self.noise] * math.hypot(*self.layers(k))

    def stds(self, n: int) -> Floats:
        """Return the standard deviations of the noise at steps 1 … n."""
        result: Floats = STD_OF_UNIT_SCALE[self.noise] * self.scales(n)
        return result

    def risks(self, n: int) -> Floats:
        """Return the risk after each of steps 1 … n, rounded up."""
        return self.notion.widened(self.request.span).risks(self.losses(n), self.request.age, self.noise)

    def limits(self, n: int) -> Floats:
        """Return what each of `risks(n)` is promised to stay under."""
        return np.full(n, self.notion.exposure(self.notion.start(), 1).limit)

    def not_protected(self) -> list[str]:
        """Return what is not protected, the most important first: what this plan leaves open, then what its notion does."""
        return [*self.warnings, *self.notion.not_protected]

    def certificate(self) -> dict[str, Any]:
        """Return what is promised, as JSON can hold it: first what is *not* protected, last why the tail holds."""
        checks = self.notion.checks()
        return {
            "not_protected": self.not_protected(),
            "notion": self.notion.reference(),
            "assumptions": [{"assumes": a, "checked": checks.get(a)} for a in self.notion.assumptions],
            "plan": {
                "method": self.request.method,
                "source": self.source,
                "noise": self.noise,
                "sensitivity": self.sensitivity if self.request.varying is None else list(self.request.varying),
                "horizon": self.horizon,
                "age": self.request.age,
                "every": self.request.every,
                **({} if self.request.span == 1 else {"span": self.request.span}),
                **self.facts,
            },
            "classical_risk": self._classical_risk(),
            "in_other_words": self.notion.in_other_words(),
            "tolerance": TOLERANCE,
            "tail": self.tail,
        }

    def _classical_risk(self) -> dict[str, Any]:
        """Say beside any promise what it comes to if nothing is ever forgotten: Σρ in nats, or with Gaussian noise ε at δ."""
        steps = self.horizon or 17_520
        losses = self.losses(steps)
        if self.noise == "laplace":
            return {"steps": steps, "pure": math.fsum(losses.tolist())}
        delta = self.notion.delta  # type: ignore[attr-defined]
        return {"steps": steps, "epsilon": gaussian_epsilon(float(np.linalg.norm(losses)), delta), "delta": delta}


def always(loss: float) -> Series:
    """Return the series of a plan whose releases all have this loss."""
    return lambda first, last: np.full(last - first + 1, loss)


def listed(losses: Floats) -> Series:
    """Return the series of a plan that ends, from all of its losses."""
    return lambda first, last: losses[first - 1 : last].copy()


def numbers(first: int, last: int) -> Floats:
    """Return the numbers of releases first … last."""
    return np.arange(first, last + 1, dtype=np.float64)


def refuse_gaussian(request: PlanRequest, why: str) -> None:
    """Refuse Gaussian noise where it is asked for and cannot serve."""
    if request.noise == "gaussian":
        raise InvalidInput(f"{why}: leave noise out, promise delta above 0, or use method='tight'")


def refuse_extra(request: PlanRequest, *known: str) -> None:
    """Refuse options that a plan does not understand.

    >>> from halflife import Classical
    >>> Classical(1.0).plan(capp=0.5)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: unknown option of this plan 'capp': Known: age, every, horizon, method, noise, sensitivity, \
span
    """
    for name in request.extra:
        if name not in known:
            basic = ("sensitivity", "horizon", "method", "age", "every", "noise", "span")
            raise unknown("option of this plan", name, [*known, *basic])
