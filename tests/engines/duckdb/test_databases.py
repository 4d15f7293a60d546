"""DuckDB and SQLite files: what is computed when it is read, cells of any length, and files that are locked or taken away."""

from __future__ import annotations

import gzip
import sqlite3
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pytest

from engines.test_engines import BASE
from halflife import InvalidInput
from halflife.engines import open_source
from halflife.engines.duckdb import files
from halflife.engines.duckdb.files import Unreadable
from halflife.errors import SourceUnreachable

DAY = "2013-03-30"
ASKED = replace(BASE, person="p", time="t", value="x", low=0, high=10**6, fold="sum", multiply=1, divide=1)


def execute(path: Path, *statements: str) -> Path:
    base = duckdb.connect(str(path)) if path.suffix == ".duckdb" else sqlite3.connect(path)
    for statement in statements:
        base.execute(statement)
    base.commit() if isinstance(base, sqlite3.Connection) else None
    base.close()
    return path


def ask(path: Path, table: str | None = None) -> float:
    engine = open_source(path, table=table)
    try:
        return float(engine.aggregate(ASKED).sums.sum())
    finally:
        engine.close()


VIEW = (
    "CREATE TABLE r (p text, t text, x double)",
    f"INSERT INTO r VALUES ('a', '{DAY}', 2)",
    "CREATE VIEW v AS SELECT p, t, 1 / x AS x FROM r",
)


@pytest.mark.parametrize("end", ["duckdb", "sqlite"])
def test_a_view_is_refused_as_it_may_fail_on_a_cell(end: str, tmp_path: Path) -> None:
    path = execute(tmp_path / f"a.{end}", *VIEW)
    with pytest.raises(InvalidInput, match=r"'v' is computed.*CREATE TABLE"):
        open_source(path, table="v")
    assert ask(path) == ask(path, "r") == 2  # the only table


def test_columns_that_duckdb_computes_when_it_reads_are_refused(tmp_path: Path) -> None:
    """DuckDB checks them when a row is inserted, and not when it is updated."""
    path = execute(
        tmp_path / "a.duckdb",
        "CREATE TABLE r (p text, t text, raw text, x double GENERATED ALWAYS AS (CAST(raw AS double)) VIRTUAL)",
        f"INSERT INTO r VALUES ('a', '{DAY}', '2')",
        "UPDATE r SET raw = 'no number'",
    )
    with pytest.raises(InvalidInput, match="'r' is computed"):
        open_source(path, table="r")


def test_virtual_tables_of_sqlite_are_refused(tmp_path: Path) -> None:
    path = execute(tmp_path / "a.sqlite", "CREATE VIRTUAL TABLE r USING fts4 (p, t, x)")
    with pytest.raises(InvalidInput, match="'r' is computed"):
        open_source(path, table="r")


def test_a_cell_of_sqlite_that_is_far_too_long_is_a_bad_cell(tmp_path: Path) -> None:
    most, more = "a" * files.LONGEST, "\N{GREEK SMALL LETTER ALPHA}" * (files.LONGEST // 2) + "a"
    path = execute(
        tmp_path / "a.sqlite",
        "CREATE TABLE r (p text, t text, x)",
        f"INSERT INTO r VALUES ('{most}', '{DAY}', 2), ('{more}', '{DAY}', 3), (7, '{DAY}', 5.5), ('b', '{DAY}', NULL)",
        f"INSERT INTO r VALUES ('c', '{DAY}', '1.{'0' * files.LONGEST}')",
    )
    engine = open_source(path)
    answer = engine.aggregate(ASKED)
    engine.close()
    assert answer.sums.sum() == 2 + 6
    assert (answer.tallies["bad_person"], answer.tallies["bad_value"]) == (1, 2)


def test_a_batch_of_the_longest_cells_fits_into_memory() -> None:
    assert files.CHUNK * files.LONGEST < 50_000_000


def test_a_cell_of_sqlite_beyond_the_engines_memory_takes_no_other_with_it(tmp_path: Path) -> None:
    """Before: DuckDB had not enough memory for it, and everybody counted as missing."""
    path = execute(
        tmp_path / "a.sqlite",
        "CREATE TABLE r (p text, t text, x)",
        f"INSERT INTO r VALUES ('a', '{DAY}', 2), (replace(hex(zeroblob(75000000)), '00', 'bb'), '{DAY}', 3)",
    )
    assert ask(path) == 2


@pytest.mark.parametrize("end", ["duckdb", "sqlite"])
def test_a_file_that_its_writer_locks_is_out_of_reach(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = execute(tmp_path / f"a.{end}", *VIEW[:2])
    hold = {
        "duckdb": "import duckdb, sys; base = duckdb.connect(sys.argv[1])",
        "sqlite": "import sqlite3, sys; base = sqlite3.connect(sys.argv[1]); base.execute('BEGIN EXCLUSIVE')",
    }[end]
    code = f"{hold}; print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"held\n"
        with monkeypatch.context() as patch, pytest.raises(SourceUnreachable, match="keeps it locked"):
            patch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0.01))
            open_source(path)
        writer.communicate()
    assert ask(path) == 2


def test_a_sqlite_file_that_is_taken_away_after_it_was_opened_is_unreadable(tmp_path: Path) -> None:
    path = execute(tmp_path / "a.sqlite", *VIEW[:2])
    engine = open_source(path)
    path.unlink()
    with pytest.raises(Unreadable, match="cannot be read to its end"):
        engine.aggregate(ASKED)
    engine.close()


@pytest.mark.parametrize("columns", [None, ["p", "t", "x"]])
def test_a_compressed_file_that_is_written_to_is_unreadable_and_says_nothing_of_its_source(
    columns: list[str] | None, tmp_path: Path
) -> None:
    """What was taken for a table of another form was dealt with as a source out of reach."""
    path = tmp_path / "a.csv.gz"
    whole = gzip.compress(b"p,t,x\n" * (columns is None) + f"a,{DAY},2\n".encode())
    path.write_bytes(whole)
    engine = open_source(path, columns=columns)
    path.write_bytes(whole[:-5])
    with pytest.raises(Unreadable, match="is damaged"):
        engine.aggregate(ASKED)
    engine.close()
    path.write_bytes(whole[:12])
    with pytest.raises(Unreadable, match="is damaged"):
        open_source(path, columns=columns).aggregate(ASKED)
