"""`demo`, `plan` and `reproduce`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen

if TYPE_CHECKING:
    from rich.table import Table

    from halflife.lab.demo import DemoResult
    from halflife.papers.age_dependent.reproduction import Reproduction as AgedReproduction
    from halflife.papers.almost_periodic.reproduction import Reproduction as PeriodicReproduction
    from halflife.papers.discounted.reproduction import Reproduction


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), default=Path("halflife-demo"),
    show_default=True, metavar="DIR", help="Folder for all that it writes; made if it is not there.",
)  # fmt: skip
@click.option("--households", type=int, default=300, show_default=True, help="How many homes to generate.")
@click.option("--days", type=int, default=60, show_default=True, help="How many days of half hours to publish.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Makes the homes repeatable. The noise has no seed."
)
def demo(out: Path, households: int, days: int, seed: int) -> None:
    """Publish a generated town's electricity use under every privacy promise, and compare.

    Writes a report to open in a browser (it needs no network), the releases as a Parquet file, and for each promise a
    folder with its policy, output and ledger, which the next demo replaces.

    \b
    Example:
      halflife demo
      halflife demo --out big-town --households 3000 --days 30
    """
    with progress_bar() as show:
        from halflife.cli.demo import run_demo

        result = run_demo(out, households, days, seed, show)
    screen().print(_summary(result))
    say(f"Report:   {result.report}")
    say(f"Releases: {result.parquet}")
    names = ", ".join(outcome.policy.parent.name for outcome in result.outcomes)
    say(f"Policies: {out}/…/policy.yaml, with output and ledger beside each: {names}")
    say(f"Check:    halflife verify {result.outcomes[-1].policy}")


@main.command()
@click.option("--notion", required=True, metavar="NAME", help="classical, w-event, exponential, hyperbolic, …")
@click.option("--epsilon", type=float, help="What is promised, in nats.")
@click.option("--delta", type=float, help="The notion's δ.")
@click.option("--alpha", type=float, help="Exponential discount a step.")
@click.option("--half-life", type=float, metavar="STEPS", help="Instead of alpha: when a loss counts half.")
@click.option("--beta", type=float, help="Hyperbolic discount a step.")
@click.option("--w", type=int, metavar="STEPS", help="Width of a w-event window.")
@click.option("--process", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Age-dependent: how people's data moves, as `halflife process fit` writes it.")  # fmt: skip
@click.option("--period", type=int, metavar="STEPS", help="Almost-periodic: how many steps a period has.")
@click.option("--strong", is_flag=True, default=None, help="Almost-periodic: hide one period of variations as well.")
@click.option("--sensitivity", type=float, default=1.0, show_default=True, help="How far one person can move a value.")
@click.option("--horizon", type=int, metavar="STEPS", help="The last step; without it the plan is for ever.")
@click.option("--method", default="tight", show_default=True, help="tight, paper; with a horizon constant, optimal.")
@click.option("--every", type=int, default=1, show_default=True, metavar="STEPS", help="Publish every so many steps.")
@click.option("--age", type=int, default=0, show_default=True, metavar="STEPS", help="How old the data is.")
@click.option("--cap", type=float, help="The most that one release may cost (discounted notions, tight).")
@click.option("--step", default="30 min", show_default=True, metavar="WIDTH", help='Such as "30 min", "1 h", "1 day".')
@click.option(
    "--start", metavar="TIME", help="When step 1 begins, as 2026-01-31 or 2026-01-31T13:30.  [default: today]"
)
@click.option("--error", type=float, help="Ask when the expected error passes this, and when the budget would run out.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write interactive plots."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def plan(notion: str, step: str, start: str | None, error: float | None, html: Path | None, as_json: bool,
         **options: Any) -> None:  # fmt: skip
    """Show noise, error and risk of a plan over time, before anything is spent.

    \b
    Example:
      halflife plan --notion hyperbolic --epsilon 1 --beta 0.1 --sensitivity 0.667 --horizon 365 --step "1 day"
      halflife plan --notion exponential --epsilon 1 --half-life 48 --error 20 --html plan.html
      halflife plan --notion age-dependent --epsilon 1 --process homes.json --age 4 --every 4
      halflife plan --notion almost-periodic --epsilon 1 --period 48 --strong
    """
    from halflife.errors import InvalidInput
    from halflife.lab.views import plan as lab
    from halflife.policy.promises.age_dependent.process import read_process_file

    if notion == "swellfish":
        raise InvalidInput(
            "swellfish plans for secrets in files, not for one epsilon: use `halflife secrets noise FILES...`"
        )
    promise = ("epsilon", "delta", "alpha", "half_life", "beta", "w", "process", "period", "strong")
    given = {k: v for k, v in options.items() if v is not None}
    if "process" in given:
        given["process"] = read_process_file(given["process"])
    request = {k: v for k, v in given.items() if k not in promise}
    with screen(stderr=True).status("planning"):
        chosen = lab.make_notion(notion, {k: v for k, v in given.items() if k in promise})
        view = lab.plan_view(chosen, width=step, start=start, error=error, **request)
        if html is not None:
            lab.write_plan_page(view, html)
    if as_json:
        say(json.dumps(lab.plan_json(view), indent=2, ensure_ascii=False))
    else:
        lab.print_view(view, screen())
    if html is not None:
        say(f"Plots: {html}", err=as_json)


def _from_and_to(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that every reproduction has: where data comes from, and where the report goes."""
    data = click.option(
        "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
        help="Folder with the real data.  [default: $HALFLIFE_DATA, else ../shared/data, else generated homes]",
    )  # fmt: skip
    out = click.option(
        "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), default=Path(folder), show_default=True,
        metavar="DIR", help="Folder for report.html, tables.md and the numbers; made if it is not there.",
    )  # fmt: skip
    return lambda command: data(out(command))


