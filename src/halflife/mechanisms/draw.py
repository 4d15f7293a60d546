"""`draw`: the only way to noise. It asks the account, records the release, and keeps noise that is to be used again.

A mechanism is handed a `Draw` for each step and adds what it gives to a value:

    value + draw(None, sensitivity, loss=0.1)          # fresh noise, for this release alone
    value + draw("phase 7", sensitivity, scale=12.0)   # shared noise: drawn once, the same whenever it is asked for
    value + draw(None, s, scale=3.0, atop=("phase 7", s_pattern, 12.0))   # fresh noise on top of shared noise

What it gives can only be added: release-grade noise lives on a grid, and the sum must be formed there. `ReleaseDraw` takes
no source of randomness at all, so no seed can reach a release; `SimulatedDraw` is the lab's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from halflife import noise as grade
from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.numerics.parameters import whole
from halflife.release import Noise, Release


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
        atop: tuple[str, float, float] | None = None,
    ) -> Any:
        """Charge a release and return its noise, to be added to a value."""
        ...

    def headroom(self, age: int = 0) -> Any:
        """Return the largest loss that may be drawn for now."""
        ...


class Mechanism(Protocol):
    """How a value becomes an output: every registered mechanism has these, a `name`, and says whether it is `adaptive`.

    An adaptive mechanism chooses losses from earlier outputs; notions that compose only fixed schedules refuse it.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def adaptive(self) -> bool:
        """Whether it chooses losses from earlier outputs."""
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


def check_adaptive(mechanism: Mechanism, account: Accountant) -> None:
    """Refuse a mechanism that chooses its losses from outputs where the notion's arithmetic does not allow that."""
    if mechanism.adaptive and not account.notion.adaptive:
        raise InvalidInput(
            f"{mechanism.name} chooses its losses from earlier outputs, and {account.notion!r} composes only losses that "
            "are fixed beforehand: promise delta = 0, or use a planned mechanism"
        )


class Wanted(NamedTuple):
    """One call of `draw`, as it was made."""

    key: str | None
    sensitivity: float
    loss: Any
    scale: Any
    noise: Noise
    age: int
    size: int
    lattice: float | None
    atop: str | None


class Stored(NamedTuple):
    """Shared noise with what it costs; the noise is a secret."""

    noise: Any
    loss: Any
    scale: Any
    family: Noise
    size: int
    lattice: float | None

    def __repr__(self) -> str:
        return "Stored(secret)"


