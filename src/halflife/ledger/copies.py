"""Copies of ledgers by their addresses: made while others publish, and put in the place of one that is lost or older."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from halflife.ledger.address import ledger_file
from halflife.ledger.base import Batch
from halflife.ledger.guard import Guard, Shown
from halflife.ledger.postgresql.url import read_server
from halflife.ledger.sqlite import copying as sqlite
from halflife.libpq import is_server
from halflife.numerics.progress import Progress


class _Copying(Protocol):
    folder: Path

    def copy_to(self, file: Path, progress: Progress) -> None: ...

    def replace_by(self, copy: Path, shown: Shown) -> None: ...


class HeldPlace(NamedTuple):
    """The place of a ledger that nobody writes to. `folder`: a private one, for a copy that shall lie there."""

    folder: Path
    copying: _Copying

    def put(self, copy: Path, newest: Batch) -> None:
        """Put a copy from the folder in the place; if nothing there says what was shown, all up to the batch `newest` was."""
        self.copying.replace_by(copy, Shown(newest.last, newest.link))


def copy_ledger(url: str | Path, file: Path, progress: Progress = lambda what, done, total: None) -> None:
    """Write all that a ledger holds now into a new file, which `open_ledger` opens; whoever publishes is not kept waiting."""
    if isinstance(url, str) and is_server(url):
        from halflife.ledger.postgresql.copying import Copying

        Copying(read_server(url)).copy_to(file, progress)
    else:
        sqlite.Copying(ledger_file(url)).copy_to(file, progress)


@contextmanager
def hold_place(url: str | Path, wait: float = 10.0) -> Iterator[HeldPlace]:
    """Keep writers away from an address while this block runs, and give a private folder for a copy that shall lie there."""
    if isinstance(url, str) and is_server(url):
        from halflife.ledger.postgresql.copying import Copying

        copying = Copying(read_server(url))
        with copying.hold(wait):
            yield HeldPlace(copying.folder, copying)
    else:
        file = sqlite.Copying(ledger_file(url))
        with file.hold(wait):
            yield HeldPlace(file.folder, file)


def declare_shown(copy: Path, newest: Batch) -> None:
    """Write beside a copy in that folder that all of it was shown, so that it can be gone on with."""
    Guard(copy).write(Shown(newest.last, newest.link))


def find_guard(url: str | Path) -> Guard:
    """Return the guard of an address, whether there is a ledger or not."""
    if isinstance(url, str) and is_server(url):
        server = read_server(url)
        return Guard(server.beside, server.name)
    return Guard(ledger_file(url))
