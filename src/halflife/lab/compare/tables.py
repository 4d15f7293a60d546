"""Tables and notes of a comparison, for terminals, Markdown and CSV, from its rows as plain data."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from halflife.lab.compare.streams import Stream
from halflife.lab.views.text import text_table, three_figures
from halflife.numerics.forms import JsonObject

if TYPE_CHECKING:
    from rich.table import Table

NOT_FREE = (
    "Simulation noise only, from a seed: no release, and of no use as one.",
    "Choosing a mechanism by looking at one's own data is itself a query on it, and not free: compare on public or old data.",
)
Rows = Sequence[JsonObject]

ERROR_HEADS = (
    "mechanism", "runs", "MAE", "± s.e.", "closed form", "RMSE", "RMSE / max", "MRE", "mre1", "in 95 % band", "worst step",
)  # fmt: skip
COST_HEADS = ("mechanism", "promise", "own ε", "classical ε", "w-event ε")


def show(value: float | None) -> str:
    """Return a number for a table: three figures, a power of ten where it is tiny or huge, ∞, or – where there is none.

    >>> show(None), show(math.inf), show(20.117), show(3.2e-7)
    ('–', '∞', '20.1', '3.20e-7')
    """
    if value is None:
        return "–"
    if value == math.inf:
        return "∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        mantissa, power = f"{value:.2e}".split("e")
        return f"{mantissa}e{int(power)}"
    return three_figures(value)


def error_lines(rows: Rows) -> list[tuple[str, ...]]:
    """Return the rows under `ERROR_HEADS`."""
    return [
        (
            row["mechanism"], f"{row['repetitions']:,}", *(show(row[key]) for key in ("mae", "mae_se", "expected_mae", "rmse")),
            show(row["rmse_over_max"]), show(row["mre"]), show(row["mre1"]),
            "–" if row["coverage"] is None else f"{100 * row['coverage']:.1f} %", _worst(row),
        )
        for row in rows
    ]  # fmt: skip


def _worst(row: JsonObject) -> str:
    worst = row["worst_step"]
    return "–" if worst is None else f"{show(worst['error'])} at {worst['step']:,}"


def cost_lines(rows: Rows) -> list[tuple[str, ...]]:
    """Return the rows under `COST_HEADS`."""
    keys = ("epsilon_own", "epsilon_classical", "epsilon_w_event")
    return [(row["mechanism"], row["promise"], *(show(row[key]) for key in keys)) for row in rows]


def lens_heads(rows: Rows) -> list[str]:
    """Return the notions that histories were read under."""
    return list(dict.fromkeys(name for row in rows for name in row["lenses"]))


def lens_lines(rows: Rows) -> list[tuple[str, ...]]:
    """Return each history's largest risk under every notion; a star where it is that of the first repetition alone."""
    heads, lines = lens_heads(rows), []
    for row in rows:
        cells = []
        for name in heads:
            found = row["lenses"].get(name)
            alone = found is not None and found["repetitions"] < row["repetitions"]
            cells.append("–" if found is None else show(found["risk"]) + ("*" if alone else ""))
        lines.append((row["mechanism"], *cells))
    return lines


def list_notes(rows: Rows, settings: JsonObject, stream: Stream) -> list[str]:
    """Return what must be known to read the rows."""
    asked = settings
    what = "running totals of the values" if asked["totals"] else "values"
    found = [
        *NOT_FREE,
        f"{stream.title}: {len(stream.values):,} steps. One person moves a value by at most {asked['sensitivity']:g}"
        f"{f' {stream.unit}' if stream.unit else ''}. {stream.about}".strip(),
        f"Common ground: ε = {asked['epsilon']:g} where a row says nothing else, w-event mechanisms in any {asked['w']} steps, "
        "notions each in its own sense. So rows of different promises do not hide the same: read the columns of ε, which are "
        "what one history comes to as its own notion counts, added up over the whole run (classical), and in its worst "
        f"window of {asked['w']} steps (w-event).",
        f"Errors are of {what}: MAE is the mean of |x − r|, RMSE the root of the mean square, each by repetition. MRE divides by "
        "max(x, 1 % of the sum of the whole stream), as the VLDB 2023 benchmark does; mre1 by max(|x|, 1). The closed form is "
        "the exact expectation of the MAE, where there is one.",
    ]
    if asked["truncate"]:
        found.append(
            "Noisy values became max(0, round(·)) as they were drawn, and so did every output; bands are those from before."
        )
    if not stream.real:
        found.append("Generated: the open data is not here. Give its folder with --data or HALFLIFE_DATA.")
    fewer = [row for row in rows if row["repetitions"] < asked["repetitions"]]
    if fewer:
        found.append(
            f"The time limit of {asked['time_limit']:g} s was reached: {len(fewer)} of {len(rows)} rows rest on fewer "
            f"than {asked['repetitions']} repetitions, as each says."
        )
    return found


def error_table(rows: Rows, title: str) -> Table:
    """Return the table of errors for a terminal."""
    return text_table(ERROR_HEADS, error_lines(rows), title=title)


def cost_table(rows: Rows) -> Table:
    """Return the table of costs for a terminal."""
    return text_table(COST_HEADS, cost_lines(rows), left=(0, 1))


def format_table(rows: Rows, settings: JsonObject, stream: Stream, width: int = 200) -> str:
    """Return both tables and the notes as plain text."""
    from rich.console import Console

    file = io.StringIO()
    console = Console(file=file, width=width, markup=False, highlight=False, no_color=True)
    console.print(error_table(rows, stream.title))
    console.print(cost_table(rows))
    for note in list_notes(rows, settings, stream):
        console.print(f"- {note}")
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())


def format_csv(rows: Rows) -> str:
    """Return the rows as CSV: a column a number, nothing where there is none, inf where a risk is infinite."""
    keys = [key for key in rows[0] if key not in ("worst_step", "by_time_of_day", "lenses")]
    lenses = lens_heads(rows)
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerow([*keys, "worst_step", "worst_step_error", *(f"risk: {name}" for name in lenses)])
    for row in rows:
        worst, risks = row["worst_step"] or {}, [row["lenses"].get(name, {}).get("risk") for name in lenses]
        table.writerow([*(row[key] for key in keys), worst.get("step"), worst.get("error"), *risks])
    return file.getvalue()


def markdown(rows: Rows) -> str:
    """Return the tables in Markdown: errors, costs, and every lens."""
    tables = (
        (ERROR_HEADS, error_lines(rows), 1),
        (COST_HEADS, cost_lines(rows), 2),
        (("mechanism", *lens_heads(rows)), lens_lines(rows), 1),
    )
    return "\n\n".join(markdown_table(*table) for table in tables) + "\n"


def markdown_table(heads: Sequence[str], lines: Sequence[Sequence[str]], names: int = 1) -> str:
    """Return a table in Markdown, of which the first so many columns hold names."""
    rows = (heads, ["---"] * names + ["---:"] * (len(heads) - names), *lines)
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in rows)
