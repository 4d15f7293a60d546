"""`backup`: a whole copy of a policy's ledger, with the policy and its public tables, in a new folder, while others may publish.

    manifest.json     what the backup holds: entries, events, the newest hash, each stream's newest step, SHA-256 of every file
    ledger.sqlite     all that was committed at one moment; noise that is kept to be used again stays sealed in it
    policy.yaml       the policy, byte for byte
    tables/           the public tables and files that it names

It is made under another name and renamed when it is whole, synced, and its chain of hashes was walked. The key to kept noise is
never in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Ledger, Mark, Marks, open_ledger
from halflife.ledger.copies import copy_ledger
from halflife.local_time import from_us
from halflife.numerics.checked import parse_checked, write_checked
from halflife.numerics.forms import read_form
from halflife.numerics.progress import Progress
from halflife.numerics.syncing import sync
from halflife.policy import GivenPolicy, Policy
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.verification import find_broken_link

MANIFEST, LEDGER, POLICY, TABLES = "manifest.json", "ledger.sqlite", "policy", "tables"
FORMAT = "halflife.backup"
KEYS = ("halflife", "at", "mark", "key", "policy", "tables", "files")


@dataclass(frozen=True)
class Backup:
    """A backup: what its manifest says.

    folder    where it lies; of a copy that was made otherwise, the ledger's file
    at        when it was made
    mark      of which ledger it is, how many entries and events it holds, the newest hash, and each stream's newest step
    key       the fingerprint of the key that its kept noise is sealed with, which is not in it; None if it keeps none
    policy    the file with the policy;  tables  those with its public tables, by the names that the policy has for them
    files     SHA-256 of every file, by its name in the folder
    """

    folder: Path
    halflife: str
    at: str
    mark: Mark
    key: str | None
    policy: str
    tables: Mapping[str, str]
    files: Mapping[str, str]

    @property
    def ledger(self) -> Path:
        """The file with the ledger."""
        return self.folder / LEDGER if self.files else self.folder

    def to_dict(self) -> dict[str, Any]:
        """Return what the manifest says, as JSON has it."""
        said = {key: getattr(self, key) for key in KEYS}
        mark = {**self.mark._asdict(), "streams": dict(self.mark.streams)}
        return {**said, "mark": mark, "tables": dict(self.tables), "files": dict(self.files)}


def backup(
    policy: GivenPolicy,
    destination: Path | str,
    *,
    progress: Progress = lambda what, done, total: None,
    clock: Callable[[], float] = time.time,
) -> Backup:
    """Copy a policy's ledger as it is now, with the policy and its public tables, into a new folder for its owner alone.

    Nobody who publishes is kept waiting, and what they commit meanwhile is not in it. An older copy of the ledger, by the marks
    of what was published, is refused: it would be taken for the newest backup.
    """
    made, place = Policy.of(policy), Path(destination)
    if os.path.lexists(place):
        raise InvalidInput(f"{place} is there already, and nothing is written over a backup: give another name")
    with _new_folder(place) as folder:
        with open_ledger(made.ledger_url, read_only=True) as book:
            _check_newest(book, made)
        copy_ledger(made.ledger_url, folder / LEDGER, progress)
        with open_ledger(folder / LEDGER, read_only=True) as book:
            mark, key = _check_copy(book, made, progress)
        name = _write_policy(policy, made, folder)
        tables = _copy_tables(made, folder)
        at = from_us(int(clock() * 1_000_000)).isoformat(timespec="seconds")
        found = Backup(place, version("halflife"), at, mark, key, name, tables, _digest_files(folder))
        text = write_checked({"format": FORMAT, "version": 1, **found.to_dict()})
        (folder / MANIFEST).write_text(text)
        _seal(folder)
    return found


def _check_newest(book: Ledger, policy: Policy) -> None:
    """Refuse to copy a ledger that holds nothing, or less than was published from it."""
    wrong = book.find_rollback() or (
        Marks(book, policy.marks, policy.ledger_url).find_problem() if book.facts() else None
    )
    if wrong:
        raise LedgerError(wrong)
    if book.newest() is None:
        raise InvalidInput(f"{book.name}: nothing is published yet: there is nothing to back up")


def _check_copy(book: Ledger, policy: Policy, progress: Progress) -> tuple[Mark, str | None]:
    """Return what the copy holds, and the key that it needs; refuse one whose chain breaks, or that is another policy's."""
    wrong = find_broken_link(book, progress)
    if wrong:
        raise LedgerError(f"{policy.ledger_url} is not backed up, as it is damaged: {wrong}")
    hold_to_ledger(book, policy)
    mark = Marks(book, ()).now()
    assert mark is not None  # it was found to hold something
    streams = [json.loads(text) for name, text in book.states().items() if name.startswith("stream:")]
    keys = [state["sealed"]["key"] for state in streams if "sealed" in state]
    return mark, keys[0] if keys else None


