"""Swellfish policies: a household's events at any moment of their hiding intervals, as its meter would have shown them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import halflife as hl
from attacks.promises.densities import epsilon_at
from attacks.promises.people import Move, Reading, exact_totals, frame_of, other_people, rows_of
from attacks.promises.publishing import Run, empty, run_publisher, see_noise
from attacks.promises.towns import START_US, text
from attacks.promises.verdicts import Case
from halflife.policy import Channel, channels

HOURS = 8


class Event(NamedTuple):
    """A secret as it was written: power in kW, hours from the start of the clock."""

    power: float
    duration: float
    start: float
    end: float
    epsilon: float

    def as_text(self) -> dict[str, str]:
        return {
            "what": "oven", "start": _moment(self.start), "end": _moment(self.end), "power": f"{self.power} kW",
            "duration": f"{round(self.duration * 60)} min", "epsilon": text(self.epsilon),
        }  # fmt: skip


def _moment(hours: float) -> str:
    minutes = round(hours * 60)
    return f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}"


def random_events(rng: random.Random) -> list[Event]:
    made = []
    for i in range(rng.randint(1, 3)):
        length = rng.choice([0.5, 1.0, 1.0, 1.5, 2.0, 2.5])
        start = rng.choice([0.0, 0.5, 1.0, 2.0, 3.25])
        end = start + max(length, rng.choice([1.0, 2.0, 3.5, 4.0]))
        made.append(Event(rng.choice([0.5, 1.0, 3.0]), length, start, end, rng.choice([0.5, 1.0, 2.0]) + i / 64))
    return made


def random_secret_policy(rng: random.Random, homes: Mapping[str, Sequence[Event]], folder: Path) -> dict[str, Any]:
    power = rng.random() < 0.35
    fold = (
        rng.choice(["mean", "last", "max", "first", "min"])
        if power
        else rng.choice(["sum", "sum", "sum", "mean", "last"])
    )
    resolution, unit = rng.choice(["0.1", "0.5", "1"]), "kW" if power else "kWh"
    streams = []
    for i in range(rng.choice([1, 1, 2])):
        statistic: dict[str, Any] = {
            "kind": rng.choice(["sum", "sum", "mean", "weighted sum"]) if i == 0 else streams[0]["statistic"]["kind"],
            "unit": unit, "resolution": resolution, "clip": ["0", rng.choice(["5", "20"])], "fold": fold,
        }  # fmt: skip
        if rng.random() < 0.3:
            statistic["clip_readings"] = ["0", rng.choice(["1", "3", "20"])]
        if statistic["kind"] == "weighted sum":
            statistic["weights"] = {
                "file": "homes.csv",
                "person": "who",
                "weight": "weight",
                "resolution": "0.5",
                "largest": "2",
            }
        stream = {
            "name": f"s{i}", "source": {"files": "readings.csv", "time": "ts", "value": "v"}, "statistic": statistic,
            "output": f"s{i}.jsonl",
        }  # fmt: skip
        if rng.random() < 0.3:
            stream["groups"] = {"table": {"file": "homes.csv", "person": "who", "group": "where"}}
        if rng.random() < 0.2:
            stream["delay"] = "1 h"
        streams.append(stream)
    promise: dict[str, Any] = {
        "notion": "swellfish", "neighbours": rng.choice(["one-event", "one-window", "all-events"]),
        "specifications": {"readings": "2", "households": {name: [e.as_text() for e in some] for name, some in homes.items()}},
    }  # fmt: skip
    promise |= {"floor": f"0.3 {unit}"} if rng.random() < 0.3 else {"outside": "exact"}
    if rng.random() < 0.2:
        promise |= {"delta": "1e-3", "noise": rng.choice(["laplace", "gaussian"])}
    if rng.random() < 0.25:
        promise["plan"] = rng.choice(["paper", "tight"])
    if rng.random() < 0.15:
        promise["block"] = "2 h"
    return {
        "population": {"id": "town", "size": "4", "person": "who"}, "promise": promise,
        "clock": {"step": "1 h", "start": "2026-01-01", "end": f"2026-01-01T{HOURS:02}:00"},
        "streams": streams, "ledger": str(folder / "l.ledger"),
    }  # fmt: skip


# What a meter shows -----------------------------------------------------------------------------------------------------

Usage = list[tuple[float, float, float]]
"""(from, to, kW) in hours."""
PARTS = ((0.0, 0.5), (0.5, 1.0))


def metered(channel: Channel, base: Sequence[Sequence[float]], usage: Usage) -> list[Move]:
    """Two readings a step: energies of half a step each, or power at a moment of it."""
    energy = channel.part.statistic.unit == "kWh"
    moves: list[Move] = []
    for k, row in enumerate(base):
        readings = []
        for x, (start, end) in zip(row, PARTS, strict=True):
            at = (start + end) / 2
            if energy:
                more = sum(kw * max(0.0, min(k + end, b) - max(k + start, a)) for a, b, kw in usage)
            else:
                more = sum(kw for a, b, kw in usage if a <= k + at < b)
            readings.append(Reading(at, x + more))
        moves.append(tuple(readings))
    return moves


def steps_of(event: Event) -> range:
    """The steps that a hiding interval touches, from 1."""
    return range(math.floor(event.start) + 1, math.ceil(event.end) + 1)


def usages(rng: random.Random, events: Sequence[Event], event: Event, reading: str) -> Iterator[Usage]:
    """What a household may have used more than a neighbour of it."""
    for _ in range(3):
        if reading == "one-event":
            yield [_once(rng, event)]
        elif reading == "all-events":
            yield [_once(rng, e) for e in events]
        else:
            steps, length = list(steps_of(event)), math.ceil(event.duration)
            first = rng.randrange(max(1, len(steps) - length + 1))
            yield [(t - 1, t, sum(e.power for e in events if t in steps_of(e))) for t in steps[first : first + length]]


def _once(rng: random.Random, event: Event) -> tuple[float, float, float]:
    latest = event.end - event.duration
    start = rng.choice([event.start, latest, rng.uniform(event.start, latest), min(latest, math.ceil(event.start))])
    return (start, start + event.duration, event.power)


# The attack -------------------------------------------------------------------------------------------------------------


def attack_secrets(seed: int, folder: Path) -> tuple[Case, str, bool]:
    """One random policy about secrets: refused, or published with known noise and attacked with events."""
    rng, case = random.Random(seed), Case("secret", seed)
    homes = {name: random_events(rng) for name in rng.sample(["p0", "p1", "p3"], rng.randint(1, 2))}
    data = random_secret_policy(rng, homes, folder)
    empty(folder)
    try:
        policy = hl.Policy.from_dict(data, folder)
    except hl.HalflifeError:
        return case, "swellfish", False
    made = channels(policy)
    home = rng.choice(list(homes))
    others = {c.name: other_people(rng, c, HOURS, home) for c in made}
    base = {c.name: [[rng.uniform(0, 1.5) for _ in PARTS] for _ in range(HOURS)] for c in made}
    before = {c.name: metered(c, base[c.name], []) for c in made}
    exact = {c.name: exact_totals(c, [*others[c.name], *rows_of(c, home, before[c.name])], HOURS) for c in made}
    frames = {c.name: frame_of(c, [*others[c.name], *rows_of(c, home, before[c.name])]) for c in made}
    try:
        run, drawn = run_publisher(policy, frames, [START_US / 1e6 + 3600 * 12], seed)
    except hl.HalflifeError:
        return case, "swellfish", False  # a promise without room: nothing comes out, which is safe
    run, wrong = see_noise(run, exact, drawn)
    case.expect("numbers have the noise that their releases state", not wrong, (wrong[:2], data))
    notion: Any = policy.notion
    used = hl.Accountant.replay(notion, run.releases).used()
    for event in homes[home]:
        for usage in usages(rng, homes[home], event, notion.neighbours):
            totals = {}
            for c in made:
                rows = [*others[c.name], *rows_of(c, home, metered(c, base[c.name], usage))]
                totals[c.name] = exact_totals(c, rows, HOURS) - exact[c.name]
            found = lost(run, totals, steps_of(event), notion.delta)
            case.compare("promise", found, event.epsilon, (event, usage, data))
            if not notion.delta:
                case.compare("account", found / event.epsilon, used, (event, usage, data))
    return case, "swellfish", True


def lost(run: Run, changes: Mapping[str, Any], within: range, delta: float) -> float:
    """What the outputs about these steps tell of the changes."""
    losses: list[float] = []
    squares = 0.0
    for o in run.outputs:
        moved = np.abs(changes[o.stream][o.step - 1].astype(np.float64))
        if o.data_time not in within or not moved.any():
            continue
        if o.fresh == 0:
            return math.inf
        if o.noise == "gaussian":
            squares += float((moved * moved).sum()) / o.fresh**2
        else:
            losses += (moved[moved > 0] / o.fresh).tolist()
    return epsilon_at(losses, delta, math.sqrt(squares))
