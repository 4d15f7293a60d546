"""A year of London under one ledger that is amended six times, by processes that are killed again and again.

    python examples/london/amendments.py [--data DIR] [--out DIR]

The clock is simulated: publishers and amendments of a year run one after the other. Every one of them is killed with SIGKILL, at
each of its checkpoints and at random moments, until it has done its work. At the end the ledger is verified and certified, bytes
of the certificate are changed one by one, and all public files are searched for a planted home, its readings and all names.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import random
import re
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import halflife as hl
from halflife.errors import HalflifeError
from halflife.lab.households.readings import readings_table, simulate
from halflife.lab.views.certificate import write_certificate_page
from halflife.ledger import open_ledger
from halflife.papers.figures import LONDON, find_data
from halflife.policy import Policy
from halflife.publisher import checkpoints

HERE = Path(__file__).resolve().parent
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["halflife.cli", "halflife.publisher", "halflife.engines.duckdb.engine", "duckdb", "opendp.measurements"]
)
AMENDING = ("amendment worked out", "amendment committed")
PLANTED, VALUE = "planted-home-7731", 3.1415926
"""A home that nobody may find, and what it uses in every half hour, in kWh."""
START = datetime.datetime(2013, 1, 1, tzinfo=datetime.UTC)
MONTHS = (2, 4, 5, 6, 8, 10, 12)
"""After so many months each stretch ends: between two of them the ledger is amended."""
SHARE_OF_HOMES = (0.77, 0.92, 1.0)
"""How many of the homes are members at first, after the first amendment, and after the second."""


# The town -----------------------------------------------------------------------------------------------------------------


class Town(NamedTuple):
    """Where the private readings are, in two files with other names of columns, and how many homes there are from when on."""

    first: Path
    second: Path
    sizes: tuple[int, ...]
    ends: tuple[datetime.datetime, ...]


def find_ends(days: int) -> tuple[datetime.datetime, ...]:
    """Return when each stretch ends: months of a year, or equal stretches of whole days."""
    if days == 365:
        return tuple(START.replace(year=START.year + month // 12, month=month % 12 + 1) for month in MONTHS)
    return tuple(START + datetime.timedelta(days=days * k // len(MONTHS)) for k in range(1, len(MONTHS) + 1))


def make_town(data: Path | None, folder: Path, days: int = 365, homes: int = 325) -> Town:
    """Write readings as an operator has them: homes join twice, some leave, and a column is renamed on the way."""
    folder.mkdir(parents=True, exist_ok=True)
    if data is None:
        made = readings_table(simulate(homes, days, START.replace(tzinfo=None), seed=1))
        rows = pl.DataFrame(pl.from_arrow(made)).rename({"home": "lclid", "time": "ts"})
        rows = rows.with_columns(pl.col("ts").dt.replace_time_zone(None))
    else:
        rows = pl.read_parquet(data / LONDON).select(pl.col("lclid").cast(pl.String), "ts", "kwh")
    ends, naive = find_ends(days), [end.replace(tzinfo=None) for end in find_ends(days)]
    names = sorted(rows["lclid"].unique())
    counts = [1 + round(share * len(names)) for share in SHARE_OF_HOMES]
    joined = {
        name: naive[0] if counts[0] <= i < counts[1] else naive[1] if i >= counts[1] else None
        for i, name in enumerate(names)
    }
    late = [(name, when) for name, when in joined.items() if when is not None]
    for name, when in late:
        rows = rows.filter((pl.col("lclid") != name) | (pl.col("ts") >= when))
    gone = names[: max(1, len(names) // 30)]
    rows = rows.filter(~pl.col("lclid").is_in(gone) | (pl.col("ts") < naive[5]))
    planted = (
        rows.select("ts").unique().with_columns(lclid=pl.lit(PLANTED), kwh=pl.lit(VALUE)).select("lclid", "ts", "kwh")
    )
    rows = pl.concat([rows, planted])
    first, second = folder / "readings.parquet", folder / "readings-renamed.parquet"
    rows.write_parquet(first)
    rows.rename({"kwh": "energy"}).write_parquet(second)
    return Town(first, second, (*counts, counts[-1] - len(gone)), ends)


# Six amendments ---------------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """The policy as it is from the end of a stretch on, and why; `options` are those of `hl.amend`."""

    said: str
    policy: dict[str, Any]
    options: dict[str, Any] = {}  # noqa: RUF012
    amends: bool = True


def list_policies(town: Town) -> list[list[Change]]:
    """Return the policy of the first stretch, and what changes before each of the others."""
    statistic = {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"}
    source = {"files": str(town.first), "time": "ts", "value": "kwh", "zone": "UTC"}
    use = {"name": "use", "share": 1.0, "source": source, "statistic": statistic, "output": "use.csv"}
    days = {
        **use,
        "name": "days",
        "share": 0.2,
        "step": "1 day",
        "output": "days.csv",
        "statistic": {**statistic, "clip": ["0", "50 kWh"]},
    }
    people = {"id": "london-for-years", "size": town.sizes[0], "person": "lclid"}
    policy: dict[str, Any] = {
        "population": people,
        "promise": {"notion": "w-event", "epsilon": 10, "w": "1 day"},
        "clock": {"step": "30 min", "start": "2013-01-01", "end": f"{town.ends[3]:%Y-%m-%d}", "late": "as-planned"},
        "streams": [use],
        "ledger": "london.ledger",
    }  # fmt: skip
    table = {**policy, "population": {**people, "size": "members.csv"}}
    longer = {**table, "clock": {**policy["clock"], "end": f"{town.ends[-1]:%Y-%m-%d}"}}
    both = {**longer, "streams": [{**use, "share": 0.8}, days]}
    renamed = {"files": str(town.second), "value": "energy"}
    other = {**both, "streams": [{**s, "source": {**source, **renamed}} for s in both["streams"]]}
    weaker = {**other, "promise": {**policy["promise"], "epsilon": 12}}
    return [
        [Change("begins", policy, amends=False)],
        [Change("new members", {**policy, "population": {**people, "size": town.sizes[1]}})],
        [Change("new members, by a public table from now on", table)],
        [Change("a later end (needs no amendment)", longer, amends=False), Change("an added stream", both)],
        [Change("a renamed column", other, {"same_meaning": True})],
        [Change("some leave: a row (needs no amendment)", other, amends=False), Change("another ε", weaker, {"weaken": True})],
        [Change("an ended stream", {**weaker, "streams": weaker["streams"][:1]})],
    ]  # fmt: skip


def write_members(out: Path, town: Town, stretch: int) -> None:
    """Write the public table of members as it is known in a stretch: it grows."""
    times = [START, town.ends[0], town.ends[1], town.ends[5]]
    known = list(zip(times, town.sizes, strict=True))[: 4 if stretch >= 5 else 3]
    lines = [f"{moment:%Y-%m-%d},{size}" for moment, size in known]
    (out / "members.csv").write_text("\n".join(["from,size", *lines]) + "\n", encoding="utf-8")


# Processes that are killed ------------------------------------------------------------------------------------------------------


def work(action: str, file: str, now: float, point: str | None, options: dict[str, Any]) -> None:
    """Publish or amend in a process of its own, and be killed at a checkpoint, if one is given."""

    def die(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    checkpoints.reach = die
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    if action == "publish":
        hl.publish(file, clock=lambda: now, wait=60)
    else:
        hl.amend(file, clock=lambda: now, by="the operator", **options)


@dataclass
class Year:
    """One ledger from its first step to its certificate, with what was seen on the way."""

    out: Path
    town: Town
    draw: random.Random = field(default_factory=lambda: random.Random(1))
    kills: Counter[str] = field(default_factory=Counter)
    lines: list[tuple[str, ...]] = field(default_factory=list)
    known: dict[tuple[str, int], bytes] = field(default_factory=dict)
    events: int = 0

    @property
    def file(self) -> Path:
        """The policy as it is now."""
        return self.out / "policy.yaml"

    def run(self, points: Callable[[str], Sequence[str]], moments: int) -> None:
        """Publish and amend, killed at these checkpoints of each action and at so many random moments of it."""
        for stretch, (changes, end) in enumerate(zip(list_policies(self.town), self.town.ends, strict=True)):
            before = self.town.ends[stretch - 1] if stretch else START
            write_members(self.out, self.town, stretch)
            for change in changes:
                self.file.write_text(json.dumps(change.policy, indent=2, ensure_ascii=False), encoding="utf-8")
                began, killed = time.time(), self.kills.total()
                if change.amends:
                    self._amend(change, before.timestamp(), points("amend"), moments)
                steps = self._publish(end.timestamp(), points("publish"), moments) if change is changes[-1] else 0
                told = (
                    f"{before:%-d %b}",
                    change.said,
                    f"{steps:,}",
                    f"{self.kills.total() - killed}",
                    f"{time.time() - began:.0f} s",
                )
                self.lines.append(told)

    def _publish(self, now: float, points: Sequence[str], moments: int) -> int:
        before = len(self.known)
        for point in points:
            self._kill("publish", now, point, None, {})
        for _ in range(moments):
            self._kill("publish", now, None, self.draw.random() * 1.5, {})
        hl.publish(self.file, clock=lambda: now)
        self._check_ledger()
        return len(self.known) - before

    def _amend(self, change: Change, now: float, points: Sequence[str], moments: int) -> None:
        options = {"reason": change.said, **change.options}
        try:
            hl.amend(self.file, clock=lambda: now, by="the operator", dry_run=True, **options)
        except HalflifeError as error:
            found = re.search(r"--begin '([^']+)'", str(error))
            if not found:
                raise
            options["begin"] = found[1]
        for point in points:
            self._kill("amend", now, point, None, options)
        for _ in range(moments):
            self._kill("amend", now, None, self.draw.random() * 0.5, options)
        if self._count_events() == self.events:
            hl.amend(self.file, clock=lambda: now, by="the operator", **options)
        self.events += 1
        self._check_ledger()

    def _kill(self, action: str, now: float, point: str | None, after: float | None, options: dict[str, Any]) -> None:
        """Run an action in a process of its own that is killed, and see that nothing that was committed has changed."""
        child = CONTEXT.Process(target=work, args=(action, str(self.file), now, point, options))
        child.start()
        if after is not None:
            time.sleep(after)
            child.kill()
        child.join()
        if child.exitcode == -signal.SIGKILL:
            self.kills[f"{action}: {point or 'at a random moment'}"] += 1
        self._check_ledger()

    def _count_events(self) -> int:
        with open_ledger(str(self.out / "london.ledger"), read_only=True) as book:
            return len(book.events())

    def _check_ledger(self) -> None:
        """See that every committed value is there as it was, and that at most one amendment was recorded more."""
        file = self.out / "london.ledger"
        if not file.exists():
            return
        try:
            with open_ledger(str(file), read_only=True) as book:
                now = {(e.stream, e.step): e.noisy.tobytes() for e in book.entries()}
                events = len(book.events())
        except HalflifeError:  # killed before its tables were made
            now, events = {}, 0
        assert all(now.get(key) == value for key, value in self.known.items()), (
            "a committed value was lost or drawn again"
        )
        assert self.events <= events <= self.events + 1, "an amendment was lost, or recorded twice"
        self.known = now


# What readers can see -----------------------------------------------------------------------------------------------------------


def certify(out: Path, now: float) -> Path:
    """Certify all that was published, signed, as a file and as a page; return the file."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, form = Ed25519PrivateKey.generate(), serialization
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    (out / "private" / "key.pem").write_bytes(private)
    public = key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    (out / "public.pem").write_bytes(public)
    made = hl.certify(out / "policy.yaml", key=out / "private" / "key.pem", clock=lambda: now)
    file = out / "certificate.json"
    file.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    write_certificate_page(made, out / "certificate.html")
    return file


