"""Noise that a ledger keeps is sealed: nothing of it in the files, nothing published without the key, all verified without it."""

from __future__ import annotations

import base64
import datetime
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import types
from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main
from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import open_ledger
from halflife.ledger.entry import first_link
from halflife.ledger.sqlite import SqliteLedger
from halflife.mechanisms import ReleaseDraw
from halflife.publisher import preview, status
from halflife.publisher.secrets_at_rest import NoiseKey, NoiseKeys, make_key_file, open_sealed, seal
from halflife.publisher.secrets_at_rest.kept import destroy_kept, open_kept, read_kept, seal_kept
from halflife.publisher.secrets_at_rest.places import KEY, KEY_FILE, add_key
from halflife.publisher.secrets_at_rest.rotation import find_noise_key, rotate_noise_key
from publisher.town import kept_noise, policy_dict, write_readings

GOLDEN = Path(__file__).parents[1] / "golden" / "0.2.0"
DAY = 24


def at(hour):
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)).timestamp


def town(folder, days=3, streams=1, **more):
    """A town under a strong promise with a daily pattern."""
    folder.mkdir(exist_ok=True)
    write_readings(folder)
    data = policy_dict() | more
    data["promise"] = {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True}
    data["clock"]["end"] = str(datetime.date(2026, 1, 1) + datetime.timedelta(days=days))
    for k in range(1, streams):
        data["streams"].append(data["streams"][0] | {"name": f"s{k}", "output": f"s{k}.csv"})
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """An empty key ring of this test alone."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "halflife" / "keys"


def raw_bytes(policy):
    """What the ledger's files hold, and a copy by SQLite, which sees a write-ahead log too. Nobody has the ledger open."""
    file = Path(policy.ledger_url)
    with closing(sqlite3.connect(file)) as db, closing(sqlite3.connect(file.with_suffix(".copy"))) as copy:
        db.backup(copy)
    return b"".join(path.read_bytes() for path in file.parent.iterdir() if path.name.startswith("town."))


def test_what_is_kept_is_in_no_file_and_verifies_without_a_key(tmp_path, ring, caplog):
    policy = town(tmp_path / "a")
    hl.publish(policy, clock=at(30))
    units = [str(n).encode() for numbers in kept_noise(policy).values() for n in numbers]
    assert len(units) == DAY
    (key,) = ring.iterdir()
    text = key.read_text().splitlines()[1]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.stat().st_mode) == 0o700
    assert caplog.text.count("This is said once") == 1
    assert str(key) in caplog.text
    seen = raw_bytes(policy) + b"".join(p.read_bytes() for p in (tmp_path / "a").iterdir()) + caplog.text.encode()
    assert text.encode() not in seen
    assert base64.b64decode(text) not in seen
    assert not any(n in raw_bytes(policy) for n in units if len(n) > 6)
    shutil.move(ring, tmp_path / "away")
    assert hl.verify(policy).problems == ()
    assert status(policy).used > 0
    assert preview(policy, clock=at(40)).streams[0].due == 10
    with pytest.raises(LedgerError, match=rf"sealed with the key {key.stem}, which is not at hand.*no such file"):
        hl.publish(policy, clock=at(40))
    with pytest.raises(LedgerError, match=key.stem), hl.Stream(policy, clock=at(40)) as stream:
        stream.publish(1.0)
    shutil.move(tmp_path / "away", ring)
    hl.publish(policy, clock=at(40))
    assert caplog.text.count("This is said once") == 1
    assert hl.verify(policy).problems == ()


