"""Outputs with power: cut anywhere, edited anywhere, ahead, full disks; the ledger's bytes come back, or it is refused."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import math
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.outputs import Block, Layout, Published, compare_output, open_output
from halflife.outputs import parquet as parquet_output

HALF_HOUR = 1_800_000_000
START = 1_372_635_000_000_000 - HALF_HOUR  # 2013-07-01 in London
LAYOUT = Layout("meters", "Europe/London", ('a, "b"', "=1+1 ü"), ((0.0, 1.5), (1.5, math.inf)), "kWh")
PLAIN = Layout("meters", "UTC")
TEXT = ("out.csv", "out.jsonl")
ALL = (*TEXT, "out.parquet", "out/")


class Crash(BaseException):
    """The process ends here."""


class FullDisk(Exception):
    """A refusal that a full disk explains."""


def steps(numbers, layout=LAYOUT, seed=7):
    """What a ledger might hold: noisy values of all magnitudes, in twice the order that the steps need."""
    found = {}
    for k in numbers:
        r = np.random.default_rng([seed, k])
        n = max(1, len(layout.groups)) * max(1, len(layout.bins))
        values = r.laplace(size=n) * 10.0 ** r.integers(-7, 18, n)
        found[k] = Published(k, START + (k - 1) * HALF_HOUR, START + k * HALF_HOUR, values, np.abs(r.normal(size=n)))
    return found


def add(out, items):
    out.write(Block.of(items))


def opened(target, ledger, layout=LAYOUT, **more):
    return open_output(target, layout, max(ledger, default=0), ledger.get, **more)


def fill(target, ledger, layout=LAYOUT):
    """Bring an output up to date, as the publisher does."""
    out = opened(target, ledger, layout)
    add(out, [item for k, item in ledger.items() if k > out.last_step])
    out.close()
    assert out.last_step == max(ledger, default=0)


def content(target):
    """What readers see: bytes of text, rows of Parquet."""
    if str(target).endswith((".csv", ".jsonl")):
        return Path(target).read_bytes()
    return pq.read_table(str(target)).to_pylist()


def state(folder):
    return {str(p): p.read_bytes() for p in sorted(Path(folder).rglob("*")) if p.is_file()}


def refused(tmp_path, call, *words):
    """The call is refused in these words, and no file is touched."""
    before = state(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        call()
    for word in words:
        assert word in str(caught.value)
    assert state(tmp_path) == before
    return str(caught.value)


@pytest.fixture(params=ALL)
def target(request, tmp_path):
    return f"{tmp_path}/{request.param}"


# what is written


def rows_of(target, layout=LAYOUT):
    """The rows of an output, read by a library that knows nothing of ours: (step, start µs, end µs, …)."""
    if target.endswith(".csv"):
        with open(target, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, strict=True))
        rows = [{k: v if k in ("start", "end", "group") else float(v) for k, v in row.items()} for row in rows]
    elif target.endswith(".jsonl"):
        rows = [json.loads(line) for line in Path(target).read_text(encoding="utf-8").split("\n")[:-1]]
        rows = [{**r, "bin_high": math.inf if r["bin_high"] is None else r["bin_high"]} for r in rows]
    else:
        rows = content(target)
        rows = [{**r, "start": r["start"].isoformat(), "end": r["end"].isoformat()} for r in rows]
    return [tuple(row[c] for c in layout.columns) for row in rows]


def test_every_reader_gets_every_double_time_and_name(target):
    ledger = steps(range(1, 6))
    fill(target, ledger)
    rows = rows_of(target)
    assert len(rows) == 20
    assert [r[0] for r in rows] == [k for k in range(1, 6) for _ in range(4)]
    assert rows[0][1:3] == ("2013-07-01T00:00:00+01:00", "2013-07-01T00:30:00+01:00")
    assert [r[3:6] for r in rows[:4]] == [(g, *b) for g in LAYOUT.groups for b in LAYOUT.bins]
    assert [r[6] for r in rows] == np.concatenate([i.values for i in ledger.values()]).tolist()
    assert [r[7] for r in rows] == np.concatenate([i.bands for i in ledger.values()]).tolist()
    assert list(compare_output(target, LAYOUT, ledger.values())) == []


def test_bytes_of_csv_and_json_are_these(tmp_path):
    """Files outlive versions: another rendering would make every existing output look edited."""
    layout = Layout("s", "UTC", ("a,b",))
    ledger = {3: Published(3, 0, 1_500_000, np.array([-0.0]), np.array([1e-7]))}
    fill(tmp_path / "out.csv", ledger, layout)
    fill(tmp_path / "out.jsonl", ledger, layout)
    assert (tmp_path / "out.csv").read_text() == (
        "step,start,end,group,value,error_band\n"
        '3,1970-01-01T00:00:00+00:00,1970-01-01T00:00:01.500000+00:00,"a,b",-0.0,1e-07\n'
    )
    assert (tmp_path / "out.jsonl").read_text() == (
        '{"step": 3, "start": "1970-01-01T00:00:00+00:00", "end": "1970-01-01T00:00:01.500000+00:00",'
        ' "group": "a,b", "value": -0.0, "error_band": 1e-07}\n'
    )


def test_parquet_says_what_it_is(tmp_path):
    target = str(tmp_path / "new" / "folder" / "out.parquet")
    fill(target, steps(range(1, 3)))
    schema = pq.read_schema(target)
    assert schema.field("start").type == pa.timestamp("us", tz="Europe/London")
    assert [schema.field(c).type for c in ("step", "group", "value")] == [pa.int64(), pa.string(), pa.float64()]
    assert (schema.metadata[b"stream"], schema.metadata[b"unit"]) == (b"meters", b"kWh")
    assert schema.metadata[b"written_by"] == b"halflife"


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1),
        unique=True,
        min_size=1,
        max_size=4,
    ),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4),
)
@settings(max_examples=12)
def test_hostile_names_and_any_double_survive(tmp_path_factory, names, numbers):
    folder = tmp_path_factory.mktemp("hostile")
    layout = Layout("s", "UTC", tuple(names))
    values = np.array(numbers[: len(names)])
    ledger = {k: Published(k, 0, 1, values, np.zeros(len(names))) for k in (1, 2)}
    for name in ALL:
        target = f"{folder}/{name}"
        fill(target, {1: ledger[1]}, layout)
        fill(target, ledger, layout)
        got = [(r[3], r[4]) for r in rows_of(target, layout)] if name != "out.jsonl" else None
        if got is None:
            lines = Path(target).read_text(encoding="utf-8").split("\n")[:-1]
            got = [(r["group"], r["value"]) for r in map(json.loads, lines)]
        assert repr(got) == repr(list(zip(names, values.tolist(), strict=True)) * 2)
        assert list(compare_output(target, layout, ledger.values())) == []


@pytest.mark.parametrize("name", ["a\nb", "a\r", "\0", "", "a\x85", "a\u2028b", "a\u2029b", "\ud800"])
def test_names_that_break_lines_are_refused(name):
    with pytest.raises(InvalidInput, match="policy"):
        Layout("s", "UTC", ("ok", name))


@pytest.mark.parametrize(
    "more",
    [
        {"groups": ("a", "a")},
        {"bins": ((1.0, 1.0),)},
        {"bins": ((math.nan, 1.0),)},
        {"bins": ((0.0, 1.0),) * 2},
        {"zone": "Mars"},
    ],
)
def test_layouts_without_meaning_are_refused(more):
    with pytest.raises(InvalidInput):
        Layout(**{"stream": "s", "zone": "UTC", **more})


# going on


def test_write_reopen_resume_is_the_same_as_one_write(target, tmp_path):
    ledger = steps([1, 2, 3, 5, 9, 10])
    whole = f"{tmp_path}/whole/{Path(target).name}" + ("/" if target.endswith("/") else "")
    fill(whole, ledger)
    for k in range(1, 7):
        fill(target, dict(list(ledger.items())[:k]))
    assert content(target) == content(whole)
    fill(target, ledger)
    assert content(target) == content(whole)


def test_many_writes_of_one_run(target):
    ledger = steps(range(1, 8))
    out = opened(target, ledger)
    for item in ledger.values():
        add(out, [item])
        add(out, [])
    out.close()
    assert list(compare_output(target, LAYOUT, ledger.values())) == []


def test_steps_are_written_once_and_in_order(target, tmp_path):
    ledger = steps(range(1, 6))
    out = opened(target, ledger)
    add(out, [ledger[1], ledger[3]])
    for items in ([ledger[3]], [ledger[2]], [ledger[5], ledger[4]], [ledger[4], ledger[4]]):
        refused(tmp_path, lambda items=items: add(out, items), "in order")
    wrong = Published(4, 0, 1, np.zeros(3), np.zeros(3))
    refused(tmp_path, lambda: add(out, [wrong]), "shape")
    refused(tmp_path, lambda: add(out, [Published(4, 0, 1, np.full(4, np.nan), np.zeros(4))]), "finite")
    refused(tmp_path, lambda: add(out, [Published(10**9 + 1, 0, 1, np.zeros(4), np.zeros(4))]), "step")
    out.close()
    assert {row[0] for row in rows_of(target)} == {1, 3}


def test_parquet_gathers_steps_until_asked(tmp_path, monkeypatch):
    target, ledger = str(tmp_path / "out.parquet"), steps(range(1, 9))
    out = opened(target, ledger)
    add(out, [ledger[1]])
    assert (content(target), out.last_step) == ([], 0)
    out.close()
    assert (len(content(target)), out.last_step) == (4, 1)
    monkeypatch.setattr(parquet_output, "PENDING_ROWS", 12)
    for k in (2, 3, 4, 5):
        add(out, [ledger[k]])
    assert out.last_step == 4


def test_parquet_rows_are_grouped_alike_however_they_came(tmp_path, monkeypatch):
    """Rows of the last step may lie in two row groups, and old rows are passed on a few at a time."""
    monkeypatch.setattr(parquet_output, "GROUP_ROWS", 6)
    target, ledger = str(tmp_path / "out.parquet"), steps(range(1, 12))
    for k in ledger:
        fill(target, {i: ledger[i] for i in range(1, k + 1)})
    file = pq.ParquetFile(target)
    assert 2 <= file.num_row_groups <= 8
    assert list(compare_output(target, LAYOUT, ledger.values())) == []
    pq.write_table(pq.read_table(target), target, row_group_size=3)  # nullability and metadata stay
    assert opened(target, ledger).last_step == 11


# crashes


@pytest.mark.diagonal
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("layout", [LAYOUT, PLAIN], ids=["cells", "plain"])
def test_a_file_cut_at_every_byte_recovers(tmp_path, monkeypatch, name, layout):
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # thousands of them
    ledger = steps([1, 3], layout)
    target = tmp_path / name
    fill(target, ledger, layout)
    whole = target.read_bytes()
    for size in range(len(whole) + 1):
        target.write_bytes(whole[:size])
        out = opened(target, ledger, layout)
        kept = target.read_bytes()
        assert kept == b"" or whole.startswith(kept)
        assert len(kept) <= size
        lines = kept.count(b"\n") - (name == "out.csv" and kept != b"")
        assert lines == len(layout.cells) * [0, 1, 3].index(out.last_step)
        add(out, [item for k, item in ledger.items() if k > out.last_step])
        assert target.read_bytes() == whole


def test_bytes_are_on_disk_before_anyone_relies_on_them(target, tmp_path, monkeypatch):
    """A new file's name is synced with its folder's; text is synced after each write, Parquet before it gets its name."""
    calls = []

    def watch(name):
        real = getattr(os, name)

        def watched(*arguments):
            what = os.readlink(f"/proc/self/fd/{arguments[0]}") if isinstance(arguments[0], int) else arguments[1]
            calls.append((name, str(what)))
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)

    for name in ("write", "fsync", "replace"):
        watch(name)
    ledger, folder = steps([1, 2]), str(Path(target).parent)
    out = opened(target, ledger)
    assert calls[-1] == ("fsync", folder)
    assert target.endswith("/") or any(name == "fsync" and "out." in what for name, what in calls)
    calls.clear()
    add(out, [ledger[1], ledger[2]])
    out.close()
    if target.endswith(TEXT):
        assert calls == [("write", target), ("fsync", target)]
    else:
        path = f"{target}part-000000001-000000002.parquet" if target.endswith("/") else target
        temporary = str(Path(path).parent / f".{Path(path).name}.halflife-tmp")
        assert calls == [("fsync", temporary), ("replace", path), ("fsync", str(Path(path).parent))]
    if target.endswith(TEXT):
        Path(target).write_bytes(Path(target).read_bytes()[:-1])
        calls.clear()
        opened(target, ledger)
        assert calls == [("fsync", target)]


@pytest.mark.parametrize("name", TEXT)
def test_an_end_is_cut_off_only_if_the_ledger_holds_it(tmp_path, name):
    """Every beginning of step 2 with one byte changed, or with the ledger not holding step 2, is refused."""
    ledger = steps([1, 2])
    target = tmp_path / name
    fill(target, {1: ledger[1]})
    first = target.read_bytes()
    fill(target, ledger)
    whole = target.read_bytes()
    for size in range(len(first) + 1, len(whole)):
        target.write_bytes(whole[:size])
        refused(tmp_path, lambda: opened(target, {1: ledger[1]}), str(target), "step 1", "ahead", "newest")
        changed = bytearray(whole[:size])
        changed[-1] ^= 4
        target.write_bytes(bytes(changed))
        refused(tmp_path, lambda: opened(target, ledger), str(target))


def test_a_crash_before_the_replace_leaves_the_old_file(tmp_path, monkeypatch):
    ledger = steps(range(1, 5))
    for name in ("out.parquet", "out/"):
        target = f"{tmp_path}/{name}"
        fill(target, {1: ledger[1]})
        before = state(tmp_path)
        for stop in ("replace", "fsync"):
            with monkeypatch.context() as patch:
                patch.setattr(os, stop, crash)
                with pytest.raises(Crash):
                    fill(target, ledger)
            left = state(tmp_path)
            assert {p: left[p] for p in before} == before
            assert sum(p.endswith(".halflife-tmp") for p in left) == 1
            opened(target, ledger)
            assert state(tmp_path) == before
        fill(target, ledger)
        assert list(compare_output(target, LAYOUT, ledger.values())) == []


def crash(*_):
    raise Crash


@pytest.mark.parametrize("name", [".out.parquet.halflife-tmp", "out/.part-000000002-000000003.parquet.halflife-tmp"])
def test_only_our_own_leftovers_are_removed(tmp_path, name):
    ledger = steps(range(1, 3))
    target = f"{tmp_path}/out/" if name.startswith("out") else f"{tmp_path}/out.parquet"
    fill(target, {1: ledger[1]})
    leftover = tmp_path / name
    for ours in (b"", b"PA", b"PAR1 and half a file"):
        leftover.write_bytes(ours)
        opened(target, ledger)
        assert not leftover.exists()
    leftover.write_bytes(b"my notes")
    refused(tmp_path, lambda: opened(target, ledger), name, "move it")
    leftover.unlink()
    leftover.symlink_to("/etc/hostname")
    refused(tmp_path, lambda: opened(target, ledger), name, "move it")


@given(st.integers(0, 2**32), st.sampled_from(ALL))
@settings(max_examples=40)
def test_nothing_is_lost_or_doubled_whatever_crashes(tmp_path_factory, seed, name):
    """Writes of any size, stopped at any system call or byte, and opened again, in any order."""
    r = random.Random(seed)
    target = f"{tmp_path_factory.mktemp('crash')}/{name}"
    ledger = steps(sorted(r.sample(range(1, 40), 12)))
    numbers = list(ledger)
    known = 0
    while known < 12 or r.random() < 0.5:
        known = min(12, known + r.randrange(4))  # the ledger is always first
        held = {k: ledger[k] for k in numbers[:known]}
        with pytest.MonkeyPatch.context() as patch:
            if r.random() < 0.7:
                stop_somewhere(patch, r)
            with contextlib.suppress(Crash, FullDisk):
                run(target, held, r)
    fill(target, ledger)
    assert list(compare_output(target, LAYOUT, ledger.values())) == []


def run(target, held, r):
    """Publish what the ledger holds, a few steps at a time; only a full disk may be refused."""
    try:
        out = opened(target, held)
        while todo := [held[k] for k in held if k > out.last_step]:
            add(out, todo[: r.randrange(1, 4)])
            out.close()
    except InvalidInput as problem:
        raise FullDisk if "No space" in str(problem) else problem from None


def stop_somewhere(patch, r):
    """Let one of the next calls end the process or find the disk full, a write after some of its bytes."""
    left = [r.randrange(6)]
    problem = r.choice([Crash(), OSError(errno.ENOSPC, "No space left on device")])
    write = os.write

    def stopping(call):
        def stop(*arguments):
            left[0] -= 1
            if left[0] < 0:
                raise problem
            return call(*arguments)

        return stop

    def partly(fd, block):
        left[0] -= 1
        if left[0] < 0:
            if isinstance(problem, Crash) or left[0] == -1:
                write(fd, block[: r.randrange(len(block) + 1)])
            raise problem
        return write(fd, block[: r.randrange(1, len(block) + 1)])

    patch.setattr(os, "write", partly)
    for name in ("fsync", "replace"):
        patch.setattr(os, name, stopping(getattr(os, name)))


def test_a_full_disk_is_named_and_the_next_opening_recovers(target, tmp_path, monkeypatch):
    ledger = steps(range(1, 5))
    fill(target, {1: ledger[1]})
    out = opened(target, ledger)
    real = os.write

    def full(*arguments):
        if target.endswith(TEXT):
            real(arguments[0], arguments[1][:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write" if target.endswith(TEXT) else "fsync", full)
        with pytest.raises(InvalidInput, match=r"No space left.*make room.*run again") as caught:
            add(out, [ledger[2], ledger[3]])
            out.close()
    assert str(tmp_path / "out") in str(caught.value)
    assert out.last_step == 1
    if target.endswith(TEXT):
        refused(tmp_path, lambda: add(out, [ledger[2]]), "open the output again")
    fill(target, ledger)
    assert list(compare_output(target, LAYOUT, ledger.values())) == []


def test_what_cannot_be_opened_is_named(target, tmp_path, monkeypatch):
    """Root may write everywhere, so the system's refusal is played."""

    def deny(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patch:
        for call in ("open", "mkdir"):
            patch.setattr(os, call, deny)
        patch.setattr("builtins.open", deny)
        with pytest.raises(InvalidInput, match=r"Permission denied.*permissions, and run again") as caught:
            fill(target, steps([1]))
    assert str(tmp_path / "out") in str(caught.value)


@pytest.mark.parametrize("name", [*TEXT, "out.parquet"])
def test_someone_elses_write_during_a_run_is_refused(tmp_path, name):
    target, ledger = tmp_path / name, steps(range(1, 4))
    fill(target, {1: ledger[1]})
    out = opened(target, ledger)
    fill(target, {k: ledger[k] for k in (1, 2)})

    def go_on():
        add(out, [ledger[2]])
        out.close()

    refused(tmp_path, go_on, name, "someone else", "open the output again")


# refusals


def test_an_output_ahead_of_its_ledger_is_refused(target, tmp_path):
    ledger = steps(range(1, 6))
    fill(target, ledger)
    for last in range(5):
        held = {k: ledger[k] for k in range(1, last + 1)}
        refused(tmp_path, lambda held=held: opened(target, held), "ahead", "step 5", "newest ledger", "out")


@pytest.mark.parametrize("name", TEXT)
def test_some_rows_of_a_step_that_the_ledger_lost_are_ahead_too(tmp_path, name):
    ledger, target = steps([1, 2, 3]), tmp_path / name
    fill(target, ledger)
    target.write_bytes(b"".join(target.read_bytes().splitlines(True)[:-2]))
    refused(tmp_path, lambda: opened(target, {1: ledger[1], 2: ledger[2]}), "ahead", "step 3", "up to step 2")


def test_a_last_step_that_differs_is_refused(target, tmp_path):
    ledger = steps(range(1, 4))
    fill(target, ledger)
    for column in ("values", "bands"):
        for cell in range(4):
            numbers = getattr(ledger[3], column).copy()
            numbers[cell] = np.nextafter(numbers[cell], np.inf)
            fields = {"values": ledger[3].values, "bands": ledger[3].bands, column: numbers}
            other = Published(3, ledger[3].start_us, ledger[3].end_us, fields["values"], fields["bands"])
            told = refused(tmp_path, lambda other=other: opened(target, {**ledger, 3: other}), "step 3")
            assert f"{'value' if column == 'values' else 'error_band'} is " in told
            assert repr(float(numbers[cell])) in told
    shifted = Published(3, ledger[3].start_us + 1, ledger[3].end_us, ledger[3].values, ledger[3].bands)
    refused(tmp_path, lambda: opened(target, {**ledger, 3: shifted}), "start is")
    refused(tmp_path, lambda: opened(target, {1: ledger[1], 2: ledger[2], 4: ledger[3]}), "step 3", "does not hold")


@pytest.mark.parametrize("name", TEXT)
def test_every_edit_of_the_last_step_is_refused(tmp_path, name):
    ledger, target = steps([1, 2]), tmp_path / name
    fill(target, {1: ledger[1]})
    start = target.stat().st_size
    fill(target, ledger)
    whole = target.read_bytes()
    for at in range(start, len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1
        target.write_bytes(bytes(changed))
        refused(tmp_path, lambda: opened(target, ledger), str(target))


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("junk", [b"", b"x" * 5000])
def test_a_step_that_is_there_twice_or_behind_junk_is_refused(tmp_path, name, junk):
    ledger, target = steps([1, 2]), tmp_path / name
    fill(target, ledger)
    lines = target.read_bytes().splitlines(True)
    for rows in (1, 2, 3, 4):
        target.write_bytes(b"".join([*lines, junk, *lines[-rows:]]))
        refused(tmp_path, lambda: opened(target, ledger), str(target), "no row of this stream" if junk else "step 2")


def test_parquet_with_rows_lost_or_emptied_is_refused(tmp_path):
    target, ledger = tmp_path / "out.parquet", steps([1, 2])
    fill(target, ledger)
    table = pq.read_table(target)
    for kept in (7, 3):
        pq.write_table(table.slice(8 - kept), target)
        refused(tmp_path, lambda kept=kept: opened(target, ledger), f"{kept} rows", "no multiple")
    for at in range(table.num_columns):
        field = table.schema.field(at).with_nullable(True)
        emptied = pa.array([None, *table[field.name].to_pylist()[1:]], field.type)
        pq.write_table(table.set_column(at, field, emptied), target)
        refused(tmp_path, lambda: opened(target, ledger), str(target), "columns")
        assert str(target) in next(compare_output(target, LAYOUT, ledger.values()))


def test_another_layout_is_refused(target, tmp_path):
    ledger = steps(range(1, 4))
    fill(target, ledger)
    others = [
        PLAIN,
        Layout("meters", "Europe/London", LAYOUT.groups, unit="kWh"),
        Layout("meters", "Europe/London", (*LAYOUT.groups, "c"), LAYOUT.bins, "kWh"),
        Layout("meters", "Europe/London", LAYOUT.groups[:1], LAYOUT.bins, "kWh"),
        Layout("meters", "Europe/London", LAYOUT.groups[::-1], LAYOUT.bins, "kWh"),
        Layout("meters", "Europe/Paris", LAYOUT.groups, LAYOUT.bins, "kWh"),
    ]
    for other in others:
        refused(tmp_path, lambda other=other: opened(target, steps(range(1, 4), other), other), "out")
        assert list(compare_output(target, other, steps(range(1, 4), other).values()))


@pytest.mark.parametrize("name", [*TEXT, "out.parquet"])
@pytest.mark.parametrize(
    "text", [b"\n", b"x", b"hello\nworld\n", b"\0" * 5000, b"PAR1", b"1,2\n" * 9000, b'{"a": 1}\n']
)
def test_a_file_of_someone_else_is_refused(tmp_path, name, text):
    target, ledger = tmp_path / name, steps(range(1, 4))
    target.write_bytes(text)
    refused(tmp_path, lambda: opened(target, ledger), str(target))
    refused(tmp_path, lambda: opened(target, {}), str(target))
    assert list(compare_output(target, LAYOUT, ledger.values()))


@pytest.mark.parametrize("name", ["out.csv", "out.jsonl", "out.parquet"])
def test_what_is_no_file_is_refused(tmp_path, name):
    (tmp_path / name).mkdir()
    refused(tmp_path, lambda: opened(tmp_path / name, {}), "is a folder")
    (tmp_path / f"link-{name}").symlink_to(tmp_path / name)
    refused(tmp_path, lambda: opened(tmp_path / f"link-{name}", {}), "is a folder")
    os.mkfifo(tmp_path / f"pipe-{name}")
    refused(tmp_path, lambda: opened(tmp_path / f"pipe-{name}", {}), "not a regular file")
    (tmp_path / "file").write_text("mine")
    refused(tmp_path, lambda: opened(tmp_path / "file" / name, {}), "Not a directory")
    refused(tmp_path, lambda: opened(f"{tmp_path}/file/", {}), "is a file")


def test_a_link_to_a_file_stays_a_link(tmp_path):
    for name in (*TEXT, "out.parquet"):
        (tmp_path / f"link-{name}").symlink_to(tmp_path / name)
        fill(tmp_path / f"link-{name}", steps([1, 2]))
        assert (tmp_path / f"link-{name}").is_symlink()
        assert list(compare_output(tmp_path / name, LAYOUT, steps([1, 2]).values())) == []


def test_an_unknown_ending_is_refused_with_the_nearest(tmp_path):
    refused(tmp_path, lambda: opened(f"{tmp_path}/out.cvs", {}), "out.cvs", "did you mean '.csv'?")
    refused(tmp_path, lambda: opened(f"{tmp_path}/out.json", {}), "did you mean '.jsonl'?")
    refused(tmp_path, lambda: opened(tmp_path / "out", {}), "Known: ", "/")


def test_parts_that_overlap_or_are_missing_or_strange_are_refused(tmp_path):
    target, folder, ledger = f"{tmp_path}/out/", tmp_path / "out", steps([1, 2, 3, 6, 7, 8])
    for k in (2, 6, 8):
        fill(target, {i: ledger[i] for i in ledger if i <= k})
    names = ["part-000000001-000000002.parquet", "part-000000003-000000006.parquet", "part-000000007-000000008.parquet"]
    assert sorted(os.listdir(folder)) == names
    for name, step in zip(names[:2], (1, 3), strict=True):
        (folder / name).rename(tmp_path / name)
        refused(tmp_path, lambda step=step: opened(target, ledger), f"step {step}")
        assert list(compare_output(target, LAYOUT, ledger.values()))
        (tmp_path / name).rename(folder / name)
    (folder / names[2]).rename(folder / "part-000000006-000000008.parquet")
    refused(tmp_path, lambda: opened(target, ledger), "overlaps")
    (folder / "part-000000006-000000008.parquet").rename(folder / "part-000000008-000000008.parquet")
    refused(tmp_path, lambda: opened(target, ledger), "step 7")
    refused(tmp_path, lambda: opened(target, {k: ledger[k] for k in (1, 2, 3, 6, 8)}), "renamed")
    (folder / "part-000000008-000000008.parquet").rename(folder / names[2])
    (folder / "_SUCCESS").write_text("a reader's mark")
    assert opened(target, ledger).last_step == 8
    (folder / "mine.parquet").write_text("mine")
    refused(tmp_path, lambda: opened(target, ledger), "mine.parquet", "move it")
    assert "mine.parquet" in next(compare_output(target, LAYOUT, ledger.values()))


# the cost of opening


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts the bytes that the system says were read")
@pytest.mark.parametrize("name", [*TEXT, "out/"])
def test_opening_reads_no_more_of_a_longer_output(tmp_path, name):
    def read_by_opening(target, ledger):
        opened(target, ledger)
        before = bytes_read()
        out = opened(target, ledger)
        assert out.last_step == max(ledger)
        return bytes_read() - before

    costs = []
    for n in (30, 3000):
        ledger = steps(range(1, n + 1))
        target = f"{tmp_path}/{n}-{name}"
        fill(target, {k: ledger[k] for k in range(1, n)})
        fill(target, ledger)
        costs.append(read_by_opening(target, ledger))
    assert costs[1] <= costs[0] + 100
    assert costs[1] < 20_000


def bytes_read():
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


# the standard output


def test_stdout_goes_on_where_the_ledger_says(capfdbinary, tmp_path):
    ledger = steps(range(1, 5))
    out = opened("-", ledger, emitted=2)
    assert out.last_step == 2
    add(out, [ledger[3]])
    fill(tmp_path / "out.jsonl", {3: ledger[3]})
    rows = capfdbinary.readouterr().out
    assert rows.replace(b'{"stream": "meters", "step"', b'{"step"') == (tmp_path / "out.jsonl").read_bytes()
    assert {tuple(json.loads(row)) for row in rows.splitlines()} == {("stream", *LAYOUT.columns)}
    with pytest.raises(InvalidInput, match="in order"):
        add(out, [ledger[3]])
    with pytest.raises(InvalidInput, match="ahead"):
        opened("-", ledger, emitted=5)
    with pytest.raises(InvalidInput, match="read back"):
        list(compare_output("-", LAYOUT, []))


def test_stdout_without_bytes_and_with_nobody_behind(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    add(opened("-", steps([1])), [steps([1])[1]])
    assert text.getvalue().count("\n") == 4
    read, write = os.pipe()
    os.close(read)
    with open(write, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        out = opened("-", steps([1]))
        with pytest.raises(InvalidInput, match=r"stdout cannot be written: Broken pipe.* again by the next run"):
            add(out, [steps([1])[1]])
        assert out.last_step == 0


@pytest.mark.parametrize("how", ["none", "closed"])
def test_a_closed_stdout_is_refused_before_anything_is_committed(monkeypatch, how):
    text = io.StringIO()
    text.close()
    monkeypatch.setattr(sys, "stdout", None if how == "none" else text)
    with pytest.raises(InvalidInput, match="stdout is closed"):
        opened("-", steps([1]))


def test_a_stdout_that_closes_later_is_named(monkeypatch):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    out = opened("-", steps([1]))
    text.close()
    with pytest.raises(InvalidInput, match=r"stdout cannot be written: .*closed.* again by the next run"):
        add(out, [steps([1])[1]])


def test_a_reader_that_goes_away_leaves_no_complaint_but_ours(tmp_path):
    """What is left in Python's own buffer is not tried again when the program ends."""
    code = (
        "import sys, numpy as np, halflife.outputs as o; one = np.ones(1)\n"
        "try: o.open_output('-', o.Layout('s', 'UTC'), 1, {}.get).write(o.Block.of([o.Published(1, 0, 1, one, one)]))\n"
        "except Exception as problem: print(problem, file=sys.stderr)"
    )
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "stdout cannot be written: Broken pipe" in done.stderr


def test_rows_of_two_streams_on_stdout_are_told_apart(monkeypatch, tmp_path):
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    one, two = Layout("one", "UTC"), Layout("t{w}o", "UTC")
    stored = {layout: steps([1, 2], layout, seed) for seed, layout in enumerate((one, two))}
    outs = {layout: opened("-", held, layout) for layout, held in stored.items()}
    for k in (1, 2):
        for layout, out in outs.items():
            add(out, [stored[layout][k]])
    rows = [json.loads(line) for line in text.getvalue().splitlines()]
    assert [(r["stream"], r["step"]) for r in rows] == [("one", 1), ("t{w}o", 1), ("one", 2), ("t{w}o", 2)]
    saved = tmp_path / "saved.jsonl"
    saved.write_text(text.getvalue())
    for layout, held in stored.items():
        assert list(compare_output(saved, layout, held.values())) == []
    saved.write_text(text.getvalue().replace('"step": 2', '"step": 3', 1))
    assert len(list(compare_output(saved, one, stored[one].values()))) == 1
    assert list(compare_output(saved, two, stored[two].values())) == []


# gaps: steps that were passed over for good


class Counted:
    """A ledger's questions, counted."""

    def __init__(self, held):
        self.held, self.calls = held, 0

    def find(self, step):
        self.calls += 1
        return self.held.get(step)

    def next_step(self, step):
        self.calls += 1
        return min((k for k in self.held if k > step), default=None)


@pytest.mark.parametrize("ends", [(1, 2, 200_002, 200_003), (200_000, 200_001), (1, 100_000, 200_000)])
def test_a_gap_is_crossed_in_one_call(target, ends):
    """200,000 steps that nobody holds, and a folder of parts on either side of them."""
    ledger = steps(ends)
    for k in ends:
        fill(target, {n: item for n, item in ledger.items() if n <= k})
    counted = Counted(ledger)
    out = open_output(target, LAYOUT, max(ledger), counted.find, next_step=counted.next_step)
    assert out.last_step == max(ledger)
    assert counted.calls <= 1 + len(ends)


@pytest.mark.parametrize("name", TEXT)
def test_a_cut_end_behind_a_gap_is_found_in_one_call(tmp_path, name):
    ledger, target = steps([1, 200_000]), f"{tmp_path}/{name}"
    fill(target, ledger)
    whole = content(target)
    Path(target).write_bytes(whole[:-10])
    counted = Counted(ledger)
    out = open_output(target, LAYOUT, 200_000, counted.find, next_step=counted.next_step)
    assert (out.last_step, counted.calls) == (1, 3)
    add(out, [ledger[200_000]])
    assert content(target) == whole


def test_a_part_that_is_missing_within_a_gap_is_found_in_one_call(tmp_path):
    target = f"{tmp_path}/out/"
    for k in (1, 100_000, 200_000):
        fill(target, steps([n for n in (1, 100_000, 200_000) if n <= k]))
    os.remove(f"{target}part-000100000-000100000.parquet")
    counted = Counted(steps([1, 100_000, 200_000]))

    def reopen():
        open_output(target, LAYOUT, 200_000, counted.find, next_step=counted.next_step)

    refused(tmp_path, reopen, "no part with step 100000")
    assert counted.calls <= 3


# comparing all of it


@pytest.mark.diagonal
@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("layout", [LAYOUT, PLAIN], ids=["cells", "plain"])
def test_every_flipped_bit_is_found(tmp_path, name, layout):
    ledger = steps([1, 2], layout)
    target = tmp_path / name
    fill(target, ledger, layout)
    whole = target.read_bytes()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 1 << (at % 8)
        target.write_bytes(bytes(changed))
        told = list(compare_output(target, layout, ledger.values()))
        assert told
        assert len(told) <= 2
        line = whole[:at].count(b"\n") + 1
        assert f"{target}, line {line}, " in told[0]


@pytest.mark.parametrize("name", ["out.parquet", "out/"])
def test_every_changed_cell_of_parquet_is_found(tmp_path, name):
    ledger, target = steps([1, 2, 3]), f"{tmp_path}/{name}"
    fill(target, ledger)
    path = target if name == "out.parquet" else f"{target}part-000000001-000000003.parquet"
    table = pq.read_table(path)
    for column in table.column_names:
        for row in range(table.num_rows):
            cells = table[column].to_pylist()
            cells[row] = changed_cell(cells[row])
            field = table.schema.field(column)
            at = table.column_names.index(column)
            pq.write_table(table.set_column(at, field, pa.array(cells, field.type)), path)
            told = list(compare_output(target, LAYOUT, ledger.values()))
            assert len(told) == 1
            if not (column == "step" and "renamed" in told[0]):
                assert f"row {row + 1}, step {row // 4 + 1}: {column} is " in told[0]
                assert "the ledger holds" in told[0]
    pq.write_table(table.replace_schema_metadata({}), path)
    assert "stream" in next(compare_output(target, LAYOUT, ledger.values()))


def changed_cell(cell):
    if isinstance(cell, float):
        return -math.inf if math.isinf(cell) else -0.0 if cell == 0 else math.nextafter(cell, math.inf)
    if isinstance(cell, int):
        return cell + 7
    return cell + " " if isinstance(cell, str) else cell.replace(microsecond=1)


def test_what_is_not_yet_written_and_what_is_ahead_are_named(target):
    ledger = steps(range(1, 8))
    assert list(compare_output(target, LAYOUT, [])) == []
    assert "28 rows of steps 1 … 7 are not yet written" in next(compare_output(target, LAYOUT, ledger.values()))
    opened(target, ledger).close()
    assert "28 rows of steps 1 … 7 are not yet written" in next(compare_output(target, LAYOUT, ledger.values()))
    fill(target, {k: ledger[k] for k in range(1, 7)})
    (told,) = compare_output(target, LAYOUT, ledger.values())
    assert target in told
    assert "4 rows of steps 7 … 7 are not yet written" in told
    told = list(compare_output(target, LAYOUT, [ledger[k] for k in range(1, 4)]))
    assert len(told) == 12
    assert all("ahead of its ledger, which goes up to step 3" in t for t in told)
    assert "step 4" in told[0]
    assert list(compare_output(target, LAYOUT, []))[-1] == "… and more"


def test_rows_that_are_missing_doubled_or_cut_are_named_alone(tmp_path):
    target, ledger = tmp_path / "out.csv", steps(range(1, 8))
    fill(target, ledger)
    lines = target.read_bytes().splitlines(True)

    def told(new):
        target.write_bytes(b"".join(new))
        return list(compare_output(target, LAYOUT, ledger.values()))

    missing = told(lines[:5] + lines[9:])
    assert len(missing) == 4
    assert all("step 2: a row is missing" in t for t in missing)
    (doubled,) = told([*lines[:6], lines[2], *lines[6:]])
    assert "line 7, before step 2: a row that the ledger does not hold" in doubled
    (cut,) = told([*lines[:-1], lines[-1][:-3]])
    assert "line 29, step 7: the row is cut off after" in cut
    (header,) = told([lines[0].replace(b"value", b"valve"), *lines[1:]])
    assert "line 1, header: value is 'valve'" in header
    shuffled = told([lines[0], *lines[:0:-1]])
    assert len(shuffled) == 21
    assert shuffled[-1] == "… and more"
    assert told([*lines, b"[" * 100_000])


def test_arrow_is_loaded_only_for_parquet(tmp_path):
    code = (
        "import sys, halflife.outputs as o; o.open_output(sys.argv[1], o.Layout('s', 'UTC'), 0, {}.get).close();"
        "print('pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out.csv")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
