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
    """The source with the files of CONTRIBUTING added, and nothing else changed."""
    made = SourceCopy(tmp_path_factory.mktemp("added"))
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


def test_without_an_adapter_every_statistic_is_refused(copy, tmp_path):
    other = SourceCopy(tmp_path / "other")
    other.write("src/halflife/notions/halving.py", next(b for b in blocks() if b.startswith("# src/halflife/notions/")))
    other.write("src/halflife/plans/halving.py", next(b for b in blocks() if b.startswith("# src/halflife/plans/")))
    (tmp_path / "policy.yaml").write_text(POLICY)
    done = other.python("import halflife; halflife.Policy.load('policy.yaml')", cwd=tmp_path)
    assert "streams.0.statistic.kind: nobody has shown that this promise covers this combination" in done.stderr
