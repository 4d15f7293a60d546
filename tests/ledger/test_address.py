"""Where ledgers are: addresses that are understood and refused, missing files, and systems without file locks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import halflife as hl
from halflife import InvalidInput, LedgerError, MissingExtra
from halflife.ledger import ledger_exists, open_ledger
from halflife.ledger.address import ledger_file
from halflife.ledger.postgresql.url import read_server
from halflife.policy import PolicyError
from publisher.town import make, policy_dict, write_readings


def test_one_ledger_by_path_text_and_address(tmp_path):
    file = tmp_path / "a.ledger"
    assert not ledger_exists(file)
    for url in (file, str(file), f"sqlite:///{file}"):
        with open_ledger(url) as book, book.hold():
            book.begin({"format": "x"})
        with open_ledger(url, read_only=True) as book:
            assert book.facts() == {"format": "x"}
            assert (book.name, book.scratch, book.operator_file) == (
                str(file), tmp_path, tmp_path / "a.ledger.operator.jsonl"
            )  # fmt: skip
        assert ledger_exists(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:hunter2@server/town", "this address holds a password: change that password.*PGPASSWORD"),
        ("postgresql://server/town?password=hunter2", "this address holds a password"),
        ("postgresql://server/town?sslpassword=hunter2", "this address holds a password"),
        ("postgresql://server/town?schemas=x", "unknown key of a ledger's address 'schemas': did you mean 'schema'"),
        ("postgresql://server/town?options=-cfsync", "unknown key of a ledger's address 'options'"),
        ("postgresql://server/town?schema=Town", "a ledger has a schema of its own, and its name is of small letters"),
        ("postgresql://server/town?schema=public", "a ledger has a schema of its own"),
        ("postgresql://server/town?schema=a&schema=b", "a key stands twice"),
        ("postgresql://server/town?lease=0.5", "lease is a number of seconds from 1 to 3600"),
        ("postgresql://server/town?lease=nan", "lease is a number of seconds"),
        ("postgresql://server/town/more", "no # or second / belongs in it"),
        ("postgresql://ser ver:x/town", "HOST or HOST:PORT"),
        ("postgresql://server/town?port=1,2", "other numbers of hosts and of ports"),
        ("postgresql://one,two/town?port=1,2,3", "other numbers of hosts and of ports"),
        ("postgresql://server/town?folder=%00x", "holds a NUL"),
        ("postgresql://server/to%00wn", "holds a NUL"),
        ("mysql://server/town", r"unknown kind of ledger 'mysql://': .*sqlite:///FILE"),
        ("sqlite://town.ledger", "unknown kind of ledger 'sqlite://'"),
        ("sqlite:///", "unknown kind of ledger"),
    ],
)
def test_other_addresses_are_refused_without_their_passwords(tmp_path, url, said):
    with pytest.raises(InvalidInput, match=said) as refused:
        open_ledger(url)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(PolicyError, match=r":\d+:\d+: ledger: "):
        make(tmp_path, ledger=url)


def test_a_missing_ledger_from_which_something_was_published_is_to_be_put_back(tmp_path):
    """Before: `verify` told its owner to publish first, though the guard beside it knew better."""
    write_readings(tmp_path)
    policy = make(tmp_path)
    hl.publish(policy)
    Path(policy.ledger_url).unlink()
    with pytest.raises(
        LedgerError, match=r"no such file, but 24 entries were published .*\.shown: put the newest copy back"
    ):
        hl.verify(policy.ledger_url)
    Path(f"{policy.ledger_url}.shown").unlink()
    with pytest.raises(LedgerError, match="no such file: publish first"):
        hl.verify(policy.ledger_url)


WITHOUT = """
import sys
sys.modules["fcntl"] = None
import halflife, halflife.ledger, halflife.cli, halflife.publisher, halflife.testing, halflife.audit
halflife.publish, halflife.verify, halflife.Stream
with halflife.ledger.open_ledger(sys.argv[1]) as book, book.hold():
    pass
"""


def test_without_file_locks_the_package_loads_and_a_ledger_is_refused(tmp_path):
    ended = subprocess.run([sys.executable, "-c", WITHOUT, tmp_path / "a"], capture_output=True, text=True, check=False)
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith(f"halflife.errors.LedgerError: {tmp_path / 'a'}: this system has no `flock`"), ended.stderr
    assert "Linux or macOS" in last
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("url", "options", "name"),
    [
        ("postgresql://db/town", {"host": "db", "dbname": "town"}, "postgresql://db/town?schema=halflife"),
        ("postgres://me@[::1]:5433/town?schema=a", {"user": "me", "host": "::1", "port": "5433", "dbname": "town"},
         "postgresql://[::1]:5433/town?schema=a"),
        ("postgresql://a:1,b:2/t?sslmode=verify-full&sslrootcert=/ca.pem",
         {"host": "a,b", "port": "1,2", "dbname": "t", "sslmode": "verify-full", "sslrootcert": "/ca.pem"},
         "postgresql://a:1,b:2/t?schema=halflife"),
        ("postgresql:///?service=meters&schema=a", {"service": "meters"}, "postgresql:///?service=meters&schema=a"),
        ("postgresql://%2Frun%2Fpg/t", {"host": "/run/pg", "dbname": "t"}, "postgresql://%2Frun%2Fpg/t?schema=halflife"),
    ],
)  # fmt: skip
def test_addresses_of_servers_say_what_libpq_is_told(url, options, name):
    server = read_server(url)
    assert dict(server.options) == options
    assert server.name == name
    assert read_server(server.url()) == server
    assert read_server(server._replace(folder=Path("/a b/&c"), lease=2.5).url()).folder == Path("/a b/&c")


def test_a_policy_resolves_the_folder_of_its_server(tmp_path):
    policy = make(tmp_path, ledger="postgresql://db/town?schema=meters")
    assert read_server(policy.ledger_url).folder == tmp_path / "meters.postgresql"
    for key, value, said in (
        ("mark", "meters.postgresql/ledger.shown", "is a file of the ledger already"),
        ("noise_key", "file:meters.postgresql/ledger.operator.jsonl", "a file that is published, or one of the ledger"),
    ):
        (tmp_path / "policy.yaml").write_text(json.dumps({**policy_dict(ledger=policy.ledger), key: value}))
        with pytest.raises(PolicyError, match=said):
            hl.Policy.load(tmp_path / "policy.yaml")


def test_without_its_driver_a_server_is_refused_with_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for use in (open_ledger, ledger_exists):
        with pytest.raises(
            MissingExtra, match=r"needs psycopg, which is not installed: pip install 'halflife\[postgresql\]'"
        ):
            use("postgresql://127.0.0.1/town")


@pytest.mark.parametrize("address", ["postgresql:/me:secret@db/town", "postgres:me:secret@db/town"])
def test_an_address_that_lacks_a_slash_is_no_file_and_is_not_shown(address):
    """Taken for a path it would have put a password into the names of files."""
    with pytest.raises(InvalidInput, match="lacks a slash") as told:
        ledger_file(address)
    assert "secret" not in str(told.value)
