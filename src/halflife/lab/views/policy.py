"""The page about one policy: what it does not protect, what it promises, what was published, at which risk, and what was checked.

It is made of plain data, all of it public: what was published, the policy's own words, and what the ledger's releases come to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halflife.errors import visible
from halflife.lab.views.page import (
    FAINT,
    PALETTE,
    Figure,
    View,
    figure_html,
    layout,
    load_plotly,
    table_html,
    write_page,
)
from halflife.lab.views.report import opening_html
from halflife.lab.views.text import three_figures
from halflife.lab.views.thinning import Thinned, cut_points, find_range
from halflife.local_time import DAY, offsets
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.forms import JsonObject

SHOWN = 12
"""So many groups of a stream are drawn, the first ones in the policy's order: nothing about the data decides which."""
FEWEST = 5
"""A stretch with fewer points is no view of a series."""


class Panel(NamedTuple):
    """One plot of a stream: a line with its band, of the group `name` if the stream has groups.

    raw  noisy values before post-processing, if there is any
    """

    name: str
    points: Thinned
    raw: Thinned | None = None


class HeatMap(NamedTuple):
    """A histogram over time: when each column starts (µs), the bins, and columns × bins of published counts."""

    name: str
    times: Integers
    bins: tuple[tuple[float, float], ...]
    counts: Floats


@dataclass(frozen=True, eq=False)
class StreamView:
    """What was published in one stream.

    panels, maps   plots of its values;  groups, bins  how many it has;  every  of how many steps a point tells
    unit, bin_unit what its numbers count, and what the edges of its bins do
    noise          half-width of the 95 % band of each step, the widest of its numbers
    said           what is hidden of a person in it, and how far one can move it
    each           what a panel stands for: a group, or a quantile (of a group)
    covers         what the bands of post-processed values cover, in a sentence
    repeated       how many steps have no band: they repeat the output before them, or a filter made them
    """

    name: str
    kind: str
    unit: str
    bin_unit: str
    steps: int
    first_us: int
    last_us: int
    panels: tuple[Panel, ...]
    maps: tuple[HeatMap, ...]
    groups: int
    bins: int
    every: int
    map_every: int
    noise: Thinned
    noise_every: int
    said: tuple[str, ...]
    post: tuple[str, ...]
    certificate: JsonObject
    each: str = "group"
    covers: str = ""
    repeated: int = 0


class Reading(NamedTuple):
    """What the published releases come to in plain terms: of all data within `span`, the worst total loss in nats."""

    span: str
    loss: float
    at: str


@dataclass(frozen=True, eq=False)
class PolicyView:
    """All that the page shows.

    warnings                  what is wrong with the promise itself
    not_protected, promise    sentences;  readings  what it means within a day, a week, a year, and classically
    instead                   where losses do not add up to such readings: what the plans come to classically
    risk_times, risks, limits risk after each step of the account, every `risk_every`-th of them
    problems                  what the verification found; none is good
    """

    population: str
    size: int
    notion: str
    parameters: str
    summary: str
    zone: str
    warnings: tuple[str, ...]
    not_protected: tuple[str, ...]
    promise: tuple[str, ...]
    readings: tuple[Reading, ...]
    instead: tuple[str, ...]
    streams: tuple[StreamView, ...]
    risk_times: Integers
    risks: Floats
    limits: Floats
    risk_every: int
    used: float
    problems: tuple[str, ...]
    checked: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


# Time and text ------------------------------------------------------------------------------------------------------


def local_times(us: Integers, zone: str) -> Any:
    """Return moments as a zone's wall clock shows them, as text for an axis; where clocks go back an hour comes twice.

    >>> local_times(np.array([1_750_000_000_000_000]), "Europe/London").tolist()
    ['2025-06-15T16:06:40']
    """
    if not len(us):
        return np.array([], dtype=str)
    pieces = offsets(zone, int(us.min()) - DAY, int(us.max()) + DAY)
    begins, adds = np.array([b for b, _ in pieces]), np.array([a for _, a in pieces])
    shown = us + adds[np.searchsorted(begins, us, side="right") - 1]
    whole = not np.any(shown % 60_000_000)
    return np.datetime_as_string(shown.astype("datetime64[us]"), unit="m" if whole else "s")


