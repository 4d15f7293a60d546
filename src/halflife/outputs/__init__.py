"""Outputs: what the ledger holds, as files that people read.

Noise for a step is drawn once. Whatever crashes, the stored value is published again. An output that is ahead of its ledger
(a restored backup, say) is refused: that is how noise gets redrawn.

An output is a function of its ledger and nothing else. On opening, its last whole step must be what the ledger holds, to
the byte; an end that a crash cut off must be the beginning of what the ledger holds next, and is cut back. Then steps are
appended from there. `compare_output` compares all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

from halflife.errors import InvalidInput
from halflife.outputs.combining import Combination
from halflife.outputs.files import check_place, name_failures
from halflife.outputs.layout import (
    NO_DIGESTS,
    Block,
    Digests,
    Find,
    Layout,
    NextStep,
    Output,
    Published,
    Stored,
    json_form,
)
from halflife.outputs.noise_facts import NoiseFacts
from halflife.outputs.parquet import ParquetOutput, PartsOutput, check_file, check_parts
from halflife.outputs.pinned import (
    ENDINGS,
    FORMS,
    Match,
    Pinned,
    compare_pinned,
    find_changed_files,
    find_place,
    match_output,
    pin_output,
)
from halflife.outputs.reading import Rows, read_rows_of
from halflife.outputs.text import Stdout, TextOutput, check_text
from halflife.outputs.values import PublishedValues

__all__ = [
    "ENDINGS",
    "Block",
    "Combination",
    "Digests",
    "Layout",
    "Match",
    "NoiseFacts",
    "Output",
    "Pinned",
    "Published",
    "PublishedValues",
    "Rows",
    "check_output",
    "compare_output",
    "find_changed_files",
    "match_output",
    "open_output",
    "pin_output",
    "read_rows_of",
]

MOST_DIFFERENCES = 20


def open_output(
    target: str | Path,
    layout: Layout,
    last: int,
    find: Find,
    *,
    emitted: int = 0,
    next_step: NextStep | None = None,
    digests: Digests = NO_DIGESTS,
    facts: NoiseFacts | None = None,
) -> Output:
    """Open an output, a new one or one to go on with, or refuse one that the ledger does not account for.

    `target` is a .csv, .jsonl or .parquet file, a folder of Parquet parts if it ends with /, or - for JSON lines on the
    standard output. `last` is the newest step that the ledger holds, `find` what it holds for a step; `emitted` the newest
    step that went to the standard output before. `next_step` says which step the ledger holds after one: without it a gap
    is searched step by step. `digests` keeps those of Parquet files. `facts` is what they say about their noise.
    """
    if str(target) == "-":
        return Stdout(json_form(layout, shared=True), last, emitted)
    ledger = Stored(last, find, next_step, digests)
    path, ending = find_place(target)
    if ending in FORMS:
        return TextOutput(path, FORMS[ending](layout), ledger)
    if ending == ".parquet":
        return ParquetOutput(path, layout, ledger, facts)
    return PartsOutput(path, layout, ledger, facts)


def check_output(
    target: str | Path,
    layout: Layout,
    last: int,
    find: Find,
    *,
    emitted: int = 0,
    next_step: NextStep | None = None,
    digests: Digests = NO_DIGESTS,
) -> None:
    """Refuse an output that `open_output` would refuse, in the same words; nothing is made, changed or removed."""
    if str(target) == "-":
        Stdout(json_form(layout, shared=True), last, emitted)
        return
    ledger = Stored(last, find, next_step, digests)
    path, ending = find_place(target)
    with name_failures(path, "opened"):
        check_place(path)
        if ending in FORMS:
            check_text(path, FORMS[ending](layout), ledger)
        elif ending == ".parquet":
            check_file(path, layout, ledger)
        else:
            check_parts(path, layout, ledger)


def compare_output(
    target: str | Path | Pinned, layout: Layout, stored: Iterable[Published], digests: Digests = NO_DIGESTS
) -> Iterator[str]:
    """Yield every difference between an output and what the ledger holds, in words; twenty at the most, and none if none."""
    found = _differences(target, layout, stored, digests)
    yield from islice(found, MOST_DIFFERENCES)
    if next(found, None) is not None:
        yield "… and more"


def _differences(
    target: str | Path | Pinned, layout: Layout, stored: Iterable[Published], digests: Digests
) -> Iterator[str]:
    if str(target) == "-":
        raise InvalidInput(
            "what went to the standard output cannot be read back: compare the file that it was saved to"
        )
    try:
        if isinstance(target, Pinned):
            yield from compare_pinned(target, layout, stored, digests)
            return
        with closing(pin_output(target)) as pinned:
            yield from compare_pinned(pinned, layout, stored, digests)
    except InvalidInput as problem:
        yield str(problem)
