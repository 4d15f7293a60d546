"""What lies on the disk, read without a word to the publisher: the ledger's rows, and what readers of the outputs see."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from attacks.damage.worlds import World, reused_noise

LEDGER = "town.ledger"
TABLES = ("fact", "entry", "release", "batch", "state", "emitted")

Key = tuple[str, str, int]
"""(stream, part, step) of an entry."""


@dataclass(frozen=True)
class Seen:
    """The disk at one moment.

    tables   rows of each table as {column: value}; None where SQLite cannot read them;  schema  how the tables are made
    files    the bytes of every file that readers of an output see, by its path;  rows  what they say, by stream and step
    """

    tables: dict[str, list[dict[str, Any]] | None]
    schema: Any
    files: dict[str, bytes]
    rows: dict[str, dict[int, list[Any]]] = field(repr=False)

    def entries(self) -> dict[Key, dict[str, Any]] | None:
        """The ledger's entries, None if they cannot be read."""
        rows = self.tables["entry"]
        return None if rows is None else {(r["stream"], r["part"], r["step"]): r for r in rows}

    def states(self) -> dict[str, str]:
        return {r["name"]: r["value"] for r in self.tables["state"] or []}

    def noises(self) -> dict[str, Any]:
        """Noise that is used again, by the name of its draw."""
        return reused_noise(self.states(), {r["key"]: r["value"] for r in self.tables["fact"] or []})


def look(world: World, folder: Path, scratch: Path) -> Seen:
    """Read everything; the ledger from a copy, as opening it might change it."""
    tables, schema = read_ledger(folder / LEDGER, scratch)
    files, rows = {}, {}
    for stream, target in world.targets.items():
        mine = read_files(folder, target)
        files |= mine
        rows[stream] = read_rows(stream, mine)
    return Seen(tables, schema, files, rows)


def copy_ledger(path: Path, scratch: Path) -> Path | None:
    """Copy a ledger and its log, not the log's index; None if there is none."""
    copy = scratch / "copy.ledger"
    for ending in ("", "-wal", "-shm", "-journal"):
        Path(f"{copy}{ending}").unlink(missing_ok=True)
    for ending in ("", "-wal", "-journal"):
        source = Path(f"{path}{ending}")
        if source.is_file():
            shutil.copyfile(source, f"{copy}{ending}")
    return copy if copy.exists() else None


def read_ledger(path: Path, scratch: Path) -> tuple[dict[str, list[dict[str, Any]] | None], Any]:
    nothing: dict[str, Any] = dict.fromkeys(TABLES)
    copy = copy_ledger(path, scratch)
    if copy is None:
        return nothing, None
    db = sqlite3.connect(copy, isolation_level=None)
    db.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    try:
        schema = (
            sorted(db.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall(), key=repr),
            db.execute("PRAGMA user_version").fetchone(),
        )
        return {table: _read_table(db, table) for table in TABLES}, schema
    except (sqlite3.Error, ValueError):
        return nothing, None
    finally:
        db.close()


def _read_table(db: sqlite3.Connection, table: str) -> list[dict[str, Any]] | None:
    try:
        cursor = db.execute(f"SELECT * FROM {table} NOT INDEXED")
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]
    except (sqlite3.Error, ValueError, OverflowError):
        return None


def read_files(folder: Path, target: str) -> dict[str, bytes]:
    """The bytes of a file, or of all files of a folder that readers would take for parts; links are followed."""
    path = folder / target
    if target.endswith("/") and path.is_dir():
        parts = sorted(p for p in path.iterdir() if not p.name.startswith((".", "_")))
        return {f"{target}{p.name}": p.read_bytes() for p in parts if p.is_file()}
    return {target: path.read_bytes()} if path.is_file() else {}


def read_rows(stream: str, files: dict[str, bytes]) -> dict[int, list[Any]]:
    """What readers see of each step, as text, so that no two numbers look alike; what is no row is left out."""
    rows: dict[int, list[Any]] = {}
    for name, data in files.items():
        read = {".csv": _csv, ".jsonl": _json}.get(os.path.splitext(name)[1], _parquet)
        for step, own, row in read(data):
            if own in (None, stream):
                rows.setdefault(step, []).append(row)
    return rows


def _csv(data: bytes):
    header, *lines = data.decode(errors="surrogateescape").split("\n")
    names = header.split(",")
    for line in lines[:-1]:  # the last one has no end: it is cut off, or empty
        fields = line.split(",")
        if fields[0].isascii() and fields[0].isdigit() and len(fields) == len(names):
            yield int(fields[0]), None, tuple(fields[1:])


def _json(data: bytes):
    for line in data.decode(errors="surrogateescape").split("\n")[:-1]:
        try:
            row = json.loads(line, parse_float=str)
            yield int(row.pop("step")), row.pop("stream", None), tuple(map(str, row.values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue


def _parquet(data: bytes):
    import pyarrow as pa

    try:
        rows = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return
    for row in rows:
        if isinstance(row.get("step"), int):
            yield row.pop("step"), None, tuple(map(str, row.values()))
