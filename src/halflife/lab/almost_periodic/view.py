"""The test of almost-periodicity as pictures, as text for a terminal, and as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from halflife.lab.almost_periodic.verdict import LOOKED_AT, MEANING, PRINTED, PeriodCheck, PeriodChoice
from halflife.lab.views.page import PALETTE, Figure, figure_html, layout, load_plotly, table_html, write_page
from halflife.lab.views.text import text_table
from halflife.numerics.arrays import Floats

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MOST_CELLS = 500
"""A heatmap with more rows shows means of blocks."""

DIVERGING = [
    [0.0, "#005a8d"], [0.25, "#6fb1d8"], [0.5, "#f7f7f7"], [0.75, "#f0a267"], [1.0, "#a63c00"],
]  # fmt: skip
"""Blue for opposite, orange for alike: colour-blind readers can tell them apart."""


# Numbers ------------------------------------------------------------------------------------------------------------


class Heatmap(NamedTuple):
    """ρ as cells of `block` × `block` periods (their means), and the largest |ρ| off the diagonal, where the colours end."""

    cells: Floats
    block: int
    limit: float


def heatmap_data(check: PeriodCheck, most: int = MOST_CELLS) -> Heatmap:
    """Return the matrix, in blocks if it has more than `most` rows; NaN where nothing is known."""
    block = -(-check.periods // most)
    known, values = np.isfinite(check.rho), np.nan_to_num(check.rho)
    starts = np.arange(0, check.periods, block)

    def add(x: Any) -> Any:
        return np.add.reduceat(np.add.reduceat(x, starts, axis=0, dtype=float), starts, axis=1, dtype=float)

    with np.errstate(invalid="ignore"):
        cells = add(values) / add(known)
    limit = check.maximum if check.maximum > 0 else 1.0
    return Heatmap(cells, block, limit)


def histogram_data(check: PeriodCheck, bins: int = 60) -> tuple[Floats, Floats, Floats]:
    """Return edges, and the share of the coefficients ρ_kℓ, k < ℓ, between them: observed, and in one shuffled copy."""
    own, null = check.coefficients(), check.shuffled_sample
    both = np.concatenate([own, null])
    if not len(both):
        return np.linspace(-1, 1, bins + 1), np.zeros(bins), np.zeros(bins)
    low, high = float(both.min()), float(both.max())
    edges = np.linspace(low, high if high > low else low + 1e-9, bins + 1)
    shares = [np.histogram(x, edges)[0] / max(1, len(x)) for x in (own, null)]
    return edges, shares[0], shares[1]


def lag_data(check: PeriodCheck, fewest: int = 8) -> tuple[Floats, Floats, Floats, Floats]:
    """Return distances in days, the mean ρ of periods so far apart, and its range in shuffled copies; from `fewest` pairs on."""
    rows = [row for row in check.lags if row.lag <= max(1, check.periods - fewest)]
    days = check.period * check.step_minutes / 1440
    columns = np.array([(row.lag * days, row.mean, row.low, row.high) for row in rows], dtype=np.float64).reshape(-1, 4)
    return columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3]


# Pictures -----------------------------------------------------------------------------------------------------------


def plot_heatmap(check: PeriodCheck) -> Figure:
    """Draw ρ_kℓ over k and ℓ. The diagonal, which is 1, has the colour of the largest coefficient."""
    data = heatmap_data(check)
    first = 1 + (data.block - 1) / 2
    figure = load_plotly().Figure(layout=_linear("period ℓ", "period k"))
    figure.add_heatmap(
        z=data.cells.round(3), x0=first, dx=data.block, y0=first, dy=data.block,
        zmin=-data.limit, zmax=data.limit, colorscale=DIVERGING, meta={"colours": PALETTE[0]},
        colorbar={"title": {"text": "ρ"}, "thickness": 14, "outlinewidth": 0}, hoverongaps=False,
        hovertemplate="k = %{y:.0f}, ℓ = %{x:.0f}: ρ = %{z:.3f}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(showgrid=False, constrain="domain")
    figure.update_yaxes(showgrid=False, autorange="reversed", scaleanchor="x", constrain="domain")
    return figure


def plot_histogram(check: PeriodCheck) -> Figure:
    """Draw how the coefficients are spread, observed and shuffled."""
    edges, own, null = histogram_data(check)
    figure = load_plotly().Figure(layout=_linear("ρ, between different periods", "share of the pairs"))
    middles = (edges[1:] + edges[:-1]) / 2
    for name, shares, i in (("shuffled", null, 6), ("observed", own, 0)):
        figure.add_scatter(
            x=middles, y=shares, name=name, mode="lines", fill="tozeroy", fillcolor=PALETTE[i][0] + "2e",
            line={"color": PALETTE[i][0], "width": 2, "shape": "hvh"}, meta={"colours": PALETTE[i]},
            hovertemplate="%{y:.2%}",
        )  # fmt: skip
    figure.update_xaxes(hoverformat=".2f", zeroline=True)
    figure.update_yaxes(tickformat=".0%", rangemode="tozero")
    return figure


def plot_lags(check: PeriodCheck) -> Figure:
    """Draw the mean of ρ against how far apart two periods are, with the range of shuffled copies."""
    days, mean, low, high = lag_data(check)
    figure = load_plotly().Figure(layout=_linear("days apart", "mean ρ"))
    light = PALETTE[6][0]
    edge = {"x": days, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", "meta": {"colours": PALETTE[6]}}
    figure.add_scatter(y=low, showlegend=False, **edge)
    figure.add_scatter(y=high, name="range of shuffled copies", fill="tonexty", fillcolor=light + "2e", **edge)
    figure.add_scatter(
        x=days, y=mean, name="observed", mode="lines" if len(days) > 60 else "lines+markers",
        line={"color": PALETTE[0][0], "width": 2}, meta={"colours": PALETTE[0]}, hovertemplate="%{y:.3f}",
    )  # fmt: skip
    figure.update_yaxes(zeroline=True)
    return figure


def _linear(x_title: str, y_title: str) -> dict[str, Any]:
    return layout(y_title, type="linear", title={"text": x_title, "font": {"size": 13}}, hoverformat="", zeroline=False)


# Text ---------------------------------------------------------------------------------------------------------------


def print_periodicity(result: PeriodCheck | PeriodChoice, console: Console) -> None:
    """Print the verdict, the numbers and what the test does not say; the console knows no markup."""
    checks, best = _checks(result)
    if isinstance(result, PeriodChoice):
        console.print(result.reason, style="bold")
    console.print(_table(checks))
    for check in checks:
        console.print(f"A period of {check.name}", style="bold")
        console.print(check.verdict)
        console.print("\n".join(bars(check)))
        for name, row in check.named_lags():
            console.print(f"- mean ρ, {name}: {row.mean:.3f} (shuffled {row.low:.3f} to {row.high:.3f})")
        console.print()
    for text in (best.tells.text, MEANING, LOOKED_AT):
        console.print(f"- {text}")


def bars(check: PeriodCheck, bins: int = 16, width: int = 36) -> list[str]:
    """Return the histogram as lines: █ for observed, ░ for shuffled where it is longer."""
    edges, own, null = histogram_data(check, bins)
    top = max(float(own.max()), float(null.max())) or 1.0
    lines = []
    for low, high, a, b in zip(edges[:-1], edges[1:], own, null, strict=True):
        long, shuffled = round(width * a / top), round(width * b / top)
        bar = "█" * long + "░" * max(0, shuffled - long)
        lines.append(f"{low:>6.2f} to {high:>5.2f} {bar:<{width}} {100 * a:5.1f} % (shuffled {100 * b:.1f} %)")
    return ["ρ between different periods, share of the pairs", *lines]


ROW = (
    "period",
    "homes",
    "periods",
    "median |ρ|",
    "shuffled",
    "largest |ρ|",
    "shuffled, at most",
    "unexplained",
    "outcome",
)


def table_data(checks: Sequence[PeriodCheck]) -> list[tuple[str, ...]]:
    """Return the rows under `ROW`, one a candidate."""
    return [
        (
            c.name, str(c.homes), str(c.periods), f"{c.median:.3f}", f"{np.mean(c.shuffled_medians):.3f}",
            f"{c.maximum:.2f}", f"{max(c.shuffled_maxima):.2f}", f"{100 * c.unexplained:.1f} %", c.outcome,
        )
        for c in checks
    ]  # fmt: skip


def _table(checks: Sequence[PeriodCheck]) -> Table:
    return text_table(ROW, table_data(checks), left=[i for i, name in enumerate(ROW) if name in ("period", "outcome")])


def _checks(result: PeriodCheck | PeriodChoice) -> tuple[Sequence[PeriodCheck], PeriodCheck]:
    return (result.checks, result.best) if isinstance(result, PeriodChoice) else ((result,), result)


# The page -----------------------------------------------------------------------------------------------------------

_HEATMAP = (
    "Correlation of the deviations of homes in period k with those in period ℓ: without dependence it is pale all over."
)
_HISTOGRAM = (
    "Coefficients between different periods, beside those of a copy in which each home's periods are shuffled: the second is "
    "what chance and the differences between homes give alone."
)
_LAGS = "A hill at the left is memory, a valley in the middle of a year is season, teeth every seven days are weekdays."
_NUMBERS = (
    "Shuffled: with each home's periods in a random order of their own. Unexplained: the share of the variance within homes that "
    "the pattern of their other periods does not predict."
)
_PRINTED = "What the paper prints, of other homes, for comparison. It shows no shuffled copies."


def write_periodicity_page(result: PeriodCheck | PeriodChoice, path: Path) -> None:
    """Write the test, for one period or for all candidates, as one interactive HTML file."""
    checks, best = _checks(result)
    lede = result.reason if isinstance(result, PeriodChoice) else f"Tested: a period of {best.name}."
    said = "".join(f"<li>{escape(text)}</li>" for text in (LOOKED_AT, MEANING, best.tells.text))
    body = f"""<style>.square .plot {{ height: min(640px, 92vw); }}</style>
