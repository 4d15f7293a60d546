"""A policy's ledger, held: the account and states as it has them, outputs brought up to date, and the one way to publish.

    exact totals → charge a copy of the account → draw → commit all of it in one transaction → write the outputs

Whatever stops it, the next session goes on: what was committed is written again as it stands; what was not was never seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from types import MappingProxyType
from typing import Any

from halflife.accountant import Accountant
from halflife.engines.duckdb.scratch import sweep
from halflife.errors import BudgetExceeded, InvalidInput, LedgerError
from halflife.ledger import Entry, open_ledger
from halflife.mechanisms.draw import ReleaseDraw
from halflife.noise import GridNoise
from halflife.numerics.forms import read_form
from halflife.outputs import Output, Published, open_output
from halflife.policy import Channel, GivenPolicy, Policy, channels, find_change, ledger_facts
from halflife.postprocessing.chains import Record, add_chain, dump_chains, load_chains
from halflife.publisher import points
from halflife.publisher.drawing import Due, Totals, draw_planned, draw_stepwise, due, stepwise
from halflife.publisher.readable import readable
from halflife.publisher.verification import UNREADABLE, newest_data_time, stream_digests
from halflife.steps import from_us

BLOCK = 1_000
CLOCK_SLACK = 120 * 1_000_000
"""How far the clock may lie behind the ledger's newest entry, in µs, before it is held to have jumped."""
LATEST = 60_000_000_000
"""Seconds since 1970 that no clock reaches, either way: calendars end in the years 1 and 9999."""


