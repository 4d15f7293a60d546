"""Reports of what was published: one HTML file that needs no network, with interactive plots and what each promise leaves open.

`plot_…()` draw what the `…_data()` functions of `halflife.lab.demo` compute; `halflife.lab.views.page` makes the page of them.
`write_report` writes the demo's page; its parts (`opening`, `errors`, `overview`, `section`, …) serve any comparison.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halflife.lab.comparison import (
    Comparison,
    DemoResult,
    Outcome,
    error_data,
    last_week_data,
    risk_data,
    scale_data,
    series_data,
)
from halflife.lab.households.readings import MAX_KWH
from halflife.lab.views.page import (
    DASHES,
    FAINT,
    INK,
    PALETTE,
    Figure,
    View,
    default_view,
    figure_html,
    layout,
    load_plotly,
    table_html,
    write_page,
)
from halflife.lab.views.plan import classical_words
from halflife.lab.views.text import describe_parameters, text_table, three_figures
from halflife.lab.views.thinning import value_range
from halflife.numerics.arrays import Floats

if TYPE_CHECKING:
    from rich.table import Table

# Plots --------------------------------------------------------------------------------------------------------------


def plot_series(result: Comparison, outcome: Outcome) -> Figure:
    """Draw the exact and the published series with the 95 % band, and faintly the noisy values that estimates were made from."""
    go, data = load_plotly(), series_data(result, outcome)
    light, dark = PALETTE[result.outcomes.index(outcome) % len(PALETTE)]
    colours = {"meta": {"colours": (light, dark)}}
    edge = {**_clock(result), **colours, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
    figure = go.Figure(layout=layout(result.unit))
    published, band = "published", "95 % of the published values"
    if outcome.noisy is not None:
        published, band = "published estimate", "95 % band of the estimate"
        figure.add_scatter(
            y=outcome.noisy, name="with noise, before post-processing", mode="lines", opacity=0.6,
            line={"color": FAINT[0], "width": 0.8}, meta={"colours": FAINT}, hovertemplate="%{y:.4~g}", **_clock(result),
        )  # fmt: skip
    figure.add_scatter(y=data["low"], showlegend=False, **edge)
    figure.add_scatter(y=data["high"], name=band, fill="tonexty", fillcolor=light + "2e", **edge)
    figure.add_scatter(
        y=data["published"], name=published, mode="lines", line={"color": light, "width": 1.2},
        hovertemplate=f"%{{y:.4~g}} {result.short_unit}", **_clock(result), **colours,
    )  # fmt: skip
    figure.add_scatter(
        y=data["exact"], name="exact", mode="lines", line={"color": INK[0], "width": 2},
        meta={"colours": INK}, hovertemplate=f"%{{y:.3f}} {result.short_unit}", **_clock(result),
    )  # fmt: skip
    view = default_view(series_views(result, outcome))
    figure.update_xaxes(range=[view.first, view.last])
    figure.update_yaxes(range=[view.low, view.high], zeroline=True)
    return figure


def plot_scales(result: Comparison) -> Figure:
    """Draw the noise scale of every notion over time, on a logarithmic axis."""
    unit = result.short_unit
    figure = plot_lines(result, scale_data(result), f"noise scale ({unit}, log)", f"%{{y:.3~g}} {unit}")
    scales = np.concatenate([o.scales for o in result.outcomes])
    crowded = scales.max() > 100 * scales.min()  # ticks at 1, 2 and 5 would stand too close
    figure.update_yaxes(type="log", tickformat=",~r", dtick=1 if crowded else "D2")
    return figure


def plot_risks(result: Comparison) -> Figure:
    """Draw the share of the promise that is in use after each step, for every notion."""
    figure = plot_lines(result, risk_data(result), "risk, as a share of the promise", "%{y:.1%}")
    figure.update_yaxes(tickformat=".0%", range=[0, 1.08])
    figure.add_hline(y=1.0, line={"color": "#8a8f98", "width": 1}, layer="below")
    return figure


def plot_lines(result: Comparison, lines: dict[str, Floats], title: str, hover: str) -> Figure:
    """Draw lines over the steps of a comparison, told apart by colour and dash; only the first is solid: it would hide others."""
    figure = load_plotly().Figure(layout=layout(title))
    for i, (label, y) in enumerate(lines.items()):
        colours, dash = PALETTE[i % len(PALETTE)], DASHES[(i + i // len(DASHES)) % len(DASHES)]
        figure.add_scatter(
            y=y, name=escape(label, quote=False), mode="lines", line={"color": colours[0], "width": 2.5, "dash": dash},
            meta={"colours": colours}, hovertemplate=hover, **_clock(result),
        )  # fmt: skip
    return figure


def _clock(result: Comparison) -> dict[str, Any]:
    """Steps as wall-clock time: the first one's beginning and the width of one in milliseconds."""
    return {"x0": str(result.times[0]), "dx": int(result.width / np.timedelta64(1, "ms"))}


