"""What has arrived in a folder when a step is closed: the files that may hold readings of it, and those that cannot be read.

A publisher that follows a folder looks at it step after step, for years. It remembers of each file which stretch of time its
readings lie in, for as long as the file is the same (place, size and time of change), so that a step costs what has arrived for
it and not all that ever did.

**A file that cannot be read has not arrived**: one that is half written, damaged or of other columns is left out, the operator is
told, and it is looked at again: when it changes, and if the disk or the memory failed, at the next look. So no content stops a
run, or decides when a step is published; and no file decides whether another one counts.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from halflife.engines import Engine, Question, open_source
from halflife.engines.base import bounds_of_times
from halflife.engines.duckdb.engine import DuckEngine
from halflife.engines.duckdb.files import DATABASES, Unreadable, find_files, guess_format
from halflife.engines.duckdb.source import NotEnoughMemory
from halflife.errors import InvalidInput, SourceUnreachable
from halflife.policy import Channel, Policy
from halflife.publisher.leaving_behind import Left, do_unless

T = TypeVar("T")

TOGETHER = 64
"""So many files that nobody has looked at are looked at together."""
LOOKED_AT = 3
"""Of so many files one must be readable when a publisher starts."""
ANSWERED = 60.0
"""Seconds in which a disk must say which files it has: a dead one of another machine may never."""
SETTLED = 2.0
"""Seconds that a file must have been left alone before what it holds is remembered: clocks of file systems are coarse."""

Stamp = tuple[str, int, int, int, int, int]
"""A file as it is: its path, device, number, size, and the times at which its content and its entry (mode, name) changed."""


class Extent(NamedTuple):
    """The earliest and the latest time of a file's readings by their own clock, in µs; none where no reading has one."""

    earliest: int = 1
    latest: int = 0

    def meets(self, question: Question) -> bool:
        """Whether a reading may lie in the steps of a question."""
        earliest, latest = bounds_of_times(question)
        return self.earliest <= latest and self.latest >= earliest


class Seen(NamedTuple):
    """The files of a stream's source when they were last looked at: which stretch of time each is about, and what opens them."""

    extents: dict[Path, Extent | None]
    open_files: Callable[[Sequence[Path]], Engine]


class Arrivals:
    """What is known of the files of each stream's source, as long as they do not change.

    tell  is told of a file that cannot be read, for the operator alone
    """

    def __init__(self, tell: Callable[[str, str], None] = lambda stream, problem: None) -> None:
        self._known: dict[tuple[str, Stamp], Extent | None] = {}
        self._seen: dict[str, Seen] = {}
        self._told: dict[tuple[str, Path], str] = {}
        self.tell = tell

    def open(
        self, policy: Policy, channel: Channel, question: Question, scratch: Path | None = None, *, again: bool = False
    ) -> Engine | None:
        """Open what has arrived for the steps of a question; None if nothing has. A source out of reach is an error.

        again  the files are those that were there when this was last asked: the folder is not looked at once more
        """
        if not again or channel.name not in self._seen:
            files, open_files = _find_source(policy, channel, scratch)
            if files is None:
                return open_files(())
            self._seen[channel.name] = Seen(self._look_at(channel.name, files, question, open_files), open_files)
        extents, open_files = self._seen[channel.name]
        wanted = [file for file, extent in extents.items() if extent is not None and extent.meets(question)]
        return self._open_together(channel.name, wanted, question, open_files)

    def _look_at(
        self, stream: str, files: Sequence[Path], question: Question, open_files: Callable[[Sequence[Path]], Engine]
    ) -> dict[Path, Extent | None]:
        """Return which stretch of time each file is about, None for one that cannot be read; what is gone is forgotten."""
        stamps = _ask_disk(lambda: {file: stamp for file in files if (stamp := _stamp(file)) is not None}, files)
        unknown = [file for file, stamp in stamps.items() if (stream, stamp) not in self._known]
        found: dict[Path, Extent | None] = {}
        passing: set[Path] = set()
        for low in range(0, len(unknown), TOGETHER):
            found |= self._examine(stream, unknown[low : low + TOGETHER], question, open_files, passing)
        made = {file: found[file] if file in found else self._known[stream, stamps[file]] for file in stamps}
        settled = time.time_ns() - int(SETTLED * 1e9)
        self._known = {key: extent for key, extent in self._known.items() if key[0] != stream}
        self._known |= {
            (stream, stamp): made[file] for file, stamp in stamps.items() if stamp[4] < settled and file not in passing
        }
        self._told = {key: said for key, said in self._told.items() if key[0] != stream or key[1] in stamps}
        return made

    def _examine(
        self, stream: str, files: Sequence[Path], question: Question, open_files: Callable[[Sequence[Path]], Engine],
        passing: set[Path],
    ) -> dict[Path, Extent | None]:  # fmt: skip
        """Read files to their end, together if all can be read, and else one by one.

        passing  is given the files that could not be read for a reason that may pass: they are read again at the next look
        """
        try:
            with contextlib.closing(open_files(files)) as engine:
                assert isinstance(engine, DuckEngine)
                extent = Extent(*(engine.find_extent(question) or ()))
            return dict.fromkeys(files, extent)
        except InvalidInput as error:
            if len(files) == 1:
                if isinstance(error, SourceUnreachable | Unreadable | NotEnoughMemory):
                    passing.update(files)
                if not isinstance(error, SourceUnreachable):  # such a file was taken away meanwhile
                    self._tell_once(stream, files[0], str(error))
                return dict.fromkeys(files)
        return {
            f: extent
            for file in files
            for f, extent in self._examine(stream, [file], question, open_files, passing).items()
        }

    def _tell_once(self, stream: str, file: Path, problem: str) -> None:
        """Tell the operator of a file that cannot be read, unless that was said before."""
        if self._told.get((stream, file)) != problem:
            self._told[stream, file] = problem
            self.tell(stream, problem)

    def _open_together(
        self, stream: str, files: Sequence[Path], question: Question, open_files: Callable[[Sequence[Path]], Engine]
    ) -> Engine | None:
        """Open files as one source; if that fails, without those that cannot be opened by themselves or are of another format.

        Nothing else keeps two files apart, as each is read by its own columns and types: so each is opened alone, and once.

        Files that go together, and no longer do a moment later, are written to meanwhile: that says nothing of where they are.
        """
        if not files:
            return None
        with contextlib.suppress(InvalidInput):
            return _open_checked(files, question, open_files)
        kept: list[Path] = []
        for file in files:
            try:
                _open_checked([file], question, open_files).close()
                if guess_format([file]) != guess_format([*kept, file][:1]):
                    raise InvalidInput(
                        f"{file} has another format than {kept[0]}: give each stream files of one format"
                    )
                kept.append(file)
            except InvalidInput as error:
                self._tell_once(stream, file, str(error))
        if guess_format(kept[:1]) in DATABASES:
            kept = kept[:1]
        try:
            return _open_checked(kept, question, open_files) if kept else None
        except InvalidInput as error:
            raise Unreadable(str(error)) from None


