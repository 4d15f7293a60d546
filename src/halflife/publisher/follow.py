"""`follow`: a publisher that stays, and publishes each step when it is closed, for years.

**A step is closed by the clock alone**: at its end, plus the `delay` and the `lateness` of its stream. What has arrived by then
counts. If the source cannot be reached, everybody counts as missing, or the step is skipped for good, as the policy says; rows
that are missing are no reason for either. So no reading decides whether or when anything is published.

Between two steps nothing is held: the ledger is opened, held, written to and let go of for each. Several publishers may follow
one policy, each with its own clock; whoever comes first publishes the step, and the others find it published. One that is killed
in the middle of a step lets go of the ledger, and the next one goes on with the step.

Steps that became due while nobody was there, or while the machine slept, are caught up with, as `publish` does. As they are late
anyway, a source that is out of reach then is waited for, until the next step of that stream is closed; other streams go on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from halflife.engines import Answer, Engine, Question
from halflife.engines.base import TALLIES, empty_answer
from halflife.engines.duckdb.files import Unreadable
from halflife.engines.duckdb.source import NoRoom, NotEnoughMemory
from halflife.errors import HalflifeError, InvalidInput, LedgerError, LedgerUnavailable, SourceUnreachable
from halflife.ledger import ledger_exists
from halflife.local_time import from_us
from halflife.numerics.progress import Progress
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.publisher.arrivals import Arrivals, check_arrived
from halflife.publisher.backfill import PublishRun, Source, Summary, run_session
from halflife.publisher.due import Due
from halflife.publisher.late_readings import LateReadings
from halflife.publisher.operator_log import write_operator
from halflife.publisher.session import Session
from halflife.publisher.skipping import Stretch

if TYPE_CHECKING:
    from halflife.ledger import Ledger

NAP = 0.5
"""It looks at the clock so often while it sleeps, in seconds: a clock may be set, and a machine suspended."""
PAUSE, LONGEST_PAUSE = 5.0, 60.0
"""Seconds until it tries again what was out of reach; they double until they are the longest."""
GRACE = 10.0
"""Seconds in which the step in hand must be read when it is asked to stop; else nothing is drawn, and the next start goes on."""
TRIES = 3
"""How often files that change while they are read are read again."""

log = logging.getLogger("halflife.publisher")


@dataclass(frozen=True)
class Times:
    """How a publisher that stays tells the time and passes it: seconds since 1970, and a sleep of so many seconds."""

    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def follow(
    policy: GivenPolicy,
    *,
    wait: float = 10.0,
    second_ledger: bool = False,
    progress: Progress = lambda what, done, total: None,
    stop: Callable[[], bool] = lambda: False,
    reload: Callable[[], bool] = lambda: False,
    told: Callable[[Policy, Summary], None] = lambda policy, summary: None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Publish each step when it is closed, until it is asked to stop, or the last step of all streams is published.

    policy    a Policy, the path of its file, or a dict; of a path the file is read again when asked to, and after an amendment
    wait      seconds to wait for another process that holds the ledger, before it is said that it does
    second_ledger  begin this ledger although another one in its folder is about the same population
    progress  is told what is being done while late steps are caught up with
    stop      is asked whether to end: a step in hand is finished
    reload    is asked whether to read the policy's file again
    told      is told of each run
    clock     the time in seconds since 1970;  sleep  waits so many seconds
    """
    publisher = _Publisher(policy, wait, second_ledger, progress, stop, told, Times(clock, sleep))
    publisher.check()
    while not stop():
        moment = publisher.work()
        if moment is None:
            log.info("ended", extra={"fields": {"why": "the last step of every stream is over"}})
            return
        publisher.sleep_until(moment, reload)
    log.info("stopped")


