"""The policies that golden folders hold: one for every kind of promise, and for what shapes a ledger beside the promise."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

HOMES = ("a", "b", "c", "d")
START_US = 1_767_225_600 * 1_000_000
STEPS, FIRST, MORE = 16, 3, 7
"""How many steps of the clock there are readings of; after how many a golden ledger is first published, and again."""
WIDTHS = {"1 h": 1, "1 day": 24, "1 month": 24 * 31}
"""Hours in a step of the clock; of a month about: k of them after the start step k is over, and k + 1 is not, for k ≤ 16."""
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
TIMES: dict[str, Callable[[datetime.datetime], str]] = {
    "local": lambda moment: f"{moment.astimezone(ZoneInfo('Europe/Paris')):%Y-%m-%dT%H:%M}",
    "ms": lambda moment: f"{moment.timestamp() * 1000:.0f}",
    "written": lambda moment: f"{moment.astimezone(ZoneInfo('Europe/Paris')):%m/%d/%y %I:%M %p}",
}
"""Columns with the time of a reading in other forms than UTC, for sources that name them."""

MEAN: dict[str, Any] = {
    "name": "mean",
    "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
    "statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
    "output": "mean.csv",
}
QUANTILE: dict[str, Any] = {
    "name": "quantile",
    "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
    "statistic": {
        "kind": "quantile", "unit": "kWh", "resolution": "1 Wh", "grid": {"low": "0", "high": "5 kWh", "bins": 40},
        "quantiles": ["0.5", "95 %"], "fold": "sum",
    },
    "output": "quantile.csv",
}  # fmt: skip
CHAIN = {"name": "markov-chain", "matrix": [[0.85, 0.15], [0.1, 0.9]]}
OVEN = {"power": 3, "duration": 2, "start": 3, "end": 8, "epsilon": 1}
SECRETS = {"households": {"a": [OVEN, {**OVEN, "start": 27, "end": 40}], "b": [{**OVEN, "start": 1, "end": 30}]}}
SWELLFISH = {
    "notion": "swellfish",
    "neighbours": "one-window",
    "specifications": {"files": "secrets.json", "readings": 1},
}
BY_PLACE: dict[str, Any] = {
    "name": "by-place", "source": {**MEAN["source"], "group": "where"}, "output": "by-place.jsonl",
    "statistic": {"kind": "histogram", "unit": "kWh", "resolution": "1 Wh", "edges": ["0", "1", "5"], "fold": "max"},
    "groups": {"names": ["north", "south"], "most_per_person": 2},
}  # fmt: skip
"""Four counts that one person moves by 1: of a few releases Laplace noise by its losses, Gaussian noise by both sensitivities."""
FIXED = {"table": {"file": "homes.csv", "person": "home", "group": "where"}}
WINDOW = {"notion": "w-event", "epsilon": 1.0, "w": 6}
FADING = {"notion": "exponential", "epsilon": 1.0, "half_life": "1 day"}
LAG = [[0.0, 0.4, 1.0], [0.0, 0.8, 1.0]]
"""The corners of an empirical process at one lag."""


def policy(promise: dict[str, Any], *streams: dict[str, Any], **clock: str) -> dict[str, Any]:
    """A policy over hours, as plain data; one stream of means if none is given."""
    return {
        "population": {"id": "town", "size": len(HOMES), "person": "home"},
        "promise": promise,
        "clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-04", **clock},
        "streams": list(streams) or [MEAN],
        "ledger": "town.ledger",
    }


def aged(process: dict[str, Any], **promise: Any) -> dict[str, Any]:
    """An age-dependent policy on this process."""
    return policy({"notion": "age-dependent", "epsilon": 1.0, "process": process, **promise})


def clock_at(data: dict[str, Any], step: int) -> Callable[[], float]:
    """A clock that stands where a step of the policy's is over, in seconds since 1970."""
    now = START_US / 1e6 + 3600 * WIDTHS[data["clock"]["step"]] * step
    return lambda: now