<header><h1>Is the data almost periodic?</h1><p class="lede">{escape(lede)}</p></header>
<section><h2>What this does not say</h2><ul class="open">{said}</ul></section>
<section><h2>The numbers</h2>{table_html(_NUMBERS, ROW, table_data(checks))}
{table_html(_PRINTED, ("data", "homes", "period", "half of |ρ| at most", "every |ρ| below"), _printed_rows())}</section>
{"".join(_section(i, check) for i, check in enumerate(checks))}"""
    write_page(path, "halflife: is the data almost periodic?", body)


def _section(i: int, check: PeriodCheck) -> str:
    heatmap, histogram, lags = (
        figure_html(f"{name}-{i}", draw(check), f"{label}, period of {check.name}", caption)
        for name, draw, label, caption in (
            ("heatmap", plot_heatmap, "Heatmap of the correlation coefficients", _HEATMAP),
            ("histogram", plot_histogram, "Histogram of the correlation coefficients", _HISTOGRAM),
            ("lags", plot_lags, "Mean correlation against distance", _LAGS),
        )
    )
    found = "".join(f"<li>{escape(finding.text)}</li>" for finding in check.findings)
    named = f"<h3>What breaks it</h3><ul>{found}</ul>" if found else ""
    return f"""<section><h2>A period of {escape(check.name)}: {escape(check.outcome)}</h2>
<p>{escape(check.verdict.split(" What breaks it:")[0])}</p>{named}
<h3>Spread of the coefficients</h3>{histogram}
<h3>Coefficients by distance</h3>{lags}
<h3>All coefficients</h3><div class="square">{heatmap}</div></section>"""


def _printed_rows() -> list[tuple[str, ...]]:
    return [
        (p.data, str(p.homes), f"a {p.period}", "not printed" if p.median is None else f"{p.median:g}", f"{p.below:g}")
        for p in PRINTED
    ]
