"""docs/threat-model.md: every file that a command writes is in its table, and no public one holds a planted person or value."""

from __future__ import annotations

import fnmatch
import json
import re
import stat
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from halflife.cli import main
from publisher.town import policy_dict, readings, write_readings

PAGE = Path(__file__).parents[1] / "docs" / "threat-model.md"
PERSON, VALUE, BAD = "canary7391", 2.6394718, "canaryvalue8243"
PLANTED = re.compile(rb"canary|2\.6394718|2\.63947(?!\d)")
"""As it is and rounded to six figures; a noisy value has more, and holds these by chance once in 10⁸."""
PRIVATE = ("backup/*", "*.ledger", "*.ledger-wal", "*.ledger-shm", "*.ledger.operator.jsonl")
COMMANDS = (
    ("init", "readings.csv", "--out", "first.yaml"),
    ("check", "policy.yaml"),
    ("plan", "policy.yaml", "--html", "plan.html"),
    ("publish", "policy.yaml", "--dry-run"),
    ("publish", "policy.yaml"),
    ("publish", "policy.yaml", "--private"),
    ("status", "policy.yaml"),
    ("status", "policy.yaml", "--json"),
    ("verify", "policy.yaml"),
    ("backup", "policy.yaml", "backup"),
    ("restore", "backup", "moved/policy.yaml", "--newest"),
    ("revise", "policy.yaml", "mean", "20"),
    ("amend", "policy.yaml", "--reason", "to see what it writes", "--dry-run"),
    ("report", "policy.yaml"),
    ("certificate", "policy.yaml", "--page", "certificate.html"),
    ("verify", "certificate.json", "--policy", "policy.yaml"),
    ("hindsight", "policy.yaml"),
    ("total", "mean.parquet"),
    ("audit", "policy.yaml", "--seconds", "1", "--runs", "2", "--processes", "1", "--html", "audit.html"),
)
PROMISES = {
    "w-event": {"notion": "w-event", "epsilon": 1.0, "w": 6, "reach": "800 days"},
    "almost-periodic": {"notion": "almost-periodic", "epsilon": 1.0, "period": 6, "strong": True},
}


REFUSED = {"w-event": ("amend",), "almost-periodic": ("amend", "revise")}
"""What is refused, in words that hold nothing private: nothing to amend, noise that is used again."""


def listed_files() -> list[str]:
    """The patterns of files in the page's table."""
    rows = PAGE.read_text().split("## Every file that halflife writes")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in rows.splitlines() if line.startswith("| ")]
    names = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    return [f"*.ledger{name}" if name.startswith("-") else name for name in names]


@pytest.fixture(scope="module", params=PROMISES)
def written(request, tmp_path_factory):
    """A folder after every command, and what each of them printed, for readings with a planted person, value and bad value."""
    folder = tmp_path_factory.mktemp("planted")
    rows = [(PERSON, f"2026-01-01T{k:02d}:10:00", VALUE) for k in range(24)]
    write_readings(folder, [*readings(), *rows, ("h1", "2026-01-01T05:40:00", BAD)])
    data = policy_dict(output="mean.parquet") | {"promise": PROMISES[request.param]}
    data["streams"][0]["share"] = 0.4
    data["streams"].append(data["streams"][0] | {"name": "text", "output": "text.csv"})
    data["mark"] = "elsewhere/town.mark"
    (folder / "policy.yaml").write_text(json.dumps(data))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        printed = {command: CliRunner().invoke(main, command) for command in COMMANDS}
    return folder, printed, request.param


def test_no_public_file_holds_a_planted_person_or_value(written):
    folder, printed, promise = written
    for command, done in printed.items():
        assert done.exit_code == (0 if command[0] not in REFUSED.get(promise, ()) else 1), (command, done.output)
        assert not PLANTED.search(done.output.encode()), command
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "readings.csv":
            assert not PLANTED.search(path.read_bytes()), path.name


def test_no_exact_total_is_kept(written):
    """Nowhere, not even in the ledger: neither as a double nor as text."""
    folder, *_ = written
    sums: dict[int, int] = {}
    for _, time, kwh in [*readings(), *((PERSON, f"2026-01-01T{k:02d}:10:00", VALUE) for k in range(24))]:
        hour = int(time[11:13])
        sums[hour] = sums.get(hour, 0) + round(1000 * kwh)
    means = [total / 1000 / 5 for total in sums.values()]
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "readings.csv":
            data = path.read_bytes()
            assert not any(struct.pack("<d", mean) in data for mean in means), path.name
            assert not any(repr(mean).encode() + b"," in data for mean in means), path.name


def test_every_file_is_in_the_table_and_private_ones_are_the_owners_alone(written):
    folder, *_ = written
    given = {"readings.csv", "policy.yaml", "moved/policy.yaml"}
    made = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} - given
    patterns = [*listed_files(), "first.yaml"]
    assert all(any(fnmatch.fnmatch(name, pattern) for pattern in patterns) for name in made), (made, patterns)
    assert {"town.ledger", "town.ledger.operator.jsonl", "certificate.json", "mean.parquet"} <= made
    assert {"text.csv.mark", "elsewhere/town.mark", "backup/manifest.json", "moved/town.ledger"} <= made
    for name in made:
        if any(fnmatch.fnmatch(name, pattern) for pattern in PRIVATE):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600, name


def test_the_search_would_find_what_was_planted(written):
    """Only the operator's file counts bad readings, and the readings themselves hold what was planted."""
    folder, *_ = written
    assert len(PLANTED.findall((folder / "readings.csv").read_bytes())) > 24
    assert "bad" in (folder / "town.ledger.operator.jsonl").read_text()
