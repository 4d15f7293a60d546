"""What `publish` would do now: what is not protected, which steps are due, and the noise that they carry.

All of it follows from the policy, the clock and the ledger. No reading is looked at, nothing is drawn, charged or written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from halflife.errors import LedgerError
from halflife.ledger import ledger_exists, open_ledger, refuse_lost_ledger
from halflife.local_time import DAY, from_us
from halflife.policy import Channel, GivenPolicy, Policy, channels, explain, ledger_facts, rules
from halflife.policy.ranges import total_range
from halflife.publisher.due import Due
from halflife.publisher.promise_warnings import warn_about_promise
from halflife.publisher.second_ledger import find_second_ledgers, refuse_second_ledger
from halflife.publisher.session import Session

YEAR = 365 * DAY
FORGETS = (
    "under this promise what is late counts from now on, and there is room for the newest alone. Run it on time, after every "
    "step; to replay the past as if it had been on time, write `late: as-planned` under `clock`, in a new ledger"
)
REMEMBERS = "the account no longer remembers the time that they are about. Run it on time, after every step"


class Noise(NamedTuple):
    """The noise of one step, in the statistic's unit and before post-processing: its standard deviation.

    Of quantiles it is that of a median's rank, in people, on average over the grid.
    """

    when: str
    step: int
    ends: str
    std: float


@dataclass(frozen=True)
class StreamPreview:
    """What would be published of one stream.

    reasons            how far one person can move it, and why
    due, passed_over   steps that would be published now; late ones that the promise has no room for
    first, last        when the first and the last of the steps that are due end; when the next one is due, and None, if none is
    low, high          the public range of its numbers
    crowded            the largest standard deviation of the noise shown, over the width of that range
    """

    name: str
    kind: str
    every: str
    unit: str
    reasons: tuple[str, ...]
    due: int
    passed_over: int
    first: str
    last: str | None
    low: float
    high: float
    noise: tuple[Noise, ...]
    crowded: float


@dataclass(frozen=True)
class Preview:
    """What `publish` would do: first what is not protected, then warnings, then the streams."""

    not_protected: tuple[str, ...]
    warnings: tuple[str, ...]
    streams: tuple[StreamPreview, ...]

    def lines(self) -> Iterator[str]:
        """Yield all of it in words, line by line."""
        yield "NOT protected:"
        yield from (f"  - {line}" for line in self.not_protected)
        yield from (f"WARNING: {line}" for line in self.warnings)
        for s in self.streams:
            yield f"{s.name}: {s.kind} every {s.every}"
            yield from (f"  {line}" for line in s.reasons)
            yield from (f"  {line}" for line in _due_in_words(s))
            yield f"  in public its numbers lie between {s.low:.6g} and {s.high:.6g} {s.unit}".rstrip()
            for noise in s.noise:
                share = 100 * noise.std / (s.high - s.low)
                yield (
                    f"  noise {noise.when} (step {noise.step:,}, up to {noise.ends}): standard deviation {noise.std:.4g} {s.unit}"
                    f", {share:.3g} % of that range"
                ).replace(" ,", ",")


def _due_in_words(s: StreamPreview) -> Iterator[str]:
    if s.due:
        yield f"due now: {s.due:,} steps, up to {s.first} … {s.last}"
    else:
        yield f"due now: nothing; the next step is due at {s.first}" if s.first else "due now: nothing; it has ended"
    if s.passed_over:
        yield f"passed over: {s.passed_over:,} late steps, which the promise has no room for any more"


def preview(policy: GivenPolicy, clock: Callable[[], float] = time.time) -> Preview:
    """Return what `publish` would do now; the ledger is only read, and need not be there.

    >>> from halflife import Policy
    >>> town = {
    ...     "population": {"id": "town", "size": 1000, "person": "home"},
    ...     "promise": {"notion": "w-event", "epsilon": 1, "w": 24},
    ...     "clock": {"step": "1 h", "start": "2026-01-01"},
    ...     "streams": [{"name": "use", "statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"],
    ...                  "fold": "sum"}, "source": {"files": "r.csv", "time": "ts", "value": "kwh"}, "output": "use.csv"}],
    ... }
    >>> found = preview(town, clock=lambda: 1767225600 + 7200)               # two hours into 2026
    >>> found.streams[0].due, round(found.streams[0].noise[0].std, 4)        # 5 kWh / 1000 · 24, times √2
    (2, 0.1697)
    """
    given = Policy.of(policy)
    with _session(given, clock) as session:
        given = session.policy  # as the ledger was begun with it
        wanted = {d.channel.name: d for d in session.all_due()}
        kept = dict(zip(wanted, session.select_fitting(list(wanted.values())), strict=True))
        forgets, fresh = session.late_counts_now, session.ledger.newest() is None
        streams = tuple(_look_ahead(given, c, session, wanted.get(c.name), kept.get(c.name)) for c in session.channels)
    plans = [c.plan for c in channels(given)]
    open_ends = dict.fromkeys(line for plan in plans for line in plan.not_protected())
    return Preview(tuple(open_ends), tuple(_warn(given, streams, forgets, fresh)), streams)


@contextmanager
def _session(policy: Policy, clock: Callable[[], float]) -> Iterator[Session]:
    """A session on the policy's ledger as it is, only to look; on an empty one elsewhere if nothing was published from it."""
    with ExitStack() as stack:
        book = None
        if ledger_exists(policy.ledger_url):
            book = stack.enter_context(open_ledger(policy.ledger_url, read_only=True))
            wrong = book.find_rollback()
            if wrong:
                raise LedgerError(wrong)
        else:
            refuse_lost_ledger(policy.ledger_url)
        if book is None or not book.facts() or book.newest() is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="halflife-"))
            book = stack.enter_context(open_ledger(Path(folder) / "none.ledger"))
            with book.hold(0.0):
                book.begin(ledger_facts(policy))
        session = Session(policy, clock, ledger=book)
        session.look()
        yield session