def test_sealed_text_opens_only_where_it_was_sealed():
    key, noise = NoiseKey.make(), {"p": {"grid": 0.5, "units": [7, -3], "scale": 2.0, "lattice": 1.0}}
    kept = read_kept({"mechanism": None, "destroyed": [], **seal_kept(key, b"ledger", "a", noise, {"n": 1})})
    assert "units" not in kept.noise["p"]
    assert open_kept(key, b"ledger", "a", kept).noise["p"]["units"] == [7, -3]
    assert open_kept(key, b"ledger", "a", kept).mechanism == {"n": 1}
    changed = base64.b64encode(bytes([base64.b64decode(kept.text)[0] ^ 1]) + base64.b64decode(kept.text)[1:]).decode()
    facts = {"p": kept.noise["p"] | {"scale": 2.1}}
    for other, ledger, stream, what in (
        (NoiseKey.make(), b"ledger", "a", kept),
        (key, b"another", "a", kept),
        (key, b"ledger", "b", kept),
        (key, b"ledger", "a", kept._replace(noise=facts)),
        (key, b"ledger", "a", kept._replace(noise={"q": kept.noise["p"]})),
        (key, b"ledger", "a", kept._replace(text=changed)),
        (key, b"ledger", "a", kept._replace(text="")),
    ):
        with pytest.raises(LedgerError, match="was changed, or moved here") as error:
            open_kept(other, ledger, stream, what)
        assert error.value.__cause__ is None
        assert error.value.__context__ is None
    assert seal(key, b"x", b"") != seal(key, b"x", b""), "a fresh nonce each time"


def test_the_length_of_sealed_text_does_not_tell_how_large_noise_is():
    """Without padding the second would be 15 characters longer, so a stolen ledger would tell the size of its noise."""
    key = NoiseKey.make()
    lengths = {
        len(seal_kept(key, b"", "a", {"p": {"grid": 0.5, "units": [n], "scale": 1e16}}, None)["sealed"]["text"])
        for n in (0, 10**15, -(10**15), -(10**18))
    }
    assert len(lengths) == 1


def test_a_ledger_with_a_changed_or_moved_text_publishes_nothing(tmp_path, ring):
    """Whoever can write the ledger, and knows how it is hashed, still cannot put in noise of their own."""
    policy = town(tmp_path / "a", streams=2)
    hl.publish(policy, clock=at(30))
    with open_ledger(policy.ledger_url) as book, book.hold():
        book.begin(book.begun())
        states, last = book.states(), book.newest().at_us
        mine, other = (json.loads(states[f"stream:{name}"]) for name in ("mean", "s1"))
        mine["sealed"] = other["sealed"]
        book.commit([], {"stream:mean": json.dumps(mine)}, last, json.dumps({"kind": "forged"}))
        book.mark_shown()
    with pytest.raises(LedgerError, match=r"stream mean: what is sealed .* was changed, or moved here") as error:
        hl.publish(policy, clock=at(31))
    assert mine["sealed"]["text"] not in str(error.value)


def test_where_keys_are_looked_for_and_in_which_order(tmp_path, ring, monkeypatch):
    files = [tmp_path / f"{k}.key" for k in range(4)]
    made = [make_key_file(file) for file in files]
    policy = town(tmp_path / "a", noise_key=f"file:{files[2]}")
    keys = NoiseKeys(policy)
    assert keys.newest().id == made[2].id
    monkeypatch.setenv(KEY_FILE, str(files[1]))
    assert keys.newest().id == made[1].id
    monkeypatch.setenv(KEY, made[0].write())
    assert keys.newest().id == made[0].id
    assert keys.find(made[2].id)[1] == str(files[2]), "by the fingerprint, wherever it is"
    with pytest.raises(LedgerError, match="holds another key") as error:
        keys.find(made[3].id)
    assert not any(key.write() in str(error.value) for key in made)
    hl.publish(policy, clock=at(30))
    assert find_noise_key(policy) == (made[0].id, f"{KEY} in the environment", None)
    assert not ring.exists(), "nothing is made where a key is named"
    monkeypatch.delenv(KEY)
    monkeypatch.delenv(KEY_FILE)
    with pytest.raises(LedgerError, match=made[0].id):
        hl.publish(policy, clock=at(31))
    monkeypatch.setenv("TOWN_KEY", f"{made[3].write()}, {base64.b64decode(made[0].write()).hex()}")
    hl.publish(town(tmp_path / "a", noise_key="env:TOWN_KEY"), clock=at(31))
    fake = types.SimpleNamespace(
        get_password=lambda service, user: {("town", "noise/1"): made[0].write()}.get((service, user))
    )
    monkeypatch.setitem(sys.modules, "keyring", fake)
    hl.publish(town(tmp_path / "a", noise_key="keyring:town/noise/1"), clock=at(32))
    with pytest.raises(LedgerError, match="the keyring has nothing of town/other"):
        hl.publish(town(tmp_path / "a", noise_key="keyring:town/other"), clock=at(33))


