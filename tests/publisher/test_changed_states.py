"""A ledger whose states or tables were changed is refused before anything is drawn, and no word is said of what states hold."""

import datetime
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import LedgerError
from halflife.cli import main
from halflife.ledger.entry import batch_link, digest
from publisher.test_almost_periodic import WEAK
from publisher.test_almost_periodic import town as periodic_town
from publisher.town import make, policy_dict

MARK = "7368412095577"
"""A number that stands nowhere else."""


def noon(day):
    return datetime.datetime(2026, 1, day, 12, tzinfo=datetime.UTC).timestamp


@pytest.fixture(scope="module")
def weak(tmp_path_factory):
    """48 steps of a weak almost-periodic stream, of which more are due."""
    folder = tmp_path_factory.mktemp("weak")
    policy = periodic_town(folder, WEAK, days=4)
    hl.publish(policy, clock=datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC).timestamp)
    return folder


@pytest.fixture
def town(weak, tmp_path):
    shutil.copytree(weak, tmp_path / "town")
    return hl.Policy.load(tmp_path / "town" / "policy.yaml")


def change(policy, *statements):
    with closing(sqlite3.connect(policy.ledger_url)) as db:
        for statement, *arguments in statements:
            db.execute(statement, arguments)
        db.commit()


def entries(policy):
    with closing(sqlite3.connect(policy.ledger_url)) as db:
        return db.execute("SELECT count(*) FROM entry").fetchone()[0]


def refused(policy, words=None):
    """Nothing is drawn or shown, and both commands say so, with status 1."""
    before, shown = entries(policy), policy.path("mean.csv").read_bytes()
    with pytest.raises(LedgerError, match=words):
        hl.publish(policy, clock=noon(4))
    assert entries(policy) == before
    assert policy.path("mean.csv").read_bytes() == shown
    ended = CliRunner().invoke(main, ["verify", str(policy.path("policy.yaml"))])
    assert ended.exit_code == 1
    assert isinstance(ended.exception, SystemExit), traceback.format_exception(ended.exception)


# States -------------------------------------------------------------------------------------------------------------


def test_a_deleted_account_is_refused(town):
    """Before: publish went on, drew the reused noise again, and then everything agreed."""
    assert entries(town) == 48
    change(town, ("DELETE FROM state WHERE name = 'account'",))
    refused(town, "saved states .* are not those of the newest batch")


def test_a_deleted_account_that_forgets_is_refused(tmp_path):
    """Before: it went on with 2.8 % of the promise in use."""
    data = policy_dict(stream={"source": None})
    data["promise"] = {"notion": "exponential", "epsilon": 1, "half_life": "1 day"}
    data["clock"]["late"] = "as-planned"
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy) as stream:
        for step in range(1, 6):
            stream.publish(1.0, at=step)
        change(policy, ("DELETE FROM state WHERE name = 'account'",))
        with pytest.raises(LedgerError, match="not those of the newest batch"):
            stream.publish(1.0, at=6)


STATES = [
    ("DELETE FROM state",),
    ("DELETE FROM state WHERE name = 'stream:mean'",),
    ("UPDATE state SET value = value || ' ' WHERE name = 'account'",),
    ("UPDATE state SET name = 'account2' WHERE name = 'account'",),
    ("INSERT INTO state VALUES ('more', '{}')",),
    ("INSERT INTO state VALUES ('stream:other', '{}')",),
    ("UPDATE batch SET states = zeroblob(32) WHERE last_entry = 48",),
    ("UPDATE batch SET at_us = at_us + 1 WHERE last_entry = 48",),
    ("UPDATE batch SET chain = zeroblob(32) WHERE last_entry = 48",),
    ("DELETE FROM batch WHERE last_entry = 48",),
    ("DELETE FROM batch",),
    ("INSERT INTO batch VALUES (49, 1, zeroblob(32), zeroblob(32))",),
    ("UPDATE entry SET noisy = zeroblob(8) WHERE id = 48",),
    ("UPDATE entry SET chain = zeroblob(32) WHERE id = 48",),
    ("UPDATE release SET age = 1 WHERE entry = 48",),
    ("UPDATE release SET number = 7 WHERE entry = 48",),
    ("UPDATE entry SET noisy = zeroblob(8) WHERE id = 1",),
    ("UPDATE fact SET value = '{}' WHERE key = 'population'",),
    ("DELETE FROM fact",),
]