def _say_where(data: str, written: Sequence[Path]) -> None:
    """Say what a reproduction was made from, and what it wrote."""
    say(f"Data:    {data}")
    say(f"Report:  {written[0]}")
    say(f"Tables:  {written[1]}")
    say(f"Numbers: {', '.join(path.name for path in written[2:])}")


@main.group()
def reproduce() -> None:
    """Recompute a paper's figures and tables, with ours beside them.

    \b
    Example:
      halflife reproduce discounted --out discounted
      halflife reproduce age-dependent --out aged
      halflife reproduce almost-periodic --out periodic
    """


@reproduce.command()
@_from_and_to("halflife-discounted")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated homes; real data needs none.")
def discounted(data: Path | None, out: Path, seed: int) -> None:
    """Temporally discounted differential privacy (Farokhi): Figures 1 to 3, and tables of noise scales.

    \b
    Example:
      halflife reproduce discounted --data ../shared/data --out discounted
    """
    from halflife.lab.views.page import load_plotly
    from halflife.papers.discounted import reproduction as paper
    from halflife.papers.discounted.report import write_all

    load_plotly()  # a missing extra is reported before any work is done
    folder = paper.find_data(data)
    if folder is None:
        say(paper.WHERE_TO_GET, err=True)
    with progress_bar() as show:
        show("reading" if folder else "simulating the homes", 0, 1)
        source = paper.generated_source(seed) if folder is None else paper.real_source(folder)
        found = paper.reproduce(source, progress=show)
        show("writing the report", 0, 1)
        written = write_all(found, out)
    screen().print(_scales(found))
    _say_where(source.name, written)


@reproduce.command("age-dependent")
@_from_and_to("halflife-age-dependent")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated homes; real data needs none.")
def age_dependent(data: Path | None, out: Path, seed: int) -> None:
    """Age-dependent differential privacy (Zhang, Wei, Berry, Huang): Figures 2 to 8, the two towns, the errata, and whether
    homes move as their model says.

    \b
    Example:
      halflife reproduce age-dependent --data ../shared/data --out aged
    """
    from halflife.lab.views.page import load_plotly
    from halflife.papers.age_dependent import reproduction as paper
    from halflife.papers.age_dependent.london import LONDON, WHERE_TO_GET, generated_source, real_source
    from halflife.papers.age_dependent.report import write_all
    from halflife.papers.discounted.reproduction import find_data

    load_plotly()  # a missing extra is reported before any work is done
    folder = find_data(data, (LONDON,))
    if folder is None:
        say(WHERE_TO_GET, err=True)
    with progress_bar() as show:
        show("reading" if folder else "simulating the homes", 0, 1)
        source = generated_source(seed) if folder is None else real_source(folder)
        found = paper.reproduce(source, progress=show)
        show("writing the report", 0, 1)
        written = write_all(found, out)
    screen().print(_risks(found))
    say(f"Counted: {paper.chance_words(found)}")
    say(f"Check:   {found.check.verdict}")
    _say_where(source.name, written)


