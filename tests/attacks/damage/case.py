"""One case: a world, one damage or several, and what publish and verify make of it."""

from __future__ import annotations

import gc
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import halflife as hl
from attacks.damage import acts, faults, places, raw, readings, tables
from attacks.damage.judge import Court
from attacks.damage.witness import LEDGER, Seen, copy_ledger, look
from attacks.damage.worlds import PEOPLE, PROMISES, START, World, build, exact_noise, exact_totals, seeded_noise
from halflife.accountant import Accountant
from halflife.ledger import open_ledger
from halflife.publisher.checkpoints import CHECKPOINTS

HOURS = (6, 7, 7, 7, 8, 8, 8, 8, 9, 11, 30)
ODD_HOURS = (5.99, 3, -10, -(10**6), 10**6, 10**8)
"""Clocks that have jumped."""


class Over(Exception):
    """The case ends here."""


@dataclass(frozen=True)
class Pristine:
    """A world with what is known of it before any damage, and its policy, worked out once."""

    world: World
    seen: Seen
    policy: hl.Policy
    releases: list[Any]
    notion: Any


class Town:
    """The worlds of one seed, and the folder in which cases are played, one after the other."""

    def __init__(self, place: Path, seed: int) -> None:
        self.seed, self.folder, self.scratch = seed, place / "case", place / "scratch"
        self.scratch.mkdir(parents=True)
        draw = random.Random(seed)
        with seeded_noise(seed):
            self.worlds = [self._examine(build(notion, place / notion, draw)) for notion in PROMISES]
        gc.freeze()

    def _examine(self, world: World) -> Pristine:
        self._fresh(world)
        seen = look(world, self.folder, self.scratch)
        copy = copy_ledger(self.folder / LEDGER, self.scratch)
        assert copy is not None
        with open_ledger(copy, read_only=True) as book:
            releases = [((e.stream, e.part, e.step), e.releases) for e in book.entries()]
            states = book.states()
        notion = Accountant.from_json(states["account"], states.get("attachment")).notion
        return Pristine(world, seen, hl.Policy.load(self.folder / "policy.yaml"), releases, notion)

    def _fresh(self, world: World) -> None:
        """Lay the world out anew. What a case left open is let go of first: SQLite would remove the new log with the old one."""
        gc.collect()
        if self.folder.exists():
            places.remove(self.folder)
        shutil.copytree(world.folder, self.folder)

    def play(self, number: int) -> tuple[str, list[str]]:
        """Play a case; return its story and what must be said against the publisher."""
        draw = random.Random(f"{self.seed} {number}")
        one = draw.choice([w for w in self.worlds for _ in range(2 if w.world.notion in ("weak", "strong") else 1)])
        self._fresh(one.world)
        with seeded_noise(number):
            case = Case(one, self.folder, self.scratch, draw)
            case.run()
        return case.story, case.court.accusations


