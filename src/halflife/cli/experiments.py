"""`demo`, `plan` and `reproduce`."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen

if TYPE_CHECKING:
    from halflife.lab.views.plan import PlanView
    from halflife.papers.figures import Paper


@main.command()
@click.option(
    "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), default=Path("halflife-demo"),
    show_default=True, metavar="DIR", help="Folder for all that it writes; made if it is not there.",
)  # fmt: skip
@click.option("--households", type=int, default=10_000, show_default=True, help="How many homes to generate.")
@click.option("--days", type=int, default=14, show_default=True, help="How many days of half hours to publish.")
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
      halflife demo --out small-town --households 300 --days 60
    """
    with progress_bar() as show:
        from halflife.cli.demo import run_demo
        from halflife.lab.views.report import estimate_lines, summary_table

        result = run_demo(out, households, days, seed, show)
    screen().print(summary_table(result))
    for line in estimate_lines(result):
        say(line)
    say(f"Report:   {result.report}")
    say(f"Releases: {result.parquet}")
    names = ", ".join(outcome.policy.parent.name for outcome in result.outcomes)
    say(f"Policies: {out}/…/policy.yaml, with output and ledger beside each: {names}")
    say(f"Check:    halflife verify {result.outcomes[-1].policy}")


@main.command()
@click.argument("policy", type=click.Path(exists=True, dir_okay=False, path_type=Path), required=False)
@click.option("--notion", metavar="NAME", help="Without a policy: classical, w-event, exponential, hyperbolic, …")
@click.option("--epsilon", type=float, help="What is promised, in nats.")
@click.option("--delta", type=float, help="The notion's δ.")
@click.option("--alpha", type=float, help="Exponential discount a step.")
@click.option("--half-life", metavar="TIME", help="Instead of alpha: when a loss counts half, in steps or as a time.")
@click.option("--beta", type=float, help="Hyperbolic discount a step.")
@click.option("--w", metavar="TIME", help='Width of a w-event window: 336, or "1 week".')
@click.option("--process", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
              help="Age-dependent: how people's data moves, as `halflife process fit` writes it.")  # fmt: skip
@click.option("--period", metavar="TIME", help="Almost-periodic: how long a period is.")
@click.option("--strong", is_flag=True, default=None, help="Almost-periodic: hide one period of variations as well.")
@click.option("--sensitivity", type=float, help="How far one person can move a value.  [default: 1.0]")
@click.option("--horizon", metavar="TIME", help="The last step; without it the plan is for ever.")
@click.option("--method", help="tight, paper; with a horizon constant, optimal.  [default: tight]")
@click.option("--every", metavar="TIME", help="Publish every so many steps.  [default: 1]")
@click.option("--age", metavar="TIME", help="How old the data is.  [default: 0]")
@click.option("--cap", type=float, help="The most that one release may cost (discounted notions, tight).")
@click.option("--step", metavar="WIDTH", help='Such as "30 min", "1 day", "1 month".  [default: 30 min]')
@click.option(
    "--start",
    metavar="TIME",
    help="When step 1 begins, as 2026-01-31 or 2026-01-31T13:30.  [default: today, or the first of this month]",
)
@click.option("--error", type=float, help="Ask when the expected error passes this, and when the budget would run out.")
@click.option(
    "--split", metavar="STREAM=ERROR",
    help="Of a policy whose streams add up: propose shares such that this stream's error is at most this, the other's least.",
)  # fmt: skip
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write interactive plots."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def plan(policy: Path | None, notion: str | None, step: str | None, start: str | None, error: float | None,
         split: str | None, html: Path | None, as_json: bool, **options: Any) -> None:  # fmt: skip
    """Show noise, error and risk of a plan over time, before anything is spent.

    Of a policy, or of a notion with its parameters. TIME is a number of steps, or a time such as "1 week".

    \b
    Example:
      halflife plan policy.yaml
      halflife plan policy.yaml --split zones=12
      halflife plan --notion w-event --epsilon 1 --w "1 week"
      halflife plan --notion hyperbolic --epsilon 1 --beta 0.1 --sensitivity 0.667 --horizon 365 --step "1 day"
      halflife plan --notion exponential --epsilon 1 --half-life 48 --error 20 --html plan.html
      halflife plan --notion age-dependent --epsilon 1 --process homes.json --age 4 --every 4
      halflife plan --notion almost-periodic --epsilon 1 --period 48 --strong
    """
    from halflife.lab.views import plan as lab
    from halflife.policy import Policy
    from halflife.publisher.holding import follow_own_ledger

    given = {k: v for k, v in options.items() if v is not None}
    if (policy is None) == (notion is None):
        raise click.UsageError("give a policy, or --notion with its parameters")
    if policy is not None and (given or step or start):
        unused = ", ".join(
            f"--{k.replace('_', '-')}" for k in [*given, *(["step"] if step else []), *(["start"] if start else [])]
        )
        raise click.UsageError(f"{unused}: the policy says that; leave it out")
    if split is not None:
        if policy is None or html is not None or error is not None:
            raise click.UsageError("--split goes with a policy, and without --error and --html")
        _propose_split(policy, split, as_json)
        return
    with screen(stderr=True).status("planning"):
        if policy is not None:
            views = lab.policy_views(follow_own_ledger(Policy.load(policy)), error)
        else:
            views = [_planned(str(notion), step or "30 min", start, error, given)]
        if html is not None:
            lab.write_plan_page(views, html)
    if as_json:
        found = [lab.plan_json(view) for view in views]
        say(json.dumps(found[0] if policy is None else found, indent=2, ensure_ascii=False))
    else:
        for view in views:
            lab.print_view(view, screen())
    if html is not None:
        say(f"Plots: {html}", err=as_json)


