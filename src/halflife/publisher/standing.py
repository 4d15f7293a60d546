"""`status`: where a policy's streams stand, from the policy, the clock and the ledger. Nothing is held, written or published.

due    steps that are over, with their delay, by the clock;     lag   those of them that the ledger does not hold yet
error  E|noise| of a release by the plan, in the stream's unit, before any post-processing: b for Laplace noise, σ√(2/π) for
       Gaussian. Of two Laplace noises in one value, b is that of the one noise with the same 95 % band
band   95 % of that noise lies within ± this, as in the output's column `error_band`
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.ledger import Ledger, Marks, ledger_exists, name_ledger, open_ledger
from halflife.local_time import DAY, LATEST, from_us
from halflife.noise import SMALLEST_LOSS
from halflife.numerics.arrays import Floats
from halflife.numerics.forms import JsonObject
from halflife.numerics.parameters import real
from halflife.plans.base import MEAN_ABSOLUTE_OF_UNIT_SCALE, STD_OF_UNIT_SCALE
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.publisher.drawing import find_spread
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.leaving import Left, find_left
from halflife.publisher.operator_log import Run, read_last_run
from halflife.publisher.promise_warnings import warn_about_promise
from halflife.publisher.readable import BAND_OF_UNIT_SCALE
from halflife.publisher.restores import list_restores
from halflife.publisher.saved import SavedStates
from halflife.publisher.skipping import join_skipped, list_skipped
from halflife.steps import MOST_STEPS

SCANNED = 1_000_000
"""At most so many steps ahead are looked at one by one: a year of them, if that is less."""
BLOCK = 65_536

When = Literal["at", "never", "not before the end", "not within a year", "over"]


class Passing(NamedTuple):
    """When something happens to a stream: at `step`, due at `time`; or the verdict says why there is no such step.

    never              not at any step that the calendar has
    not before the end the policy ends first;   over  the policy's last step is published
    not within a year  nor within a million steps, and noise that rises and falls is not searched further
    """

    verdict: When
    step: int | None = None
    time: datetime.datetime | None = None


@dataclass(frozen=True)
class StreamStatus:
    """Where one stream stands. Times are in the policy's zone.

    newest, end, age      the newest published step (0: none), when it ended, and how long ago that is
    published, skipped    how many steps are published, and how many up to now never will be: their source was out of reach, or
                          the promise had no room for them when they were late;  skipped_since  the first of those after `newest`
    passed_over           steps that a restore passed over: they may have been published, and are charged
    lag, due_since        steps that are due and not published, and since when the oldest of them is
    next_step, next_due   the first step that is not due yet, and when it will be; None if the policy ends before it
    planned, loss         the next step to be published, and the loss that the plan gives it, in nats; None after the last, and
                          where the mechanism decides from what it published; so are `error` and `band`
    headroom              the largest loss that the promise has room for at that step; None where that is not known
    error, band           expected |noise| of that step, and the half-width that holds 95 % of it
    error_passes          when `error` first lies above what was asked; None if nothing was asked
    ends                  the policy's last step, or the step from which on the plan leaves too little budget to draw noise for
    mechanism             how its values become outputs
    """

    name: str
    unit: str | None
    newest: int
    end: datetime.datetime | None
    age: datetime.timedelta | None
    published: int
    skipped: int
    skipped_since: int | None
    passed_over: int
    lag: int
    due_since: datetime.datetime | None
    next_step: int | None
    next_due: datetime.datetime | None
    planned: int | None
    loss: float | None
    headroom: float | None
    error: float | None
    band: float | None
    error_passes: Passing | None
    ends: Passing
    mechanism: str


@dataclass(frozen=True)
class Status:
    """Where a policy stands: the promise, what is used of it, and each stream.

    risk, peak, limit, used  at the account's step `step`, in nats; `used` is risk / limit
    begun                    whether there is a ledger that holds anything
    entries, committed       how many steps the ledger holds, and when the newest were committed
    writer                   who is publishing now, as far as that is known
    last_run                 how the last run of `publish` ended, if the operator's file can be read and says so
    marks                    the marks outside the ledger that were found
    older                    which of them shows that the ledger is an older copy, or cannot be read, in words; None if all agree
    asked                    the error that was asked about
    left                     what is still exposed of a person who left at the time that was asked about; None if none was
    warnings                 what is wrong with the promise itself: a large ε, an assumption that failed its check or had none
    """

    ledger: str
    begun: bool
    now: datetime.datetime
    zone: str
    promise: JsonObject
    step: int
    risk: float
    peak: float
    limit: float
    used: float
    entries: int
    committed: datetime.datetime | None
    writer: str | None
    last_run: Run | None
    marks: tuple[str, ...]
    older: str | None
    asked: float | None
    warnings: tuple[str, ...]
    streams: tuple[StreamStatus, ...]
    left: Left | None = None

    def to_dict(self) -> JsonObject:
        """Return all of it as JSON can hold it: times in ISO 8601, spans of time in seconds, NaN and infinity as null."""
        made: JsonObject = _plain(self)
        return made


def status(
    policy: GivenPolicy, *, error: float | None = None, left: str | None = None, clock: Callable[[], float] = time.time
) -> Status:
    """Return where a policy's streams stand.

    policy  a Policy, the path of its file, or a dict
    error   asks when the expected error of a stream passes this, in the stream's unit
    left    asks what is still exposed of a person who left at this time, by the policy's clock
    clock   the time in seconds since 1970

    The ledger is read as it was last committed, whoever holds it; where there is none, none is made. Refused, as by
    `publish`: a ledger of another policy, and one that cannot be read.

    >>> town = {
    ...     "population": {"id": "town", "size": 100, "person": "home"},
    ...     "promise": {"notion": "w-event", "epsilon": 1, "w": "1 day"},
    ...     "clock": {"step": "1 h", "start": "2026-01-01"},
    ...     "streams": [{"name": "homes", "statistic": {"kind": "count"}, "output": "-"}],
    ...     "ledger": "nowhere.ledger",
    ... }
    >>> found = status(town, error=20, clock=lambda: 1767229200.0)  # 2026-01-01 at 01:00
    >>> found.begun, found.streams[0].lag, found.streams[0].error, found.streams[0].error_passes.verdict
    (False, 1, 24.0, 'at')
    """
    made, asked = Policy.of(policy), None if error is None else real("error", error, positive=True)
    now_us = int(clock() * 1_000_000)
    if not ledger_exists(made.ledger_url):
        return _status(made, None, now_us, asked, left)
    with open_ledger(made.ledger_url, read_only=True) as book:
        marks = Marks(book, made.marks, made.ledger_url)
        older = (
            marks.find_problem() if book.facts() else None
        )  # before the snapshot: whoever publishes meanwhile writes them
        with book.snapshot(None):
            found = _status(made, book, now_us, asked, left)
        book.check_unwritten()
    return dataclasses.replace(found, marks=tuple(marks.found), older=older)


def _status(policy: Policy, book: Ledger | None, now_us: int, asked: float | None, left: str | None) -> Status:
    known = {} if book is None else book.facts()
    if book is not None and known:
        policy = hold_to_ledger(book, policy)
    account, done, newest = Accountant(policy.notion), dict.fromkeys((s.name for s in policy.streams), 0), None
    if book is not None and known:
        saved = SavedStates(policy, book)
        account, done, newest = saved.draw.account, saved.done, book.newest()
    zone, late_now = policy.clock.zone, policy.notion.forgets and policy.clock.late == "now"
    clock_step = channels(policy)[0].account.last_over(now_us) if late_now else 0
    step = max(account.step, clock_step)
    risk, peak, limit = account.exposure(step)
    return Status(
        ledger=name_ledger(policy.ledger_url),
        begun=bool(known),
        now=from_us(now_us, zone),
        zone=zone,
        promise=policy.notion.reference(),
        step=step,
        risk=risk,
        peak=peak,
        limit=limit,
        used=account.used(step),
        entries=newest.last if newest else 0,
        committed=from_us(newest.at_us, zone) if newest else None,
        writer=None if book is None else book.writer(),
        last_run=None if book is None else read_last_run(book.operator_file),
        marks=(),
        older=None,
        asked=asked,
        warnings=tuple(warn_about_promise(policy.notion)),
        streams=tuple(
            _stream(c, _find_held(c, book if known else None, done[c.name]), now_us, account, step, asked)
            for c in channels(policy)
        ),
        left=None if left is None else find_left(policy, book if known else None, done, left, step),
    )


class _Held(NamedTuple):
    """What a ledger holds of a stream: up to which step all is done, the rest as in `StreamStatus`."""

    done: int
    newest: int = 0
    published: int = 0
    skipped: int = 0
    skipped_since: int | None = None
    passed_over: int = 0


def _find_held(c: Channel, book: Ledger | None, done: int) -> _Held:
    """What is done of a stream is published, passed over by a restore, or skipped."""
    if book is None or done < c.begins:
        return _Held(done)
    newest, published = book.last_step(c.name), book.count_steps(c.name)
    lost = [restore.passed[c.name] for restore in list_restores(book) if c.name in restore.passed]
    passed = sum(last - first + 1 for first, last in lost)
    after = [first for first, last in join_skipped(list_skipped(book)).get(c.name, ()) if last > newest]
    return _Held(done, newest, published, done - c.begins + 1 - published - passed, min(after, default=None), passed)


def _stream(c: Channel, held: _Held, now_us: int, account: Accountant, step: int, asked: float | None) -> StreamStatus:
    zone, due, done, newest = c.steps.zone, c.newest(now_us), held.done, held.newest
    lag = max(0, due - done)
    following = None if due == c.last else due + 1
    planned = None if done == c.last else done + 1
    end_us = c.steps.end(newest) if newest else None
    by_plan = planned if c.as_planned else None
    error = None if by_plan is None else float(_errors(c, by_plan, by_plan)[0])
    unit = BAND_OF_UNIT_SCALE[c.plan.noise] * _gain(c) / _mean_absolute(c)
    return StreamStatus(
        name=c.name,
        unit=c.unit or None,
        newest=newest,
        end=None if end_us is None else from_us(end_us, zone),
        age=None if end_us is None else datetime.timedelta(microseconds=now_us - end_us),
        published=held.published,
        skipped=held.skipped,
        skipped_since=held.skipped_since,
        passed_over=held.passed_over,
        lag=lag,
        due_since=from_us(c.published_at(done + 1), zone) if lag else None,
        next_step=following,
        next_due=None if following is None else from_us(c.published_at(following), zone),
        planned=planned,
        loss=None if by_plan is None else c.losses(by_plan, by_plan)[0],
        headroom=None if planned is None or c.tree is not None else _headroom(c, planned, account, step),
        error=error,
        band=None if error is None else error * unit,
        error_passes=None if asked is None or not c.as_planned else _find_error(c, planned, asked),
        ends=_find_end(c, planned),
        mechanism=c.mechanism,
    )


def _headroom(c: Channel, planned: int, account: Accountant, now: int) -> float | None:
    """The largest loss that fits when this step is published, late or not; None if the account does not know."""
    intended = int(c.release_steps(planned, planned)[0])
    at = max(intended, account.step, now)
    try:
        return account.headroom(at, c.age + at - intended, span=int(c.spans(planned, planned)[0]))
    except InvalidInput:  # data so old that the account has forgotten what was said about it
        return None


# Ahead --------------------------------------------------------------------------------------------------------------


def _gain(c: Channel) -> float:
    """The noise of what is read, as a multiple of that of one number: of quantiles, of a median's rank in people; else 1."""
    return 1.0 if c.measure.tree is None else c.measure.tree.rank_error