@pytest.mark.parametrize("bad", ["AAAA", "open sesame", "é" * 32, "00" * 31])
def test_a_bad_key_is_refused_and_not_quoted(tmp_path, ring, monkeypatch, bad):
    policy = town(tmp_path / "a")
    monkeypatch.setenv(KEY, bad)
    with pytest.raises(LedgerError, match="word 1 is no key") as error:
        hl.publish(policy, clock=at(30))
    assert bad not in str(error.value)
    assert hl.verify(policy).step == 0, "nothing was published"


def test_a_key_that_everybody_reads_or_that_is_not_there_is_refused(tmp_path, ring):
    file = tmp_path / "a.key"
    policy = town(tmp_path / "a", noise_key=f"file:{file}")
    with pytest.raises(LedgerError, match=r"no such file.*halflife key create"):
        hl.publish(policy, clock=at(30))
    make_key_file(file)
    file.chmod(0o644)
    with pytest.raises(LedgerError, match="everybody on this machine can read this key"):
        hl.publish(policy, clock=at(30))
    with pytest.raises(InvalidInput, match="there already"):
        make_key_file(file)


def test_a_key_ring_that_cannot_be_made_is_refused_before_anything_is_read(tmp_path, monkeypatch):
    (tmp_path / "config").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    policy = town(tmp_path / "a")
    os.unlink(tmp_path / "a" / "readings.csv")
    with pytest.raises(LedgerError, match=rf"cannot be written: .*noise_key: file:…\) or in {KEY_FILE}"):
        hl.publish(policy, clock=at(30))


@pytest.mark.parametrize("prefix", ["", "file:", "env:", "keyring:"])
@pytest.mark.parametrize("write", [lambda k: k.write(), lambda k: base64.b64decode(k.write()).hex()])
def test_a_key_in_the_policy_itself_is_refused_and_not_quoted(tmp_path, prefix, write):
    key = NoiseKey(b"K" * 32)
    with pytest.raises(hl.HalflifeError, match="noise_key") as error:
        town(tmp_path / "a", noise_key=prefix + write(key))
    assert write(key)[:20] not in str(error.value)


@pytest.mark.parametrize(
    "place", ["town.key", {"file": "x"}, 3, "env:A B", "keyring:town", "file:mean.csv", "file:town.ledger"]
)
def test_a_place_that_is_none_is_refused(tmp_path, place):
    with pytest.raises(hl.HalflifeError, match=r"noise_key: (write where|this is a file)"):
        town(tmp_path / "a", noise_key=place)


