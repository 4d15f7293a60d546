"""One secret as people write it: in steps, between two times, recurring, or as a sentence. Every wrong field is named."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.local_time import find_zone
from halflife.specifications.base import Secret
from halflife.specifications.checks import NUMBERS, Columns, column, faults_of
from halflife.specifications.recurring import (
    Recurring,
    parse_recurring,
    read_day,
    read_number,
    read_power,
    read_weekdays,
    read_window,
)
from halflife.specifications.wall_clock import TooShort, read_duration, read_moment, steps_between
from halflife.steps import Steps

ONCE = ("what", "power", "duration", "start", "end", "epsilon", "zone")
RECURS = ("what", "every", "from", "to", "power", "duration", "epsilon", "since", "until", "zone")
FIELDS = tuple(dict.fromkeys((*ONCE, *RECURS)))
_STEP = re.compile(r"[+-]?\d{1,15}(?:\.0{0,15})?", re.ASCII)
_NEEDS_STEPS = (
    "goes by the clock, which needs the stream's steps: give `steps`, such as Steps.of('15 min', '2026-01-01', "
    "'Europe/Berlin'), or write the secret in steps"
)

T = TypeVar("T")


@dataclass(frozen=True)
class Frame:
    """The context in which written secrets are read: the stream's steps, the last step, the unit of power, and a zone."""

    steps: Steps | None = None
    last: int | None = None
    unit: str = "kW"
    zone: str | None = None

    def within(self, zone: str | None) -> Frame:
        """Return the same with the zone of a file, if it has one."""
        return self if zone is None else replace(self, zone=zone)


class EntryError(InvalidInput):
    """What is wrong with one written secret: (field, what) for each problem; no field if it is the whole.

    `about` is what the secret cannot be read without: the stream's `steps`, or the `last` of them.
    """

    def __init__(self, problems: list[tuple[str | None, str]], about: str | None = None) -> None:
        super().__init__("; ".join(f"{field}: {says}" if field else says for field, says in problems), about=about)
        self.problems = problems


def read_entry(entry: object, frame: Frame) -> Columns:
    """Return the secrets of one entry as columns.

    >>> read_entry({"power": "2500 W", "duration": "2", "start": "1", "end": "4", "epsilon": "1"}, Frame())
    {'power': (2.5,), 'duration': (2,), 'start': (1,), 'end': (4,), 'epsilon': (1.0,)}
    """
    if isinstance(entry, str):
        return _sentence(entry, frame)
    if not isinstance(entry, Mapping):
        raise EntryError(
            [(None, "a secret is a mapping of fields, or a sentence such as 'every weekday 18:00–21:00, …'")]
        )
    reader = _Fields({name: value for name, value in entry.items() if value not in (None, "")}, frame)
    return reader.read_recurring() if "every" in reader.entry else reader.read_once()


def _sentence(text: str, frame: Frame) -> Columns:
    try:
        made = parse_recurring(text, zone=frame.zone or "UTC", unit=frame.unit)
        if frame.zone is None:
            raise InvalidInput("its times have no zone: give the file a `zone:` such as Europe/Berlin")
        if frame.steps is None:
            raise InvalidInput(_NEEDS_STEPS, about="steps")
        return made.columns(frame.steps, frame.last)
    except InvalidInput as error:
        raise EntryError([(None, str(error))], error.about) from None


