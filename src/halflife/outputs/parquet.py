"""Parquet: one file that is replaced whole, or a folder of parts, one for each write.

Either way a file appears under its name when it is complete and on disk, so a crash leaves at most a temporary file. Its digest
is recorded before it appears, and never again: a file whose bytes have changed is noticed, whatever is published later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from halflife.errors import InvalidInput
from halflife.numerics.arrays import Integers
from halflife.outputs.compare import Line, ahead, confirm
from halflife.outputs.files import (
    TEMPORARY,
    check_leftover,
    check_regular,
    clear_leftover,
    make_folder,
    name_failures,
    replace,
    sha256_of,
    temporary_of,
)
from halflife.outputs.layout import (
    NO_DIGESTS,
    Block,
    Digests,
    Layout,
    Stored,
    check_order,
    clock,
    csv_form,
    csv_line,
)
from halflife.outputs.noise_facts import KEY, NoiseFacts

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

GROUP_ROWS = 1 << 17
"""Rows of a row group, the least that a reader loads."""
PENDING_ROWS = 1 << 18
"""Rows that are gathered before a single file is rewritten unasked."""

WHOLE = "parquet"
"""What digests call a single file, wherever it lies: it may be moved."""

_PART = re.compile(r"part-(\d{9,10})-(\d{9,10})\.parquet")


class ParquetOutput:
    """One Parquet file. Steps are gathered, and readers see them at `close`, when the file is rewritten."""

    def __init__(self, path: Path, layout: Layout, ledger: Stored, facts: NoiseFacts | None = None) -> None:
        self._path, self._layout, self._digests, self.last_step = path, layout, ledger.digests, 0
        self._facts = facts
        self._pending: list[Block] = []
        with name_failures(path, "opened"):
            check_regular(path)
            make_folder(path.parent)
            clear_leftover(temporary_of(path))
            if path.exists() and path.stat().st_size:
                self._stamp = _stamp(path)
                self.last_step = check_file(path, layout, ledger)
            else:
                self._rewrite(())

    def write(self, block: Block) -> None:
        """Gather steps for the next `close`, which comes by itself when there are many."""
        check_order(block.steps, self._pending[-1].steps[-1] if self._pending else self.last_step)
        if not block.steps:
            return
        block.check(self._layout.rows)
        self._pending.append(block)
        if sum(waiting.values.size for waiting in self._pending) >= PENDING_ROWS:
            self.close()

    def close(self) -> None:
        """Rewrite the file with the gathered steps."""
        if not self._pending:
            return
        with name_failures(self._path, "written"):
            if _stamp(self._path) != self._stamp:
                raise InvalidInput(
                    f"{self._path} was changed by someone else since it was opened: open the output again, which checks it"
                )
            self._rewrite(read_batches(self._path, self._layout))
        self.last_step = self._pending[-1].steps[-1]
        self._pending = []

    def _rewrite(self, old: Iterable[pa.RecordBatch]) -> None:
        last, before = self._pending[-1].steps[-1] if self._pending else 0, self.last_step
        record = partial(self._digests.record, WHOLE, last)
        _save(self._path, self._layout, self._facts, old, self._pending, lambda sha256: record(sha256, before))
        self._stamp = _stamp(self._path)


class PartsOutput:
    """A folder of Parquet files, a new one for each write, named by its first and last step."""

    def __init__(self, folder: Path, layout: Layout, ledger: Stored, facts: NoiseFacts | None = None) -> None:
        self._folder, self._layout, self._digests, self.last_step = folder, layout, ledger.digests, 0
        self._facts = facts
        with name_failures(folder, "opened"):
            check_folder(folder)
            make_folder(folder)
            for left in _leftovers(folder):
                clear_leftover(left)
            self.last_step = check_parts(folder, layout, ledger)

    def write(self, block: Block) -> None:
        """Add a part."""
        check_order(block.steps, self.last_step)
        if not block.steps:
            return
        path = self._folder / f"part-{block.steps[0]:09d}-{block.steps[-1]:09d}.parquet"
        if path.exists():
            raise InvalidInput(f"{path} was written by someone else: open the output again, which checks it")
        record = partial(self._digests.record, path.name, block.steps[-1])
        _save(path, self._layout, self._facts, (), [block], lambda sha256: record(sha256, None))
        self.last_step = block.steps[-1]

    def close(self) -> None:
        """Do nothing: no file is held open."""


def check_file(path: Path, layout: Layout, ledger: Stored) -> int:
    """Return the last step of a single file, 0 if there is none; refuse one that is not ours, and change nothing."""
    check_regular(path)
    check_leftover(temporary_of(path))
    if not path.exists() or not path.stat().st_size:
        return 0
    step = _last_step(path, layout, ledger)
    _check_bytes(path, WHOLE, ledger.digests)
    return step


def check_parts(folder: Path, layout: Layout, ledger: Stored) -> int:
    """Return the last step of a folder of parts, 0 if there is none; refuse what is not ours, and change nothing."""
    check_folder(folder)
    if not folder.exists():
        return 0
    for left in _leftovers(folder):
        check_leftover(left)
    parts = list_parts(folder)
    if parts and parts[-1][1] > ledger.last:
        raise ahead(folder, parts[-1][1], ledger.last)
    _check_gaps(folder, parts, ledger)
    if not parts:
        return 0
    step = _last_step(parts[-1][2], layout, ledger)
    _check_name(parts[-1], layout)
    _check_bytes(parts[-1][2], parts[-1][2].name, ledger.digests)
    return step


def _leftovers(folder: Path) -> list[Path]:
    """What a crash may have left of a part."""
    return [folder / name for name in os.listdir(folder) if name.startswith(".part-") and name.endswith(TEMPORARY)]


def _stamp(path: Path) -> tuple[int, int, int]:
    stat = path.stat()
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _schema(layout: Layout) -> pa.Schema:
    """The columns of a layout. None of them can be null, so that a file with a hole in it is not of this schema."""
    import pyarrow as pa

    moment = pa.timestamp("us", tz="UTC" if layout.zone.upper() == "UTC" else layout.zone)
    types = {"step": pa.int64(), "start": moment, "end": moment, "group": pa.string()}
    fields = [pa.field(name, types.get(name, pa.float64()), nullable=False) for name in layout.columns]
    return pa.schema(fields, {"stream": layout.stream, "unit": layout.unit or "", "written_by": "halflife"})


def make_table(blocks: Sequence[Block], layout: Layout) -> pa.Table:
    """Return steps as the rows of a file."""
    import pyarrow as pa

    schema, cells = _schema(layout), layout.cells
    for block in blocks:
        block.check(len(cells))
    columns = [
        pa.array(np.repeat(np.array([*chain(*numbers)], dtype=np.int64), len(cells)))
        for numbers in ([b.steps for b in blocks], [b.starts for b in blocks], [b.ends for b in blocks])
    ]
    all_cells = np.tile(np.arange(len(cells)), sum(len(b.steps) for b in blocks))
    for j, field in enumerate(schema.names[3:-2]):
        columns.append(pa.array([cell[j] for cell in cells], schema.field(field).type).take(pa.array(all_cells)))
    for arrays in ([b.values for b in blocks], [b.bands for b in blocks]):
        columns.append(pa.array(np.concatenate([np.empty(0), *(a.ravel() for a in arrays)]), pa.float64()))
    return pa.table([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _save(
    path: Path,
    layout: Layout,
    facts: NoiseFacts | None,
    old: Iterable[pa.RecordBatch],
    blocks: Sequence[Block],
    record: Callable[[bytes], None],
) -> None:
    """Write a file of old rows, which are passed on a few at a time, and new ones; and what is known of the noise of all."""
    import pyarrow.parquet as pq

    new = make_table(blocks, layout)
    about = new.schema.metadata | ({} if facts is None else {KEY: facts.to_json()})

    def fill(file: BinaryIO) -> None:
        with pq.ParquetWriter(file, new.schema.with_metadata(about), write_page_checksum=True) as writer:
            for table in _regroup(chain(old, new.to_batches(max_chunksize=1 << 16)), new.schema):
                writer.write_table(table)

    replace(path, fill, record)


def _regroup(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Gather batches into row groups of one size: a file that grew a step at a time reads like one written at once."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(b.num_rows for b in held) >= GROUP_ROWS:
            yield pa.Table.from_batches(held, schema)
            held = []
    if held:
        yield pa.Table.from_batches(held, schema)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what Arrow says about a damaged file into an error that names it and the next step."""
    import pyarrow as pa

    try:
        yield
    except InvalidInput:
        raise
    except (pa.ArrowException, ValueError, OSError) as problem:
        raise InvalidInput(
            f"{path} cannot be read as Parquet: {problem}. It is left as it is: move it away, and the ledger's values are"
            " written again, or give the output another name"
        ) from problem


