"""Where a ledger is: the path of a file, `sqlite:///` before one, or, one day, a PostgreSQL server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from halflife.errors import InvalidInput, unknown
from halflife.ledger.sqlite.connect import FILES

SQLITE = "sqlite:///"


def ledger_file(url: str | Path) -> Path:
    """Return the path of the file that an address means; after `sqlite:///` it is relative unless it begins with a slash.

    >>> [str(ledger_file(url)) for url in ("town.ledger", "sqlite:///town.ledger", "sqlite:////srv/town.ledger")]
    ['town.ledger', 'town.ledger', '/srv/town.ledger']
    >>> ledger_file("postgresql://server/town")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: postgresql://server: no ledger on a PostgreSQL server is supported yet: give the path of a file
    """
    text = os.fspath(url)
    kind, address, rest = text.partition("://")
    if not address or isinstance(url, Path):
        return Path(text)
    if kind in ("postgresql", "postgres"):
        server = rest.split("/")[0].rpartition("@")[2]  # not what stands before @: a password
        raise InvalidInput(
            f"{kind}://{server}: no ledger on a PostgreSQL server is supported yet: give the path of a file"
        )
    if not text.startswith(SQLITE) or text == SQLITE:
        raise unknown("kind of ledger", f"{kind}://", (SQLITE + "FILE", "a path"))
    return Path(text.removeprefix(SQLITE))


def resolve_ledger(url: str, path: Callable[[str], Path]) -> str:
    """Return an address that does not depend on where it stands: `path` works out what a relative path starts from."""
    return str(path(str(ledger_file(url))))


def ledger_exists(url: str | Path) -> bool:
    """Return whether there is a ledger, or what may be one, at an address."""
    return ledger_file(url).is_file()


def ledgers_beside(url: str | Path) -> list[Path]:
    """Return the files in a ledger's folder that look like other ledgers: those that a ledger's lock or mark lies beside.

    No file is opened: whoever closes a file of an SQLite database lets go of all locks that its own process has on it (POSIX),
    and with them of what keeps other programs from truncating what it has mapped.

    Links are followed: those in the folder, and the ledger itself: then the folder of the link is searched, and that of its file.
    """
    named, own = os.path.abspath(ledger_file(url)), os.path.realpath(ledger_file(url))
    found = set()
    for place in {os.path.realpath(os.path.dirname(named)), os.path.dirname(own)}:
        with contextlib.suppress(OSError), os.scandir(place) as folder:
            for item in folder:
                path = os.path.realpath(item.path)
                if os.path.isfile(path) and any(os.path.lexists(path + ending) for ending in (".lock", ".shown")):
                    found.add(path)
    return [Path(path) for path in sorted(found - {own})]


def ledger_files(url: str | Path) -> list[str]:
    """Return every file that a ledger at this address has or may have; if it is a link, those beside what it leads to."""
    return ledger_names(os.path.realpath(ledger_file(url)))


def ledger_names(name: str) -> list[str]:
    """Return the names of all files that a ledger of this name has or may have in its folder.

    >>> ledger_names("town.ledger")[:2]
    ['town.ledger', 'town.ledger-wal']
    """
    return [name + ending for ending in FILES]
