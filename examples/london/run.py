"""Publish the electricity use of 325 London homes under three notions, check it, and write a report.

    python examples/london/run.py [--data DIR] [--out DIR]

The policies beside this file are copied into the out folder and pointed to the data. A second run into the same folder
publishes nothing again: it checks what is there and writes the report anew. Exact values are shown because the data is open
research data; a real publication must not show them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from halflife.cli.demo import publish_and_verify
from halflife.errors import HalflifeError
from halflife.lab.comparison import Comparison, Outcome, exact_series
from halflife.lab.households.readings import SLOTS_PER_DAY, readings_table, simulate
from halflife.lab.views.page import figure_html, load_plotly, table_html, write_page
from halflife.lab.views.report import (
    error_table,
    errors_html,
    estimate_lines,
    estimates_html,
    opening_html,
    overview_html,
    plot_lines,
    section_html,
    series_figure,
)
from halflife.lab.views.text import three_figures
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.papers.figures import LONDON, find_data
from halflife.policy import Policy, channels

HERE = Path(__file__).resolve().parent
DAILY, HALF_HOURLY = ("w-event", "exponential", "hyperbolic"), "half-hourly"
GUESS = "188 Wh"
"""A public value for a missing half hour: 3,300 kWh a year, what Ofgem then called a typical home's use."""

WITHOUT_DATA = (
    f"{LONDON} is not here. It is made from 'SmartMeter Energy Consumption Data in London Households' (London Datastore, CC BY "
    "4.0): columns lclid, ts, kwh, the 325 homes of 2013. Give its folder with --data or HALFLIFE_DATA, or put it into "
    f"{HERE / 'data'}. Running on generated homes, which have no gaps."
)


@dataclass(frozen=True, eq=False)
class Town:
    """Where the readings are, whether they are real, and what of the policies must change for homes that are not."""

    readings: Path
    real: bool
    changes: dict[str, str]


# The readings -------------------------------------------------------------------------------------------------------


def find_readings(folder: Path | None) -> Path | None:
    """Return the real readings: in the folder given or $HALFLIFE_DATA, beside this file, or in shared/data by the checkout."""
    found = find_data(folder, (LONDON,))
    places = [found] if found else [HERE / "data", HERE.parents[2] / "shared" / "data"]
    return next((place / LONDON for place in places if (place / LONDON).is_file()), None)


def generated_town(out: Path, homes: int = 325, days: int = 365, seed: int = 1) -> Town:
    """Write the readings of generated homes, in the columns of the real ones."""
    start = datetime.datetime(2013, 1, 1)
    file = out / "generated.parquet"
    readings = readings_table(simulate(homes, days, start, seed))
    pq.write_table(readings.rename_columns(["lclid", "ts", "kwh"]), file)
    end = start + datetime.timedelta(days=days)
    return Town(file, False, {"id": "generated-homes", "size": str(homes), "end": f"{end:%Y-%m-%d}"})


# Publishing ---------------------------------------------------------------------------------------------------------


def fill(text: str, values: dict[str, str]) -> str:
    """Return a policy's text with other values behind some of its keys; comments stay.

    >>> fill("  size: 325   # public", {"size": "20"})
    '  size: 20   # public'
    """
    for key, value in values.items():
        assert text.count(f" {key}: ") == 1, f"a policy of this example has `{key}` once"
        before, found, rest = text.partition(f" {key}: ")
        text = before + found + value + rest[len(rest.split(maxsplit=1)[0]) :]
    return text


def write_policy(name: str, out: Path, town: Town) -> Path:
    """Copy a policy into the out folder, pointed to the readings."""
    text = (HERE / f"{name}.yaml").read_text(encoding="utf-8")
    file = out / f"{name}.yaml"
    file.write_text(fill(text, {"files": json.dumps(str(town.readings.resolve())), **town.changes}), encoding="utf-8")
    return file


def comparison(outcomes: list[Outcome], unit: str) -> Comparison:
    """Put what was published beside the exact series of the same policy."""
    policy = Policy.load(outcomes[0].policy)
    (channel,) = channels(policy)
    steps = len(outcomes[0].published)
    starts = channel.steps.edges(1, steps)[:-1].astype("datetime64[us]").astype("datetime64[s]")
    sensitivity = float(channel.sensitivity.l1 * channel.factors[0])
    width = np.timedelta64(int(channel.steps.width), "us").astype("timedelta64[s]")
    size, exact = policy.population.size, exact_series(policy, steps)
    return Comparison(size, sensitivity, starts, width, unit, exact, tuple(outcomes))


def variant(file: Path, **statistic: Any) -> Policy:
    """Return a policy with another statistic, for what the operator alone may ask; nothing is published under it."""
    data = Policy.load(file).model_dump(exclude_none=True)
    known = data["streams"][0]["statistic"]
    data["streams"][0]["statistic"] = {**known, **statistic} if "kind" not in statistic else statistic
    return Policy.from_dict(data, file.parent)


