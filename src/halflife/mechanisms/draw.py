"""`draw`: the only way to noise, for one step and for a batch of many. It asks the account, records the release, and keeps noise
that is to be used again.

A mechanism is handed a `Draw` for each step and adds what it gives to a value:

    value + draw(None, sensitivity, loss=0.1)          # fresh noise, for this release alone
    value + draw("phase 7", sensitivity, scale=12.0)   # shared noise: drawn once, the same whenever it is asked for
    value + draw(None, s, scale=3.0, atop=("phase 7", s_pattern, 12.0))   # fresh noise on top of shared noise

A mechanism that can name its draws before it sees any value (`ScheduledMechanism`) is run for many steps at once: `batch` charges
all of them together, all or none, and draws their noise in one call of the sampler when it is first asked for.

What a draw gives can only be added: release-grade noise lives on a grid, and the sum must be formed there. `ReleaseDraw` takes
no source of randomness at all, so no seed can reach a release; `SimulatedDraw` is the lab's.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.numerics.forms import read_form
from halflife.numerics.parameters import whole
from halflife.plans import Plan
from halflife.release import NOISES, Noise, Release
from halflife.steps import Steps

MOST_KNOWN = 64
"""Of how many requests in a batch it is remembered what they cost: a schedule repeats a few, or none."""


class Request(NamedTuple):
    """One draw of noise as a mechanism asks for it, at whatever step.

    key      the name of noise that is to be used again; None for noise of one release alone
    loss     what the noise may cost; or else `scale`, which it has
    age      how many steps old the data is when it is published
    size     how many numbers get noise;  touched  how many of them one person can change, all if it is not given
    lattice  the unit that all values are whole multiples of, for noise that is used again
    atop     name, sensitivity and scale of shared noise that lies under this fresh noise
    span     how many steps of data the value covers
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
    ) -> Any:
        """Charge a release and return its noise, to be added to a value: see `Request`."""
        ...

    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Return the largest loss that may be drawn for now, about so many steps of data."""
        ...


class Mechanism(Protocol):
    """How a value becomes an output: every registered mechanism has these, a `name`, and says whether it is `adaptive`.

    An adaptive mechanism chooses losses from earlier outputs; notions that compose only fixed schedules refuse it. All noise that
    is drawn in a step is taken to be in its output, which the error band follows.
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
    def for_stream(cls, plan: Plan, *, name: str, steps: Steps, begin: int, cells: int, touched: int) -> Self:
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
    """

    name: ClassVar[str]
    adaptive: ClassVar[bool] = False

    @abstractmethod
    def requests(self, steps: Sequence[int]) -> list[Request | None]:
        """Return what each of these steps draws, which ascend; None where nothing is published."""

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
    """Refuse a mechanism that chooses its losses from outputs where the notion's arithmetic does not allow that."""
    if mechanism.adaptive and not account.notion.adaptive:
        raise InvalidInput(
            f"{mechanism.name} chooses its losses from earlier outputs, and {account.notion!r} composes only losses that "
            "are fixed beforehand: promise delta = 0, or use a planned mechanism"
        )


class Price(NamedTuple):
    """A request with its loss and scale, by lane in a simulation, and the release of each account, None where it is free.

    order  what a sampler needs to know: a calibration, or request and scale in a simulation
    """

    request: Request
    loss: Any
    scale: Any
    order: Any
    releases: tuple[Release | None, ...]


class Shared:
    """Noise that is used again, once it is drawn; it is a secret."""

    __slots__ = ("noise", "price")

    def __init__(self, price: Price, noise: Any = None) -> None:
        self.price, self.noise = price, noise

    def __repr__(self) -> str:
        return "Shared(secret)"


class Layers(NamedTuple):
    """The noise of one draw: shared, fresh (as a sampler's order), or fresh noise atop shared noise; and the scale of each."""

    shared: Shared | None
    fresh: Any
    scales: tuple[Any, ...]


