"""Write this version's golden files: `python tests/golden/make.py`. What exists is never written again: only what is new.

A golden folder holds what this version of halflife wrote, for all later versions to read: policies with their ledgers and
outputs, and accounts, histories and states as JSON. Until a version is released its own folder may be written anew, all of it:
`--rewrite`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import halflife as hl
from golden.variants import AMENDED, FIRST, MORE, REVISED, SECRETS, VARIANTS, clock_at, write_inputs
from halflife import registry
from halflife.ledger import open_ledger
from halflife.publisher.secrets_at_rest import make_key_file

HERE = Path(__file__).parent


def make(version: Path) -> None:
    """Write what a version's folder lacks."""
    for name, data in VARIANTS.items():
        folder = version / name
        if folder.exists():
            continue
        folder.mkdir(parents=True)
        write_ledger(folder, data)
        print(f"{name}: {sum(f.stat().st_size for f in folder.iterdir()):,} bytes")
    (version / "accounts").mkdir(exist_ok=True)
    for name, cls in registry.NOTIONS.items():
        for number, notion in enumerate(() if cls.attached else cls.examples()):  # with secrets they are large
            file = version / "accounts" / f"{name}-{number}.json"
            if not file.exists():
                write_account(file, notion)


def write_ledger(folder: Path, data: dict[str, Any]) -> None:
    """Publish a policy twice, and keep what belongs to it; what is expected of it is what it is now."""
    write_inputs(folder, data)
    if data["promise"]["notion"] == "swellfish":
        (folder / "secrets.json").write_text(json.dumps(SECRETS, indent=1) + "\n")
    if "noise_key" in data:
        make_key_file(folder / "noise.key")
    (folder / "policy.yaml").write_text(json.dumps(data, indent=1) + "\n")
    for step in (FIRST, MORE):
        if step == MORE and folder.name in AMENDED:
            data = AMENDED[folder.name](data)
            (folder / "policy.yaml").write_text(json.dumps(data, indent=1) + "\n")
            hl.amend(
                folder / "policy.yaml",
                "to be read by later versions",
                by="halflife",
                weaken=True,
                clock=clock_at(data, FIRST),
            )
        policy = hl.Policy.load(folder / "policy.yaml")
        if step == MORE and policy.streams[0].post:  # a chain that was changed on the way
            data["streams"][0]["post"] = data["streams"][0]["post"][1:]
            (folder / "policy.yaml").write_text(json.dumps(data, indent=1) + "\n")
            policy = hl.Policy.load(folder / "policy.yaml")
        hl.publish(policy, clock=clock_at(data, step))
    for first, last in REVISED.get(folder.name, ()):
        hl.revise(policy, data["streams"][0]["name"], first, last, clock=clock_at(data, MORE))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        states, history = book.states(), hl.History(r for entry in book.entries() for r in entry.releases)
    account = hl.Accountant.from_json(states["account"], states.get("attachment"))
    (folder / "states.json").write_text(json.dumps(states, indent=1) + "\n")
    (folder / "account.json").write_text(account.to_json() + "\n")
    (folder / "history.json").write_text(history.to_json() + "\n")
    (folder / "expected.json").write_text(json.dumps(describe(account)) + "\n")
    shrink(folder / "town.ledger")
    for ending in (".lock", ".operator.jsonl"):
        (folder / f"town.ledger{ending}").unlink(missing_ok=True)


def shrink(ledger: Path) -> None:
    """Rewrite a ledger's file on small pages; what it says stays."""
    with closing(sqlite3.connect(ledger, isolation_level=None)) as db:
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA page_size = 512", "VACUUM"):
            db.execute(statement)


def write_account(path: Path, notion: Any) -> None:
    """Write an account of a few releases with the history that it follows from, and what it answers."""
    plan = notion.plan()
    releases = [r for k in range(1, 6) for r in plan.releases_at(k)]
    account = hl.Accountant(notion)
    account.admit(*releases)
    forms = {"account": json.loads(account.to_json()), "history": json.loads(hl.History(releases).to_json())}
    path.write_text(json.dumps({**forms, "expected": describe(account)}) + "\n")


def describe(account: hl.Accountant) -> dict[str, float]:
    """Return what an account answers."""
    risk, peak, limit = account.exposure()
    return {"step": account.step, "risk": risk, "peak": peak, "limit": limit, "used": account.used()}


if __name__ == "__main__":
    version = HERE / hl.__version__
    if "--rewrite" in sys.argv:
        shutil.rmtree(version, ignore_errors=True)
    make(version)
