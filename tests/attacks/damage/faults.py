"""A machine that fails: calls that raise, a disk that is full, a process that dies, a run that hangs."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import sqlite3
import stat
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from halflife.publisher import checkpoints

CALLS = ("write", "pwrite", "fsync", "ftruncate", "replace", "rename", "link", "unlink", "open")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
SECONDS = 8
"""After which a run counts as hanging."""


class Killed(BaseException):
    """The process died here: nothing of it is written any more."""


class Hung(BaseException):
    """It waited for what never came."""


class Failing:
    """System calls and statements, of which the n-th raises: once, from then on, or as if the process were killed."""

    def __init__(self, n: int, kind: str) -> None:
        self.left, self.kind = n, kind
        self.error = errno.ENOSPC if kind != "broken" else errno.EIO

    def passes(self) -> bool:
        """Count a call, and say whether it goes through."""
        self.left -= 1
        return self.left > 0 or (self.left < 0 and self.kind == "once")

    def system_call(self, name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if name == "open" and not (len(arguments) > 1 and arguments[1] & WRITING):
                return real(*arguments, **named)
            if not self.passes():
                if self.kind == "killed":
                    raise Killed
                raise OSError(self.error, os.strerror(self.error))
            return real(*arguments, **named)

        return call

    def connection(self) -> type[sqlite3.Connection]:
        failing = self

        class Connection(sqlite3.Connection):
            def execute(self, *arguments: Any) -> Any:
                failing.statement()
                return super().execute(*arguments)

            def executemany(self, *arguments: Any) -> Any:
                failing.statement()
                return super().executemany(*arguments)

        return Connection

    def statement(self) -> None:
        if not self.passes():
            if self.kind == "killed":
                raise Killed
            raise sqlite3.OperationalError(
                "database or disk is full" if self.error == errno.ENOSPC else "disk I/O error"
            )


@contextmanager
def failing_calls(draw: random.Random, kind: str | None = None):
    """Let a random system call or statement fail; yield what will."""
    kind = kind or draw.choice(("once", "full", "broken", "killed", "killed"))
    n = draw.randrange(1, 70)
    failing = Failing(n, kind)
    real = {name: getattr(os, name) for name in CALLS}
    connect, connection = sqlite3.connect, failing.connection()
    for name in CALLS:
        setattr(os, name, failing.system_call(name))
    sqlite3.connect = lambda *a, **k: connect(*a, **{"factory": connection, **k})
    try:
        yield f"call {n} fails: {kind}"
    finally:
        sqlite3.connect = connect
        for name, call in real.items():
            setattr(os, name, call)


@contextmanager
def full_disk(draw: random.Random):
    """No file grows beyond a random size: every write beyond it fails, SQLite's too."""
    limit = draw.choice((0, 20, 60, draw.randrange(100, 2000), draw.randrange(2000, 60_000)))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    heard = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield f"files end at {limit} bytes"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, heard)


@contextmanager
def in_the_middle(point: str, what: Callable[[], None]):
    """Do something when the publisher passes a point."""
    done = []

    def passing(name: str) -> None:
        if name == point and not done:
            done.append(name)
            what()

    before, checkpoints.reach = checkpoints.reach, passing
    try:
        yield
    finally:
        checkpoints.reach = before


@contextmanager
def no_hanging(folder: Path):
    """Raise Hung after some seconds. Whoever waits for a pipe is woken first, so that threads end too."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    alarms = 0

    def wake() -> None:
        """Open every pipe for an instant: whoever waits for its other end, in C too, goes on."""
        for path in folder.rglob("*"):
            if stat.S_ISFIFO(path.lstat().st_mode):
                os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))

    def heard(*_: object) -> None:
        nonlocal alarms
        alarms += 1
        if alarms == 2:
            raise Hung

    before = signal.signal(signal.SIGALRM, heard)
    signal.setitimer(signal.ITIMER_REAL, SECONDS, 1)
    timer = threading.Timer(SECONDS, wake)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if alarms:
            raise Hung
