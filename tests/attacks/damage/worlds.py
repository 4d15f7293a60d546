"""Small worlds that were published for six steps: what the damage is done to.

A world is a folder with a policy, its readings, its ledger and its outputs. Every notion has one; what files its readings and
outputs are, its post-processing, groups and number of streams are drawn at random. Noise comes from a seed here, so that a case
is the same each time; a release takes none.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import sqlite3
import tempfile
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import halflife as hl
from halflife import noise
from halflife.engines import Answer
from halflife.ledger.entry import first_link
from halflife.publisher import backfill
from halflife.publisher.secrets_at_rest.kept import open_kept, read_kept
from halflife.publisher.secrets_at_rest.places import key_ring
from halflife.publisher.secrets_at_rest.sealing import read_keys

START = 1_767_225_600
"""2026-01-01, when step 1 begins; a step is an hour."""
PEOPLE = ("elspeth-40917", "ignatius-77213", "oluwaseun-15886", "wilhelmina-60342", "zebulon-98125")
ZONES = ("north", "south")
HEADER = ("home", "time", "kwh", "zone")
STEPS = 24
ROUNDS = (2, 4, 6)
"""Hours after which a world was published."""

PROMISES: dict[str, dict[str, Any]] = {
    "classical": {"notion": "classical", "epsilon": 1.0},
    "w-event": {"notion": "w-event", "epsilon": 1.0, "w": 6},
    "exponential": {"notion": "exponential", "epsilon": 1.0, "half_life": "5 h"},
    "hyperbolic": {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.5},
    "weak": {
        "notion": "almost-periodic", "epsilon": 1.0, "period": "4 h", "variations": "public", "readings": "complete",
        "rounding": "none",
    },
    "strong": {"notion": "almost-periodic", "epsilon": 1.0, "period": "4 h", "strong": True},
    "age-dependent": {
        "notion": "age-dependent", "epsilon": 1.0,
        "process": {"name": "markov-chain", "matrix": [[0.85, 0.15], [0.1, 0.9]]},
    },
    "swellfish": {
        "notion": "swellfish", "neighbours": "one-window", "outside": "exact",
        "specifications": {"files": "secrets.json", "readings": 1},
    },
}  # fmt: skip
GROUPED = ("classical", "w-event", "exponential", "hyperbolic")
SECRETS = {"flat 9": [{"power": 3, "duration": 2, "start": 3, "end": 18, "epsilon": 1}]}
SOURCES = ("readings.csv", "readings.csv.gz", "readings.parquet", "readings.sqlite", "readings.duckdb")
OUTPUTS = (".csv", ".jsonl", ".parquet", "/", "-")
POST = ([], [], [{"moving_average": 3}], [{"truncate": ["0", "50 kWh"]}], [{"kalman": "0.3 kWh"}])

Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class World:
    """A published folder, and copies of it as it was after each earlier round.

    older, older_states  the copies, and the states that their ledgers hold
    fork                 the last older copy after it went on without this one: as many entries, other noise
    rows, source         its readings, and the file they are in;  targets  where each stream's readers look, within the folder
    private              what no text may say: people's names, readings, exact totals, and the digits of reused noise
    """

    name: str
    notion: str
    folder: Path
    older: tuple[Path, ...]
    older_states: tuple[dict[str, str], ...] = field(repr=False)
    fork: Path
    rows: Rows = field(repr=False)
    source: str
    targets: dict[str, str]
    private: re.Pattern[str] = field(repr=False)


class SeededSampler:
    """OpenDP's sampler with its own map, and numbers from a seed."""

    source = np.random.default_rng(0)

    def __init__(self, family: str, spread: float) -> None:
        self._family, self._spread = family, spread
        self.map = REAL_SAMPLER(family, spread).map

    def __call__(self, count: int) -> list[int]:
        sample = self.source.laplace if self._family == "laplace" else self.source.normal
        return [int(x * self._spread) for x in sample(0.0, 1.0, count)]


REAL_SAMPLER = noise._sampler


@contextmanager
def a_place():
    """A folder for worlds that is gone afterwards: in memory if it can be, as nothing there must outlast a power cut."""
    shared = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=shared, prefix="halflife-damage-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def seeded_noise(seed: int):
    """Draw noise from a seed, for worlds that nobody lives in."""
    SeededSampler.source = np.random.default_rng(seed)
    noise._sampler = SeededSampler
    try:
        yield
    finally:
        noise._sampler = REAL_SAMPLER


