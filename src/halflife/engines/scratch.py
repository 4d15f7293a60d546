"""A private folder for what an engine must write: parsed readings and what does not fit into memory.

It is removed on closing. A process that is killed cannot remove it, so whoever opens a source next in the same place does: the
folder's name holds the process, and a lock that ends with the process tells a living one even from another container.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from halflife.errors import InvalidInput

try:
    import fcntl
except ImportError:  # Windows: nothing tells whether a process lives, so nothing is swept
    fcntl = None  # type: ignore[assignment]

NAME = re.compile(r"halflife-(\d+)-\w+")


class Scratch:
    """A folder of mode 0700 within another, by default the system's temporary one."""

    def __init__(self, within: Path | None = None) -> None:
        place = Path(tempfile.gettempdir()) if within is None else Path(within)
        if not place.is_dir():
            raise InvalidInput(f"no folder {str(place)!r} to keep scratch files in: make it, or choose another")
        sweep(place)
        try:
            self._folder = tempfile.TemporaryDirectory(prefix=f"halflife-{os.getpid()}-", dir=place)
        except OSError as error:
            raise InvalidInput(f"no scratch folder can be made in {str(place)!r}: {error.strerror}") from None
        self.path = Path(self._folder.name)
        self._lock = os.open(self.path / "lock", os.O_CREAT | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o600)
        _locked(self._lock)

    def close(self) -> None:
        """Remove the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        self._folder.cleanup()


def sweep(place: Path) -> None:
    """Remove the scratch folders of this user's processes that are dead."""
    if fcntl is None:
        return
    for folder in place.glob("halflife-*"):
        found = NAME.fullmatch(folder.name)
        with contextlib.suppress(OSError):  # another process sweeps too
            about = folder.lstat()
            if found and stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
                _remove_if_dead(folder, int(found[1]))


def _remove_if_dead(folder: Path, process: int) -> None:
    """Remove a folder unless its process lives, here or where process numbers are others: then it holds the lock."""
    with contextlib.suppress(PermissionError, OverflowError):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            if not _held(folder / "lock"):
                shutil.rmtree(folder, ignore_errors=True)


def _held(lock: Path) -> bool:
    try:
        number = os.open(lock, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not _locked(number)
    finally:
        os.close(number)


def _locked(number: int) -> bool:
    """Try to lock an open file for as long as it is open; whether it worked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