class _Publisher:
    """One publisher that stays: its policy, what it remembers of files and of late readings, and when it works next."""

    def __init__(
        self, given: GivenPolicy, wait: float, second_ledger: bool, progress: Progress, stop: Callable[[], bool],
        told: Callable[[Policy, Summary], None], times: Times,
    ) -> None:  # fmt: skip
        self._given, self._policy = given, Policy.of(given)
        self._wait, self._second_ledger, self._progress = wait, second_ledger, progress
        self._stop, self._told, self._times = stop, told, times
        self._arrivals, self._late = Arrivals(), LateReadings(times.clock)
        self._closings: dict[
            str, int
        ] = {}  # of each stream: when the next step is closed, in µs; a source must be there then
        self._trouble: str | None = None
        self._pause = PAUSE

    def check(self) -> None:
        """Refuse a policy of which nothing can be followed, or a source that is there and cannot be read as the policy says.

        Later on the same is a source out of reach, as a step is published whatever has become of it; and files are looked at here
        only before anything is published, so that whoever writes them cannot keep a publisher from starting again.
        """
        if not self._followed():
            raise InvalidInput(
                "no stream of this policy has a source that could be followed: a program pushes them all"
            )
        for channel in self._followed():
            if channel.part.source is not None and channel.part.source.engine is not None:
                raise InvalidInput(
                    f"stream {channel.name!r} is read by a Spark cluster, which is not followed: run `halflife publish` by a "
                    "timer, soon after each step is closed (docs/cluster.md)"
                )
        begun = ledger_exists(self._policy.ledger_url)
        for channel in self._followed():
            source = channel.part.source
            if not begun or (source is not None and source.database is not None):
                _check_source(self._policy, channel, may_be_away=True)

    def _followed(self) -> list[Channel]:
        return [c for c in channels(self._policy) if c.part.source is not None]

    def now_us(self) -> int:
        """The clock's time in µs."""
        return int(self._times.clock() * 1_000_000)

    # One round ----------------------------------------------------------------------------------------------------------

    def work(self) -> int | None:
        """Publish what is due; return when to work next, in µs, None if nothing will ever be due again."""
        try:
            run = self._publish()
        except (SourceUnreachable, NoRoom) as error:  # before the next step is closed: there is time to wait
            full = isinstance(error, NoRoom)  # which says nothing of the source: nobody is missing for it
            return self._try_again("no room for scratch files" if full else "source out of reach", error)
        except LedgerError as error:
            if self._stop():  # it was waiting for another process
                return self.now_us()
            if not isinstance(error, LedgerUnavailable):
                raise
            return self._try_again("ledger not available", error)
        closings = self._find_closings(run.looked_us, run.session.done)
        # a stream that waits for its source still does so until the closing that it waited for
        self._closings = closings | {name: self._closings[name] for name in run.waiting if name in self._closings}
        if run.waiting:
            return self._try_again("source out of reach", run.waiting[min(run.waiting)])
        self._recover()
        if not closings:
            return None
        if not self._stop():
            self._count_late(dict(run.session.done))
        return min(self._closings.values())

    def _publish(self) -> FollowRun:
        """Run once, with the policy as its file has it now if the ledger was amended meanwhile."""
        try:
            return self._run()
        except LedgerUnavailable:
            raise
        except LedgerError:  # it may have been amended, or something was done to it while it was opened
            if self._stop():
                raise
        if self.read_policy_again():
            log.info("policy read again", extra={"fields": {"why": "the ledger did not take it as it was read before"}})
        return self._run()

    def _run(self) -> FollowRun:
        if not self._closings:  # what is late already waits for its source until the next closing
            self._closings = self._find_closings(self.now_us(), {})
        session = Session(self._policy, self._times.clock, second_ledger=self._second_ledger)
        made: list[FollowRun] = []

        def begin() -> FollowRun:
            made.append(FollowRun(session, self._progress, self._stop, self._arrivals, self._late, self._closings))
            return made[0]

        try:
            self._prepare(session.ledger)
            summary = run_session(session, self._wait, self._stop, begin)
            self._told(session.policy, summary)
            return made[0]
        finally:
            session.close()

    def _prepare(self, ledger: Ledger) -> None:
        """Go on with what an earlier publisher saw of late readings; tell the operator of files that cannot be read."""
        self._late.recall(ledger.operator_file)

        def tell(stream: str, problem: str) -> None:
            line = {"event": "unreadable", "stream": stream, "problem": problem}
            write_operator(ledger.operator_file, self.now_us(), line)

        self._arrivals.tell, self._scratch = tell, ledger.scratch

    def _find_closings(self, looked_us: int, done: Mapping[str, int]) -> dict[str, int]:
        """When the next step of each stream is closed, of those that are not over.

        looked_us  when it was last asked what is due: what was closed since then is closed already, and worked on at once
        """
        found = {}
        for c in self._followed():
            step = max(done.get(c.name, 0), c.newest(looked_us)) + 1
            if c.last is None or step <= c.last:
                found[c.name] = c.published_at(step)
        return found

    def _count_late(self, done: dict[str, int]) -> None:
        """Look again at steps that were closed, while there is time before the next one is."""

        closing = min(self._closings.values())

        def is_time() -> bool:
            return self._stop() or self.now_us() >= closing

        def open_arrived(channel: Channel, question: Question) -> Engine | None:
            return self._arrivals.open(self._policy, channel, question, self._scratch, again=True)

        for channel in self._followed():
            if channel.name in done:
                self._late.look_again(channel, done[channel.name], open_arrived, is_time)

    # Trouble, and what is read again --------------------------------------------------------------------------------------

    def _try_again(self, what: str, error: HalflifeError) -> int:
        """Say what is out of reach, once; return when to try again: soon, or when the next step is closed."""
        if self._trouble != what:
            log.warning(what, extra={"fields": {"why": str(error)}})
            self._pause = PAUSE
        self._trouble = what
        now = self.now_us()
        later = now + int(self._pause * 1_000_000)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        return min([later, *(closing for closing in self._closings.values() if closing > now)])

    def _recover(self) -> None:
        if self._trouble is not None:
            log.info("back", extra={"fields": {"what": self._trouble}})
        self._trouble = None

    def read_policy_again(self) -> bool:
        """Read the policy's file again, and go on with it if it is another one; one that is wrong is said, and not taken."""
        if isinstance(self._given, Policy) or not isinstance(self._given, str | Path):
            return False
        try:
            made = Policy.load(self._given)
            if made.ledger_url != self._policy.ledger_url:
                raise InvalidInput(
                    "it names another ledger, which would draw all noise again: stop this publisher, and start one for that"
                )
        except HalflifeError as error:
            log.warning("policy not taken", extra={"fields": {"why": str(error)}})
            return False
        if made.to_data() == self._policy.to_data() and made.tables == self._policy.tables == ():
            return False
        self._policy, self._arrivals, self._closings = made, Arrivals(), {}
        return True

    # Sleep ----------------------------------------------------------------------------------------------------------------

    def sleep_until(self, moment: int, reload: Callable[[], bool]) -> None:
        """Sleep until a moment, in µs, or until it is asked to stop, or to read the policy again."""
        if self._trouble is None:
            log.info("sleeping", extra={"fields": {"until": from_us(moment, self._policy.clock.zone).isoformat()}})
        slept = False
        while not self._stop() and (left := moment - self.now_us()) > 0:
            if reload():
                self._reload()
                return
            self._times.sleep(min(NAP, left / 1_000_000))
            slept = True
        if slept:
            self._forgive_oversleeping()

    def _forgive_oversleeping(self) -> None:
        """Take the steps of a stream for late if a machine that was suspended has slept through more than one closing."""
        now = self.now_us()
        for channel in self._followed():
            closing = self._closings.get(channel.name)
            following = self._find_closings(now, {}).get(channel.name)
            if closing is not None and following is not None and channel.newest(now) > channel.newest(closing):
                self._closings[channel.name] = following

    def _reload(self) -> None:
        """Go on with the policy's file as it is now, if the ledger, its outputs and its sources take it; else say why not."""
        before, closings = self._policy, self._closings
        if not self.read_policy_again():
            return
        try:
            with contextlib.closing(
                Session(self._policy, self._times.clock, second_ledger=self._second_ledger)
            ) as session:
                if session.ledger.facts():
                    session.look()
                    session.check_outputs()
            for channel in self._followed():
                _check_source(self._policy, channel, may_be_away=False)
        except HalflifeError as error:
            log.warning("policy not taken", extra={"fields": {"why": str(error)}})
            self._policy, self._closings = before, closings
            return
        log.info("policy read again", extra={"fields": {"why": "asked by a signal"}})