def _mean_absolute(c: Channel) -> float:
    """The expected |noise| where that of one number has scale 1; of a rank, a sum of many noises, the most that it can be.

    A sum of Laplace noises is a Gaussian of random variance V, and E√V ≤ √(E V): √(2/π) of its standard deviation.
    """
    if c.measure.tree is None:
        return MEAN_ABSOLUTE_OF_UNIT_SCALE[c.plan.noise]
    return _gain(c) * STD_OF_UNIT_SCALE[c.plan.noise] * MEAN_ABSOLUTE_OF_UNIT_SCALE["gaussian"]


def _errors(c: Channel, first: int, last: int) -> Floats:
    """The expected |noise| of steps first … last by the plan, in the unit of `status`; of groups, the largest."""
    losses, layers = c.plan.losses_of_releases(first, last), c.plan.layers(1)
    with np.errstate(divide="ignore"):
        scales = c.plan.sensitivities_of_releases(first, last) / losses
    more = 1.0 if len(layers) == 1 else find_spread(layers, c.plan.noise) / layers[0]
    worth = [float(max(c.sized_at(k).factors)) for k in (range(first, last + 1) if len(c.sized) > 1 else (first,))]
    result: Floats = scales * (more * _mean_absolute(c)) * np.array(worth)
    return result