def clocks_go_back(first_us: int, last_us: int, zone: str) -> bool:
    """Return whether a zone's clocks are turned back between two moments: an hour then stands on an axis twice."""
    pieces = offsets(zone, first_us, last_us)
    return any(later < before for (_, before), (_, later) in pairwise(pieces))


def _plain(text: str) -> str:
    """A name from outside as Plotly may show it: no markup, nothing invisible."""
    return escape(visible(text), quote=False)


def _items(texts: Sequence[str]) -> str:
    return "".join(f"<li>{escape(visible(text))}</li>" for text in texts)


def odds_words(loss: float) -> str:
    """Return by which factor odds about a person may change at a loss: e^loss.

    >>> odds_words(1.0), odds_words(30.0)
    ('2.72', 'more than a million')
    """
    return three_figures(float(np.exp(loss))) if loss < np.log(1e6) else "more than a million"


# Plots --------------------------------------------------------------------------------------------------------------


def _time_axis(zone: str) -> dict[str, Any]:
    return {"title": {"text": f"time ({_plain(zone)})", "font": {"size": 13}, "standoff": 8}, "automargin": True}


def plot_series(panel: Panel, stream: StreamView, zone: str, span: tuple[float, float] | None = None) -> Figure:
    """Draw published values with their bands, and faintly what they were before post-processing; `span` is a shared range."""
    figure = load_plotly().Figure(layout=layout(_plain(stream.unit), **_time_axis(zone)))
    x, (light, dark), points = local_times(panel.points.times, zone), PALETTE[0], panel.points
    colours = {"meta": {"colours": (light, dark)}}
    edge = {"x": x, "mode": "lines", "line": {"width": 0}, "hoverinfo": "skip", **colours}
    published, band = "published", "95 % band of the noise"
    if panel.raw is not None:
        published, band = "published estimate", "95 % band of the estimate"
        figure.add_scatter(
            x=local_times(panel.raw.times, zone), y=panel.raw.values, name="with noise, before post-processing",
            mode="lines" if len(x) > 1 else "markers", line={"color": FAINT[0], "width": 0.8}, opacity=0.6,
            meta={"colours": FAINT}, hovertemplate="%{y:.5~g}",
        )  # fmt: skip
        figure.update_yaxes(range=find_range([points], [panel.raw]))
    if stream.repeated:  # values stay until the next one; bands are where a step has an output of its own
        _add_bars(figure, x, points, light)
    else:
        figure.add_scatter(y=points.low, showlegend=False, **edge)
        figure.add_scatter(y=points.high, name=band, fill="tonexty", fillcolor=light + "2e", **edge)
    figure.add_scatter(
        x=x, y=points.values, name=published, mode="lines" if len(x) > 1 else "markers",
        line={"color": light, "width": 1.2, "shape": "hv" if stream.repeated else "linear"},
        hovertemplate="%{y:.5~g}", **colours,
    )  # fmt: skip
    if span is not None:
        figure.update_yaxes(range=span)
        figure.update_traces(showlegend=False)
    return figure


def _add_bars(figure: Figure, x: Any, points: Thinned, colour: str) -> None:
    """Draw a bar for each point that has a band."""
    own = np.isfinite(points.high)
    figure.add_scatter(
        x=x[own], y=points.values[own], name="95 % band of the noise, at steps with an output of their own", mode="markers",
        marker={"size": 4, "color": colour}, meta={"colours": PALETTE[0]}, hoverinfo="skip",
        error_y={"array": (points.high - points.values)[own], "color": colour, "thickness": 1, "width": 2},
    )  # fmt: skip


def plot_map(heat: HeatMap, stream: StreamView, zone: str) -> Figure:
    """Draw a histogram over time."""
    figure = load_plotly().Figure(layout=layout(_plain(stream.bin_unit), **_time_axis(zone)))
    names = [f"{low:g} – {high:g}" for low, high in heat.bins]
    figure.add_heatmap(
        x=local_times(heat.times, zone), y=names, z=heat.counts.T, colorscale="Viridis", meta={"colours": PALETTE[0]},
        colorbar={"title": {"text": "people"}, "thickness": 14, "outlinewidth": 0},
        hovertemplate="%{y}: %{z:.4~g} people<extra></extra>",
    )  # fmt: skip
    figure.update_layout(hovermode="closest")
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(showgrid=False, type="category")
    return figure


