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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.mechanisms.base import Draw, Mechanism, Request, ScheduledMechanism, Turn, check_adaptive
from halflife.numerics.parameters import whole
from halflife.release import Noise, Release

MOST_KNOWN = 64
"""Of how many requests in a batch it is remembered what they cost: a schedule repeats a few, or none."""


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

    def __init__(self, drawing: Drawing, releases: list[tuple[Release, ...]], layers: list[Layers]) -> None:
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


class Drawing(ABC):
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
                if request.key is not None or request.atop is not None:  # its name may be out of use by now
                    self._admit(waiting)
                    self._now = step
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
        step_sensitivity: float | None = None,
    ) -> Any:
        """Charge a release and return its noise, to be added to a value: see `Request`."""
        if self._step is None:
            raise InvalidInput("noise is drawn inside a step: with draw.step(k) as d: mechanism.step(k, truth, d)")
        wide = span if self._span is None else self._span
        request = Request(
            key, sensitivity, loss, scale, noise, age, size, lattice, touched, atop, wide, step_sensitivity
        )
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
        under, before = self._find_price(request.under(), prices), self._stored.get(request.atop[0])
        layers = Layers(self._find_shared(under), price.order, (price.scale, under.scale))
        return (price,) if layers.shared is before else (under, price), layers

    def _find_price(self, request: Request, prices: dict[Request, Price]) -> Price:
        """The price of a request with shared noise, worked out once for each batch."""
        if isinstance(request.loss, np.ndarray) or isinstance(request.scale, np.ndarray):
            return self._price(request)
        if request not in prices:
            prices[request] = self._price(request)
        return prices[request]

    def _find_shared(self, price: Price) -> Shared:
        """Noise by its name, to be drawn if the name is new or out of use; noise that is at hand must be what is wanted."""
        wanted = price.request
        assert wanted.key is not None
        names, shared = self._known_names(), self._stored.get(wanted.key)
        if shared is None or (names is not None and wanted.key not in names):
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

    def _known_names(self) -> Set[str] | None:
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
