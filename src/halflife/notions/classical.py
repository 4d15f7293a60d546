"""Classical differential privacy: everything published about a person counts, for ever, at full weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from halflife.notions.base import Exposure, Notion
from halflife.notions.composition import Composition, check_delta, composition
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject, leave_out
from halflife.numerics.parameters import real
from halflife.registry import register_notion
from halflife.release import Noise, Release


@register_notion
@dataclass(frozen=True)
class Classical(Notion):
    """ε- or (ε, δ)-differential privacy of the whole stream (Definitions 2 and 3; paper).

    Neighbours differ in one person's whole time series. Risk at step t: R_t = Σ_{S_k ≤ t} ρ_k, whatever the ages (Theorems 5
    and 6; paper), or with δ > 0 the ε(δ) of the composed loss distribution (known). For one release it is the privacy that the
    others begin with (Definition 1 of the age-dependent paper; paper), (Definitions 1, 2 and 15 of the Swellfish paper; paper).

    >>> from halflife import Accountant, Release
    >>> account = Accountant(Classical(1.0))
    >>> account.admit(Release(1, 0.25), Release(1, 0.25))
    >>> account.risk(7), account.headroom(7)
    (0.5, 0.5)
    """

    epsilon: float
    delta: float = 0.0

    name: ClassVar[str] = "classical"
    filters_gaussian: ClassVar[bool] = True
    summary: ClassVar[str] = "Everything ever published about a person counts in full, for ever."
    noises: ClassVar[tuple[Noise, ...]] = ("laplace", "gaussian")
    not_protected: ClassVar[tuple[str, ...]] = (
        "What is true of a population is learnt whether or not a person takes part.",
        "People whose data depend on each other (one household, one cold spell) are protected one by one, not together.",
    )
    assumptions: ClassVar[tuple[str, ...]] = (
        "Each release's sensitivity bounds what one person's whole time series can move it by; it is public knowledge.",
        "The noise of different releases is independent.",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=1e6))
        object.__setattr__(self, "delta", check_delta(self.delta))

    @cached_property
    def _composition(self) -> Composition:
        return composition(self.delta)

    @property
    def adaptive(self) -> bool:
        """Pure losses may be chosen from outputs; loss distributions compose only for a fixed schedule."""
        return self.delta == 0

    @property
    def charges_spans(self) -> bool:
        """Charged in full, whatever data a release covers: neighbours differ in all of it."""
        return True

    @classmethod
    def examples(cls) -> Sequence[Self]:
        """Pure, and with a δ."""
        return cls(1.0), cls(1.0, 1e-6)

    def start(self) -> Any:
        """Nothing published: no charge."""
        return self._composition.zero

    def record(self, state: object, releases: Sequence[Release]) -> Any:
        """Add the charges."""
        for release in releases:
            state = state + self._composition.charge(release)
        return self._composition.fold(state)

    def exposure(self, state: object, step: int) -> Exposure:
        """The same at every later step: nothing is forgotten."""
        risk = self._composition.epsilon(state)
        return Exposure(risk, risk, self.epsilon)

    def keeps(self, state: object, step: int) -> bool:
        """Whether the total is within ε."""
        return self._composition.within(state, self.epsilon)

    def headroom(self, state: object, step: int, age: int) -> float:
        """What is left of ε."""
        return self._composition.headroom(state, self.epsilon)

    def risks(self, losses: Floats, age: int, noise: Noise) -> Floats:
        """Return the running totals."""
        charge = self._composition.charge
        charges = [charge(Release(k, loss, noise=noise)) for k, loss in enumerate(losses.tolist(), start=1)]
        return np.array(self._composition.running_risks(charges), dtype=np.float64)

    def to_facts(self) -> JsonObject:
        """Return name, ε and δ."""
        return leave_out({"name": self.name, "epsilon": self.epsilon, "delta": self.delta}, delta=0.0)

    def dump(self, state: Any) -> object:
        """Return the charge."""
        return self._composition.dump(state)

    def load(self, data: object) -> Any:
        """Read a charge."""
        return self._composition.load(data)