@pytest.mark.parametrize("statement", STATES, ids=lambda s: s[0][:60])
def test_whatever_was_committed_last_is_compared_before_anything_is_drawn(town, statement):
    change(town, statement)
    refused(town)


def test_entries_without_a_batch_and_states_without_entries_are_refused(town):
    change(town, ("DELETE FROM release",), ("DELETE FROM entry",), ("DELETE FROM batch",))
    refused(town, "no batch that they were committed in")
    change(town, ("DELETE FROM state",))
    refused(town, "holds 0 entries, but 48 were published")


# Tables -------------------------------------------------------------------------------------------------------------

TABLES = [
    "CREATE TABLE more (x)",
    "CREATE VIEW more AS SELECT * FROM entry",
    "CREATE INDEX more ON entry (part)",
    "CREATE TRIGGER more AFTER INSERT ON entry BEGIN DELETE FROM state; END",
    "DROP TABLE written",
    "ALTER TABLE release ADD COLUMN more TEXT",
    "PRAGMA user_version = 0",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 2",
    "PRAGMA user_version = 99",
    "PRAGMA user_version = -1",
    "PRAGMA application_id = 7",
]


@pytest.mark.parametrize("statement", TABLES)
def test_tables_that_halflife_does_not_make_are_refused(town, statement):
    change(town, (statement,))
    refused(town)


def test_a_table_of_ours_in_other_words_is_refused(town):
    change(
        town,
        ("PRAGMA writable_schema = ON",),
        ("UPDATE sqlite_master SET sql = replace(sql, 'UNIQUE (stream, step, part)', 'UNIQUE (stream, part, step)')",),
    )
    refused(town)


# The mark of what was printed, and digests of files -----------------------------------------------------------------


@pytest.mark.parametrize("change_of_mark", ["step = step - 1", "step = step + 1", "sha256 = zeroblob(32)"])
def test_a_changed_mark_of_what_was_printed_is_refused(tmp_path, change_of_mark, capfd):
    """It would leave lines out, or write them again; never draw anything."""
    policy = make(tmp_path, stream={"source": None}, output="-")
    with hl.Stream(policy) as stream:
        for step in (1, 2, 3):
            stream.publish(1.0, at=step)
        change(policy, (f"UPDATE written SET {change_of_mark}",))
        with pytest.raises(LedgerError, match="wrote to the standard output is of no step"):
            stream.publish(1.0, at=4)
    assert len(capfd.readouterr().out.splitlines()) == 3


def test_a_lost_mark_of_what_was_printed_writes_the_same_values_again(tmp_path, capfd):
    policy = make(tmp_path, stream={"source": None}, output="-")
    with hl.Stream(policy) as stream:
        for step in (1, 2):
            stream.publish(1.0, at=step)
        change(policy, ("DELETE FROM written",))
        stream.publish(1.0, at=3)
    lines = capfd.readouterr().out.splitlines()
    assert lines[:2] == lines[2:4]
    assert len(lines) == 5


# What states hold is told to nobody ---------------------------------------------------------------------------------


def state(policy, name):
    with closing(sqlite3.connect(policy.ledger_url)) as db:
        return db.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()[0]