def _open(path: Path, layout: Layout, data: BinaryIO | None = None) -> pq.ParquetFile:
    """Open a file, one that is open already if `data` is given, or refuse one of another layout."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(data or path, page_checksum_verification=True)
    found, schema = file.schema_arrow, _schema(layout)
    about = {key: (found.metadata or {}).get(key) for key in schema.metadata}
    if not found.equals(schema) or about != schema.metadata:
        raise InvalidInput(
            f"{path} has other columns, zone, stream or unit than this stream:\n{found.to_string()}\ninstead of\n"
            f"{schema.to_string()}\nIt is left as it is: give the output another name"
        )
    return file


def read_batches(path: Path, layout: Layout, data: BinaryIO | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, one that is open already if `data` is given, in batches."""
    with _readable(path), _open(path, layout, data) as file:
        yield from file.iter_batches()


def _last_step(path: Path, layout: Layout, ledger: Stored) -> int:
    """Return the last step of a file, after comparing its rows with the ledger's."""
    rows = layout.rows
    with _readable(path), _open(path, layout) as file:
        if file.metadata.num_rows % rows:
            raise InvalidInput(
                f"{path} has {file.metadata.num_rows} rows, which is no multiple of the {rows} that a step of this stream has:"
                " it was not written for this stream; give the output another name"
            )
        if not file.metadata.num_rows:
            return 0
        table = _last_rows(file, rows)
        step = int(table["step"][-1].as_py())
        held = "".join(_texts(table, layout)).encode()
    confirm(path, step, held, csv_form(layout), ledger)
    return step


