"""Texts that an operator gives and every certificate shows: why something was done, and who says so."""

from __future__ import annotations

import getpass

from halflife.errors import InvalidInput

LONGEST = 2_000
"""How many characters a text may have."""


def read_public_text(name: str, text: object) -> str:
    """Return a text on one line; refuse one that is empty, too long or holds what cannot be seen.

    >>> read_public_text("reason", " 25 homes\\n joined ")
    '25 homes joined'
    """
    said = " ".join(text.split()) if isinstance(text, str) else ""
    if not said or len(said) > LONGEST or not said.isprintable():
        raise InvalidInput(f"{name} must be a public text of 1 to {LONGEST:,} characters", about=name)
    return said


def find_user() -> str:
    """Return the name of the account on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise InvalidInput("it is not known who changes the ledger: say so (by)", about="by") from None