def plot_line(times: Integers, lines: dict[str, Floats], y_title: str, zone: str, *, points: bool = False) -> Figure:
    """Draw lines over time from 0 up, or their points; the second one, a limit, is dashed and in the colour of text."""
    figure = load_plotly().Figure(layout=layout(y_title, **_time_axis(zone)))
    x = local_times(times, zone)
    for i, (name, y) in enumerate(lines.items()):
        colours, dash = (PALETTE[2], "solid") if not i else (PALETTE[1], "dash")
        figure.add_scatter(
            x=x, y=y, name=name, mode="lines" if len(x) > 1 and not points else "markers", meta={"colours": colours},
            line={"color": colours[0], "width": 2, "dash": dash}, hovertemplate="%{y:.5~g}", showlegend=len(lines) > 1,
        )  # fmt: skip
    top = max((float(np.nanmax(y)) for y in lines.values() if len(y)), default=1.0)
    figure.update_yaxes(range=[0, 1.08 * top or 1.0])
    return figure


def series_views(points: Thinned, zone: str, raw: Thinned | None = None) -> list[View]:
    """Return the stretches that a reader can jump to, each with the range of its values; none for a short series."""
    first, last = int(points.times[0]), int(points.times[-1])
    spans = {"Everything": last - first}
    spans |= {label: days * DAY for label, days in (("Last year", 365), ("Last 30 days", 30), ("Last 7 days", 7), ("Last day", 1))
              if days * DAY < last - first}  # fmt: skip
    views = []
    for label, span in spans.items():
        mine = points.times >= last - span
        if mine.sum() < FEWEST:
            break
        behind = [] if raw is None else [cut_points(raw, raw.times >= last - span)]
        low, high = find_range([cut_points(points, mine)], behind)
        ends = local_times(np.array([last - span, last]), zone)
        views.append(View(label, str(ends[0]), str(ends[1]), low, high))
    return views if len(views) > 1 else []


# Sections -----------------------------------------------------------------------------------------------------------


def write_policy_page(view: PolicyView, path: Path) -> None:
    """Write the page as one HTML file that needs nothing else."""
    body = [_opening(view), _not_protected(view), _promise(view), _readings(view)]
    body += [_stream(view, i) for i in range(len(view.streams))]
    body += [_risk(view), _verification(view), _facts(view)]
    write_page(path, visible(f"What was published about {view.population}"), STYLE + "\n".join(body))


STYLE = """<style>
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 330px), 1fr)); gap: 0 1rem; }
.multiples .plot { height: 230px; } .multiples figure { margin: .5rem 0; display: flex; flex-direction: column; }
.multiples figcaption { order: -1; font-weight: 600; }
.good { border-left: 4px solid var(--link); background: var(--tint); padding: .6rem 1rem; max-width: 80ch; }
</style>
"""


def _opening(view: PolicyView) -> str:
    steps = sum(stream.steps for stream in view.streams)
    begin, end = (f([us for s in view.streams for us in (s.first_us, s.last_us)]) for f in (min, max))
    first, last = (str(t).replace("T", " ") for t in local_times(np.array([begin, end]), view.zone))
    facts = {
        "People": f"{view.size:,}",
        "Promise": f"{view.notion}, {view.parameters}",
        "Published": f"{steps:,} {'step' if steps == 1 else 'steps'} of {len(view.streams):,} "
        f"{'stream' if len(view.streams) == 1 else 'streams'}",
        "About": f"{first} to {last} ({view.zone})",
        "Promise in use": f"{100 * view.used:.4g} %" + (", see the warning" if view.warnings else ""),
        "Checked": "ledger and outputs agree" if not view.problems else f"{len(view.problems):,} problems: see below",
    }
    lede = """Statistics about a group of people were published with noise, so that nobody can tell from them what any one person
did, as far as the promise below goes. This page says what that promise leaves open, what was published, and at which risk. It
is made from what was published and from the public facts of its ledger: no reading of any person was looked at."""
    return opening_html(
        visible(f"What was published about {view.population}"), lede, {k: visible(v) for k, v in facts.items()}
    )


def _not_protected(view: PolicyView) -> str:
    """What the promise leaves open; before it what is wrong with the promise itself, if anything."""
    warned = (
        f"""<section aria-labelledby="warned"><h2 id="warned">Warning</h2><ul class="open">{_items(view.warnings)}</ul></section>
"""
        if view.warnings
        else ""
    )
    return f"""{warned}<section aria-labelledby="open"><h2 id="open">What is not protected</h2>
<ul class="open">{_items(view.not_protected)}</ul></section>"""


