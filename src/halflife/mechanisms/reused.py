"""Reused noise: one draw for each phase of a period, and fresh noise atop it where variations must be hidden."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Self

from halflife.errors import InvalidInput
from halflife.mechanisms.base import Request, ScheduledMechanism
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.numerics.forms import JsonObject, leave_out
from halflife.numerics.parameters import real, whole
from halflife.plans import Plan
from halflife.plans.almost_periodic import PeriodicPlan
from halflife.registry import register_mechanism
from halflife.steps import Steps

Phase = Callable[[int], int]


@register_mechanism
class ReusedNoise(ScheduledMechanism):
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

    def __init__(
        self,
        plan: Plan,
        phase_of: Phase | None = None,
        lattice: float = 1.0,
        size: int = 1,
        stream: str = "",
    ) -> None:
        if not isinstance(plan, PeriodicPlan):
            raise InvalidInput(
                f"reused noise needs a plan of almost-periodic privacy, not one of {plan.notion.name}: nobody has proved that "
                "noise may be used again there"
            )
        self.plan, self.phase_of = plan, phase_of or plan.phase
        self._prefix = f"{stream}: " if stream else ""
        self._lattice, self._size = real("lattice", lattice, positive=True), whole("size", size, least=1)

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
        """Return the reused noise of a policy's stream; phases go by the wall clock where a period has one."""
        made = cls(plan, size=cells, stream=name)
        if made.plan.follows_clock(steps):
            made.phase_of = partial(steps.phase, period=made.plan.period)
        return made

    def requests(self, steps: Sequence[int]) -> list[Request | None]:
        """Return the noise of each step's phase, with fresh noise atop it in the strong notion."""
        return [self._request(step) for step in steps]

    def noise_facts(self) -> JsonObject | None:
        """Return the phases, when they are renewed, and the fresh noise atop them; None where steps of the plan are no steps."""
        plan, notion = self.plan, self.plan.notion
        assert isinstance(notion, AlmostPeriodic)
        by_clock = self.phase_of != plan.phase
        if plan.request.every != 1 or (notion.clock is not None and not by_clock):
            return None
        fresh = plan.scale(1) / plan.pattern_scale(1) if plan.strong else 0.0
        form = {
            "family": plan.noise,
            "period": plan.period,
            "by_clock": by_clock,
            "renew": notion.renew,
            "fresh": fresh,
        }
        return leave_out(form, by_clock=False, renew=None, fresh=0.0)

    def _request(self, step: int) -> Request | None:
        plan = self.plan
        if plan.loss(step) == 0:
            return None
        name = self._prefix + plan.draw_name(step, self.phase_of(step))
        under = (name, plan.pattern_sensitivity, plan.pattern_scale(step))
        shape: Any = {"age": plan.request.age, "size": self._size, "lattice": self._lattice}
        if plan.strong:
            return Request(None, plan.sensitivity, scale=plan.scale(step), atop=under, **shape)
        return Request(name, plan.pattern_sensitivity, scale=plan.pattern_scale(step), **shape)
