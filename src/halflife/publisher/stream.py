"""The push interface: a program that already has the aggregate gives it, and gets the release."""

from __future__ import annotations

import datetime
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.ledger.entry import name_vintage
from halflife.local_time import find_zone, from_us, parse_time, to_us
from halflife.outputs import Published
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.policy.ranges import total_range
from halflife.publisher.drawing import Totals
from halflife.publisher.operator_log import write_operator
from halflife.publisher.session import Session, read_entries
from halflife.publisher.vintages.revise import Again

BEYOND = 2**200
"""Further from 0 than any total in any unit: larger numbers are taken as this, so that no arithmetic with them is slow."""
MISSING = ("NAType", "NaTType", "MaskedConstant")
"""Types of pandas and NumPy that stand for a missing number, beside None."""


@dataclass(frozen=True, eq=False)
class Pushed:
    """What was published for a step: `value` and `error_band` are numbers, or by group where there are groups.

    A band is infinite where the value repeats an earlier one, as nobody knows how far the truth has moved since.
    """

    step: int
    start: datetime.datetime
    end: datetime.datetime
    value: Any
    error_band: Any


class Stream:
    """One stream of a policy, into which a program pushes its aggregates.

    The program answers for the aggregate: that each person counts in it as the policy says, within its clip. What lies outside
    the range that the policy allows for (n people of [l, h] each come to [n l, n h]) is held within it. What it gives for a
    step is published once; giving it again returns the stored release, whatever the value.
    """

    def __init__(
        self,
        policy: GivenPolicy,
        name: str | None = None,
        *,
        wait: float = 10.0,
        second_ledger: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        policy = Policy.of(policy)
        names = [stream.name for stream in policy.streams]
        if name is None and len(names) > 1:
            raise InvalidInput(f"the policy has {len(names)} streams: name one of {', '.join(names)}")
        if name is not None and name not in names:
            raise unknown("stream", name, names)
        self._index = names.index(name) if name else 0
        if channels(policy)[self._index].tree is not None:
            raise InvalidInput(
                f"{names[self._index]}: a running total adds up steps of the data, and a program pushes one step's value alone: "
                "publish it from its source (halflife publish)"
            )
        self._session = Session(policy, clock, second_ledger=second_ledger)
        self._wait = wait
        self._queue = threading.Lock()

    @property
    def _channel(self) -> Channel:
        return self._session.channels[self._index]

    def close(self) -> None:
        """Close the ledger."""
        self._session.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def publish(self, value: object, at: str | datetime.datetime | int | None = None) -> Pushed:
        """Publish the aggregate of a step: the one that `at` lies in (a time, or its number), else the newest that is over.

        `value` is a number in the policy's unit; a list of numbers for a histogram; for quantiles the list of how many people are
        in each bin of the grid, and the value that comes back is the list of quantiles; with groups a mapping from group to
        either. **No number decides whether a step is published.** One that is NaN, infinite, None or masked counts as if nobody
        had a reading; one outside the public range of the statistic as the nearest within it. How many there were is written to
        the operator's file alone. Refused is the shape of the call, whatever the numbers: another number of them, other groups,
        or things that are never numbers, such as text. Steps go forward; one that is not over yet by the clock is refused.
        """
        with self._queue, self._session.hold(self._wait):
            c, step = self._channel, self._step(at)
            if step > self._session.done[c.name]:
                totals = self._totals(value, step)
                due = self._session.due(c, step, step)
                self._session.publish([(due, totals)])
            stored = list(self._session.ledger.entries(c.name, step, step))
        if not stored:
            raise InvalidInput(
                f"step {step} of {c.name} was passed over, and steps go forward: the newest is {self._session.done[c.name]}"
            )
        return self._make_pushed(read_entries(c, stored).items()[0])

    def revise(self, value: object, at: str | datetime.datetime | int, *, loss: float | None = None) -> Pushed:
        """Publish a step again with a corrected aggregate, as a new vintage beside the first, and return it: see `hl.revise`.

        value  as in `publish`;  loss  what it may lose, in nats, as planned if it is not given
        """
        c = self._channel
        with self._queue, self._session.hold(self._wait):
            step = self._step(at)
            again = Again(self._session, c, step, None, loss)
            again.publish(self._totals(value, step))
            stored = list(self._session.ledger.entries(name_vintage(c.name, again.vintage), step, step))
        return self._make_pushed(read_entries(c, stored).items()[0])

    def _step(self, at: str | datetime.datetime | int | None) -> int:
        """Return the step that is meant; it must be over by the clock, and lie within the policy's start and end."""
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

    def _totals(self, value: object, step: int) -> Totals:
        """Return the aggregate in whole units, cell by cell, clipped to the public range."""
        c, bins = self._channel, max(1, len(self._channel.bins))
        given = [_exact(cell) for cell in _cells(value, c.groups, bins)]
        sized = c.sized_at(step)
        nobody = [offset for offset in sized.offsets for _ in range(bins)]
        units = [
            missing if x is None else math.floor(x / factor + Fraction(1, 2))
            for x, factor, missing in zip(given, c.factor_of_bins(step), nobody, strict=True)
        ]
        ranges = total_range(c, sized.size)
        held = [max(low, min(high, total)) for total, (low, high) in zip(units, ranges, strict=True)]
        told = {
            "bad_value": sum(x is None for x in given),
            "clamped": sum(total != within for total, within in zip(units, held, strict=True)),
        }
        line = {"stream": c.name, "steps": [step, step], **told}
        write_operator(self._session.ledger.operator_file, self._session.now_us(), line)
        counts = np.array(held, dtype=np.int64).reshape(1, -1, bins)
        return counts.reshape(1, -1) if c.measure.tree is None else c.measure.tree.add_up(counts).reshape(1, -1)

    def _make_pushed(self, shown: Published) -> Pushed:
        c = self._channel
        rows = len(c.measure.quantiles) or max(1, len(c.bins))
        start, end = (from_us(us, c.steps.zone) for us in (shown.start_us, shown.end_us))
        value, band = (_shape(x.tolist(), c.groups, rows, bool(c.bins)) for x in (shown.values, shown.bands))
        return Pushed(shown.step, start, end, value, band)


def _exact(cell: Any) -> Fraction | None:
    """Return a pushed number exactly, at most BEYOND in size; None if it counts as missing.

    >>> _exact(0.5), _exact(10**400) == BEYOND, _exact(Decimal("-1e999999")) == -BEYOND, _exact(Decimal("nan"))
    (Fraction(1, 2), True, True, None)
    """
    if cell is None or type(cell).__name__ in MISSING:
        return None
    if isinstance(cell, Decimal) and cell.is_finite() and abs(cell.adjusted()) > 60:  # 10⁶⁰ < BEYOND < 10⁶¹
        return Fraction(0) if cell.adjusted() < 0 or not cell else Fraction(BEYOND if cell > 0 else -BEYOND)
    if isinstance(cell, np.floating) and np.isfinite(cell):
        cell = np.clip(cell, -1e60, 1e60)  # some are wider than Python's
    try:
        x = cell if isinstance(cell, Rational | Decimal) else float(cell)
        finite = isinstance(x, Rational) or math.isfinite(x)
    except (
        TypeError,
        ValueError,
        OverflowError,
    ):  # its type has numbers, and this is none of them: a null, a signalling NaN
        return None
    return max(Fraction(-BEYOND), min(Fraction(BEYOND), Fraction(x))) if finite else None


def _cells(value: Any, groups: tuple[str, ...], bins: int) -> list[Any]:
    """What was pushed, cell by cell: groups as the policy lists them, bins within them. It looks at types alone."""
    if groups and (not isinstance(value, Mapping) or set(value) != set(groups)):
        raise InvalidInput(f"a value for each of the {len(groups)} groups is needed, as a mapping; empty groups too")
    cells: list[Any] = []
    for part in [value[g] for g in groups] if groups else [value]:
        row = _plain(part)
        row = list(row) if isinstance(row, Iterable) and not isinstance(row, str | bytes | Mapping) else [row]
        if len(row) != bins:
            raise InvalidInput(f"{bins} {'number is' if bins == 1 else 'numbers are'} needed, not {len(row)}")
        cells += map(_plain, row)
    for kind in map(type, cells):
        number = hasattr(kind, "__float__") or hasattr(kind, "__index__") or kind.__name__ in (*MISSING, "NoneType")
        if not number or issubclass(kind, str | bytes):
            raise InvalidInput(f"numbers are needed, not {kind.__name__}")
    return cells


def _plain(part: object) -> Any:
    """An array or scalar of NumPy or pandas as Python's own; None where it is masked. Times are refused: they become numbers."""
    if getattr(getattr(part, "dtype", None), "kind", "") in ("m", "M"):
        raise InvalidInput("numbers are needed, not times")
    return part.tolist() if hasattr(part, "tolist") else part


def _shape(cells: list[float], groups: tuple[str, ...], bins: int, listed: bool) -> Any:
    """Return cells in the shape in which they were pushed: the inverse of `_cells`."""
    rows = [cells[i : i + bins] if listed else cells[i] for i in range(0, len(cells), bins)]
    return dict(zip(groups, rows, strict=True)) if groups else rows[0]