def forms(kept):
    """Damaged forms of a state that hold the number, as SQLite can hold them."""
    data = json.loads(kept)
    numbers = re.sub(r"-?\d{4,}(\.\d+)?", MARK, kept)
    yield "other numbers", numbers.encode()
    if "noise" in data:
        for k, part in enumerate((int(MARK), MARK, [MARK], [int(MARK)], [float(MARK)], {MARK: 1}, None)):
            noise = {key: {**kept, "units": part} for key, kept in data["noise"].items()}
            yield f"other noise {k}", json.dumps({**data, "noise": noise})
    yield "cut off", numbers[: len(numbers) * 2 // 3]
    yield "no JSON", f"{MARK} {MARK}"
    yield "text in it", json.dumps({**data, "more": MARK})
    yield "not UTF-8", numbers.encode().replace(b'"', b"\xff\xfe", 3)
    yield "UTF-16", numbers.encode("utf-16")
    yield "a number", float(MARK)
    yield "a whole number", int(MARK)
    yield "a list", json.dumps([MARK, int(MARK)])
    yield "nothing but text", json.dumps(MARK)
    yield "nested", "[" * 5000 + MARK
    yield "a blob", memoryview(MARK.encode())
    for key in data:
        yield f"{key} is text", json.dumps({**data, key: MARK})
        yield f"{key} is a number", json.dumps({**data, key: int(MARK)})
        yield f"{key} is a list", json.dumps({**data, key: [{MARK: [int(MARK)]}]})
        yield f"{key} is an object", json.dumps({**data, key: {MARK: int(MARK), "name": MARK}})


def plant(policy, name, value, rehash):
    """Put a value of any kind into a state's cell, though the table takes only text; and hash the batch anew."""
    strict, loose = "value TEXT NOT NULL) STRICT", "value NOT NULL)        "
    swap = "UPDATE sqlite_master SET sql = replace(sql, ?, ?) WHERE name = 'state'"
    change(policy, ("PRAGMA writable_schema = ON",), (swap, strict, loose))
    cell = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
    change(policy, (f"UPDATE state SET value = {cell} WHERE name = ?", value, name))
    change(policy, ("PRAGMA writable_schema = ON",), (swap, loose, strict))
    if rehash:
        with closing(sqlite3.connect(policy.ledger_url)) as db:
            saved = digest(db.execute("SELECT name, value FROM state"))
            (last,) = db.execute("SELECT chain FROM entry ORDER BY id DESC LIMIT 1").fetchone()
            (when,) = db.execute("SELECT at_us FROM batch ORDER BY last_entry DESC").fetchone()
            head = batch_link(last, when, saved)
            db.execute("UPDATE batch SET states = ?, chain = ? WHERE last_entry = 48", (saved, head))
            db.commit()
        policy.path("town.ledger.shown").write_text(f"shown 48 {head.hex()}\n")
        policy.path("mean.csv.mark").unlink(missing_ok=True)  # which would tell that the hash is another one


def without(key, kept):
    """The state of a stream without a key, or with nothing kept under it."""
    data = json.loads(kept)
    return json.dumps({**data, key: {}}) if key == "noise" else json.dumps({k: v for k, v in data.items() if k != key})


@pytest.mark.parametrize("made", [lambda kept: "{}", lambda kept: "{", lambda kept: without("noise", kept)])
def test_verify_refuses_states_that_publish_cannot_go_on_from(town, made):
    """Hashed anew, so that nothing but what is missing gives them away. Before: everything agreed, and publish refused."""
    assert hl.verify(town).good
    plant(town, "stream:mean", made(state(town, "stream:mean")), rehash=True)
    with pytest.raises(LedgerError, match="saved states are not those of this policy"):
        hl.publish(town, clock=noon(4))
    (problem,) = hl.verify(town).problems
    assert "saved states are not those of this policy" in problem
    assert entries(town) == 48


def all_words(error):
    """Everything that an error and those behind it say."""
    said = []
    while error is not None:
        said += [str(error), repr(error), *map(repr, vars(error).values())]
        said += traceback.format_exception(error)
        error = error.__cause__ or error.__context__
    return "\n".join(said)


@pytest.mark.parametrize(("name", "rehash"), [("account", False), ("stream:mean", False), ("stream:mean", True)])
def test_no_word_is_said_of_what_a_damaged_state_holds(weak, tmp_path, name, rehash):
    """Before: 'Could not decode to UTF-8 column 'value' with text …' and the noise."""
    policy = hl.Policy.load(weak / "policy.yaml")
    ledger, shown = Path(policy.ledger_url).read_bytes(), policy.path("town.ledger.shown").read_bytes()
    output = policy.path("mean.csv").read_bytes()
    for what, value in forms(state(policy, name)):
        if rehash and (not isinstance(value, str) or what.startswith("smoothers")):
            continue  # what cannot be hashed, and what is no secret
        plant(policy, name, value, rehash)
        said = []
        for run in (lambda: hl.publish(policy, clock=noon(4)), lambda: hl.verify(policy.ledger_url, policy=policy)):
            try:
                said.append(repr(run()))
            except hl.HalflifeError as error:
                said.append(all_words(error))
        for command in ("publish", "verify"):
            ended = CliRunner().invoke(main, [command, str(weak / "policy.yaml")])
            said += [ended.output, all_words(ended.exception)]
            assert rehash or ended.exit_code == 1, (what, ended.output)
        assert not any(MARK[:9] in text or f"{float(MARK):.4e}"[:6] in text for text in said), (what, "\n".join(said))
        for file in weak.glob("town.ledger-*"):
            file.unlink()
        Path(policy.ledger_url).write_bytes(ledger)
        policy.path("town.ledger.shown").write_bytes(shown)
        policy.path("mean.csv").write_bytes(output)


@pytest.mark.parametrize("command", ["publish", "verify"])
def test_a_process_says_nothing_of_it_either(town, command):
    kept = json.loads(state(town, "stream:mean"))["noise"]
    digits = set(re.findall(r"\d{5,}", json.dumps(kept)))
    assert digits
    raw = state(town, "stream:mean").encode()
    plant(town, "stream:mean", raw[:200] + b"\xff" + raw[200:], False)
    code = [sys.executable, "-X", "dev", "-c", "from halflife.cli import main; main()", command, "policy.yaml"]
    ended = subprocess.run(code, capture_output=True, text=True, check=False, cwd=Path(town.ledger_url).parent)
    assert ended.returncode == 1
    assert "town.ledger" in ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    assert not [n for n in digits if n in ended.stdout + ended.stderr]


@pytest.mark.parametrize("cell", ["fact.value", "entry.stream", "entry.part", "release.draw", "release.noise"])
def test_no_word_is_said_of_any_other_damaged_cell(town, cell):
    table, column = cell.split(".")
    change(town, (f"UPDATE {table} SET {column} = CAST(? AS TEXT)", f"{MARK}\xff".encode("latin-1")))
    said = []
    for run in (lambda: hl.publish(town, clock=noon(4)), lambda: hl.verify(town.ledger_url, policy=town)):
        try:
            said.append(repr(run()))
        except hl.HalflifeError as error:
            said.append(all_words(error))
    assert not any(MARK in text for text in said), said
    assert "Verdict(problems=()" not in said[1]


def test_states_that_stand_where_facts_should_are_not_repeated(town):
    """Two numbers in the table of tables are swapped: what is read as the policy are the states."""
    with closing(sqlite3.connect(town.ledger_url)) as db:
        roots = dict(db.execute("SELECT name, rootpage FROM sqlite_master WHERE name IN ('fact', 'state')"))
    kept = json.loads(state(town, "stream:mean"))["noise"]
    digits = set(re.findall(r"\d{5,}", json.dumps(kept)))
    change(
        town,
        ("PRAGMA writable_schema = ON",),
        ("UPDATE sqlite_master SET rootpage = ? WHERE name = 'fact'", roots["state"]),
        ("UPDATE sqlite_master SET rootpage = ? WHERE name = 'state'", roots["fact"]),
    )
    said = []
    for run in (lambda: hl.publish(town, clock=noon(4)), lambda: hl.verify(town.ledger_url, policy=town)):
        try:
            said.append(repr(run()))
        except hl.HalflifeError as error:
            said.append(all_words(error))
    assert not [n for n in digits if n in "".join(said)]
    assert "good" not in said[0]


@pytest.mark.parametrize("step", [2**53 + 1, 10**30])
def test_an_account_at_a_step_that_no_clock_reaches_is_refused(town, step):
    saved = json.loads(state(town, "account"))
    plant(town, "account", json.dumps({**saved, "step": step}), rehash=True)
    with pytest.raises(LedgerError, match="saved states are not those"):
        hl.publish(town, clock=noon(4))
