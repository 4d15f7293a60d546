"""Outputs: what the ledger holds, as files that people read.

Noise for a step is drawn once. Whatever crashes, the stored value is published again. An output that is ahead of its ledger
(a restored backup, say) is refused: that is how noise gets redrawn.

An output is a function of its ledger and nothing else. On opening, its last whole step must be what the ledger holds, to
the byte; an end that a crash cut off must be the beginning of what the ledger holds next, and is cut back. Then steps are
appended from there. `compare_output` compares all of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from halflife.errors import InvalidInput, unknown
from halflife.outputs.compare import Line, differences, wanted
from halflife.outputs.layout import (
    Find,
    Layout,
    NextStep,
    Output,
    Published,
    Stored,
    csv_form,
    json_form,
    stream_prefix,
)
from halflife.outputs.parquet import ParquetOutput, PartsOutput, read_parts, read_rows
from halflife.outputs.text import Stdout, TextOutput, read_lines

__all__ = ["Layout", "Output", "Published", "compare_output", "open_output"]

FORMS = {".csv": csv_form, ".jsonl": json_form}
ENDINGS = (*FORMS, ".parquet", "/")
MOST_DIFFERENCES = 20


def open_output(
    target: str | Path, layout: Layout, last: int, find: Find, *, emitted: int = 0, next_step: NextStep | None = None
) -> Output:
    """Open an output, a new one or one to go on with, or refuse one that the ledger does not account for.

    `target` is a .csv, .jsonl or .parquet file, a folder of Parquet parts if it ends with /, or - for JSON lines on the
    standard output. `last` is the newest step that the ledger holds, `find` what it holds for a step; `emitted` the newest
    step that went to the standard output before. `next_step` says which step the ledger holds after one: without it a gap
    is searched step by step.
    """
    if str(target) == "-":
        return Stdout(json_form(layout, shared=True), last, emitted)
    ledger = Stored(last, find, next_step)
    path, ending = _place(target)
    if ending in FORMS:
        return TextOutput(path, FORMS[ending](layout), ledger)
    if ending == ".parquet":
        return ParquetOutput(path, layout, ledger)
    return PartsOutput(path, layout, ledger)


def compare_output(target: str | Path, layout: Layout, stored: Iterable[Published]) -> Iterator[str]:
    """Yield every difference between an output and what the ledger holds, in words; twenty at the most, and none if none."""
    found = _differences(target, layout, stored)
    yield from islice(found, MOST_DIFFERENCES)
    if next(found, None) is not None:
        yield "… and more"


def _differences(target: str | Path, layout: Layout, stored: Iterable[Published]) -> Iterator[str]:
    if str(target) == "-":
        raise InvalidInput(
            "what went to the standard output cannot be read back: compare the file that it was saved to"
        )
    path, ending = _place(target)
    try:
        if ending in FORMS:
            lines = read_lines(path)
            first = list(islice(lines, 1))  # an empty file has no header, and needs none
            form = FORMS[ending](layout)
            if ending == ".jsonl" and first and first[0][1].startswith(stream_prefix().encode()):
                form, lines, first = json_form(layout, shared=True), _of_stream(layout, chain(first, lines)), []
            want = wanted(form, stored, header=bool(form.header and first))
            yield from differences(str(target), form, chain(first, lines), want)
        else:
            rows = read_rows(path, layout) if ending == ".parquet" else read_parts(path, layout)
            form = csv_form(layout)
            yield from differences(str(target), form, rows, wanted(form, stored, header=False))
    except InvalidInput as problem:
        yield str(problem)


def _of_stream(layout: Layout, lines: Iterable[Line]) -> Iterator[Line]:
    """Leave the rows of other streams out, of what was saved from the standard output."""
    own, any_stream = (stream_prefix(s).encode() for s in (layout.stream, ""))
    return (line for line in lines if line[1].startswith(own) or not line[1].startswith(any_stream))


def _place(target: str | Path) -> tuple[Path, str]:
    """Return where a target is, links followed (what they point to is replaced, not they), and its ending."""
    name = str(target)
    ending = "/" if name.endswith("/") else Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise unknown(f"ending of the output {name!r},", ending, ENDINGS)
    return Path(os.path.realpath(name)), ending