class Session:
    """What `publish` and `Stream` share. Use it inside `with session.held():`."""

    def __init__(self, given: GivenPolicy, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.policy = policy = Policy.of(given)
        self.channels = channels(policy)
        self.notion = policy.notion
        self.ledger = open_ledger(policy.ledger_url)
        sweep(self.ledger.scratch)
        self._attachment = self.notion.attachment()
        self._kept: str | None = None
        self._facts = ledger_facts(policy)
        self.emitted_again = dict.fromkeys((c.name for c in self.channels), 0)

    def close(self) -> None:
        """Let go of the ledger."""
        self.ledger.close()

    def now_us(self) -> int:
        """Return the clock's time in µs; refuse one that no calendar holds, as the clock decides what is due."""
        seconds = self.clock()
        if not abs(seconds) < LATEST:
            raise LedgerError(f"the clock says {seconds:g} seconds since 1970: set the clock; nothing was published")
        return int(seconds * 1_000_000)

    @contextmanager
    def held(self, wait: float, stop: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold the ledger, with everything as it has it; outputs are complete when this ends."""
        with self.ledger.hold(wait, stop):
            points.passing("held")
            self._check_policy(self.ledger.begin(self._facts))
            self._load()
            self._check_clock()
            with ExitStack() as stack:
                self.outputs: list[Output] = []
                for channel in self.channels:
                    self.outputs.append(self._open_output(channel))
                    stack.callback(self.outputs[-1].close)
                self.ledger.mark_shown()
                self._emit_rest()
                points.passing("caught up")
                yield
            points.passing("closed")

    def _check_policy(self, known: Mapping[str, str]) -> None:
        """Refuse a policy that changes what the ledger was begun with."""
        try:
            change = find_change(known, self.policy)
        except InvalidInput as error:
            raise LedgerError(f"{self.ledger.name}: {error}") from error
        if change is not None:
            raise LedgerError(
                f"{self.ledger.name}: was begun under another policy: {change}. A promise is kept as it was made: undo the "
                "change, or begin a new ledger for a new population"
            )

    def _load(self) -> None:
        """Take account, mechanisms and smoothers from the ledger. What is wrong with a state is not told: some are secret."""
        self.done = {c.name: self.ledger.last_step(c.name) for c in self.channels}
        try:
            return self._restore(self.ledger.states())
        except LedgerError:
            raise
        except UNREADABLE:
            refusal = LedgerError(
                f"{self.ledger.name}: its saved states are not those of this policy's account, mechanisms and smoothers: put a "
                "whole copy back, the newest one, and see `halflife verify`"
            )
        raise refusal

    def _restore(self, states: Mapping[str, str]) -> None:
        if "account" not in states and any(self.done.values()):
            raise LedgerError(f"{self.ledger.name}: has entries and no account: put a whole copy back, the newest one")
        self._kept = states.get("attachment")
        self.account = self._saved_account(states.get("account"))
        self.smoothers = {c.name: c.smoothers() for c in self.channels}
        self.makers = {c.name: stepwise(c) for c in self.channels}
        self._chains: dict[str, Record] = {}
        for name, maker in self.makers.items():
            saved = json.loads(states.get(f"stream:{name}", "{}"))
            state = read_form("the state of a stream", saved, smoothers=[], mechanism=None, noise={})
            known = load_chains(states[f"post:{name}"]) if f"post:{name}" in states else ()
            self._chains[name] = add_chain(known, self.smoothers[name], self.done[name] + 1)
            if self._chains[name] is known:  # else a new chain begins, and what the old one has seen is not its own
                for smoother, seen in zip(self.smoothers[name], state["smoothers"], strict=bool(known)):
                    smoother.restore(seen)
            if maker is not None and saved:
                maker.mechanism.restore(state["mechanism"])
                maker.noise = state["noise"]
                _check_noise(maker.noise, self.account)

    def _saved_account(self, saved: str | None) -> Accountant:
        """The account as the ledger has it. Its promise is the policy's, which may add to it for what is not yet published."""
        if saved is None:
            return Accountant(self.notion)
        if self._kept is not None and self._kept == self._attachment:
            return Accountant.from_json(saved, notion=self.notion)
        account = Accountant.from_json(saved, self._kept)
        if account.notion == self.notion:
            return account
        if self.policy.promise.plan == "optimal" and account.notion.attached is not None:
            raise LedgerError(
                f"{self.ledger.name}: the optimal plan is worked out for all secrets at once, so none can be added: "
                "undo the change; begin with `plan: tight` where secrets are to come"
            )
        try:
            return account.extended(self.notion, newest_data_time(self.channels, self.ledger))
        except InvalidInput as error:
            raise LedgerError(f"{self.ledger.name}: {error}") from error

    def _states(self, account: Accountant) -> dict[str, str]:
        """What `_load` needs next time; what is attached to the promise is written when it has changed."""
        states = {"account": account.to_json(short=True)}
        if self._attachment is not None and self._attachment != self._kept:
            states["attachment"] = self._attachment
        for name, maker in self.makers.items():
            state: dict[str, Any] = {"version": 1, "smoothers": [s.state() for s in self.smoothers[name]]}
            if maker is not None:
                state |= {"mechanism": maker.mechanism.state(), "noise": maker.noise}
            if maker is not None or self._chains[name]:
                states[f"stream:{name}"] = json.dumps(state)
            if self._chains[name]:
                states[f"post:{name}"] = dump_chains(self._chains[name])
        return states

    def _check_clock(self) -> None:
        """What is due follows from the clock, so nothing is published by one that has jumped back."""
        newest = self.ledger.newest()
        behind = newest.at_us - self.now_us() if newest else 0
        if behind > CLOCK_SLACK:
            raise LedgerError(
                f"the clock says {from_us(self.now_us()):%Y-%m-%d %H:%M:%S} UTC, {behind / 60e6:.0f} minutes before the newest "
                f"entry of {self.ledger.name} was written: set the clock; nothing was published"
            )

    # Output ---------------------------------------------------------------------------------------------------------

    def target(self, channel: Channel) -> str:
        """Return where a stream's output goes: a path, or - for stdout."""
        return self.policy.outputs.get(channel.name, "-")

    def _open_output(self, channel: Channel) -> Output:
        def find(step: int) -> Published | None:
            found = readable(list(self.ledger.entries(channel.name, step, step)), channel.factor_of_cells)
            return found[0] if found else None

        return open_output(
            self.target(channel), channel.layout, self.done[channel.name], find,
            emitted=self.ledger.last_printed(channel.name),
            next_step=lambda after: self.ledger.next_step(channel.name, after),
            digests=stream_digests(self.ledger, channel.name),
        )  # fmt: skip

    def _emit_rest(self) -> None:
        """Write what is in the ledger and not in the outputs: nothing is drawn again."""
        for channel, output in zip(self.channels, self.outputs, strict=True):
            rest = self.ledger.entries(channel.name, output.last_step + 1)
            while block := list(islice(rest, BLOCK)):
                self._write(channel, output, block)
                self.emitted_again[channel.name] += len(block)

    def _write(self, channel: Channel, output: Output, entries: Sequence[Entry]) -> None:
        output.write(readable(entries, channel.factor_of_cells))
        if channel.part.output == "-":
            self.ledger.mark_printed(channel.name, entries[-1].step)

    # Publishing -----------------------------------------------------------------------------------------------------

    def due(self, channel: Channel, first: int, last: int) -> Due:
        """Work out the releases of steps first … last of a stream. Nothing is read or drawn.

        Under a promise that forgets, what is published late is charged when it is really published: counting it from its
        planned step would discount a loss that nobody could have begun to forget. `late: as-planned` replays the past.
        """
        earliest = self.account.step
        if self.late_counts_now:
            earliest = max(earliest, channel.account.last_over(self.now_us()))
        return due(channel, first, last, earliest)

    @property
    def late_counts_now(self) -> bool:
        """Whether what is published late is charged when it is really published."""
        return self.notion.forgets and self.policy.clock.late == "now"

    def fitting(self, dues: Sequence[Due]) -> list[Due]:
        """Return the newest steps of each stream that the promise has room for now; older ones are passed over for good.

        Only late steps are ever passed over: under a promise that forgets they count from now on, and waiting would not help, as
        every step takes up the room that comes back; under one that counts by data time the account may no longer
        remember the time they are about. Which ones depends on the clock and the account alone.
        """
        if not (self.late_counts_now or self.notion.by_data_time) or any(self.makers.values()):
            return list(dues)
        if not self.late_counts_now:
            return [d.last(self._within_memory(d)) for d in dues]
        trial, kept, full = self.account.copy(), [0] * len(dues), set()
        newest_first = sorted((len(d.steps) - k, i, k) for i, d in enumerate(dues) for k in range(len(d.steps)))
        for _, i, k in newest_first:
            if i in full:
                continue
            try:
                trial.admit(dues[i].releases[k])
                kept[i] += 1
            except BudgetExceeded:
                full.add(i)
        return [d.last(count) for d, count in zip(dues, kept, strict=True)]

    def _within_memory(self, late: Due) -> int:
        """How many of the newest steps the account can still take: it forgets data times that lie too far back."""
        trial = self.account.copy()
        for k, (at, release) in enumerate(zip(late.release_steps.tolist(), late.releases, strict=True)):
            if at > self.account.step:
                return len(late.steps) - k
            with suppress(BudgetExceeded):  # a lack of room is an error, which `foresee` raises
                try:
                    trial.admit(release)
                except InvalidInput:
                    continue
            return len(late.steps) - k
        return 0

    def foresee(self, batches: Sequence[Sequence[Due]]) -> list[Accountant | None]:
        """Return the account after each batch: what the promise has no room for is refused before any data is read.

        A mechanism that draws step by step is charged as it draws: then there is no account beforehand, None.
        """
        account, accounts = self.account, []
        for batch in batches:
            account = self._charged(account, batch)
            accounts.append(account)
        return [None] * len(batches) if any(self.makers.values()) else list(accounts)

    def _charged(self, account: Accountant, batch: Sequence[Due]) -> Accountant:
        """A copy of the account, charged with all planned releases of a batch."""
        after = account.copy()
        planned = (r for d in batch if self.makers[d.channel.name] is None for r in d.releases)
        after.admit(*sorted(planned, key=lambda r: r.step))
        return after

    def publish(
        self,
        parts: Sequence[tuple[Due, Totals]],
        foreseen: Accountant | None = None,
        ahead: Mapping[str, Sequence[GridNoise]] = MappingProxyType({}),
    ) -> list[Entry]:
        """Publish steps of some streams with their exact totals (steps × cells, in units): draw, commit, then write.

        `foreseen` is the account after them, if it was worked out before; `ahead` noise that was drawn while reading.
        """
        account = foreseen or self._charged(self.account, [d for d, _ in parts])
        entries: list[Entry] = []
        in_turn = []
        for d, totals in parts:
            maker, smoothers = self.makers[d.channel.name], self.smoothers[d.channel.name]
            if maker is None:
                entries += draw_planned(d, totals, smoothers, ahead.get(d.channel.name))
            else:
                in_turn.append((d, totals, smoothers, maker))
        entries += draw_stepwise(in_turn, account)
        entries.sort(key=lambda e: e.release_step)
        points.passing("drawn")
        states = self._states(account)
        self.ledger.commit(entries, states, self.now_us())
        self._kept = states.get("attachment", self._kept)
        points.passing("committed")
        self.ledger.mark_shown()
        self.account = account
        for channel, output in zip(self.channels, self.outputs, strict=True):
            mine = [e for e in entries if e.stream == channel.name]
            if mine:
                self.done[channel.name] = mine[-1].step
                self._write(channel, output, mine)
        points.passing("emitted")
        return entries


def _check_noise(noise: Mapping[str, Any], account: Accountant) -> None:
    """Refuse noise that cannot be used again, before anything is read or drawn; what it holds is told to nobody."""
    ReleaseDraw(account).restore(dict(noise))
    if not all(isinstance(unit, int) for _, units, *_ in noise.values() for unit in units):
        raise InvalidInput("noise is a whole number of units")
