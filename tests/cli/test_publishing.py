"""`halflife init`, `publish` and `verify` as their users run them."""

import json
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from halflife.cli import main
from publisher.town import STEPS, make, readings, write_readings

BLANKS = {
    "size:": "size: 5",
    "epsilon:": "epsilon: 1",
    "w: 1 day": "w: 6",
    "step: 30 min": "step: 1 h",
    "start:": "start: 2026-01-01",
    "unit:": "unit: kWh",
    "resolution:": "resolution: 1 Wh",
    "clip:": "clip: [0, 5 kWh]",
}


def halflife(*arguments, **options):
    return CliRunner().invoke(main, [str(a) for a in arguments], **options)


def test_from_a_file_to_verified_statistics(tmp_path, monkeypatch):
    """What a new user does: init, fill in the blanks, publish, verify."""
    monkeypatch.chdir(tmp_path)
    write_readings(tmp_path)
    said = halflife("init", "readings.csv")
    assert said.exit_code == 0, said.output
    assert "Fill in the blanks" in said.output
    text = (tmp_path / "policy.yaml").read_text()
    blank = halflife("publish", "policy.yaml")
    assert blank.exit_code == 1
    for key in ("population.size", "promise.epsilon", "clock.start"):
        line = next(i for i, row in enumerate(text.splitlines(), 1) if row.strip().startswith(key.split(".")[1] + ":"))
        assert re.search(rf"policy\.yaml:{line}:\d+: {key}: ", blank.output), blank.output
    for before, after in BLANKS.items():
        text = re.sub(rf"(?m)^( +){re.escape(before)}(?= *#)", rf"\g<1>{after}", text, count=1)
    text = text.replace("# end: 2027-01-01", "end: 2026-01-02")
    (tmp_path / "policy.yaml").write_text(text)
    dry = halflife("publish", "policy.yaml", "--dry-run")
    assert dry.exit_code == 0, dry.output
    assert "one person's reading may be replaced by any other: at most 5000 units (1 unit = 1 Wh)" in dry.output
    assert not (tmp_path / "policy.ledger").exists()
    done = halflife("publish", "policy.yaml")
    assert done.exit_code == 0, done.output
    assert f"kwh: {STEPS} steps published; newest is step {STEPS}, up to 2026-01-02 00:00+00:00" in done.output
    checked = halflife("verify", "policy.yaml")
    assert checked.exit_code == 0, checked.output
    assert "Everything agrees." in checked.output
    assert "compared with" in checked.output


def test_init_lists_columns_writes_its_schema_and_says_where_it_cannot_write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_readings(tmp_path)
    said = halflife("init", "readings.csv")
    assert "Columns: home (VARCHAR), time (VARCHAR), kwh (VARCHAR)" in said.output
    assert json.loads((tmp_path / "policy.schema.json").read_text())["title"] == "halflife policy"
    (tmp_path / "policy.schema.json").write_text("mine")
    assert halflife("init", "readings.csv", "--out", "second.yaml").exit_code == 0
    assert (tmp_path / "policy.schema.json").read_text() == "mine"
    missing = halflife("init", "readings.csv", "--out", "nowhere/policy.yaml")
    assert (missing.exit_code, "there is no folder" in missing.output) == (1, True)


def test_init_does_not_look_at_values(tmp_path, monkeypatch):
    """Two files with the same header give the same policy, whatever is in them, and a file of nonsense does not matter."""
    monkeypatch.chdir(tmp_path)
    texts = []
    for rows in (readings(), [], [("\x00", "nonsense", "1e999")] * 3):
        write_readings(tmp_path, rows)
        (tmp_path / "policy.yaml").unlink(missing_ok=True)
        assert halflife("init", "readings.csv").exit_code == 0
        texts.append((tmp_path / "policy.yaml").read_text())
    assert texts[0] == texts[1] == texts[2]


def test_init_leaves_a_policy_alone_and_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_readings(tmp_path)
    (tmp_path / "policy.yaml").write_text("mine")
    said = halflife("init", "readings.csv")
    assert said.exit_code == 1
    assert "there already" in said.output
    assert (tmp_path / "policy.yaml").read_text() == "mine"
    assert "data file" in halflife("init").output
    assert "nowhere.csv" in halflife("init", "nowhere.csv", "--out", "b.yaml").output


def test_the_schema_is_json(tmp_path):
    schema = json.loads(halflife("init", "--schema").output)
    assert "half_life" in schema["$defs"]["Promise"]["properties"]
    assert schema["$defs"]["Part"]["additionalProperties"] is False if "Part" in schema["$defs"] else True


def test_verify_ends_with_status_1_and_names_what_is_wrong(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    assert halflife("publish", tmp_path / "policy.yaml").exit_code == 0
    output = tmp_path / "mean.csv"
    text = output.read_text()
    output.write_text(text.replace("2026-01-01T05:00:00", "2026-01-01T05:00:01", 1))
    said = halflife("verify", tmp_path / "policy.yaml")
    assert said.exit_code == 1
    assert "WRONG" in said.output
    assert "step 5" in said.output
    as_json = halflife("verify", tmp_path / "policy.yaml", "--json")
    assert as_json.exit_code == 1
    assert json.loads(as_json.output)["good"] is False
    named = halflife("verify", tmp_path / "town.ledger", "--output", f"mean={output}")
    assert named.exit_code == 1
    assert halflife("verify", tmp_path / "town.ledger").exit_code == 0
    assert "STREAM=FILE" in halflife("verify", tmp_path / "town.ledger", "--output", "mean.csv").output


def test_logs_are_json_lines_and_say_nothing_about_the_data(tmp_path):
    """Two towns whose readings differ in everything: their logs differ in nothing but the time."""
    logs = []
    for seed, name in ((1, "a"), (2, "b")):
        folder = tmp_path / name
        folder.mkdir()
        write_readings(folder, [*readings(seed=seed), *([("h1", "never", "bad")] * seed * 7)])
        make(folder)
        said = subprocess.run(
            [sys.executable, "-c", "from halflife.cli import main; main()", "publish", str(folder / "policy.yaml")],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert said.stdout == ""
        logs.append(re.sub(r'"time": "[^"]*"', "", said.stderr).replace(str(folder), ""))
        events = [json.loads(line)["event"] for line in said.stderr.splitlines() if line.startswith("{")]
        assert events == ["due", "published"]
    assert logs[0] == logs[1]


def test_stdout_holds_the_values_alone(tmp_path):
    write_readings(tmp_path)
    make(tmp_path, output="-")
    said = subprocess.run(
        [sys.executable, "-c", "from halflife.cli import main; main()", "publish", str(tmp_path / "policy.yaml")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in said.stdout.splitlines()]
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert list(rows[0]) == ["stream", "step", "start", "end", "value", "error_band"]


@pytest.mark.parametrize("command", ["init", "publish", "verify"])
def test_help_has_an_example(command):
    assert "Example:" in halflife(command, "--help").output