def rehearse(
    policy: GivenPolicy, wait: float = 10.0, *, second_ledger: bool = False, clock: Callable[[], float] = time.time
) -> None:
    """Refuse what `publish` would refuse before it reads anything, in the same words; nothing is made, changed or written.

    wait, second_ledger  as `publish` has them

    A ledger that is held, an older copy, a second ledger for one population, an output that is somebody else's or ahead of the
    ledger. Whether the ledger is held is asked only if somebody has signed its lock.
    """
    given = Policy.of(policy)
    if ledger_exists(given.ledger_url):
        with open_ledger(given.ledger_url, read_only=True) as book:
            if book.writer() is not None:
                with book.snapshot(wait):
                    pass
    with _session(given, clock) as session:
        if not second_ledger and session.ledger.newest() is None:
            refuse_second_ledger(given)
        session.check_outputs()


def _look_ahead(policy: Policy, c: Channel, session: Session, wanted: Due | None, kept: Due | None) -> StreamPreview:
    """Work out one stream."""
    due = 0 if kept is None else len(kept.steps)
    first = session.done[c.name] + 1 if kept is None or not due else int(kept.steps[0])
    last = first + max(due, 1) - 1
    over = c.last is not None and first > c.last
    noise, sized = () if over else tuple(_noise(c, first, last, due)), c.sized_at(first)
    many = (
        1 if c.tree is None else last if c.last is None else min(last, c.last)
    )  # a running total is one of so many steps
    bounds = [
        (many * low * float(factor), many * high * float(factor))
        for (low, high), factor in zip(total_range(c, sized.size), c.factor_of_bins(first), strict=True)
    ]
    stds = [n.std / float(max(c.sized_at(n.step).factors)) for n in noise]
    narrowest = min(high - low for low, high in total_range(c, sized.size))
    statistic = c.part.statistic
    return StreamPreview(
        name=c.name,
        kind=statistic.kind,
        every=c.part.step or policy.clock.step,
        unit=c.unit,
        reasons=(*explain(c), *_say_sums(policy, c)),
        due=due,
        passed_over=0 if wanted is None else len(wanted.steps) - due,
        first="" if over else _when_over(c, first) if due else _in_zone(c, c.published_at(first)),
        last=_when_over(c, last) if due else None,
        low=min(low for low, _ in bounds),
        high=max(high for _, high in bounds),
        noise=noise,
        crowded=max(stds, default=0.0) / narrowest if narrowest else 0.0,
    )


def _say_sums(policy: Policy, c: Channel) -> Iterator[str]:
    """Say which streams this one is the sum of, and where that takes effect."""
    for rule in rules(policy):
        if rule.total == c.name and rule.over_time:
            what = "the mean" if rule.is_mean else "the sum"
            yield f"is {what} of the steps of {rule.parts} in revised series alone (`halflife hindsight`): live nothing changes"
        elif rule.total == c.name:
            yield f"is published as the sum over the groups of {rule.parts}, wherever both are published together"


def _noise(c: Channel, first: int, last: int, due: int) -> Iterator[Noise]:
    """The noise of the first, the middle and the last step that is due, and of one a year later; none where none is planned."""
    if not c.as_planned:
        return
    later = c.steps.last_over(c.steps.end(last) + YEAR + (DAY if c.steps.months else 0))
    later = later if c.last is None else min(later, c.last)
    middle = (first + last) // 2
    asked = [("of the first step due" if due else "of the next step", first)]
    asked += [("in the middle", middle), ("of the last step due", last)] if due > 1 else []
    asked += [("of the last step of all" if later == c.last else "a year on", later)] if later > last else []
    gain = 1.0 if c.measure.tree is None else c.measure.tree.rank_error
    for when, step in asked:
        (k,) = c.plan_steps(step, step)
        yield Noise(when, step, _when_over(c, step), float(max(c.sized_at(step).factors)) * gain * c.plan.std(k))


def _when_over(c: Channel, step: int) -> str:
    """The end of a step on the clock of its zone."""
    return _in_zone(c, c.steps.end(step))


def _in_zone(c: Channel, us: int) -> str:
    return from_us(us, c.steps.zone).isoformat(sep=" ", timespec="minutes")


# Warnings -------------------------------------------------------------------------------------------------------------------


def _warn(policy: Policy, streams: Sequence[StreamPreview], forgets: bool, fresh: bool) -> Iterator[str]:
    """Yield what whoever publishes should think about first; `fresh`: nothing was published from the ledger yet."""
    yield from warn_about_promise(policy.notion)
    for s in streams:
        if s.crowded > 1:
            yield (
                f"{s.name}: the noise has a standard deviation of {s.crowded:.3g} times the width of all that its numbers can be "
                f"in public, so they will tell next to nothing: take more people, longer steps, fewer groups or a larger ε"
            )
        if s.passed_over:
            yield f"{s.name}: {s.passed_over:,} late steps will never be published: {FORGETS if forgets else REMEMBERS}"
    beside = find_second_ledgers(policy)
    for why in beside.busy + beside.unread:
        yield f"this file beside the ledger was not looked at, and may be about the same population: {why}"
    for other in beside.same:
        yield (
            f"{other} is about the same population, {policy.population.id!r}: neither ledger knows what the other has spent, and "
            "the risks of both add up" + ("; to begin this one is refused without --second-ledger" if fresh else "")
        )
