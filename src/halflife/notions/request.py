"""What is asked of a plan: sensitivity, horizon, spacing, age and so on, checked once for every notion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import real, whole
from halflife.release import Noise


@dataclass(frozen=True)
class PlanRequest:
    """The parameters of a plan (sensitivity, horizon, spacing, age and so on), checked once for every notion."""

    sensitivity: float
    horizon: int | None
    method: str
    age: int
    every: int
    noise: Noise | None
    extra: Mapping[str, object]
    varying: tuple[float, ...] | None = None
    """Δf_1, Δf_2, … of the releases if they differ; `sensitivity` is then the largest of them."""
    span: int = 1
    """How many steps of data each release covers, each of which can move it by all of its sensitivity."""

    @property
    def releases(self) -> int | None:
        """How many releases the horizon holds: ⌈horizon / every⌉."""
        return None if self.horizon is None else -(-self.horizon // self.every)

    def sensitivities_of(self, releases: int) -> Floats:
        """Return Δf of the first releases."""
        if self.varying is None:
            return np.full(releases, self.sensitivity)
        return np.array(self.varying[:releases])


def _read_varying(sensitivity: object) -> tuple[float, ...] | None:
    if not isinstance(sensitivity, Sequence | np.ndarray) or isinstance(sensitivity, str):
        return None
    if len(sensitivity) == 0:
        raise InvalidInput("a list of sensitivities must not be empty")
    return tuple(real(f"sensitivity of release {k}", x, positive=True) for k, x in enumerate(sensitivity, start=1))


def read_request(
    sensitivity: float | Sequence[float] | Floats, horizon: object, method: str, age: object, every: object,
    noise: Noise | None, span: int, extra: Mapping[str, object],
) -> PlanRequest:  # fmt: skip
    """Return what is asked of a plan, or refuse what means nothing; a list of sensitivities ends with the horizon."""
    steps, step = None if horizon is None else whole("horizon", horizon, least=1), whole("every", every, least=1)
    varying = _read_varying(sensitivity)
    if varying is not None:
        if steps is not None and steps > len(varying) * step:
            raise InvalidInput(f"a horizon of {steps} steps needs a sensitivity for each release, not {len(varying)}")
        steps = steps or len(varying) * step
    largest = real("sensitivity", sensitivity if varying is None else max(varying), positive=True)
    return PlanRequest(largest, steps, method, whole("age", age, least=0), step, noise, extra, varying, span)
