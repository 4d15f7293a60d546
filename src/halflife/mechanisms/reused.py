"""Reused noise: one draw for each phase of a period, and fresh noise atop it where variations must be hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from halflife.errors import InvalidInput
from halflife.mechanisms.draw import Draw
from halflife.numerics.parameters import real, whole
from halflife.plans.almost_periodic import PeriodicPlan
from halflife.registry import register_mechanism

Phase = Callable[[int], int]


@register_mechanism
class ReusedNoise:
    """y(t) = f(x(t)) + v(phase of t) (Theorem 5; paper), and in the strong notion + u(t) with u drawn anew at every t (C1;
    corrected).

    Because f is linear this is the mechanism of Theorem 5: nothing is decomposed. v is drawn when a phase is first met, wherever
    in a period the stream begins, and kept by the draw under the phase's name: a secret.

    phase_of  the phase of a step, by which its noise is named; by the plan if it is not given. The account has its own idea of
              phases, by data time and the notion's clock, and refuses a name that is used for two of them
    lattice   the unit that all values are whole multiples of;  size  how many numbers a value has
    stream    whose noise it is, where several streams share an account: each has its own
    """

    name: ClassVar[str] = "reused"
    adaptive: ClassVar[bool] = False

    def __init__(
        self,
        plan: PeriodicPlan,
        phase_of: Phase | None = None,
        lattice: float = 1.0,
        size: int = 1,
        stream: str = "",
    ) -> None:
        if not isinstance(plan, PeriodicPlan):
            raise InvalidInput(f"reused noise needs a plan of almost-periodic privacy, not one of {plan.notion.name}")
        self.plan, self.phase_of = plan, phase_of or plan.phase
        self._prefix = f"{stream}: " if stream else ""
        self._lattice, self._size = real("lattice", lattice, positive=True), whole("size", size, least=1)

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the noisy value of this step."""
        plan = self.plan
        if plan.loss(step) == 0:
            return None
        name = self._name(step)
        options: Any = {"age": plan.request.age, "size": self._size, "lattice": self._lattice}
        if not plan.strong:
            return truth + draw(name, plan.pattern_sensitivity, scale=plan.pattern_scale(step), **options)
        under = (name, plan.pattern_sensitivity, plan.pattern_scale(step))
        return truth + draw(None, plan.sensitivity, scale=plan.scale(step), atop=under, **options)

    def _name(self, step: int) -> str:
        return self._prefix + self.plan.draw_name(step, self.phase_of(step))

    def state(self) -> None:
        """Nothing to keep: the noise is kept by the draw."""

    def restore(self, state: Any) -> None:
        """Nothing to restore."""
        if state is not None:
            raise InvalidInput(f"reused noise has no state of its own, so {state!r} belongs to another mechanism")
