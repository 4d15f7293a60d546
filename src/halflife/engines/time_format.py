"""Times as people write them, `%d/%m/%y %H:%M`: a policy's `time_format` as SQL, for text that the one grammar does not read.

    %Y  four digits of a year, 0001 to 9999       %m  month, 1 to 12, or %b (Jan), %B (January)       %d  day, 1 to 31
    %y  two: 69 to 99 are 19.., 00 to 68 are 20..   %H  hour, 0 to 23, or %I with %p: 1 to 12, AM or PM
    %M  minute    %S  second    %f  1 to 6 digits of its fraction    %%  a per cent sign
    %z  ±HH, ±HHMM or ±HH:MM: the moment is absolute; without it `Question.local` applies
    %a, %A  weekday (Mon, Monday), which must be one and is not compared with the date

The names are English, in any case, on every machine. All else stands for itself, blanks too. One or two digits are read where the
field's end is clear; exactly two (%d%m%Y) beside another field of digits. Text that does not match as a whole, or a date that no
calendar has, is a bad time. A regular expression holds text to this before DuckDB's `try_strptime` works the moment out: 2 M
times in 0.5 s. Frames read text by the same SQL, so every engine has the same moments.
"""

from __future__ import annotations

import re
from itertools import pairwise

from halflife.engines.grammar import YEAR
from halflife.errors import InvalidInput

MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
CLOCK = {
    "m": ("[1-9]", "1[0-2]"),
    "d": ("[1-9]", "[12][0-9]|3[01]"),
    "H": ("[0-9]", "1[0-9]|2[0-3]"),
    "I": ("[1-9]", "1[0-2]"),
    "M": ("[0-9]", "[1-5][0-9]"),
    "S": ("[0-9]", "[1-5][0-9]"),
}
"""Fields of one or two digits: those of one, which may have a 0 before it, and those of two."""
OFFSET = "[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?"
DIGITS = (*CLOCK, "Y", "y", "f")
FIELDS = (*DIGITS, "b", "B", "p", "z", "a", "A")
WRONG = {
    **dict.fromkeys("cxX", "means something else in each country"),
    "Z": "names a zone, and names such as IST stand for several: give `zone`, or write offsets and %z",
    "s": "is a number since 1970: give `epoch: s` instead",
}
ALIKE = ("Yy", "mbB", "HI", "aA")
"""Of each, a format has one at the most."""

NEEDS_TEXT = "time_format is about text: leave it out for timestamps and numbers"
Token = tuple[str, bool]
"""A field's letter and True, or text that stands for itself and False."""


def check_time_format(text: str) -> str:
    """Return a format that says when a reading was taken without a doubt, or refuse it.

    >>> check_time_format("%m/%d/%y %H:%M")
    '%m/%d/%y %H:%M'
    >>> check_time_format("%d.%m. %H:%M")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: '%d.%m. %H:%M' has no year: a time needs a year (%Y), a month (%m) and a day (%d)
    """
    tokens = _tokens(text)
    fields = [token for token, is_field in tokens if is_field]
    for alike in (*ALIKE, *FIELDS):
        if sum(fields.count(letter) for letter in alike) > 1:
            raise InvalidInput(f"{text!r} says %{', %'.join(alike)} more than once: keep one")
    for needed, what in (("Yy", "year"), ("mbB", "month"), ("d", "day")):
        if not any(letter in fields for letter in needed):
            raise InvalidInput(f"{text!r} has no {what}: a time needs a year (%Y), a month (%m) and a day (%d)")
    if ("I" in fields) != ("p" in fields):
        raise InvalidInput(f"{text!r}: hours of twelve need both %I and %p (AM or PM), hours of 24 are %H")
    for fine, coarse in (("f", "S"), ("S", "M"), ("M", "HI")):
        if fine in fields and not any(letter in fields for letter in coarse):
            raise InvalidInput(f"{text!r} has %{fine} without %{' or %'.join(coarse)}: it would not say when")
    for (token, is_field), (after, after_is_field) in pairwise(tokens):
        if is_field and token in "fz" and _begins_with_digit(after, after_is_field):
            raise InvalidInput(
                f"{text!r}: nobody can say where %{token} ends: put something between it and what follows"
            )
    return text


def is_absolute(text: str) -> bool:
    """Whether times of this format state their offset."""
    return ("z", True) in _tokens(text)


def time_of_format(column: str, text: str) -> str:
    """SQL of text in this format as µs since 1970 (without an offset as if UTC's), NULL if it is no such time.

    A letter before both, as DuckDB passes over blanks at the beginning of a text.
    """
    pattern, format = _quote(_pattern(_tokens(text))), _quote(f"t{text}")
    return (
        f"CASE WHEN regexp_full_match({column}, {pattern}) THEN epoch_us(try_strptime('t' || {column}, {format})) END"
    )


def capture_fields(text: str) -> tuple[str, str]:
    """The regular expression of a format with a group for each field, and the fields' letters.

    >>> capture_fields("%d.%m")
    ('(0?[1-9]|[12][0-9]|3[01])\\\\x{2e}(0?[1-9]|1[0-2])', 'dm')
    """
    tokens = _tokens(text)
    return _pattern(tokens, group="("), "".join(token for token, is_field in tokens if is_field)


def _tokens(text: str) -> list[Token]:
    """The fields of a format, and what stands between them."""
    tokens: list[Token] = []
    for part in re.findall(r"%.?|[^%]+", text, flags=re.DOTALL):
        letter = part[1:]
        if part[0] != "%" or letter == "%":
            tokens.append((letter if part[0] == "%" else part, False))
        elif letter in FIELDS:
            tokens.append((letter, True))
        else:
            why = WRONG.get(letter, "is not read")
            raise InvalidInput(
                f"{text!r}: {part} {why}. Known: {', '.join(f'%{field}' for field in sorted(FIELDS))}, %%"
            )
    return tokens


def _begins_with_digit(token: str, is_field: bool) -> bool:
    return token in DIGITS if is_field else token[:1].isdigit()


def _ends_with_digit(token: str, is_field: bool) -> bool:
    return token in (*DIGITS, "z") if is_field else token[-1:].isdigit()


def _pattern(tokens: list[Token], group: str = "(?:") -> str:
    """The regular expression of a format."""
    parts = []
    for i, (token, is_field) in enumerate(tokens):
        before, after = tokens[i - 1 : i] if i else [], tokens[i + 1 : i + 2]
        beside = any(_ends_with_digit(*t) for t in before) or any(_begins_with_digit(*t) for t in after)
        parts.append(f"{group}{_field(token, two=beside)})" if is_field else _literal(token))
    return "".join(parts)


def _field(letter: str, *, two: bool) -> str:
    if letter in CLOCK:
        one, more = CLOCK[letter]
        return f"0{'' if two else '?'}{one}|{more}"
    names = {
        "b": [m[:3] for m in MONTHS],
        "B": list(MONTHS),
        "a": [d[:3] for d in DAYS],
        "A": list(DAYS),
        "p": ["am", "pm"],
    }
    if letter in names:
        return f"(?i:{'|'.join(names[letter])})"
    return {"Y": YEAR, "y": "[0-9]{2}", "f": "[0-9]{1,6}", "z": OFFSET}[letter]


def _literal(text: str) -> str:
    return re.sub(r"([^\w])", lambda m: f"\\x{{{ord(m[1]):x}}}", text)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
