"""The push interface: a program that already has the aggregate gives it, and gets the release."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.outputs import Published
from halflife.policy import Policy
from halflife.publisher.backfill import write_operator
from halflife.publisher.draws import Totals
from halflife.publisher.readable import readable
from halflife.publisher.session import Session
from halflife.steps import find_zone, from_us, parse_time, to_us

FURTHEST = 2**61
"""Totals are held within this, so that no number overflows 64 bits."""


@dataclass(frozen=True, eq=False)
class Pushed:
    """What was published for a step: `value` and `error_band` are numbers, or by group where there are groups."""

    step: int
    start: datetime.datetime
    end: datetime.datetime
    value: Any
    error_band: Any


class Stream:
    """One stream of a policy, into which a program pushes its aggregates.

    The program answers for the aggregate: that each person counts in it as the policy says, within its clip. What it gives for
    a step is published once; giving it again returns the stored release, whatever the value.
    """

    def __init__(
        self, policy: Policy, name: str | None = None, *, wait: float = 10.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._session = Session(policy, clock)
        names = [c.name for c in self._session.channels]
        if name is None and len(names) > 1:
            raise InvalidInput(f"the policy has {len(names)} streams: name one of {', '.join(names)}")
        if name is not None and name not in names:
            raise unknown("stream", name, names)
        self._channel = self._session.channels[names.index(name) if name else 0]
        self._wait = wait
        self._queue = threading.Lock()

    def close(self) -> None:
        """Let go of the ledger."""
        self._session.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def publish(self, value: Any, at: str | datetime.datetime | int | None = None) -> Pushed:
        """Publish the aggregate of a step: the one that `at` lies in (a time, or its number), else the newest that is over.

        `value` is a number in the policy's unit; a list of numbers for a histogram; with groups a mapping from group to
        either. What is not a finite number counts as if nobody had a reading. Steps go forward; one that is not over yet by
        the clock is refused.
        """
        c = self._channel
        with self._queue, self._session.held(self._wait):
            step = self._step(at)
            if step > self._session.done[c.name]:
                totals = self._totals(value, step)
                due = self._session.due(c, step, step)
                self._session.publish([(due, totals)])
            stored = list(self._session.ledger.entries(c.name, step, step))
        if not stored:
            raise InvalidInput(
                f"step {step} of {c.name} was passed over, and steps go forward: the newest is {self._session.done[c.name]}"
            )
        return self._pushed(readable(stored, c.factor_of_cells)[0])

    def _step(self, at: str | datetime.datetime | int | None) -> int:
        """Which step is meant; it must be over, by the clock, and lie within the policy's start and end."""
        c, now = self._channel, self._session.now_us()
        newest = c.newest(now)
        if at is None:
            step = newest
        elif isinstance(at, Integral) and not isinstance(at, bool):
            step = int(at)
        else:
            moment = parse_time(at, c.steps.zone) if isinstance(at, str) else at
            if not isinstance(moment, datetime.datetime):
                raise InvalidInput(f"at must be a time or the number of a step, not {at!r}")
            local = moment if moment.tzinfo else moment.replace(tzinfo=find_zone(c.steps.zone))
            step = c.steps.step(to_us(local))
        if step < 1 or (c.last is not None and step > c.last):
            raise InvalidInput(f"step {step} lies outside the policy's start and end: nothing was published")
        if step > newest:
            ready = from_us(c.published_at(step), c.steps.zone)
            raise InvalidInput(f"step {step} may be published from {ready.isoformat(sep=' ')} on: it is not over yet")
        return step

    def _totals(self, value: Any, step: int) -> Totals:
        """The aggregate in whole units, cell by cell, within what is possible."""
        c = self._channel
        given = _cells(value, c.groups, max(1, len(c.bins)))
        offsets = [o for o in c.offsets for _ in range(max(1, len(c.bins)))]
        bad = sum(not math.isfinite(x) for x in given)
        if bad:
            line = {"stream": c.name, "steps": [step, step], "bad_value": bad}
            write_operator(self._session.ledger.path, self._session.now_us(), line)
        units = [_units(x, f, o) for x, f, o in zip(given, c.factor_of_cells, offsets, strict=True)]
        return np.array([units], dtype=np.int64)

    def _pushed(self, shown: Published) -> Pushed:
        c = self._channel
        bins = max(1, len(c.bins))
        start, end = (from_us(us, c.steps.zone) for us in (shown.start_us, shown.end_us))
        value, band = (_shape(x.tolist(), c.groups, bins, bool(c.bins)) for x in (shown.values, shown.bands))
        return Pushed(shown.step, start, end, value, band)


def _units(x: float, factor: Fraction, nobody: int) -> int:
    """A total in whole units, the nearest one; what nobody's readings come to if it is no number."""
    if not math.isfinite(x):
        return nobody
    return max(-FURTHEST, min(FURTHEST, math.floor(Fraction(x) / factor + Fraction(1, 2))))


def _cells(value: Any, groups: tuple[str, ...], bins: int) -> list[float]:
    """What was pushed, number by number: groups as the policy lists them, bins within them."""
    if groups:
        if not isinstance(value, Mapping) or set(value) != set(groups):
            raise InvalidInput(
                f"a value for each of the {len(groups)} groups is needed, as a mapping; empty groups too"
            )
        parts = [value[g] for g in groups]
    else:
        parts = [value]
    numbers: list[float] = []
    for part in parts:
        try:
            row = np.atleast_1d(np.asarray(part, dtype=np.float64))
        except (TypeError, ValueError):
            raise InvalidInput(f"numbers are needed, not {type(part).__name__}") from None
        if row.shape != (bins,):
            raise InvalidInput(f"{bins} {'number' if bins == 1 else 'numbers'} are needed, not {row.shape}")
        numbers += row.tolist()
    return numbers


def _shape(cells: list[float], groups: tuple[str, ...], bins: int, listed: bool) -> Any:
    """The inverse of `_cells`."""
    rows = [cells[i : i + bins] if listed else cells[i] for i in range(0, len(cells), bins)]
    return dict(zip(groups, rows, strict=True)) if groups else rows[0]