def _last_rows(file: pq.ParquetFile, rows: int) -> pa.Table:
    """Return the last rows of a file, from as few row groups as hold them."""
    first, found = file.num_row_groups, 0
    while first and found < rows:
        first -= 1
        found += file.metadata.row_group(first).num_rows
    return file.read_row_groups(range(first, file.num_row_groups)).slice(found - rows)


def _texts(rows: pa.Table | pa.RecordBatch, layout: Layout) -> Iterator[str]:
    """Yield rows as lines of CSV, in which no two different rows look alike: so all formats are compared as text."""
    import pyarrow as pa

    columns = [c.cast(pa.int64()) if pa.types.is_timestamp(c.type) else c for c in rows.columns]
    for step, start, end, *others in zip(*(c.to_pylist() for c in columns), strict=True):
        yield csv_line([step, clock(start, layout.zone), clock(end, layout.zone), *others])


Part = tuple[int, int, Path]
"""(first, last, path): its steps, by its name."""


def check_folder(folder: Path) -> None:
    """Refuse a file where a folder of parts belongs."""
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file, not a folder of Parquet parts: give the output another name")


def list_parts(folder: Path) -> list[Part]:
    """Return the parts in order; refuse overlapping ones, and strangers that readers of the folder would take for parts."""
    parts: list[Part] = []
    for name in sorted(os.listdir(folder)):
        match = _PART.fullmatch(name)
        if match:
            check_regular(folder / name)
            parts.append((int(match[1]), int(match[2]), folder / name))
        elif not name.startswith((".", "_")):
            raise InvalidInput(
                f"{folder / name} is not a part of this output, but readers would take it for one: move it"
            )
    parts.sort()
    newest = 0
    for first, last, path in parts:
        if not newest < first <= last:
            raise InvalidInput(
                f"{path} overlaps the part before it, which ends with step {newest}: move the one away that is not the"
                " ledger's, and the ledger's values are written again"
            )
        newest = last
    return parts


