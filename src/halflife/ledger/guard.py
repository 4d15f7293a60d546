"""How much of a ledger was published: one line in a file of its own beside it, `shown ENTRIES HASH`.

A ledger that holds less is an older copy, and going on with it would draw anew the noise of what readers have seen. So the line
is written before readers see anything, and replaced whole: written beside, synced, renamed, and the folder synced. Whenever a
process is killed or a disk is full, the file is the old line or the new one. A file that is missing or says anything else is
refused.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from halflife.errors import LedgerError
from halflife.ledger.system import name_file_faults

_LINE = re.compile(r"shown (?:0|([1-9]\d{0,17}) ([0-9a-f]{64}))")
WHY = (
    "it says how much of the ledger was published, as going on with an older copy would draw the noise of that again. Bring it "
    "back from where the ledger lay; if it is lost, `halflife verify` says what to do"
)


class Shown(NamedTuple):
    """How many entries were shown to readers, and the newest hash of the chain with them (none if there are none)."""

    entries: int
    head: bytes = b""

    def line(self) -> str:
        """Return what the file says.

        >>> Shown(0).line(), Shown(2, bytes(32)).line()[:12]
        ('shown 0', 'shown 2 0000')
        """
        return f"shown {self.entries} {self.head.hex()}" if self.entries else "shown 0"


class Guard:
    """The file of one ledger, which lies beside the path that is given; links to that are followed.

    name  what messages call the ledger;  lost  whether there was no file when it was read, or one that does not say
    """

    def __init__(self, beside: Path, name: str | None = None) -> None:
        self.name, self.file = str(beside) if name is None else name, f"{os.path.realpath(beside)}.shown"
        self.lost = False

    def read(self) -> Shown | None:
        """Return what was shown, None if there is no file; refuse a file that does not say."""
        found = self._content()
        self.lost = found is None
        if found is None:
            return None
        line = _LINE.fullmatch(found.decode("ascii", "replace").strip())
        if line is None:
            self.lost = True
            raise LedgerError(f"{self.file} cannot be understood: {WHY}")
        return Shown(int(line[1]), bytes.fromhex(line[2])) if line[1] else Shown(0)

    def refuse_lost(self, there: bool, missing: str = "no such file") -> None:
        """Refuse a ledger that is not there, while its guard says that something was published from it."""
        lost = not there and os.path.isdir(os.path.dirname(self.file))
        shown = self.read() if lost else None
        if shown is not None and shown.entries:
            raise LedgerError(
                f"{self.name}: {missing}, but {shown.entries:,} entries were published from it, says {self.file}: put the "
                "newest copy back"
            )

    @name_file_faults("how much of it was published cannot be read (.shown)")
    def _content(self) -> bytes | None:
        try:
            file = os.open(self.file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            return os.read(file, 200) if stat.S_ISREG(os.fstat(file).st_mode) else b""
        finally:
            os.close(file)

    @name_file_faults("how much of it is published cannot be written (.shown), so nothing more is shown")
    def write(self, shown: Shown) -> None:
        """Replace the line, and wait until it is on disk."""
        beside = f"{self.file}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(beside, flags, 0o600)
        try:
            rest = memoryview(f"{shown.line()}\n".encode())
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(beside, self.file)
        folder = os.open(os.path.dirname(self.file), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
