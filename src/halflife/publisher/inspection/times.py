"""Which format times have that could not be read, from some cells: each format that fits a cell's shape is tried on all of them.

Only shapes leave this module: digits as 9, letters as a. Whether day or month comes first follows if one of the two exceeds 12 in
some cell; else both formats read every cell, and both are named.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from halflife.local_time import YEARS

LONGEST = 40
ENOUGH = 0.5
"""A format is proposed if it reads at least this share of the cells."""

_DATES = (
    (r"\d{1,2}([/.\- ])\d{1,2}\1\d{4}", ("%d{0}%m{0}%Y", "%m{0}%d{0}%Y")),
    (r"\d{1,2}([/.\-])\d{1,2}\1\d{2}", ("%d{0}%m{0}%y", "%m{0}%d{0}%y", "%y{0}%m{0}%d")),
    (r"\d{4}([/.\-])\d{1,2}\1\d{1,2}", ("%Y{0}%m{0}%d",)),
    (r"\d{8}", ("%Y%m%d", "%d%m%Y", "%m%d%Y")),
    (r"\d{1,2}([ \-/.]?)[^\W\d_]{3}\1\d{4}", ("%d{0}%b{0}%Y",)),
    (r"\d{1,2}([ \-/.]?)[^\W\d_]{3}\1\d{2}", ("%d{0}%b{0}%y",)),
    (r"\d{1,2}([ \-/.])[^\W\d_]{4,9}\1\d{4}", ("%d{0}%B{0}%Y",)),
    (r"[^\W\d_]{3} \d{1,2}(,?) \d{4}", ("%b %d{0} %Y",)),
    (r"[^\W\d_]{4,9} \d{1,2}(,?) \d{4}", ("%B %d{0} %Y",)),
)
_CLOCKS = (
    (r"\d{1,2}:\d{2}", "%H:%M"),
    (r"\d{1,2}:\d{2}:\d{2}", "%H:%M:%S"),
    (r"\d{1,2}:\d{2}:\d{2}\.\d{1,6}", "%H:%M:%S.%f"),
    (r"\d{1,2}:\d{2} [AaPp][Mm]", "%I:%M %p"),
    (r"\d{1,2}:\d{2}[AaPp][Mm]", "%I:%M%p"),
    (r"\d{1,2}:\d{2}:\d{2} [AaPp][Mm]", "%I:%M:%S %p"),
    (r"\d{1,2}\.\d{2}", "%H.%M"),
    (r"\d{4}", "%H%M"),
    (r"\d{6}", "%H%M%S"),
)
_EPOCHS = ((r"\d{9,10}(?:\.\d+)?", "s", 1), (r"\d{12,13}", "ms", 10**3), (r"\d{15,16}", "us", 10**6))


@dataclass(frozen=True)
class Guess:
    """Why cells could not be read, in words, and the key to write; None if no key helps."""

    cause: str
    write: str | None = None


def shape(cell: str | None) -> str:
    """Return a text's shape: digits as 9, letters as a, at most 40 characters.

    >>> shape("03/14/26 5:30 PM"), shape("É2-x"), shape(None)
    ('99/99/99 9:99 aa', 'a9-a', '')
    """
    text = re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", cell or ""))
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def common_shapes(cells: Sequence[str | None], most: int = 3) -> tuple[tuple[str, float], ...]:
    """Return the commonest shapes of some cells, each with its share.

    >>> common_shapes(["12,5", "13,5", None, "n/a"])
    (('99,9', 0.5), ('', 0.25), ('a/a', 0.25))
    """
    counts = Counter(map(shape, cells))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple((text, n / len(cells)) for text, n in ranked[:most])


def formats_of(cell: str) -> Iterator[str]:
    """Yield the formats that a time of this shape may have, as `strptime` takes them.

    >>> list(formats_of("3/14/26 17:30"))
    ['%d/%m/%y %H:%M', '%m/%d/%y %H:%M', '%y/%m/%d %H:%M']
    """
    for date, formats in _DATES:
        found = re.match(date, cell)
        if found is None:
            continue
        between = found[1] if found.re.groups else ""
        rest = cell[found.end() :]
        endings = [""] if not rest else []
        for clock, form in _CLOCKS:
            timed = re.fullmatch(rf"(T|t|,? |:|-|_)({clock})( ?Z| ?[+-]\d\d:?\d\d)?", rest)
            if timed is not None:
                zone = "" if timed[3] is None else " %z" if timed[3][0] == " " else "%z"
                endings.append(timed[1] + form + zone)
        for form in formats:
            yield from (form.format(between) + ending for ending in endings)


def reads(cell: str, form: str) -> bool:
    """Whether a format reads a cell as a time of the years that a policy may have."""
    try:
        return YEARS[0] <= datetime.datetime.strptime(cell, form).year < YEARS[1]
    except ValueError:
        return False


def guess_times(cells: Sequence[str | None]) -> Guess:
    """Say what times look like that could not be read, and which key would read them.

    >>> guess_times(["3/14/26 17:30", "3/2/26 9:00"]).write
    "time_format: '%m/%d/%y %H:%M'"
    >>> guess_times(["1364691600", "1364695200"]).write
    'epoch: s'
    """
    texts = [cell for cell in cells if cell and cell.strip()]
    if len(texts) <= len(cells) / 2:
        return Guess(
            "most of these cells are empty, or their lines have other fields than the header or `columns` says"
        )
    epoch = _guess_epoch(texts)
    if epoch is not None:
        return epoch
    return _guess_format(texts) or _guess_other(texts)


def _guess_format(texts: Sequence[str]) -> Guess | None:
    """The format, or formats, that read the most of these cells; None if none reads half of them."""
    tried = Counter(form for cell in texts[:100] for form in formats_of(cell))
    scores = {form: sum(reads(cell, form) for cell in texts) for form, _ in tried.most_common(12)}
    best = max(scores.values(), default=0)
    if best < ENOUGH * len(texts) or not best:
        return None
    chosen = [form for form, score in scores.items() if score == best]
    chosen = [
        form for form in chosen if form[:2] != "%y"
    ] or chosen  # 13/01/31 is rare: only if nothing else reads as much
    which = " or ".join(map(_in_words, chosen)) + ("" if len(chosen) == 1 else "; no day above 12 tells which")
    rest = "" if best == len(texts) else f" ({100 * best / len(texts):.0f} % of them)"
    return Guess(f"they look like {which}{rest}", ", or ".join(f"time_format: '{form}'" for form in chosen))


def _guess_other(texts: Sequence[str]) -> Guess:
    if _share(texts, lambda text: any(reads(text.strip(), form) for form in _ISO)) >= ENOUGH:
        return Guess("blanks stand around them: write them as 2026-01-31 13:30")
    if _share(texts, lambda text: re.fullmatch(r"[2-6]\d{4}(\.\d+)?", text)) >= ENOUGH:
        return Guess("they look like the day numbers of a spreadsheet: save the column as dates, 2026-01-31 13:30")
    shown = ", ".join(f"'{text}' ({100 * share:.0f} %)" for text, share in common_shapes(texts))
    return Guess(
        f"they look like {shown}, with digits as 9 and letters as a; a time is 2026-01-31 13:30, Z or +01:00 behind"
    )


def _share(texts: Sequence[str], holds: Callable[[str], object]) -> float:
    return sum(bool(holds(text)) for text in texts) / len(texts)


_ISO = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")


def _guess_epoch(texts: Sequence[str]) -> Guess | None:
    for pattern, unit, scale in _EPOCHS:
        found = [text for text in texts if re.fullmatch(pattern, text.strip())]
        if len(found) >= ENOUGH * len(texts) and all(is_recent(float(text) / scale) for text in found[:100]):
            return Guess(f"they look like numbers since 1970, in {unit}", f"epoch: {unit}")
    return None


def is_recent(seconds: float) -> bool:
    """Whether seconds since 1970 lie in the years 1973 to 2100."""
    return 1e8 <= seconds <= 4.1e9


def guess_epoch(number: float) -> Guess:
    """Say what a column of numbers counts if it is to hold times, from about its middle.

    >>> guess_epoch(1.4e12).write, guess_epoch(1440).write
    ('epoch: ms', None)
    """
    for unit, scale in (("s", 1), ("ms", 10**3), ("us", 10**6)):
        if is_recent(number / scale):
            return Guess(f"they look like numbers since 1970, in {unit}", f"epoch: {unit}")
    digits = len(str(int(abs(number))))
    return Guess(
        f"numbers of about {digits} digits are no time since 1970: count them from a date, in a column with times "
        "such as 2026-01-31 13:30"
    )


def _in_words(form: str) -> str:
    """A format as people call it.

    >>> _in_words("%m/%d/%y %H:%M")
    'month/day/year'
    """
    names = {"d": "day", "m": "month", "b": "month", "B": "month", "y": "year", "Y": "year"}
    date = re.sub(r"%([dmbByY])", lambda match: f"<{names[match[1]]}>", form)
    return re.sub(r"[<>]", "", date[: date.rindex(">") + 1].replace("><", " "))


def guess_values(cells: Sequence[str | None]) -> Guess:
    """Say what values look like that are no numbers.

    >>> guess_values(["1,5", "0,25"]).cause
    'they look like numbers with a decimal comma: write them with a point, 1.5'
    """
    texts = [cell.strip() for cell in cells if cell and cell.strip()]
    if len(texts) <= len(cells) / 2:
        return Guess("most of these cells are empty: gaps of the source count as missing")
    kinds = (
        (r"[+-]?\d{1,3}(?:[. ]?\d{3})*,\d+", "they look like numbers with a decimal comma: write them with a point, 1.5"),
        (r"[+-]?\d{1,3}(?:[, '_]\d{3})+(?:\.\d+)?", "they look like numbers with marks at the thousands: leave those out"),
        (r"[+-]?\d+(?:\.\d+)? ?[^\d\s]{1,8}", "they look like numbers with a unit behind: leave that out, and name it in `unit`"),
        (r"[^\W\d_]+(?:/[^\W\d_]+)?|[-.?#]+", "they are words, or marks for what is missing: is `value` the right column?"),
    )  # fmt: skip
    for pattern, cause in kinds:
        if _share(texts, lambda text, pattern=pattern: re.fullmatch(pattern, text)) >= ENOUGH:  # type: ignore[misc]
            return Guess(cause)
    shown = ", ".join(f"'{text}' ({100 * share:.0f} %)" for text, share in common_shapes(cells))
    return Guess(f"they look like {shown}, with digits as 9 and letters as a")
