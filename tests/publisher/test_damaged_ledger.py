"""Whatever lies where the ledger should be: publish and verify end with a sentence, and nothing that was there is lost."""

import os
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife import HalflifeError
from halflife.cli import main
from publisher.town import make

PAGE = 4096


def push(policy, *steps):
    with hl.Stream(policy) as stream:
        return [stream.publish(1.0, at=step).value for step in steps]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder that was published, and the log of a process that was killed in it."""
    folder = tmp_path_factory.mktemp("world")
    policy = make(folder, stream={"source": None})
    with hl.Stream(policy) as stream:
        for step in range(1, 13):
            stream.publish(1.0, at=step)
        (folder / "log").write_bytes((folder / "town.ledger-wal").read_bytes())
        (folder / "index").write_bytes((folder / "town.ledger-shm").read_bytes())
    assert {f.name for f in folder.iterdir()} >= {"town.ledger", "town.ledger.shown", "mean.csv"}
    return folder


@pytest.fixture
def town(world, tmp_path):
    shutil.copytree(world, tmp_path / "town")
    return hl.Policy.load(tmp_path / "town" / "policy.yaml")


def entries(path):
    with tempfile.TemporaryDirectory() as folder:
        for ending in ("", "-wal"):
            if Path(f"{path}{ending}").is_file():
                shutil.copy(f"{path}{ending}", f"{folder}/x{ending}")
        with closing(sqlite3.connect(f"{folder}/x")) as db:
            return db.execute("SELECT stream, step, noisy FROM entry ORDER BY id").fetchall()


def outcome(policy):
    """How publish ended: "refused", or "went on"; every other error is raised. The command agrees on that."""
    try:
        push(policy, 13)
        ended = "went on"
    except HalflifeError as error:
        ended = "refused" if str(error).strip() else "refused without a word"
    said = CliRunner().invoke(main, ["verify", str(policy.path("policy.yaml"))])
    assert said.exit_code in (0, 1)
    assert isinstance(said.exception, SystemExit | None), repr(said.exception)
    assert said.output.strip()
    return ended, said.exit_code


# Other things in its place ------------------------------------------------------------------------------------------

THINGS = {
    "nothing": lambda path: None,
    "an empty file": lambda path: path.touch(),
    "a text": lambda path: path.write_text("not a database, though it is long enough to be taken for one" * 20),
    "a short text": lambda path: path.write_text("x"),
    "zeros": lambda path: path.write_bytes(bytes(5 * PAGE)),
    "a folder": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a full device": lambda path: path.symlink_to("/dev/full"),
    "a link to itself": lambda path: path.symlink_to(path),
    "a link into nowhere": lambda path: path.symlink_to(path.parent / "no" / "such" / "file"),
    "another database": lambda path: sqlite3.connect(path).execute("CREATE TABLE mine (x)").connection.close(),
}


@pytest.mark.parametrize("thing", THINGS)
def test_what_is_no_ledger_is_refused(town, thing):
    Path(town.ledger_url).unlink()
    THINGS[thing](Path(town.ledger_url))
    seen = town.path("mean.csv").read_bytes()
    assert outcome(town) == ("refused", 1)
    assert town.path("mean.csv").read_bytes() == seen


@pytest.mark.diagonal
@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal", ".lock", ".shown.new"])
@pytest.mark.parametrize("thing", ["an empty file", "a text", "zeros", "a folder", "a link to itself"])
def test_strange_files_beside_it_lose_nothing(town, ending, thing):
    before = entries(Path(town.ledger_url))
    beside = Path(f"{town.ledger_url}{ending}")
    beside.unlink(missing_ok=True)
    THINGS[thing](beside)
    outcome(town)
    if (ending, thing) != ("-wal", "a folder"):
        assert entries(Path(town.ledger_url))[: len(before)] == before


# Damaged bytes ------------------------------------------------------------------------------------------------------


def damage(path, draw):
    """One damage that a disk or a copy may do."""
    whole = bytearray(path.read_bytes())
    pages = len(whole) // PAGE
    a, b = (PAGE * draw.randrange(pages) for _ in range(2))
    at, length = draw.randrange(len(whole)), draw.choice((1, 2, 16, 300))
    kind = draw.randrange(7)
    if kind == 0:
        whole[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        whole[at : at + length] = bytes(len(whole[at : at + length]))
    elif kind == 2:
        del whole[at:]
    elif kind == 3:
        whole[a : a + PAGE], whole[b : b + PAGE] = whole[b : b + PAGE], whole[a : a + PAGE]
    elif kind == 4:
        whole[a : a + PAGE] = draw.randbytes(PAGE)
    elif kind == 5:
        whole[at:at] = draw.randbytes(length)
    else:
        whole[a : a + 12] = draw.randbytes(12)
    path.write_bytes(whole)


def test_damaged_bytes_end_in_a_sentence_and_redraw_nothing(world, tmp_path):
    """Before: a traceback in 15 of 90."""
    draw, seen = random.Random(5), {}
    known = entries(world / "town.ledger")
    for case in range(90):
        folder = tmp_path / "town"
        shutil.copytree(world, folder)
        policy = hl.Policy.load(folder / "policy.yaml")
        if case % 5 == 4:  # of the log of a process that was killed
            shutil.copy(folder / "log", f"{policy.ledger_url}-wal")
            damage(Path(f"{policy.ledger_url}-wal"), draw)
        else:
            damage(Path(policy.ledger_url), draw)
        ended = outcome(policy)
        seen[ended] = seen.get(ended, 0) + 1
        if ended[0] == "went on":
            now = entries(Path(policy.ledger_url))
            assert [row[:2] for row in now[:12]] == [row[:2] for row in known]
            assert ended[1] == 1 or now[:12] == known, "what verify agrees with is what was written"
        shutil.rmtree(folder)
    assert seen[("refused", 1)] > 20, seen


# Where nothing can be written ---------------------------------------------------------------------------------------


@contextmanager
def somebody():
    """Not the super-user, whom nothing is forbidden."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def read_only(town):
    """The same in a folder that may be read and not written, as on a read-only mount."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "town"
        shutil.copytree(Path(town.ledger_url).parent, folder)
        owner = 65534 if os.geteuid() == 0 else -1
        for path in (*folder.rglob("*"), folder, Path(name)):
            os.chown(path, owner, -1)
        yield folder
        folder.chmod(0o700)


def forbid(folder):
    for file in folder.iterdir():
        file.chmod(0o400)
    folder.chmod(0o500)


def test_verify_reads_where_nothing_can_be_written(read_only):
    """Before: 'unable to open database file', as SQLite makes a file beside the ledger."""
    forbid(read_only)
    ledger, output = read_only / "town.ledger", str(read_only / "mean.csv")
    with somebody():
        assert hl.verify(ledger, {"mean": output}).problems == ()
        assert not list(read_only.glob("town.ledger-*"))
        with pytest.raises(HalflifeError):
            push(hl.Policy.load(read_only / "policy.yaml"), 13)


@pytest.mark.parametrize("index", [True, False], ids=["with its index", "without"])
def test_a_log_is_read_or_what_to_do_is_said_where_nothing_can_be_written(read_only, index):
    """The log holds what the ledger alone does not: to leave it out would be to see an older ledger."""
    ledger = read_only / "town.ledger"
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro&immutable=1", uri=True)) as db:
        assert db.execute("SELECT count(*) FROM entry").fetchone() == (12,)
    with hl.Stream(hl.Policy.load(read_only / "policy.yaml")) as stream:
        stream.publish(1.0, at=13)
        for ending in ("-wal", "-shm"):
            shutil.copy(f"{ledger}{ending}", read_only / f"kept{ending}")
        shutil.copy(ledger, read_only / "kept")
    for ending in ("", "-wal", "-shm") if index else ("", "-wal"):
        shutil.copy(read_only / f"kept{ending}", f"{ledger}{ending}")
    for file in read_only.iterdir():
        os.chown(file, 65534 if os.geteuid() == 0 else -1, -1)
    forbid(read_only)
    with somebody():
        if index:
            assert hl.verify(ledger).steps == {"mean": 13}
        else:
            with pytest.raises(HalflifeError, match=r"copy the ledger, its -wal and its \.shown"):
                hl.verify(ledger)


def test_a_ledger_that_is_written_to_while_it_is_read_without_a_log_is_read_again(read_only):
    forbid(read_only)
    ledger = read_only / "town.ledger"

    def write(what, done, total):
        os.utime(ledger, ns=(1, 1))

    with somebody():
        (problem,) = hl.verify(ledger, progress=write).problems
    assert "was written to while it was read: run again" in problem
