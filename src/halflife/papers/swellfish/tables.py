"""Tables and words about the Swellfish paper's experiments: for the report, for Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

import numpy as np

from halflife.lab.views.text import three_figures
from halflife.papers.figures import markdown
from halflife.papers.swellfish.error import uniform_data
from halflife.papers.swellfish.printed import EPSILON, EXPERIMENTS, MECHANISMS, PURE, RESCUE, SWELLFISH
from halflife.papers.swellfish.reproduction import Reproduction, ZoneFacts, uniform_scale
from halflife.papers.swellfish.secrets import ALL, ONE, Households, Kept, Scales
from halflife.papers.swellfish.streams import WEEK
from halflife.plans.base import STD_OF_UNIT_SCALE
from halflife.specifications.neighbours import INTERPRETATIONS

MECHANISM_HEADS = ("mechanism", "scale, Experiment 1", "scale, Experiment 2", "noise")
ZONE_HEADS = ("zone", *(f"{mechanism}, {promise}" for mechanism, promise in MECHANISMS))
REASON_HEADS = ("zone", "mechanism", "ours, %", "as the text has it, %", "printed, %", "ratio", "why")
PLAN_HEADS = ("plan", "mean scale, kW", "mean |noise|, kW", "households certified", *INTERPRETATIONS)
FACT_HEADS = (
    "zone",
    "mean load, MW",
    "1/load against what is printed",
    "history alone",
    "lag of the filter, %",
    "Uniform, filter alone, %",
    "implied scale, kW",
)
BEYOND_HEADS = ("zone", "Uniform, exact", "RescueDP, no filter", "RescueDP, reads ahead", "tight, one", "optimal, one",
                "paper, all", "tight, all", "tight, all, δ", "Gaussian, all, δ")  # fmt: skip


def mechanism_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return each mechanism with its parameters, and its scale in both experiments (Tables II and III; recomputed)."""
    second = uniform_data(EXPERIMENTS[1].w, found.source.steps)
    rows: list[tuple[str, ...]] = [
        (a.label, f"{three_figures(a.scale)} kW", f"{three_figures(b.scale)} kW", a.noise)
        for a, b in zip(found.uniform, second, strict=True)
    ]
    rows.append((RESCUE, "by its outputs", "by its outputs", "laplace"))
    for p in found.plans:
        week = float(p.second[:WEEK].mean())
        scales = f"mean {three_figures(p.mean)} kW", f"in the first week {three_figures(week)} kW, then as before"
        rows.append((f"{SWELLFISH}, {p.label}", *scales, p.noise))
    return rows


def zone_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return a line for each zone: ours / printed = ratio, for each mechanism of Table II."""
    by = {(r.zone, r.mechanism, r.promise): r for r in found.rows if r.printed is not None}
    rows = []
    for facts in found.facts:
        cells = []
        for key in MECHANISMS:
            row = by.get((facts.zone, *key))
            cells.append("–" if row is None else f"{_three(row.figure)} / {_three(row.printed)} = {_ratio(row.ratio)}")
        rows.append((str(facts.zone), *cells))
    return rows


def reason_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return the zones that are more than a tenth off, with the reason; not Swellfish's, which is the same in all of them."""
    return [
        (str(r.zone), f"{r.mechanism}, {r.promise}", *map(_three, (r.figure, r.text, r.printed)), _ratio(r.ratio), r.reason)
        for r in found.rows
        if r.reason and r.mechanism != SWELLFISH
    ]  # fmt: skip


def beyond_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return what the paper does not have: errors in per cent of exact accounting, of RescueDP's variants, and of our plans."""
    rows = []
    for facts in found.facts:
        by = {r.label: r.figure for r in found.rows if r.zone == facts.zone}
        rescue = [float(r.mean[facts.zone - 1]) for r in found.rescue[1:3]]
        labels = [p.label for p in _beyond(found)]
        exact = next(v for k, v in by.items() if k.endswith("exact accounting"))
        rows.append((str(facts.zone), *map(_three, (exact, *rescue, *(by[label] for label in labels)))))
    return rows


def _beyond(found: Reproduction) -> list[Scales]:
    return [
        found.plan(ONE, "tight", PURE),
        found.plan(ONE, "optimal", PURE),
        found.plan(ALL, "paper", PURE),
        found.plan(ALL, "tight", PURE),
        found.plan(ALL, "tight", "approximate"),
        found.plan(ALL, "tight", "approximate", "gaussian"),
    ]