@contextmanager
def exact_noise():
    """Draw noise that is nothing, so that what is published is the exact sum."""
    noise._sampler, before = SilentSampler, noise._sampler
    try:
        yield
    finally:
        noise._sampler = before


class SilentSampler(SeededSampler):
    """A sampler of zeros."""

    def __call__(self, count: int) -> list[int]:
        return [0] * count


class Totals:
    """An engine that knows its answers: in place of DuckDB where the readings are as they were."""

    def __init__(self, rows: Rows) -> None:
        self._sums = exact_totals(rows)

    def aggregate(self, question: Any) -> Answer:
        """The totals by step, and by zone if there are groups."""
        part = self._sums[question.first - 1 : question.last]
        return Answer((part if question.groups else part.sum(1, keepdims=True))[:, :, None], {"rows": 0})

    def close(self) -> None:
        """Nothing is open."""


def exact_totals(rows: Rows) -> np.ndarray:
    """Totals in units by step and zone, by hand."""
    sums = np.zeros((STEPS, len(ZONES)), dtype=np.int64)
    for i, row in enumerate(rows):
        sums[i // len(PEOPLE), ZONES.index(row[3])] += int(row[2].replace(".", ""))
    return sums


@contextmanager
def known_totals(rows: Rows):
    """Publish these readings without reading any file, which takes most of the time."""
    real, backfill.open_source = backfill.open_source, lambda *a, **k: Totals(rows)
    try:
        yield
    finally:
        backfill.open_source = real


def clock(hours: float):
    """A clock that stands so many hours after the start."""
    return lambda: START + 3600 * hours


def readings(draw: random.Random) -> Rows:
    """(person, time, kWh, zone); six decimals, which no other number is likely to have."""
    return [
        (person, f"2026-01-01T{hour:02d}:30:00", f"{draw.randrange(1, 9)}.{draw.randrange(10**5, 10**6)}", ZONES[i % 2])
        for hour in range(STEPS)
        for i, person in enumerate(PEOPLE)
    ]


def write_source(path: Path, rows: Rows, header: tuple[str, ...] = HEADER, end: str = "\n") -> None:
    """Write readings in the format that the ending names."""
    path.unlink(missing_ok=True)
    text = end.join([",".join(header), *(",".join(row) for row in rows), ""])
    if path.suffix == ".csv":
        path.write_bytes(text.encode())
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
    elif path.suffix == ".parquet":
        columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(len(header))]
        columns = [c.cast(pa.float64()) if n.lower() == "kwh" else c for n, c in zip(header, columns, strict=True)]
        pq.write_table(pa.table(columns, list(header)), path)
    else:
        marks, names = ", ".join("?" * len(header)), ", ".join(f'"{name}" TEXT' for name in header)
        base: Any = sqlite3.connect(path) if path.suffix == ".sqlite" else duckdb.connect(str(path))
        base.execute(f"CREATE TABLE readings ({names})")
        if rows:
            base.executemany(f"INSERT INTO readings VALUES ({marks})", rows)
        base.commit() if path.suffix == ".sqlite" else None
        base.close()


def policy_of(
    notion: str, source: str, outputs: list[str], post: list[dict[str, Any]], grouped: bool
) -> dict[str, Any]:
    """A policy as plain data, with a stream for each output."""
    table = {"table": "readings"} if source.endswith((".sqlite", ".duckdb")) else {}
    streams = []
    for i, output in enumerate(outputs):
        name = ("first", "second")[i]
        stream: dict[str, Any] = {
            "name": name,
            "source": {"files": source, "time": "time", "value": "kwh", **table},
            "statistic": {
                "kind": "sum", "unit": "kWh", "resolution": "0.000001 kWh", "clip": ["0", "10 kWh"], "fold": "sum",
            },
            "output": output if output == "-" else f"{name}{output}",
        }  # fmt: skip
        if notion == "age-dependent":
            stream["delay"] = "1 h"
        if grouped:
            stream["groups"] = {"names": list(ZONES), "most_per_person": 1}
            stream["source"]["group"] = "zone"
        if post:
            stream["post"] = post
        streams.append(stream)
    return {
        "population": {"id": "town", "size": len(PEOPLE), "person": "home"},
        "promise": PROMISES[notion],
        "clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-02"},
        "streams": streams,
        "ledger": "town.ledger",
    }


