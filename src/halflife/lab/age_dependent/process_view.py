"""How fast a process forgets, for a terminal: Δ and what is left of a loss, by the age of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from halflife.lab.views.text import text_table
from halflife.processes import Process
from halflife.processes.certifiable import estimation_error
from halflife.processes.verdict import duration
from halflife.steps import microseconds, parse_width

if TYPE_CHECKING:
    from rich.console import Console

HOURS = (0.5, 1, 2, 6, 12, 24, 48, 168)
HEADS = ("age of the data", "Δ", "left of ε = 1", "by Theorem 1", "left of ε = 4", "by Theorem 1")


def print_process(process: Process, width: str, console: Console) -> None:
    """Print what a process was fitted on, whether it was checked, and how fast it forgets; `width` is that of a step."""
    console.print(f"{process.name}, steps of {width}", soft_wrap=True)
    fitted = getattr(process, "fitted", None)
    if fitted:
        facts = (
            (k, v) for k, v in fitted.items() if isinstance(v, str | int | float) and k not in ("step", "assumption")
        )
        words = ", ".join(f"{k} {v:,}" if isinstance(v, int) else f"{k} {v}" for k, v in facts)
        console.print(f"Fitted: {words}", soft_wrap=True)
    known = estimation_error(process)
    if known is not None:
        console.print(f"Δ is known to ±{known:.3g} at best, with 99 % confidence.", soft_wrap=True)
    checked = process.checked
    outcome = "Never checked against data." if checked is None else f"Checked: {checked.get('verdict', checked)}"
    console.print(outcome, soft_wrap=True)
    console.print(text_table(HEADS, age_rows(process, microseconds(parse_width(width)) / 60e6)))


def age_rows(process: Process, minutes: float) -> list[tuple[str, ...]]:
    """Return Δ(t), and what is left of ε = 1 and 4 exactly and by Theorem 1, for some ages; `minutes` is the width of a step."""
    rows: list[tuple[str, ...]] = []
    for t in sorted({1, *(round(h * 60 / minutes) for h in HOURS)} - {0}):
        if process.last_lag is not None and t > process.last_lag:
            rows.append((duration(t * minutes), "not known", "", "", "", ""))
            continue
        left = [process.amplify(epsilon, t, bound) for epsilon in (1.0, 4.0) for bound in ("tight", "theorem1")]
        rows.append((duration(t * minutes), *(f"{x:.3g}" for x in (process.total_variation(t), *left))))
    return rows
