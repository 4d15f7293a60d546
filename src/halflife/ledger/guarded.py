"""A ledger in tables that is gone on with only where it left off: what was shown is guarded outside it, the newest compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

from halflife.errors import LedgerError
from halflife.ledger.base import Batch
from halflife.ledger.entry import batch_link, digest, first_link
from halflife.ledger.guard import WHY, Guard, Shown
from halflife.ledger.rows import RowReader


class GuardedLedger(RowReader):
    """The part of a ledger that begins to write, and says how much was shown."""

    _guard: Guard
    _head: bytes | None
    _shown: Shown | None

    @abstractmethod
    def _prepare(self) -> None:
        """Make what is empty a ledger; refuse what is none, and leave it as it is."""

    @abstractmethod
    def _replace_facts(self, facts: Mapping[str, str]) -> None:
        """Put these facts in the place of those that the ledger has."""

    # What was shown

    def find_rollback(self) -> str | None:
        """Say whether this is an older copy, or nobody can tell; None if all is well."""
        try:
            return self._rollback()
        except LedgerError as error:
            return str(error)

    def _rollback(self) -> str | None:
        """Read the guard; say whether the ledger holds less than was published from it, or other things."""
        self._shown = shown = self._guard.read()
        last = self._last_entry() if self._check_tables() else 0
        if shown is None:
            return f"{self._guard.file} is missing: {WHY}" if last else None
        if shown.entries and self.holds(*shown):
            return None
        if shown.entries > last:
            return (
                f"{self.name}: holds {last:,} entries, but {shown.entries:,} were published from it: a restored backup would "
                "draw their noise again. Put the newest copy back"
            )
        if shown.entries:
            return (
                f"{self.name}: is not the ledger that {shown.entries:,} entries were published from: their hash is another one. "
                "Put the right copy back"
            )
        return None

    def explain_rollback(self) -> str:
        """Say what an operator may do whose guard is lost, and who knows that no newer copy exists; nothing if it is not."""
        if not self._guard.lost:
            return ""
        try:
            line = self._all_shown().line()
        except LedgerError:
            return ": first put a whole copy of the ledger back"
        return f": if this is surely the newest copy, as its outputs agree and you know its hash, write this line into it: {line}"

    def _all_shown(self) -> Shown:
        """What the guard says when everything that the ledger holds is shown."""
        newest = self.newest()
        return Shown(newest.last, newest.link) if newest else Shown(0)

    def mark_shown(self) -> None:
        """Remember, before readers see them, that all entries of now are about to be shown."""
        now = self._all_shown()
        if now != self._shown:
            self._guard.write(now)
            self._shown = now

    def begin(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Return the facts that the ledger was begun with: these, if nothing was published yet. Whether those mean the same is
        for the caller to say.

        Everything is refused that nobody may go on with: other tables, an older copy, states that are not those of
        the newest batch. What is looked at does not grow with the ledger; `halflife verify` looks at all of it.
        """
        self._prepare()
        self._check_newest()
        wrong = self._rollback()
        if wrong:
            raise LedgerError(wrong)
        if not self._last_entry():  # nothing was published yet: the policy may still change
            self._replace_facts(facts)
        self._head = self._read_head()
        return self.facts()

    def _check_newest(self) -> None:
        """Refuse a ledger whose first or last entry, newest batch or saved states are not those that were committed together."""
        try:
            wrong = self._newest_fault()
        except (TypeError, ValueError):  # cells of another kind
            wrong = "its newest entry, batch or states are not of the kind that is written"
        if wrong:
            raise self._changed(wrong)

    def _newest_fault(self) -> str | None:
        last, newest = self._last_entry(), self.newest()
        if newest is None:
            orphans = last or self.states() or self._one("SELECT 1 FROM written WHERE step > 0")
            return "it holds entries or states, but no batch that they were committed in" if orphans else None
        if newest.last != last:
            return f"its newest batch ends with entry {newest.last}, its entries with {last}"
        if not (self.follows(1) and self.follows(last)):
            return "the hash of its first or last entry does not follow from what it says"
        if batch_link(self._link_before(newest), newest.at_us, newest.states, newest.event) != newest.link:
            return "the hash of its newest batch does not follow from what it says"
        if digest(self.states().items()) != newest.states:
            return "the saved states (account, mechanisms, smoothers) are not those of the newest batch"
        return None

    def _read_head(self) -> bytes:
        """The newest hash of the chain."""
        newest = self.newest()
        return newest.link if newest else first_link(self.begun())

    def _link_before(self, newest: Batch) -> bytes:
        """The hash that the newest batch follows: of the last entry, or of an event the batch before it."""
        if newest.event is None:
            return bytes(self._one("SELECT chain FROM entry WHERE id = ?", newest.last)[0])
        before = self._batch("WHERE last_entry = ? ORDER BY number DESC LIMIT 1 OFFSET 1", newest.last)
        return before.link if before else b""