def _check_gaps(folder: Path, parts: Sequence[Part], ledger: Stored) -> None:
    """Refuse a folder with a part missing: a step that the ledger holds lies between two parts."""
    end = 0
    for first, final, path in parts:
        lost = ledger.after(end, min(first - 1, ledger.last))
        if lost is not None:
            raise InvalidInput(
                f"{folder} has no part with step {lost.step}, which the ledger holds and which belongs before {path.name}: bring"
                " the part back, or move the later ones away, and the ledger's values are written again"
            )
        end = final


def _check_name(part: Part, layout: Layout) -> None:
    """Refuse a part whose steps are not those that its name says."""
    first, last, path = part
    with _readable(path), _open(path, layout) as file:
        steps = np.asarray(file.read(["step"])["step"])
    if not len(steps) or steps[0] != first or steps[-1] != last:
        held = f"steps {steps[0]} … {steps[-1]}" if len(steps) else "no step"
        raise InvalidInput(f"{path} holds {held}: it was renamed or damaged; move it away, and it is written again")


def _check_bytes(path: Path, name: str, digests: Digests) -> None:
    """Refuse a file with other bytes than were written, before anything is built on it."""
    with path.open("rb") as file:
        fault = find_changed_bytes(file, name, digests)
    if fault:
        raise InvalidInput(f"{path}: {fault}")


def find_changed_bytes(file: BinaryIO, name: str, digests: Digests) -> str | None:
    """Say that a file's bytes are not those whose digest was recorded when it was written; None if they are."""
    if digests is NO_DIGESTS or sha256_of(file) in digests.find(name).values():
        return None
    return (
        "its bytes are not those that were written, whatever its rows say: move it, and later parts, away, and the ledger's"
        " values are written"
        " again"
    )


def read_rows(path: Path, layout: Layout, data: BinaryIO | None = None) -> Iterator[Line]:
    """Yield every row of a file, one that is open already if `data` is given, as text for a comparison."""
    with _readable(path):
        texts = (text for batch in read_batches(path, layout, data) for text in _texts(batch, layout))
        for number, text in enumerate(texts, 1):
            yield f"row {number}", text.encode()


def read_part_batches(parts: Iterable[Part], layout: Layout) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some parts in batches."""
    for part in parts:
        _check_name(part, layout)
        yield from read_batches(part[2], layout)


def are_same(one: pa.Table, two: pa.Table) -> bool:
    """Whether two tables of one schema hold the same cells: doubles by their bits, as 0.0 and -0.0 are written differently."""
    import pyarrow as pa

    def cells(column: pa.Array) -> pa.Array | Integers:
        return np.asarray(column).view(np.int64) if pa.types.is_floating(column.type) else column

    pairs = [(cells(a), cells(b)) for a, b in zip(one.columns, two.columns, strict=True)]
    return len(one) == len(two) and all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) else a.equals(b) for a, b in pairs
    )


def read_parts(parts: Iterable[Part], layout: Layout) -> Iterator[Line]:
    """Yield every row of some parts as text for a comparison."""
    for part in parts:
        _check_name(part, layout)
        for place, text in read_rows(part[2], layout):
            yield f"{part[2].name}, {place}", text
