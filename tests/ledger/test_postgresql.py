"""A ledger on a PostgreSQL server: refusals in words, migrations, transactions run again, and connections that are cut."""

import os
import re
import threading
import time
from contextlib import closing

import numpy as np
import pytest

from cutting_proxy import run_proxy
from halflife import LedgerError
from halflife.ledger import LedgerBusy, NoLedger, ledger_exists, ledgers_beside, open_ledger
from halflife.ledger.copies import hold_place
from halflife.ledger.postgresql import lease
from halflife.ledger.postgresql import schema as tables
from halflife.ledger.postgresql.connect import connect as connect_to
from halflife.ledger.postgresql.url import read_server
from halflife.testing.ledgers import FACTS, find_break, make_entry
from postgres_server import run_server


@pytest.fixture
def url(postgresql, schema, tmp_path):
    return postgresql.url(schema, tmp_path / "own")


def fill(url, first=1, count=2):
    """Commit some steps, all of them shown."""
    with open_ledger(url) as book, book.hold():
        book.begin(FACTS)
        book.mark_shown()
        book.commit([make_entry(k) for k in range(first, first + count)], {"account": "{}", "stream:s": "kept"}, first)
        book.mark_shown()


# Refusals


def refused(url, **how):
    with pytest.raises(LedgerError) as told:
        open_ledger(url, **how)
    return str(told.value)


def test_nobody_answers(postgresql, schema, tmp_path):
    said = refused(postgresql.url(schema, tmp_path, port=1))
    assert said.startswith(f"postgresql://127.0.0.1:1/postgres?schema={schema}: cannot be opened: nobody answers there")


def test_other_databases_users_and_services_are_told_apart(postgresql, schema, tmp_path, monkeypatch):
    url = postgresql.url(schema, tmp_path)
    assert "there is no such database: create it" in refused(url.replace("/postgres?", "/nowhere?"))
    assert "does not let this user in" in refused(url.replace("//postgres@", "//nobody@"))
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "none"))
    assert "there is no such service" in refused("postgresql:///?service=none")
    assert "no such host: correct the address" in refused("postgresql://nowhere.invalid/town")


@pytest.mark.parametrize(
    "value", ["sslmode=some", "target_session_attrs=any-one", "connect_timeout=soon", "port=99999"]
)
def test_a_value_that_libpq_does_not_take_is_told_as_such(postgresql, schema, tmp_path, value):
    assert "libpq does not take a value that the address gives it" in refused(
        f"{postgresql.url(schema, tmp_path)}&{value}"
    )


def test_a_session_that_the_server_refuses_is_no_lost_connection(postgresql, schema, tmp_path, monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c nonsense=1")
    assert "the server refuses the session: look at its log, and at PGOPTIONS" in refused(
        postgresql.url(schema, tmp_path)
    )


def test_a_text_that_the_server_cannot_keep_is_no_lost_connection(url):
    with open_ledger(url) as book, book.hold():
        book.begin(FACTS)
        with pytest.raises(LedgerError, match=r"a character that PostgreSQL cannot keep \(NUL\)"):
            book.commit([make_entry(1)], {"a\0b": "{}"}, 1)


def test_a_replica_is_read_and_not_written_to(schema, tmp_path):
    with run_server("replica") as server:
        url = server.url(schema, tmp_path)
        fill(url)
        server.become_replica()
        with open_ledger(url, read_only=True) as book, book.snapshot():
            assert [entry.step for entry in book.entries()] == [1, 2]
        assert "it is read-only: give the address of the server that is written to" in refused(url)


@pytest.mark.parametrize("table", ["lease", "fence"])
def test_a_deleted_row_of_the_lease_is_not_taken_for_another_publisher(postgresql, schema, url, table):
    fill(url)
    postgresql.execute(f"DELETE FROM {schema}.{table}")
    with open_ledger(url) as book, pytest.raises(LedgerError, match="the row of its table lease or fence") as told:
        book.hold().__enter__()
    put_back = re.search(r"\((INSERT .*NOTHING)\)", str(told.value))[1]
    postgresql.execute(f"SET search_path = {schema}", put_back)
    fill(url, 3)


def test_what_failed_in_a_snapshot_is_what_is_told(postgresql, url):
    fill(url)
    damaged = pytest.raises(LedgerError, match="a cell holds what no ledger has")
    with open_ledger(url, read_only=True) as book, damaged, book.snapshot():
        book._all("SELECT 1 / 0")
    with open_ledger(url, read_only=True) as book, pytest.raises(KeyError, match="own"), book.snapshot():
        postgresql.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'halflife'")
        raise KeyError("own")


def test_a_restore_that_cannot_begin_leaves_nothing_and_takes_nothing_away(postgresql, schema, tmp_path):
    """Not even the folder of a restore that runs."""
    with pytest.raises(LedgerError, match="nobody answers"), hold_place(postgresql.url(schema, tmp_path / "a", port=1)):
        pass
    assert not (tmp_path / "a").exists()
    url = postgresql.url(schema, tmp_path / "b")
    with hold_place(url) as place:
        (place.folder / "copy").touch()
        with pytest.raises(LedgerError, match="held by process"), hold_place(url, wait=0):
            pass
        assert (place.folder / "copy").exists()
    assert not place.folder.exists()


def test_a_wrong_password_is_told_and_never_printed(postgresql, schema, tmp_path, monkeypatch):
    rules = postgresql.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    postgresql.execute("DROP ROLE IF EXISTS guarded", "CREATE ROLE guarded LOGIN PASSWORD 'right horse'")
    try:
        rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + before)
        postgresql.execute("SELECT pg_reload_conf()")
        monkeypatch.setenv("PGPASSWORD", "hunter2")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            said = refused(postgresql.url(schema, tmp_path, user="guarded"), read_only=True)
            if "does not let" in said:
                break
        assert "does not let this user in: look at the user, the password (PGPASSWORD" in said
        assert "hunter2" not in said
        monkeypatch.setenv("PGPASSWORD", "right horse")
        assert "no such ledger: publish first" in refused(
            postgresql.url(schema, tmp_path, user="guarded"), read_only=True
        )
    finally:
        rules.write_text(before)
        postgresql.execute("SELECT pg_reload_conf()", "DROP ROLE guarded")