class _Fields:
    """Reads the fields of one entry, and remembers what is wrong with each."""

    def __init__(self, entry: Mapping[Any, Any], frame: Frame) -> None:
        self.entry, self.frame = entry, frame
        self.problems: list[tuple[str | None, str]] = []
        self.about: str | None = None

    def need_steps(self, field: str) -> None:
        """Record a problem of this field if the stream's steps are not known."""
        if self.frame.steps is None:
            self.problems.append((field, _NEEDS_STEPS))
            self.about = "steps"

    def read(self, field: str, how: Callable[[Any], T], default: object = "") -> T | None:
        """Return a field's value; None if it is missing or wrong."""
        value = self.entry.get(field, default)
        if value == "":
            self.problems.append((field, "is missing"))
            return None
        if value is None:
            return None
        if isinstance(value, list) and field == "every":
            value = ", ".join(str(part) for part in value)
        if isinstance(value, list | Mapping):
            self.problems.append((field, f"must be one value, not {str(value)[:80]}"))
            return None
        try:
            return how(value)
        except InvalidInput as error:
            self.problems.append((field, str(error).removeprefix(f"{field} ")))
            return None

    def read_common(self, known: tuple[str, ...], kind: str) -> tuple[float | None, float | None]:
        """Refuse fields that this kind of secret does not have; return its power and ε."""
        for field in self.entry:
            if field not in known:
                says = f"has no place in a secret {kind}" if field in FIELDS else str(unknown("field", field, known))
                self.problems.append((str(field), says))
        power = self.read("power", lambda text: read_power(text, self.frame.unit))
        return power, self.read("epsilon", lambda text: read_number("epsilon", text))

    def zone(self, times: str) -> str | None:
        """Return the entry's zone or the file's; `times` is the field whose times lack one if there is none."""
        zone = self.read("zone", _zone, None)
        if zone is None and "zone" not in self.entry:
            zone = self.frame.zone
            if zone is None and times:
                says = "its times have no zone: give a `zone:` such as Europe/Berlin, here or for the file"
                self.problems.append((times, says))
        return zone

    def stop_if_wrong(self) -> None:
        """Refuse the entry with all of its problems."""
        if self.problems:
            raise EntryError(self.problems, self.about)

    def read_recurring(self) -> Columns:
        """Read `every`, with `from` and `to`, or without both for all day."""
        power, epsilon = self.read_common(RECURS, "that recurs: write `from`, `to`, `since` and `until`")
        days = self.read("every", read_weekdays)
        zone = self.zone("every")
        begin, end = (self.entry.get(field) for field in ("from", "to"))
        if (begin is None) != (end is None):
            self.problems.append(("to" if end is None else "from", "is missing: give both, or neither for all day"))
        window = self.read("to" if end else "every", lambda _: read_window(str(begin or "00:00"), str(end or "24:00")))
        duration = self.read("duration", _time_span)
        since, until = (self.read(field, lambda text, f=field: read_day(f, text), None) for field in ("since", "until"))  # type: ignore[misc]
        self.need_steps("every")
        self.stop_if_wrong()
        assert power is not None
        assert epsilon is not None
        assert days is not None
        assert window is not None
        assert duration is not None
        assert zone is not None
        assert self.frame.steps is not None
        try:
            made = Recurring(days, *window, power, duration, epsilon, zone, since, until)
            return made.columns(self.frame.steps, self.frame.last)
        except TooShort as error:
            raise EntryError([("duration", str(error))]) from None
        except InvalidInput as error:
            raise EntryError([("until", str(error))], error.about) from None

    def read_once(self) -> Columns:
        """Read one hiding interval, in steps or between two times."""
        power, epsilon = self.read_common(ONCE, "that does not recur: add `every`, or take it out")
        written = {field: self.entry[field] for field in ("start", "end", "duration") if field in self.entry}
        in_steps = {field: bool(_STEP.fullmatch(str(value).strip())) for field, value in written.items()}
        for field in ("start", "end", "duration"):
            if field not in written:
                self.problems.append((field, "is missing"))
        if len(written) < 3:
            self.stop_if_wrong()
        if len(set(in_steps.values())) > 1:
            steps, times = (
                [f"{f} {written[f]!r}" for f, is_step in in_steps.items() if is_step is kind] for kind in (True, False)
            )
            field = next(f for f, is_step in in_steps.items() if not is_step)
            says = f"{' and '.join(times)} by the clock and {' and '.join(steps)} in steps: write all of them one way"
            self.problems.append((field, says))
            self.stop_if_wrong()
        elif all(in_steps.values()):
            return self._in_steps(power, epsilon)
        return self._by_clock(power, epsilon)

    def _in_steps(self, power: float | None, epsilon: float | None) -> Columns:
        self.stop_if_wrong()
        values = (
            power,
            *(int(str(self.entry[f]).strip().split(".")[0]) for f in ("duration", "start", "end")),
            epsilon,
        )
        try:
            Secret(*values)  # type: ignore[arg-type]
        except InvalidInput:
            self._blame(values)
        return {name: (value,) for name, value in zip(NUMBERS, values, strict=True)}

    def _blame(self, values: tuple[Any, ...]) -> None:
        """Name the fields whose numbers make the secret invalid."""
        arrays = {}
        for name, value in zip(NUMBERS, values, strict=True):
            arrays[name], _, faults = column(name, np.array([value]))
            self.problems += [(fault.field, fault.says) for fault in faults]
        self.stop_if_wrong()
        self.problems += [(fault.field, fault.says) for fault in faults_of(arrays)[1]]
        self.stop_if_wrong()

    def _by_clock(self, power: float | None, epsilon: float | None) -> Columns:
        zone = self.zone("")
        for field in ("start", "end"):
            self.read(field, lambda text: read_moment(text, zone))
        self.read("duration", _time_span)
        self.need_steps("start")
        self.stop_if_wrong()
        assert self.frame.steps is not None
        start, end, duration = (str(self.entry[field]) for field in ("start", "end", "duration"))
        try:
            first, last, lasts = steps_between(start, end, duration, self.frame.steps, zone)
        except InvalidInput as error:
            raise EntryError([("duration" if isinstance(error, TooShort) else "end", str(error))]) from None
        return {"power": (power,), "duration": (lasts,), "start": (first,), "end": (last,), "epsilon": (epsilon,)}


def _zone(text: object) -> str:
    find_zone(str(text))
    return str(text)


def _time_span(text: object) -> int:
    if _STEP.fullmatch(str(text).strip()):
        raise InvalidInput(f"{text!r} is a number of steps, and this secret goes by the clock: write it as '30 min'")
    return read_duration(str(text))
