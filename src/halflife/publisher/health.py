"""Whether a policy is published as it should be: what an operator's monitor asks. It reads public facts and how runs ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from halflife.errors import HalflifeError
from halflife.local_time import to_us
from halflife.policy import GivenPolicy
from halflife.publisher.operator_log import BEGUN, FAILED
from halflife.publisher.session import CLOCK_SLACK
from halflife.publisher.standing import Status, status


def find_trouble(policy: GivenPolicy, slack: float = 60.0, clock: Callable[[], float] = time.time) -> list[str]:
    """Return what is wrong with how a policy is published, in sentences; none if all is well.

    slack  how many seconds a step may be late before that is wrong

    Wrong is a ledger that cannot be read, was put back, or is of another policy; a step that was closed longer ago and is not
    published; newest steps that were skipped as their source was out of reach; a run that failed, or was killed and nobody goes
    on; a clock that was set back. A run that was stopped as asked is well until a step is late.
    """
    try:
        return list(_judge(status(policy, clock=clock), slack))
    except HalflifeError as error:
        return [str(error)]


def _judge(found: Status, slack: float) -> Iterator[str]:
    if found.older is not None:
        yield found.older
    now_us = to_us(found.now)
    for stream in found.streams:
        late = 0.0 if stream.due_since is None else (now_us - to_us(stream.due_since)) / 1e6
        if late > slack:
            yield (
                f"{stream.name}: {stream.lag:,} steps were closed and are not published, the oldest {late:,.0f} s ago, at "
                f"{stream.due_since}: does a publisher run?"
            )
        if stream.skipped_since is not None:
            yield (
                f"{stream.name}: from step {stream.skipped_since:,} on nothing was published, as its source was out of reach: "
                "these steps are skipped for good"
            )
    if found.committed is not None and (behind := to_us(found.committed) - now_us) > CLOCK_SLACK:
        yield f"the clock lies {behind / 1e6:,.0f} s before the ledger's newest entry, so nothing is published: set the clock"
    run = found.last_run
    if run is not None and run.outcome == FAILED:
        yield f"the last run failed at {run.ended}: {run.error}"
    if run is not None and run.outcome == BEGUN and found.writer is None:
        yield f"the last run, which began at {run.began}, was killed, and nobody goes on"
    if found.risk > found.limit * (1 + 1e-9):
        yield f"the risk {found.risk:g} is above the promise of {found.limit:g}"
