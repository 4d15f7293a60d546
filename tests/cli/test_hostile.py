"""The command line on hostile files, names and streams: a sentence and an exit status, nothing hangs, and no reading is shown."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from halflife.audit.report import write_audit
from halflife.audit.verdict import Finding, Verdict
from halflife.cli import main
from halflife.cli.terminal import say, screen, write_whole
from halflife.errors import InvalidInput, visible
from publisher.town import STEPS, make, policy_dict, write_readings

ESCAPE, TURN = "\x1b]0;owned\x07\x1b[31m", "\u202egnp.exe"
WHO, WHAT = "patient-zero", "4.2424"
"""Somebody, and what they read: never on the screen."""
ROW = f"{WHO},2026-01-01T00:30:00,{WHAT}\n"
HEAD = "home,time,kwh\n"


def halflife(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments], color=True)


def check(said, *allowed):
    """A documented end, in words that are safe to show."""
    assert said.exception is None or isinstance(said.exception, SystemExit), repr(said.exception)
    assert said.exit_code in (allowed or (0, 1, 2)), said.output
    assert "Traceback" not in said.output
    unseen = [ch for ch in said.output if not ch.isprintable() and ch != "\n"]
    assert not unseen, said.output
    assert WHO not in said.output
    assert WHAT not in said.output
    assert said.exit_code == 0 or said.output.strip()


# Sources ------------------------------------------------------------------------------------------------------------


def _write(name):
    def write(folder, content):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


csv, packed, parquet, base, duck = map(_write, ("a.csv", "a.csv.gz", "a.parquet", "a.sqlite", "a.duckdb"))


def fifo(folder):
    os.mkfifo(folder / "pipe.csv")
    return "pipe.csv"


def bound(folder):
    here = os.open(".", os.O_RDONLY)
    os.chdir(folder)  # a socket's whole path must be short
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("socket.csv")
    os.fchdir(here)
    os.close(here)
    return "socket.csv"


def table(folder, columns):
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return "a.parquet"


def sqlite(folder, *statements):
    with sqlite3.connect(folder / "a.sqlite") as db:
        for statement in statements:
            db.execute(statement)
    db.close()
    return "a.sqlite"


def in_duckdb(folder, *statements):
    with duckdb.connect(str(folder / "a.duckdb")) as db:
        for statement in statements:
            db.execute(statement)
    return "a.duckdb"


GZIP = gzip.compress((HEAD + ROW).encode())
WRONG_SUM = GZIP[:-8] + bytes([GZIP[-8] ^ 1]) + GZIP[-7:]
GOOD = {"home": [WHO], "time": ["2026-01-01T00:30:00"], "kwh": [float(WHAT)]}

SOURCES = {
    # what is refused, as a file or for its columns: status 1, and nothing is spent
    "no header": (lambda f: csv(f, ROW * 3), 1),
    "no header, and a name near": (lambda f: csv(f, ROW.replace(WHO, "home1")), 1),
    "no header, and a name that was asked for": (lambda f: csv(f, "home," + ROW), 1),
    "no header, and a first line without a number": (lambda f: csv(f, f"{WHO},never,bad\n" + ROW), 1),
    "empty": (lambda f: csv(f, b""), 1),
    "blank first line": (lambda f: csv(f, "\n" + HEAD + ROW), 1),
    "a reading twice in the first line": (lambda f: csv(f, f"{WHAT},{WHAT}\n" + ROW), 1),
    "UTF-16": (lambda f: csv(f, (HEAD + ROW).encode("utf-16")), 1),
    "Latin-1 without a header": (lambda f: csv(f, "Zoë,2026-01-01,4.2424\n".encode("latin-1")), 1),
    "zip": (lambda f: csv(f, b"PK\x03\x04" + os.urandom(2000)), 1),
    "a field of 200 kB in the first line": (lambda f: csv(f, '"' + WHO * 20_000 + '",time\n' + ROW), 1),
    "a first line of 2 MB": (lambda f: csv(f, "home,time,kwh" + ",x" * 1_000_000 + "\n" + ROW), 1),
    "one line of 2 MB": (lambda f: csv(f, ROW.strip() * 60_000), 1),
    "case": (lambda f: csv(f, "Home,Time,kWh\n" + ROW), 1),
    "two columns of one name": (lambda f: csv(f, "home,time,kwh,kwh\n" + ROW), 1),
    "names with control codes": (lambda f: csv(f, f"home,time,k{ESCAPE}wh\n" + ROW), 1),
    "names that turn round": (lambda f: csv(f, f"home,time,{TURN}\n" + ROW), 1),
    "names with blanks": (lambda f: csv(f, " home , time , kwh \n" + ROW), 1),
    "gzip with a wrong checksum": (lambda f: packed(f, WRONG_SUM), 1),
    "gzip cut off": (lambda f: packed(f, GZIP[:-9]), 1),
    "gzip of nothing": (lambda f: packed(f, b""), 1),
    "gzip that is none": (lambda f: packed(f, HEAD + ROW), 1),
    "gzip broken within": (lambda f: packed(f, GZIP[:20] + b"\xff\xff\xff" + GZIP[23:]), 1),
    "gzip in a gzip": (lambda f: packed(f, gzip.compress(GZIP)), 1),
    "gzip without a header": (lambda f: packed(f, gzip.compress(ROW.encode())), 1),
    "a FIFO": (fifo, 1),
    "a socket": (bound, 1),
    "a device without end": (lambda f: "/dev/zero", 1),
    "a device of nothing": (lambda f: "/dev/null", 1),
    "a folder": (lambda f: (f / "d.csv").mkdir() or "d.csv", 1),
    "nowhere": (lambda f: "nowhere.csv", 1),
    "a pattern of nothing": (lambda f: "*.nothing.csv", 1),
    "a name too long": (lambda f: "x" * 400 + ".csv", 1),
    "a folder that is a file": (lambda f: csv(f, HEAD) + "/x.csv", 1),
    "a link to itself": (lambda f: os.symlink("loop.csv", f / "loop.csv") or "loop.csv", 1),
    "Parquet that is none": (lambda f: parquet(f, HEAD + ROW), 1),
    "Parquet of nothing": (lambda f: parquet(f, b""), 1),
    "Parquet cut off": (lambda f: table(f, GOOD) and parquet(f, (f / "a.parquet").read_bytes()[:-30]), 1),
    "Parquet without a header": (lambda f: table(f, {WHO: ["b"], "2026-01-01": ["c"], WHAT: [1.0]}), 1),
    "Parquet with lists": (lambda f: table(f, {**GOOD, "kwh": [[float(WHAT)]]}), 1),
    "Parquet with control codes": (lambda f: table(f, {"home": [WHO], "time": ["x"], ESCAPE: [1.0]}), 1),
    "SQLite that is none": (lambda f: base(f, HEAD + ROW), 1),
    "SQLite without tables": (sqlite, 1),
    "SQLite with two tables": (lambda f: sqlite(f, f'CREATE TABLE "{ESCAPE}" (a)', "CREATE TABLE b (a)"), 1),
    "SQLite with another case": (lambda f: sqlite(f, 'CREATE TABLE t (home, time, "KWH")'), 1),
    "DuckDB that is none": (lambda f: duck(f, HEAD + ROW), 1),
    "DuckDB without tables": (in_duckdb, 1),
    "DuckDB whose view is broken": (
        lambda f: in_duckdb(f, "CREATE TABLE t (a INT)", "CREATE VIEW v AS SELECT * FROM t", "DROP TABLE t"), 1,
    ),
    # what is content: it counts as missing, and every step is published
    "CR line ends": (lambda f: csv(f, (HEAD + ROW * 3).replace("\n", "\r")), 0),
    "all line ends": (lambda f: csv(f, "home,time,kwh\r\n" + ROW + ROW.replace("\n", "\r") + "\r\r\n\n" + ROW), 0),
    "a byte-order mark": (lambda f: csv(f, ("\ufeff" + HEAD + ROW).encode()), 0),
    "nothing but a header": (lambda f: csv(f, HEAD), 0),
    "null characters": (lambda f: csv(f, HEAD + ROW.replace(",", "\0,") + "\0" * 50_000), 0),
    "control codes in cells": (lambda f: csv(f, HEAD + f"{ESCAPE},{TURN},{ESCAPE}\n"), 0),
    "no UTF-8 in cells": (lambda f: csv(f, (HEAD + ROW).encode() + b"\xff\xfe,\xff,\xff\n"), 0),
    "an open quote": (lambda f: csv(f, HEAD + '"' + ROW * 5), 0),
    "a line of 3 MB": (lambda f: csv(f, HEAD + ROW + "x" * 3_000_000 + "\n" + ROW), 0),
    "far too many columns": (lambda f: csv(f, HEAD + "," * 100_000 + "\n" + ROW), 0),
    "columns that differ in case": (lambda f: csv(f, "home,time,kwh,KWH,Home\n" + ROW.strip() + ",9,9\n"), 0),
    "several gzip streams": (lambda f: packed(f, GZIP + gzip.compress(ROW.encode() * 3)), 0),
    "numbers that are none": (lambda f: csv(f, HEAD + f"{WHO},2026-01-01,1e999\n{WHO},9999-99-99,0x10\n" + ROW), 0),
    "Parquet of odd text": (lambda f: table(f, {**GOOD, "kwh": ["nan" + ESCAPE]}), 0),
    "SQLite of odd cells": (
        lambda f: sqlite(f, "CREATE TABLE t (home, time, kwh)", "INSERT INTO t VALUES (x'ff', 3, 'x'), (NULL, 'x', 1e999)"), 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", SOURCES)
def test_hostile_sources_end_in_words(tmp_path, what):
    make_source, expected = SOURCES[what]
    files = make_source(tmp_path)
    form = None if Path(files).suffix else "csv"
    make(tmp_path, stream={"source": {"files": files, "time": "time", "value": "kwh", "format": form}})
    said = halflife("publish", tmp_path / "policy.yaml")
    check(said, expected)
    written = tmp_path / "mean.csv"
    rows = len(written.read_text().splitlines()) if written.exists() else 0
    assert rows == (0 if expected else STEPS + 1), "all of it, or nothing"
    assert expected == 0 or "Error: " in said.output
    again = halflife("verify", tmp_path / "policy.yaml")
    check(again, 0)
    options = ["--json"][list(SOURCES).index(what) % 2 :]  # in turn
    check(halflife("check", tmp_path / "policy.yaml", *options), 2 if expected else 0)
    check(halflife("init", tmp_path / files, "--out", tmp_path / "new.yaml"), 0, 1)
    if (tmp_path / "new.yaml").exists():
        text = (tmp_path / "new.yaml").read_text()
        assert WHO not in text
        assert WHAT not in text


# Policies -----------------------------------------------------------------------------------------------------------


def _text(**changes):
    return json.dumps(policy_dict(**changes))


def _named(name, **more):
    """Groups of this name, by a column."""
    groups = {"names": [name, "b"], "most_per_person": 1, "sizes": {name: 2, "b": 3}}
    source = {"files": "readings.csv", "time": "time", "value": "kwh", "group": "home"}
    return _text(stream={"groups": groups, "source": source}, **more)


POLICIES = {
    "nothing": ("", 1),
    "no YAML": ("{[" + ESCAPE, 1),
    "binary": (b"\xff\xfe\x00", 1),
    "control codes": (f"a: {ESCAPE}", 1),
    "a key that turns round": (f'"{TURN}": 1', 1),
    "a number": ("7", 1),
    "an alias of itself": ("&a [*a]", 1),
    "deep": ("[" * 500, 1),
    "a tag": ("!!python/object/apply:os.system [echo]", 1),
    "a unit of control codes": (_text(statistic={"unit": ESCAPE}), 1),
    "a unit that turns round": (
        _text(statistic={"unit": TURN, "resolution": "1", "clip": ["0", "5"], "fold": "sum"}), 0,
    ),
    "a group of control codes": (_named(ESCAPE), 1),
    "a group that is a formula": (_named("=1+1"), 0),
    "a group that is markup": (_named("[/red]"), 0),
    "a source of control codes": (_text(stream={"source": {"files": ESCAPE, "time": "time", "value": "kwh"}}), 1),
    "a column of control codes": (_text(stream={"source": {"files": "readings.csv", "time": ESCAPE, "value": "kwh"}}), 1),
    "a population of control codes": (_text(population={"id": ESCAPE}), 0),
    "a zone of control codes": (_text(clock={"zone": ESCAPE}), 1),
    "a ledger of control codes": (_text(ledger=f"{TURN}.ledger"), 0),
    "an output in no folder": (_text(output=f"no/{ESCAPE}.cvs"), 1),
    "a table that is a FIFO": (
        _text(stream={"groups": {"table": {"file": "pipe", "person": "id", "group": "zone"}}}), 1,
    ),
    "a table that is a device": (
        _text(stream={"groups": {"table": {"file": "/dev/zero", "person": "id", "group": "zone"}}}), 1,
    ),
    "a table with two columns of one name": (
        _text(stream={"groups": {"table": {"file": "twice.csv", "person": "id", "group": "zone"}}}), 1,
    ),
    "a process that is a FIFO": (_text(promise={"notion": "age-dependent", "w": None, "process": {"file": "pipe"}}), 1),
    "secrets that are a FIFO": (_text(promise={"notion": "swellfish", "specifications": "pipe.yaml"}), 1),
}  # fmt: skip


@pytest.mark.parametrize("what", POLICIES)
def test_hostile_policies_end_in_words(tmp_path, what):
    text, expected = POLICIES[what]
    write_readings(tmp_path, [(WHO, "2026-01-01T00:30:00", WHAT)])
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "twice.csv").write_text("id,zone,zone\na,b,c\n")
    (tmp_path / "policy.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    check(halflife("publish", tmp_path / "policy.yaml", "--dry-run"))
    check(halflife("publish", tmp_path / "policy.yaml"), expected)
    check(halflife("verify", tmp_path / "policy.yaml"), 0, expected)
    check(halflife("verify", tmp_path / "policy.yaml", "--json"), 0, expected)


@pytest.mark.parametrize("arguments", [
    ("publish", "{}/pipe"), ("publish", "/dev/zero"), ("publish", "/dev/null"), ("publish", "{}"), ("verify", "{}/pipe.yaml"),
    ("process", "show", "{}/pipe"), ("process", "show", "/dev/zero"), ("secrets", "check", "{}/pipe.yaml"),
    ("plan", "--notion", "age-dependent", "--epsilon", "1", "--process", "{}/pipe"), ("publish", f"{{}}/{ESCAPE}.yaml"),
    (f"{ESCAPE}{TURN}",), (f"--{ESCAPE}",), ("publish", f"--{TURN}"), ("plan", "--notion", ESCAPE, "--epsilon", "1"),
    ("audit", f"{{}}/{TURN}"), ("init", f"{{}}/{ESCAPE}"), ("init", "{}/a.csv", "--format", ESCAPE),
    ("init", "{}/a.csv", "--out", "{}/no/where.yaml"), ("publish", "{}/\udc80.yaml"), ("secrets", "show", ESCAPE),
])  # fmt: skip
def test_hostile_arguments_end_in_words(tmp_path, arguments):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.yaml")
    csv(tmp_path, HEAD + ROW)
    check(halflife(*(a.format(tmp_path) if "{" in a else a for a in arguments)), 1, 2)


def test_a_number_of_readings_in_a_sample_says_no_first_line(tmp_path):
    csv(tmp_path, ROW * 3)
    options = ("--person", "home", "--time", "time", "--value", "kwh")
    check(halflife("period", tmp_path / "a.csv", *options), 1)
    said = halflife("process", "fit", tmp_path / "a.csv", *options, "--states", 2, "--output", tmp_path / "p.json")
    check(said, 1)


# What is shown ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_seen_is_written_out_and_json_stays_json():
    data = {"a\x1b": ["\u202e", "\x9b", "\U000e0001", "é💡", "\udc80", "\t\r\n"]}
    shown = visible(json.dumps(data, ensure_ascii=False, indent=1))
    assert json.loads(shown) == data
    assert all(ch.isprintable() or ch == "\n" for ch in shown)
    assert visible("plain é 💡\nlines") == "plain é 💡\nlines"


def find_texts(drawn):
    """All strings in a plot's JSON."""
    if isinstance(drawn, str):
        return [drawn]
    parts = drawn.values() if isinstance(drawn, dict) else drawn if isinstance(drawn, list) else ()
    return [text for part in parts for text in find_texts(part)]