def test_without_rights_nothing_is_made(postgresql, schema, tmp_path):
    postgresql.execute("DROP ROLE IF EXISTS poor", "CREATE ROLE poor LOGIN")
    url = postgresql.url(schema, tmp_path, user="poor")
    assert "this user has no right to do that" in refused(url)
    assert not ledger_exists(url)
    postgresql.execute("DROP ROLE poor")


def test_a_schema_of_somebody_else_is_left_alone(postgresql, schema, tmp_path):
    postgresql.execute(f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.fact (x int)")
    with pytest.raises(
        NoLedger, match="a schema with other tables than a ledger's: give the ledger a schema of its own"
    ):
        open_ledger(postgresql.url(schema, tmp_path))
    assert postgresql.execute(f"SELECT count(*) FROM {schema}.fact") == [(0,)]


def test_what_was_published_from_a_ledger_that_is_gone_is_missed(postgresql, schema, url):
    fill(url)
    postgresql.execute(f"DROP SCHEMA {schema} CASCADE")
    for how in ({}, {"read_only": True}):
        assert "no such ledger, but 2 entries were published from it" in refused(url, **how)
    assert not ledger_exists(url)


def test_a_machine_without_a_guard_is_told_how_to_get_one(postgresql, schema, url, tmp_path):
    fill(url)
    other = postgresql.url(schema, tmp_path / "other")
    with (
        open_ledger(other) as book,
        book.hold(),
        pytest.raises(LedgerError, match=r"ledger\.shown is missing: it says how much"),
    ):
        book.begin(FACTS)
    with open_ledger(other, read_only=True) as book:
        line = book.explain_rollback() if book.find_rollback() else ""
    (tmp_path / "other" / "ledger.shown").write_text(line.rpartition(": ")[2])
    with open_ledger(other) as book, book.hold():
        assert book.begin(FACTS) == FACTS


def test_a_server_that_does_not_wait_for_its_disk_is_not_written_to(postgresql, url):
    postgresql.execute("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
    try:
        deadline = time.monotonic() + 10
        while postgresql.execute("SHOW fsync") != [("off",)] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "does not wait for its disk (fsync = off)" in refused(url)
    finally:
        postgresql.execute("ALTER SYSTEM RESET fsync", "SELECT pg_reload_conf()")
        while postgresql.execute("SHOW fsync") != [("on",)]:
            time.sleep(0.01)


def test_commits_wait_for_the_disk_and_are_serialisable(postgresql, url):
    postgresql.execute("ALTER ROLE postgres SET synchronous_commit = off")
    try:
        with open_ledger(url) as book:
            for setting, value in (("synchronous_commit", "on"), ("transaction_isolation", "serializable")):
                assert book._db.execute(f"SHOW {setting}").fetchone() == (value,)
    finally:
        postgresql.execute("ALTER ROLE postgres RESET synchronous_commit")


def test_errors_quote_no_cell(postgresql, schema, url):
    fill(url)
    postgresql.execute(f"UPDATE {schema}.kept SET value = 'secret noise'")
    with (
        open_ledger(url) as book,
        book.hold(),
        pytest.raises(LedgerError, match="was changed since it was written") as told,
    ):
        book.begin(FACTS)
    seen: BaseException | None = told.value
    while seen is not None:
        assert "secret" not in str(seen)
        seen = seen.__context__


# Tables


def test_migrations_make_what_the_program_expects(postgresql, schema, url):
    assert set(tables.FORMS) == set(range(1, tables.VERSION + 1))
    fill(url)
    with closing(connect_to(read_server(url), read_only=True)) as db:
        assert tables.read_form(db, schema) == tables.FORMS[tables.VERSION]


def test_an_older_ledger_is_migrated_and_a_newer_one_refused(postgresql, schema, url, monkeypatch):
    fill(url)
    with open_ledger(url) as old:
        more = (*tables.MIGRATIONS, ("ALTER TABLE written ADD COLUMN note text",))
        with monkeypatch.context() as newer:
            newer.setattr(tables, "MIGRATIONS", more)
            newer.setattr(tables, "VERSION", len(more))
            newer.setattr("halflife.ledger.postgresql.ledger.VERSION", len(more))
            newer.setitem(tables.FORMS, 1, tables.FORMS[1])
            with open_ledger(url, read_only=True) as book:
                assert book.last_step("s") == 2, "a newer program does not read an older ledger"
            with open_ledger(url) as book, book.hold():
                newer.setitem(tables.FORMS, 2, "")
                with pytest.raises(LedgerError, match="its tables are not those that halflife makes"):
                    book.begin(FACTS)
                newer.setitem(tables.FORMS, 2, tables.read_form(book._db, schema))
                book.begin(FACTS)
            assert postgresql.execute(f"SELECT number FROM {schema}.migration ORDER BY 1") == [(1,), (2,)]
            newer.delitem(tables.FORMS, 2)
        assert "a ledger of version 2 was written by a newer halflife: this one knows 1" in refused(url)
        with old.hold(), pytest.raises(LedgerError, match="was written by a newer halflife"):
            old.begin(FACTS)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE {s}.entry DROP CONSTRAINT entry_stream_step_part_key",
        "ALTER TABLE {s}.entry ALTER COLUMN spread TYPE real",
        "ALTER TABLE {s}.batch ALTER COLUMN chain DROP NOT NULL",
        "CREATE RULE quiet AS ON INSERT TO {s}.entry DO INSTEAD NOTHING",
        "CREATE TRIGGER t BEFORE INSERT ON {s}.entry FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE INDEX more ON {s}.entry (spread)",
        "CREATE VIEW {s}.more AS SELECT 1",
        "ALTER TABLE {s}.kept SET UNLOGGED",
        "ALTER TABLE {s}.state ENABLE ROW LEVEL SECURITY",
        "CREATE SCHEMA {s}_c; CREATE TABLE {s}_c.child () INHERITS ({s}.entry)",
    ],
)
def test_other_tables_are_not_gone_on_with(postgresql, schema, url, change):
    fill(url)
    postgresql.execute(change.format(s=schema).replace("suppress_redundant_updates_trigger", "tsvector_update_trigger"))
    with open_ledger(url) as book:
        assert "its tables are not those that halflife makes" in (book.find_damage() or "")
        with book.hold(), pytest.raises(LedgerError, match="its tables are not those that halflife makes"):
            book.begin(FACTS)