def _propose_split(policy: Path, asked: str, as_json: bool) -> None:
    """Print the shares of two levels that add up, for an error of one of them."""
    from halflife.lab.budget_split import look_at_split, split_budget
    from halflife.policy import Policy

    stream, _, error = asked.rpartition("=")
    try:
        bound = float(error if stream else "")
    except ValueError:
        raise click.UsageError("--split takes the name of a stream and its error, as zones=12") from None
    given = Policy.load(policy)
    with screen(stderr=True).status("planning"):
        found = split_budget(given, stream, bound)
    if as_json:
        say(json.dumps([level._asdict() for level in found], indent=2))
        return
    say(f"Shares such that the error of {stream} is at most {bound:g}, and the other's is least (standard deviations):")
    for level in found:
        say(f"  {level.stream}: share {level.share:g}, error {level.reconciled:.4g}; not reconciled {level.alone:.4g}")
    even = look_at_split(given, found.total.stream, found.parts.stream, Fraction(1, 2))
    said = ", ".join(f"{level.stream} {level.reconciled:.4g}" for level in even)
    say(f"With equal shares: {said}.")


def _planned(notion: str, step: str, start: str | None, error: float | None, given: dict[str, Any]) -> PlanView:
    """Return the view of the plan that the options ask for."""
    from halflife.lab.views import plan as lab
    from halflife.policy.promises.age_dependent.process import read_process_file

    for key in ("w", "period", "horizon", "every", "age", "half_life"):
        if key in given:
            given[key] = lab.parse_steps(given[key], step, about=key, whole=key != "half_life")
    if "process" in given:
        given["process"] = read_process_file(given["process"])
    promise = {k: given.pop(k) for k in lab.PROMISE if k in given}
    return lab.plan_view(lab.make_notion(notion, promise), width=step, start=start, error=error, **given)


def _data_and_out_options(folder: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
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


def _reproduce(paper: Paper, data: Path | None, out: Path, seed: int) -> None:
    """Reproduce a paper, and say what it was made from and what was written."""
    from halflife.lab.views.page import load_plotly

    load_plotly()  # a missing extra is reported before any work is done
    folder = paper.find_data(data)
    if folder is None:
        say(paper.where_to_get, err=True)
    with progress_bar() as show:
        found, written = paper.run(folder, out, seed, show)
    paper.print_summary(found, screen())
    say(f"Data:    {found.source.name}")
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
      halflife reproduce swellfish --out secrets
    """


@reproduce.command()
@_data_and_out_options("halflife-discounted")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated homes; real data needs none.")
def discounted(data: Path | None, out: Path, seed: int) -> None:
    """Temporally discounted differential privacy (Farokhi): Figures 1 to 3, tables of noise scales, and what attackers learn.

    \b
    Example:
      halflife reproduce discounted --data ../shared/data --out discounted
    """
    from halflife.papers.discounted.report import PAPER

    _reproduce(PAPER, data, out, seed)


@reproduce.command("age-dependent")
@_data_and_out_options("halflife-age-dependent")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated homes; real data needs none.")
def age_dependent(data: Path | None, out: Path, seed: int) -> None:
    """Age-dependent differential privacy (Zhang, Wei, Berry, Huang): Figures 2 to 8, the two towns, the errata, and whether
    homes move as their model says.

    \b
    Example:
      halflife reproduce age-dependent --data ../shared/data --out aged
    """
    from halflife.papers.age_dependent.report import PAPER

    _reproduce(PAPER, data, out, seed)


@reproduce.command("almost-periodic")
@_data_and_out_options("halflife-almost-periodic")
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
    from halflife.papers.almost_periodic.report import PAPER

    _reproduce(PAPER, data, out, seed)


@reproduce.command()
@_data_and_out_options("halflife-swellfish")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of simulated noise, generated secrets and generated zones."
)
def swellfish(data: Path | None, out: Path, seed: int) -> None:
    """Swellfish privacy (Tex, Schäler, Böhm): Tables II and III, Experiments 1 and 2 beside Figure 3, RescueDP, and what each
    plan keeps. It takes some minutes, and 2 GB of memory.

    \b
    Example:
      halflife reproduce swellfish --data ../shared/data --out secrets
    """
    from halflife.papers.swellfish.report import PAPER

    _reproduce(PAPER, data, out, seed)