def check_arrived(policy: Policy, channel: Channel) -> None:
    """Refuse a source that is there, and cannot be read as the policy says: of files, if none of the last few can."""
    files, open_files = _find_source(policy, channel, None)
    question = channel.question(1, 1)
    problems: list[str] = []
    for some in [()] if files is None else [[file] for file in files[-LOOKED_AT:]]:
        try:
            _open_checked(some, question, open_files).close()
            return
        except SourceUnreachable:
            raise
        except InvalidInput as error:
            problems.append(str(error))
    if problems:
        raise InvalidInput(problems[-1])


def _find_source(
    policy: Policy, channel: Channel, scratch: Path | None
) -> tuple[list[Path] | None, Callable[[Sequence[Path]], Engine]]:
    """Return the files that have arrived, and what opens some of them; None where a source is opened as one, a database."""
    source = channel.part.source
    assert source is not None  # streams without a source are never due
    if source.database is not None:
        return None, lambda some: open_source(source.database, table=source.table, scratch=scratch)
    patterns = [str(policy.path(f)) for f in source.files]
    files = _ask_disk(lambda: _find_arrived(patterns), patterns)
    kind = guess_format(files or patterns, source.format)

    def open_files(some: Sequence[Path]) -> Engine:
        return open_source(
            list(some or files), kind, source.table, columns=source.columns, delimiter=source.delimiter, scratch=scratch
        )

    return (None if kind in DATABASES and files else files), open_files


def _ask_disk(ask: Callable[[], T], places: Sequence[str | Path]) -> T:
    """Return what a disk answers; one that says nothing for long is out of reach, and its thread is left behind."""
    until = time.monotonic() + ANSWERED
    try:
        return do_unless(ask, lambda: time.monotonic() > until)
    except Left:
        pass
    raise SourceUnreachable(f"the disk of {places[0]} has said nothing for {ANSWERED:g} seconds: is it there?")


def _open_checked(files: Sequence[Path], question: Question, open_files: Callable[[Sequence[Path]], Engine]) -> Engine:
    engine = open_files(files)
    try:
        engine.check(question)
    except BaseException:
        engine.close()
        raise
    return engine


def _stamp(file: Path) -> Stamp | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return str(file), about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _find_arrived(patterns: Iterable[str]) -> list[Path]:
    """Return the files that paths and patterns name, sorted; they may not be there yet, but their folder must be."""
    found: dict[Path, None] = {}
    for pattern in patterns:
        if os.path.lexists(pattern):
            found |= dict.fromkeys(find_files([pattern]))
        else:
            _check_folder(pattern)
            with contextlib.suppress(InvalidInput):
                found |= dict.fromkeys(_regular(pattern))
    return list(found)


def _regular(pattern: str) -> Iterator[Path]:
    return (Path(path) for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path))


def _check_folder(pattern: str) -> None:
    """Refuse a path or pattern whose fixed part names no folder that can be read."""
    parts = Path(pattern).parts
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    folder = Path(*parts[:fixed])
    try:
        os.scandir(folder).close()
    except OSError as error:
        raise SourceUnreachable(
            f"the folder {folder} cannot be read: {error.strerror or error}: is its disk there?"
        ) from None
