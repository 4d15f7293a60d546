"""An exclusive session on a policy's ledger: loads account and states, completes outputs, and publishes steps.

    exact totals → charge a copy of the account → draw → commit all of it in one transaction → write the outputs

Whatever stops it, the next session goes on: what was committed is written again as it stands; what was not was never seen.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from itertools import islice
from typing import TypeVar

from halflife.accountant import Accountant
from halflife.engines.duckdb.scratch import sweep
from halflife.errors import BudgetExceeded, HalflifeError, InvalidInput, LedgerError, LedgerUnavailable
from halflife.ledger import Entry, Ledger, Marks, open_ledger
from halflife.ledger.entry import name_vintage
from halflife.ledger.vintages import FIRST_AGAIN, count_vintages
from halflife.local_time import from_us
from halflife.mechanisms import HeldOutput, PlannedNoise, ReleaseDraw, ScheduledMechanism, Turn
from halflife.outputs import Block, Output, Published, check_output, open_output
from halflife.policy import Channel, GivenPolicy, Policy, channels, ledger_facts, rules
from halflife.publisher import checkpoints
from halflife.publisher.drawing import ChargedBatch, Totals, find_newest_turns, find_turns, make_entries, run_steps
from halflife.publisher.due import Due, find_due
from halflife.publisher.holding import check_members, follow_book, hold_to_ledger
from halflife.publisher.readable import find_facts, make_readable, was_reconciled
from halflife.publisher.reconciling import reconcile_entries
from halflife.publisher.saved import SavedStates, stream_digests
from halflife.publisher.second_ledger import refuse_second_ledger
from halflife.publisher.secrets_at_rest import NoiseKeys
from halflife.publisher.skipping import Stretch, write_skip
from halflife.publisher.vintages.files import find_vintage_file, is_output

T = TypeVar("T")

BLOCK = 1_000
CLOCK_SLACK = 120 * 1_000_000
"""How far the clock may lie behind the ledger's newest entry, in µs, before it is held to have jumped."""
LATEST = 60_000_000_000
"""Seconds since 1970 that no clock reaches, either way: calendars end in the years 1 and 9999."""


def read_entries(channel: Channel, entries: Sequence[Entry]) -> Block:
    """Return a stream's entries as readers see them."""
    return make_readable(entries, channel.worth, banded=channel.quantiles is not None)


def _fits(draw: ReleaseDraw, turn: Turn) -> bool:
    """Charge a draw if there is room for it, and return whether there was."""
    try:
        draw.batch([turn])
    except BudgetExceeded:
        return False
    except InvalidInput:  # the account no longer remembers the time that a late step is about
        if not turn.late:
            raise
        return False
    return True


def _refuse_gap(due: Due, count: int) -> None:
    """Refuse to pass steps over of a stream that publishes running totals: each total needs the nodes before it."""
    if count and due.channel.tree is not None:
        raise LedgerError(
            f"{due.channel.name}: the account has gone on by so many steps that it no longer remembers what was said about those "
            f"which step {int(due.steps[0]):,} adds up, and a running total needs every step: end the stream, and begin another"
        )


