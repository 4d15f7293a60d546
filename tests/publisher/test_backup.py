"""`backup`: whole, of one moment, never over another, private, without the key; and every change of it is noticed."""

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing

import pytest

import halflife as hl
from forked import CONTEXT, finish, start
from halflife import HalflifeError, InvalidInput, LedgerError
from halflife.ledger import open_ledger
from halflife.publisher.backing_up import MANIFEST, digest_file, read_backup
from halflife.publisher.verification import find_broken_link
from publisher.children import publish_step_by_step
from publisher.town import make, policy_dict, write_readings

PERIODIC = {"notion": "almost-periodic", "epsilon": 1.0, "period": 6, "strong": True}


def at(hour):
    return lambda: 1767225600 + 3600 * hour


@pytest.fixture
def town(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(5))
    return policy


def test_a_backup_is_the_ledger_bit_by_bit_with_policy_and_manifest(tmp_path, town):
    made = hl.backup(tmp_path / "policy.yaml", tmp_path / "b")
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == ["ledger.sqlite", "manifest.json", "policy.yaml"]
    assert (tmp_path / "b" / "policy.yaml").read_bytes() == (tmp_path / "policy.yaml").read_bytes()
    with open_ledger(town.ledger_url, read_only=True) as book, open_ledger(made.ledger, read_only=True) as copy:
        assert [link for *_, link in book.chained()] == [link for *_, link in copy.chained()]
        assert book.states() == copy.states()
        assert find_broken_link(copy) is None
        assert (made.mark.entries, made.mark.head, made.mark.streams) == (5, book.newest().link.hex(), {"mean": 5})
    again = read_backup(tmp_path / "b")
    assert again == made
    assert made.key is None
    assert made.files["ledger.sqlite"] == digest_file(tmp_path / "b" / "ledger.sqlite")


def test_it_is_the_owners_alone_and_never_over_another(tmp_path, town):
    hl.backup(town, tmp_path / "b")
    before = {p: p.read_bytes() for p in (tmp_path / "b").iterdir()}
    modes = {stat.S_IMODE(p.stat().st_mode) for p in before}
    assert (modes, stat.S_IMODE((tmp_path / "b").stat().st_mode)) == ({0o600}, 0o700)
    (tmp_path / "file").touch()
    for place in ("b", "file"):
        with pytest.raises(InvalidInput, match="is there already"):
            hl.backup(town, tmp_path / place)
    assert before == {p: p.read_bytes() for p in (tmp_path / "b").iterdir()}


def test_public_tables_are_in_it(tmp_path):
    write_readings(tmp_path)
    (tmp_path / "zones.csv").write_text(
        "home,zone\n" + "".join(f"h{i},{'north' if i < 3 else 'south'}\n" for i in range(5))
    )
    policy = make(tmp_path, stream={"groups": {"table": {"file": "zones.csv", "person": "home", "group": "zone"}}})
    hl.publish(policy, clock=at(3))
    made = hl.backup(policy, tmp_path / "b")
    assert made.tables == {"zones.csv": "tables/1-zones.csv"}
    assert (tmp_path / "b" / "tables" / "1-zones.csv").read_bytes() == (tmp_path / "zones.csv").read_bytes()
    away = tmp_path / "away"
    shutil.copytree(tmp_path / "b", away / "b")
    restored = hl.restore(away / "b", away / "town" / "policy.json", newest=True, clock=at(4))
    assert {os.path.basename(f) for f in restored.brought} == {"policy.json", "zones.csv"}


@pytest.mark.parametrize("policy_is_there", [False, True])
def test_the_table_of_members_is_in_it_and_is_brought_back(tmp_path, policy_is_there):
    write_readings(tmp_path)
    (tmp_path / "members.csv").write_text("from,size\n2026-01-01,5\n2026-01-01T03:00,10\n")
    policy = make(tmp_path, population={"id": "town", "size": "members.csv", "person": "home"})
    hl.publish(policy, clock=at(3))
    found = hl.backup(policy, tmp_path / "b")
    assert found.tables == {"members.csv": "tables/1-members.csv"}
    away = tmp_path / "away"
    shutil.copytree(tmp_path / "b", away / "b")
    if policy_is_there:
        shutil.copy(away / "b" / found.policy, away / "policy.json")
    restored = hl.restore(away / "b", away / "policy.json", newest=True, clock=at(4))
    names = {"members.csv"} if policy_is_there else {"members.csv", "policy.json"}
    assert {os.path.basename(f) for f in restored.brought} == names
    assert (away / "members.csv").read_bytes() == (tmp_path / "members.csv").read_bytes()