class Case:
    """What happens to one copy of a world."""

    def __init__(self, one: Pristine, folder: Path, scratch: Path, draw: random.Random) -> None:
        self.one, self.world, self.folder, self.scratch, self.draw = one, one.world, folder, scratch, draw
        self.court = Court(one.seen, list(one.releases), one.notion, one.world.private, scratch)
        self.policy: hl.Policy | None = one.policy
        self.read = self.pushes = False
        self.meanwhile: Seen | None = None
        self.touched: set[str] = set()
        self.story = one.world.name

    def run(self) -> None:
        """Choose what happens."""
        kind = self.draw.choices([*KINDS], weights=[weight for weight, _ in KINDS.values()])[0]
        try:
            KINDS[kind][1](self)
        except Over:
            return

    def tell(self, what: str) -> None:
        self.story += f"; {what}"

    def see(self) -> Seen:
        return look(self.world, self.folder, self.scratch)

    # Acts -----------------------------------------------------------------------------------------------------------

    def publish(self, hours: float, *around: Any, careless: bool = False) -> acts.Outcome:
        before, inputs = self.see(), self._inputs()
        if self.pushes and not around:
            outcome = acts.push(self.world, self.folder, hours, self.policy)
        else:
            outcome = acts.publish(self.world, self.folder, hours, self.policy, *around, read=self.read)
        if self.meanwhile is not None:
            files = {name: data for name, data in self.meanwhile.files.items() if name in before.files}
            before, self.meanwhile = replace(before, files=files, rows=self.meanwhile.rows), None
        if self._inputs() != inputs:
            self.court.accuse("meddled: publish changed the readings, the policy or the specifications")
        now = int((START + 3600 * hours) * 10**6)
        careless = careless or bool(self.touched & {"ledger", "log"})  # a page may be found bad behind the commit
        self.court.judge_publish(outcome, before, self.see(), self.folder / LEDGER, now, careless=careless)
        self.tell(f"{'push' if self.pushes else 'publish'} at {hours:g} h: {self._in_short(outcome)}")
        return outcome

    def verify(self) -> acts.Outcome:
        if self.draw.random() < 0.1:
            outcome, name = acts.command(self.folder), "halflife verify"
        else:
            outcome, name = acts.verify(self.world, self.folder, self.policy), "verify"
        self.court.judge_verify(outcome, self.see(), name)
        self.tell(f"{name}: {self._in_short(outcome)}")
        return outcome

    def _inputs(self) -> list[bytes | None]:
        """What is read and never written."""
        paths = [self.folder / name for name in (self.world.source, "policy.yaml", "secrets.json")]
        return [p.read_bytes() if p.is_file() else None for p in paths]

    @staticmethod
    def _in_short(outcome: acts.Outcome) -> str:
        """How an act ended, for the story; a run that hung ends the case."""
        if outcome.how == "hung":
            raise Over
        if outcome.how != "went on":
            return f"{outcome.how} ({str(outcome.result)[:160]})"
        return (
            {True: "agrees", False: "WRONG"}.get(outcome.result, "went on")
            if isinstance(outcome.result, bool)
            else "went on"
        )

    # Kinds of cases -------------------------------------------------------------------------------------------------

    def nothing(self) -> None:
        """Nothing is damaged: it goes on, and all agrees."""
        self.read = self.draw.random() < 0.5
        first = self.publish(self.draw.choice((6, 7, 8, 11, 30)))
        self._must(first.how == "went on", "nothing was damaged, and publish does not go on")
        verdict = self.verify()
        self._must(verdict.how == "went on" and verdict.result, "nothing was damaged, and verify does not agree")

    def files(self) -> None:
        """One to three damages to files of the ledger and outputs, perhaps after a crash, then publish and verify."""
        self.pushes = self.draw.random() < 0.1
        if self.draw.random() < 0.15:
            self.publish(7, faults.failing_calls(self.draw, "killed"), careless=True)
        for _ in range(self.draw.choice((1, 1, 1, 2, 3))):
            self._damage_once()
        self._play_on()

    def rows(self) -> None:
        """Rows, states or tables of the ledger are edited, perhaps with all hashes formed anew."""
        edit = self.draw.choice((tables.edit_rows, tables.edit_rows, tables.edit_states, tables.edit_states,
                                 tables.edit_schema, tables.forge))  # fmt: skip
        told = edit(self.folder / LEDGER, self.draw, self.world.older_states)
        self.court.forged, self.pushes = edit is tables.forge, self.draw.random() < 0.1
        self.tell(f"{edit.__name__}: {told}")
        if self.draw.random() < 0.1:
            self._damage_once()
        self._play_on()

    def restored(self) -> None:
        """An older ledger lies there, and a guard or an output that is newer; or only older outputs."""
        chance = self.draw.random()
        if chance < 0.15:
            self.tell(places.put_fork(self.world, self.folder, self.draw))
            self._play_on(refused=self.see().entries() != self.one.seen.entries())
        elif chance < 0.75:
            self.tell(f"put back: {places.restore_some(self.world, self.folder, self.draw)}")
            self._play_on(refused=self.see().entries() != self.one.seen.entries())
        else:
            self.tell(f"put back: {places.restore_other(self.world, self.folder, self.draw)}")
            self._play_on()

    def everything_restored(self) -> None:
        """All files are those of an older day: nobody can know. It goes on from there."""
        source = self.draw.choice(self.world.older)
        places.remove(self.folder)
        shutil.copytree(source, self.folder)
        for ending in ("-shm",):
            Path(f"{self.folder / LEDGER}{ending}").unlink(missing_ok=True)
        seen = self.see()
        keys = set(seen.entries() or {})
        self.court.known = seen
        self.court.releases = [pair for pair in self.court.releases if pair[0] in keys]
        self.tell(f"all of {source.name}")
        first = self.publish(self.draw.choice((7, 8)))
        self._must(first.how == "went on", "a whole older copy does not go on")
        self.verify()

    def faulty(self) -> None:
        """The machine fails in the middle; then an older ledger may be put back; then it works again."""
        fault = self.draw.choice((faults.failing_calls, faults.failing_calls, faults.full_disk))(self.draw)
        told = []
        outcome = self.publish(self.draw.choice((7, 8, 30)), _telling(fault, told), careless=True)
        self.tell(", ".join(told))
        if self.draw.random() < 0.3:
            self._put_older_ledger_back()
            return
        again = self.publish(30)
        self._must(again.how == "went on", f"after a fault ({outcome.how}) it does not go on: {again.result}")
        verdict = self.verify()
        twice = "stdout.jsonl" in self.world.targets.values()  # a line may be printed, and printed again
        self._must(twice or (verdict.how == "went on" and verdict.result), "after a fault verify does not agree")

    def _put_older_ledger_back(self) -> None:
        """The guard alone remembers what was shown: outputs are gone, the ledger is older."""
        places.put_back(self.draw.choice(self.world.older), self.folder, [LEDGER, *places.LOG])
        for target in self.world.targets.values():
            if target != "stdout.jsonl":
                places.remove(self.folder / target.rstrip("/"))
                places.remove(self.folder / f"{target.rstrip('/')}.mark")
        self.tell("ledger put back, outputs gone")
        verdict = self.verify()
        outcome = self.publish(8)
        self._must(not (verdict.how == "went on" and verdict.result), "an older ledger agrees")
        self._must(outcome.how != "went on", "an older ledger goes on")

    def meddled(self) -> None:
        """Somebody damages an output or a guard while it is published."""
        point = self.draw.choice(CHECKPOINTS[:-1])
        self.touched = {"ledger", "log", "operator"}
        self.publish(8, faults.in_the_middle(point, self._meddle), careless=True)
        self.tell(f"that was at the point {point!r}")
        self.verify()
        self.publish(9)
        self.verify()

    def _meddle(self) -> None:
        self._damage_once()
        self.meanwhile = self.see()

    def racing(self) -> None:
        """Two publishers at once."""
        before, hours = self.see(), self.draw.choice((7, 8, 11))
        outcome = acts.race(self.world, self.folder, hours)
        now = int((START + 3600 * hours) * 10**6)
        self.tell(f"two publishers: {self._in_short(outcome)}")
        self.court.judge_publish(outcome, before, self.see(), self.folder / LEDGER, now, careless=True)
        verdict = self.verify()
        self._must(outcome.how == "went on", f"two publishers: {outcome.result}")
        self._must(verdict.how == "went on" and verdict.result, "after two publishers verify does not agree")

    def other_readings(self) -> None:
        """The readings are damaged, of another kind, or absent."""
        self.read, path = True, self.folder / self.world.source
        way = self.draw.choice(("bytes", "place", "change", "change", "gzip", "swap"))
        if way == "swap":
            told = places.swap_in(self.world, self.folder, path, self.draw)
        elif way == "bytes":
            told = raw.damage_bytes(path, self.draw, [self.folder / "policy.yaml"])
        elif way == "place":
            told = places.replace_kind(path, self.draw)
        elif way == "gzip" and path.suffix == ".gz":
            told = readings.break_gzip(path, self.draw)
        else:
            told = readings.change_readings(self.world, self.folder, self.draw)
        self.tell(f"readings: {told}")
        outcome = self.publish(self.draw.choice((7, 8)))
        if path.suffix == ".gz" and path.is_file() and outcome.how == "went on" and not readings.unpacks(path):
            self.court.accuse("accepted: a gzip file that does not unpack")
        self.verify()

    def same_readings(self) -> None:
        """The same readings, written otherwise, come to the same totals, or are refused."""
        self.read, self.court.private = True, re.compile("|".join(PEOPLE))
        self.tell(f"readings: {readings.rewrite_readings(self.world, self.folder, self.draw)}")
        with exact_noise():
            self.publish(8)
        want = exact_totals(self.world.rows)
        known, seen = self.one.seen.entries() or {}, self.see().entries() or {}
        if self.world.notion in ("weak", "strong"):
            return  # reused noise is in what is published
        for key, row in seen.items():
            found = np.frombuffer(row["noisy"], "<f8")
            exact = want[key[2] - 1] if len(found) > 1 else want[key[2] - 1].sum()
            if key not in known and not np.allclose(found, exact, rtol=0, atol=1e-3):
                self.court.accuse(f"wrong sum: {found} published, {exact} is the sum")

    def other_policy(self) -> None:
        """Another policy, damaged or slightly different; or other specifications."""
        self.policy, path = None, self.folder / "policy.yaml"
        way, refused = self.draw.choice(("change", "change", "change", "secrets", "bytes", "place")), False
        if way == "change":
            told, refused = readings.change_policy(self.folder, self.draw)
        elif way == "secrets" and self.draw.random() < 0.4:
            told = raw.damage_bytes(self.folder / "secrets.json", self.draw, [path])
        elif way == "secrets":
            told = readings.change_secrets(self.folder, self.draw)
            refused = self.world.notion == "swellfish"
        elif way == "bytes":
            told = raw.damage_bytes(path, self.draw, [self.folder / "secrets.json"])
        else:
            told = places.replace_kind(path, self.draw)
        self.tell(f"policy: {told}")
        self._play_on(refused=refused)

    # Damage ---------------------------------------------------------------------------------------------------------

    def _damage_once(self) -> None:
        """Damage a file that is not yet damaged: the ledger, its log, a guard, an output."""
        log = [self.folder / name for name in places.LOG if (self.folder / name).is_file()]
        kinds = {
            "ledger": [self.folder / LEDGER], "log": log, "guard": places.guards(self.folder),
            "output": places.output_files(self.world, self.folder), "operator": [self.folder / f"{LEDGER}.operator.jsonl"],
        }  # fmt: skip
        weights = {"ledger": 5, "log": 2, "guard": 2, "output": 4, "operator": 1}
        names = [k for k, found in kinds.items() if k not in self.touched and found]
        if not names:
            return
        if self.draw.random() < 0.06:
            return self.tell(places.leave_something(self.world, self.folder, self.draw))
        kind = self.draw.choices(names, weights=[weights[k] for k in names])[0]
        path = self.draw.choice(kinds[kind])
        self.touched.add(kind)
        if self.draw.random() < 0.2 or not path.is_file():
            told = places.replace_kind(path, self.draw)
        elif self.draw.random() < 0.15:
            told = places.swap_in(self.world, self.folder, path, self.draw)
        elif kind == "ledger" and self.draw.random() < 0.06:
            told = places.restore_log(self.world, self.folder, self.draw)
        elif kind == "guard" and self.draw.random() < 0.7:
            told = places.break_guard(path, self.draw)
        else:
            told = raw.damage_bytes(path, self.draw, [p for found in kinds.values() for p in found if p.is_file()])
        self.tell(f"{path.relative_to(self.folder)}: {told}")

    def _play_on(self, refused: bool = False) -> None:
        """Verify or not, publish, verify; after a refusal all is put right again, else it goes on once more."""
        if self.draw.random() < 0.6:
            self.verify()
        outcome = self.publish(self.draw.choice(HOURS if self.draw.random() < 0.95 else ODD_HOURS))
        if refused:
            self._must(outcome.how != "went on", "what must be refused goes on")
        self.verify()
        if outcome.how == "refused":
            if self.draw.random() < 0.4 and "guard" not in self.touched and not self.court.went_on:
                self._heal()
        elif self.draw.random() < 0.5:
            self.publish(self.draw.choice((9, 12)))
            self.verify()

    def _heal(self) -> None:
        """The newest files come back, but for the guards: it must go on as if nothing had been."""
        keep = [p.name for p in places.guards(self.folder)]
        for path in [*self.folder.iterdir()]:
            if path.name not in keep:
                places.remove(path)
        for path in self.world.folder.iterdir():
            if path.name not in keep:
                places.put_back(self.world.folder, self.folder, [path.name])
        self.policy, self.read = self.one.policy, False
        self.tell("newest files put back")
        outcome = self.publish(8)
        verdict = self.verify()
        self._must(outcome.how == "went on", f"the newest files are back, and it does not go on: {outcome.result}")
        self._must(verdict.how == "went on" and verdict.result, "the newest files are back, and verify does not agree")

    def _must(self, true: Any, what: str) -> None:
        if not true:
            self.court.accuse(f"must: {what}")


@contextmanager
def _telling(fault: Any, told: list[str]) -> Iterator[None]:
    """A fault that notes what it is."""
    with fault as what:
        told.append(what)
        yield


KINDS = {
    "nothing": (2, Case.nothing),
    "files": (26, Case.files),
    "rows": (26, Case.rows),
    "restored": (10, Case.restored),
    "everything restored": (2, Case.everything_restored),
    "faulty": (14, Case.faulty),
    "meddled": (5, Case.meddled),
    "racing": (3, Case.racing),
    "other readings": (9, Case.other_readings),
    "same readings": (3, Case.same_readings),
    "other policy": (8, Case.other_policy),
}
