"""Comparing an output with its ledger, as both are at one moment, however long it takes.

Outputs only grow: a text file by lines, a folder by parts, and a single Parquet file is put in the place of the one before. So
the moment is kept by an open file and its size, or by a list of parts, and what is written later is not looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from halflife.errors import InvalidInput, unknown
from halflife.outputs.compare import Line, differences, expected_rows
from halflife.outputs.files import check_regular, name_failures
from halflife.outputs.layout import Block, Digests, Form, Layout, Published, csv_form, json_form, stream_prefix
from halflife.outputs.parquet import (
    WHOLE,
    Part,
    are_same,
    check_folder,
    find_changed_bytes,
    list_parts,
    make_table,
    read_batches,
    read_part_batches,
    read_parts,
    read_rows,
)
from halflife.outputs.text import read_lines

FORMS = {".csv": csv_form, ".jsonl": json_form}
ENDINGS = (*FORMS, ".parquet", "/")


@dataclass(frozen=True)
class Pinned:
    """An output as it is at one moment: an open file with its size, None if there is none, or the parts of a folder."""

    name: str
    path: Path
    ending: str
    file: BinaryIO | None = None
    size: int = 0
    parts: tuple[Part, ...] = ()

    def close(self) -> None:
        """Let go of the file."""
        if self.file is not None:
            self.file.close()


def pin_output(target: str | Path) -> Pinned:
    """Return an output as it is now."""
    if str(target) == "-":
        raise InvalidInput(
            "what went to the standard output cannot be read back: compare the file that it was saved to"
        )
    path, ending = find_place(target)
    with name_failures(path, "read"):
        if ending == "/":
            check_folder(path)
            return Pinned(str(target), path, ending, parts=tuple(list_parts(path) if path.exists() else ()))
        check_regular(path)
        if not path.exists():
            return Pinned(str(target), path, ending)
        file = path.open("rb")
        return Pinned(str(target), path, ending, file, os.fstat(file.fileno()).st_size)


def find_place(target: str | Path) -> tuple[Path, str]:
    """Return where a target is, links followed (what they point to is replaced, not they), and its ending."""
    name = str(target)
    ending = "/" if name.endswith("/") else Path(name).suffix.lower()
    if ending not in ENDINGS:
        raise unknown(f"ending of the output {name!r},", ending, ENDINGS)
    return Path(os.path.realpath(name)), ending


def compare_pinned(pinned: Pinned, layout: Layout, stored: Iterable[Published], digests: Digests) -> Iterator[str]:
    """Yield every difference between an output and what the ledger holds: in its rows, else in its bytes."""
    form, lines, header = read_pinned(pinned, layout)
    found = False
    for difference in differences(pinned.name, form, lines, expected_rows(form, stored, header=header)):
        found = True
        yield difference
    if not found:
        yield from find_changed_files(pinned, digests)


def read_pinned(pinned: Pinned, layout: Layout) -> tuple[Form, Iterator[Line], bool]:
    """Return an output's rows as lines of a form, and whether the first is a header; an empty file has none, and needs none."""
    if pinned.ending == "/":
        return csv_form(layout), read_parts(pinned.parts, layout), False
    if pinned.ending == ".parquet":
        rows = read_rows(pinned.path, layout, pinned.file) if pinned.file and pinned.size else iter(())
        return csv_form(layout), rows, False
    form = FORMS[pinned.ending](layout)
    if pinned.file is None or not pinned.size:
        return form, iter(()), False
    lines = read_lines(pinned.file, pinned.size)
    if is_shared(pinned):
        return json_form(layout, shared=True), _of_stream(layout, lines), False
    return form, lines, bool(form.header)


def is_shared(pinned: Pinned) -> bool:
    """Whether a file of JSON lines was saved from the standard output: then each row names its stream."""
    if pinned.ending != ".jsonl" or pinned.file is None:
        return False
    prefix = stream_prefix().encode()
    pinned.file.seek(0)
    return pinned.file.read(len(prefix)) == prefix


def find_changed_files(pinned: Pinned, digests: Digests) -> Iterator[str]:
    """Name the Parquet files whose bytes are not those that were written, whatever their rows say."""
    if pinned.ending == ".parquet" and pinned.file and pinned.size:
        fault = find_changed_bytes(pinned.file, WHOLE, digests)
        if fault:
            yield f"{pinned.path}: {fault}"
    for _, _, path in pinned.parts:
        with name_failures(path, "read"), path.open("rb") as file:
            fault = find_changed_bytes(file, path.name, digests)
        if fault:
            yield f"{path}: {fault}"


def _of_stream(layout: Layout, lines: Iterable[Line]) -> Iterator[Line]:
    """Leave the rows of other streams out, of what was saved from the standard output."""
    own, any_stream = (stream_prefix(s).encode() for s in (layout.stream, ""))
    return (line for line in lines if line[1].startswith(own) or not line[1].startswith(any_stream))


class Match(Protocol):
    """Whether an output is what the ledger holds, told block by block while that is read: no more than yes or no."""

    same: bool

    def feed(self, block: Block) -> None:
        """Meet the next steps."""

    def ends(self) -> bool:
        """Whether all that was fed is all that the output held when it was pinned."""


def match_output(pinned: Pinned, layout: Layout) -> Match:
    """Return what tells whether an output is the same."""
    return TextMatch(pinned, layout) if pinned.ending in FORMS else RowsMatch(pinned, layout)


class TextMatch:
    """Of a text file: to the byte."""

    def __init__(self, pinned: Pinned, layout: Layout) -> None:
        self._form, self._pinned, self._at = FORMS[pinned.ending](layout), pinned, 0
        self.same = bool(pinned.file and pinned.size) and not is_shared(pinned)
        if self.same:
            self._meet(self._form.header)

    def _meet(self, text: bytes) -> None:
        assert self._pinned.file is not None
        self._pinned.file.seek(self._at)
        self.same = self._pinned.file.read(len(text)) == text
        self._at += len(text)

    def feed(self, block: Block) -> None:
        """Meet the next steps."""
        if self.same:
            self._meet(self._form.render_many(block))

    def ends(self) -> bool:
        """Whether nothing is left of the file."""
        return self.same and self._at == self._pinned.size


class RowsMatch:
    """Of Parquet files: every cell, to the bit. Their bytes are another matter, see `find_changed_files`."""

    def __init__(self, pinned: Pinned, layout: Layout) -> None:
        self._layout, self.same = layout, True
        self._rows: list[Any] = []
        if pinned.ending == "/":
            self._batches = read_part_batches(pinned.parts, layout)
        else:
            held = pinned.file is not None and pinned.size > 0
            self._batches = read_batches(pinned.path, layout, pinned.file) if held else iter(())

    def feed(self, block: Block) -> None:
        """Meet the next steps."""
        import pyarrow as pa

        if not self.same:
            return
        want = make_table([block], self._layout)
        try:
            while (
                sum(len(rows) for rows in self._rows) < len(want) and (batch := next(self._batches, None)) is not None
            ):
                self._rows.append(batch)
        except InvalidInput:  # whoever looks for differences says so
            self.same = False
            return
        held = pa.Table.from_batches(self._rows, want.schema)
        self.same = are_same(held.slice(0, len(want)), want)
        self._rows = held.slice(len(want)).to_batches()

    def ends(self) -> bool:
        """Whether no row is left."""
        try:
            return self.same and not any(len(rows) for rows in chain(self._rows, self._batches))
        except InvalidInput:
            return False