class Batch:
    """The draws of many steps, which their account was charged for: in the order in which they were asked for.

    releases  what each was recorded as;  scales  of the noises that each consists of
    """

    def __init__(self, drawing: _Drawing, releases: list[tuple[Release, ...]], layers: list[Layers]) -> None:
        self._drawing, self._layers, self.releases = drawing, layers, releases
        self._noise: Iterator[Any] | None = None

    @property
    def scales(self) -> list[tuple[Any, ...]]:
        """The scales of the noises that each draw consists of."""
        return [layers.scales for layers in self._layers]

    def draw(self) -> None:
        """Draw the noise, if it was not drawn before."""
        if self._noise is None:
            self._noise = self._drawing._sample(self._layers)

    def noise(self) -> Iterator[Any]:
        """Yield the noise of each draw, to be added to its value. It is drawn when it is first needed, and handed out once."""
        self.draw()
        assert self._noise is not None
        return self._noise


class _Drawing(ABC):
    """What both kinds of draw share: steps and batches, committed whole or not at all; noise only once it is charged.

    releases, scales  what the last step recorded, and the scales of all noise that it drew
    """

    def __init__(self, accounts: Sequence[Accountant]) -> None:
        self._accounts = self._trials = list(accounts)
        self._step: int | None = None
        self._late = self._now = 0
        self._span: int | None = None
        self._stored: dict[str, Shared] = {}
        self.releases: tuple[Release, ...] = ()
        self.scales: tuple[Any, ...] = ()

    def copy(self) -> Self:
        """Return a draw that goes its own way from here, with copies of the accounts."""
        other = copy.copy(self)
        other._accounts = other._trials = [account.copy() for account in self._accounts]
        other._stored = dict(self._stored)
        return other

    @contextmanager
    def step(self, step: int, late: int = 0, span: int | None = None) -> Iterator[Draw]:
        """Open a step. What is drawn inside is charged when the block ends, and forgotten if it ends in an error.

        late  by how many steps it is published later than its mechanism plans: data is older by as much
        span  how many steps of data its values cover, if not as many as its mechanism says
        """
        self._check_closed(step)
        at, self._late, self._span = whole("step", step, least=1), whole("late", late, least=0), span
        self.releases = self.scales = ()
        with self._all_or_nothing():
            self._step = at
            self._move_to(at)
            try:
                yield self
            finally:
                self._step = None

    def batch(self, turns: Iterable[Turn]) -> Batch:
        """Charge the draws of many steps, in the order of the steps: all of them, or none if one is refused."""
        prices: dict[Request, Price] = {}
        fresh: dict[int, tuple[Request, tuple[Price, ...], Layers]] = {}  # by id: a schedule repeats its requests
        releases, layers = [], []
        waiting: list[list[Release]] = [[] for _ in self._accounts]
        with self._all_or_nothing():
            for step, request, late in turns:
                self._check_closed(step)
                if request.key is not None or request.atop is not None:  # some names may be out of use by now
                    self._admit(waiting)
                    self._move_to(step)
                if id(request) in fresh:
                    _, charged, drawn = fresh[id(request)]
                else:
                    charged, drawn = self._ask(request, prices)
                releases.append(self._record(charged, step, request.age + whole("late", late, least=0), waiting))
                layers.append(drawn)
                if drawn.shared is None:
                    if len(fresh) == MOST_KNOWN:
                        fresh.clear()
                    fresh[id(request)] = (request, charged, drawn)
            self._admit(waiting)
        return Batch(self, releases, layers)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Charge copies of the accounts, and take them over if the block ends well."""
        kept, self._trials = dict(self._stored), [account.copy() for account in self._accounts]
        try:
            yield
            for account, trial in zip(self._accounts, self._trials, strict=True):
                account.adopt(trial)
            self._move_to(self._accounts[0].step)
        except BaseException:
            self._stored, self.releases, self.scales = kept, (), ()
            raise
        finally:
            self._trials = self._accounts

    def _check_closed(self, step: int) -> None:
        if self._step is not None:
            raise InvalidInput(f"step {self._step} is still open: close it before step {step}")

    def run(self, mechanism: Mechanism, step: int, truth: Any) -> Any:
        """Run one step of a mechanism, and refuse one that is adaptive where losses must be fixed beforehand."""
        for account in self._accounts:
            check_adaptive(mechanism, account)
        with self.step(step) as draw:
            return mechanism.step(step, truth, draw)

    def run_batch(self, mechanism: ScheduledMechanism, steps: Sequence[int], truths: Sequence[Any]) -> list[Any]:
        """Run many steps of a mechanism at once, and return their outputs, None where nothing is published."""
        for account in self._accounts:
            check_adaptive(mechanism, account)
        if len(steps) != len(truths):
            raise InvalidInput(f"{len(steps)} steps need a value each, not {len(truths)} values: nothing was charged")
        if not all(np.all(np.isfinite(truth)) for truth in truths):
            raise InvalidInput(
                "values must be finite: bad readings count as missing before they get here; nothing was charged"
            )
        requests = mechanism.requests(steps)
        batch = self.batch(Turn(step, request) for step, request in zip(steps, requests, strict=True) if request)
        noise = batch.noise()
        self.releases = tuple(release for releases in batch.releases for release in releases)
        return [
            None if request is None else truth + next(noise) for request, truth in zip(requests, truths, strict=True)
        ]

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
    ) -> Any:
        """Charge a release and return its noise, to be added to a value: see `Request`."""
        if self._step is None:
            raise InvalidInput("noise is drawn inside a step: with draw.step(k) as d: mechanism.step(k, truth, d)")
        wide = span if self._span is None else self._span
        request = Request(key, sensitivity, loss, scale, noise, age, size, lattice, touched, atop, wide)
        charged, layers = self._ask(request, {})
        waiting: list[list[Release]] = [[] for _ in self._accounts]
        recorded = self._record(charged, self._step, age + self._late, waiting)
        self._admit(waiting)
        self.releases, self.scales = self.releases + recorded, self.scales + layers.scales
        return next(self._sample([layers]))

    # From a request to noise ----------------------------------------------------------------------------------------

    def _ask(self, request: Request, prices: dict[Request, Price]) -> tuple[tuple[Price, ...], Layers]:
        """What a request is charged, and the noise that it stands for."""
        if request.atop is not None and request.key is not None:
            raise InvalidInput(
                f"fresh noise atop {request.atop[0]!r} cannot itself be shared ({request.key!r}): give key None"
            )
        if request.key is None and request.atop is None:
            price = self._price(request)
            return (price,), Layers(None, price.order, (price.scale,))
        price = self._find_price(request, prices)
        if request.atop is None:
            return (price,), Layers(self._find_shared(price), None, (price.scale,))
        under, new = self._find_price(request.under(), prices), request.atop[0] not in self._stored
        layers = Layers(self._find_shared(under), price.order, (price.scale, under.scale))
        return (under, price) if new else (price,), layers

    def _find_price(self, request: Request, prices: dict[Request, Price]) -> Price:
        """The price of a request with shared noise, worked out once for each batch."""
        if isinstance(request.loss, np.ndarray) or isinstance(request.scale, np.ndarray):
            return self._price(request)
        if request not in prices:
            prices[request] = self._price(request)
        return prices[request]

    def _find_shared(self, price: Price) -> Shared:
        """Noise by its name, to be drawn if the name is new; noise that is at hand must be what is wanted."""
        wanted = price.request
        assert wanted.key is not None
        shared = self._stored.get(wanted.key)
        if shared is None:
            self._check_new(wanted.key)
            self._stored[wanted.key] = shared = Shared(price)
            return shared
        known, before = shared.price, shared.price.request
        same = (before.noise, before.size, before.lattice) == (wanted.noise, wanted.size, wanted.lattice)
        if not same or np.any(price.scale != known.scale) or np.any(price.loss != known.loss):
            raise InvalidInput(
                f"the noise {wanted.key!r} was drawn with scale {known.scale} ({before.noise}, size {before.size}, lattice "
                f"{before.lattice}) and is now asked for with {price.scale} ({wanted.noise}, {wanted.size}, "
                f"{wanted.lattice}): shared noise keeps its scale and its shape"
            )
        return shared

    @staticmethod
    def _record(charged: Sequence[Price], step: int, age: int, waiting: list[list[Release]]) -> tuple[Release, ...]:
        """Put the releases of a draw in line for each account, and return those of the first."""
        before = len(waiting[0])
        for price in charged:
            for line, release in zip(waiting, price.releases, strict=True):
                if release is not None:
                    line.append(release.at_step(step, age))
        return tuple(waiting[0][before:])

    def _admit(self, waiting: list[list[Release]]) -> None:
        """Charge the releases that wait."""
        for trial, releases in zip(self._trials, waiting, strict=True):
            if releases:
                trial.admit(*releases)
                releases.clear()

    def _sample(self, draws: Sequence[Layers]) -> Iterator[Any]:
        """Draw the noise of these draws, which are charged, now and in one call; yield it in their order.

        Shared noise comes first, if it was not drawn before.
        """
        new = {id(shared): shared for shared, *_ in draws if shared is not None and shared.noise is None}
        fresh = [layers.fresh for layers in draws if layers.fresh is not None]
        drawn = iter(self._draw_many([*(shared.price.order for shared in new.values()), *fresh]))
        for shared in new.values():
            shared.noise = self._keep(next(drawn))
        return (self._join(shared, None if order is None else next(drawn)) for shared, order, _ in draws)

    def _join(self, shared: Shared | None, fresh: Any) -> Any:
        """The noise of one draw."""
        if shared is None:
            return fresh
        return shared.noise if fresh is None else self._sum(shared.noise, fresh)

    def _move_to(self, step: int) -> None:
        """Go on to a step, and drop shared noise that may no longer be used there."""
        self._now = step
        known = self._known_names() if self._stored else None
        if known is not None:
            self._stored = {name: kept for name, kept in self._stored.items() if name in known}

    def _check_new(self, key: str) -> None:
        """Refuse a name whose noise was drawn before, and is lost."""
        if key in (self._known_names() or ()):
            raise InvalidInput(
                f"the noise {key!r} was drawn before and is not at hand: restore() what state() saved; drawing it "
                "again would let the two be averaged"
            )

    @abstractmethod
    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Return the largest loss that may be drawn for now."""

    def _known_names(self) -> frozenset[str] | None:
        """The names of shared noise that may still be used now; None if all of it is kept."""
        return None

    @abstractmethod
    def _price(self, request: Request) -> Price: ...
    @abstractmethod
    def _draw_many(self, orders: Sequence[Any]) -> Iterable[Any]: ...
    @abstractmethod
    def _keep(self, noise: Any) -> Any: ...
    @abstractmethod
    def _sum(self, pattern: Any, fresh: Any) -> Any: ...