def _find_error(c: Channel, planned: int | None, asked: float) -> Passing:
    """When the expected error first lies above what was asked, from the next step on."""
    return _find(c, planned, lambda first, last: _errors(c, first, last), asked * (1 + 1e-9))


def _find_end(c: Channel, planned: int | None) -> Passing:
    """When nothing can be published any more: after the policy's last step, or where the plan's loss is too small for noise."""
    least = SMALLEST_LOSS * c.sensitivity.touched
    found = _find(c, planned, lambda first, last: -c.plan.losses_of_releases(first, last), -least)
    if found.verdict != "not before the end":
        return found
    assert c.last is not None
    return Passing("at", c.last, from_us(c.published_at(c.last), c.steps.zone))


def _find(c: Channel, planned: int | None, measure: Callable[[int, int], Floats], limit: float) -> Passing:
    """Return the first step, from `planned` on, at which a measure of the plan lies above a limit.

    A year is looked at step by step, or a million steps. Where the measure has not fallen in all that time it is taken to go on
    so, and the step is found by bisection, up to the end of the calendar.
    """
    if planned is None:
        return Passing("over")
    a_year = min(SCANNED, max(1, 365 * DAY // c.steps.width))
    last = planned + a_year - 1 if c.last is None else min(c.last, planned + a_year - 1)
    before, rising = -np.inf, True
    for first in range(planned, last + 1, BLOCK):
        values = measure(first, min(last, first + BLOCK - 1))
        above = np.flatnonzero(values > limit)
        if len(above):
            return _at(c, first + int(above[0]))
        rising = rising and bool(np.all(np.diff(values, prepend=before) >= -1e-12 * np.abs(values)))
        before = float(values[-1])
    most = min(MOST_STEPS, (LATEST - 10 * DAY - c.steps.start_us) // c.steps.width - c.age)
    if c.last is not None:
        most = c.last
    if last >= most:
        return Passing("never" if c.last is None else "not before the end")
    if not rising:
        return Passing("not within a year")
    return _find_far(c, lambda k: float(measure(k, k)[0]) > limit, last, most)


def _find_far(c: Channel, passes: Callable[[int], bool], low: int, most: int) -> Passing:
    """The first step after `low` that passes, by doubling and halving: what has passed is taken to stay so."""
    high = min(most, 2 * low)
    while not passes(high):
        if high == most:
            return Passing("never" if c.last is None else "not before the end")
        low, high = high, min(most, 2 * high)
    return _at(c, low + 1 + bisect_left(range(low + 1, high), True, key=passes))


def _at(c: Channel, step: int) -> Passing:
    return Passing("at", step, from_us(c.published_at(step), c.steps.zone))


# As JSON ------------------------------------------------------------------------------------------------------------


def _plain(value: object) -> Any:
    """A value as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Passing):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        value = value.total_seconds()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)
