"""Columns by their names: exactly as written, and never shown where they may be somebody's readings.

A file without a header has its first reading where names belong. Whoever looks for a column there must not print it. Nobody can
know whether a first line is a header; but a header has names in it, and the ones that were asked for.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from halflife.errors import InvalidInput, unknown

MOST_SHOWN = 20
"""More names than this are not shown: a table with one column a person has their names there."""


def is_header(names: Iterable[object]) -> bool:
    """Whether all of these look like names: texts that begin with a letter, as no number, no time and no blank does.

    >>> is_header(["home", "ts", "kWh/hh "]), is_header(["ann", "2024-01-01", "1.5"]), is_header(["id", ""]), is_header([0, 1])
    (True, False, False, False)
    """
    return all(isinstance(name, str) and name.lstrip("_ ")[:1].isalpha() for name in names)


def check_columns(label: str, asked: Sequence[str], names: Collection[object]) -> None:
    """Refuse columns that a source does not have, or has twice.

    Its own names are shown if they may be shown: it has another column that was asked for, and all look like names. One that
    differs from the asked name in case, blanks or Unicode form alone is shown in any case, as it says nothing new.
    """
    counts = Counter(names)
    for column in asked:
        if counts[column] > 1:
            raise InvalidInput(f"{label} has {counts[column]} columns {column!r}: give each column its own name")
        if counts[column]:
            continue
        alike = [name for name in counts if isinstance(name, str) and _folded(name) == _folded(column)]
        if alike:
            raise InvalidInput(
                f"{label} has no column {column!r}: did you mean {alike[0]!r}? It differs in case, blanks or Unicode form alone, "
                "and a column is named exactly as in the file"
            )
        shown = [str(name) for name in counts]
        if is_header(counts) and any(other in counts for other in asked) and len(shown) <= MOST_SHOWN:
            raise unknown(f"column of {label}", column, shown)
        raise InvalidInput(
            f"{label} has no column {column!r} among its {len(counts):,}. Their names are not shown, as a file without a header "
            "has somebody's reading there: look at its first line, and give every column its name (of CSV: `columns: [...]` in a "
            "policy, --columns on the command line)"
        )


def people_of_columns(label: str, time: str, names: Sequence[object]) -> list[str]:
    """Return the columns of a table that has one for each person, or refuse it; names are not shown, as they are people's."""
    check_columns(label, [time], names)
    people = [str(name) for name in names if name != time]
    if not people or len(set(people)) < len(people):
        why = "no column beside its times" if not people else "two columns of one name"
        raise InvalidInput(f"{label} has {why}: a wide table has one column for each person, each with its own name")
    return people


def _folded(name: str) -> str:
    """A name without what people do not see: case, blanks, and how Unicode writes a character."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())
