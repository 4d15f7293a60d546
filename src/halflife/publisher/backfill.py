"""`publish`: everything that is due, from the readings to the outputs.

Which steps are due follows from the policy, the clock and the ledger. The promise is checked for all of them before any reading
is looked at. Readings are then aggregated some million numbers at a time and committed in batches.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from halflife.engines import Answer, Engine, Question, open_source
from halflife.errors import Interrupted, InvalidInput, unknown
from halflife.local_time import from_us
from halflife.numerics.progress import Progress
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.publisher import checkpoints
from halflife.publisher.drawing import ChargedBatch, Totals
from halflife.publisher.due import Due, cut_into_batches
from halflife.publisher.nodes import read_rows
from halflife.publisher.operator_log import RunRecord, write_operator
from halflife.publisher.session import Session

BATCH_STEPS, BATCH_CELLS = 4_000, 100_000
"""A batch holds at most so many steps, and about so many numbers."""
AHEAD_CELLS = 2 * BATCH_CELLS
"""For about how many numbers noise is drawn ahead, while the engine reads and batches are committed and written."""
READ_CELLS = 4_000_000
"""About how many numbers are asked of an engine at a time."""

PATIENCE = 0.2
"""So often it is asked whether to stop while the engine reads, in seconds."""

log = logging.getLogger("halflife.publisher")


class Source(Protocol):
    """What a run asks of an opened source of readings. See `halflife.engines.Engine`."""

    def aggregate(self, question: Question) -> Answer:
        """Answer a question."""
        ...

    def progress(self) -> tuple[str, float]:
        """Return what is being done for another thread, and how much of it is done."""
        ...

    def interrupt(self) -> None:
        """Break off what another thread has asked for."""
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...


@dataclass(frozen=True)
class Summary:
    """The result of a run: what was published, and how much of the promise is used.

    published, emitted_again  steps by stream: published now; committed before, and written to the output only now
    last                      each stream's newest published step, with the time that it ended
    stopped                   whether it was asked to stop before it was done
    passed_over               late steps that the promise has no room for: they would count from now on
    tallies                   private: counts of bad and clipped readings by stream, as the operator's file has them
    """

    published: Mapping[str, int]
    emitted_again: Mapping[str, int]
    last: Mapping[str, tuple[int, str]]
    stopped: bool
    passed_over: int
    risk: float
    limit: float
    used: float
    operator_file: Path
    tallies: Mapping[str, Mapping[str, int]] = field(repr=False)


def publish(
    policy: GivenPolicy,
    sources: Mapping[str, object] | None = None,
    *,
    wait: float = 10.0,
    second_ledger: bool = False,
    progress: Progress = lambda what, done, total: None,
    stop: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.time,
) -> Summary:
    """Publish every step that is due, exactly once.

    policy    a Policy, the path of its file, or a dict
    sources   pandas, Polars or Arrow frames by stream, instead of the policy's files
    wait      seconds to wait for another process that holds the ledger
    second_ledger  begin this ledger although another one in its folder is about the same population
    progress  is told what is being done, how many steps are done, and how many there are
    stop      is asked between batches whether to end early; the next run goes on from there
    clock     the time in seconds since 1970
    """
    session = Session(policy, clock, second_ledger=second_ledger)
    try:
        return run_session(session, wait, stop, lambda: PublishRun(session, dict(sources or {}), progress, stop))
    finally:
        session.close()


def run_session(session: Session, wait: float, stop: Callable[[], bool], begin: Callable[[], PublishRun]) -> Summary:
    """Hold a session's ledger for one run, and write to the operator's file how it ended."""
    record = RunRecord(session.ledger.operator_file, session.clock)
    done: list[Summary] = []
    with record.watch(lambda: done[0].stopped), session.hold(wait, stop):
        record.begin()
        run = begin()
        record.steps = run.published
        done.append(run.run())
    return done[0]


class PublishRun:
    """One run of `publish`, while the session's ledger is held."""

    def __init__(self, session: Session, sources: dict[str, Any], progress: Progress, stop: Callable[[], bool]) -> None:
        self.session, self.sources, self.progress, self.stop = session, sources, progress, stop
        for name in sources:
            if name not in [c.name for c in session.channels]:
                raise unknown("stream", name, [c.name for c in session.channels])
        for c in session.channels:
            if c.part.source is None and c.name in sources:
                raise InvalidInput(
                    f"stream {c.name!r} has no `source`, so the policy does not say which columns hold person, time and value: "
                    "add one"
                )
        self.published = dict.fromkeys((c.name for c in session.channels), 0)
        self.passed_over = 0
        self.tallies: dict[str, Counter[str]] = {}

    def find_due(self) -> list[Due]:
        """Return what is due and fits; what does not fit is counted as passed over."""
        wanted = self.session.all_due()
        dues = [d for d in self.session.select_fitting(wanted) if len(d.steps)]
        self.passed_over = sum(len(d.steps) for d in wanted) - sum(len(d.steps) for d in dues)
        return dues

    def run(self) -> Summary:
        """Publish all that is due, or what fits until it is asked to stop."""
        dues = self.find_due()
        total = sum(len(d.steps) for d in dues)
        log.info("due", extra={"fields": {"steps": total, "streams": len(dues), "passed_over": self.passed_over}})
        if not total:
            return self._summary(stopped=False)
        self.progress("checking the promise", 0, total)
        batches = list(cut_into_batches(dues, BATCH_STEPS, BATCH_CELLS))
        with _Drawer(batches) as drawer:
            for made in self.session.charge(batches):
                # where time counts, each batch is charged when it is really published: reading takes time
                drawer.add(None if self.session.late_counts_now else made)
            engines = {d.channel.name: self.open(d) for d in dues}
            try:
                return self._summary(self._work(batches, drawer, engines, total))
            finally:
                for engine in engines.values():
                    engine.close()

    def open(self, due: Due) -> Source:
        """Open a stream's source; files that must be parsed first are cached beside the ledger, which is private too."""
        channel, scratch = due.channel, self.session.ledger.scratch
        if channel.name in self.sources:
            return open_source(self.sources[channel.name], scratch=scratch)
        return open_source_of(self.session.policy, channel, scratch)

    def _work(self, batches: list[list[Due]], drawer: _Drawer, engines: Mapping[str, Source], total: int) -> bool:
        """Read and publish; True if it was asked to stop."""
        done, read = 0, {name: (1, np.zeros((0, 0), dtype=np.int64)) for name in engines}
        for i, batch in enumerate(batches):
            if self.stop():
                return True
            self.progress("reading" if not i else "publishing", done, total)
            drawer.draw_ahead(i)
            if any(int(d.steps[-1]) >= read[d.channel.name][0] + len(read[d.channel.name][1]) for d in batch):
                with ThreadPoolExecutor(1) as pool:
                    reading = pool.submit(self._read_all, batches[i:], engines)
                    if not self._finish(reading, engines, done, total):
                        return True
                    read |= reading.result()
            checkpoints.reach("totals read")
            kept = self.select_read(batch)
            if len(kept) < len(batch):  # what was charged, from this batch on, was for more than there is
                drawer.forget_from(i)
            charged = drawer.take(i)
            if kept:
                self.session.publish([(self._date_now(d), _rows(d, *read[d.channel.name])) for d in kept], charged)
            done += sum(len(d.steps) for d in batch)
            for d in kept:
                self.published[d.channel.name] += len(d.steps)
            self._log(kept)
        self.progress("publishing", done, total)
        return False

    def select_read(self, batch: list[Due]) -> list[Due]:
        """Return what is published of a batch that was read: all of it."""
        return batch

    def _finish(self, reading: Future[Any], engines: Mapping[str, Source], done: int, total: int) -> bool:
        """Wait until everything is read; False if it was asked to stop before: then what the engines do is broken off."""
        stopped = False
        while not wait([reading], timeout=PATIENCE).done:
            share = sum(engine.progress()[1] for engine in engines.values()) / len(engines)
            self.progress(f"reading, {share:.0%} done", done, total)
            stopped = stopped or self.stop()
            if stopped:  # said until it is heard: between two queries an engine hears nothing
                for engine in engines.values():
                    engine.interrupt()
        if stopped:
            with contextlib.suppress(Interrupted):
                reading.result()
        return not stopped

    def _read_all(
        self, batches: Sequence[Sequence[Due]], engines: Mapping[str, Source]
    ) -> dict[str, tuple[int, Totals]]:
        """Read what the first batch needs, of each of its streams, and as much of the next ones as goes with it."""
        return {
            d.channel.name: (int(d.steps[0]), self._read(d.channel, batches, engines[d.channel.name]))
            for d in batches[0]
        }

    def _date_now(self, d: Due) -> Due:
        """Return the same steps charged at the current step: time has passed since they became due, which only frees budget."""
        return self.session.due(d.channel, int(d.steps[0]), int(d.steps[-1])) if self.session.late_counts_now else d

    def _read(self, channel: Channel, batches: Sequence[Sequence[Due]], engine: Source) -> Totals:
        """Return the exact totals of this batch and the next ones, up to some million numbers, in one pass over the source.

        Of nodes of a tree, steps that were published before are read again; they are not tallied again.
        """
        steps = [d.steps for batch in batches for d in batch if d.channel is channel]
        first = int(steps[0][0])
        most = first + max(len(steps[0]), READ_CELLS // channel.cells) - 1
        last = max(int(s[-1]) for s in steps if int(s[-1]) <= most)

        def read_back(low: int, high: int) -> Totals:
            return channel.totals(engine.aggregate(channel.question(low, high)).sums, low)

        def read(low: int, high: int) -> Totals:
            answer = engine.aggregate(channel.question(low, high))
            line = {"stream": channel.name, "steps": [low, high], **answer.tallies}
            self.tallies.setdefault(channel.name, Counter()).update(answer.tallies)
            write_operator(self.session.ledger.operator_file, self.session.now_us(), line)
            return channel.totals(answer.sums, low)

        return read_rows(channel, first, last, READ_CELLS, read, read_back)

    def _log(self, batch: Sequence[Due]) -> None:
        for d in batch:
            if len(d.steps):
                first, last = int(d.steps[0]), int(d.steps[-1])
                fields = {"stream": d.channel.name, "first": first, "last": last, "used": self.session.account.used()}
                log.info("published", extra={"fields": fields})

    def _summary(self, stopped: bool) -> Summary:
        session = self.session
        risk, _, limit = session.account.exposure()
        last = {
            c.name: (k, from_us(c.steps.end(k), c.steps.zone).isoformat(sep=" ", timespec="minutes")) if k else (0, "-")
            for c, k in ((c, session.ledger.last_step(c.name)) for c in session.channels)
        }
        used = session.account.used()
        return Summary(
            self.published, session.emitted_again, last, stopped, self.passed_over, risk, limit, used,
            session.ledger.operator_file, self.tallies,
        )  # fmt: skip


def open_source_of(policy: Policy, channel: Channel, scratch: Path | None = None) -> Engine:
    """Open the source of a stream that has one: its files, or its table on a server or a cluster."""
    source = channel.part.source
    assert source is not None  # streams without a source are never due
    return open_source(
        source.locate(policy.path), source.format, source.table,
        columns=source.columns, delimiter=source.delimiter, scratch=scratch, engine=source.engine, master=source.master,
    )  # fmt: skip


def check_sources(policy: Policy) -> None:
    """Refuse files and tables that are not there, and columns that are missing or of the wrong type; no reading is looked at."""
    for channel in channels(policy):
        if channel.part.source is not None:
            with contextlib.closing(open_source_of(policy, channel)) as engine:
                engine.check(channel.question(1, 1))


class _Drawer:
    """Draws the noise of charged batches in a thread, one after the other, while others are charged, the engine reads, and
    batches are committed.

    It does not depend on the data, and is dropped if it is not used. A batch is drawn once those before it are, as they may
    share noise; nobody else asks for a batch's noise before it was taken.
    """

    def __init__(self, batches: Sequence[Sequence[Due]]) -> None:
        self._sizes = [sum(len(d.steps) * d.channel.cells for d in batch) for batch in batches]
        self._charged: list[ChargedBatch | None] = []
        self._pool, self._drawn = ThreadPoolExecutor(1), dict[int, Future[None]]()

    def __enter__(self) -> _Drawer:
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(self, charged: ChargedBatch | None) -> None:
        """Take the next batch, which is charged now; None for one that is charged when it is published."""
        self._charged.append(charged)
        self.draw_ahead(0)

    def draw_ahead(self, first: int) -> None:
        """Begin to draw the noise of a batch, and of the next ones up to about AHEAD_CELLS numbers."""
        room = AHEAD_CELLS
        for i in range(first, len(self._charged)):
            room -= self._sizes[i]
            made = self._charged[i]
            if made is None or (room < 0 and i > first):
                return
            if i not in self._drawn:
                self._drawn[i] = self._pool.submit(made.draw_noise)

    def forget_from(self, i: int) -> None:
        """Forget what batches were charged, from one on."""
        self._charged[i:] = [None] * (len(self._charged) - i)

    def take(self, i: int) -> ChargedBatch | None:
        """Hand a batch out, which is kept no longer, once its noise is drawn, if that was begun; an error is raised here."""
        if i in self._drawn:
            self._drawn.pop(i).result()
        made, self._charged[i] = self._charged[i], None
        return made


def _rows(d: Due, first: int, totals: Totals) -> Totals:
    """The totals of some of the steps that were read, from step `first` on."""
    start = int(d.steps[0]) - first
    return totals[start : start + len(d.steps)]