@contextmanager
def _new_folder(place: Path) -> Iterator[Path]:
    """Make a folder under another name, and give it its own when the block has ended well; else nothing is left of it."""
    above = Path(os.path.abspath(place)).parent
    try:
        above.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name[:100]}.", dir=above))  # mode 700
        try:
            yield folder
            os.rename(folder, place)
            sync(above)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        raise InvalidInput(
            f"{place} cannot be written: {error.strerror or error}: make room, or give another place; nothing was "
            "left there"
        ) from None


def _write_policy(given: GivenPolicy, policy: Policy, folder: Path) -> str:
    """Write the policy as it was given: the bytes of its file, or its data as JSON."""
    if isinstance(given, str | Path):
        name = f"{POLICY}{Path(given).suffix.lower()}"
        (folder / name).write_bytes(Path(given).read_bytes())
        return name
    (folder / f"{POLICY}.json").write_text(json.dumps(policy.to_data(), indent=2))
    return f"{POLICY}.json"


def _copy_tables(policy: Policy, folder: Path) -> dict[str, str]:
    """Copy the public files and folders that a policy names; return where each went."""
    made = {}
    for number, name in enumerate(policy.tables, start=1):
        source = policy.path(name)
        made[name] = f"{TABLES}/{number}-{source.name}"
        target = folder / made[name]
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)
    return made


def _digest_files(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): digest_file(file)
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != MANIFEST
    }


def digest_file(file: Path) -> str:
    """Return the SHA-256 of a file, as hex digits."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _seal(folder: Path) -> None:
    """Make every file its owner's alone, and wait until all of it is on disk."""
    for path in (*folder.rglob("*"), folder):
        os.chmod(path, 0o700 if path.is_dir() else 0o600)
        sync(path)


def read_backup(folder: Path | str) -> Backup:
    """Return a backup whose files are all there, as they were written; refuse any other."""
    place = Path(folder)
    try:
        said = parse_checked((place / MANIFEST).read_bytes())
        if said.pop("format", None) != FORMAT:
            raise InvalidInput("it is no manifest of a backup")
        form = read_form("a backup", said, KEYS)
        form["mark"] = Mark(**form["mark"])
        found = Backup(place, **form)
        names = (found.policy, *found.files, *found.files.values(), *found.tables, *found.tables.values())
        own = [Path(name) for name in (found.policy, *found.tables.values()) if isinstance(name, str)]
        if not all(isinstance(name, str) for name in names) or any(p.is_absolute() or ".." in p.parts for p in own):
            raise InvalidInput("it names files that are none of its own")
        there = _digest_files(place)
    except (InvalidInput, OSError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(
            f"{place} is not a whole backup: {MANIFEST}: {why}: give the folder of another one"
        ) from None
    for name in sorted({*found.files, *there}):
        if found.files.get(name) != there.get(name):
            what = "is missing" if name not in there else "was put in" if name not in found.files else "was changed"
            raise InvalidInput(f"{place} is not a whole backup: {name} {what}: take another one")
    return found


def find_backup(place: Path | str) -> Backup:
    """Return the backup in a folder; or a ledger's file that was copied otherwise, as one without a policy or tables."""
    path = Path(place)
    if not path.is_file():
        return read_backup(path)
    with open_ledger(path, read_only=True) as book:
        mark = Marks(book, ()).now() if book.facts() else None
    if mark is None:
        raise InvalidInput(f"{path} holds nothing that was published: give a backup, or the file of a ledger")
    at = from_us(int(path.stat().st_mtime * 1_000_000)).isoformat(timespec="seconds")
    return Backup(path, version("halflife"), at, mark, None, "", {}, {})
