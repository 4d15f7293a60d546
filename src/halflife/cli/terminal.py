"""What a person or a log sees while a command runs: a bar with rates, events as JSON lines, and a clean end when asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def stopping() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM and Ctrl-C ask for an end, and give the function that says whether they did."""
    import signal

    asked: list[int] = []

    def ask(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(number, known[signal.Signals(number)])  # asked a second time, it ends at once

    known = {s: signal.signal(s, ask) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for s, handler in known.items():
            signal.signal(s, handler)


@contextmanager
def event_log() -> Iterator[None]:
    """Without a terminal, write each event as a JSON line to stderr. Nothing in it depends on a reading."""
    import datetime
    import logging
    import sys

    if sys.stderr.isatty():
        yield
        return

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            click.echo(
                json.dumps({"time": now, "event": record.getMessage(), **getattr(record, "fields", {})}), err=True
            )

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
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    screen = Console(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if rate:
        speed = TextColumn("{task.fields[speed]}")
        columns += [MofNCompleteColumn(), speed, TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("starting", total=None, speed="")

        def show(what: str, done: int, total: int) -> None:
            per_second = bar.tasks[0].speed
            speed = f"{per_second:,.0f} {rate}/s" if per_second else ""
            bar.update(task, description=what, completed=done, total=total or None, speed=speed)

        yield show
