"""All scales of millions of secrets by one sweep, beside a plain loop; what an account admits; and the paper's whole size."""

from __future__ import annotations

import datetime
import math
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

import halflife as hl
from bench.results import Finding
from halflife.lab.households.appliances import generate, secrets_of
from halflife.specifications import Specifications, read_specifications, write_specifications

SIZES = (10**4, 10**5, 10**6, 4 * 10**6)
FULL = (250, 157_680)
SMALL = (1000, 2000, 4000)


def drawn(count: int) -> Specifications:
    """So many secrets of 250 households in 15-minute steps, as dense as generated ones: about 15 a day and household."""
    rng = np.random.default_rng(1)
    steps = max(400, count * 96 // (250 * 15))
    duration = rng.integers(1, 20, count)
    start = rng.integers(1, steps, count)
    columns = {
        "power": rng.uniform(0.05, 3.6, count), "duration": duration, "start": start, "end": start + 5 * duration - 1,
        "epsilon": rng.uniform(0.1, 1, count),
    }  # fmt: skip
    return Specifications.from_columns([f"home {i:03d}" for i in range(250)], rng.integers(0, 250, count), columns)


def by_hand(s: Specifications, steps: int) -> np.ndarray:
    """λ_t = max over households of Δ_t · max T/ε, secret by secret and step by step."""
    best = np.zeros(steps)
    for held in s:
        for t in range(1, steps + 1):
            relevant = [secret for secret in held.secrets if secret.start <= t <= secret.end]
            if relevant:
                scale = sum(x.power for x in relevant) * max(x.duration / x.epsilon for x in relevant)
                best[t - 1] = max(best[t - 1], scale)
    return best


def timed(work) -> tuple[float, object]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def sweep() -> list[Finding]:
    """All scales of a plan (tight, one-window, pure): one sweep over columns."""
    found = []
    for count in SMALL:
        s = drawn(count)
        mine, function = timed(lambda s=s: hl.Swellfish(s).sufficient)
        theirs, loop = timed(lambda s=s: by_hand(s, 400))
        assert np.allclose(function.over(1, 400), loop)
        found.append(Finding(f"all scales of {count:,} secrets", mine, "s", mine / theirs, "a plain loop"))
    for count in SIZES:
        made, s = timed(lambda count=count: drawn(count))
        mine = min(timed(lambda s=s: hl.Swellfish(s).sufficient)[0] for _ in range(3 if count < 10**6 else 1))
        each = mine * 1e9 / (count * math.log2(count))
        found.append(Finding(f"all scales of {count:,} secrets, {each:.1f} ns for each n·log₂n", mine, "s"))
        found.append(Finding(f"{count:,} secrets checked and sorted into columns", made, "s"))
    return found


def make(path: str) -> None:
    """Write four and a half years of 250 generated households."""
    made = generate(*FULL, datetime.datetime(2004, 1, 1), 1)
    write_specifications(Specifications.from_arrow(secrets_of(made, 1).drop_columns(["appliance"])), path)


def full(path: str) -> None:
    """Read them and work out all scales."""
    reading, s = timed(lambda: read_specifications(path).specifications)
    sweeping, plan = timed(lambda: hl.Swellfish(s).plan(horizon=FULL[1]))
    scales, _ = timed(lambda: plan.scales(FULL[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(len(s), reading, sweeping + scales, peak)


def whole() -> list[Finding]:
    """Every cycle a secret, from Parquet, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/secrets.parquet"
        for job in ("make", "full"):
            command = [sys.executable, "-c", f"from bench.secrets import {job}; {job}({path!r})"]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    count, reading, sweeping, peak = map(float, out)
    work = f"{count:,.0f} secrets of {FULL[0]} households × {FULL[1]:,} steps"
    return [Finding(f"{work}: read", reading, "s"), Finding(f"{work}: all scales", sweeping, "s", mb=peak)]


def account() -> list[Finding]:
    """An account's admits, by the plan tight, 20,000 secrets of 250 households."""
    found, s = [], drawn(20_000)
    for label, notion in (
        ("one-window, pure", hl.Swellfish(s)),
        ("one-event, pure", hl.Swellfish(s, neighbours="one-event")),
        ("all-events, pure", hl.Swellfish(s, neighbours="all-events")),
        ("one-window, δ, Gaussian", hl.Swellfish(s, 1e-9, noise="gaussian")),
        ("one-window, δ, Laplace", hl.Swellfish(s, 1e-9, noise="laplace")),
    ):
        rates = admit_rates(notion)
        work = f"admit of 20,000 secrets, {label}: each of steps 401 to 420"
        found.append(Finding(work, 1e3 / rates[1], "ms", rates[0] / rates[1], "101 to 120"))
    return found


def admit_rates(notion: hl.Swellfish) -> list[float]:
    """Admits a second by the plan tight, at steps 101 to 120 and 401 to 420."""
    plan, rates, held = notion.plan(), [], hl.Accountant(notion)
    for first in (81, 381):
        releases = [release for k in range(first, first + 40) for release in plan.releases_at(k)]
        held.admit(*releases[:20])
        seconds, _ = timed(lambda rest=releases[20:]: [held.admit(release) for release in rest])
        rates.append(20 / seconds)
    return rates


def main() -> list[Finding]:
    return [*sweep(), *whole(), *account()]