def _promise(view: PolicyView) -> str:
    return f"""<section aria-labelledby="promise"><h2 id="promise">What is promised
<span class="parameters">{escape(visible(f"{view.notion}, {view.parameters}"))}</span></h2>
<p>{escape(view.summary)}</p><ul>{_items(view.promise)}</ul></section>"""


def _readings(view: PolicyView) -> str:
    head = '<section aria-labelledby="means"><h2 id="means">What it means within a day, a week, a year, and classically</h2>'
    if view.instead:
        return f"""{head}
<p>What is published under this promise shares noise, leaves values exact, or hides a part of what a person does, so the losses
of a day, a week or a year do not simply add up. In classical terms:</p><ul>{_items(view.instead)}</ul></section>"""
    lines = [(r.span, f"{three_figures(r.loss)}{r.at}", odds_words(r.loss)) for r in view.readings]
    chance = " With Gaussian noise this holds but for a chance of δ." if any(r.at for r in view.readings) else ""
    heads = ("All that a person did within", "Loss at most (nats)", "Odds about them change by a factor of at most")
    return f"""{head}
<p>The promise counts losses in its own way. Here the losses of all that was really published are added up in plain terms: over
the worst day, week and year of data, wherever it begins, and over everything, with nothing forgotten (classical differential
privacy). Somebody who wonders which of two things a person did over such a stretch, and sees all of it, finds the odds changed by
at most the factor in the last column. A factor near 1 is next to nothing; beyond 100 the promise says little.{chance}</p>
{table_html("What was published, in plain terms.", heads, lines)}</section>"""


def _stream(view: PolicyView, i: int) -> str:
    stream = view.streams[i]
    plots = [_maps(view, stream, i), _panels(view, stream, i)]
    band = stream.noise.values[~np.isnan(stream.noise.values)]
    last, top = three_figures(float(band[-1])), three_figures(float(band.max()))
    newest = "newest step" if not stream.repeated else "newest step that has one"
    caption = (
        f"{'Half-width of the 95 % bands' if stream.covers else '95 % of the noise of a step lies within ± this'}: "
        f"± {last} {stream.unit} at the {newest}, ± {top} at most."
    )
    if stream.repeated:
        caption += (
            f" {stream.repeated:,} of {stream.steps:,} steps repeat the output before them, or a filter made them: how far they "
            "are from the truth is not known, and they have no band."
        )
    if stream.groups or stream.maps:
        caption += " The widest of a step's numbers."
    line, axis = {"95 % within ±": stream.noise.values}, f"± {_plain(stream.unit)}"
    drawn = plot_line(stream.noise.times, line, axis, view.zone, points=stream.repeated > 0)
    noise = figure_html(
        f"noise-{i}", drawn,
        visible(f"Noise of {stream.name} over time. {caption}"), visible(caption + _every(stream.noise_every)),
    )  # fmt: skip
    post = (
        f"<p>After the noise, at no cost to anybody: {escape(visible(', then '.join(stream.post)))}. {escape(stream.covers)}</p>"
        if stream.post
        else ""
    )
    certificate = escape(visible(json.dumps(stream.certificate, indent=2, ensure_ascii=False)))
    return f"""<section aria-labelledby="stream-{i}"><h2 id="stream-{i}">{escape(visible(stream.name))}
<span class="parameters">{escape(visible(stream.kind))}</span></h2>
<ul>{_items(stream.said)}</ul>{post}
<h3>What was published</h3>{"".join(plots)}
<h3>Noise over time</h3>{noise}
<details><summary>Certificate of the plan (JSON)</summary>
<p>The sensitivity is in the policy's units.</p><pre tabindex="0">{certificate}</pre></details></section>"""


def _every(steps: int) -> str:
    return f" Drawn from stretches of {steps:,} steps, each with its least and largest value." if steps > 1 else ""