class _Drawing(ABC):
    """What both kinds of draw share: one step at a time, committed whole or not at all; noise only once it is charged."""

    def __init__(self) -> None:
        self._step: int | None = None
        self._late = 0
        self._stored: dict[str, Stored] = {}

    @contextmanager
    def step(self, step: int, late: int = 0) -> Iterator[Draw]:
        """Open a step. What is drawn inside is charged when the block ends, and forgotten if it ends in an error.

        late  by how many steps it is published later than its mechanism plans: data is older by as much
        """
        if self._step is not None:
            raise InvalidInput(f"step {self._step} is still open: close it before step {step}")
        kept = dict(self._stored)
        self._step, self._late = whole("step", step, least=1), whole("late", late, least=0)
        self._begin()
        try:
            yield self
            self._commit()
        except BaseException:
            self._stored = kept
            self._abandon()
            raise
        finally:
            self._step = None

    def run(self, mechanism: Mechanism, step: int, truth: Any) -> Any:
        """Run one step of a mechanism, and refuse one that is adaptive where losses must be fixed beforehand."""
        for account in self._open_accounts():
            check_adaptive(mechanism, account)
        with self.step(step) as draw:
            return mechanism.step(step, truth, draw)

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
        atop: tuple[str, float, float] | None = None,
    ) -> Any:
        """Charge a release and return its noise, to be added to a value."""
        if self._step is None:
            raise InvalidInput("noise is drawn inside a step: with draw.step(k) as d: mechanism.step(k, truth, d)")
        if (loss is None) == (scale is None):
            raise InvalidInput(f"a draw needs either a loss or a scale, not loss={loss!r} and scale={scale!r}")
        wanted = Wanted(key, sensitivity, loss, scale, noise, age + self._late, size, lattice, None)
        if atop is None:
            return self._one(wanted)
        if key is not None:
            raise InvalidInput(f"fresh noise atop {atop[0]!r} cannot itself be shared ({key!r}): give key None")
        name, pattern_sensitivity, pattern_scale = atop
        under = wanted._replace(key=name, sensitivity=pattern_sensitivity, loss=None, scale=pattern_scale)
        if name in self._stored:
            self._compare(under, self._stored[name])
        else:
            self._one(under)
        return self._sum(self._stored[name].noise, self._one(wanted._replace(atop=name)))

    def _one(self, wanted: Wanted) -> Any:
        if wanted.key in self._stored:
            return self._again(wanted, self._stored[wanted.key])
        loss, scale, sample = self._calibrate(wanted)
        self._charge(wanted, loss, scale)
        noise = sample()
        if wanted.key is not None:
            noise = self._shared(noise)
            self._stored[wanted.key] = Stored(noise, loss, scale, wanted.noise, wanted.size, wanted.lattice)
        return noise

    def _again(self, wanted: Wanted, stored: Stored) -> Any:
        loss, scale = self._compare(wanted, stored)
        self._charge(wanted, loss, scale)
        return stored.noise

    def _compare(self, wanted: Wanted, stored: Stored) -> tuple[Any, Any]:
        """Loss and scale of stored noise, if it is what is wanted."""
        loss, scale, _ = self._calibrate(wanted)
        same = stored[3:] == (wanted.noise, wanted.size, wanted.lattice)
        same = same and not np.any(scale != stored.scale) and not np.any(loss != stored.loss)
        if not same:
            raise InvalidInput(
                f"the noise {wanted.key!r} was drawn with scale {stored.scale} ({stored.family}, size {stored.size}, lattice "
                f"{stored.lattice}) and is now asked for with {scale} ({wanted.noise}, {wanted.size}, {wanted.lattice}): "
                "shared noise keeps its scale and its shape"
            )
        return loss, scale

    @abstractmethod
    def headroom(self, age: int = 0) -> Any:
        """Return the largest loss that may be drawn for now."""

    @abstractmethod
    def _open_accounts(self) -> Sequence[Accountant]: ...
    @abstractmethod
    def _begin(self) -> None: ...
    @abstractmethod
    def _commit(self) -> None: ...
    @abstractmethod
    def _abandon(self) -> None: ...
    @abstractmethod
    def _shared(self, noise: Any) -> Any: ...
    @abstractmethod
    def _charge(self, wanted: Wanted, loss: Any, scale: Any) -> None: ...
    @abstractmethod
    def _calibrate(self, wanted: Wanted) -> tuple[Any, Any, Callable[[], Any]]: ...
    @abstractmethod
    def _sum(self, pattern: Any, fresh: Any) -> Any: ...


