"""Writing files durably: appended and synced to disk, or replaced as a whole; with errors that say what to do next."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from halflife.errors import InvalidInput

TEMPORARY = ".halflife-tmp"
MAGIC = b"PAR1"
"""How every Parquet file begins."""


@contextmanager
def name_failures(path: Path, done: str) -> Iterator[None]:
    """Turn the system's error into one that names the file and the next step."""
    try:
        yield
    except OSError as problem:
        raise InvalidInput(
            f"{path} cannot be {done}: {problem.strerror or problem}. Nothing is lost, as the ledger holds every"
            " published step: make room, or correct the path or its permissions, and run again"
        ) from problem


def check_regular(path: Path) -> None:
    """Refuse a folder, pipe or device where a file belongs."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise InvalidInput(f"{path} is {kind}: give the output another name, or end it with / for a folder of parts")


def check_place(path: Path) -> None:
    """Raise what the system would if a file were made at a path, or an old one opened to be written; nothing is made."""
    if path.is_file():
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))
        return
    above = next(folder for folder in (path, *path.parents) if folder.exists())
    if not above.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(above, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last through a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Create a folder and those above it that are missing."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    for f in reversed(missing):
        f.mkdir(exist_ok=True)
        sync_folder(f.parent)


def append(path: Path, size: int, block: bytes) -> None:
    """Append a block to a file that is still `size` bytes long, and wait until it is on disk.

    A write that failed part way leaves the file longer, so that the next one is refused until the output is opened again,
    which cuts the file back to whole steps.
    """
    with name_failures(path, "written"):
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)  # no pipe is waited for
        try:
            found = os.fstat(fd).st_size
            if found != size:
                raise InvalidInput(
                    f"{path} has {found} bytes where this run left {size}: a write failed or someone else wrote to it;"
                    " open the output again, which checks it"
                )
            rest = memoryview(block)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        finally:
            os.close(fd)


def temporary_of(path: Path) -> Path:
    """Return where a file is written before it replaces `path`: the same folder, so that the replacing is atomic."""
    return path.with_name(f".{path.name}{TEMPORARY}")


def sha256_of(file: BinaryIO) -> bytes:
    """Return the digest of all bytes of a file."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").digest()  # type: ignore[arg-type]


def replace(path: Path, fill: Callable[[BinaryIO], None], record: Callable[[bytes], None]) -> None:
    """Write a file whole. Whenever this stops, `path` is either what it was or the new file, whose digest was recorded before."""
    temporary = temporary_of(path)
    with name_failures(path, "written"), open(temporary, "x+b") as file:
        try:
            fill(file)
            file.flush()
            os.fsync(file.fileno())
            record(sha256_of(file))
            if path.exists():
                shutil.copymode(path, temporary)
            os.replace(temporary, path)
        except Exception:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def clear_leftover(temporary: Path) -> None:
    """Remove what a crash left of `replace`."""
    if check_leftover(temporary):
        temporary.unlink()


def check_leftover(temporary: Path) -> bool:
    """Return whether a crash left something of `replace`, a file that begins as a Parquet file does; refuse others."""
    if not os.path.lexists(temporary):
        return False
    ours = temporary.is_file() and not temporary.is_symlink()
    if ours:
        with open(temporary, "rb") as file:
            ours = MAGIC.startswith(file.read(len(MAGIC)))
    if not ours:
        raise InvalidInput(f"{temporary} is in the way and not a file that a crash left here: move it, and run again")
    return True
