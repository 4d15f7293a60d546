"""All scales of millions of secrets by one sweep, beside a plain loop; what an account admits; and the paper's whole size."""

from __future__ import annotations

import datetime
import math
import resource
import subprocess
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table

import halflife as hl
from halflife.lab.appliances import generate, secrets_of
from halflife.specifications import Specifications

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


def town() -> Specifications:
    """Four and a half years of 250 generated households."""
    made = generate(*FULL, datetime.datetime(2004, 1, 1), 1)
    table = secrets_of(made, 1).drop_columns(["appliance"])
    del made
    return Specifications.from_arrow(table)


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


def sweep() -> Table:
    table = Table(title="all scales of a plan (tight, one-window, pure): one sweep over columns")
    for column in (
        "secrets",
        "columns checked and sorted, s",
        "sweep, s",
        "ns per n·log₂n",
        "by hand, s",
        "by hand / sweep",
    ):
        table.add_column(column, justify="right")
    for count in SMALL:
        s = drawn(count)
        mine, function = timed(lambda s=s: hl.Swellfish(s).sufficient)
        theirs, loop = timed(lambda s=s: by_hand(s, 400))
        assert np.allclose(function.over(1, 400), loop)
        table.add_row(f"{count:,}", "", f"{mine:.3f}", each(mine, count), f"{theirs:.2f}", f"{theirs / mine:,.0f}")
    for count in SIZES:
        made, s = timed(lambda count=count: drawn(count))
        mine = min(timed(lambda s=s: hl.Swellfish(s).sufficient)[0] for _ in range(3 if count < 10**6 else 1))
        table.add_row(f"{count:,}", f"{made:.2f}", f"{mine:.3f}", each(mine, count), "", "")
    return table


def each(seconds: float, count: int) -> str:
    return f"{seconds * 1e9 / (count * math.log2(count)):.1f}"


def full() -> None:
    """In a process of its own: the paper's whole size, with the peak of its memory."""
    generating, s = timed(town)
    before = peak()
    sweeping, plan = timed(lambda: hl.Swellfish(s).plan(horizon=FULL[1]))
    scales, values = timed(lambda: plan.scales(FULL[1]))
    print(len(s), generating, before, sweeping + scales, peak(), values.mean(), plan.sensitivity, int(s.duration.max()))


def peak() -> float:
    """MB at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def whole() -> Table:
    table = Table(title=f"{FULL[0]} households × {FULL[1]:,} steps, every cycle a secret (a process of its own)")
    for column in (
        "secrets",
        "generated, s",
        "so far, MB",
        "all scales, s",
        "peak, MB",
        "mean λ, kW",
        "max Δ, kW",
        "longest",
    ):
        table.add_column(column, justify="right")
    command = [sys.executable, "-c", "from bench.secrets import full; full()"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    count, *rest = map(float, out)
    table.add_row(f"{count:,.0f}", *(f"{x:,.1f}" for x in rest[:-1]), f"{rest[-1]:.0f}")
    return table


def account() -> Table:
    table = Table(title="an account's admits a second, step by step by the plan tight, 10,000 secrets")
    for column in ("promise", "first 1,000", "next 1,000", "second / first"):
        table.add_column(column, justify="left" if column == "promise" else "right")
    s = drawn(SIZES[0])
    s = s.only(s.start <= 2500)
    for label, notion in (
        ("one-window, pure", hl.Swellfish(s)),
        ("one-event, pure", hl.Swellfish(s, neighbours="one-event")),
        ("all-events, pure", hl.Swellfish(s, neighbours="all-events")),
        ("one-window, δ, Gaussian", hl.Swellfish(s, 1e-9, noise="gaussian")),
        ("one-window, δ, Laplace", hl.Swellfish(s, 1e-9)),
    ):
        plan, held = notion.plan(), hl.Accountant(notion)
        rates = []
        for first in (1, 1001):
            releases = [release for k in range(first, first + 1000) for release in plan.releases_at(k)]
            seconds, _ = timed(lambda releases=releases, held=held: [held.admit(release) for release in releases])
            rates.append(len(releases) / seconds)
        table.add_row(label, f"{rates[0]:,.0f}", f"{rates[1]:,.0f}", f"{rates[1] / rates[0]:.2f}")
    return table


def main() -> None:
    console = Console(width=130)
    console.print(sweep())
    console.print(whole())
    console.print(account())