VARIANTS: dict[str, dict[str, Any]] = {
    "classical": policy({"notion": "classical", "epsilon": 5.0}),
    "classical-delta": policy({"notion": "classical", "epsilon": 5.0, "delta": 1e-6}),
    "w-event": policy({"notion": "w-event", "epsilon": 1.0, "w": 6}),
    "w-event-delta": policy({"notion": "w-event", "epsilon": 1.0, "w": 6, "delta": 1e-6, "noise": "gaussian"}),
    "w-event-delta-begun": policy({"notion": "w-event", "epsilon": 1.0, "w": 3, "delta": 1e-6}, BY_PLACE),
    "w-event-delta-chosen": policy({"notion": "w-event", "epsilon": 1.0, "w": 3, "delta": 1e-6}, BY_PLACE),
    "exponential": policy({"notion": "exponential", "epsilon": 1.0, "half_life": "1 day"}),
    "hyperbolic": policy({"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.1}),
    "gaussian-discount": policy({"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "beta": 0.1}),
    "age-dependent": aged(CHAIN),
    "age-dependent-pairwise": aged(CHAIN, bound="pairwise"),
    "age-dependent-any-prior": aged(CHAIN, adversary="any-prior"),
    "age-dependent-delta": aged(CHAIN, delta=1e-6, noise="gaussian"),
    "age-dependent-family": aged({"name": "process-family", "processes": [CHAIN, {**CHAIN, "matrix": [[0.7, 0.3], [0.4, 0.6]]}]}),
    "age-dependent-autoregressive": aged({"name": "autoregressive", "rho": 0.9, "sigma": 0.5, "span": 4.0}),
    "age-dependent-delta-leaps": aged(CHAIN, delta=1e-6),
    "age-dependent-span": aged({"name": "autoregressive", "rho": 0.9, "sigma": 0.5, "span": 1.0}),
    "almost-periodic-weak": policy({
        "notion": "almost-periodic", "epsilon": 1.0, "period": "4 h",
        "variations": "public", "readings": "complete", "rounding": "none",
    }),
    "almost-periodic-strong": policy({"notion": "almost-periodic", "epsilon": 1.0, "period": "4 h", "strong": True}),
    "almost-periodic-renewed": policy({
        "notion": "almost-periodic", "epsilon": 1.0, "period": "2 h", "strong": True, "renew": 2,
        "over": {"notion": "exponential", "half_life": "1 day"},
    }),
    "almost-periodic-sealed": {
        **policy({"notion": "almost-periodic", "epsilon": 1.0, "period": "4 h", "strong": True}),
        "noise_key": "file:noise.key",  # lies in the golden folder: the key of a test, and of nothing else
    },
    "almost-periodic-by-the-clock": policy(
        {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True}, zone="Europe/London"
    ),
    "swellfish": policy({**SWELLFISH, "outside": "exact"}),
    "swellfish-gaussian": policy({**SWELLFISH, "floor": "0.2 kWh", "delta": 1e-6, "noise": "gaussian"}),
    "spans": policy(
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        MEAN,
        {
            **MEAN, "name": "wide", "step": "2 h", "output": "wide.jsonl",
            "statistic": {**MEAN["statistic"], "clip_readings": ["0", "2 kWh"]},
        },
    ),
    "post-processing": policy({"notion": "w-event", "epsilon": 1.0, "w": 6}, {
        **MEAN, "post": [{"moving_average": 3, "above": "0.1 kWh"}, {"kalman": "0.3 kWh"}, {"truncate": ["0", "5 kWh"]}],
    }),
    "estimates": policy(
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        {**MEAN, "post": [{"kalman": "fitted"}, {"truncate": ["0", "5 kWh"]}]},
        {
            **MEAN, "name": "seasonal", "step": "2 h", "output": "seasonal.csv",
            "post": [{"seasonal": {"amplitude": "0.5 kWh", "level": 0.1}}],
        },
    ),
    "groups": policy(
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        {**MEAN, "groups": FIXED, "delay": "2 h", "share": 0.25},
        {
            "name": "histogram", "source": {**MEAN["source"], "group": "where"}, "output": "histogram.jsonl", "share": 0.25,
            "statistic": {"kind": "histogram", "unit": "kWh", "resolution": "1 Wh", "edges": ["0", "1", "5"], "fold": "max"},
            "groups": {"names": ["north", "south"], "most_per_person": 1},
        },
        {
            "name": "weighted", "source": MEAN["source"], "output": "weighted.csv", "share": 0.25,
            "statistic": {
                **MEAN["statistic"], "kind": "weighted sum", "missing": "0.2 kWh",
                "weights": {"file": "homes.csv", "person": "home", "weight": "weight", "largest": "3"},
            },
        },
        {"name": "count", "source": {"files": "readings.csv", "time": "time"}, "output": "count.csv", "share": 0.25,
         "statistic": {"kind": "count"}},
    ),
    "binary-tree": policy({"notion": "w-event", "epsilon": 40.0, "w": 6}, {**MEAN, "mechanism": "binary-tree"}),
    "bd": policy({"notion": "w-event", "epsilon": 40.0, "w": 6}, {**MEAN, "mechanism": "bd"}),
    "ba": policy(
        {"notion": "classical", "epsilon": 900.0},
        {**MEAN, "groups": FIXED, "mechanism": "ba", "share": 0.8, "output": "mean.jsonl"},
        {**MEAN, "name": "sample", "step": "2 h", "mechanism": "sample", "share": 0.1, "output": "sample.csv"},
        {**MEAN, "name": "plain", "mechanism": "uniform", "share": 0.1, "output": "plain.csv"},
    ),
    "add-remove": {
        **policy(WINDOW), "population": {"id": "town", "size": len(HOMES), "person": "home", "neighbours": "add-remove"},
    },
    "capped-as-planned": policy({**FADING, "cap": 0.25}, late="as-planned"),
    "days": policy(WINDOW, step="1 day", end="2026-02-01", zone="Europe/London"),
    "months": policy(
        {**WINDOW, "w": "1 year"},
        {**MEAN, "delay": "3 days"},
        {**MEAN, "name": "wide", "step": "2 months", "start": "2026-02-01", "delay": "1 month", "output": "wide.csv"},
        step="1 month", end="2028-02-01", zone="Europe/London",
    ),
    "gaussian-discount-exponential": policy({**FADING, "notion": "gaussian-discount", "delta": 1e-6}),
    "age-dependent-geometric": aged({"name": "geometric", "c": 1.0, "rho": 0.8}, bound="paper"),
    "age-dependent-periodic": aged({"name": "periodic-markov-chain", "kernels": [CHAIN["matrix"], [[0.7, 0.3], [0.4, 0.6]]]}),
    "age-dependent-empirical": policy(
        {"notion": "age-dependent", "epsilon": 1.0, "horizon": 24, "process": {"name": "empirical", "bounds": [LAG] * 24}},
        end="2026-01-02",
    ),
    "swellfish-one-event": policy({**SWELLFISH, "neighbours": "one-event", "outside": "exact", "block": "6 h"}),
    "swellfish-all-events": policy({**SWELLFISH, "neighbours": "all-events", "floor": "0.2 kWh", "plan": "optimal"}),
    "sources": policy(
        WINDOW,
        {**MEAN, "source": {**MEAN["source"], "time": "local", "zone": "Europe/Paris"}},
        {
            **MEAN, "name": "each", "source": {**MEAN["source"], "time": "ms", "epoch": "ms"},
            "statistic": {**MEAN["statistic"], "duplicates": "each"}, "output": "each.csv",
        },
    ),
    "time-format": policy(
        WINDOW,
        {**MEAN, "source": {**MEAN["source"], "time": "written", "zone": "Europe/Paris", "time_format": "%m/%d/%y %I:%M %p"}},
    ),
    "columns": policy(
        WINDOW, {**MEAN, "source": {**MEAN["source"], "columns": ["home", "time", "kwh", "where"]}},
    ),
    "events": policy(WINDOW, {
        "name": "events", "source": {"files": "readings.csv", "time": "time"}, "output": "events.csv", "step": "2 h",
        "statistic": {"kind": "events", "most_events": 2},
    }),
    "units": {
        **policy(WINDOW),
        "population": {
            "id": "town", "size": 2, "person": "home", "units": {"file": "homes.csv", "id": "home", "unit": "where"},
        },
    },
    "wide": policy(WINDOW, {**MEAN, "source": {"files": "wide.csv", "time": "time", "wide": True}}),
    "sizes": policy(WINDOW, {
        **MEAN, "source": {**MEAN["source"], "group": "where"},
        "groups": {"names": ["north", "south"], "most_per_person": 1, "sizes": {"north": 2, "south": 2}},
    }),
    "reconciled": {
        **policy(WINDOW, MEAN, {**MEAN, "name": "by-place", "groups": FIXED, "output": "by-place.csv"}),
        "reconcile": [{"total": "mean", "parts": "by-place", "non_negative": True}],
    },
    "levels": {
        **policy(
            WINDOW,
            MEAN,
            {**MEAN, "name": "by-place", "groups": FIXED, "output": "by-place.csv"},
            {**MEAN, "name": "by-weight", "output": "by-weight.csv",
             "groups": {"table": {**FIXED["table"], "group": "weight"}}},
        ),
        "reconcile": [{"total": "mean", "parts": "by-place"}, {"total": "by-place", "parts": "by-weight"}],
    },
    "quantiles": policy(
        {**WINDOW, "epsilon": 300.0},
        QUANTILE,
        {**QUANTILE, "name": "by-place", "groups": FIXED, "output": "by-place.jsonl"},
    ),
    "revised": policy({**WINDOW, "reach": 12}, {**MEAN, "share": 0.5}),
    "amended": policy(WINDOW, {**MEAN, "share": 0.5}, {**MEAN, "name": "leaving", "output": "leaving.csv", "share": 0.5}),
}  # fmt: skip


def amend_town(data: dict[str, Any]) -> dict[str, Any]:
    """Two more people, a larger ε, one stream less, and one more that has taken over its share."""
    size, first = data["population"]["size"] + 2, data["streams"][0]
    return {
        **data,
        "population": {**data["population"], "size": size},
        "promise": {**data["promise"], "epsilon": 2.0},
        "streams": [first, {**first, "name": "added", "output": "added.csv"}],
    }


REVISED = {"revised": [(2, 3), (3, 3)]}
"""Which steps of the first stream of golden ledgers are published again at the end, from one to another."""
AMENDED = {"amended": amend_town}
"""How the policies of golden ledgers change after their first steps."""


def write_inputs(folder: Any, data: dict[str, Any]) -> None:
    """Write the readings of a small town, one of each home a step, and the public tables that a policy names."""
    draw, rows, hours = random.Random(1), [], WIDTHS[data["clock"]["step"]]
    used = [column for column in TIMES if any(column == stream["source"]["time"] for stream in data["streams"])]
    for step in range(STEPS):
        moment = START + datetime.timedelta(hours=step * hours, minutes=30)
        for home in HOMES:
            where = "north" if home < "c" else "south"
            row = [home, f"{moment:%Y-%m-%dT%H:%M}Z", f"{draw.randrange(0, 300) / 100:g}", where]
            rows.append(",".join(row + [TIMES[column](moment) for column in used]))
    header = ",".join(["home,time,kwh,where", *used])
    named = all("columns" not in stream["source"] for stream in data["streams"])
    (folder / "readings.csv").write_text("\n".join([header] * named + rows) + "\n")
    if any("wide" in stream["source"] for stream in data["streams"]):
        cells = [row.split(",") for row in rows]
        lines = [[cells[i][1], *(c[2] for c in cells[i : i + len(HOMES)])] for i in range(0, len(cells), len(HOMES))]
        (folder / "wide.csv").write_text("\n".join(",".join(line) for line in [["time", *HOMES], *lines]) + "\n")
    tables = ("groups" in stream or stream["statistic"]["kind"] == "weighted sum" for stream in data["streams"])
    if any(tables) or "units" in data["population"]:
        (folder / "homes.csv").write_text("home,where,weight\na,north,2\nb,north,-3\nc,south,0.6\nd,south,1\n")