def change_bytes(file: Path, positions: int) -> tuple[int, int]:
    """Change one byte of a certificate at each of many positions; return how many change what it says, and how many are noticed.

    The last digit of a number may change without another number: both are the same double.
    """
    text, noticed = file.read_bytes(), 0
    places = sorted({len(text) * k // positions for k in range(positions)})
    beside = file.with_name("changed.json")
    for place in list(places):
        changed = text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :]
        beside.write_bytes(changed)
        if _says_same(text, changed):
            places.remove(place)
            continue
        try:
            noticed += not hl.check_certificate(beside, public_key=file.with_name("public.pem")).good
        except HalflifeError:
            noticed += 1
    beside.unlink()
    return len(places), noticed


def _says_same(text: bytes, changed: bytes) -> bool:
    try:
        return bool(json.loads(text) == json.loads(changed))
    except ValueError:
        return False


def search_public(out: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield where a public file holds the planted home, its readings, or anybody's name."""
    needles = [PLANTED.encode(), b"3.1415926", b"31415926", struct.pack("<d", VALUE), struct.pack("<d", VALUE * 1000)]
    needles += [name.encode() for name in names]
    pattern = re.compile(b"|".join(map(re.escape, needles)))
    for path in sorted(out.iterdir()):
        private = path.name.endswith(".operator.jsonl") or path.is_dir()
        if not private and (found := pattern.search(path.read_bytes())):
            yield f"{path.name}: {found[0]!r}"


def run_year(
    out: Path, data: Path | None, days: int = 365, homes: int = 325, points: int = 99, moments: int = 2
) -> Year:
    """Run all of it in a folder; `points` is how many of each action's checkpoints it is killed at."""
    town = make_town(data, out / "private", days, homes)
    year = Year(out, town)
    year.run(lambda action: (AMENDING if action == "amend" else checkpoints.CHECKPOINTS)[:points], moments)
    return year


def main() -> None:
    """Run from the command line, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder that holds {LONDON}")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        default=Path("halflife-amendments"),
        help="a new folder; default: %(default)s",
    )
    chosen = parser.parse_args()
    folder = find_data(chosen.data, (LONDON,))
    places = [folder] if folder else [HERE / "data", HERE.parents[2] / "shared" / "data"]
    data = next((place for place in places if (place / LONDON).is_file()), None)
    if data is None:
        print(f"{LONDON} is not here: running on generated homes. Give its folder with --data.", file=sys.stderr)
    if chosen.out.exists() and any(chosen.out.iterdir()):
        sys.exit(f"Error: {chosen.out} is not empty: a ledger goes on for ever, so give a new folder (--out)")
    began = time.time()
    year = run_year(chosen.out, data)
    print(f"{'from':<8}{'what changes':<56}{'steps':>8}{'kills':>7}{'time':>8}")
    for when, said, steps, kills, took in year.lines:
        print(f"{when:<8}{said:<56}{steps:>8}{kills:>7}{took:>8}")
    tell_end(year, began)


def tell_end(year: Year, began: float) -> None:
    """Verify, certify, change bytes, search, and print what came of it."""
    file, end = year.out / "policy.yaml", year.town.ends[-1].timestamp()
    now, verdict = time.time(), hl.verify(file)
    print(
        f"\nkilled {year.kills.total()} times: " + ", ".join(f"{n} {point}" for point, n in sorted(year.kills.items()))
    )
    print(f"verify: {len(verdict.problems)} problems in {len(year.known):,} steps, {time.time() - now:.0f} s")
    certificate = certify(year.out, end)
    checked = hl.check_certificate(
        certificate, Policy.load(file), public_key=year.out / "public.pem", clock=lambda: end
    )
    content = json.loads(certificate.read_text(encoding="utf-8"))["certificate"]
    counts = f"{len(content['amendments'])} amendments, {len(content['promises'])} promises"
    print(f"certificate: {len(checked.problems)} problems, {counts}")
    for promise in content["promises"]:
        print(f"  ε = {promise['notion']['epsilon']:g}: at most {promise['risk']['largest']:.6g}")
    places, noticed = change_bytes(certificate, 2_000)
    print(f"one byte changed at {places:,} places where that says something else: noticed {noticed:,} times")
    names = pl.read_parquet(year.town.first, columns=["lclid"])["lclid"].unique().to_list()
    found = list(search_public(year.out, names))
    print(f"a planted home, its readings and {len(names):,} names in public files: {found or 'none'}")
    print(f"all of it: {time.time() - began:.0f} s")
    if verdict.problems or checked.problems or noticed < places or found:
        sys.exit("something is wrong")


if __name__ == "__main__":
    main()
