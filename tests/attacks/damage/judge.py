"""The only outcomes that are allowed: refused with nothing lost; or gone on with no promise broken."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from attacks.damage.acts import Outcome
from attacks.damage.witness import Key, Seen, copy_ledger
from halflife.accountant import Accountant
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.release import Release


@dataclass
class Court:
    """What is known to have been committed and shown, and what is said against the publisher.

    forged    somebody hashed the ledger again: then it may go on, but `verify` must not agree until it did
    went_on   whether anything was published since
    """

    known: Seen
    releases: list[tuple[Key, tuple[Release, ...]]]
    notion: Any
    private: re.Pattern[str]
    scratch: Path
    forged: bool = False
    went_on: bool = False
    accusations: list[str] = field(default_factory=list)

    def accuse(self, what: str) -> None:
        """Note a broken promise."""
        self.accusations.append(what)

    def hear(self, act: str, outcome: Outcome) -> None:
        """Judge how an act ended, and all that was said."""
        if outcome.how == "failed":
            self.accuse(f"traceback: {act}: {outcome.result[:300]} in {outcome.where}")
        if outcome.how == "hung":
            self.accuse(f"hung: {act}")
        if outcome.how == "refused" and not outcome.result.strip():
            self.accuse(f"no sentence: {act}")
        told = self.private.search(outcome.said)
        if told:
            around = outcome.said[max(0, told.start() - 80) : told.end() + 40]
            self.accuse(f"told: {act}: {told[0]!r} in {around!r}")

    # Publishing -----------------------------------------------------------------------------------------------------

    def judge_publish(
        self, outcome: Outcome, before: Seen, after: Seen, ledger: Path, now_us: int, *, careless: bool
    ) -> None:
        """Judge what a run of publish changed on disk; what it published properly is known from now on.

        careless  there was a fault, a race or a bad page: then a refusal may come after a commit
        """
        self.hear("publish", outcome)
        new = self._judge_entries(outcome, before, after, now_us, careless)
        self._judge_rows(before, after)
        self.went_on = self.went_on or bool(new)
        if new:
            self._judge_spending(new, after, ledger)
        self._learn(new, before, after)

    def _judge_entries(self, outcome: Outcome, before: Seen, after: Seen, now_us: int, careless: bool) -> set[Key]:
        """No entry is changed or lost, none is drawn again, and a refusal adds none."""
        had, has, known = before.entries(), after.entries(), self.known.entries() or {}
        if has is None:
            if had is not None:
                self.accuse("lost: the ledger's entries cannot be read after publish")
            return set()
        new = set(has) - set(known if had is None else had)
        for key in sorted(new & set(known)):
            self.accuse(f"drawn again: {key}")
        for key, row in (had or {}).items():
            if has.get(key) != row:
                self.accuse(f"lost: entry {key} was changed or deleted by publish")
        if new and outcome.how == "refused" and not careless:
            self.accuse(f"refused, but {len(new)} entries were committed: {outcome.result[:200]}")
        if outcome.how == "refused" and not new and had is not None and not careless:
            for table in ("fact", "release", "batch", "state"):
                if before.tables[table] != after.tables[table] and before.tables[table] is not None:
                    self.accuse(f"refused, but {table} was changed")
        for key in new:
            if has[key]["end_us"] > now_us:
                self.accuse(f"too early: {key} was published before it was over")
        return new - set(known)

    def _judge_rows(self, before: Seen, after: Seen) -> None:
        """What readers saw of a step they see for ever; new rows are the ledger's."""
        held = after.entries() or {}
        for stream, steps in after.rows.items():
            for step, rows in steps.items():
                shown = self.known.rows.get(stream, {}).get(step, [])
                fresh = [row for row in rows if row not in shown and row not in before.rows[stream].get(step, [])]
                if fresh and shown:
                    self.accuse(f"two values: {stream}, step {step}: {fresh} after {shown}")
                elif fresh and held and not _shows(fresh, held.get((stream, "*", step))):
                    self.accuse(f"invented: {stream}, step {step} is shown and not what the ledger holds")
        for stream, steps in before.rows.items():
            for step, rows in steps.items():
                gone = rows == self.known.rows.get(stream, {}).get(step) and step not in after.rows[stream]
                if gone:
                    self.accuse(f"lost: {stream}, step {step} was shown and is gone")

    def _judge_spending(self, new: set[Key], after: Seen, ledger: Path) -> None:
        """The account is what all releases come to, and noise that was used before is what it was."""
        for name, kept in self.known.noises().items():
            if after.noises().get(name, kept) != kept:
                self.accuse(f"noise drawn again: {name}")
        try:
            self.releases += self._released(new, after, ledger)
        except HalflifeError as error:
            return self.accuse(f"badly charged: {error!s:.300}")
        if self.forged:
            return
        try:
            saved = Accountant.from_json(after.states()["account"], after.states().get("attachment"))
        except (HalflifeError, KeyError) as error:
            return self.accuse(f"no account: {error!r:.200}")
        if saved.notion != self.notion:
            self.accuse("another promise: the saved account's notion was changed")
        replayed = Accountant.replay(saved.notion, [r for _, releases in self.releases for r in releases])
        if not saved.agrees(replayed):
            self.accuse(f"other account: {saved.used():.4g} of the promise in use, by replay {replayed.used():.4g}")

    def _released(self, new: set[Key], after: Seen, ledger: Path) -> list[tuple[Key, tuple[Release, ...]]]:
        """What new entries were charged with, in the order of the ledger."""
        copy, found = copy_ledger(ledger, self.scratch), []
        assert copy is not None
        with open_ledger(copy, read_only=True) as book:
            for stream in sorted({key[0] for key in new}):
                steps = [key[2] for key in new if key[0] == stream]
                found += [e for e in book.entries(stream, min(steps), max(steps)) if (e.stream, e.part, e.step) in new]
        numbers = {key: row["id"] for key, row in (after.entries() or {}).items()}
        pairs = [((e.stream, e.part, e.step), e.releases) for e in found]
        return sorted(pairs, key=lambda pair: numbers[pair[0]])

    def _learn(self, new: set[Key], before: Seen, after: Seen) -> None:
        """What was properly published is known from now on."""
        tables = dict(self.known.tables)
        for table in ("entry", "release", "batch"):
            old, now, known = (seen.tables[table] or [] for seen in (before, after, self.known))
            tables[table] = [*known, *(row for row in now if row not in old and row not in known)]
        if new:
            tables["state"] = after.tables["state"]
        self.known = replace(self.known, tables=tables)
        committed = self.known.entries() or {}
        steps = {  # of what is seen for the first time, that which was committed, now or in a run that failed
            stream: {k for k in found if k not in self.known.rows[stream] and (stream, "*", k) in committed}
            for stream, found in after.rows.items()
        }
        rows = {s: {**self.known.rows[s], **{k: after.rows[s][k] for k in steps[s]}} for s in after.rows}
        self.known = replace(self.known, rows=rows, files=self._files(before, after, steps))

    def _files(self, before: Seen, after: Seen, steps: dict[str, set[int]]) -> dict[str, bytes]:
        """What the outputs should hold now, byte for byte: what was known, and the lines of new steps."""
        files = dict(self.known.files)
        for name, data in after.files.items():
            if name.endswith(".parquet"):
                if before.files.get(name) != data:  # written whole in this run: `judge_verify` compares its rows
                    files[name] = data
            elif name in self.known.files and name != "stdout.jsonl":
                mine = [line for line in data.splitlines(True) if _step(line) in steps[name.split(".")[0]]]
                files[name] = self.known.files[name] + b"".join(mine)
        return files

    # Verifying ------------------------------------------------------------------------------------------------------

    def judge_verify(self, outcome: Outcome, after: Seen, act: str = "verify") -> None:
        """`verify` may agree only if all that readers or the promise rely on is what was committed."""
        self.hear(act, outcome)
        if outcome.how != "went on" or not outcome.result:
            return
        for table in ("fact", "entry", "release", "batch", "state"):
            forgotten = self.forged and self.went_on  # hashes say what was forged, and the account has moved on
            if not forgotten and _sorted(after.tables[table]) != _sorted(self.known.tables[table]):
                self.accuse(f"agrees: {act}, but {table} is not what was committed")
        if after.schema != self.known.schema:
            self.accuse(f"agrees: {act}, but the ledger's tables are others: {_more(after.schema, self.known.schema)}")
        for name in {**self.known.files, **after.files}:
            written = self.known.files.get(name)
            gone = name not in after.files and name.endswith(".parquet")  # another part may hold its rows
            if name != "stdout.jsonl" and not gone and after.files.get(name) != written:
                self.accuse(f"agrees: {act}, but the bytes of {name} are not those that were written")
        if {s: _sets(r) for s, r in after.rows.items()} != {s: _sets(r) for s, r in self.known.rows.items()}:
            self.accuse(f"agrees: {act}, but readers see other rows")


def _step(line: bytes) -> int | None:
    match = re.match(rb'(\d+),|\{"step": (\d+),', line)
    return int(match[1] or match[2]) if match else None


def _shows(rows: list[Any], entry: dict[str, Any] | None) -> bool:
    """Whether rows say what an entry holds: its value, or its noisy total in kWh."""
    if entry is None:
        return False
    held = (
        np.frombuffer(entry["noisy"], "<f8") / 1e6 if entry["value"] is None else np.frombuffer(entry["value"], "<f8")
    )
    return all(np.isclose(float(row[-2]), held, rtol=1e-12, atol=0).any() for row in rows)


def _sets(rows: dict[int, list[Any]]) -> dict[int, set[Any]]:
    return {step: set(found) for step, found in rows.items()}


def _sorted(rows: list[dict[str, Any]] | None) -> list[str] | None:
    return None if rows is None else sorted(map(repr, rows))


def _more(one: Any, two: Any) -> str:
    return repr([x for x in (one or [[]])[0] if x not in (two or [[]])[0]] or one)[:200]
