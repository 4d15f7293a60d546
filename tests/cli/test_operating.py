"""`halflife status` on a terminal, as JSON, and again and again."""

from __future__ import annotations

import datetime
import json

import pytest
from click.testing import CliRunner

import halflife as hl
from halflife.cli import main, operating
from publisher.town import make, policy_dict, write_readings


@pytest.fixture
def town(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    return tmp_path / "policy.yaml"


def run(*arguments):
    result = CliRunner().invoke(main, ["status", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_table_has_every_stream_with_its_numbers(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    data = policy_dict()
    del data["clock"]["end"]
    first = data["streams"][0]
    data["streams"] += [{**first, "name": name, "output": f"{name}.csv"} for name in ("other", "third")]
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    code, text = run(tmp_path / "policy.yaml", "--error", "6")
    assert code == 0
    for word in ("w-event (ε = 1, w = 6, δ = 0)", "mean", "other", "third", "nothing is published yet", "error above 6",
                 "room for 1", "95 % within ± 53.9 kWh", "Thu 1 Jan 2026, 01:00", "no end", "0 %: risk 0 of 1 nats"):  # fmt: skip
        assert word in text, word
    assert max(map(len, text.splitlines())) <= 80
    assert not (tmp_path / "town.ledger").exists()


def test_a_finished_policy_in_words(town):
    code, text = run(town)
    assert code == 0
    for word in (
        "100 %, as the plan intends: it never takes more: risk 1.00 of 1 nats",
        "24 steps, the newest committed",
        "finished",
        "step 24",
        "over:",
    ):
        assert word in text, word


def test_json_is_what_the_library_returns(town):
    code, text = run(town, "--json", "--error", "0.5")
    said, found = json.loads(text), hl.status(town, error=0.5).to_dict()
    assert code == 0
    for volatile in ("now",):
        said.pop(volatile), found.pop(volatile)
    for one in (said, found):
        one["streams"][0].pop("age")
    assert said == found


@pytest.mark.parametrize("as_json", [True, False])
def test_watching_goes_on_until_interrupted(town, monkeypatch, as_json):
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(operating.time, "sleep", sleep)
    code, text = run(town, "--watch", "2", *(["--json"] if as_json else []))
    assert (code, slept) == (0, [2.0, 2.0, 2.0])
    if as_json:
        assert [json.loads(line)["entries"] for line in text.splitlines()] == [24, 24, 24]
    else:
        assert text.count("newest step") == 3


def test_what_cannot_be_read_ends_with_status_1(town):
    (town.parent / "town.ledger").write_bytes(b"x" * 5000)
    code, text = run(town)
    assert code == 1
    assert "town.ledger" in text
    assert run(town.parent / "nowhere.yaml")[0] == 1
    assert run(town, "--watch", "0")[0] == 2


def test_an_error_of_the_last_run_cannot_send_codes_to_the_terminal(town):
    line = {
        "event": "run",
        "outcome": "failed",
        "began": None,
        "ended": None,
        "steps": {},
        "error": "\x1b[31m[bold]red",
    }
    with (town.parent / "town.ledger.operator.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    code, text = run(town)
    assert code == 0
    assert "\\u001b[31m[bold]red" in text
    assert "\x1b" not in text


def test_killed_and_running_publishers_are_told_apart():
    from halflife.cli.status_table import describe_run
    from halflife.publisher.operator_log import Run

    now = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
    begun = Run("begun", "2026-01-01T11:30:00+00:00", None, {}, None)
    assert (
        describe_run(begun, None, now)
        == "begun Thu 1 Jan 2026, 11:30 (30 min ago), and no end was written: it was killed"
    )
    assert describe_run(begun, "process 7 since …", now) == "publishing now (process 7 since …)"
    assert "you may not read it" in describe_run(None, None, now)


@pytest.mark.parametrize("good", [True, False])
def test_a_process_that_failed_its_check_is_named_wherever_its_risk_is(tmp_path, monkeypatch, good):
    """Everywhere that somebody reads how large the risk is: a failed process makes that number too small."""
    monkeypatch.setenv("COLUMNS", "200")
    write_readings(tmp_path)
    checked = {"good": good, "verdict": "It forgets too fast."}
    process = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]], "checked": checked}
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        json.dumps({**policy_dict(), "promise": {"notion": "age-dependent", "epsilon": 1, "process": process}})
    )
    said = {}
    for command in ("publish --dry-run", "publish", "status", "status --json", "verify", "check"):
        name, *options = command.split()
        result = CliRunner().invoke(main, [name, str(policy), *options])
        assert result.exit_code == 0, result.output
        said[command] = result.output
    page = tmp_path / "report.html"
    assert CliRunner().invoke(main, ["report", str(policy), "--out", str(page)]).exit_code == 0
    said["report"] = page.read_text()
    warned = {command for command, text in said.items() if "FAILED its check" in text or "its check FAILED" in text}
    assert warned == (set() if good else set(said))
    assert ("The promise is kept: risk" in said["publish"]) == good
    assert ('<h2 id="warned">Warning</h2>' in said["report"]) == (not good)


@pytest.mark.parametrize("command", ["status", "verify", "report", "check", "plan"])
def test_ctrl_c_has_a_status_of_its_own(town, monkeypatch, command):
    """Not 1, which says that something was refused or is wrong."""
    monkeypatch.setattr(hl.Policy, "load", classmethod(interrupt))
    result = CliRunner().invoke(main, [command, str(town)])
    assert (result.exit_code, result.output) == (130, "Stopped.\n")


def interrupt(*_):
    raise KeyboardInterrupt
