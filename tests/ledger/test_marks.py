"""Marks outside the ledger: an older copy is noticed although ledger and guard went back together; kills and damage."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest

import halflife as hl
from halflife import HalflifeError, LedgerError
from halflife.ledger import open_ledger
from halflife.ledger.marks import Mark, mark_beside, read_mark
from ledger.test_guard import Killed, fail_at, push, town  # noqa: F401
from publisher.town import make, policy_dict, write_readings

SECOND = {"mark": "elsewhere/town.mark"}


def keep(folder, name):
    """Keep a copy of the ledger and its guard."""
    (folder / name).mkdir()
    for file in ("town.ledger", "town.ledger.shown"):
        shutil.copy(folder / file, folder / name / file)


def put_back(folder, name):
    """Put ledger and guard back together, as an operator does who restores a folder."""
    for file in folder.glob("town.ledger-*"):
        file.unlink()
    for file in ("town.ledger", "town.ledger.shown"):
        shutil.copy(folder / name / file, folder / file)


def policy_with_mark(folder, **changes):
    data = policy_dict(**changes) | SECOND
    data["streams"][0]["source"] = None
    data["clock"]["end"] = "2026-01-05"
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


@pytest.mark.parametrize("lost", [(), ("mean.csv",)])
def test_a_copy_restored_with_its_guard_is_noticed_by_the_mark_beside_the_output(tmp_path, lost):
    policy = town(tmp_path)
    push(policy, 1, 2)
    keep(tmp_path, "two")
    push(policy, 3)
    put_back(tmp_path, "two")
    for file in lost:
        (tmp_path / file).unlink()
    said = r"holds 2 entries, but 3 entries were published from it, says .*mean\.csv\.mark: .*halflife restore"
    for use in (
        lambda: push(policy, 3),
        lambda: hl.amend(policy, "more homes"),
        lambda: hl.backup(policy, tmp_path / "b"),
    ):
        with pytest.raises(LedgerError, match=said):
            use()
    assert any("says" in problem and "mean.csv.mark" in problem for problem in hl.verify(policy).problems)
    found = hl.status(policy)
    assert "but 3 entries were published" in found.older
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert book.last_step("mean") == 2, "nothing was drawn"


@pytest.mark.parametrize("output", ["-", "mean.csv"])
def test_the_second_place_notices_when_everything_else_goes_back(tmp_path, output, capsys):
    policy = policy_with_mark(tmp_path, output=output)
    push(policy, 1, 2)
    keep(tmp_path, "two")
    push(policy, 3)
    put_back(tmp_path, "two")
    for name in ("mean.csv", "mean.csv.mark"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(LedgerError, match=r"3 entries were published from it, says .*elsewhere/town\.mark"):
        push(policy, 3)


def test_a_dry_run_and_a_preview_notice_too(tmp_path):
    from halflife.publisher.preview import preview, rehearse

    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=lambda: 1767225600 + 5 * 3600)
    keep(tmp_path, "five")
    hl.publish(policy, clock=lambda: 1767225600 + 9 * 3600)
    put_back(tmp_path, "five")
    for look in (preview, rehearse):
        with pytest.raises(LedgerError, match="holds 5 entries, but 9 entries were published"):
            look(policy)
    for file in tmp_path.glob("town.ledger*"):
        file.unlink()
    with pytest.raises(LedgerError, match=r"town\.ledger: holds 0 entries, but 9 entries were published"):
        preview(policy)


def test_a_copy_from_before_an_event_is_noticed(tmp_path):
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy, clock=lambda: 1767225600 + 5 * 3600)
    keep(tmp_path, "before")
    larger = make(tmp_path, population={"id": "town", "size": 6, "person": "home"})
    hl.amend(larger, "a home joined", clock=lambda: 1767225600 + 5 * 3600)
    put_back(tmp_path, "before")
    with pytest.raises(LedgerError, match=r"holds 5 entries, but 5 entries and 1 event were published"):
        hl.publish(policy)


def test_an_older_ledger_that_has_no_marks_gets_them(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    (tmp_path / "mean.csv.mark").unlink()
    assert hl.verify(policy).good
    with hl.Stream(policy) as stream:
        stream.publish(1.0, at=2)  # stored already: nothing is drawn
    assert read_mark(str(tmp_path / "mean.csv.mark")).entries == 2
    assert hl.verify(policy).marks == (str(tmp_path / "mean.csv.mark"),)


def test_outputs_may_move_and_go(tmp_path):
    push(town(tmp_path), 1, 2)
    push(town(tmp_path, output="other/mean.csv"), 3)
    assert read_mark(str(tmp_path / "mean.csv.mark")).entries == 2
    assert read_mark(str(tmp_path / "other" / "mean.csv.mark")).entries == 3
    for name in ("mean.csv", "mean.csv.mark"):
        (tmp_path / "other" / name).unlink()
    push(town(tmp_path, output="other/mean.csv"), 4)
    push(town(tmp_path), 5)  # back to the old place, whose mark is old, and in the chain
    assert hl.verify(town(tmp_path)).good
    assert read_mark(str(tmp_path / "mean.csv.mark")).streams == {"mean": 5}


def test_a_link_to_an_output_has_the_mark_of_the_file(tmp_path):
    (tmp_path / "www").mkdir()
    (tmp_path / "mean.csv").symlink_to(tmp_path / "www" / "mean.csv")
    push(town(tmp_path), 1)
    assert (tmp_path / "www" / "mean.csv.mark").exists()
    assert not (tmp_path / "mean.csv.mark").exists()


def test_a_folder_has_its_mark_beside_it(tmp_path):
    push(town(tmp_path, output="parts/"), 1)
    assert mark_beside(f"{tmp_path}/parts/") == str(tmp_path / "parts.mark")
    assert (tmp_path / "parts.mark").exists()


def test_a_mark_is_as_public_as_an_output_and_holds_nothing_else(tmp_path):
    policy = town(tmp_path)
    push(policy, 1, 2)
    file = tmp_path / "mean.csv.mark"
    assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE((tmp_path / "mean.csv").stat().st_mode)
    said = json.loads(file.read_text())
    assert set(said) == {"format", "version", "ledger", "entries", "events", "head", "streams", "sha256"}


def test_the_mark_of_another_ledger_is_refused(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    data = policy_dict() | {"mark": str(tmp_path / "one.mark")}
    data["streams"][0]["source"] = None
    push(hl.Policy.from_dict(data, tmp_path / "a"), 1)
    other = data | {"population": {"id": "village", "size": 9, "person": "home"}}
    with pytest.raises(LedgerError, match=r"one\.mark is the mark of another ledger, from which 1 entry"):
        push(hl.Policy.from_dict(other, tmp_path / "b"), 1)


@pytest.mark.parametrize("kind", ["empty", "text", "folder", "pipe", "link"])
def test_a_mark_that_says_nothing_is_refused(tmp_path, kind):
    policy = town(tmp_path)
    push(policy, 1)
    file = tmp_path / "mean.csv.mark"
    file.rename(tmp_path / "kept")
    {
        "empty": file.touch,
        "text": lambda: file.write_text("shown 1"),
        "folder": file.mkdir,
        "pipe": lambda: os.mkfifo(file),
        "link": lambda: file.symlink_to(tmp_path / "kept"),
    }[kind]()
    with pytest.raises(LedgerError, match=r"mean\.csv\.mark cannot be (understood|read)"):
        push(policy, 2)
    assert not hl.verify(policy).good
    assert "mean.csv.mark" in hl.status(policy).older


def test_any_changed_byte_of_a_mark_is_refused(tmp_path):
    """Before the ledger is compared: a mark that was damaged says nothing about how much was published."""
    file = tmp_path / "a.mark"
    whole = Mark("ab" * 32, 12, 3, "cd" * 32, {"mean": 7}).text().encode()
    file.write_bytes(whole)
    assert read_mark(str(file)) == Mark("ab" * 32, 12, 3, "cd" * 32, {"mean": 7})
    for place in range(len(whole)):
        for change in (1, 32):
            file.write_bytes(whole[:place] + bytes([whole[place] ^ change]) + whole[place + 1 :])
            with pytest.raises(LedgerError, match="cannot be understood"):
                read_mark(str(file))
        file.write_bytes(whole[:place] + whole[place + 1 :])
        with pytest.raises(LedgerError, match="cannot be understood"):
            read_mark(str(file))


def test_a_place_that_cannot_be_written_stops_it_before_anything_is_drawn(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    data = policy_dict() | {"mark": "file/town.mark"}
    data["streams"][0]["source"] = None
    policy = hl.Policy.from_dict(data, tmp_path)
    with pytest.raises(LedgerError, match=r"file/town\.mark cannot be (read|written)"):
        push(policy, 1)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert book.newest() is None
    monkeypatch.setattr(os, "access", lambda path, mode: str(path) != str(tmp_path))
    with pytest.raises(LedgerError, match=r"mean\.csv\.mark cannot be written: nothing can be made in"):
        push(town(tmp_path), 1)


def test_killed_at_any_call_marks_are_never_ahead_and_nothing_is_shown_without_one(tmp_path, fail_at, monkeypatch):  # noqa: F811
    policy = policy_with_mark(tmp_path)
    push(policy, 1, 2)
    calls = fail_at(0, Killed)
    push(policy, 3)
    total, step = calls[0], 3
    monkeypatch.undo()
    for number in range(1, total + 1):
        step += 1
        fail_at(number, Killed)
        with pytest.raises(Killed):
            push(policy, step)
        monkeypatch.undo()
        with open_ledger(policy.ledger_url, read_only=True) as book:
            held = book.last_step("mean")
        seen = max(int(line.split(b",")[0]) for line in (tmp_path / "mean.csv").read_bytes().splitlines()[1:])
        for place in ("mean.csv.mark", "elsewhere/town.mark"):
            mark = read_mark(str(tmp_path / place))
            assert seen <= mark.streams["mean"] <= held, (number, place)
        push(policy, step)  # an honest ledger goes on
    assert hl.verify(policy).good


def test_marks_are_written_after_the_commit_and_before_the_output(tmp_path, monkeypatch):
    policy, done = policy_with_mark(tmp_path), []
    push(policy, 1)
    for name in ("fsync", "replace", "write"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, call=call: (done.append((name, a)), call(*a))[1])
    push(policy, 2)
    row = next(i for i, (name, a) in enumerate(done) if name == "write" and bytes(a[1]).startswith(b"2,"))
    for place in ("mean.csv.mark", "elsewhere/town.mark"):
        renamed = next(i for i, (name, a) in enumerate(done) if name == "replace" and a[1] == str(tmp_path / place))
        assert renamed < row
        assert [done[renamed + k][0] for k in (-2, -1, 1)] == ["write", "fsync", "fsync"]


def test_what_has_not_changed_is_not_written_again(tmp_path, monkeypatch):
    policy = policy_with_mark(tmp_path)
    push(policy, 1)
    monkeypatch.setattr(os, "replace", lambda *a: pytest.fail("nothing has changed"))
    with hl.Stream(policy) as stream:
        stream.publish(1.0, at=1)


def test_a_push_writes_the_mark_of_its_own_stream_alone(tmp_path):
    """With a hundred streams a push must not cost a hundred files; the second place answers for all."""
    data = policy_dict() | SECOND
    data["streams"][0]["source"] = None
    data["streams"] += [data["streams"][0] | {"name": n, "output": o} for n, o in (("b", "b.csv"), ("c", "-"))]
    policy = hl.Policy.from_dict(data, tmp_path)
    for name, step in (("mean", 1), ("b", 1), ("mean", 2)):
        with hl.Stream(policy, name) as stream:
            stream.publish(1.0, at=step)
    assert read_mark(str(tmp_path / "b.csv.mark")).streams == {"mean": 1, "b": 1, "c": 0}
    assert read_mark(str(tmp_path / "mean.csv.mark")).streams["mean"] == 2
    assert read_mark(str(tmp_path / "elsewhere" / "town.mark")).entries == 3
    with hl.Stream(policy, "c") as stream:
        stream.publish(1.0, at=1)  # it has no file: the marks of the others count it
    assert read_mark(str(tmp_path / "b.csv.mark")).streams["c"] == 1


@pytest.mark.parametrize("place", ["town.ledger", "town.ledger.shown", "mean.csv", "mean.csv.mark", "."])
def test_a_mark_in_a_file_that_is_written_otherwise_is_refused(tmp_path, place):
    with pytest.raises(HalflifeError, match="mark: "):
        hl.Policy.from_dict(policy_dict() | {"mark": place}, tmp_path)


def test_a_source_that_takes_in_a_mark_is_refused(tmp_path):
    data = policy_dict()
    data["streams"][0]["source"]["files"] = "*.mark"
    with pytest.raises(HalflifeError, match="what was published would be read as readings"):
        hl.Policy.from_dict(data, tmp_path)


def test_status_and_verify_say_where_marks_are(tmp_path):
    from click.testing import CliRunner

    from halflife.cli import main

    policy = policy_with_mark(tmp_path)
    push(policy, 1)
    files = (str(tmp_path / "mean.csv.mark"), str(tmp_path / "elsewhere" / "town.mark"))
    assert hl.status(policy).marks == hl.verify(policy).marks == files
    path = str(tmp_path / "policy.yaml")
    assert f"marks outside the ledger agree: {', '.join(files)}" in CliRunner().invoke(main, ["verify", path]).output
    assert "the ledger holds all that they say" in CliRunner().invoke(main, ["status", path]).output


def test_the_place_of_the_mark_may_change_freely(tmp_path):
    push(policy_with_mark(tmp_path), 1)
    data = json.loads(Path(tmp_path / "policy.yaml").read_text()) | {"mark": "other.mark"}
    push(hl.Policy.from_dict(data, tmp_path), 2)
    assert read_mark(str(tmp_path / "other.mark")).entries == 2