class ReleaseDraw(_Drawing):
    """Release-grade draws against one account. `releases` holds what the last step recorded.

    >>> from halflife import Accountant, Classical
    >>> account = Accountant(Classical(1.0))
    >>> draw = ReleaseDraw(account)
    >>> with draw.step(1) as d:
    ...     published = 20.0 + d(None, sensitivity=1.0, loss=0.25)
    >>> account.headroom(2), draw.releases[0].loss
    (0.75, 0.25)
    """

    def __init__(self, account: Accountant) -> None:
        super().__init__()
        self._account = self._trial = account
        self.releases: tuple[Release, ...] = ()

    def headroom(self, age: int = 0) -> float:
        """Return the largest loss that may be drawn for now."""
        return self._trial.headroom(self._step, age + self._late)

    def _open_accounts(self) -> Sequence[Accountant]:
        return (self._account,)

    def _begin(self) -> None:
        self._trial, self.releases = self._account.copy(), ()

    def _commit(self) -> None:
        self._account.adopt(self._trial)
        if self._stored:
            known = self._account.draws
            self._stored = {name: kept for name, kept in self._stored.items() if name in known}

    def _abandon(self) -> None:
        self._trial, self.releases = self._account, ()

    def _shared(self, noise: Any) -> Any:
        return replace(noise, single=False)

    def state(self) -> dict[str, Any]:
        """Return the shared noise as JSON can hold it. It is a secret: keep it with the account, and print it nowhere."""
        return {
            key: [s.noise.grid, list(s.noise.units), s.noise.lattice, s.noise.refinement, s.loss, s.scale, s.family]
            for key, s in self._stored.items()
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with shared noise that `state` gave."""
        for key, (grid, units, lattice, refinement, loss, scale, family) in state.items():
            noise = grade.GridNoise(grid, tuple(units), lattice, refinement, single=False)
            self._stored[key] = Stored(noise, loss, scale, family, len(units), lattice)

    def _charge(self, wanted: Wanted, loss: Any, scale: Any) -> None:
        assert self._step is not None
        release = Release(
            self._step, loss, wanted.age, sensitivity=wanted.sensitivity, scale=scale, noise=wanted.noise,
            draw=wanted.key, atop=wanted.atop,
        )  # fmt: skip
        self._trial.admit(release)
        self.releases += (release,)

    def _calibrate(self, wanted: Wanted) -> tuple[Any, Any, Callable[[], Any]]:
        if wanted.key is not None and wanted.key not in self._stored and wanted.key in self._trial.draws:
            raise InvalidInput(
                f"the noise {wanted.key!r} was drawn before and is not at hand: restore() what state() saved; drawing it "
                "again would let the two be averaged"
            )
        if (wanted.key or wanted.atop) and wanted.lattice is None:
            raise InvalidInput(
                "shared noise needs lattice=, the unit that values are whole multiples of: values rounded to a grid of "
                "the noise's own would tell each other apart"
            )
        if wanted.scale == 0:
            c = grade.exact(wanted.sensitivity, wanted.noise, wanted.size)
        elif wanted.loss is not None:
            c = grade.by_loss(wanted.loss, wanted.sensitivity, wanted.noise, wanted.size, wanted.lattice)
        else:
            c = grade.by_scale(wanted.scale, wanted.sensitivity, wanted.noise, wanted.size, wanted.lattice)
        return c.loss, c.scale, lambda: grade.draw(c)

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
        super().__init__()
        self.lanes = whole("lanes", lanes, least=1)
        if len(accounts) not in (1, self.lanes):
            raise InvalidInput(f"{self.lanes} lanes need one account, or one each, not {len(accounts)}")
        self._accounts = list(accounts)
        self._trials = self._accounts
        self._source = grade.SimulatedNoise(seed)

    def headroom(self, age: int = 0) -> Any:
        """Return the largest loss that may be drawn for now, lane by lane."""
        return np.array([a.headroom(self._step, age + self._late) for a in self._trials])

    def _open_accounts(self) -> Sequence[Accountant]:
        return self._accounts

    def _begin(self) -> None:
        self._trials = [a.copy() for a in self._accounts]

    def _commit(self) -> None:
        for account, trial in zip(self._accounts, self._trials, strict=True):
            account.adopt(trial)

    def _abandon(self) -> None:
        self._trials = self._accounts

    def _shared(self, noise: Any) -> Any:
        return noise

    def _charge(self, wanted: Wanted, loss: Any, scale: Any) -> None:
        assert self._step is not None
        losses, scales = np.atleast_1d(loss), np.atleast_1d(scale)
        if len(losses) > len(self._trials):
            raise InvalidInput(f"losses differ between {len(losses)} lanes: give each lane an account of its own")
        for i, account in enumerate(self._trials):
            at = min(i, len(losses) - 1)
            if losses[at] > 0:
                account.admit(
                    Release(
                        self._step, float(losses[at]), wanted.age, sensitivity=wanted.sensitivity,
                        scale=float(scales[at]), noise=wanted.noise, draw=wanted.key, atop=wanted.atop,
                    )
                )  # fmt: skip

    def _calibrate(self, wanted: Wanted) -> tuple[Any, Any, Callable[[], Any]]:
        with np.errstate(divide="ignore"):
            if wanted.loss is not None:
                loss = np.asarray(wanted.loss, dtype=np.float64)
                scale = wanted.sensitivity / loss
            else:
                scale = np.asarray(wanted.scale, dtype=np.float64)
                loss = np.nextafter(wanted.sensitivity / scale, np.inf)
        if not (np.all(loss >= 0) and np.all(np.isfinite(loss) | (scale == 0))):
            raise InvalidInput(f"losses must be finite and at least 0, not {loss}")
        return loss, scale, lambda: self._sample(wanted, scale)

    def _sample(self, wanted: Wanted, scale: Any) -> Any:
        shape = (self.lanes,) if wanted.size == 1 else (self.lanes, wanted.size)
        if wanted.size > 1 and np.ndim(scale):
            scale = scale[:, None]
        drawn = self._source.draw(wanted.noise, np.where(np.isfinite(scale), scale, 1.0), shape)
        return np.where(np.isfinite(scale), drawn, np.nan)  # nothing was charged there, so nothing may be used

    def _sum(self, pattern: Any, fresh: Any) -> Any:
        return pattern + fresh
