"""What PostgreSQL and its driver report, in our own words.

A driver's text may quote a cell, and cells hold noise that is used again: a secret. So no such text is passed on, only what its
code (SQLSTATE) means and what to do; and refusals are raised after the `except`, so that not even their context holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from halflife.errors import LedgerError, LedgerUnavailable, missing_extra
from halflife.ledger.base import LedgerBusy
from halflife.ledger.system import explain_system
from halflife.libpq import GONE, NO_DATABASE, NOT_LET_IN, READ_ONLY, TOO_MANY, explain_refusal

if TYPE_CHECKING:
    import psycopg

P = ParamSpec("P")
R = TypeVar("R")

_DAMAGED = "put a whole copy back, the newest one, and see `halflife verify`"
_TABLES = f"its tables are not those of a ledger: {_DAMAGED}"
_RIGHTS = "this user has no right to do that: let the schema's owner grant it (`halflife ledger roles` prints how)"
_AGAIN = "another session keeps it: run again in a moment"
_BY_STATE = {
    "08": GONE,
    "0A": READ_ONLY,  # a replica refuses serialisable transactions so
    "22021": "a text holds a character that PostgreSQL cannot keep (NUL): give it another name",
    "22": f"a cell holds what no ledger has: {_DAMAGED}",
    "23": "a row was refused that no ledger has: nothing was written",
    "25006": READ_ONLY,
    "25P03": GONE,
    "28": NOT_LET_IN,
    "3D": NO_DATABASE,
    "40": _AGAIN,
    "42501": _RIGHTS,
    "42": _TABLES,
    "3F": _TABLES,
    "53100": "the server's disk is full: make room on it and run again",
    "53300": TOO_MANY,
    "53": "the server has not enough memory or disk: look at its log",
    "55P03": _AGAIN,
    "55": _AGAIN,
    "57014": "the server broke it off, by a timeout or by somebody's hand: run again",
    "57": GONE,
    "58": "the server's disk fails: look at its log",
    "XX": f"the server says that its files are damaged: look at its log; {_DAMAGED}",
}
_BUSY = ("40", "55")
_TOO_MANY = "53300"
LOST = ("08", "57P", "25P03")
"""How the codes of errors begin after which a connection is gone."""
REPEATED = ("40001", "40P01")
"""Codes of transactions that were rolled back as others went first, and that may be run again."""


class _Named(Protocol):
    _inner: bool

    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=_Named)


def import_driver() -> None:
    """Refuse in words where psycopg is not installed."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise missing_extra("psycopg", "postgresql", "a ledger on a PostgreSQL server") from None


def explain(error: Exception) -> str:
    """Return what an error of PostgreSQL or the system means, and what to do about it; nothing of their own text."""
    if isinstance(error, OSError):
        return explain_system(error)
    state = getattr(error, "sqlstate", None)
    text = str(error)
    if state is None and "NUL" in text:
        return _BY_STATE["22021"]
    if state is None:
        return explain_refusal(text)
    for length in (5, 3, 2):
        if state[:length] in _BY_STATE:
            return _BY_STATE[state[:length]]
    return f"PostgreSQL refuses it (code {state}): look at the server's log"


def is_lost(error: psycopg.Error) -> bool:
    """Return whether an error means that the connection is gone, so that nobody here knows what the server did last."""
    import psycopg

    state = error.sqlstate
    if state is not None:
        return state.startswith(LOST) and state != "57014"
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)


def translate(what: str) -> Callable[[Callable[Concatenate[N, P], R]], Callable[Concatenate[N, P], R]]:
    """Make a ledger's method raise our own error, with its name and the next step, for those of PostgreSQL and the system.

    Of methods that call each other the outermost does, so that within it an error can still be told by its code.
    """

    def around(method: Callable[Concatenate[N, P], R]) -> Callable[Concatenate[N, P], R]:
        @wraps(method)
        def translated(self: N, /, *args: P.args, **more: P.kwargs) -> R:
            import psycopg

            if self._inner:
                return method(self, *args, **more)
            self._inner = True
            try:
                return method(self, *args, **more)
            except psycopg.errors.UniqueViolation:
                refusal = LedgerError(f"{self.name}: refused to write a step twice: nothing was published")
            except (psycopg.Error, OSError, MemoryError, UnicodeError) as error:
                busy = (getattr(error, "sqlstate", None) or "").startswith(_BUSY)
                away = isinstance(error, psycopg.Error) and (is_lost(error) or error.sqlstate == _TOO_MANY)
                kind = LedgerBusy if busy else LedgerUnavailable if away else LedgerError
                refusal = kind(f"{self.name}: {what}: {explain(error)}")
            finally:
                self._inner = False
            raise refusal

        return translated

    return around
