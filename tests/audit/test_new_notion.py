"""A notion from one file of its own is audited: the `Halving` of CONTRIBUTING, in a process where nothing else knows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from publisher.town import policy_dict

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, sys
from click.testing import CliRunner
import halving
from halflife import noise
from halflife.cli import main
from halflife.policy.promises import RULES
from halflife.policy.promises.table import accept_everything

RULES["halving"] = accept_everything("halves with every step", "hides whether anything was recorded")
factor = float(sys.argv[1])
draw_many = noise.draw_many
noise.draw_many = lambda wanted: [noise.GridNoise(n.grid * factor, n.units) for n in draw_many(wanted)]
done = CliRunner().invoke(main, ["audit", "policy.yaml", "--seconds", "600", "--runs", sys.argv[2], "--processes", "1", "--json"])
print(done.stdout if done.exit_code in (0, 1) else done.output)
sys.exit(done.exit_code)
"""

HISTORY = """
import json
import halving
from halflife import Release
from halflife.audit import audit_history

for loss in (0.5, 0.6):
    found = audit_history("", halving.Halving(1.0), [Release(k, loss) for k in range(1, 50)], 1.0)
    print(json.dumps([found.how, found.found, found.accused]))
"""

DERIVED = """
from halflife.audit.registry import NotionAudit, register_audit

def largest(notion, releases):
    return max(sum(s.loss * 2.0 ** (s.step - r.step) for s in releases if s.step <= r.step) for r in releases)

register_audit("halving", audit=NotionAudit(worst_loss=largest))
"""


def run(folder, program, *arguments, more=""):
    """Run a program beside the file that defines Halving."""
    notion, _ = re.findall(r"```python\n(.*?)```", (ROOT / "CONTRIBUTING.md").read_text(), re.S)
    (folder / "halving.py").write_text(notion + more)
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", ""), str(ROOT / "src")])
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True, text=True, cwd=folder, check=False, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done


def audit(folder, factor, runs):
    """Audit a tiny policy that promises Halving, its noise made smaller, and return the verdict and the command's status."""
    data = policy_dict(clock={"end": "2026-01-01T04:00"})
    data["promise"] = {"notion": "halving", "epsilon": 1.0}
    (folder / "policy.yaml").write_text(json.dumps(data))
    done = run(folder, PROGRAM, factor, runs)
    return json.loads(done.stdout), done.returncode


def test_a_new_notion_is_audited_and_not_accused(tmp_path):
    verdict, status = audit(tmp_path, 1.0, runs=20)
    assert (verdict["good"], status) == (True, 0), [f for f in verdict["findings"] if f["accused"]]
    ways = {f["how"] for f in verdict["findings"]}
    assert ways == {"sensitivity", "account", "silence", "black box", "noise size", "observer"}
    (plan,) = [f for f in verdict["findings"] if f["how"] == "account"]
    assert plan["found"] == pytest.approx(1 - 2**-4)
    assert any("one step" in f["name"] and f["claimed"] == pytest.approx(1.0) for f in verdict["findings"])


def test_noise_that_is_too_small_is_accused(tmp_path):
    verdict, status = audit(tmp_path, 0.4, runs=60)
    assert (verdict["good"], status) == (False, 1)
    assert {f["how"] for f in verdict["findings"] if f["accused"]} >= {"noise size"}


@pytest.mark.parametrize(("more", "how"), [("", "account"), (DERIVED, "exact")])
def test_a_history_is_held_to_the_account_or_to_a_second_derivation(tmp_path, more, how):
    """Losses of 0.5 a step come to 1, and of 0.6 to 1.2."""
    kept, broken = (json.loads(line) for line in run(tmp_path, HISTORY, more=more).stdout.splitlines())
    assert kept == [how, pytest.approx(1.0), False]
    assert broken == [how, pytest.approx(1.2), True]
