"""A small town for the publisher's tests: its readings, its policies, and a process that dies where it is told to."""

from __future__ import annotations

import csv
import json
import random
import signal
from pathlib import Path

import halflife as hl
from forked import finish, start
from halflife.ledger import open_ledger
from halflife.publisher.saved import SavedStates
from halflife.publisher.secrets_at_rest import NoiseKeys
from publisher.children import publish_and_die

HOMES, STEPS = 5, 24
LOUD = 1_000_000.0
"""An epsilon that leaves next to no noise, so that published values show the exact ones."""


def readings(homes=HOMES, steps=STEPS, seed=1):
    """(home, time, kWh) of hourly readings from 2026-01-01 on, in Wh."""
    draw = random.Random(seed)
    return [
        (f"h{h}", f"2026-01-{1 + k // 24:02d}T{k % 24:02d}:30:00", draw.randrange(0, 3000) / 1000)
        for k in range(steps)
        for h in range(homes)
    ]


def write_readings(folder: Path, rows=None) -> Path:
    path = folder / "readings.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["home", "time", "kwh"])
        out.writerows(readings() if rows is None else rows)
    return path


def exact_means(rows=None, steps=STEPS):
    sums = [0] * steps
    for _, time, kwh in readings() if rows is None else rows:
        sums[int(time[8:10]) * 24 - 24 + int(time[11:13])] += round(1000 * kwh)
    return [s / 1000 / HOMES for s in sums]


def policy_dict(epsilon=1.0, output="mean.csv", **changes):
    """A policy as plain data; `stream`, `promise`, … are merged into their part."""
    stream = {
        "name": "mean",
        "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
        "statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
        "output": output,
    }
    data = {
        "population": {"id": "town", "size": HOMES, "person": "home"},
        "promise": {"notion": "w-event", "epsilon": epsilon, "w": 6},
        "clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-02"},
        "streams": [stream],
        "ledger": "town.ledger",
    }
    for key, value in changes.items():
        part = stream if key == "stream" else stream["statistic"] if key == "statistic" else data[key]
        part.update(value) if isinstance(part, dict) else data.update({key: value})
    return data


def make(folder: Path, **changes) -> hl.Policy:
    """Write a policy file (JSON is YAML) and load it."""
    path = folder / "policy.yaml"
    path.write_text(json.dumps(policy_dict(**changes)))
    return hl.Policy.load(path)


def read_csv(path: Path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def kept_noise(policy: hl.Policy) -> dict[str, list[int]]:
    """The numbers of all noise that a ledger keeps, by name, opened with its key: {} if nothing was published, or all is over."""
    with open_ledger(policy.ledger_url, read_only=True) as book:
        state = SavedStates(policy, book, NoiseKeys(policy)).draw.state()
    return {name: kept["units"] for name, kept in state.items()}


def run_and_die(folder: Path, point: str, number: int = 1, batch: int = 5) -> int:
    """Publish in a process of its own that is killed at the n-th passing of a point; return how it ended."""
    return finish(start(publish_and_die, str(folder / "policy.yaml"), point, number, batch))


KILLED = -signal.SIGKILL
