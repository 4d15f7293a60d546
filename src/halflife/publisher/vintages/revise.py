"""`revise`: publishes steps again from data that was corrected since, as a later vintage beside the first, charged as a release.

    steps of a stream that are published → room beside all that is planned → the data as it is now → fresh noise → one transaction
    → a file of the vintage

What was published first stays. Both values are about the same people, so their losses add up: whatever one person's data was,
first and corrected, each value moves by at most the sensitivity. *Which* steps are published again is the operator's choice and
public: it should follow a public rule (all of last week), as it tells that something in them was corrected.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from halflife.errors import InvalidInput, unknown
from halflife.ledger import open_ledger
from halflife.ledger.entry import name_vintage
from halflife.ledger.vintages import FIRST_AGAIN, find_vintages
from halflife.local_time import from_us, parse_time, to_us
from halflife.mechanisms import PlannedNoise, ScheduledMechanism, Turn
from halflife.notions import WEvent
from halflife.numerics.parameters import real, whole
from halflife.numerics.progress import Progress
from halflife.plans.continuing import adds_up
from halflife.policy import Channel, GivenPolicy, Policy
from halflife.publisher import checkpoints
from halflife.publisher.backfill import open_source_of
from halflife.publisher.drawing import Drawn, Totals, add_rows, make_entries
from halflife.publisher.due import find_due
from halflife.publisher.holding import list_amendments
from halflife.publisher.operator_log import write_operator
from halflife.publisher.session import Session
from halflife.publisher.vintages.files import check_vintage_file, find_vintage_file
from halflife.publisher.vintages.room import Room

MOST_DIGITS = 15
MOST_STEPS = 10_000
"""How many steps are published again at a time."""


@dataclass(frozen=True)
class Revision:
    """The result of `revise`.

    vintage, file  its number, and where it is written;  recorded  whether it was published, or only worked out
    first, last    the steps;  begins, ends  their times, by the stream's clock
    loss           of each step, in nats, at the most
    risk, limit    under the promise, once it is published
    """

    stream: str
    vintage: int
    file: str
    recorded: bool
    first: int
    last: int
    begins: str
    ends: str
    loss: float
    risk: float
    limit: float


def revise(
    given: GivenPolicy,
    stream: str,
    first: int | str,
    last: int | str | None = None,
    *,
    loss: float | None = None,
    dry_run: bool = False,
    wait: float = 10.0,
    clock: Callable[[], float] = time.time,
    progress: Progress = lambda what, done, total: None,
) -> Revision:
    """Publish steps of a stream again, from its source as it is now, as a new vintage.

    first, last  the steps: numbers, or times that lie in them by the policy's clock; `first` alone if `last` is not given
    loss         what each step may lose this time; what the policy's plan gives that step if it is not given
    dry_run      work out whether there is room, and at what risk; nothing is read, drawn or charged

    Refused, before anything is read: steps that are not published yet, or go by facts that were amended since; promises for which
    it is not proved that they hold; and more than there is room for, with what would fit and when there is room.
    """
    policy = Policy.of(given)
    if dry_run:
        with open_ledger(policy.ledger_url, read_only=True) as book, book.snapshot(None):
            session = Session(policy, clock, ledger=book)
            session.look()
            return Again(session, find_stream(session, stream), first, last, loss).describe(recorded=False)
    session = Session(policy, clock)
    try:
        with session.hold(wait):
            again = Again(session, find_stream(session, stream), first, last, loss)
            progress("reading", 0, len(again.due.steps))
            again.publish(again.read())
            progress("published", len(again.due.steps), len(again.due.steps))
            return again.describe(recorded=True)
    finally:
        session.close()


class Again:
    """Steps that are to be published again: checked, and charged to a copy of the account."""

    def __init__(
        self, session: Session, channel: Channel, first: int | str, last: int | str | None, loss: float | None
    ) -> None:
        self.session, self.channel = session, channel
        _check_promise(self.channel)
        _check_others(session.channels)
        low = _read_step(self.channel, first)
        high = low if last is None else _read_step(self.channel, last)
        _check_published(session, self.channel, low, high)
        self.due = find_due(self.channel, low, high, self._find_step(low))
        self.turns = self._make_turns(loss)
        self._charge()
        known = find_vintages(session.ledger, self.channel.name)
        self.vintage = len(known) + FIRST_AGAIN
        self.file = find_vintage_file(session.policy, self.channel.name, self.vintage)
        check_vintage_file(session.policy, self.file)

    def _find_step(self, first: int) -> int:
        """The account's step at which all of it counts: the newest that is over, as far as its account reaches back."""
        c, account = self.channel, self.session.account
        now = c.account.last_over(self.session.now_us())
        if isinstance(account.notion, WEvent):
            oldest = int(c.release_steps(first, first)[0]) - c.age - int(c.spans(first, first)[0]) + 1
            now = min(now, oldest + account.notion.reach)
        return max(account.step, now)

    def _make_turns(self, loss: float | None) -> list[Turn]:
        """What is drawn: noise as planned, or of the loss that is asked for."""
        mechanism = self.session.saved.mechanisms[self.channel.name]
        assert isinstance(mechanism, ScheduledMechanism)
        requests = self.channel.requests(mechanism, int(self.due.steps[0]), int(self.due.steps[-1]))
        if loss is not None:
            asked = real("loss", loss, positive=True)
            requests = [request._replace(loss=asked) for request in requests]
        return list(map(Turn, self.due.release_steps.tolist(), requests, self.due.late.tolist()))

    def _charge(self) -> None:
        """Charge a copy of the account; refuse what there is no room for."""
        saved, c = self.session.saved, self.channel
        try:
            Room(self.session.ledger, saved.draw, self.session.channels, self.session.done).check(self.turns)
        except InvalidInput as error:
            if error.about != "age":
                raise
            raise InvalidInput(
                f"step {int(self.due.steps[0]):,} of {c.name} lies further back than the account remembers what was said about: "
                "give the promise a `reach` (such as 7 days), which an amendment can, before steps are to be corrected"
            ) from None
        self.draw = saved.draw.copy()
        self._batch = self.draw.batch(self.turns)

    def publish(self, totals: Totals) -> None:
        """Draw noise for these exact totals, commit, and write the vintage's file."""
        session, c = self.session, self.channel
        noisy = add_rows(totals, self._batch.noise())
        made = make_entries(self.due, Drawn(noisy, self._batch.releases, self._batch.scales), ())
        name = name_vintage(c.name, self.vintage)
        checkpoints.reach("noise drawn again")
        session.saved.commit([replace(entry, stream=name) for entry in made], self.draw, session.now_us())
        checkpoints.reach("vintage committed")
        with session.ledger.showing():
            session.marks.mark_shown()
            session.write_vintages()

    def read(self) -> Totals:
        """Return the exact totals of the steps from the data as it is now."""
        session, c = self.session, self.channel
        first, last = int(self.due.steps[0]), int(self.due.steps[-1])
        with closing(open_source_of(session.policy, c, session.ledger.scratch)) as engine:
            answer = engine.aggregate(c.question(first, last))
        line = {"stream": name_vintage(c.name, self.vintage), "steps": [first, last], **answer.tallies}
        write_operator(session.ledger.operator_file, session.now_us(), line)
        return c.totals(answer.sums, first)

    def describe(self, recorded: bool) -> Revision:
        """Return what was done, or would be."""
        c, first, last = self.channel, int(self.due.steps[0]), int(self.due.steps[-1])
        risk, _, limit = self.draw.account.exposure()
        begins, ends = (
            from_us(us, c.steps.zone).isoformat(sep=" ", timespec="minutes")
            for us in (c.steps.start(first), c.steps.end(last))
        )
        loss = max(release.loss for releases in self._batch.releases for release in releases)
        return Revision(c.name, self.vintage, self.file, recorded, first, last, begins, ends, loss, risk, limit)


