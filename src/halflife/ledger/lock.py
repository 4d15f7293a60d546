"""Who may write to a ledger: one process at a time, by `flock` on a file beside it, which a process that dies lets go of.

The file's text says who writes, for those who wait. It is a courtesy, not a state: nothing is decided by it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from halflife.errors import LedgerError, LedgerUnavailable
from halflife.ledger.system import name_file_faults

PATIENCE = 0.005


class Lock:
    """The lock of a ledger, which messages call `name`. It lies beside the path that is given; links to that are followed."""

    def __init__(self, ledger: Path, name: str | None = None) -> None:
        self.name, self._file = str(ledger) if name is None else name, f"{os.path.realpath(ledger)}.lock"
        try:
            import fcntl
        except ImportError:  # Windows
            raise LedgerError(
                f"{self.name}: this system has no `flock`, which keeps two publishers from drawing noise for one step: use the "
                "ledger on Linux or macOS"
            ) from None
        self._fcntl = fcntl

    @contextmanager
    def exclusive(self, wait: float, stop: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock alone, waiting up to so many seconds; those who wait are told who holds it."""
        lock = self._open(os.O_RDWR | os.O_CREAT)
        try:
            self._take(lock, self._fcntl.LOCK_EX, wait, stop)
            self._sign(lock)
            try:
                yield
            finally:
                with suppress(OSError):  # a name that stays is not believed once its process is gone
                    os.ftruncate(lock, 0)
        finally:
            self._close(lock)

    @contextmanager
    def shared(self, wait: float) -> Iterator[None]:
        """Keep writers away for a moment. A copy of a ledger without a lock has no writers."""
        if not os.path.lexists(self._file):
            yield
            return
        lock = self._open(os.O_RDONLY | os.O_NONBLOCK)
        try:
            self._take(lock, self._fcntl.LOCK_SH, wait, lambda: False)
            yield
        finally:
            self._close(lock)

    def holder(self) -> str | None:
        """Return who has signed the lock and still lives, None if nobody; it is read, not tried."""
        try:
            lock = os.open(self._file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        try:
            return _signed(lock)
        finally:
            os.close(lock)

    @name_file_faults("its lock cannot be opened")
    def _open(self, access: int) -> int:
        return os.open(self._file, access | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    @name_file_faults("its lock cannot be closed")
    def _close(self, lock: int) -> None:
        os.close(lock)

    @name_file_faults("its lock cannot be written")
    def _sign(self, lock: int) -> None:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode(), 0)

    @name_file_faults("its lock cannot be taken")
    def _try(self, lock: int, kind: int) -> bool:
        try:
            self._fcntl.flock(lock, kind | self._fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _take(self, lock: int, kind: int, wait: float, stop: Callable[[], bool]) -> None:
        end = time.monotonic() + wait
        while not self._try(lock, kind):
            if stop():
                raise LedgerError(f"{self.name}: stopped while waiting for another process")
            if time.monotonic() >= end:
                raise LedgerUnavailable(
                    f"{self.name}: held by {_holder(lock)} after waiting {wait:g} s: let it finish, stop it, or wait longer"
                )
            time.sleep(PATIENCE)


def _holder(lock: int) -> str:
    """Who has signed the lock, if that process lives; a reader does not sign, and holds it for a moment only."""
    return _signed(lock) or "another process"


def _signed(lock: int) -> str | None:
    """What the lock's text says, if that process lives."""
    with suppress(OSError):
        found = re.match(rb"process (\d{1,9}) since [-:\d ]{19}", os.pread(lock, 200, 0))
        if found and _lives(int(found[1])):
            return found[0].decode()
    return None


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