def find_price(request: Request) -> Price:
    """Return the release-grade noise of a request, with its loss, its scale and the release that it is recorded as."""
    r = request
    r.check()
    if (r.key or r.atop) and r.lattice is None:
        raise InvalidInput(
            "shared noise needs lattice=, the unit that values are whole multiples of: values rounded to a grid of "
            "the noise's own would tell each other apart"
        )
    if r.scale == 0:
        c = grade.exact(r.sensitivity, r.noise, r.size)
    elif r.loss is not None:
        c = grade.by_loss(r.loss, r.sensitivity, r.noise, r.size, r.lattice, r.touched)
    else:
        c = grade.by_scale(r.scale, r.sensitivity, r.noise, r.size, r.lattice)
    name = r.atop and r.atop[0]
    release = Release(
        1, c.loss, sensitivity=r.sensitivity, scale=c.scale, noise=r.noise, draw=r.key, atop=name, span=r.span
    )
    return Price(r, c.loss, c.scale, c, (release,))


def record(turns: Iterable[Turn]) -> list[Release]:
    """Return what release-grade draws would be recorded as if nothing was drawn before them; nothing is charged or drawn.

    >>> [(r.step, round(r.scale, 9)) for r in record(Turn(step, Request(None, 1.0, loss=0.5)) for step in (1, 2))]
    [(1, 2.0), (2, 2.0)]
    """
    known: dict[Request, Release | None] = {}
    drawn: set[str] = set()
    made = []
    for step, request, late in turns:
        new = request.atop is not None and request.atop[0] not in drawn
        for one in (request.under(), request) if new else (request,):
            if one not in known:
                known[one] = find_price(one).releases[0]
            release = known[one]
            assert release is not None
            made.append(release.at_step(step, request.age + late))
        if request.atop is not None:
            drawn.add(request.atop[0])
    return made


