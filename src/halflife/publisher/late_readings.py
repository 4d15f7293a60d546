"""Readings that arrive after their step was closed: counted for the operator, with how late they came, and never published.

A step that was closed is looked at again 1, 2, 4, … steps later: so its late readings are known to have come between two looks,
whose distance grows as they come later, and a step costs a few looks, however long the stream. Counts are private: they stand in
the operator's file alone, where a publisher that is started again finds what it needs to go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from halflife.engines import Answer, Engine, Question
from halflife.engines.duckdb.source import NoRoom
from halflife.errors import Interrupted, InvalidInput
from halflife.policy import Channel
from halflife.publisher.leaving_behind import Left, do_unless
from halflife.publisher.operator_log import read_tail, write_operator

ARRIVED = "arrived"
"""The event of a line about readings that have arrived for a step."""
HEARD = 10
"""A look that is to end is left if it was asked for so often, and goes on; that is after about two seconds."""
LOOKS = (1, 2, 4, 8, 16, 32, 64)
"""So many steps later a closed step is looked at again."""


class Seen(NamedTuple):
    """How many rows a step had when it was last looked at, and how long after its closing that was, in seconds."""

    rows: int
    after: float


class LateReadings:
    """What the newest steps of each stream had when they were last looked at."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._file: Path | None = None
        self._clock = clock
        self._seen: dict[str, dict[int, Seen]] = {}

    def recall(self, file: Path) -> None:
        """Write to this file from now on, and take up what an earlier run has seen."""
        if self._file != file:
            self._file = file
            for line in read_tail(file):
                self._recall(line)

    def note(self, channel: Channel, step: int, answer: Answer) -> None:
        """Note what one step holds now, and tell the operator, with how much of it came since the last look."""
        assert self._file is not None
        rows = answer.tallies["rows"] - answer.tallies["bad_time"]
        after = self._clock() - channel.published_at(step) / 1e6
        known = self._seen.setdefault(channel.name, {})
        line: dict[str, object] = {"event": ARRIVED, "stream": channel.name, "step": step, "rows": rows}
        line["after_s"] = round(after, 3)
        if (before := known.get(step)) is not None:
            line |= {"late": max(0, rows - before.rows), "since_s": round(before.after, 3)}
        write_operator(self._file, int(self._clock() * 1_000_000), line)
        known[step] = Seen(rows, after)
        for old in [k for k in known if k <= step - 2 * LOOKS[-1]]:
            del known[old]

    def find_looks(self, channel: Channel, done: int) -> list[int]:
        """Return which closed steps of a stream are to be looked at again, once step `done` is closed."""
        known = self._seen.get(channel.name, {})
        return [done - back for back in LOOKS if done - back in known]

    def look_again(
        self,
        channel: Channel,
        done: int,
        open_source: Callable[[Channel, Question], Engine | None],
        stop: Callable[[], bool],
    ) -> None:
        """Count what has come late for closed steps; what cannot be read now is looked at later."""
        for step in self.find_looks(channel, done):
            if stop():
                return
            question = channel.question(step, step)
            try:
                answer = _look(partial(open_source, channel, question), question, stop)
            except (InvalidInput, Interrupted, NoRoom, Left):
                return
            if answer is not None:
                self.note(channel, step, answer)

    def _recall(self, line: bytes) -> None:
        """Take up what an earlier run saw; any other line, and one that was cut off, is passed over."""
        if b'"arrived"' not in line:
            return
        try:
            data: Mapping[str, Any] = json.loads(line)
            seen = Seen(int(data["rows"]), float(data["after_s"]))
            stream, step = str(data["stream"]), int(data["step"])
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
            return
        self._seen.setdefault(stream, {})[step] = seen


def _look(open_source: Callable[[], Engine | None], question: Question, stop: Callable[[], bool]) -> Answer | None:
    """Answer a question; None if nothing has arrived. When it is time to stop it is left, so that no look delays a step."""
    opened: list[Engine] = []

    def look() -> Answer | None:
        engine = open_source()
        if engine is None:
            return None
        with closing(engine):
            opened.append(engine)
            return engine.aggregate(question)

    said = 0

    def is_left() -> (
        bool
    ):  # it is broken off first, which is said until it is heard: between two queries an engine hears nothing
        nonlocal said
        if stop():
            said += 1
            for engine in opened:
                with suppress(Exception):  # it has ended meanwhile
                    engine.interrupt()
        return said > HEARD

    return do_unless(look, is_left)
