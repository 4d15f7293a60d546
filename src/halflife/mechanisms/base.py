"""What a mechanism is, and what it asks of a draw: requests for noise, a step at a time or named beforehand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.numerics.forms import JsonObject
from halflife.plans import Plan
from halflife.release import Noise
from halflife.steps import Steps


class Request(NamedTuple):
    """One draw of noise as a mechanism asks for it, at whatever step.

    key      the name of noise that is to be used again; None for noise of one release alone
    loss     what the noise may cost; or else `scale`, which it has
    age      how many steps old the data is when it is published
    size     how many numbers get noise;  touched  how many of them one person can change, all if it is not given
    lattice  the unit that all values are whole multiples of, for noise that is used again
    atop     name, sensitivity and scale of shared noise that lies under this fresh noise
    span     how many steps of data the value covers;  step_sensitivity  how far one of them can move it, all of Δf if not given
    """

    key: str | None
    sensitivity: float
    loss: Any = None
    scale: Any = None
    noise: Noise = "laplace"
    age: int = 0
    size: int = 1
    lattice: float | None = None
    touched: int | None = None
    atop: tuple[str, float, float] | None = None
    span: int = 1
    step_sensitivity: float | None = None

    def check(self) -> None:
        """Refuse a request that does not say how much noise it wants, or says it twice."""
        if (self.loss is None) == (self.scale is None):
            raise InvalidInput(
                f"a draw needs either a loss or a scale, not loss={self.loss!r} and scale={self.scale!r}"
            )

    def under(self) -> Request:
        """Return the shared noise that this fresh noise lies atop of."""
        assert self.atop is not None
        name, sensitivity, scale = self.atop
        return Request(name, sensitivity, None, scale, self.noise, self.age, self.size, self.lattice, span=self.span)


class Turn(NamedTuple):
    """A request at a step; `late` by how many steps it comes later than its mechanism plans: data is older by as much."""

    step: int
    request: Request
    late: int = 0


class Draw(Protocol):
    """What a mechanism sees."""

    def __call__(
        self,
        key: str | None,
        sensitivity: float,
        *,
        loss: Any = None,
        scale: Any = None,
        noise: Noise = "laplace",
        age: int = 0,
        size: int = 1,
        lattice: float | None = None,
        touched: int | None = None,
        atop: tuple[str, float, float] | None = None,
        span: int = 1,
        step_sensitivity: float | None = None,
    ) -> Any:
        """Charge a release and return its noise, to be added to a value: see `Request`."""
        ...

    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Return the largest loss that may be drawn for now, about so many steps of data."""
        ...


class Mechanism(Protocol):
    """How a value becomes an output: every registered mechanism has these, a `name`, and says whether it is `adaptive`.

    An adaptive mechanism chooses losses from earlier outputs; notions that compose only fixed schedules refuse it. All noise that
    is drawn in a step is taken to be in its output, which the error band follows; a `HeldOutput` says itself which is.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def adaptive(self) -> bool:
        """Whether it chooses losses from earlier outputs."""
        ...

    @classmethod
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Mechanism:
        """Return the mechanism of a policy's stream, or refuse a plan that it is not proved for.

        name   of the stream, whose noise is its own;  steps  by the wall clock
        begin  the data time of its step 1 in the account
        cells  how many numbers a step has, of which one person can change so many as `touched`
        """
        ...

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the output of this step; `truth` may carry lanes (repetitions) in an array."""
        ...

    def state(self) -> Any:
        """Return what `restore` needs, as JSON can hold it."""
        ...

    def restore(self, state: Any) -> None:
        """Go on from a saved state."""
        ...


class ScheduledMechanism(ABC):
    """A mechanism whose output is the value and noise that it can name before it sees any value: the base of such mechanisms.

    It keeps no state, and its losses never depend on outputs.

    keeps_noise  whether a ledger must keep noise that is used again, sealed
    names_spans  whether its requests say how many steps each value covers; else a stream's steps say it
    """

    name: ClassVar[str]
    adaptive: ClassVar[bool] = False
    keeps_noise: ClassVar[bool] = True
    names_spans: ClassVar[bool] = False

    @abstractmethod
    def requests(self, steps: Sequence[int]) -> list[Request | None]:
        """Return what each of these steps draws, which ascend; None where nothing is published."""

    def noise_facts(self) -> JsonObject | None:
        """Return what is public about which steps share a noise, as `outputs/noise_facts.py` reads it; None: nothing is said."""
        return None

    def step(self, step: int, truth: Any, draw: Draw) -> Any:
        """Return the noisy value of this step, None if nothing is published."""
        (request,) = self.requests([step])
        return None if request is None else truth + draw(**request._asdict())

    def state(self) -> Any:
        """Nothing to keep: noise that is used again is kept by the draw."""
        return None

    def restore(self, state: Any) -> None:
        """Nothing to restore."""
        if state is not None:
            raise InvalidInput(f"{self.name} noise has no state of its own, so {state!r} belongs to another mechanism")


def check_adaptive(mechanism: Mechanism | ScheduledMechanism, account: Accountant) -> None:
    """Refuse a mechanism that chooses its losses from outputs where the notion's arithmetic does not allow that.

    With a δ, a notion that adds up squares of μ allows it for Gaussian noise, as long as all noise is: see `HeldOutput`.
    """
    filtered = account.notion.filters_gaussian and getattr(mechanism, "noise", "laplace") == "gaussian"
    if mechanism.adaptive and not account.notion.adaptive and not filtered:
        raise InvalidInput(
            f"{mechanism.name} chooses its losses from earlier outputs, and {account.notion!r} composes only losses that "
            "are fixed beforehand: promise delta = 0, or use a planned mechanism"
        )