def series_views(result: Comparison, outcome: Outcome) -> list[View]:
    """Return the stretches that a reader can jump to; each has the values' own range, which a zoom in time alone lacks."""
    steps = len(result.exact)
    day = int(np.timedelta64(1, "D") / result.width)
    name, stretch = ("week", 7 * day) if day > 1 else ("month", 30)
    spans = {"Everything": (0, steps)}
    if stretch < steps:
        spans |= {f"First {name}": (0, stretch), f"Last {name}": (steps - stretch, steps)}
    if 1 < day < steps:
        spans["Last day"] = (steps - day, steps)
    lines = np.stack(list(series_data(result, outcome).values()))
    views = []
    for label, (a, b) in spans.items():
        low, high = value_range(lines[:, a:b], None if outcome.noisy is None else outcome.noisy[a:b])
        views.append(View(label, str(result.times[a]), str(result.times[b - 1] + result.width), low, high))
    return views


# The page -----------------------------------------------------------------------------------------------------------


def write_report(result: DemoResult, path: Path) -> None:
    """Write the demo's report as one HTML file that needs nothing else."""
    body = [_demo_opening(result), errors_html(result), overview_html(result)]
    body += [section_html(result, outcome) for outcome in result.outcomes]
    title = f"halflife demo: {result.households:,} homes, {result.days:,} days"
    write_page(path, title, "\n".join(body), _made_by(result))


def _made_by(result: DemoResult) -> str:
    return (
        f". The published values are in {result.parquet.name}, beside this page, and "
        "so is a folder for each promise, with its policy, output and ledger."
    )


def _demo_opening(result: DemoResult) -> str:
    first = result.times[0].astype(object)
    facts = {
        "Homes": f"{result.households:,} (generated, seed {result.seed})",
        "Steps": f"{len(result.exact):,} half hours from {first.day} {first:%B %Y}",
        "Exact mean": f"{three_figures(float(result.exact.mean()))} kWh per half hour",
        "Sensitivity": f"{three_figures(result.sensitivity)} kWh ({MAX_KWH:g} kWh / {result.households:,})",
    }
    lede = """This page compares the mean electricity use per home, half hour by half hour, with what halflife published of it
under each privacy promise that it knows, from a policy to an output and a ledger that were checked again afterwards. The
homes are generated by a simulator, which is the only reason why exact values can be shown here; the noise is real
release-grade noise and differs from run to run."""
    return opening_html("A town's electricity, published every half hour", lede, facts)


def opening_html(title: str, lede: str, facts: dict[str, str]) -> str:
    """Return the top of a report: what the reader sees (HTML), and the numbers that everything below depends on."""
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f"""<header>
<h1>{escape(title)}</h1>
<p class="lede">{lede}</p>
<dl class="facts">{items}</dl>
</header>"""


def _parameters(outcome: Outcome) -> str:
    return f'<span class="parameters">{escape(describe_parameters(outcome.notion))}</span>'


def error_table(result: Comparison, links: bool = True) -> str:
    """Return the table of errors; each line leads to its outcome's section, if the page has one."""
    unit = result.short_unit
    heads = (
        "Promise", f"Noise scale, mean ({unit})", f"Noise scale, last step ({unit})", f"Mean absolute error ({unit})",
        "Relative error", "Risk at the end (nats)", "Promised at most (nats)", "Largest share of the promise used",
    )  # fmt: skip
    lines = []
    for i, (row, outcome) in enumerate(zip(error_data(result), result.outcomes, strict=True)):
        name = escape(outcome.notion.name)
        named = f'<a href="#notion-{i}">{name}</a>' if links else name
        cells = (
            three_figures(row.mean_scale), three_figures(row.last_scale), three_figures(row.mean_absolute_error),
            f"{three_figures(100 * row.relative_error)} %", three_figures(row.last_risk), three_figures(row.limit),
            f"{100 * row.largest_share:.1f} %",
        )  # fmt: skip
        lines.append((f"{named} {_parameters(outcome)}", *cells))
    return table_html("Noise, error and risk of each promise over the whole run.", heads, lines, html_names=True)


def estimates_html(result: Comparison) -> str:
    """Return what post-processing does to the errors of the last week, as a table; nothing where there is none."""
    lines = [
        (r.label, *(f"{three_figures(100 * x)} %" for x in (r.noisy, r.estimate)), f"{100 * r.covered:.1f} %")
        for r in last_week_data(result)
    ]
    if not lines:
        return ""
    heads = (
        "Promise",
        "Relative error with noise",
        "Relative error of the estimate",
        "Exact values within the 95 % band",
    )
    return f"""<p>What is estimated from noisy values alone costs no privacy. Here seasonal estimates are published: of a
model of level, day and week, fitted to noisy values, which begins after a week. The errors above are of the noisy values.</p>
{table_html("The last week, with noise and estimated.", heads, lines)}"""