class Session:
    """An open ledger with account, mechanisms and outputs, for `publish` and `Stream`; used inside `with session.hold(…):`."""

    def __init__(
        self,
        given: GivenPolicy,
        clock: Callable[[], float] = time.time,
        *,
        second_ledger: bool = False,
        ledger: Ledger | None = None,
        keys: NoiseKeys | None = None,
    ) -> None:
        self.clock, self._second_ledger = clock, second_ledger
        policy = Policy.of(given)
        self.keys = keys or NoiseKeys(policy)
        self.ledger = open_ledger(policy.ledger_url) if ledger is None else ledger
        try:
            self._events = len(self.ledger.events())
            self.policy = policy = follow_book(self.ledger, policy)
            self.channels = channels(policy)
            self._facts = ledger_facts(policy)
        except HalflifeError:
            self.ledger.close()
            raise
        self.marks = Marks(self.ledger, policy.marks, policy.ledger_url)
        self.notion = policy.notion
        self.emitted_again = dict.fromkeys((c.name for c in self.channels), 0)

    def close(self) -> None:
        """Close the ledger."""
        self.ledger.close()

    def now_us(self) -> int:
        """Return the clock's time in µs; refuse one that no calendar holds, as the clock decides what is due."""
        seconds = self.clock()
        if not abs(seconds) < LATEST:
            raise LedgerError(f"the clock says {seconds:g} seconds since 1970: set the clock; nothing was published")
        return int(seconds * 1_000_000)

    @contextmanager
    def hold(self, wait: float, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Lock the ledger and load its state; when the block ends, outputs are complete."""
        sweep(self.ledger.scratch)
        with self.ledger.hold(wait, stop):
            checkpoints.reach("ledger locked")
            self._read_members_again()
            self._check_policy(self.ledger.begin(self._facts))
            self.marks.refuse_older()
            self.marks.check_places()
            self._load(self.keys)
            self.channels[0].promise.solutions.write()
            if not self._second_ledger and self.ledger.newest() is None:
                refuse_second_ledger(self.policy)
            with ExitStack() as stack:
                self.outputs: list[Output] = []
                with self.ledger.showing():
                    stack.callback(self._close_outputs)
                    for channel in self.channels:
                        self.outputs.append(self._open_output(channel))
                    self.marks.mark_shown()
                    checkpoints.reach("marks written")
                    self._emit_rest()
                    self.write_vintages()
                checkpoints.reach("outputs complete")
                yield
            checkpoints.reach("outputs closed")

    def _close_outputs(self) -> None:
        with self.ledger.showing():
            for output in self.outputs:
                output.close()

    def _read_members_again(self) -> None:
        """Go on with the table of members by date as it is now: it may have grown since the policy was read."""
        if self.policy.members.by_date and (now := self.policy.model_copy()).members != self.policy.members:
            self.policy = follow_book(self.ledger, now)
            self.channels = channels(self.policy)

    def look(self) -> None:
        """Load what the ledger holds, to work out what would be done; it need not be held, and nothing can be published."""
        wrong = self.ledger.find_rollback()
        if wrong:
            raise LedgerError(wrong)
        self._check_policy(self.ledger.facts())
        self.marks.refuse_older()
        self._load()

    def _load(self, keys: NoiseKeys | None = None) -> None:
        self.saved = SavedStates(self.policy, self.ledger, keys)
        self.done = self.saved.done
        self._check_clock()

    def _check_policy(self, known: Mapping[str, str]) -> None:
        """Refuse a policy that changes what the ledger is held to, and a session that was opened before an amendment."""
        if known != self._facts:
            hold_to_ledger(self.ledger, self.policy)
        if len(self.ledger.events()) != self._events:
            raise LedgerError(
                f"{self.ledger.name}: something was amended, or skipped for good, since it was opened: open it again"
            )
        check_members(self.ledger, self.policy)

    @property
    def account(self) -> Accountant:
        """The account as the ledger has it."""
        return self.saved.draw.account

    @property
    def _scheduled_mechanisms(self) -> Mapping[str, ScheduledMechanism] | None:
        """The mechanisms if all of them name their draws beforehand, else None: then steps are charged as they are drawn."""
        mechanisms = self.saved.mechanisms
        scheduled = {n: m for n, m in mechanisms.items() if isinstance(m, ScheduledMechanism)}
        return scheduled if len(scheduled) == len(mechanisms) else None

    def _check_clock(self) -> None:
        """Refuse a clock that has gone back behind the ledger's last time: what is due follows from the clock."""
        newest = self.ledger.newest()
        behind = newest.at_us - self.now_us() if newest else 0
        if behind > CLOCK_SLACK:
            raise LedgerUnavailable(
                f"the clock says {from_us(self.now_us()):%Y-%m-%d %H:%M:%S} UTC, {behind / 60e6:.0f} minutes before the newest "
                f"entry of {self.ledger.name} was written: set the clock; nothing was published"
            )

    # Output ---------------------------------------------------------------------------------------------------------

    def target(self, channel: Channel) -> str:
        """Return where a stream's output goes: a path, or - for stdout."""
        return self.policy.outputs.get(channel.name, "-")

    def check_outputs(self) -> None:
        """Refuse outputs that could not be gone on with, or marked, as they would be when published to; nothing is written."""
        self.marks.check_places()
        for channel in self.channels:
            self.check_output(channel)

    def check_output(self, channel: Channel) -> None:
        """Refuse the output of a stream that could not be gone on with; nothing is written."""
        self._at_output(check_output, channel)

    def _open_output(self, channel: Channel) -> Output:
        facts = find_facts(channel, self.saved.chains[channel.name], was_reconciled(channel.name, self.saved.rules))
        return self._at_output(partial(open_output, facts=facts), channel)

    def _at_output(
        self, use: Callable[..., T], channel: Channel, name: str | None = None, target: str | None = None
    ) -> T:
        """Open or check the output of a stream, or of one of its vintages, beside what the ledger holds of it."""
        stream = name or channel.name

        def find(step: int) -> Published | None:
            found = read_entries(channel, list(self.ledger.entries(stream, step, step))).items()
            return found[0] if found else None

        return use(
            target or self.target(channel), channel.layout, self.ledger.last_step(stream), find,
            emitted=self.ledger.last_printed(stream),
            next_step=lambda after: self.ledger.next_step(stream, after),
            digests=stream_digests(self.ledger, stream),
        )  # fmt: skip

    def write_vintages(self) -> None:
        """Write the files of later vintages that are not there, or of the newest not whole: steps that were published again.

        A file of a vintage that the ledger does not hold is refused, as any output that is ahead of its ledger.
        """
        for channel in self.channels:
            newest = count_vintages(self.ledger, channel.name)
            ahead = find_vintage_file(self.policy, channel.name, newest + 1)
            if os.path.lexists(ahead) and not is_output(self.policy, ahead):
                raise InvalidInput(
                    f"{ahead} is there, and {self.ledger.name} holds {newest} vintages of {channel.name}: an older copy would "
                    "draw its noise again. Put the newest copy back; if the file is none of this policy's, move it"
                )
            for number in range(FIRST_AGAIN, newest + 1):
                name, target = name_vintage(channel.name, number), find_vintage_file(self.policy, channel.name, number)
                whole = number < newest or self.ledger.last_printed(name) == self.ledger.last_step(name)
                if not whole or not os.path.lexists(target):
                    facts = find_facts(channel, (), reconciled=False)
                    with closing(self._at_output(partial(open_output, facts=facts), channel, name, target)) as output:
                        output.write(read_entries(channel, list(self.ledger.entries(name, output.last_step + 1))))
                    self.ledger.mark_printed(name, self.ledger.last_step(name))

    def _emit_rest(self) -> None:
        """Write to the outputs what only the ledger holds; nothing is drawn again."""
        for channel, output in zip(self.channels, self.outputs, strict=True):
            rest = self.ledger.entries(channel.name, output.last_step + 1)
            while block := list(islice(rest, BLOCK)):
                self._write(channel, output, block)
                self.emitted_again[channel.name] += len(block)

    def _write(self, channel: Channel, output: Output, entries: Sequence[Entry]) -> None:
        output.write(read_entries(channel, entries))
        if channel.part.output == "-":
            self.ledger.mark_printed(channel.name, entries[-1].step)

    # Publishing -----------------------------------------------------------------------------------------------------

    def all_due(self) -> list[Due]:
        """Return the steps that are over and not yet published, of each stream that has a source."""
        now = self.now_us()
        stretches = ((c, self.done[c.name] + 1, c.newest(now)) for c in self.channels if c.part.source is not None)
        return [self.due(c, first, last) for c, first, last in stretches if last >= first]

    def due(self, channel: Channel, first: int, last: int) -> Due:
        """Work out the releases of steps first … last of a stream. Nothing is read or drawn.

        Under a promise that forgets, what is published late is charged when it is really published: counting it from its
        planned step would discount a loss that nobody could have begun to forget. `late: as-planned` replays the past.
        """
        earliest = self.account.step
        if self.late_counts_now:
            earliest = max(earliest, channel.account.last_over(self.now_us()))
        return find_due(channel, first, last, earliest)

    @property
    def late_counts_now(self) -> bool:
        """Whether a late step is charged at the step at which it is actually published."""
        return self.notion.forgets and self.policy.clock.late == "now"

    def select_fitting(self, dues: Sequence[Due]) -> list[Due]:
        """Return the newest steps of each stream that the promise has room for now; older ones are skipped and never published.

        Only late steps are ever passed over: under a promise that forgets they count from now on, and waiting would not help, as
        every step takes up the room that comes back; under one that counts by data time the account may no longer
        remember the time they are about. Which ones depends on the clock and the account alone.
        """
        scheduled = self._find_stand_ins()
        if not (self.late_counts_now or self.notion.by_data_time) or scheduled is None:
            return list(dues)
        if not self.late_counts_now:
            found = [find_turns(d, scheduled[d.channel.name]) for d in dues]
            forgotten = [self._count_forgotten(turns) for turns in found]
            for d, count in zip(dues, forgotten, strict=True):
                _refuse_gap(d, count)
            return [d.last(len(d.steps) - count) for d, count in zip(dues, forgotten, strict=True)]
        trial, kept = self.saved.draw.copy(), [0] * len(dues)
        waiting = {i: find_newest_turns(d, scheduled[d.channel.name]) for i, d in enumerate(dues)}
        while waiting:  # the newest of each stream in turn, until it has no room or no step left
            for i in list(waiting):
                turn = next(waiting[i], None)
                if turn is None or not _fits(trial, turn):
                    del waiting[i]
                else:
                    kept[i] += 1
        return [d.last(count) for d, count in zip(dues, kept, strict=True)]

    def _find_stand_ins(self) -> Mapping[str, ScheduledMechanism] | None:
        """The mechanisms, and for those that repeat outputs planned noise: both are about the same times; None for any other."""
        stand_ins: dict[str, ScheduledMechanism] = {}
        for c in self.channels:
            mechanism = self.saved.mechanisms[c.name]
            if isinstance(mechanism, HeldOutput):
                mechanism = PlannedNoise(c.plan, size=c.cells, touched=c.sensitivity.touched)
            if not isinstance(mechanism, ScheduledMechanism):
                return None
            stand_ins[c.name] = mechanism
        return stand_ins

    def _count_forgotten(self, turns: Iterator[Turn]) -> int:
        """Return how many of the oldest draws are about data times that the account has already forgotten."""
        forgotten = 0
        for turn in turns:
            if turn.step > self.account.step:
                break
            try:
                self.saved.draw.copy().batch([turn])
            except InvalidInput:
                forgotten += 1
                continue
            except BudgetExceeded:  # a lack of room is an error, which `charge` raises
                pass
            break
        return forgotten

    def skip(self, skipped: Mapping[str, Stretch]) -> bool:
        """Record steps that are never published, as their source is out of reach; nothing is drawn or charged for them.

        Return whether that could be recorded: nothing can before anything was published.
        """
        if self.ledger.newest() is None:
            return False
        reached = {name: last for name, (_, last) in skipped.items()}
        self.saved.commit([], self.saved.draw, self.now_us(), write_skip(skipped), reached)
        checkpoints.reach("skip committed")
        self._events += 1
        self.done |= reached
        with self.ledger.showing():
            self.marks.mark_shown()
        return True

    def charge(self, batches: Iterable[Sequence[Due]]) -> Iterator[ChargedBatch | None]:
        """Charge batches, one after the other, and yield them: what the promise has no room for is refused. A run goes through
        all of them before any data is read.

        A mechanism that does not name its draws beforehand is charged as it draws: then there is None for each batch.
        """
        draw, scheduled = self.saved.draw, self._scheduled_mechanisms
        for batch in batches:
            made = None if scheduled is None else ChargedBatch(batch, draw, scheduled)
            draw = draw if made is None else made.draw
            yield made
        self.saved.prepare_key(draw)

    def publish(self, parts: Sequence[tuple[Due, Totals]], charged: ChargedBatch | None = None) -> list[Entry]:
        """Publish steps of some streams with their exact totals (steps × cells, in units): draw, commit, then write.

        `charged` is the same batch, if it was charged before: it must be the first of those that are still to be published.
        """
        if charged is None:
            (charged,) = self.charge([[d for d, _ in parts]])
        if charged is None:
            draw = self.saved.draw.copy()
            drawn = run_steps(parts, draw, self.saved.mechanisms)
        else:
            draw, drawn = charged.draw, charged.add_noise([totals for _, totals in parts])
        entries: list[Entry] = []
        for (d, _), made in zip(parts, drawn, strict=True):
            self.saved.note_owner(
                d.channel.name, (r.draw for releases in made.releases for r in releases if r.draw is not None)
            )
            entries += make_entries(d, made, self.saved.smoothers[d.channel.name])
        factors = {c.name: c.factor_of_cells for c in self.channels}
        entries = reconcile_entries(rules(self.policy), factors, self.policy.members.largest, entries)
        entries.sort(key=lambda e: e.release_step)
        checkpoints.reach("noise drawn")
        self.saved.commit(entries, draw, self.now_us())
        checkpoints.reach("entries committed")
        with self.ledger.showing():
            self.marks.mark_shown()
            checkpoints.reach("marks written")
            for channel, output in zip(self.channels, self.outputs, strict=True):
                mine = [e for e in entries if e.stream == channel.name]
                if mine:
                    self.done[channel.name] = mine[-1].step
                    self._write(channel, output, mine)
        checkpoints.reach("outputs written")
        return entries