def test_a_promise_that_keeps_nothing_has_no_use_for_a_key(tmp_path, ring):
    write_readings(tmp_path)
    with pytest.raises(hl.HalflifeError, match="noise_key: no noise is kept to be used again"):
        hl.Policy.from_dict(policy_dict() | {"noise_key": "env:TOWN_KEY"}, tmp_path)
    (tmp_path / "policy.yaml").write_text(json.dumps(policy_dict()))
    code = (
        "import sys, halflife as hl; hl.publish('policy.yaml');"
        "assert not [m for m in sys.modules if m.startswith(('cryptography', 'keyring'))]"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not ring.exists()


@pytest.mark.parametrize("killed", [False, True], ids=["whole", "killed"])
@pytest.mark.parametrize("name", ["almost-periodic-weak", "almost-periodic-renewed"])
def test_an_older_ledger_is_sealed_and_nothing_is_left_open(tmp_path, ring, name, killed, monkeypatch):
    shutil.copytree(GOLDEN / name, tmp_path / "a")
    policy = hl.Policy.load(tmp_path / "a" / "policy.yaml")
    (tmp_path / "a" / "states.json").unlink()
    before = json.loads((GOLDEN / name / "states.json").read_text())
    noise = {k: v for text in before.values() for k, v in (json.loads(text).get("noise") or {}).items()}
    units = [b"[%d]" % n["units"][0] for n in noise.values()]
    with closing(
        sqlite3.connect(policy.ledger_url)
    ) as db:  # an earlier run left a copy on free pages, and one in a log
        db.execute("PRAGMA secure_delete = OFF")
        copies = "SELECT 1 FROM entry, entry AS other LIMIT 40"  # more than the next run fills
        db.execute(f"CREATE TABLE old AS SELECT state.* FROM state, ({copies})")
        db.execute("DROP TABLE old")
        db.commit()
    assert sum(raw_bytes(policy).count(n) for n in units) > 3 * len(units)
    Path(policy.ledger_url).with_suffix(".copy").unlink()
    last = json.loads((GOLDEN / name / "expected.json").read_text())["step"]
    from golden.variants import clock_at

    erase = SqliteLedger.erase_deleted

    def die_once_it_is_sealed(book):
        if "sealed" in "".join(book.states().values()):
            raise SystemExit
        erase(book)

    monkeypatch.setattr(SqliteLedger, "erase_deleted", die_once_it_is_sealed if killed else erase)
    with pytest.raises(SystemExit) if killed else nullcontext():
        hl.publish(policy, clock=clock_at(json.loads((GOLDEN / name / "policy.yaml").read_text()), last + 1))
    assert not [n for n in units if n in raw_bytes(policy)]
    after = kept_noise(policy)
    assert {k: after[k] for k in noise if k in after} == {k: noise[k]["units"] for k in noise if k in after}
    assert killed or hl.verify(policy).problems == ()


def test_noise_of_a_stream_that_is_over_is_destroyed(tmp_path, ring):
    policy = town(tmp_path / "a", streams=2)
    data = json.loads((tmp_path / "a" / "policy.yaml").read_text())
    data["streams"][1]["end"] = "2026-01-02"
    (tmp_path / "a" / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "a" / "policy.yaml")
    hl.publish(policy, clock=at(DAY - 1))
    assert sum(name.startswith("s1: ") for name in kept_noise(policy)) == DAY - 1
    with open_ledger(policy.ledger_url, read_only=True) as book:
        sealed = json.loads(book.states()["stream:s1"])["sealed"]["text"]
        by_hand = json.loads(destroy_kept(book.states()["stream:s1"]))
    assert sealed.encode()[:2000] in raw_bytes(policy)
    Path(policy.ledger_url).with_suffix(".copy").unlink()
    hl.publish(policy, clock=at(2 * DAY))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        state = json.loads(book.states()["stream:s1"])
    assert state == {"version": 2, "smoothers": [], "destroyed": sorted(f"s1: phase {k}" for k in range(DAY))}
    assert by_hand == state | {"destroyed": sorted(f"s1: phase {k}" for k in range(DAY - 1))}
    assert all(name.startswith("mean: ") for name in kept_noise(policy))
    assert sealed.encode()[:200] not in raw_bytes(policy)
    assert hl.verify(policy).problems == ()
    hl.publish(policy, clock=at(3 * DAY))
    shutil.rmtree(ring)
    assert kept_noise(policy) == {}, "all is over, so no key is needed"
    assert hl.verify(policy).problems == ()
    assert hl.publish(policy, clock=at(3 * DAY + 1)).published == {"mean": 0, "s1": 0}


def test_noise_that_is_not_at_hand_is_never_drawn_anew(tmp_path):
    account = hl.Accountant(hl.AlmostPeriodic(1.0, 2))
    draw = ReleaseDraw(account)
    with draw.step(1) as d:
        d("a", 1.0, scale=4.0, lattice=1.0)
    facts = draw.state()["a"]
    del facts["units"]
    again = ReleaseDraw(account.copy())
    again.restore({"a": facts | {"size": 1}})
    with pytest.raises(InvalidInput, match="numbers are not at hand"), again.step(3) as d:
        20 + d("a", 1.0, scale=4.0, lattice=1.0)
    with pytest.raises(InvalidInput, match="numbers are not at hand"):
        again.state()
    with pytest.raises(InvalidInput, match="not as it was written"):
        again.restore({"b": facts | {"size": 0}})


@pytest.mark.parametrize("where", ["ring", "file"])
def test_a_key_is_rotated_and_the_chain_says_so(tmp_path, ring, where):
    file = tmp_path / "town.key"
    more = {} if where == "ring" else {"noise_key": f"file:{file}"}
    old = None if where == "ring" else make_key_file(file)
    policy = town(tmp_path / "a", streams=2, **more)
    hl.publish(policy, clock=at(30))
    before, noise = find_noise_key(policy).id, kept_noise(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        sealed = json.loads(book.states()["stream:mean"])["sealed"]["text"]
    done = rotate_noise_key(policy, clock=at(30.5))
    assert done.before == before != done.now == find_noise_key(policy).id
    assert old is None or old.id == before
    assert kept_noise(policy) == noise, "the same noise"
    assert sealed.encode()[:200] not in raw_bytes(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        assert json.loads(book.newest().event) == {"kind": "noise key", "from": before, "to": done.now}
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    hl.publish(policy, clock=at(40))
    assert hl.verify(policy).problems == ()
    assert find_noise_key(policy).id == done.now
    if where == "ring":
        assert {f.stem for f in ring.iterdir()} == {before, done.now}, "the old key is left"
        (ring / f"{done.now}.key").unlink()
    else:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.write_text(old.write())
    with pytest.raises(LedgerError, match=done.now):
        hl.publish(policy, clock=at(41))


def test_a_key_in_the_environment_is_rotated_by_putting_one_before_it(tmp_path, ring, monkeypatch):
    old, new = NoiseKey.make(), NoiseKey.make()
    monkeypatch.setenv(KEY, old.write())
    policy = town(tmp_path / "a")
    hl.publish(policy, clock=at(30))
    with pytest.raises(InvalidInput, match="put a new one before it"):
        rotate_noise_key(policy, clock=at(30))
    monkeypatch.setenv(KEY, f"{new.write()} {old.write()}")
    hl.publish(policy, clock=at(31))
    assert find_noise_key(policy).id == old.id, "a new key changes nothing by itself"
    assert rotate_noise_key(policy, clock=at(31)).now == new.id
    monkeypatch.setenv(KEY, new.write())
    hl.publish(policy, clock=at(32))


def test_a_rotation_that_is_broken_off_leaves_the_ledger_open_to_both_keys(tmp_path, ring, monkeypatch):
    file = tmp_path / "town.key"
    old = make_key_file(file)
    policy = town(tmp_path / "a", noise_key=f"file:{file}")
    hl.publish(policy, clock=at(30))
    add_key(file, NoiseKey.make())  # killed before it was committed
    (tmp_path / "town.key.new").write_text("half a k")
    hl.publish(policy, clock=at(31))
    assert find_noise_key(policy).id == old.id
    assert rotate_noise_key(policy, clock=at(31)).before == old.id
    assert rotate_noise_key(policy, clock=at(31)).before != old.id
    hl.publish(policy, clock=at(32))
    assert hl.verify(policy).problems == ()


def test_commands_never_print_a_key(tmp_path, ring):
    policy = town(tmp_path / "a", noise_key=f"file:{tmp_path / 'town.key'}")
    run = CliRunner()
    steps = (
        ["create", str(tmp_path / "town.key")],
        ["show", str(tmp_path / "a" / "policy.yaml")],
        ["rotate", str(tmp_path / "a" / "policy.yaml")],
    )
    said = [run.invoke(main, ["key", *steps[0]])]
    hl.publish(policy, clock=at(30))
    said += [run.invoke(main, ["key", *step]) for step in steps[1:]]
    said.append(run.invoke(main, ["key", *steps[1]]))
    assert [one.exit_code for one in said] == [0, 0, 0, 0], [one.output for one in said]
    keys = [line for line in (tmp_path / "town.key").read_text().splitlines() if not line.startswith("#")]
    assert len(keys) == 2
    assert not any(key in one.output for one in said for key in keys)
    (tmp_path / "town.key").unlink()
    assert run.invoke(main, ["key", *steps[1]]).exit_code == 1
    assert run.invoke(main, ["verify", steps[1][1]]).exit_code == 0


def test_a_sealed_text_is_bound_to_its_ledger(tmp_path, ring):
    """Two ledgers with one key: the first link of the chain tells them apart."""
    key = NoiseKey.make()
    facts = [{"population": name} for name in ("a", "b")]
    assert first_link(facts[0]) != first_link(facts[1])
    assert open_sealed(key, seal(key, b"x", first_link(facts[0])), first_link(facts[0])) == b"x"
    with pytest.raises(LedgerError):
        open_sealed(key, seal(key, b"x", first_link(facts[0])), first_link(facts[1]))