class ReleaseDraw(_Drawing):
    """Release-grade draws against one account.

    >>> from halflife import Accountant, Classical
    >>> account = Accountant(Classical(1.0))
    >>> draw = ReleaseDraw(account)
    >>> with draw.step(1) as d:
    ...     published = 20.0 + d(None, sensitivity=1.0, loss=0.25)
    >>> account.headroom(2), draw.releases[0].loss
    (0.75, 0.25)
    >>> batch = draw.batch(Turn(step, Request(None, 1.0, loss=0.125)) for step in (2, 3))
    >>> account.headroom(3), [round(20.0 + noise) > -1000 for noise in batch.noise()]
    (0.5, [True, True])
    """

    def __init__(self, account: Accountant) -> None:
        super().__init__([account])

    @property
    def account(self) -> Accountant:
        """The account that draws are charged to."""
        return self._accounts[0]

    def headroom(self, age: int = 0, span: int = 1) -> float:
        """Return the largest loss that may be drawn for now, about so many steps of data (or as many as the open step covers)."""
        return self._trials[0].headroom(self._step, age + self._late, span=self._span or span)

    def state(self) -> dict[str, Any]:
        """Return the shared noise as JSON can hold it. It is a secret: keep it with the account, and print it nowhere."""
        self._sample([Layers(shared, None, ()) for shared in self._stored.values()])
        return {
            key: {
                "grid": s.noise.grid, "units": list(s.noise.units), "lattice": s.noise.lattice,
                "refinement": s.noise.refinement, "loss": s.price.loss, "scale": s.price.scale, "noise": s.price.request.noise,
            }
            for key, s in self._stored.items()
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with shared noise that `state` gave."""
        if not isinstance(state, dict):
            raise InvalidInput("shared noise is kept by name")
        for key, kept in state.items():
            s = read_form("shared noise", kept, ("grid", "units", "lattice", "refinement", "loss", "scale", "noise"))
            _check_kept(s)
            noise = grade.GridNoise(s["grid"], tuple(s["units"]), s["lattice"], s["refinement"], single=False)
            if key in self._stored and self._stored[key].noise != noise:
                raise InvalidInput(f"the noise {key!r} is at hand already, and is another: one name is one noise")
            request = Request(key, 0.0, None, s["scale"], s["noise"], size=len(s["units"]), lattice=s["lattice"])
            self._stored[key] = Shared(Price(request, s["loss"], s["scale"], None, ()), noise)

    def _known_names(self) -> frozenset[str]:
        return self._trials[0].draws_at(self._now)

    def _price(self, request: Request) -> Price:
        return find_price(request)

    def _draw_many(self, orders: Sequence[grade.Calibration]) -> Iterable[grade.GridNoise]:
        return grade.draw_many(orders)

    def _keep(self, noise: Any) -> Any:
        return replace(noise, single=False)

    def _sum(self, pattern: Any, fresh: Any) -> Any:
        return pattern.under(fresh)


class SimulatedDraw(_Drawing):
    """Seeded draws for the lab: one account for all lanes, or one for each if the mechanism is adaptive.

    >>> from halflife import Accountant, Classical
    >>> draw = SimulatedDraw([Accountant(Classical(1.0))], seed=1, lanes=4)
    >>> with draw.step(1) as d:
    ...     (20.0 + d(None, sensitivity=1.0, loss=0.25)).shape
    (4,)
    """

    def __init__(self, accounts: Sequence[Accountant], seed: int, lanes: int = 1) -> None:
        super().__init__(accounts)
        self.lanes = whole("lanes", lanes, least=1)
        if len(accounts) not in (1, self.lanes):
            raise InvalidInput(f"{self.lanes} lanes need one account, or one each, not {len(accounts)}")
        self._source = grade.SimulatedNoise(seed)

    def headroom(self, age: int = 0, span: int = 1) -> Any:
        """Return the largest loss that may be drawn for now, lane by lane."""
        return np.array([a.headroom(self._step, age + self._late, span=self._span or span) for a in self._trials])

    def _price(self, request: Request) -> Price:
        request.check()
        with np.errstate(divide="ignore"):
            if request.loss is not None:
                loss = np.asarray(request.loss, dtype=np.float64)
                scale = request.sensitivity / loss
            else:
                scale = np.asarray(request.scale, dtype=np.float64)
                loss = np.nextafter(request.sensitivity / scale, np.inf)
        if not (np.all(loss >= 0) and np.all(np.isfinite(loss) | (scale == 0))):
            raise InvalidInput(f"losses must be finite and at least 0, not {loss}")
        losses, scales = np.atleast_1d(loss).tolist(), np.atleast_1d(scale).tolist()
        if len(losses) > len(self._accounts):
            raise InvalidInput(f"losses differ between {len(losses)} lanes: give each lane an account of its own")
        r, name, one = request, request.atop and request.atop[0], len(losses) == 1
        facts: Any = {"sensitivity": r.sensitivity, "noise": r.noise, "draw": r.key, "atop": name, "span": r.span}
        releases = [Release(1, x, scale=b, **facts) if x > 0 else None for x, b in zip(losses, scales, strict=True)]
        return Price(r, loss, scale, (r, scale), tuple(releases * len(self._accounts) if one else releases))

    def _draw_many(self, orders: Sequence[tuple[Request, Any]]) -> Iterable[Any]:
        return [self._draw(*order) for order in orders]

    def _draw(self, request: Request, scale: Any) -> Any:
        shape = (self.lanes,) if request.size == 1 else (self.lanes, request.size)
        if request.size > 1 and np.ndim(scale):
            scale = scale[:, None]
        drawn = self._source.draw(request.noise, np.where(np.isfinite(scale), scale, 1.0), shape)
        return np.where(np.isfinite(scale), drawn, np.nan)  # nothing was charged there, so nothing may be used

    def _keep(self, noise: Any) -> Any:
        return noise

    def _sum(self, pattern: Any, fresh: Any) -> Any:
        return pattern + fresh


def _check_kept(s: Mapping[str, Any]) -> None:
    """Refuse kept noise that `state` cannot have given. What is wrong with it is not told: it is a secret."""
    units, refinement, numbers = s["units"], s["refinement"], [s["grid"], s["lattice"], s["loss"], s["scale"]]
    good = (
        isinstance(units, list) and all(type(unit) is int for unit in units)
        and type(refinement) is int and 0 <= refinement <= 2000 and s["noise"] in NOISES
    )  # fmt: skip
    if good and s["scale"] == 0:  # an exact value
        good = s["grid"] == 0 and not any(units)
    elif good:
        good = all(type(x) in (int, float) and 0 < x < math.inf for x in numbers)
        good = good and s["grid"] == math.ldexp(s["lattice"], -refinement)
    if not good:
        raise InvalidInput("kept noise is not as it was written")