def test_two_that_begin_one_ledger_in_the_same_moment_make_it_once(postgresql, url):
    failed = []

    def begin():
        try:
            with open_ledger(url) as book, book.hold(30):
                book.begin(FACTS)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert ledger_exists(url)


def test_ledgers_of_one_database_know_of_each_other(postgresql, schema, tmp_path):
    first, second = (postgresql.url(f"{schema}_{name}", tmp_path / name) for name in "ab")
    fill(first)
    postgresql.execute(f"CREATE SCHEMA {schema}_c", f"CREATE TABLE {schema}_c.fact (x int)")
    (found,) = ledgers_beside(second)
    with open_ledger(found, read_only=True) as book:
        assert book.last_step("s") == 2
        assert f"schema={schema}_a" in book.name


# Transactions


def test_a_transaction_that_others_went_before_is_run_again_with_the_same_entries(postgresql, schema, url, monkeypatch):
    """Another session changes the fence's row between the snapshot and the write: PostgreSQL says 40001."""
    fill(url)
    real, counted = lease.Lease.confirm, [0]

    def confirm(self, db):
        db.execute("SELECT count(*) FROM entry")  # the snapshot of the transaction is of now
        counted[0] += 1
        if counted[0] < 3:
            postgresql.execute(f"UPDATE {schema}.fence SET commits = commits + 1")
        real(self, db)

    with open_ledger(url) as book, book.hold():
        book.begin(FACTS)
        monkeypatch.setattr(lease.Lease, "confirm", confirm)
        drawn = make_entry(3, np.random.default_rng().normal())
        book.commit([drawn], {}, 9)
        assert counted[0] == 3
        (kept,) = book.entries("s", 3, 3)
        assert kept.say() == drawn.say()
        assert find_break(book) is None