def test_the_page_of_an_audit_holds_neither_tags_nor_marks_of_a_name(tmp_path):
    name = f"<img src=x onerror=alert(1)>{ESCAPE}{TURN}"
    finding = Finding(name=name, how="exact", claimed=1.0, found=0.5, accused=False, detail=name, runs=1, seconds=0.1)
    write_audit(Verdict(name, (finding,)), tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text()
    ours = re.sub(r"(?s)<script>.*?</script>", "", page)  # Plotly's own
    assert "<img" not in ours
    for mark in ("\x1b", "\x07", "\u202e"):
        assert mark not in ours
    drawn = json.loads(re.search(r'(?s)data-plot="found">(.*?)</script>', page)[1])
    assert all("<img" not in text and text.isprintable() for text in find_texts(drawn))


def test_a_group_that_is_a_formula_is_written_as_it_is(tmp_path):
    """The file holds data: a program must find the group that the policy names. The documentation warns of spreadsheets."""
    write_readings(tmp_path)
    (tmp_path / "policy.yaml").write_text(_named("=1+1"))
    check(halflife("publish", tmp_path / "policy.yaml"), 0)
    assert ",=1+1," in (tmp_path / "mean.csv").read_text()


# Streams that fail --------------------------------------------------------------------------------------------------

SHELL = f'"{sys.executable}" -c "from halflife.cli import main; main()" '


def shell(folder, command):
    """Run a command line; its status, stdout and stderr."""
    done = subprocess.run(
        ["bash", "-c", SHELL + command], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
def test_publishing_needs_nobody_who_listens(tmp_path, closed):
    """Nothing was published, and not a word said."""
    write_readings(tmp_path)
    make(tmp_path)
    assert shell(tmp_path, f"publish policy.yaml {closed}") == (0, "", "")
    assert len((tmp_path / "mean.csv").read_text().splitlines()) == STEPS + 1
    for file in tmp_path.iterdir():
        assert b"Error" not in file.read_bytes(), "no file took the place of stdout or stderr"


def test_no_file_takes_the_place_of_a_closed_stream(tmp_path):
    """Libraries write to file number 2 what they have to say: it must not be a ledger."""
    script = (
        "import os; from halflife.cli.terminal import prepare_streams; prepare_streams();"
        "file = os.open('file', os.O_WRONLY | os.O_CREAT); os.write(file, str(file).encode())"
    )
    done = subprocess.run(["bash", "-c", f'"{sys.executable}" -c "{script}" <&- >&- 2>&-'], cwd=tmp_path, check=True)
    assert done.returncode == 0
    assert int((tmp_path / "file").read_text()) > 2


def test_a_stdout_that_cannot_be_written_is_an_error_in_words(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    check(halflife("publish", tmp_path / "policy.yaml"), 0)
    full = "Error: stdout cannot be written: No space left on device: give it somewhere to go, and run it again\n"
    assert shell(tmp_path, "verify policy.yaml > /dev/full") == (1, "", full)
    status, _, said = shell(tmp_path, "verify policy.yaml | head -0; exit ${PIPESTATUS[0]}")
    assert (status, said) == (1, "Error: stdout was closed before everything was written to it\n")
    status, _, said = shell(tmp_path, "plan --notion classical --epsilon 1 --horizon 5 > /dev/full")
    assert (status, said) == (1, full)
    assert shell(tmp_path, "verify policy.yaml >&-") == (0, "", "")


class Full(io.StringIO):
    """A stream that nothing can be written to."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_table_that_stderr_does_not_take_stops_nothing(monkeypatch):
    """What is said on stderr is no result: it goes nowhere, and stdout is neither blamed nor given up."""
    monkeypatch.setattr(sys, "stderr", Full())
    said = io.StringIO()
    monkeypatch.setattr(sys, "stdout", said)
    screen(stderr=True).print("something to look at")
    assert sys.stdout is said
    say("the result")
    assert said.getvalue() == "the result\n"
    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(InvalidInput, match="stdout cannot be written: No space left on device"):
        screen().print("a table")


def test_a_terminal_without_greek_letters_is_no_obstacle(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    status, said, problems = shell(tmp_path, "plan --notion classical --epsilon 1 --horizon 5")
    assert (status, problems) == (0, "")
    assert said.isascii()


# Files that are written ---------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from halflife.cli import main
os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
main(["init", "a.csv"])
"""


def test_an_init_that_is_killed_leaves_no_policy(tmp_path):
    csv(tmp_path, HEAD + ROW)
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == -9
    assert not (tmp_path / "policy.yaml").exists()
    check(halflife("init", tmp_path / "a.csv", "--out", tmp_path / "policy.yaml"), 0)
    assert "kwh" in (tmp_path / "policy.yaml").read_text()


def test_a_file_is_written_whole_or_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    write_whole(path, "first")
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()
    link = tmp_path / "link.json"
    link.symlink_to(path)
    write_whole(link, "second")
    assert link.is_symlink()
    assert path.read_text() == "second"
    with pytest.raises(InvalidInput, match="there already"):
        write_whole(path, "third", anew=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _full)
        with pytest.raises(InvalidInput, match="No space left"):
            write_whole(path, "fourth")
        patch.setattr(os, "link", _full)
    assert path.read_text() == "second"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "link.json"]
    write_whole(Path("/dev/null"), "nowhere")
    assert not Path("/dev/null").is_file()


def test_a_disk_without_links_takes_a_new_policy_too(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", _full)
    write_whole(tmp_path / "a", "text", anew=True)
    assert (tmp_path / "a").read_text() == "text"
    with pytest.raises(InvalidInput, match="there already"):
        write_whole(tmp_path / "a", "other", anew=True)


def _full(*_):
    raise OSError(28, "No space left on device")


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