def _check_source(policy: Policy, channel: Channel, *, may_be_away: bool) -> None:
    """Refuse a source that is there, and cannot be read as a policy says; or is not there, unless it may be away."""
    try:
        check_arrived(policy, channel)
    except SourceUnreachable:
        if not may_be_away:
            raise


def _after(seconds: float, asked: Callable[[], bool]) -> Callable[[], bool]:
    """Return what says whether it was asked for, so many seconds after it was."""
    since: list[float] = []

    def is_time() -> bool:
        if not since and asked():
            since.append(time.monotonic())
        return bool(since) and time.monotonic() >= since[0] + seconds

    return is_time


class FollowRun(PublishRun):
    """One run of a publisher that stays: of what has arrived, and without what cannot be reached.

    closings   of each stream: when its next step is closed, in µs. A source out of reach is waited for until then, or for ever if
               there is no such step; from then on it is dealt with as the policy says
    looked_us  when it was asked what is due
    waiting    of streams that were due, and whose source is waited for: why it is out of reach
    """

    def __init__(
        self, session: Session, progress: Progress, stop: Callable[[], bool], arrivals: Arrivals, late: LateReadings,
        closings: Mapping[str, int],
    ) -> None:  # fmt: skip
        super().__init__(session, {}, progress, stop)
        self._arrivals, self._late, self._closings = arrivals, late, closings
        self._absent: set[str] = set()
        self.waiting: dict[str, SourceUnreachable] = {}
        self.looked_us = session.now_us()

    def find_due(self) -> list[Due]:
        """Return what is due; a single step of each stream is finished if it is read soon, whoever asks to stop."""
        self.looked_us = self.session.now_us()
        dues = super().find_due()
        if all(len(due.steps) == 1 for due in dues):
            self.stop = _after(GRACE, self.stop)
        return dues

    def open(self, due: Due) -> Source:
        """Return the stream's source, of which what has arrived is opened when it is asked."""
        opened = partial(self._arrivals.open, self.session.policy, due.channel, scratch=self.session.ledger.scratch)
        noted, absent = partial(self._note, due.channel), partial(self._be_absent, due.channel)
        return ArrivedSource(opened, noted, absent, partial(self._arrivals.tell, due.channel.name))

    def _note(self, channel: Channel, question: Question, answer: Answer) -> None:
        if question.first == question.last:
            self._late.note(channel, question.first, answer)

    def _be_absent(self, channel: Channel, question: Question, error: SourceUnreachable) -> None:
        """Say that a source is out of reach, which is public: it follows from a connection, and from no reading.

        Before the stream's closing it is waited for, and other streams go on, but not past a running total: it needs every step.
        """
        name = channel.name
        if self.looked_us < self._closings.get(name, math.inf):
            if any(c.tree is not None for c in self.session.channels):
                raise error
            self.waiting[name] = error
            return
        self._absent.add(name)
        fields = {"stream": name, "first": question.first, "last": question.last, "as": channel.part.absent}
        log.warning("source out of reach", extra={"fields": {**fields, "why": str(error)}})
        if channel.part.absent == "missing":  # what comes later is late
            self._note(channel, question, _answer_nothing(question))

    def select_read(self, batch: list[Due]) -> list[Due]:
        """Return what is published of a batch: not steps that wait for their source, nor those that are skipped without it."""
        skipped = [d for d in batch if d.channel.name in self._absent and d.channel.part.absent == "skip"]
        stretches: dict[str, Stretch] = {d.channel.name: (int(d.steps[0]), int(d.steps[-1])) for d in skipped}
        if stretches:
            recorded = self.session.skip(stretches)
            for name, (first, last) in stretches.items():
                fields = {"stream": name, "first": first, "last": last, "recorded": recorded}
                log.warning("skipped", extra={"fields": fields})
        return [d for d in batch if d.channel.name not in stretches and d.channel.name not in self.waiting]


