"""Where a ledger is: the path of a file, `sqlite:///` before one, or `postgresql://` and a server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from halflife.errors import InvalidInput, unknown
from halflife.ledger.postgresql.url import ENDINGS, read_server
from halflife.ledger.sqlite.connect import FILES
from halflife.libpq import is_server

SQLITE = "sqlite:///"


def ledger_file(url: str | Path) -> Path:
    """Return the path of the file that an address means; after `sqlite:///` it is relative unless it begins with a slash.

    >>> [str(ledger_file(url)) for url in ("town.ledger", "sqlite:///town.ledger", "sqlite:////srv/town.ledger")]
    ['town.ledger', 'town.ledger', '/srv/town.ledger']
    """
    text = os.fspath(url)
    kind, address, rest = text.partition("://")
    if not isinstance(url, Path) and not address and text.startswith(("postgres:", "postgresql:")):
        raise InvalidInput(
            "a ledger's address lacks a slash, and is not shown: write postgresql://HOST/DATABASE?schema=NAME"
        )
    if not address or isinstance(url, Path):
        return Path(text)
    if is_server(url):
        server = rest.split("?")[0].split("/")[0].rpartition("@")[2]  # not what stands before @: a password
        raise InvalidInput(f"{kind}://{server}: a ledger on a server, where the file of one is needed: give its path")
    if not text.startswith(SQLITE) or text == SQLITE:
        raise unknown("kind of ledger", f"{kind}://", (SQLITE + "FILE", "postgresql://HOST/DATABASE", "a path"))
    return Path(text.removeprefix(SQLITE))


def resolve_ledger(url: str, path: Callable[[str], Path]) -> str:
    """Return an address that does not depend on where it stands: `path` works out what a relative path starts from."""
    if is_server(url):
        server = read_server(url)
        return server._replace(folder=path(str(server.folder))).url()
    return str(path(str(ledger_file(url))))


def name_ledger(url: str | Path) -> str:
    """Return what messages call the ledger at an address: its path, or where it is on a server, without the user.

    >>> name_ledger("town.ledger"), name_ledger("postgresql://me@db/town?schema=s&lease=5")
    ('town.ledger', 'postgresql://db/town?schema=s')
    """
    return read_server(url).name if isinstance(url, str) and is_server(url) else str(url)


def ledger_exists(url: str | Path) -> bool:
    """Return whether there is a ledger, or what may be one, at an address."""
    if isinstance(url, str) and is_server(url):
        from halflife.ledger.postgresql.places import exists

        return exists(read_server(url))
    return ledger_file(url).is_file()


def ledgers_beside(url: str | Path) -> list[str]:
    """Return the addresses of what look like other ledgers beside one: in its folder, or on a server in its database."""
    if isinstance(url, str) and is_server(url):
        from halflife.ledger.postgresql.places import find_neighbours

        return find_neighbours(read_server(url))
    return _files_beside(url)


def _files_beside(url: str | Path) -> list[str]:
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
    return sorted(found - {own})


def ledger_files(url: str | Path) -> list[str]:
    """Return every file that a ledger at this address has or may have; if it is a link, those beside what it leads to."""
    if isinstance(url, str) and is_server(url):
        beside = os.path.realpath(read_server(url).beside)
        return [beside + ending for ending in ENDINGS]
    return ledger_names(os.path.realpath(ledger_file(url)))


def ledger_plans(url: str | Path) -> str:
    """Return the file beside a ledger in which solutions of its plans are kept, whether it is there or not."""
    return next(file for file in ledger_files(url) if file.endswith(".plans"))


def ledger_scratch(url: str | Path) -> Path:
    """Return the folder for files that are written while a source is read, whether it is there or not."""
    if isinstance(url, str) and is_server(url):
        return read_server(url).folder
    return Path(os.path.realpath(ledger_file(url))).parent


def ledger_names(name: str) -> list[str]:
    """Return the names of all files that a ledger of this name has or may have in its folder.

    >>> ledger_names("town.ledger")[:2]
    ['town.ledger', 'town.ledger-wal']
    """
    return [name + ending for ending in FILES]