def publish(folder: Path, hours: float, rows: Rows) -> None:
    """Publish; what goes to the standard output is kept in a file, as a reader would."""
    out = io.StringIO()
    with redirect_stdout(out), known_totals(rows):
        hl.publish(hl.Policy.load(folder / "policy.yaml"), clock=clock(hours))
    with (folder / "stdout.jsonl").open("a") as file:
        file.write(out.getvalue())


def build(notion: str, place: Path, draw: random.Random) -> World:
    """Make a world and publish it for a few rounds, keeping a copy of each."""
    folder = place / "newest"
    folder.mkdir(parents=True)
    source, post = draw.choice(SOURCES), draw.choice(POST)
    outputs, grouped = draw.sample(OUTPUTS, draw.choice((1, 1, 2))), notion in GROUPED and draw.random() < 0.4
    rows, with_log = readings(draw), draw.random() < 0.4
    write_source(folder / source, rows)
    (folder / "secrets.json").write_text(json.dumps({"households": SECRETS}))
    data = policy_of(notion, source, outputs, post, grouped)
    (folder / "policy.yaml").write_text(json.dumps(data))
    older, states, reader = [], [], None
    for number, hours in enumerate(ROUNDS):
        publish(folder, hours, rows)
        if with_log and reader is None:  # a reader that stays keeps the write-ahead log beside the ledger
            reader = sqlite3.connect(folder / "town.ledger")
            reader.execute("SELECT count(*) FROM entry").fetchone()
        if number < len(ROUNDS) - 1:
            older.append(Path(shutil.copytree(folder, place / f"older{number}")))
        states.append(read_table(folder, "state"))
    noises = reused_noise(states[-1], read_table(folder, "fact"))
    fork = Path(shutil.copytree(older[-1], place / "fork"))
    publish(fork, ROUNDS[-1], rows)
    if reader is not None:
        folder = Path(shutil.copytree(folder, place / "with-log"))
        reader.close()
    targets = {s["name"]: "stdout.jsonl" if s["output"] == "-" else s["output"] for s in data["streams"]}
    kinds = [
        source.partition(".")[2],
        *outputs,
        *(k for p in post for k in p),
        *["groups"] * grouped,
        *["log"] * with_log,
    ]
    name = f"{notion} ({', '.join(kinds)})"
    private = private_texts(notion, rows, noises)
    return World(name, notion, folder, tuple(older), tuple(states[:-1]), fork, rows, source, targets, private)


def private_texts(notion: str, rows: Rows, noises: dict[str, list[int]]) -> re.Pattern[str]:
    """What must be in no error, log or verdict. Reused noise is looked for in pieces of nine digits."""
    numbers = {row[2] for row in rows}
    if notion != "swellfish":  # which publishes exact values where nobody hides anything
        for hour in range(STEPS):
            cells = [int(row[2].replace(".", "")) for row in rows[hour * len(PEOPLE) : (hour + 1) * len(PEOPLE)]]
            for total in (sum(cells), sum(cells[::2]), sum(cells[1::2])):
                numbers |= {str(total), f"{total / 10**6:.6f}"}
    digits = [str(abs(n)) for units in noises.values() for n in units]
    pieces = {d[i : i + 9] for d in digits for i in range(max(1, len(d) - 8)) if len(d) > 6}
    whole = "|".join(map(re.escape, sorted(numbers)))
    return re.compile("|".join([rf"(?<![\d.])(?:{whole})(?!\d)", *PEOPLE, *sorted(pieces)]))


def read_table(folder: Path, table: str) -> dict[str, str]:
    """The states or facts that a ledger holds."""
    db = sqlite3.connect(folder / "town.ledger")
    rows = dict(db.execute(f"SELECT * FROM {table}"))
    db.close()
    return rows


def reused_noise(states: dict[str, str], facts: dict[str, str]) -> dict[str, list[int]]:
    """The units of noise that is used again, by the name of its draw, opened with its key; without what does not open."""
    found = {}
    for name, value in states.items():
        if name.startswith("stream:"):
            try:
                state = {"noise": {}, "mechanism": None, "sealed": None, "destroyed": [], **json.loads(value)}
                kept = read_kept(state)
                if kept.key is not None:
                    key = read_keys((key_ring() / f"{kept.key}.key").read_text())[0]
                    kept = open_kept(key, first_link(facts), name.removeprefix("stream:"), kept)
                found |= {draw: one["units"] for draw, one in kept.noise.items()}
            except (hl.HalflifeError, ValueError, AttributeError, TypeError, LookupError, OSError):
                continue
    return found