# What the operator alone may know -----------------------------------------------------------------------------------


def reporting_data(half_hours: Comparison) -> Floats:
    """Return how many homes have a reading in each half hour."""
    counted = variant(half_hours.outcomes[0].policy, kind="count")
    return exact_series(counted, len(half_hours.exact))


def missing_data(half_hours: Comparison, reporting: Floats) -> dict[str, Floats]:
    """Return each day's mean use for three answers to: what does a home without a reading count as?"""
    guessed = exact_series(variant(half_hours.outcomes[0].policy, missing=GUESS), len(half_hours.exact))
    only = half_hours.exact * half_hours.households / np.maximum(reporting, 1)
    lines = {"missing: 0": half_hours.exact, f"missing: {GUESS}": guessed, "only homes that report": only}
    return {name: by_day(y) for name, y in lines.items()}


def clip_data(days: Comparison) -> tuple[float, float]:
    """Return the year's mean with the policy's clip, and with one that no home reaches: 48 times 10 kWh."""
    wide = variant(days.outcomes[0].policy, clip=["0", f"{SLOTS_PER_DAY * 10} kWh"])
    return float(days.exact.mean()), float(exact_series(wide, len(days.exact)).mean())


def by_day(y: Floats) -> Floats:
    """Return the sum over each day's half hours."""
    sums: Floats = y.reshape(-1, SLOTS_PER_DAY).sum(axis=1)
    return sums


def tallies(outcome: Outcome) -> dict[str, int]:
    """Return the tallies of bad and clipped readings that the publisher left for the operator, added up over its passes."""
    lines = Path(f"{outcome.ledger}.operator.jsonl").read_text(encoding="utf-8").splitlines()
    total: dict[str, int] = {}
    for line in map(json.loads, lines):
        for name, count in line.items():
            if isinstance(count, int):
                total[name] = total.get(name, 0) + count
    return total


# The report ---------------------------------------------------------------------------------------------------------


def write_london(days: Comparison, half_hours: Comparison, town: Town, path: Path) -> None:
    """Write the report as one HTML file that needs nothing else."""
    body = [
        _opening(days, town), errors_html(days), overview_html(days), *(section_html(days, o) for o in days.outcomes),
        _half_hours(days, half_hours), _operator(days, half_hours),
    ]  # fmt: skip
    whose = "London homes" if town.real else "generated homes"
    footer = " (examples/london/run.py); policies, outputs and ledgers are beside it."
    write_page(path, f"{days.households:,} {whose}, published day by day", "\n".join(body), footer)


def _opening(days: Comparison, town: Town) -> str:
    first, last = days.times[0].astype(object), days.times[-1].astype(object)
    bound = days.outcomes[0].plan.sensitivity / 1000
    facts = {
        "Homes": f"{days.households:,} ({'London, 2013' if town.real else 'generated'})",
        "Days": f"{len(days.exact):,}, {first:%-d %B %Y} to {last:%-d %B %Y}",
        "Exact mean": f"{three_figures(float(days.exact.mean()))} kWh a day",
        "Sensitivity": f"{three_figures(days.sensitivity)} kWh ({bound:g} kWh / {days.households:,})",
        "Step": "1 day (w, α and β count days)",
    }
    why = (
        "they are research data under an open licence (Low Carbon London, CC BY 4.0)"
        if town.real
        else f"the homes are generated. {escape(WITHOUT_DATA)}"
    )
    lede = f"""The mean daily electricity use of {days.households:,} homes, published under three privacy promises by the policies
beside this page, as if each day had been published when it was over. <strong>Exact values are on this page only because {why};
a real publication must not show them.</strong>"""
    return opening_html("A year of electricity, published day by day", lede, facts)


def _half_hours(days: Comparison, half_hours: Comparison) -> str:
    """The same promise at another pace, and what its days come to."""
    fine, coarse = half_hours.outcomes[0], days.outcomes[0]
    exact, noisy = by_day(half_hours.exact), fine.published if fine.noisy is None else fine.noisy
    added, estimated = (float(np.abs(by_day(y) - exact).mean()) for y in (noisy, fine.published))
    direct = float(np.abs(coarse.published - days.exact).mean())
    small, large = (o.plan.sensitivity / 1000 for o in (fine, coarse))
    return f"""<section aria-labelledby="half-hours"><h2 id="half-hours">Nearly the same promise, half hour by half hour</h2>
<p>{escape(HALF_HOURLY)}.yaml hides what a home did within any 24 hours, where w-event.yaml hides what it did from one midnight
to the next. The {SLOTS_PER_DAY} releases of a day share what one release has for itself, and a home that may use {small:g} kWh in
each half hour may use {SLOTS_PER_DAY * small:g} kWh a day, where w-event.yaml clips at {large:g}. Added up to days, the
noisy half hours are off by {three_figures(added)} kWh a day on average, those estimated from them, which are published, by
{three_figures(estimated)}; the day published at once by {three_figures(direct)} kWh.
Publish no more often than the numbers are needed.</p>
{error_table(half_hours, links=False)}
{estimates_html(half_hours)}
{series_figure(half_hours, fine, "series-half-hours")}</section>"""