def plan_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return every plan with what it keeps under each interpretation."""
    return [
        (p.label, three_figures(p.mean), three_figures(p.mean_error), str(p.certified or "–"),
         *(kept_words(p.kept.get(meaning)) for meaning in INTERPRETATIONS))
        for p in found.plans
    ]  # fmt: skip


def kept_words(kept: Kept | None) -> str:
    """Return "kept", or how much of its ε the worst secret loses and how many lose too much.

    >>> kept_words(Kept(0, 5, 0.5)), kept_words(Kept(2, 5, 1.234)), kept_words(None)
    ('kept', '1.23 ε (2 of 5)', 'not worked out')
    """
    if kept is None:
        return "not worked out"
    return f"{kept.share:.3g} ε ({kept.broken:,} of {kept.secrets:,})" if kept.broken else "kept"


def fact_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return what explains a zone's errors."""
    return [
        (str(f.zone), f"{f.mean_load / 1000:,.1f}", _known(f.inverse / f.implied), _known(f.history / f.implied),
         f"{f.lag:.3g}", f"{f.smoothed:.4g}", _known(f.scale))
        for f in found.facts
    ]  # fmt: skip


def week_rows(found: Reproduction) -> list[tuple[str, ...]]:
    """Return Experiment 2: error in week 1, and the mean of the other weeks that Figure 4 shows."""
    return [
        (w.label, _three(float(w.errors[0])), _three(float(w.errors[1:].mean())) if len(w.errors) > 1 else "–")
        for w in found.weeks
    ]


WEEK_HEADS = ("mechanism", "week 1, %", "weeks 2 to 12, %")


def _three(x: float | None) -> str:
    if x is None:
        return "–"
    return three_figures(x) if x < 1e7 else f"{x:.2e}"


def _ratio(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.3g}"


def _known(x: float) -> str:
    return f"{x:.3g}" if math.isfinite(x) else "–"


# Words --------------------------------------------------------------------------------------------------------------


def specification_words(found: Reproduction) -> list[str]:
    """Say what is known about the published specification files, and what is not, with both computed."""
    homes, one, every = found.households, found.plan(ONE, "paper", PURE), found.plan(ALL, "paper", PURE)
    together = float(homes.longest.max() * homes.largest.max() / EPSILON) / every.mean
    gains = np.quantile(homes.uniform / homes.mean, [0.0, 0.5, 1.0])
    said = [
        "Computed for our generated town: one household's specification asks for a mean scale of "
        f"{three_figures(float(homes.mean.min()))} to {three_figures(float(homes.mean.max()))} kW (Theorem 8), the middle one "
        f"for {three_figures(one.mean)} kW; the maximum over all {len(homes.mean)} (Theorem 9) for "
        f"{three_figures(every.mean)} kW.",
        "Uniform's scale with parameters from the same specifications (Theorem 7) is larger by a factor of "
        f"{gains[0]:.3g} to {gains[2]:.3g} for one household (half of them below {gains[1]:.3g}), and of {together:.3g} for all.",
    ]
    scales = [f.scale for f in found.facts if math.isfinite(f.scale)]
    if not scales:
        return said
    middle = float(np.median(scales))
    beyond = ", and beyond those of every household of ours" if middle < homes.mean.min() else ""
    return [
        *said,
        f"Figure 3's errors of Swellfish are those of noise with a mean scale of about {middle:.3g} kW ({min(scales):.3g} to "
        f"{max(scales):.3g}, by zone), {uniform_scale() / middle:.0f} times less than Uniform's {uniform_scale():,.0f} kW. Both "
        f"the scale and the factor lie nearer to one household's than to the maximum's{beyond}.",
        "The 250 specification files published with the paper have one content hash, so they are one file 250 times, and a "
        "maximum over them is one household's demand. That agrees with the figure. It does not show how the figure was made: "
        "what is in the file is not at hand, and our town is another one (longest event "
        f"{homes.longest.max():.0f} steps, largest Δ {homes.largest.max():.3g} kW; Table III has 65 and 3.92).",
    ]


