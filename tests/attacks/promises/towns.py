"""Random policies for a handful of people: most are sound, some are not, and which is for the policy to find."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import halflife as hl
from attacks.promises.ageing import random_kernel

PEOPLE = ("p0", "p1", "p2", "p3")
HOMES = "who,where,weight\np0,north,2\np1,south,-3\np2,north,0.6\np3,south,9\n"
START_US = 1_767_225_600_000_000
"""2026-01-01 in UTC, when step 1 of every clock here begins."""
HOUR_US = 3_600_000_000
NOTIONS = (
    "classical", "w-event", "w-event", "exponential", "hyperbolic", "gaussian-discount", "age-dependent", "age-dependent",
    "almost-periodic", "almost-periodic", "almost-periodic",
)  # fmt: skip
FOLDS = ("sum", "sum", "last", "first", "mean", "min", "max")


def write_tables(folder: Path) -> Path:
    """The public tables that policies refer to."""
    (folder / "homes.csv").write_text(HOMES)
    return folder


def text(x: Fraction | float) -> str:
    """A number as a policy has it."""
    return str(float(x))


@dataclass(frozen=True, eq=False)
class Drawn:
    """A policy as plain data; how many steps of the clock it is run for; and how a person moves whose process was counted."""

    data: dict[str, Any]
    steps: int = 10
    kernel: NDArray[np.float64] | None = None


def random_policy(rng: random.Random, folder: Path) -> Drawn:
    """One or two streams of hours in UTC, now and then of days, or of hours across a change of clocks."""
    notion = rng.choice(NOTIONS)
    steps = rng.randint(2, 8)
    kernel = random_kernel(rng, 2)
    promise = random_promise(rng, notion, steps, kernel)
    wanders = promise.get("process", {}).get("name") == "autoregressive"
    streams = [random_stream(rng, promise, i, steps) for i in range(1 if wanders else rng.choice([1, 1, 1, 2]))]
    if len(streams) > 1 and rng.random() < 0.4:
        for stream, share in zip(streams, rng.choice([("0.5", "0.5"), ("0.25", "0.7"), ("0.9", "0.2")]), strict=True):
            stream["share"] = share
    population: dict[str, Any] = {"id": "town", "size": str(rng.randint(4, 6)), "person": "who"}
    if rng.random() < (0.05 if notion in ("age-dependent", "almost-periodic") else 0.3):
        population["neighbours"] = "add-remove"
    clock: dict[str, Any] = {"step": "1 h", "start": "2026-01-01"}
    if rng.random() < 0.6:
        clock["end"] = f"2026-01-01T{steps:02}:00"
    if rng.random() < 0.5:
        clock["late"] = "as-planned"
    if wanders:  # the fewer numbers, the nearer one of them comes to the bound
        clock["end"], streams[0]["delay"] = f"2026-01-01T0{rng.choice([1, 1, 2])}:00", f"{rng.randint(1, 3)} h"
    if "horizon" in promise:
        clock["end"] = f"2026-01-01T{steps:02}:00"
    data = {
        "population": population, "promise": promise, "clock": clock, "streams": streams, "ledger": str(folder / "l.ledger"),
    }  # fmt: skip
    return _other_calendar(rng, data) if rng.random() < 0.08 else Drawn(data, 10, kernel)


def _other_calendar(rng: random.Random, data: dict[str, Any]) -> Drawn:
    """Local days, days of an account of hours, or hours of which a day has 23: the clocks change on 29 March."""
    data["clock"] |= {"zone": "Europe/London", "start": "2026-03-28"}
    data["clock"].pop("end", None)
    for stream in data["streams"]:
        for key in ("start", "step", "delay"):
            stream.pop(key, None)
    if (
        data["promise"]["notion"] in ("classical", "exponential", "hyperbolic", "gaussian-discount")
        and rng.random() < 0.7
    ):
        data["streams"][0]["step"] = "1 day"
        return Drawn(data, 75)
    if data["promise"]["notion"] == "almost-periodic" and rng.random() < 0.7:
        data["promise"]["period"] = "1 day"
        return Drawn(data, 75)
    data["clock"]["step"] = "1 day"
    return Drawn(data, 6)


def random_promise(rng: random.Random, notion: str, steps: int, kernel: NDArray[np.float64]) -> dict[str, Any]:
    promise: dict[str, Any] = {"notion": notion, "epsilon": rng.choice(["0.5", "1", "2.5"])}
    plans = {
        "classical": ["tight", "paper", "constant"],
        "age-dependent": ["tight", "paper"],
        "gaussian-discount": ["tight"],
    }
    if rng.random() < 0.3:
        promise["plan"] = rng.choice([*plans.get(notion, ["tight", "paper", "constant"]), "optimal"])
    if notion in ("classical", "w-event") and rng.random() < 0.15:
        promise["delta"] = rng.choice(["1e-3", "1e-6"])
        if rng.random() < 0.5:
            promise["noise"] = rng.choice(["laplace", "gaussian"])
    if notion == "w-event":
        promise["w"] = str(rng.randint(1, 4))
    elif notion == "exponential":
        promise |= rng.choice([{"alpha": "0.5"}, {"half_life": "3"}, {"half_life": "2 h"}])
    elif notion == "hyperbolic":
        promise["beta"] = rng.choice(["0.1", "1", "5"])
    elif notion == "gaussian-discount":
        promise |= {"delta": "1e-3", **rng.choice([{"alpha": "0.7"}, {"beta": "0.5"}])}
    elif notion == "almost-periodic":
        promise |= _periodic(rng, steps)
    elif notion == "age-dependent":
        promise["process"] = process = _process(rng, kernel)
        if process["name"] == "autoregressive":
            promise.pop("plan", None)
        if rng.random() < 0.1 or process["name"] == "empirical":
            promise["horizon"] = str(max(steps, len(process.get("bounds", [steps]))))
    return promise


def _periodic(rng: random.Random, steps: int) -> dict[str, Any]:
    found: dict[str, Any] = {"period": str(rng.randint(1, max(1, min(3, steps // 2))))}
    if rng.random() < 0.5:
        found["strong"] = "yes"
    else:
        found |= {"variations": "public", "readings": "complete", "rounding": "none"}
    if rng.random() < 0.15:
        found |= {
            "renew": "2",
            "over": rng.choice([{"notion": "w-event", "w": "3"}, {"notion": "exponential", "alpha": "0.5"}]),
        }
    return found


def _process(rng: random.Random, kernel: NDArray[np.float64]) -> dict[str, Any]:
    kind = rng.choice(["chain", "chain", "cycle", "mixing", "wander", "empirical"])
    if kind == "chain":
        return {"name": "markov-chain", "matrix": random_kernel(rng, rng.choice([2, 3])).tolist()}
    if kind == "cycle":
        return {"name": "periodic-markov-chain", "kernels": [random_kernel(rng, 2).tolist() for _ in range(2)]}
    if kind == "mixing":
        return {"name": "geometric", "c": 1.0, "rho": rng.choice([0.5, 0.8])}
    if kind == "wander":
        return {
            "name": "autoregressive", "rho": rng.choice([0.9, 0.5]), "sigma": rng.choice([0.1, 0.1, 0.3, 1.0]),
            "span": rng.choice([0.5, 1.0, 3.0]),
        }  # fmt: skip
    chain = hl.MarkovChain(kernel.tolist())
    corners = [chain.frontier(t) for t in range(1, rng.randint(5, 14))]
    return {"name": "empirical", "bounds": [[f.q.tolist(), f.d.tolist()] for f in corners]}


def random_stream(rng: random.Random, promise: dict[str, Any], i: int, steps: int) -> dict[str, Any]:
    source: dict[str, Any] = {"files": "readings.csv", "time": "ts", "value": "v"}
    stream: dict[str, Any] = {"name": f"s{i}", "source": source, "output": f"s{i}.jsonl"}
    stream["statistic"] = statistic = random_statistic(rng, promise)
    kind = rng.choice(["none", "none", "table", "table" if _needs_sums(promise) and rng.random() < 0.9 else "column"])
    if kind == "table":
        stream["groups"] = {"table": {"file": "homes.csv", "person": "who", "group": "where"}}
    elif kind == "column":
        names = ["a", "b", "c"][: rng.randint(2, 3)]
        stream["groups"] = {"names": names, "most_per_person": str(rng.randint(1, len(names)))}
        source["group"] = "g"
        statistic.pop("missing", None)
        if statistic["kind"] == "mean":
            stream["groups"]["sizes"] = dict.fromkeys(names, "4")
    if rng.random() < 0.25:
        stream["delay"] = f"{rng.randint(1, 3)} h"
    wide = promise["notion"] in ("classical", "exponential", "hyperbolic", "gaussian-discount")
    if rng.random() < (0.25 if wide else 0.03):
        stream["step"] = "2 h"
    if rng.random() < 0.15 and steps > 2:
        stream["start"] = "2026-01-01T01:00"
    return stream


def _needs_sums(promise: dict[str, Any]) -> bool:
    """Whether most statistics are refused: those that are not linear, or not in proportion to a value."""
    return promise["notion"] == "almost-periodic" or promise.get("process", {}).get("name") == "autoregressive"


def with_clip_of_readings(
    made: dict[str, Any], promise: dict[str, Any], resolution: Fraction, low: int, high: int
) -> dict[str, Any]:
    """Sometimes bounds of single readings: wider than the clip, narrower, or elsewhere, or instead of it; wider where none is
    declared to bind. Drawn by themselves, so that a seed's other choices stay what they were."""
    rng = random.Random(f"{made} {promise}")
    if rng.random() < 0.7:
        return made
    wider = [(low - 3, high + 3), (-1000, 1000)]
    bounds = rng.choice(wider if promise.get("readings") else [*wider, (low, low + 1), (0, 2), (low - 1, high)])
    made = made | {"clip_readings": [text(resolution * end) for end in bounds]}
    instead = made["fold"] != "sum" and rng.random() < 0.5
    return {key: value for key, value in made.items() if key != "clip"} if instead else made