def _operator(days: Comparison, half_hours: Comparison) -> str:
    """What depends on the readings: for the operator's eyes, and here because this data is open."""
    reporting = reporting_data(half_hours)
    answers = missing_data(half_hours, reporting)
    clipped, free = clip_data(days)
    least, mean = int(reporting.min()), three_figures(float(reporting.mean()))
    homes = plot_lines(half_hours, {"homes with a reading": reporting}, "homes", "%{y:,} homes")
    homes.update_layout(showlegend=False)
    homes.update_traces(line={"width": 1.2})
    shown = plot_lines(days, answers, days.unit, "%{y:.2f} kWh")
    caption = f"At least {least:,} of {half_hours.households:,} homes report in each half hour, {mean} on average."
    return f"""<section aria-labelledby="operator"><h2 id="operator">For the operator alone</h2>
<ul class="open"><li>Private: everything in this section depends on the readings and has no noise. A real operator looks at it
and shows it to nobody; the tallies are in a file beside the ledger that only its owner can read.</li></ul>
<h3>Bad readings</h3>
{_tallies([*days.outcomes, *half_hours.outcomes])}
<p>A bad reading is left out, as if it were missing. What a home counts as is clipped after its readings are added up; that takes
{three_figures(100 * (1 - clipped / free))} % off the year's mean.</p>
<h3>How many homes report</h3>
{figure_html("reporting", homes, caption, caption)}
<h3>What a missing reading counts as</h3>
<p>The number of homes that report depends on their readings, so a mean over those alone cannot be published without
publishing that number too. A public value within the clip costs no more noise than 0 does. Every number here is exact.</p>
{_answers(answers)}
{figure_html("missing", shown, "Daily means for three answers", "Mean use by day, for each way to count a missing reading.")}
</section>"""


def _tallies(outcomes: list[Outcome]) -> str:
    found = {o.policy.stem: tallies(o) for o in outcomes}
    names = list(next(iter(found.values())))
    lines = [(f"{stem}.yaml", *(f"{count[name]:,}" for name in names)) for stem, count in found.items()]
    return table_html("Tallies of readings, private.", ("Policy", *(n.replace("_", " ") for n in names)), lines)


def _answers(answers: dict[str, Floats]) -> str:
    only = float(answers["only homes that report"].mean())
    lines = [
        (name, f"{y.mean():.2f}", f"{100 * (float(y.mean()) / only - 1):+.1f} %".replace("-", "−"))
        for name, y in answers.items()
    ]
    heads = ("A home without a reading counts as", "Mean (kWh per home and day)", "Against homes that report")
    return table_html("The year's mean for each answer.", heads, lines)


# Running ------------------------------------------------------------------------------------------------------------


def run(out: Path, town: Town, progress: Progress) -> tuple[Comparison, Comparison]:
    """Publish under every policy, check, and write the report; return the days and the half hours."""
    outcomes = {}
    for name in (*DAILY, HALF_HOURLY):
        outcomes[name] = publish_and_verify(write_policy(name, out, town), _prefixed(name, progress))
    progress("asking for the exact values", 0, 0)
    days = comparison([outcomes[name] for name in DAILY], "kWh per home and day")
    half_hours = comparison([outcomes[HALF_HOURLY]], "kWh per home and half hour")
    progress("writing the report", 0, 0)
    write_london(days, half_hours, town, out / "report.html")
    return days, half_hours


def _prefixed(name: str, progress: Progress) -> Progress:
    """Say which policy the progress is about."""
    return lambda what, done, total: progress(f"{name}: {what}", done, total)


def main() -> None:
    """Run from the command line."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="DIR", help=f"folder that holds {LONDON}")
    parser.add_argument("--out", type=Path, metavar="DIR", default=Path("halflife-london"), help="default: %(default)s")
    chosen = parser.parse_args()
    try:
        load_plotly()  # a missing extra is reported before any work is done
        readings = find_readings(chosen.data)
        chosen.out.mkdir(parents=True, exist_ok=True)
        if readings is None:
            print(WITHOUT_DATA, file=sys.stderr)
        town = Town(readings, True, {}) if readings else generated_town(chosen.out)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Bar(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
            task = bar.add_task("starting", total=None)
            days, half_hours = run(
                chosen.out,
                town,
                lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None),
            )
    except (HalflifeError, OSError) as error:
        sys.exit(f"Error: {error}")
    for result in (days, half_hours):
        for outcome in result.outcomes:
            off = float(np.abs(outcome.published - result.exact).mean())
            share = three_figures(100 * off / float(result.exact.mean()))
            print(f"{outcome.policy.name:<18} mean error {three_figures(off)} {result.unit} ({share} %), verified")
        for line in estimate_lines(result):
            print(line)
    print(f"Report: {chosen.out / 'report.html'}")


if __name__ == "__main__":
    main()
