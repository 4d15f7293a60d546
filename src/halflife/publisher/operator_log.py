"""The operator's file: counts of late, clipped and bad readings, and how runs ended. Private; such counts stand nowhere else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from halflife.errors import HalflifeError, InvalidInput, LedgerUnavailable
from halflife.ledger.base import OPERATOR_FILES
from halflife.local_time import from_us, parse_time

RUN = "run"
"""The event of a line about a run."""
BEGUN, FINISHED, STOPPED, FAILED = "begun", "finished", "stopped", "failed"
TAIL = 2**20
"""So many bytes at the end of the file are searched for the last run."""
LONGEST = 1_000
"""Characters of an error that are kept."""
LARGEST, KEPT = 10_000_000, len(OPERATOR_FILES) - 1
"""Bytes beyond which the file is put aside, and how many such files are kept."""


def write_operator(path: Path, now_us: int, line: Mapping[str, object]) -> None:
    """Append a line to the ledger's operator file, which only its owner can read; one that has grown large is put aside first."""
    try:
        _rotate(path)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)  # no pipe is waited for
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(json.dumps({"time": from_us(now_us).isoformat(timespec="seconds"), **line}) + "\n")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {error.strerror or error}: make its folder writable") from error


def _rotate(path: Path) -> None:
    """Put a large file aside: PATH becomes PATH.1, that PATH.2, and so on; the oldest is removed.

    Who has it open still writes to it under its new name, so that no line is lost. Of two who put it aside at once the second
    would put a new file aside: so it is looked at once more under a lock, where there may be none yet.
    """
    if not _is_large(path):
        return
    import fcntl

    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _is_large(path):
            for number in range(KEPT - 1, 0, -1):
                with suppress(FileNotFoundError):
                    os.replace(f"{path}.{number}", f"{path}.{number + 1}")
            os.replace(path, f"{path}.1")
    finally:
        os.close(folder)


def _is_large(path: Path) -> bool:
    try:
        return path.stat().st_size >= LARGEST
    except FileNotFoundError:
        return False


# Runs ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One run of `publish`, as the operator's file has it.

    outcome   finished, stopped (as asked), failed, or begun: no end was written, as it goes on or was killed
    steps     how many steps it published, by stream;  error  why it failed
    """

    outcome: str
    began: str | None
    ended: str | None
    steps: Mapping[str, int]
    error: str | None


class RunRecord:
    """Writes when a run begins and how it ends. What cannot be written here stops no run, and hides no error."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._began: str | None = None
        self.steps: Mapping[str, int] = {}

    def begin(self) -> None:
        """Write that the run has begun: whoever finds no end after it knows that it was killed."""
        with suppress(Exception):
            self._began = self._now()
            self._write({"outcome": BEGUN})

    @contextmanager
    def watch(self, stopped: Callable[[], bool]) -> Iterator[None]:
        """Write how the block ends: by an error, as asked, or finished; nothing of a run that never got hold of its ledger."""
        try:
            yield
        except BaseException as error:
            if self._began is None and isinstance(error, LedgerUnavailable):
                raise  # whoever holds it writes how that run ends
            # other errors may quote what a driver or a parser has read
            why = str(error) if isinstance(error, HalflifeError) else type(error).__name__
            with suppress(Exception):
                self._write({"outcome": FAILED, "ended": self._now(), "error": why[:LONGEST]})
            raise
        with suppress(Exception):
            self._write({"outcome": STOPPED if stopped() else FINISHED, "ended": self._now()})

    def _now(self) -> str:
        return from_us(int(self._clock() * 1_000_000)).isoformat(timespec="seconds")

    def _write(self, line: Mapping[str, object]) -> None:
        known = {"event": RUN, "began": self._began, **line, "steps": dict(self.steps)}
        write_operator(self._path, int(self._clock() * 1_000_000), known)


def read_last_run(path: Path) -> Run | None:
    """Return the last run that the operator's file tells of; None if there is none, or the file cannot be read."""
    return next((run for run in map(_read_run, reversed(read_tail(path))) if run is not None), None)


def read_tail(path: Path) -> list[bytes]:
    """Return the last lines of the operator's file, oldest first, also of the one that was put aside last; none if it cannot be
    read."""
    return [*_read_end(Path(f"{path}.1")), *_read_end(path)]


def _read_end(path: Path) -> list[bytes]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return []
        return os.pread(file, TAIL, max(0, found.st_size - TAIL)).splitlines()
    except OSError:
        return []
    finally:
        os.close(file)


def _read_run(line: bytes) -> Run | None:
    """A run from its line; None for any other line, whatever stands in it."""
    if b'"run"' not in line:
        return None
    try:
        data = json.loads(line)
        if data["event"] != RUN or data["outcome"] not in (BEGUN, FINISHED, STOPPED, FAILED):
            return None
        began, ended, error = (data.get(key) for key in ("began", "ended", "error"))
        for moment in (began, ended):
            if moment is not None:
                parse_time(moment)
        steps = {str(name): int(count) for name, count in data["steps"].items()}
    except (HalflifeError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None
    return Run(data["outcome"], began, ended, steps, None if error is None else str(error))