def errors_html(result: Comparison) -> str:
    """Return the table of errors under its heading, with what its columns mean."""
    return f"""<section aria-labelledby="errors">
<h2 id="errors">How large the errors are</h2>
{error_table(result)}
{estimates_html(result)}
<p>The relative error is the mean absolute error divided by the mean of the exact values. Noise is measured against one
home's largest possible part in the mean (under swellfish against its secrets alone): with ten times as many homes, every scale
and every error is ten times smaller.</p>
</section>"""


def overview_html(result: Comparison) -> str:
    """Return the two plots that hold all notions."""
    last = "; ".join(f"{k}: {three_figures(float(y[-1]))} {result.short_unit}" for k, y in scale_data(result).items())
    used = "; ".join(f"{label}: {100 * float(y[-1]):.1f} %" for label, y in risk_data(result).items())
    scales = figure_html(
        "scales", plot_scales(result), f"Noise scale over time. At the last step: {last}.",
        "Scale of the noise at each step: the mean absolute noise if it is Laplace, the standard deviation if Gaussian.",
    )  # fmt: skip
    risks = figure_html(
        "risks", plot_risks(result), f"Risk as a share of the promise over time. At the last step: {used}.",
        "Risk after each step, divided by what is promised (the line at 100 %).",
    )  # fmt: skip
    return f"""<section aria-labelledby="over-time">
<h2 id="over-time">Noise and risk over time</h2>
{scales}
{risks}
</section>"""


def series_figure(result: Comparison, outcome: Outcome, name: str) -> str:
    """Return the plot of one outcome's series, with its views and words."""
    band, mean = three_figures(float(outcome.error_band[-1])), three_figures(float(result.exact.mean()))
    unit = result.short_unit
    what = "95 % of the noise lies" if outcome.noisy is None else "the 95 % band of the estimate lies"
    caption = f"At the last step {what} within ± {band} {unit}; the mean of the exact values is {mean} {unit}."
    if outcome.noisy is not None:
        caption += " Faint: the same values with their noise; far ones are cut off."
    label = f"Exact and published mean use ({result.unit}) under {outcome.label}. {caption}"
    return figure_html(name, plot_series(result, outcome), label, caption, series_views(result, outcome))


def section_html(result: Comparison, outcome: Outcome) -> str:
    """Return the part about one notion: what it does not protect, what it comes to, what it published, and the certificate."""
    i = result.outcomes.index(outcome)
    plain = outcome.notion.in_other_words(float(result.width / np.timedelta64(1, "m")))
    certificate = {**outcome.plan.certificate(), "in_other_words": plain}
    open_points = "".join(f"<li>{escape(text)}</li>" for text in certificate["not_protected"])
    words = "".join(f"<li>{escape(text)}</li>" for text in (*plain, classical_words(outcome.plan)))
    where = f"{outcome.policy.parent.name}/{outcome.policy.name}"
    return f"""<section aria-labelledby="notion-{i}">
<h2 id="notion-{i}">{escape(outcome.notion.name)} {_parameters(outcome)}</h2>
<h3>What is not protected</h3>
<ul class="open">{open_points}</ul>
<h3>In other words</h3>
<ul>{words}</ul>
<h3>What was published</h3>
<p>{escape(outcome.notion.summary)}</p>
{series_figure(result, outcome, f"series-{i}")}
<details><summary>Certificate of the plan (JSON)</summary>
<p>The sensitivity is that of the sum over all homes, in the policy's units.</p>
<pre tabindex="0">{escape(json.dumps(certificate, indent=2, ensure_ascii=False))}</pre></details>
<p>Checked: <code>halflife verify {escape(where)}</code> found everything in agreement; the ledger's newest hash is
<code>{outcome.head[:16]}…</code>.</p>
</section>"""


def estimate_lines(result: Comparison) -> list[str]:
    """Return what post-processing does to the errors of the last week, for a terminal: a line for each estimate."""
    return [
        f"Last week, {row.label}: off by {three_figures(100 * row.noisy)} % with noise, by "
        f"{three_figures(100 * row.estimate)} % as estimated from it (seasonal: fitted)"
        for row in last_week_data(result)
    ]


def summary_table(result: DemoResult) -> Table:
    """Return the errors in a few columns, for a terminal."""
    mean = three_figures(float(result.exact.mean()))
    rows = [
        (
            row.label, three_figures(row.last_scale), three_figures(row.mean_absolute_error),
            f"{three_figures(100 * row.relative_error)} %", f"{100 * row.largest_share:.1f} %",
        )
        for row in error_data(result)
    ]  # fmt: skip
    title = f"Mean use of {result.households:,} generated homes: {mean} kWh per half hour. Errors in kWh."
    heads = ("promise", "last noise\nscale", "mean\nerror", "relative\nerror", "promise\nused")
    return text_table(heads, rows, title=title)
