"""Plans of a million steps, and the optimal one of a year of half hours."""

from __future__ import annotations

import time

from rich.console import Console
from rich.table import Table

import halflife as hl
from bench.results import Finding


def main() -> list[Finding]:
    findings = []
    table = Table(title="plans")
    for column in ("plan", "steps", "losses, s", "with risks, s", "duality gap"):
        table.add_column(column, justify="left" if column == "plan" else "right")
    million = {"horizon": None}
    for notion, options, steps in (
        (hl.ExponentialDiscount(1.0, alpha=0.99), million, 10**6),
        (hl.HyperbolicDiscount(1.0, beta=0.1), million, 10**6),
        (hl.HyperbolicDiscount(1.0, beta=0.1), {"cap": 0.05}, 10**6),
        (hl.GaussianDiscount(1.0, 1e-6, beta=0.1), million, 10**6),
        *(
            (hl.HyperbolicDiscount(1.0, beta=b), {"horizon": 17_520, "method": "optimal"}, 17_520)
            for b in (0.01, 0.1, 1, 10)
        ),
        *(
            (hl.ExponentialDiscount(1.0, alpha=a), {"horizon": 17_520, "method": "optimal"}, 17_520)
            for a in (0.9, 0.99, 0.999)
        ),
    ):
        start = time.perf_counter()
        plan = notion.plan(**options)
        plan.losses(steps)
        middle = time.perf_counter()
        plan.risks(steps)
        end = time.perf_counter()
        gap = f"{plan.facts['duality_gap']:.1e}" if "duality_gap" in plan.facts else ""
        name = f"{notion} {plan.request.method}{' cap' if 'cap' in options else ''}"
        table.add_row(name, f"{steps:,}", f"{middle - start:.2f}", f"{end - start:.2f}", gap)
        findings.append(Finding(f"{name}, {steps:,} steps", middle - start, "s"))
    Console(width=130).print(table)
    return findings
