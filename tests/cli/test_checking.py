"""`halflife check` as operators run it: what it prints, and that its status says nothing of the data."""

import json
import re

import pytest
from click.testing import CliRunner

from halflife.cli import main
from publisher.town import make, readings, write_readings


def halflife(*arguments):
    return CliRunner().invoke(main, [str(a) for a in arguments])


GOOD = readings()
BAD = {
    "good": GOOD,
    "no time": [(h, "13/01/2026 10:00", x) for h, _, x in GOOD],
    "no value": [(h, t, "?") for h, t, _ in GOOD],
    "watts": [(h, t, 1000 * x) for h, t, x in GOOD],
    "nobody": [("", t, x) for _, t, x in GOOD],
    "nothing": [],
    "far away": [(h, t.replace("2026", "1999"), x) for h, t, x in GOOD],
    "broken lines": [("a", "b", "c", "d"), ("x",)],
}


@pytest.mark.diagonal
@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("options", [(), ("--json",), ("--show",)], ids=["text", "json", "show"])
def test_the_status_says_nothing_of_the_data(tmp_path, what, options):
    write_readings(tmp_path, BAD[what])
    make(tmp_path, epsilon=300.0)
    assert halflife("check", tmp_path / "policy.yaml", *options).exit_code == 0
    if not options:
        wrong = halflife("check", tmp_path / "policy.yaml", "--private-verdict")
        assert wrong.exit_code == (0 if what == "good" else 1), wrong.output


def test_policies_files_and_columns_that_cannot_be_read_end_with_2(tmp_path):
    make(tmp_path)
    missing = halflife("check", tmp_path / "policy.yaml")
    assert missing.exit_code == 2
    assert "streams.0.source" in missing.output
    assert "no such file" in missing.output
    (tmp_path / "readings.csv").write_text("house,time,kwh\n")
    column = halflife("check", tmp_path / "policy.yaml", "--private-verdict")
    assert column.exit_code == 2
    assert "unknown column" in column.output
    (tmp_path / "policy.yaml").write_text("population: {}")
    assert halflife("check", tmp_path / "policy.yaml").exit_code == 2
    assert halflife("check", tmp_path / "none.yaml").exit_code == 2


def test_neither_a_reading_nor_a_person_is_printed(tmp_path):
    odd = [
        ("canary7391", "2026-01-01T05:30:00", 3141.59265),
        ("h1", "canarytime5512", 1.0),
        ("h1", GOOD[0][1], "canary8243"),
    ]
    write_readings(tmp_path, [*odd, *GOOD])
    make(tmp_path)
    for options in ((), ("--json",), ("--private-verdict",)):
        said = halflife("check", tmp_path / "policy.yaml", *options)
        assert not re.search(r"canary|7391|3141|5512|8243", said.stdout + said.stderr)
    shown = halflife("check", tmp_path / "policy.yaml", "--show")
    assert "canarytime5512" in shown.stdout
    assert "canary7391" not in shown.stdout


def test_what_it_prints_begins_and_ends_with_what_it_is(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    said = halflife("check", tmp_path / "policy.yaml")
    assert said.stdout.startswith("Private: for the operator alone.")
    assert "Looking is not free if it changes the policy" in said.stdout
    found = json.loads(halflife("check", tmp_path / "policy.yaml", "--json").stdout)
    assert found["private"].startswith("Private: for the operator alone.")
    assert next(iter(found)) == "private"
    assert found["streams"][0]["rows"]["all"] == len(GOOD)
    assert not list(tmp_path.glob("*.ledger*"))


@pytest.mark.parametrize("command", [("check",), ("process", "fit"), ("process", "check"), ("period",)])
def test_commands_that_look_at_readings_say_that_looking_is_not_free(command):
    words = " ".join(halflife(*command, "--help").output.split())
    assert "Looking is not free if it changes the policy" in words
