"""Secrets (an event of a household, hidden within an interval): single ones, specifications of a household, and columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.forms import JsonObject, read_form
from halflife.numerics.parameters import real, whole
from halflife.specifications.checks import (
    FARTHEST,
    KEEP_ONE,
    MOST_EPSILON,
    MOST_POWER,
    NUMBERS,
    WHOLE,
    Columns,
    check_name,
    check_secrets,
    too_short,
)

if TYPE_CHECKING:
    import datetime

    import pyarrow as pa

    from halflife.steps import Steps


__all__ = [
    "FARTHEST",
    "NUMBERS",
    "WHOLE",
    "Floats",
    "Integers",
    "Secret",
    "Specification",
    "Specifications",
    "too_short",
]


@dataclass(frozen=True, slots=True)
class Secret:
    """s = (event (p, T), hiding interval J, ε_s) (Definitions 9 and 10; paper).

    power     p: how far the event moves the household's value at each of its steps, at most
    duration  T: how many steps it lasts
    start, end  J = [start, end], both included: an event anywhere in it is hidden; |J| ≥ T
    epsilon   ε_s: how well it is hidden

    >>> oven = Secret(power=3.0, duration=2, start=1, end=4, epsilon=1.0)     # (Example 1; paper)
    >>> oven.relevant(4), oven.relevant(5), oven.placements
    (True, False, 3)
    >>> Secret(3.0, 5, 1, 4, 1.0)
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: the hiding interval [1, 4] has 4 steps, fewer than its event lasts (duration 5): widen it, or \
shorten the event
    """

    power: float
    duration: int
    start: int
    end: int
    epsilon: float

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "power", real("power", self.power, positive=True, limit=MOST_POWER))
        put(self, "duration", whole("duration", self.duration, least=1))
        put(self, "start", _step("start", self.start))
        put(self, "end", _step("end", self.end))
        put(self, "epsilon", real("epsilon", self.epsilon, positive=True, limit=MOST_EPSILON))
        if self.end < self.start:
            raise InvalidInput(f"the hiding interval ends ({self.end}) before it starts ({self.start})")
        if self.end - self.start + 1 < self.duration:
            raise InvalidInput(too_short(self.start, self.end, self.duration))

    @classmethod
    def between(
        cls,
        power: float,
        duration: str | datetime.timedelta,
        start: str | datetime.datetime,
        end: str | datetime.datetime,
        epsilon: float,
        steps: Steps,
        *,
        zone: str | None = None,
    ) -> Secret:
        """Return the secret of a stretch of time [start, end): J is every step that it touches, T = ⌈duration/width⌉ (ours).

        A time carries its offset, or is local time in `zone`. See `halflife.specifications.wall_clock`.

        >>> from halflife.steps import Steps
        >>> noon = ("2026-02-02T12:00+01:00", "2026-02-02T13:00+01:00")
        >>> Secret.between(3.0, "30 min", *noon, 1.0, Steps.of("15 min", "2026-02-02T12:00+01:00"))
        Secret(power=3.0, duration=2, start=1, end=4, epsilon=1.0)
        """
        from halflife.specifications.wall_clock import steps_between

        first, last, lasts = steps_between(start, end, duration, steps, zone)
        return cls(power, lasts, first, last, epsilon)

    def relevant(self, step: int) -> bool:
        """Whether the step lies in the hiding interval."""
        return self.start <= step <= self.end

    @property
    def placements(self) -> int:
        """How many places the event has in its hiding interval: |J| − T + 1."""
        return self.end - self.start + 2 - self.duration

    def dominates(self, other: Secret) -> bool:
        """Whether this one is at least as long, as high and as well hidden (Section III-B; paper).

        >>> Secret(3.0, 2, 1, 4, 0.5).dominates(Secret(1.0, 2, 3, 9, 1.0))
        True
        """
        return self.duration >= other.duration and self.power >= other.power and self.epsilon <= other.epsilon


def _step(name: str, value: object) -> int:
    step = whole(name, value)
    if abs(step) > FARTHEST:
        raise InvalidInput(f"{name} must lie within {FARTHEST:,} steps of step 0, not at {step}")
    return step


@dataclass(frozen=True)
class Specification:
    """P: the secrets of one household, all to be hidden at once (Definition 11; paper).

    >>> p = Specification([Secret(3.0, 2, 1, 4, 1.0), Secret(1.0, 3, 3, 9, 0.5)], household="Elm 7")
    >>> [p.sensitivity(t) for t in (1, 3, 9, 10)]
    [3.0, 4.0, 1.0, 0.0]
    """

    secrets: tuple[Secret, ...]
    household: str | None = None

    def __init__(self, secrets: Iterable[Secret], household: str | None = None) -> None:
        held = tuple(secrets)
        for secret in held:
            if not isinstance(secret, Secret):
                raise InvalidInput(f"a specification holds secrets, not {secret!r}")
        if household is not None:
            check_name(household)
        twice = _find_repeated(held)
        if twice:
            raise InvalidInput(f"{household or 'a household'} has the same secret twice: {twice[0]}: {KEEP_ONE}")
        object.__setattr__(self, "secrets", held)
        object.__setattr__(self, "household", household)

    def relevant(self, step: int) -> tuple[Secret, ...]:
        """P_t: the secrets whose hiding interval holds the step (Definition 12; paper)."""
        return tuple(s for s in self.secrets if s.relevant(step))

    def sensitivity(self, step: int) -> float:
        """Δ_t = Σ p over the secrets relevant at t: the temporal sensitivity of a sum (Definition 14; paper)."""
        return float(sum(s.power for s in self.relevant(step)))

    def dominant(self, step: int) -> Secret | None:
        """Return the relevant secret that dominates all others at the step, None if there is none (Section III-B; paper)."""
        held = self.relevant(step)
        return next((s for s in held if all(s.dominates(other) for other in held)), None)

    def dominates(self, other: Specification, step: int) -> bool:
        """Whether at the step this specification's dominant secret dominates that of the other (Section III-B; paper).

        A specification without a relevant secret is dominated by any; one without a dominant secret dominates nothing else.
        """
        if not other.relevant(step):
            return True
        mine, theirs = self.dominant(step), other.dominant(step)
        return mine is not None and theirs is not None and mine.dominates(theirs)


def _find_repeated(held: Sequence[Secret]) -> list[Secret]:
    seen: set[Secret] = set()
    return [s for s in held if s in seen or seen.add(s)]  # type: ignore[func-returns-value]


class Specifications:
    """The specifications of many households as columns, sorted by household and start: millions of secrets.

    households                          their names, in order
    household                           for each secret, which of them: an index into `households`
    power, duration, start, end, epsilon  the secrets, read-only

    >>> many = Specifications([Specification([Secret(3.0, 2, 1, 4, 1.0)], "b"), Specification([Secret(1.0, 1, 2, 9, 0.5)], "a")])
    >>> len(many), many.households, many.power.tolist()
    (2, ('a', 'b'), [1.0, 3.0])
    """

    household: Integers
    power: Floats
    duration: Integers
    start: Integers
    end: Integers
    epsilon: Floats

    def __init__(self, specifications: Specification | Iterable[Specification]) -> None:
        given = [specifications] if isinstance(specifications, Specification) else list(specifications)
        names: list[str] = []
        for i, spec in enumerate(given):
            if not isinstance(spec, Specification):
                raise InvalidInput(f"item {i} must be a Specification, not {spec!r}")
            names.append(spec.household or f"household {i + 1}")
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise InvalidInput(f"household {twice!r} has two specifications: put its secrets into one")
        codes = np.repeat(np.arange(len(given)), [len(s.secrets) for s in given])
        secrets = [s for spec in given for s in spec.secrets]
        columns = {name: np.array([getattr(s, name) for s in secrets]) for name in NUMBERS}
        self._hold(names, codes, columns)

    @classmethod
    def of(cls, given: object) -> Specifications:
        """Return specifications from what stands for them: themselves, one or several `Specification`, or what `to_dict` gave."""
        if isinstance(given, Specifications):
            return given
        if isinstance(given, Mapping):
            return cls.from_dict(given)
        if isinstance(given, Specification | list | tuple):
            return cls(given)
        raise InvalidInput(f"specifications must be Specifications, or a list of Specification, not {given!r}")

    @classmethod
    def from_columns(
        cls, names: Sequence[str], household: object, columns: Columns, row: object = None
    ) -> Specifications:
        """Make them from columns: `household` holds indices into `names`. Anything that is no secret is refused by its row.

        row  the row's number as people count, for messages; by default its place, from 1
        """
        made = cls.__new__(cls)
        made._hold(list(names), household, columns, row)
        return made

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Specifications:
        """Read the columns household, power, duration, start, end, epsilon; `what` may say what an event is, for people.

        >>> import pyarrow as pa
        >>> t = pa.table({"household": ["a"], "power": [3.0], "duration": [2], "start": [1], "end": [4], "epsilon": [1.0]})
        >>> Specifications.from_arrow(t).specification("a")
        Specification(secrets=(Secret(power=3.0, duration=2, start=1, end=4, epsilon=1.0),), household='a')
        """
        from halflife.specifications.tables import read_columns

        return cls.from_columns(*read_columns(table))

    def _hold(self, names: list[str], household: Any, columns: Columns, row: Any = None) -> None:
        given = dict(check_secrets(names, household, columns, row))
        household = given.pop("household")
        order = _order(names, household, given)
        rank = np.argsort(np.argsort(np.array(names, dtype=object))) if names else np.zeros(0, dtype=np.int64)
        codes = rank[household][order].astype(np.int32) if len(household) else np.zeros(0, dtype=np.int32)
        self.households: tuple[str, ...] = tuple(sorted(names))
        for name, values in {"household": codes, **{n: v[order] for n, v in given.items()}}.items():
            values.flags.writeable = False
            setattr(self, name, values)
        self._refuse_repeated()

    def _refuse_repeated(self) -> None:
        same = np.ones(max(0, len(self) - 1), dtype=bool)
        for name in ("household", *NUMBERS):
            column = getattr(self, name)
            same &= column[1:] == column[:-1]
        if same.any():
            i = int(np.argmax(same))
            raise InvalidInput(f"household {self.name_of(i)!r} has the same secret twice: {self.secret(i)}: {KEEP_ONE}")

    def __len__(self) -> int:
        return len(self.power)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Specifications)
            and self.households == other.households
            and all(np.array_equal(getattr(self, n), getattr(other, n)) for n in ("household", *NUMBERS))
        )

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        return f"Specifications({len(self.households):,} households, {len(self):,} secrets, {self.sha256[:12]})"

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 digest of all names and numbers, independent of the order in which secrets were given."""
        total = hashlib.sha256("\0".join(self.households).encode())
        for name in ("household", *NUMBERS):
            total.update(np.ascontiguousarray(getattr(self, name)).data)
        return total.hexdigest()

    # One by one -----------------------------------------------------------------------------------------------------

    def secret(self, i: int) -> Secret:
        """Return the i-th secret."""
        return Secret(*(getattr(self, name)[i].item() for name in NUMBERS))

    def name_of(self, i: int) -> str:
        """Return the household of the i-th secret."""
        return self.households[int(self.household[i])]

    def specification(self, household: str) -> Specification:
        """Return one household's specification."""
        if household not in self.households:
            raise unknown("household", household, self.households)
        first, last = self.rows(self.households.index(household))
        return Specification([self.secret(i) for i in range(first, last)], household)

    def __iter__(self) -> Iterator[Specification]:
        return (self.specification(name) for name in self.households)

    def rows(self, code: int) -> tuple[int, int]:
        """Return which rows hold the secrets of a household: from the first up to before the second."""
        first, last = np.searchsorted(self.household, [code, code + 1])
        return int(first), int(last)

    # As a whole -----------------------------------------------------------------------------------------------------

    @property
    def last_step(self) -> int:
        """The last step of any hiding interval, 0 if there is no secret."""
        return int(self.end.max()) if len(self) else 0

    def only(self, rows: object) -> Specifications:
        """Return some of the secrets: a mask or indices, in order."""
        return self._with({name: getattr(self, name)[rows] for name in ("household", *NUMBERS)})

    def _with(self, columns: Columns) -> Specifications:
        """Return the same households with other columns in the same order; nothing is checked again."""
        made = Specifications.__new__(Specifications)
        made.households = self.households
        for name in ("household", *NUMBERS):
            values = np.ascontiguousarray(columns[name] if name in columns else getattr(self, name))
            values.flags.writeable = False
            setattr(made, name, values)
        return made

    def times_power(self, factor: float, more: float = 0.0) -> Specifications:
        """Return the same secrets with powers p·factor + more, rounded up: in another unit."""
        power = np.nextafter(self.power * real("factor", factor, positive=True), np.inf) + real("more", more)
        return self._with({"power": np.nextafter(power, np.inf) if more else power})._merge_alike()

    def times_epsilon(self, part: float) -> Specifications:
        """Return the same secrets with a part of each ε, rounded down."""
        return self._with(
            {"epsilon": np.nextafter(self.epsilon * real("part", part, positive=True), 0.0)}
        )._merge_alike()

    def one_step_longer(self) -> Specifications:
        """Return the same secrets with events of T + 1 steps, or of all of J where that is shorter."""
        return self._with({"duration": np.minimum(self.duration + 1, self.end - self.start + 1)})._merge_alike()

    def _merge_alike(self) -> Specifications:
        """Return the secrets sorted; equal ones become one whose power is the sum, as both events may happen."""
        keys = [getattr(self, n) for n in ("power", "epsilon", "duration", "end", "start", "household")]
        order = np.lexsort(keys)
        columns = {n: getattr(self, n)[order] for n in ("household", *NUMBERS)}
        alike = np.ones(max(0, len(self) - 1), dtype=bool)
        for column in columns.values():
            alike &= column[1:] == column[:-1]
        if alike.any():
            first = np.flatnonzero(np.append(True, ~alike))
            count = np.diff(np.append(first, len(self)))
            columns = {n: column[first] for n, column in columns.items()}
            columns["power"] = np.where(count > 1, np.nextafter(columns["power"] * count, np.inf), columns["power"])
        return Specifications.from_columns(self.households, columns["household"].astype(np.int64), columns)

    def to_arrow(self) -> pa.Table:
        """Return the columns, households by name."""
        import pyarrow as pa

        names = pa.DictionaryArray.from_arrays(
            pa.array(self.household, pa.int32()), pa.array(self.households, pa.string())
        )
        return pa.table({"household": names, **{name: pa.array(getattr(self, name)) for name in NUMBERS}})

    def to_dict(self) -> JsonObject:
        """Return all of it as JSON can hold it, exactly."""
        return {
            "households": list(self.households),
            "household": self.household.tolist(),
            "power": self.power.tolist(),
            "duration": self.duration.tolist(),
            "start": self.start.tolist(),
            "end": self.end.tolist(),
            "epsilon": self.epsilon.tolist(),
        }

    @classmethod
    def from_dict(cls, data: object) -> Specifications:
        """Read what `to_dict` gave."""
        columns = ("power", "duration", "start", "end", "epsilon")
        form = read_form("specifications", data, ("households", "household", *columns))
        for key, column in form.items():
            if not isinstance(column, list):
                raise InvalidInput(f"specifications must hold a list of {key!r}")
        return cls.from_columns(form["households"], form["household"], {key: form[key] for key in columns})

    def summary(self) -> JsonObject:
        """Return a short description with the digest, for certificates and ledgers."""
        if not len(self):
            return {"households": len(self.households), "secrets": 0, "sha256": self.sha256}
        return {
            "households": len(self.households),
            "secrets": len(self),
            "sha256": self.sha256,
            "first_step": int(self.start.min()),
            "last_step": self.last_step,
            "longest_event": int(self.duration.max()),
            "smallest_epsilon": float(self.epsilon.min()),
        }


def _order(names: Sequence[str], household: Any, columns: Columns) -> Any:
    """The order by household's name, start, and the other numbers; all as they are if they have it already."""
    if len(household) < 2:
        return slice(None)
    rank = np.argsort(np.argsort(np.array(names, dtype=object)))
    low, span = int(columns["start"].min()), int(columns["end"].max() - columns["start"].min()) + 3
    if len(names) * span >= 2**62:
        raise InvalidInput(f"{len(names):,} households over {span:,} steps are too many for 64 bits: split them")
    first = rank[household] * span + (columns["start"] - low)
    order = np.arange(len(first)) if (first[1:] >= first[:-1]).all() else np.argsort(first, kind="stable")
    first = first[order]
    tied = np.flatnonzero(np.append(first[1:] == first[:-1], False) | np.append(False, first[1:] == first[:-1]))
    rest = [columns[name][order[tied]] for name in ("epsilon", "duration", "power", "end")]
    order[tied] = order[tied][np.lexsort([*rest, first[tied]])]
    return order
