"""A private folder for what an engine must write: parsed readings and what does not fit into memory.

It is removed on closing. A process that is killed cannot remove it, so whoever opens a source or a ledger next in the same place
does. A living process holds a lock in its folder, which ends with it: so it is told from a dead one even if the number of that
was given to another process, or if it lives in another container.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from halflife.errors import HalflifeError, InvalidInput

try:
    import fcntl
except ImportError:  # Windows: nothing tells whether a process lives, so nothing is swept
    fcntl = None  # type: ignore[assignment]

PREFIX = ".halflife-scratch-"
NAME = re.compile(re.escape(PREFIX) + r"(\d+)-\w+")
LOCK = "lock"
OURS = b"a scratch folder of halflife: it is removed when nobody holds this lock\n"
"""What a lock says. A folder without such a lock is somebody else's, whatever its name, and nothing in it is removed."""


NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""How a system says that a disk, or a user's share of it, is full."""


class NoRoom(HalflifeError):
    """The disk that scratch files are written to is full. It says nothing about any reading, and nothing about a source."""

    def __init__(self, label: str, place: Path) -> None:
        super().__init__(
            f"{label} cannot be read now: the disk of {str(place)!r}, where scratch files are kept, is full: make room on it"
        )


class Scratch:
    """A folder of mode 0700 within another, by default the system's temporary one; errors call what is read by a label."""

    def __init__(self, within: Path | None = None, label: str = "the source") -> None:
        place = Path(tempfile.gettempdir()) if within is None else Path(within)
        if not place.is_dir():
            raise InvalidInput(f"no folder {str(place)!r} to keep scratch files in: make it, or choose another")
        sweep(place)
        self.place = place
        with contextlib.ExitStack() as undo:
            try:
                self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-", dir=place)
                undo.callback(self._folder.cleanup)
                self.path = Path(self._folder.name)
                self._lock = _make_lock(self.path)
            except OSError as error:
                if error.errno in NO_ROOM:
                    raise NoRoom(label, place) from None
                raise InvalidInput(f"no scratch folder can be made in {str(place)!r}: {error.strerror}") from None
            undo.pop_all()

    def close(self) -> None:
        """Remove the folder, then let go of its lock, so that nobody else removes it meanwhile."""
        self._folder.cleanup()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _make_lock(folder: Path) -> int:
    """Make a lock that is held before anybody can see it under its name."""
    lock = os.open(folder / f"{LOCK}.new", os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
    _locked(lock)
    os.write(lock, OURS)
    os.rename(folder / f"{LOCK}.new", folder / LOCK)
    return lock


def sweep(place: Path) -> None:
    """Remove the scratch folders of this user's processes that are dead."""
    if fcntl is None:
        return
    for folder in place.glob(f"{PREFIX}*"):
        found = NAME.fullmatch(folder.name)
        with contextlib.suppress(OSError):  # another process sweeps too
            about = folder.lstat()
            if found and stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
                _remove_if_dead(folder, int(found[1]))


def _remove_if_dead(folder: Path, process: int) -> None:
    """Remove a folder whose lock nobody holds; one without a lock, whose process died as it made it, only if it is empty."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        if not _lives(process):
            os.rmdir(folder)
        return
    try:
        if _locked(lock) and os.read(lock, len(OURS) + 1) == OURS:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(lock)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def _locked(number: int) -> bool:
    """Try to lock an open file for as long as it is open; whether it worked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