def find_stream(session: Session, stream: str) -> Channel:
    """Return a stream that has a source to read corrected data from."""
    known = {c.name: c for c in session.channels}
    if stream not in known:
        raise unknown("stream", stream, known)
    if known[stream].part.source is None:
        raise InvalidInput(
            f"{stream} has no source to read corrected data from: the program that pushes its values corrects them "
            "(hl.Stream.revise)"
        )
    return known[stream]


def _check_promise(c: Channel) -> None:
    """Refuse promises and mechanisms for which nobody has shown what a second release of a step costs, or that plans go on."""
    notion = c.plan.notion
    if not isinstance(c.make_mechanism(), PlannedNoise) or notion.shares_draws:
        raise InvalidInput(
            f"{c.name}: under {notion.name} with the mechanism {c.mechanism!r} a second value of a step is not independent of "
            "the first: what both together tell is not worked out, so nothing is published again"
        )
    if not adds_up(notion):
        raise InvalidInput(
            f"{c.name}: no plan of {notion.name} is proved to go on after a release that it did not plan: nothing is published "
            "again"
        )
    if not notion.adaptive:
        raise InvalidInput(
            f"{c.name}: with a delta losses must be fixed before anything is seen, and whoever publishes a step again has seen "
            "the first value: no bound on such a choice is proved here"
        )


def _check_others(made: Sequence[Channel]) -> None:
    """Refuse if a stream beside it decides itself what to spend: the room that it needs is not planned."""
    for c in made:
        if not c.as_planned:
            raise InvalidInput(
                f"{c.name}: what {c.mechanism} spends is not a plan's, so it is not known what room the streams leave: nothing "
                "is published again"
            )


def _read_step(c: Channel, given: int | str) -> int:
    """Return the step of this number, or that this time lies in."""
    if isinstance(given, str) and not given.isdecimal():
        return c.steps.step(to_us(parse_time(given, c.steps.zone)))
    if isinstance(given, str) and len(given) > MOST_DIGITS:
        raise InvalidInput(f"a step is a number of at most {MOST_DIGITS} digits, or a time", about="step")
    return whole("step", int(given) if isinstance(given, str) else given)


def _check_published(session: Session, c: Channel, first: int, last: int) -> None:
    """Refuse steps that were not published, or under facts that were amended since; and all while others are due."""
    if not 1 <= first <= last or last - first >= MOST_STEPS:
        raise InvalidInput(
            f"steps {first:,} to {last:,} of {c.name}: give a first step and a last that is not before it, {MOST_STEPS:,} at "
            "most"
        )
    waiting = sum(len(due.steps) for due in session.all_due())
    if waiting:
        raise InvalidInput(
            f"{waiting:,} steps are due and not published: publish them first (halflife publish), or they would come late"
        )
    found = [entry.step for entry in session.ledger.entries(c.name, first, last)]
    missing = np.setdiff1d(np.arange(first, last + 1), found)
    if len(missing):
        raise InvalidInput(
            f"the ledger holds no step {int(missing[0]):,} of {c.name}, so there is nothing to correct: it was not published "
            f"yet, or passed over. The newest is {session.done[c.name]:,}"
        )
    for amendment in list_amendments(session.ledger):
        begins = amendment.starts.get(c.name, 1)
        if first < begins and {"population", f"stream:{c.name}"} & amendment.facts.keys():
            raise InvalidInput(
                f"step {first:,} of {c.name} was published before an amendment that holds from step {begins:,} on: what the "
                "policy says now need not fit it"
            )