def dominant_words(found: Reproduction) -> str:
    """Say what a week's secret costs, against what the paper says of it."""
    one, uniform = found.plan(ONE, "paper", PURE), uniform_data(EXPERIMENTS[1].w, found.source.steps)
    week, pure = float(one.second[:WEEK].mean()), uniform[0].scale
    exact = math.sqrt(2) * pure / (uniform[-1].scale * STD_OF_UNIT_SCALE[uniform[-1].noise])
    return (
        f"In the first week Swellfish's mean scale is {three_figures(week)} kW, {week / pure:.2f} times Uniform's "
        f"{three_figures(pure)} kW, as the dominant secret's power comes on top of the others'; afterwards it is as in "
        f"Experiment 1. With a δ Uniform's scale is {pure / uniform[1].scale:.2f} times less by Theorem 10, and its standard "
        f"deviation {exact:.2f} times less by exact accounting: less than an order of magnitude, where the text has orders."
    )


def stream_words(found: Reproduction) -> str:
    """Say how well the streams themselves fit what is printed."""
    s = found.stretch
    if s is None:
        return "Nothing is printed about these streams."
    return (
        "Without filter, every error is the noise's mean size times the mean of 1/load, so Figure 3's Uniform implies that. "
        f"No stretch of whole weeks has it in all of {s.zones} zones: days {s.first_day:,} to {s.last_day:,} come nearest, and "
        f"are still up to {100 * s.off:.1f} % off. Printed and computed streams differ a little, and we could not find how."
    )


# Files --------------------------------------------------------------------------------------------------------------


def to_csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    r"""Return rows as CSV; None is empty, and numbers have six figures.

    >>> to_csv(("a", "b"), [(1, None), ("x, y", 0.123456789)])
    'a,b\n1,\n"x, y",0.123457\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(heads)
    for row in rows:
        writer.writerow([f"{x:.6g}" if isinstance(x, float) else "" if x is None else x for x in row])
    return text.getvalue()


def csv_files(found: Reproduction) -> dict[str, str]:
    """Return every table as CSV, by file name."""
    weeks = range(1, len(found.weeks[0].errors) + 1)
    errors = (
        "zone",
        "mechanism",
        "promise",
        "label",
        "mre_percent",
        "mre_percent_text_order",
        "printed",
        "ratio",
        "reason",
    )
    homes = enumerate(zip(*(column.tolist() for column in found.households), strict=True), start=1)
    return {
        "figure3.csv": to_csv(errors, ((*r[:7], r.ratio, r.reason) for r in found.rows)),
        "figure4.csv": to_csv(
            ("mechanism", *(f"week_{k}" for k in weeks)), ((w.label, *w.errors.tolist()) for w in found.weeks)
        ),
        "zones.csv": to_csv(ZoneFacts._fields, found.facts),
        "plans.csv": _plans_csv(found),
        "households.csv": to_csv(("household", *Households._fields), ((i, *row) for i, row in homes)),
    }


def _plans_csv(found: Reproduction) -> str:
    verdicts = [f"{m}_{what}" for m in INTERPRETATIONS for what in ("broken", "secrets", "worst_share")]
    heads = ("who", "method", "delta", "noise", "mean_scale", "largest_scale", "experiment_2_week_1", "certified")
    rows = (
        (p.who, p.method, p.delta, p.noise, p.mean, float(p.first.max()), float(p.second[:WEEK].mean()), p.certified,
         *(x for m in INTERPRETATIONS for x in p.kept.get(m, (None, None, None))))
        for p in found.plans
    )  # fmt: skip
    return to_csv((*heads, *verdicts), rows)


def tables_markdown(found: Reproduction) -> str:
    """Return `tables.md`: every table of the report."""
    notes = "\n".join(f"- {note}" for note in found.source.notes)
    said = "\n".join(f"- {text}" for text in specification_words(found))
    return f"""# Swellfish privacy, reproduced

Data: {found.source.name}. {found.repetitions} repetitions.

{notes}

## Tables II and III

{markdown(MECHANISM_HEADS, mechanism_rows(found))}

## Experiment 1 (Figure 3): mean relative error in per cent, ours / printed = ratio

{markdown(ZONE_HEADS, zone_rows(found))}

## Where ours is more than a tenth off

{markdown(REASON_HEADS, reason_rows(found))}

{stream_words(found)}

## The specifications

{said}

## What explains a zone

{markdown(FACT_HEADS, fact_rows(found))}

## Beyond the paper: mean relative error in per cent

{markdown(BEYOND_HEADS, beyond_rows(found))}

## What each plan keeps

{markdown(PLAN_HEADS, plan_rows(found))}

## Experiment 2 (Figure 4): mean over zones but zone 4

{dominant_words(found)}

{markdown(WEEK_HEADS, week_rows(found))}
"""
