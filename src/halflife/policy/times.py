"""When a stream's steps are, beside the account's: which widths fit, how far apart releases are, and how old their data is."""

from __future__ import annotations

import datetime
import math
import re

from halflife.errors import InvalidInput
from halflife.local_time import DAY, LATEST, days_in_months, offsets, parse_months, parse_time, to_us
from halflife.parsing.documents import Where
from halflife.policy.model import PolicyKeys
from halflife.steps import MOST_STEPS, Steps, microseconds, parse_width

SHORTER = DAY // 8
"""By how much a local day may be shorter than 24 hours, at most: three hours."""
CALENDAR = 30 * 365 * DAY
"""How far ahead the changes of a zone's offset are looked up."""


def read_times(policy: PolicyKeys, i: int, account: Steps) -> tuple[Steps, int | None]:
    """The steps of a stream, and the last of them."""
    part, clock = policy.streams[i], policy.clock
    with policy.about(*_find_time_key(policy, i, "start")):
        start = parse_time(part.start or clock.start, clock.zone)
        if to_us(start) < account.start_us:
            raise InvalidInput("a stream cannot start before the clock does")
    steps = read_steps(policy, _find_time_key(policy, i, "step"), _find_time_key(policy, i, "start"), start)
    with policy.about(*_find_time_key(policy, i, "step")):
        if not _divides(account, steps):
            raise InvalidInput(f"a stream's steps must be whole multiples of the clock's step, {clock.step}")
    with policy.about(*_find_time_key(policy, i, "start")):
        _check_start(steps, account)
    end = part.end or clock.end
    if end is None:
        return steps, None
    with policy.about(*_find_time_key(policy, i, "end")):
        end_us = to_us(parse_time(end, clock.zone))
        last = steps.last_over(end_us)
        if last < 1 or steps.end(last) != end_us:
            raise InvalidInput(f"the end must be whole steps of {part.step or clock.step} after the start")
        if last > MOST_STEPS:
            raise InvalidInput(f"the end is {last:,} steps after the start: the most is {MOST_STEPS:,}")
        if clock.end is not None and end_us > to_us(parse_time(clock.end, clock.zone)):
            raise InvalidInput(f"a stream cannot end after the clock does ({clock.end})")
    return steps, last


def read_steps(policy: PolicyKeys, step: Where, begin: Where, start: datetime.datetime) -> Steps:
    """Return steps of the width that a key of the policy says; an error is about it, or about the start written for it."""
    part = policy.clock if step[0] == "clock" else policy.streams[int(step[1])]
    width = str(part.step)
    with policy.about(*step):
        if parse_months(width) is None:
            parse_width(width)
    with policy.about(*(step if begin[0] == "clock" != step[0] else begin)):
        return Steps.of(width, start, policy.clock.zone)


def _divides(account: Steps, steps: Steps) -> bool:
    """Whether a stream's steps are whole numbers of the clock's, but for changes of a clock; of months, not all as many."""
    if account.months:
        return steps.months % account.months == 0 < steps.months
    if steps.months:
        return account.days == 1 or (not account.days and DAY % account.width == 0)
    return steps.width % account.width == 0 and (steps.days > 0 or not account.days)


def _find_time_key(policy: PolicyKeys, i: int, key: str) -> Where:
    """Return where a time key (start, step, end) is written: in the stream, or else in the policy's clock."""
    return ("clock", key) if getattr(policy.streams[i], key) is None else ("streams", i, key)


def _check_start(steps: Steps, account: Steps) -> None:
    """Refuse a stream that begins in the middle of one of the account's steps: its steps would lie across two of them.

    Local days and months on an account of hours begin anywhere; they are charged at the account's step in which they are over.
    """
    free = (steps.days or steps.months) and not (account.days or account.months)
    if not free and account.start(account.step(steps.start_us)) != steps.start_us:
        raise InvalidInput("a stream starts where one of the clock's steps does")


def find_pace(steps: Steps, account: Steps, last: int | None) -> tuple[int, int]:
    """How many of the account's steps lie between two releases of a stream, at least, and how many each covers, at most.

    They differ where local days or months lie on a finer clock. k days in a row last k·24 h but for how far the zone's offset
    moved meanwhile, by S at most, so a step of length D lasts D + S at most; and where it begins and ends within steps of
    width W, at multiples of g, it touches up to 2(W − g) more. A month has 28 to 31 days, each one step on a clock of days.
    """
    width = account.width
    if account.months or not steps.months:
        least = most = max(1, steps.width // width)
    else:
        least, most = (days * DAY // width for days in days_in_months(steps.months))
    if account.days or account.months or not (steps.days or steps.months):
        return least, most
    end = min(steps.start_us + CALENDAR, LATEST if last is None else steps.end(last))
    known = [offset for _, offset in offsets(steps.zone, steps.start_us, end)]
    grid = math.gcd(width, steps.start_us - account.start_us, *(offset - known[0] for offset in known))
    widest = -(-(most * width + max(known) - min(known) + 2 * (width - grid)) // width)
    return max(1, (least * width - SHORTER) // width), widest


def read_delay(policy: PolicyKeys, i: int, account: Steps) -> tuple[int, int]:
    """Return the age of a stream's releases, and the µs beyond that a step waits before it is published (ours).

    A step is published once its `delay` and its `lateness` have passed, D in all. The age is how many of the account's steps
    pass, whole, before a step that is over is published: D is ⌊D/W⌋ steps and a rest below W. Whatever is published before the
    account's next step is over counts in the step before, however soon it is, so that a D below W is age 0. Age that is rounded
    down never makes data older than it is. On a clock of months each of the two is whole steps, or both are shorter than any.
    """
    ages, waits = zip(*(_read_wait(policy, i, key, account) for key in ("delay", "lateness")), strict=True)
    if not account.months:
        more, wait = divmod(sum(waits), account.width)
        return sum(ages) + more, wait
    if sum(waits) >= days_in_months(account.months)[0] * DAY:
        why = f"with the delay this may be longer than a step of {policy.clock.step}: write whole steps, or fewer days"
        raise policy.error((("streams", i, "lateness"), why))
    return sum(ages), sum(waits)


def _read_wait(policy: PolicyKeys, i: int, key: str, account: Steps) -> tuple[int, int]:
    """What one key says of how long a step waits: whole steps of the account, and µs beyond."""
    given = getattr(policy.streams[i], key)
    if given is None or re.fullmatch(r"\s*(none|0+(\.0*)?\s*[a-z]*)\s*", given):
        return 0, 0
    with policy.about("streams", i, key):
        if account.months and parse_months(given) is None:
            wait, shortest = microseconds(parse_width(given)), days_in_months(account.months)[0]
            if wait < shortest * DAY:
                return 0, wait
        steps = account.count(given)
        if account.months and steps.denominator != 1:
            raise InvalidInput(
                f"{given} is no whole number of steps of {policy.clock.step}: write whole steps, or days"
            )
        return int(steps // 1), int(steps % 1 * account.width)