class ArrivedSource:
    """A source of which what has arrived is opened anew for each question; one that is out of reach answers as if it were empty.

    opened   opens what has arrived for a question, None if nothing has
    noted    is given every answer;  absent  is told that the source is out of reach, and may refuse
    tell     is told, for the operator, of what could not be read
    """

    def __init__(
        self, opened: Callable[[Question], Engine | None], noted: Callable[[Question, Answer], None],
        absent: Callable[[Question, SourceUnreachable], None], tell: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._opened, self._noted, self._absent, self._tell = opened, noted, absent, tell
        self._engine: Engine | None = None
        self._is_absent = False

    def aggregate(self, question: Question) -> Answer:
        """Answer a question; a source that was out of reach once stays so until the run ends."""
        if not self._is_absent:
            try:
                answer = self._read(question)
            except SourceUnreachable as error:
                self._absent(question, error)
                self._is_absent = True
            else:
                self._noted(question, answer)
                return answer
        return _answer_nothing(question)

    def _read(self, question: Question) -> Answer:
        """Read what has arrived. What cannot be read for its content, after a few tries, has not arrived: everybody is missing.

        A table that was dropped or changed is out of reach, as its columns are public.
        """
        problem = ""
        for _ in range(TRIES):
            try:
                self._engine = engine = self._opened(question)
                return _answer_nothing(question) if engine is None else engine.aggregate(question)
            except (
                Unreadable,
                NotEnoughMemory,
            ) as error:  # a file that is written to meanwhile, or one that is too large
                problem = str(error)
            except SourceUnreachable:
                raise
            except InvalidInput as error:
                refusal = SourceUnreachable(str(error))
                break
            finally:
                self.close()
        else:
            self._tell(problem)
            return _answer_nothing(question)
        raise refusal

    def progress(self) -> tuple[str, float]:
        """Return what is being done for another thread, and how much of it is done."""
        engine = self._engine
        return ("reading", 0.0) if engine is None else engine.progress()

    def interrupt(self) -> None:
        """Break off what another thread has asked for."""
        engine = self._engine
        if engine is not None:
            engine.interrupt()

    def close(self) -> None:
        """Let go of what is open."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


def _answer_nothing(question: Question) -> Answer:
    return Answer(empty_answer(question), dict.fromkeys(TALLIES, 0))