@reproduce.command("almost-periodic")
@_from_and_to("halflife-almost-periodic")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of simulated noise, shuffling and generated homes."
)
def almost_periodic(data: Path | None, out: Path, seed: int) -> None:
    """Differential privacy for almost periodic data: Figures 1 to 10, the attack on its Corollary 8, the errata, and
    what renewing noise costs.

    \b
    Example:
      halflife reproduce almost-periodic --data ../shared/data --out periodic
    """
    from halflife.lab.views.page import load_plotly
    from halflife.papers.almost_periodic import reproduction as paper
    from halflife.papers.almost_periodic.homes import WHERE_TO_GET, generated_source, real_source
    from halflife.papers.almost_periodic.report import write_all
    from halflife.papers.discounted.reproduction import find_data

    load_plotly()  # a missing extra is reported before any work is done
    folder = find_data(data)
    if folder is None:
        say(WHERE_TO_GET, err=True)
    with progress_bar() as show:
        show("reading" if folder else "simulating the homes", 0, 1)
        source = generated_source(seed) if folder is None else real_source(folder)
        found = paper.reproduce(source, seed, progress=show)
        show("writing the report", 0, 1)
        written = write_all(found, out)
    screen().print(_coefficients(found))
    say(f"Test:    {found.daily.verdict}")
    for note in source.notes[0 if folder else 1 :]:  # where to get the data was said above
        say(f"Note:    {note}")
    _say_where(source.name, written)


def _coefficients(found: PeriodicReproduction) -> Table:
    """The paper's coefficients and ours."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from halflife.papers.almost_periodic.reproduction import COEFFICIENT_HEADS, coefficient_rows

    title = "Coefficients between periods: the paper's, of its data, and ours"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in COEFFICIENT_HEADS:
        if name != "homes":
            table.add_column(name, justify="left" if name in COEFFICIENT_HEADS[:2] else "right")
    for whose, data, _, *cells in coefficient_rows(found):
        table.add_row(whose, data.split(",")[0], *cells)
    return table


def _risks(found: AgedReproduction) -> Table:
    """The table of risks by age."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from halflife.papers.age_dependent.reproduction import RISK_HEADS, risk_cells, shown

    title = f"What is left of ε_C by age (nats): {found.source.name}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in RISK_HEADS:
        table.add_column(re.sub(r"(?<=[:,]) | (?=\()", "\n", name), justify="right")
    last = None
    for row in shown(found.rows):
        if last not in (None, row.epsilon):
            table.add_section()
        last = row.epsilon
        table.add_row(*risk_cells(row))
    return table


def _scales(found: Reproduction) -> Table:
    """The table of noise scales."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from halflife.papers.discounted.reproduction import TABLE_HEADS, table_cells

    title = f"Noise scales over {found.steps:,} steps, hyperbolic, Δf = ε = 1"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in TABLE_HEADS:
        table.add_column(name.replace(" ", "\n", 1), justify="left" if name == "plan" else "right")
    for row in (*found.rows, *found.small):
        table.add_row(*table_cells(row))
    return table


def _summary(result: DemoResult) -> Table:
    """The errors in a few columns."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from halflife.lab.demo import error_data, three_figures

    mean = three_figures(float(result.exact.mean()))
    title = f"Mean use of {result.households:,} generated homes: {mean} kWh per half hour. Errors in kWh."
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("promise")
    for name in ("last noise\nscale", "mean\nerror", "relative\nerror", "promise\nused"):
        table.add_column(name, justify="right")
    for row in error_data(result):
        table.add_row(
            row.label, three_figures(row.last_scale), three_figures(row.mean_absolute_error),
            f"{three_figures(100 * row.relative_error)} %", f"{100 * row.largest_share:.1f} %",
        )  # fmt: skip
    return table