def test_a_row_that_another_session_keeps_is_not_waited_for_beyond_the_lease(postgresql, schema, tmp_path):
    url = postgresql.url(schema, tmp_path, lease=1)
    fill(url)
    with open_ledger(url) as book, book.hold():
        book.begin(FACTS)
        with postgresql.connect() as other:
            other.execute("BEGIN")
            other.execute(f"SELECT * FROM {schema}.fence FOR UPDATE")
            with pytest.raises(LedgerBusy, match="so nothing was spent or published: another session keeps it"):
                book.commit([make_entry(3)], {}, 9)
        book.commit([make_entry(3)], {}, 9)


@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_a_commit_whose_end_nobody_heard_of_is_found_out_about(postgresql, schema, tmp_path, when):
    """The connection is cut when COMMIT is sent: before the server gets it, before it answers, or a second before it gets it, so
    that the next attempt begins while the lost one may still end either way. It is there once.
    """
    fill(postgresql.url(schema, tmp_path))
    with (
        run_proxy(postgresql.port) as proxy,
        open_ledger(postgresql.url(schema, tmp_path, port=proxy.port)) as book,
        book.hold(),
    ):
        book.begin(FACTS)
        proxy.cut_at(b"COMMIT", when)
        drawn = make_entry(3, np.random.default_rng().normal())
        book.commit([drawn], {"account": "new"}, 9)
        assert proxy.cuts == 1
        (kept,) = book.entries("s", 3, 3)
        assert kept.say() == drawn.say()
        book.commit([make_entry(4)], {}, 10)
        assert [b.last for b in book.batches()] == [2, 3, 4]
        assert find_break(book) is None
        with open_ledger(postgresql.url(schema, tmp_path), read_only=True) as other:
            assert other.writer() is not None, "nobody sees that the ledger is held on a new connection"


@pytest.mark.parametrize(("when", "steps"), [("before", 2), ("after", 3)])
def test_a_server_that_stays_away_is_told_and_the_next_run_finds_out(postgresql, schema, tmp_path, when, steps):
    direct = postgresql.url(schema, tmp_path)
    fill(direct)
    with (
        run_proxy(postgresql.port) as proxy,
        open_ledger(postgresql.url(schema, tmp_path, port=proxy.port, lease=1)) as book,
        book.hold(),
    ):
        book.begin(FACTS)
        proxy.cut_at(b"COMMIT", when)
        proxy.refuses = True
        with pytest.raises(LedgerError, match="whether that was committed is not known, and nothing of it was shown"):
            book.commit([make_entry(3)], {}, 9)
    with open_ledger(direct) as book, book.hold():
        book.begin(FACTS)
        assert book.last_step("s") == steps


def test_questions_outlive_a_connection_but_not_a_snapshot(postgresql, schema, tmp_path):
    fill(postgresql.url(schema, tmp_path))
    with (
        run_proxy(postgresql.port) as proxy,
        open_ledger(postgresql.url(schema, tmp_path, port=proxy.port), read_only=True) as book,
    ):
        assert book.last_step("s") == 2
        proxy.cut_all()
        assert book.last_step("s") == 2
        proxy.cut_all()
        assert [entry.step for entry in book.entries("s")] == [1, 2]
        with book.snapshot(None):
            proxy.cut_all()
            with pytest.raises(LedgerError, match="the connection was lost: see that the server runs, and run again"):
                book.last_step("s")


def test_a_server_that_is_stopped_and_started_is_gone_on_with(schema, tmp_path):
    with run_server() as server:
        url = server.url(schema, tmp_path)
        fill(url)
        with open_ledger(url) as book, book.hold():
            book.begin(FACTS)
            server.stop()
            threading.Timer(0.5, server.start).start()
            book.commit([make_entry(3)], {}, 9)
            assert book.last_step("s") == 3
            assert find_break(book) is None


def test_a_closed_ledger_stays_closed(postgresql, url):
    fill(url)
    book = open_ledger(url, read_only=True)
    book.close()
    with pytest.raises(LedgerError, match="connection"):
        book.last_step("s")


def test_this_machines_files_are_its_owners_alone(url, tmp_path):
    fill(url)
    assert os.stat(tmp_path / "own").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "own" / "ledger.shown").st_mode & 0o777 == 0o600