def random_statistic(rng: random.Random, promise: dict[str, Any]) -> dict[str, Any]:
    kinds = ["count", "sum", "sum", "sum", "mean", "histogram", "weighted sum"]
    kind = rng.choice(["sum", "mean"] if _needs_sums(promise) and rng.random() < 0.8 else kinds)
    if kind == "count":
        return {"kind": kind}
    resolution = rng.choice([Fraction(1), Fraction(1, 10), Fraction(1, 2)])
    made: dict[str, Any] = {"kind": kind, "resolution": text(resolution), "fold": rng.choice(FOLDS)}
    if promise.get("readings") and rng.random() < 0.9:
        made["fold"] = "sum"
    if rng.random() < 0.25:
        made["duplicates"] = "each"
    if kind == "histogram":
        made["edges"] = [text(resolution * e) for e in rng.choice([(0, 1, 2), (0, 5, 10, 20), (-3, 0, 3), (0, 4)])]
        return _perhaps_quantile(with_clip_of_readings(made, promise, resolution, 0, 5), resolution)
    low, high = rng.choice([(0, 1), (0, 5), (0, 50), (-10, 10), (5, 20), (-20, -5), (20, 21)])
    span = Fraction(promise.get("process", {}).get("span", 0))
    if span and rng.random() < 0.7:  # a clip as wide as the span, in a few units
        units = rng.choice([1, 2, 10])
        resolution, low = span / units, rng.choice([0, 20, -units])
        high, made["resolution"] = low + units, text(resolution)
    made["clip"] = [text(resolution * low), text(resolution * high)]
    made = with_clip_of_readings(made, promise, resolution, low, high)
    if rng.random() < 0.3 and not span:
        made["missing"] = text(resolution * rng.choice([low, high, 0, low - 3, (low + high) // 2]))
    if kind == "weighted sum":
        made["weights"] = {
            "file": "homes.csv", "person": "who", "weight": "weight", "resolution": "0.5", "largest": rng.choice(["2", "5"]),
        }  # fmt: skip
    return made


def _perhaps_quantile(made: dict[str, Any], resolution: Fraction) -> dict[str, Any]:
    """Make every other histogram a quantile over more bins; by what it is, so that cases that were found by a seed stay."""
    aside = random.Random(repr(made))
    if aside.random() < 0.5:
        return made
    low, bins = aside.choice([(0, 4), (-30, 60), (0, 100)])
    grid = {"low": text(resolution * low), "high": text(resolution * (low + bins)), "bins": bins}
    return {key: x for key, x in made.items() if key != "edges"} | {
        "kind": "quantile",
        "quantiles": ["0.5"],
        "grid": grid,
    }
