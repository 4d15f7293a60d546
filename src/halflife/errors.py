"""One family of errors. Each message says what was wrong, with the numbers, and what to do next."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


def visible(text: str) -> str:
    """Return a text in which what cannot be seen is written out: control codes, marks that turn the writing round, odd blanks.

    Whatever shows a name from outside on a screen or a page calls this. New lines stay. The signs are those of JSON, so that a
    text that is JSON stays so, and means the same.

    >>> print(visible("a\\x1b[31m b\\u202ec é\\n"), end="")
    a\\u001b[31m b\\u202ec é
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() or ch in "\n\N{NO-BREAK SPACE}" else json.dumps(ch)[1:-1] for ch in text)


class HalflifeError(Exception):
    """Anything halflife refuses; catch this to catch them all."""


class InvalidInput(HalflifeError, ValueError):
    """A value that means nothing here: NaN, negative, out of order, of the wrong type, or unknown.

    `about` names the parameter that the message is about (None: no single one), so that no program need parse the text.

    >>> InvalidInput("w must be at least 1, not 0", about="w").about
    'w'
    """

    def __init__(self, message: str, *, about: str | None = None) -> None:
        super().__init__(message)
        self.about = about


@contextmanager
def errors_about(parameter: str) -> Iterator[None]:
    """Errors inside this block are about this parameter.

    >>> with errors_about("matrix"):
    ...     raise InvalidInput("row 0 sums to 0.9, not to 1")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: row 0 sums to 0.9, not to 1
    """
    try:
        yield
    except InvalidInput as error:
        error.about = parameter
        raise


class MissingExtra(HalflifeError, ImportError):
    """A part that is installed only on request."""


class Interrupted(HalflifeError):
    """Work that was broken off because somebody asked for an end. Nothing was spent or published."""


class LedgerError(HalflifeError):
    """A ledger that cannot be used: busy, damaged, of another policy, or not writable. Nothing was spent or published."""


class LedgerUnavailable(LedgerError):
    """A ledger that cannot be used now, and may be in a moment: another process holds it, or its server does not answer."""


class LedgerHidden(LedgerError):
    """A ledger of which this user may not see all that was asked for: nothing is wrong with it."""


class SourceUnreachable(InvalidInput):
    """A source that cannot be reached: no answer, no folder, no file of that name. It says nothing about any reading."""


class BudgetExceeded(HalflifeError):
    """A release that the promise has no room for. The account is untouched.

    `step`, `risk` (what it would become), `limit` (what is promised) and `headroom` (what would still fit, if known)
    are attributes, so that a program need not parse the text.
    """

    def __init__(self, message: str, *, step: int, risk: float, limit: float, headroom: float | None = None) -> None:
        super().__init__(message)
        self.step = step
        self.risk = risk
        self.limit = limit
        self.headroom = headroom


class UnboundedLoss(BudgetExceeded):
    """A release whose loss has no bound under this notion, however little else was published."""

    def __init__(self, message: str, *, step: int) -> None:
        super().__init__(message, step=step, risk=float("inf"), limit=float("nan"), headroom=None)


def unknown(kind: str, name: object, known: Iterable[str], *, about: str | None = None) -> InvalidInput:
    """Return the error for a name that is not on a list, with the nearest one suggested.

    >>> print(unknown("notion", "classic", ["classical", "w-event"]))
    unknown notion 'classic': did you mean 'classical'? Known: classical, w-event
    """
    names = sorted(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    hint = f" did you mean {near[0]!r}?" if near else ""
    return InvalidInput(f"unknown {kind} {name!r}:{hint} Known: {', '.join(names)}", about=about)


def missing_extra(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for an optional package that is not installed.

    >>> print(missing_extra("plotly", "report", "an HTML report"))
    an HTML report needs plotly, which is not installed: pip install 'halflife[report]'
    """
    return MissingExtra(f"{purpose} needs {package}, which is not installed: pip install 'halflife[{extra}]'")
