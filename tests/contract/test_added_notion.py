"""A notion that is added by files of its own, as CONTRIBUTING says, works wherever notions do."""

from __future__ import annotations

import json
import re

import pytest

from source_copy import ROOT, SourceCopy

POLICY = """\
population: {id: town, size: 3, person: home}
promise: {notion: halving, epsilon: 1}
clock: {step: 1 h, start: 2026-01-01, end: 2026-01-01T06:00, late: as-planned}
streams:
  - name: use
    source: {files: readings.csv, time: ts, value: kwh}
    statistic: {kind: sum, unit: kWh, resolution: 1 Wh, clip: [0, 2 kWh], fold: sum}
    output: use.csv
"""


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.S)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return with_files(tmp_path_factory.mktemp("added"))


def with_files(folder) -> SourceCopy:
    """The source with the files of CONTRIBUTING added, and nothing else changed."""
    made = SourceCopy(folder)
    files = [(block.split("\n", 1)[0].removeprefix("# "), block) for block in blocks() if block.startswith("# src/")]
    assert [path.split("/")[2] for path, _ in files] == ["notions", "plans", "policy"]
    for path, block in files:
        made.write(path, block)
    return made


def test_the_suites_pass_as_pasted(copy):
    (last,) = [block for block in blocks() if not block.startswith("# src/")]
    done = copy.python(last)
    assert done.returncode == 0, done.stderr


def test_it_is_planned(copy):
    found = json.loads(copy.halflife("plan", "--notion", "halving", "--epsilon", "1", "--horizon", "4", "--json"))
    assert found["notion"] == {"name": "halving", "epsilon": 1.0}
    assert found["table"][-1]["risk"] == pytest.approx(1 - 2**-4)


def test_it_is_published_and_verified(copy, tmp_path):
    (tmp_path / "policy.yaml").write_text(POLICY)
    rows = (f"{home},2026-01-01T{hour:02}:30:00Z,{hour / 10}" for hour in range(6) for home in "abc")
    (tmp_path / "readings.csv").write_text("\n".join(["home,ts,kwh", *rows]) + "\n")
    copy.halflife("publish", "policy.yaml", cwd=tmp_path)
    assert len((tmp_path / "use.csv").read_text().splitlines()) == 1 + 6
    verdict = json.loads(copy.halflife("verify", "policy.yaml", "--json", cwd=tmp_path))
    assert verdict["problems"] == []
    assert verdict["risk"] == pytest.approx(1 - 2**-6)


def test_the_demo_and_the_schema_have_it(copy, tmp_path):
    said = copy.halflife("demo", "--households", "3", "--days", "1", "--out", tmp_path / "demo")
    assert "halving" in said
    assert (tmp_path / "demo" / "halving" / "policy.ledger").exists()
    schema = json.loads(copy.halflife("init", "--schema"))
    assert "halving" in schema["$defs"]["Promise"]["properties"]["notion"]["enum"]
    assert "halving" in schema["$defs"]["Promise"]["properties"]["epsilon"]["description"]


# The audit ----------------------------------------------------------------------------------------------------------

AUDIT = """
import sys
from click.testing import CliRunner
from halflife import noise
from halflife.cli import main

factor, runs = sys.argv[1:]
draw_many = noise.draw_many
noise.draw_many = lambda wanted: [noise.GridNoise(n.grid * float(factor), n.units) for n in draw_many(wanted)]
options = ["--seconds", "600", "--runs", runs, "--processes", "1", "--json"]
done = CliRunner().invoke(main, ["audit", "policy.yaml", *options])
print(done.stdout or done.output)
sys.exit(done.exit_code)
"""

HISTORY = """
import json
from halflife import Release
from halflife.audit import audit_history
from halflife.notions.halving import Halving

for loss in (0.5, 0.6):
    found = audit_history("", Halving(1.0), [Release(k, loss) for k in range(1, 50)], 1.0)
    print(json.dumps([found.how, found.found, found.accused]))
"""

DERIVED = """
from halflife.audit.registry import NotionAudit, register_audit

def largest(notion, releases):
    return max(sum(s.loss * 2.0 ** (s.step - r.step) for s in releases if s.step <= r.step) for r in releases)

register_audit("halving", audit=NotionAudit(worst_loss=largest))
"""


def audit(copy, folder, factor, runs):
    """The verdict of `halflife audit` on the policy, its noise made smaller by a factor, and the command's status."""
    (folder / "policy.yaml").write_text(POLICY)
    done = copy.python(AUDIT, factor, runs, cwd=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return json.loads(done.stdout), done.returncode


def test_it_is_audited_and_not_accused(copy, tmp_path):
    """Without a word about audits in its files: the account's own risk is what its plan is held to."""
    verdict, status = audit(copy, tmp_path, 1.0, runs=4)
    assert (verdict["good"], status) == (True, 0), [f for f in verdict["findings"] if f["accused"]]
    ways = {f["how"] for f in verdict["findings"]}
    assert ways == {"sensitivity", "account", "silence", "black box", "noise size", "observer"}
    (plan,) = [f for f in verdict["findings"] if f["how"] == "account"]
    assert plan["found"] == pytest.approx(1 - 2**-6)
    assert any("one step" in f["name"] and f["claimed"] == pytest.approx(1.0) for f in verdict["findings"])


def test_noise_that_is_too_small_is_accused(copy, tmp_path):
    verdict, status = audit(copy, tmp_path, 0.4, runs=60)
    assert (verdict["good"], status) == (False, 1)
    assert {f["how"] for f in verdict["findings"] if f["accused"]} >= {"noise size"}


@pytest.mark.parametrize("how", ["account", "exact"])
def test_a_history_is_held_to_the_account_or_to_a_second_derivation(copy, tmp_path, how):
    """Losses of 0.5 a step come to 1, and of 0.6 to 1.2; a file in `audit/notions/` brings the derivation."""
    if how == "exact":
        copy = with_files(tmp_path / "derived")
        copy.write("src/halflife/audit/notions/halving.py", DERIVED)
    done = copy.python(HISTORY)
    assert done.returncode == 0, done.stderr
    kept, broken = (json.loads(line) for line in done.stdout.splitlines())
    assert kept == [how, pytest.approx(1.0), False]
    assert broken == [how, pytest.approx(1.2), True]


def test_without_an_adapter_every_statistic_is_refused(copy, tmp_path):
    other = SourceCopy(tmp_path / "other")
    other.write("src/halflife/notions/halving.py", next(b for b in blocks() if b.startswith("# src/halflife/notions/")))
    other.write("src/halflife/plans/halving.py", next(b for b in blocks() if b.startswith("# src/halflife/plans/")))
    (tmp_path / "policy.yaml").write_text(POLICY)
    done = other.python("import halflife; halflife.Policy.load('policy.yaml')", cwd=tmp_path)
    assert "streams.0.statistic.kind: nobody has shown that this promise covers this combination" in done.stderr
