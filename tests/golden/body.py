"""What every later version must do with a golden folder: read it, go on with it, and verify it.

Run as a program it does so with whatever halflife is first on the path, for all golden folders or for those that are named:
`python body.py SCRATCH [NAME ...]`.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import halflife as hl
from golden.variants import MORE, clock_at
from halflife.ledger import open_ledger
from halflife.policy import channels
from own_keys import use_own_keys

HERE = Path(__file__).parent
LEDGERS = sorted(path.parent for path in HERE.glob("*/*/policy.yaml"))
ACCOUNTS = sorted(HERE.glob("*/accounts/*.json"))


def continue_ledger(golden: Path, scratch: Path) -> None:
    """Verify a copy of a golden ledger, publish some more steps, and verify it again: nothing that was published may change."""
    folder = scratch / f"{golden.parent.name}-{golden.name}"
    copy_golden(golden, folder)
    policy = hl.Policy.load(folder / "policy.yaml")
    outputs = {stream.name: str(policy.path(stream.output)) for stream in policy.streams}
    known = {name: Path(path).read_bytes() for name, path in outputs.items()}
    facts, links = read_ledger(policy.ledger_url)
    expected = json.loads((golden / "expected.json").read_text())
    before = hl.verify(policy.ledger_url, outputs, policy=policy)
    assert before.problems == (), before.problems
    assert_alike(before.risk, expected["risk"])
    summary = hl.publish(policy, clock=clock_at(json.loads((golden / "policy.yaml").read_text()), MORE + 4))
    assert all(count >= 2 for count in summary.published.values()), summary
    after = hl.verify(policy.ledger_url, outputs, policy=policy)
    assert after.problems == (), after.problems
    assert after.step == expected["step"] + 4
    for name, path in outputs.items():
        text = Path(path).read_bytes()
        assert text.startswith(known[name])
        assert len(text) > len(known[name])
    with open_ledger(policy.ledger_url, read_only=True) as book:
        families = {(entry.stream, release.noise) for entry in book.entries() for release in entry.releases}
    assert len(families) == len({stream for stream, _ in families}), (
        f"a ledger keeps the family of noise that it was begun with: {families}"
    )
    now, more = read_ledger(policy.ledger_url)
    assert now == facts, "facts stay as they were stored"
    assert more[: len(links)] == links
    assert len(more) > len(links)


def copy_golden(golden: Path, folder: Path) -> None:
    """Copy a golden folder; keys are for their owner alone, which a checkout does not keep."""
    shutil.copytree(golden, folder)
    for key in folder.glob("*.key"):
        key.chmod(0o600)


def read_ledger(path: str) -> tuple[dict[str, str], list[bytes]]:
    with open_ledger(path, read_only=True) as book:
        return book.facts(), [link for _, _, link in book.chained()]


def read_forms(golden: Path) -> None:
    """Read a golden account, history and states: all answer as they did."""
    expected = json.loads((golden / "expected.json").read_text())
    account = hl.Accountant.from_json((golden / "account.json").read_text())
    replayed = check_account(account, (golden / "history.json").read_text(), expected)
    states = json.loads((golden / "states.json").read_text())
    kept = hl.Accountant.from_json(states["account"], states.get("attachment"))
    assert kept.agrees(account)
    assert kept.agrees(replayed)
    for channel in channels(hl.Policy.load(golden / "policy.yaml")):
        saved = json.loads(states.get(f"stream:{channel.name}", "{}"))
        for smoother, state in zip(channel.smoothers(), saved.get("smoothers", []), strict=True):
            smoother.restore(state)
            assert json.loads(json.dumps(smoother.state())) == state


def read_account(path: Path) -> None:
    """Read a golden account of no ledger."""
    forms = json.loads(path.read_text())
    account = hl.Accountant.from_json(json.dumps(forms["account"]))
    check_account(account, json.dumps(forms["history"]), forms["expected"])


def check_account(account: hl.Accountant, history: str, expected: dict[str, float]) -> hl.Accountant:
    replayed = hl.Accountant.replay(account.notion, hl.History.from_json(history))
    for one in (account, replayed, hl.Accountant.from_json(account.to_json())):
        risk, peak, limit = one.exposure()
        found = {"step": one.step, "risk": risk, "peak": peak, "limit": limit, "used": one.used()}
        for key, value in expected.items():
            assert_alike(found[key], value)
    assert account.agrees(replayed)
    return replayed


def assert_alike(found: float, expected: float) -> None:
    assert found == expected or math.isclose(found, expected, rel_tol=1e-12), (found, expected)


if __name__ == "__main__":
    use_own_keys()
    chosen = [folder for folder in LEDGERS if not sys.argv[2:] or folder.name in sys.argv[2:]]
    for folder in chosen:
        try:
            continue_ledger(folder, Path(sys.argv[1]))
            read_forms(folder)
        except Exception as error:
            sys.exit(f"{folder.name}: {error}")
    for file in ACCOUNTS:
        read_account(file)
    print(f"{len(chosen)} ledgers and {len(ACCOUNTS)} accounts")
