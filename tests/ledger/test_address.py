"""Where ledgers are: addresses that are understood and refused, missing files, and systems without file locks."""

import subprocess
import sys
from pathlib import Path

import pytest

import halflife as hl
from halflife import InvalidInput, LedgerError
from halflife.ledger import ledger_exists, open_ledger
from halflife.policy import PolicyError
from publisher.town import make, write_readings


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
        (
            "postgresql://me:hunter2@server/town",
            "^postgresql://server: no ledger on a PostgreSQL server is supported yet",
        ),
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
