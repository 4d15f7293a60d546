"""What every ledger does: the protocol that publisher, verification and audit speak, whatever keeps the rows.

A ledger is append-only. An *entry* is one published step of a stream with its releases; a *batch* is one transaction: entries, or
an *event* (an amendment, say); the *states* (account, mechanisms, smoothers) are replaced with each batch. SHA-256 chains all of
them, see `entry`.
`halflife.testing.check_ledger` holds an implementation to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from halflife.errors import LedgerError, LedgerUnavailable
from halflife.ledger.entry import Entry

OPERATOR = ".operator.jsonl"
"""What stands behind a ledger's name in that of the operator's file."""
OPERATOR_FILES = (OPERATOR, *(f"{OPERATOR}.{number}" for number in range(1, 6)))
"""The same, and of those that were put aside when they had grown large, the newest first."""


class NoLedger(LedgerError):
    """A file that is somebody else's, whatever it is: there is nothing of a ledger in it."""


class LedgerBusy(LedgerUnavailable):
    """A ledger that another program keeps everybody else from: what it holds may be known in a moment."""


Link = tuple[int, Entry, bytes]
"""An entry with its number (1, 2, … in the order of the chain) and its hash."""


class Batch(NamedTuple):
    """One transaction: the number of the last entry with it, when it was committed (µs), the digest of the states, and its hash.

    event  what happened, as JSON, where it holds no entries: then `last` is that of the batch before it
    """

    last: int
    at_us: int
    states: bytes
    link: bytes
    event: str | None = None


def is_secret(state: str) -> bool:
    """Return whether a state of this name may hold noise that is used again; where that can be, it is kept apart from readers.

    >>> is_secret("stream:use"), is_secret("account")
    (True, False)
    """
    return state.startswith("stream:")


class Ledger(Protocol):
    """One population's ledger, as `open_ledger` gives it.

    To write: `hold` it, `begin` with the facts of the policy, `commit` batches, and `mark_shown` before anybody sees a value.
    To read, nothing need be held. Whatever is refused is a `LedgerError` that begins with the ledger's `name`, says what to do,
    and quotes nothing of a driver: cells may hold noise that is used again, a secret.
    """

    @property
    def name(self) -> str:
        """What messages call the ledger."""

    @property
    def scratch(self) -> Path:
        """The folder for files that an engine writes while it reads, and removes again."""

    @property
    def operator_file(self) -> Path:
        """The file for counts of bad, late and clipped readings, which are the operator's alone."""

    def close(self) -> None:
        """Let go of the ledger."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    # Holding

    def hold(self, wait: float = 10.0, stop: Callable[[], bool] = ...) -> AbstractContextManager[None]:
        """Be the only writer, after waiting up to so many seconds for another; a process that dies lets go."""

    def showing(self) -> AbstractContextManager[None]:
        """Be the only one who shows what was committed, while this block runs; refused to whom another has taken over from."""

    def snapshot(self, wait: float | None = 10.0) -> AbstractContextManager[None]:
        """Keep writers away while this block runs, and read from now on what the ledger holds now, whoever writes later.

        `wait` None: no writer is waited for or kept away; what is read is what was committed last.
        """

    def writer(self) -> str | None:
        """Return who holds the ledger to write, as far as that is known without trying to hold it; None if nobody seems to."""

    # Writing

    def begin(self, facts: Mapping[str, str]) -> dict[str, str]:
        """Return the facts that the ledger is held to: these until something is published, from then on those that it has.

        Whether other facts mean the same is for the caller to say. An older copy and damage are refused. What is looked at does
        not grow with the ledger.
        """

    def commit(self, entries: Sequence[Entry], states: Mapping[str, str], at_us: int, event: str | None = None) -> None:
        """Write a batch of entries, or an event instead, with the states that go with it, durably, or nothing at all.

        Refused: without `hold`, an entry whose stream, step and part are there already, a ledger that somebody else has
        written to since `begin`, and an event before anything was published.
        """

    def erase_deleted(self) -> None:
        """Leave nothing in the ledger's files of what was deleted or replaced, as far as nobody reads it right now."""

    def mark_shown(self) -> None:
        """Remember, outside what a backup brings back, that all entries of now are about to be shown."""

    def mark_written(self, stream: str, file: str, step: int, sha256: bytes, beside: int | None = None) -> None:
        """Remember the digest of a file of an output that ends with a step.

        What was remembered of the file is forgotten, but for the step `beside`: what lies in its place until it is replaced.
        """

    def mark_printed(self, stream: str, step: int) -> None:
        """Remember up to which step a stream was written to the standard output, which nobody can read back."""

    # Reading

    def begun(self) -> dict[str, str]:
        """Return the facts that the ledger was begun with, which its chain begins with; nothing if it was not begun yet."""

    def facts(self) -> dict[str, str]:
        """Return the facts that the ledger is held to now: those it was begun with, as events have changed them."""

    def states(self) -> dict[str, str]:
        """Return the newest states by name."""

    def public_states(self) -> dict[str, str]:
        """Return those of them that hold no noise which is used again: all that somebody who only reads may see."""

    def newest(self) -> Batch | None:
        """Return the newest batch, None if nothing was committed."""

    def batches(self) -> Iterator[Batch]:
        """Return every batch, in order."""

    def events(self) -> list[Batch]:
        """Return the batches that are events, in order; there are few."""

    def entries(self, stream: str | None = None, first: int = 1, last: int | None = None) -> Iterator[Entry]:
        """Return a stream's entries from step to step, or all of them in the order of the chain."""

    def chained(self) -> Iterator[Link]:
        """Return all entries with their numbers and hashes, in the order of the chain."""

    def follows(self, number: int) -> bool:
        """Whether an entry's hash follows from what it says and from the hash before it."""

    def holds(self, entries: int, head: bytes) -> bool:
        """Whether a batch that ends with this entry has this hash, or an event says that the one which had it is lost."""

    def count_releases(self) -> int:
        """Return how many releases there are, of whatever entry."""

    def last_step(self, stream: str) -> int:
        """Return a stream's newest step, 0 if there is none."""

    def count_steps(self, stream: str) -> int:
        """Return how many steps of a stream there are."""

    def next_step(self, stream: str, after: int) -> int | None:
        """Return a stream's first step after this one, None if there is none."""

    def digests(self, stream: str, file: str) -> dict[int, bytes]:
        """Return what `mark_written` wrote of a file: its digest by its last step."""

    def last_printed(self, stream: str) -> int:
        """Return up to which step a stream was written to the standard output, 0 if it never was."""

    # Checking

    def find_damage(self) -> str | None:
        """Say whether the ledger is not whole, by its own database's check; None if all is well."""

    def find_rollback(self) -> str | None:
        """Say whether less was kept than was shown (an older copy), or other things, or nobody can tell; None if all is well."""

    def explain_rollback(self) -> str:
        """Say what an operator may do who has lost the mark of what was shown; an empty text if it is not lost."""

    def check_unwritten(self) -> None:
        """Refuse what was read of a ledger that nobody was to write to, and somebody did."""