def _panels(view: PolicyView, stream: StreamView, i: int) -> str:
    """The series: one plot, or small ones side by side for groups, all with one range of values."""
    if not stream.panels:
        return ""
    notes = _every(stream.every)
    if clocks_go_back(stream.first_us, stream.last_us, view.zone):
        notes += " Where clocks are turned back, an hour stands on the axis twice."
    if not stream.groups:
        (panel,) = stream.panels
        last = panel.points.values[-1]
        caption = f"Newest value: {three_figures(float(last))} {stream.unit}.{_beside(panel)}{notes}"
        figure = plot_series(panel, stream, view.zone)
        views = series_views(panel.points, view.zone, panel.raw)
        label = visible(f"Published values of {stream.name} with their bands. {caption}")
        return figure_html(f"series-{i}", figure, label, visible(caption), views or None)
    span = find_range([p.points for p in stream.panels], [p.raw for p in stream.panels if p.raw is not None])
    plots = []
    for j, panel in enumerate(stream.panels):
        figure = plot_series(panel, stream, view.zone, span)
        figure.update_xaxes(title=None, nticks=4)
        last = three_figures(float(panel.points.values[-1]))
        label = f"Published values of {stream.name}, {stream.each} {panel.name}. Newest value: {last} {stream.unit}."
        plots.append(figure_html(f"series-{i}-{j}", figure, visible(label), visible(panel.name)))
    return f"{_groups_note(stream, notes)}<div class='multiples'>{''.join(plots)}</div>"


def _beside(panel: Panel) -> str:
    """What the faint line is, where values are post-processed."""
    if panel.raw is None:
        return ""
    return " Faint: the same values with their noise, before post-processing; showing them costs no more. All is cut far off."


def _groups_note(stream: StreamView, notes: str) -> str:
    shown = len(stream.panels) or len(stream.maps)
    each = f"{stream.each}s"
    which = f"The first {shown} of {stream.groups:,} {each}" if shown < stream.groups else f"All {shown} {each}"
    bands = _beside(stream.panels[0]) if stream.covers and stream.panels else " Bands hold 95 % of the noise."
    said = f"{which}, as the policy lists them, with the same range of values.{bands}{notes}"
    return f"<p>{escape(said)}</p>"


def _maps(view: PolicyView, stream: StreamView, i: int) -> str:
    if not stream.maps:
        return ""
    means = f" Each column is the mean of {stream.map_every:,} steps." if stream.map_every > 1 else ""
    plots = []
    for j, heat in enumerate(stream.maps):
        which = "each bin" if len(heat.bins) == stream.bins else f"the first {len(heat.bins)} of {stream.bins:,} bins"
        group = f"{heat.name}. " if stream.groups else ""
        caption = f"{group}People in {which} ({stream.bin_unit}), as published.{means}"
        label = f"Histogram of {stream.name} over time. {caption}"
        plots.append(figure_html(f"map-{i}-{j}", plot_map(heat, stream, view.zone), visible(label), visible(caption)))
    note = (
        "" if len(stream.maps) >= stream.groups else f"<p>The first {len(stream.maps)} of {stream.groups:,} groups.</p>"
    )
    return note + "".join(plots)


def _risk(view: PolicyView) -> str:
    lines = {"risk": view.risks, "promised at most": view.limits}
    every = f" Every {view.risk_every:,}th step is drawn." if view.risk_every > 1 else ""
    top = three_figures(float(view.risks.max())) if len(view.risks) else "0"
    most = three_figures(float(view.limits.max())) if len(view.limits) else "0"
    caption = (
        f"Risk after each step of the account, by the promise's own counting: at most {top} of {most} nats.{every}"
    )
    plot = figure_html(
        "risk", plot_line(view.risk_times, lines, "risk (nats)", view.zone), f"Risk over time. {caption}", caption
    )
    return f"""<section aria-labelledby="risk-head"><h2 id="risk-head">Risk over time</h2>
<p>All streams are charged to one account, as they are about the same people.</p>{plot}</section>"""


def _verification(view: PolicyView) -> str:
    if view.problems:
        result = f'<p>The verification found problems.</p><ul class="open">{_items(view.problems)}</ul>'
    else:
        but = " The risk is worked out under the promise as it stands: see the warning above." if view.warnings else ""
        result = f'<p class="good"><strong>Everything agrees.</strong>{but}</p>'
    return f"""<section aria-labelledby="checked"><h2 id="checked">The verification's result</h2>{result}
<ul>{_items(view.checked)}</ul></section>"""


def _facts(view: PolicyView) -> str:
    lines = [(visible(name), visible(value)) for name, value in view.facts]
    table = table_html(
        "What this page was made from.", ("Fact", "Value"), lines, ["", "text-align: left; overflow-wrap: anywhere"]
    )
    return f"""<section aria-labelledby="facts"><h2 id="facts">Facts</h2>{table}</section>"""