def test_a_ledgers_file_brings_no_policy(tmp_path, town):
    with pytest.raises(HalflifeError, match="nowhere"):
        hl.restore(town.ledger_url, tmp_path / "nowhere.yaml", newest=True)
    assert not (tmp_path / "nowhere.yaml").exists()


def test_kept_noise_stays_sealed_and_the_key_is_told_of_and_not_in_it(tmp_path):
    write_readings(tmp_path)
    policy = _periodic(tmp_path)
    hl.publish(policy, clock=at(5))
    made = hl.backup(policy, tmp_path / "b")
    assert made.key is not None
    keys = [f.read_bytes().strip() for f in _keys()]
    assert keys
    for file in (tmp_path / "b").rglob("*"):
        if file.is_file():
            assert not any(key in file.read_bytes() for key in keys)


def _periodic(folder):
    data = policy_dict() | {"promise": PERIODIC}
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def _keys():
    from pathlib import Path

    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return list((home / "halflife" / "keys").glob("*.key"))


def test_nothing_published_and_older_copies_are_refused_and_nothing_is_left(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    with pytest.raises(LedgerError, match="no such file"):
        hl.backup(policy, tmp_path / "b")
    hl.publish(policy, clock=at(0))
    with pytest.raises(InvalidInput, match="nothing is published yet"):
        hl.backup(policy, tmp_path / "b")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith((".b", "b"))]


def test_a_damaged_ledger_is_not_backed_up(tmp_path, town):
    with closing(sqlite3.connect(town.ledger_url)) as db, db:
        db.execute("UPDATE entry SET spread = spread + 1 WHERE id = 3")
    with pytest.raises(LedgerError, match="is not backed up, as it is damaged"):
        hl.backup(town, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_disk_that_is_full_leaves_nothing(tmp_path, town, monkeypatch):
    from halflife.publisher import backing_up

    def full(*a):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backing_up, "_copy_tables", full)
    with pytest.raises(InvalidInput, match="No space left on device"):
        hl.backup(town, tmp_path / "b")
    assert not [p for p in tmp_path.iterdir() if p.name.startswith((".b", "b"))]


def test_any_changed_byte_of_a_backup_is_noticed(tmp_path, town):
    hl.backup(town, tmp_path / "b")
    for file in (tmp_path / "b").iterdir():
        whole = file.read_bytes()
        places = range(len(whole)) if file.name == MANIFEST else range(0, len(whole), max(1, len(whole) // 60))
        for place in places:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            with pytest.raises(InvalidInput, match="is not a whole backup"):
                read_backup(tmp_path / "b")
        file.write_bytes(whole)
    (tmp_path / "b" / "more").touch()
    with pytest.raises(InvalidInput, match="more was put in"):
        read_backup(tmp_path / "b")
    (tmp_path / "b" / "more").unlink()
    (tmp_path / "b" / "ledger.sqlite").unlink()
    with pytest.raises(InvalidInput, match=r"ledger\.sqlite is missing"):
        read_backup(tmp_path / "b")


def test_backups_of_a_running_publisher_are_whole(tmp_path):
    """One after the other while another process publishes step by step: each is a beginning of the same chain."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=at(1))
    ready = CONTEXT.Event()
    process = start(publish_step_by_step, str(tmp_path / "policy.yaml"), ready)
    assert ready.wait(60)
    made = []
    while process.is_alive() or not made:
        made.append(hl.backup(policy, tmp_path / f"b{len(made)}"))
    assert finish(process) == 0
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert all(book.holds(b.mark.entries, bytes.fromhex(b.mark.head)) for b in made)


def test_backup_as_its_users_run_it(tmp_path, town):
    from click.testing import CliRunner

    from halflife.cli import main

    done = CliRunner().invoke(main, ["backup", str(tmp_path / "policy.yaml"), str(tmp_path / "b")])
    assert done.exit_code == 0, done.output
    assert "5 entries" in done.output
    assert "newest hash" in done.output
    done = CliRunner().invoke(main, ["backup", str(tmp_path / "policy.yaml"), str(tmp_path / "c"), "--json"])
    assert json.loads(done.output)["mark"]["entries"] == 5
    done = CliRunner().invoke(main, ["backup", str(tmp_path / "policy.yaml"), str(tmp_path / "c")])
    assert done.exit_code == 1
    assert "is there already" in done.output
