"""What a person or a log sees while a command runs: words, a bar with rates, events as JSON lines, and a clean end when asked.

All words go through `say` and `screen`, which show control characters instead of sending them: names of columns, groups and files
come from anywhere, and a terminal obeys what it is sent. Nothing that is said on stderr can stop a run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from halflife.errors import InvalidInput, visible
from halflife.outputs.text import abandon

if TYPE_CHECKING:
    from rich.console import Console


IN_A_LOG = 200
"""How wide tables may be where nobody's window says it: a log wraps nothing, and a cell that is cut is lost."""


def say(text: str, err: bool = False) -> None:
    """Print a text; on stderr if that can be written, and else nowhere."""
    try:
        click.echo(visible(text), err=err)
    except (OSError, ValueError) as error:
        if not err:
            raise _stdout_failed(error) from error
        abandon(sys.stderr)


def screen(stderr: bool = False) -> Console:
    """Return where tables are printed: names in them are text, neither markup nor control codes.

    A stdout that cannot be written is an error; a stderr is not, as nothing that is said there may stop a run.
    """
    from rich.console import Console
    from rich.text import Text

    class Screen(Console):
        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(visible(text), **options)

        def print(self, *objects: Any, **options: Any) -> None:
            try:
                super().print(*objects, **options)
            except (OSError, ValueError) as error:
                if not stderr:
                    raise _stdout_failed(error) from error
                abandon(sys.stderr)

    there = sys.stderr if stderr else sys.stdout
    wide = None if there.isatty() or "COLUMNS" in os.environ else IN_A_LOG
    return Screen(stderr=stderr, markup=False, highlight=False, width=wide)


def _stdout_failed(error: OSError | ValueError) -> InvalidInput:
    """The error for a stdout that cannot be written, which is let go of."""
    abandon(sys.stdout)
    if isinstance(error, BrokenPipeError):
        return InvalidInput("stdout was closed before everything was written to it")
    why = getattr(error, "strerror", None) or error
    return InvalidInput(f"stdout cannot be written: {why}: give it somewhere to go, and run it again")


def prepare_streams() -> None:
    """Make the standard streams safe to write to, whatever they were started with.

    A closed one is opened on nothing, so that no ledger or output becomes file number 1 or 2, where libraries write what they
    have to say. What a stream's encoding cannot write is written as \\x…, and does not end a run.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def explain_failure(error: OSError) -> str:
    """Say what the system refused that nobody has explained yet, and what to do."""
    if error.filename is None:
        abandon(sys.stdout)
    what = "something" if error.filename is None else error.filename
    return f"{what} cannot be read or written: {error.strerror or error}: check permissions and room on the disk"


def write_whole(path: Path, text: str, *, anew: bool = False) -> None:
    """Write a file that is there whole or not at all, whenever this is stopped; `anew`: refuse to replace one."""
    place = Path(os.path.realpath(path))
    try:
        if place.exists() and not place.is_file() and not anew:
            place.write_text(text, encoding="utf-8")  # a pipe or device, such as /dev/stdout, is not to be replaced
            return
        number, name = tempfile.mkstemp(prefix=f".{place.name[:100]}.", dir=place.parent)
        try:
            with open(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(number)
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
            _put(name, place, anew)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
    except FileExistsError:
        raise InvalidInput(f"{path} is there already: give another --out, or move it away") from None
    except OSError as error:
        why = error.strerror or error
        hint = "" if place.parent.is_dir() else f": there is no folder {place.parent}: make it, or give another path"
        raise InvalidInput(f"{path} cannot be written: {why}{hint}") from None


def _put(name: str, path: Path, anew: bool) -> None:
    """Give a file its name; `anew`: by a second link, which fails if the name is taken."""
    if not anew:
        os.replace(name, path)
        return
    try:
        os.link(name, path)
    except FileExistsError:
        raise
    except OSError:  # a disk without links
        if os.path.lexists(path):
            raise FileExistsError from None
        os.replace(name, path)


class Stop:
    """Whether somebody asked for an end, and by which signal."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        """Return whether somebody did."""
        return self.signal is not None


@contextmanager
def catch_stop_signals() -> Iterator[Stop]:
    """Let SIGTERM and Ctrl-C ask for an end, and give what says whether they did."""
    import signal

    asked = Stop()

    def ask(number: int, frame: object) -> None:
        asked.signal = number
        signal.signal(number, known[signal.Signals(number)])  # asked a second time, it ends at once

    known = {s: signal.signal(s, ask) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for s, handler in known.items():
            signal.signal(s, handler)


@contextmanager
def catch_reload_signal(wanted: bool) -> Iterator[Callable[[], bool]]:
    """Let SIGHUP ask for the policy to be read again, if wanted, and give what says whether it did since that was last asked.

    However many signals there were, they are one request.
    """
    import signal

    if not wanted:
        yield lambda: False
        return
    asked: set[int] = set()
    before = signal.signal(signal.SIGHUP, lambda number, frame: asked.add(number))

    def take() -> bool:
        if not asked:
            return False
        asked.clear()  # a signal from here on is followed too, as the file is read after this
        return True

    try:
        yield take
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def event_log(sentences: bool = False) -> Iterator[None]:
    """Without a terminal, write each event as a JSON line to stderr; to one as a sentence, if asked to, and else nothing.

    Nothing in it depends on a reading.
    """
    import datetime
    import logging

    if sys.stderr.isatty() and not sentences:
        yield
        return

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            fields = getattr(record, "fields", {})
            if sentences:
                told = ", ".join(f"{key} {value}" for key, value in fields.items())
                say(
                    f"{datetime.datetime.now():%H:%M:%S}  {record.getMessage()}" + (f": {told}" if told else ""),
                    err=True,
                )
                return
            line = {"time": now, "level": record.levelname.lower(), "event": record.getMessage(), **fields}
            say(json.dumps(line), err=True)

    logger, handler = logging.getLogger("halflife.publisher"), Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def progress_bar(rate: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr when somebody watches, with a rate and an estimate if asked for; it gives the function that moves it."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    there = screen(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
    if rate:
        speed = TextColumn("{task.fields[speed]}")
        columns += [MofNCompleteColumn(), speed, TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, console=there, transient=True, disable=not there.is_terminal) as bar:
        task = bar.add_task("starting", total=None, speed="")

        def show(what: str, done: int, total: int) -> None:
            per_second = bar.tasks[0].speed
            speed = f"{per_second:,.0f} {rate}/s" if per_second else ""
            bar.update(task, description=visible(what), completed=done, total=total or None, speed=speed)

        yield show
