"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from halflife.errors import HalflifeError

if TYPE_CHECKING:
    from rich.table import Table

    from halflife.lab.demo import DemoResult
    from halflife.papers.discounted import Reproduction


class _Commands(click.Group):
    """A group whose commands end with one clear line and exit status 1 when halflife refuses something."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except HalflifeError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="halflife", prog_name="halflife")
def main() -> None:
    """Private statistics about people's time series, step after step, for ever.

    \b
    Example:
      halflife demo --out halflife-demo
    """


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
    from rich.console import Console

    with _progress() as show:
        from halflife.demo import run_demo

        result = run_demo(out, households, days, seed, show)
    Console().print(_summary(result))
    click.echo(f"Report:   {result.report}")
    click.echo(f"Releases: {result.parquet}")
    names = ", ".join(outcome.policy.parent.name for outcome in result.outcomes)
    click.echo(f"Policies: {out}/…/policy.yaml, with output and ledger beside each: {names}")
    click.echo(f"Check:    halflife verify {result.outcomes[-1].policy}")


@main.command()
@click.option("--notion", required=True, metavar="NAME", help="classical, w-event, exponential, hyperbolic, …")
@click.option("--epsilon", type=float, required=True, help="What is promised, in nats.")
@click.option("--delta", type=float, help="The notion's δ.")
@click.option("--alpha", type=float, help="Exponential discount a step.")
@click.option("--half-life", type=float, metavar="STEPS", help="Instead of alpha: when a loss counts half.")
@click.option("--beta", type=float, help="Hyperbolic discount a step.")
@click.option("--w", type=int, metavar="STEPS", help="Width of a w-event window.")
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
    """
    from rich.console import Console

    from halflife.lab import plan_view as lab

    promise = ("epsilon", "delta", "alpha", "half_life", "beta", "w")
    given = {k: v for k, v in options.items() if v is not None}
    request = {k: v for k, v in given.items() if k not in promise}
    with Console(stderr=True).status("planning"):
        chosen = lab.make_notion(notion, {k: v for k, v in given.items() if k in promise})
        view = lab.plan_view(chosen, width=step, start=start, error=error, **request)
        if html is not None:
            lab.write_plan_page(view, html)
    if as_json:
        click.echo(json.dumps(lab.plan_json(view), indent=2, ensure_ascii=False))
    else:
        lab.print_view(view, Console(markup=False, highlight=False))
    if html is not None:
        click.echo(f"Plots: {html}", err=as_json)


@main.command()
@click.argument("data", nargs=-1, metavar="FILE...")
@click.option("--format", "form", metavar="NAME", help="parquet, csv, duckdb or sqlite, if the ending does not say.")
@click.option("--table", metavar="NAME", help="The table of a DuckDB or SQLite file.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("policy.yaml"), show_default=True,
    metavar="FILE", help="The policy to write; one that is there is left alone.",
)  # fmt: skip
@click.option("--schema", is_flag=True, help="Print the JSON Schema of policies for your editor, and write nothing.")
def init(data: tuple[str, ...], form: str | None, table: str | None, out: Path, schema: bool) -> None:
    """Write a commented policy for a data file. It looks at the file's columns, never at its values.

    What must be public knowledge is left blank for you to fill in: nothing about the data may decide it.

    \b
    Example:
      halflife init readings.parquet
      halflife init meters-2026-*.csv.gz --out meters.yaml
      halflife init --schema > policy.schema.json
    """
    from halflife.policy.template import json_schema, write_template

    if schema:
        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    if not data:
        raise click.UsageError("give the data file that the policy is for, such as readings.parquet")
    if out.exists():
        raise click.ClickException(f"{out} is there already: give another --out, or move it away")
    from halflife.engines import open_source

    engine = open_source(list(data), form, table)
    try:
        text = write_template(engine.columns(), data, table, out.name)
    finally:
        engine.close()
    out.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {out}. Fill in the blanks, then: halflife publish {out}")


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--wait", type=float, default=10.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process that holds the ledger.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be published, with which noise and why; read nothing.")
def publish(policy: Path, wait: float, dry_run: bool) -> None:
    """Publish every step that is due, exactly once; run it again to go on.

    Prints how far one person can move each stream and why. SIGTERM and Ctrl-C end it after the batch in hand. Without a
    terminal it writes one JSON line for each event to stderr.

    \b
    Example:
      halflife publish policy.yaml
      halflife publish policy.yaml --dry-run
    """
    from halflife.policy import Policy
    from halflife.publisher import describe
    from halflife.publisher import publish as run

    loaded = Policy.load(policy)
    for line in describe(loaded):
        click.echo(line, err=True)
    if dry_run:
        return
    with _stopping() as stop, _event_log(), _progress(rate="steps") as show:
        summary = run(loaded, wait=wait, progress=show, stop=stop)
    for name, count in summary.published.items():
        step, when = summary.last[name]
        again = summary.emitted_again[name]
        wrote = f", {again:,} that were committed before written again" if again else ""
        click.echo(f"{name}: {count:,} steps published{wrote}; newest is step {step:,}, up to {when}", err=True)
    click.echo(f"Promise: {100 * summary.used:.4g} % in use (risk {summary.risk:.6g} of {summary.limit:g})", err=True)
    if summary.waiting:
        click.echo(
            f"{summary.waiting:,} late steps wait: this promise forgets with time, so what is published late counts from now on, "
            "and there is no room for more now. Run it again later; to replay the past as if it had been published on time, "
            "write `late: as-planned` under `clock`, in a new ledger.",
            err=True,
        )
    if summary.stopped:
        click.echo("Stopped as asked, with everything written. Run it again to go on.", err=True)


@main.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path), metavar="POLICY_OR_LEDGER")
@click.option("--output", "outputs", multiple=True, metavar="STREAM=FILE", help="Compare this file with a stream.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(path: Path, outputs: tuple[str, ...], as_json: bool) -> None:
    """Work out every risk again from the ledger alone, check its chain, and compare outputs with it.

    With a policy its ledger and its outputs are checked; with a ledger the outputs that you name. Ends with status 1 if
    anything is wrong.

    \b
    Example:
      halflife verify policy.yaml
      halflife verify policy.ledger --output mean-use=mean-use.csv
    """
    import dataclasses

    from halflife.publisher import verify as check

    ledger, files = _what_to_verify(path, outputs)
    with _progress() as show:
        verdict = check(ledger, files, show)
    if as_json:
        click.echo(json.dumps({"good": verdict.good, **dataclasses.asdict(verdict)}, indent=2))
    else:
        for problem in verdict.problems:
            click.echo(f"WRONG  {problem}")
        for name, step in verdict.steps.items():
            click.echo(f"{name}: up to step {step:,}" + (f", compared with {files[name]}" if name in files else ""))
        risk = f"risk {verdict.risk:.12g} of {verdict.limit:g} at step {verdict.step:,}"
        click.echo(f"{risk}, worst from now on {verdict.peak:.12g}")
        click.echo(f"newest hash {verdict.head}")
        click.echo("Everything agrees." if verdict.good else f"{len(verdict.problems)} problems.")
    if not verdict.good:
        raise SystemExit(1)


def _what_to_verify(path: Path, named: tuple[str, ...]) -> tuple[Path, dict[str, str]]:
    """The ledger, and the outputs by stream."""
    files = dict(pair.split("=", 1) for pair in named if "=" in pair)
    if len(files) != len(named):
        raise click.UsageError("write --output as STREAM=FILE, such as --output mean-use=mean-use.csv")
    if path.suffix not in (".yaml", ".yml"):
        return path, files
    from halflife.policy import Policy

    policy = Policy.load(path)
    known = {
        s.name: f"{policy.path(s.output)}{'/' if s.output.endswith('/') else ''}"
        for s in policy.streams
        if s.output != "-"
    }
    return policy.ledger_path, {**known, **files}


@contextmanager
def _stopping() -> Iterator[Callable[[], bool]]:
    """Let SIGTERM and Ctrl-C ask for an end, and give the function that says whether they did."""
    import signal

    asked: list[int] = []
    known = {s: signal.signal(s, lambda number, frame: asked.append(number)) for s in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield lambda: bool(asked)
    finally:
        for s, handler in known.items():
            signal.signal(s, handler)


@contextmanager
def _event_log() -> Iterator[None]:
    """Without a terminal, write each event as a JSON line to stderr. Nothing in it depends on a reading."""
    import datetime
    import logging
    import sys

    if sys.stderr.isatty():
        yield
        return

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            click.echo(
                json.dumps({"time": now, "event": record.getMessage(), **getattr(record, "fields", {})}), err=True
            )

    logger, handler = logging.getLogger("halflife.publisher"), Lines()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


@contextmanager
def _progress(rate: str = "") -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr when somebody watches, with a rate and an estimate if asked for; it gives the function that moves it."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    screen = Console(stderr=True)
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()]
    if rate:
        speed = TextColumn("{task.fields[speed]}")
        columns += [MofNCompleteColumn(), speed, TextColumn("left"), TimeRemainingColumn()]
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("starting", total=None, speed="")

        def show(what: str, done: int, total: int) -> None:
            per_second = bar.tasks[0].speed
            speed = f"{per_second:,.0f} {rate}/s" if per_second else ""
            bar.update(task, description=what, completed=done, total=total or None, speed=speed)

        yield show


@main.group()
def reproduce() -> None:
    """Recompute a paper's figures and tables, with ours beside them.

    \b
    Example:
      halflife reproduce discounted --out discounted
    """


@reproduce.command()
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Folder with the real data.  [default: $HALFLIFE_DATA, else ../shared/data, else generated homes]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), default=Path("halflife-discounted"),
    show_default=True, metavar="DIR", help="Folder for report.html, tables.md and the numbers; made if it is not there.",
)  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Of the generated homes; real data needs none.")
def discounted(data: Path | None, out: Path, seed: int) -> None:
    """Temporally discounted differential privacy (Farokhi): Figures 1 to 3, and tables of noise scales.

    \b
    Example:
      halflife reproduce discounted --data ../shared/data --out discounted
    """
    from rich.console import Console

    from halflife.lab.page import load_plotly
    from halflife.papers import discounted as paper
    from halflife.papers.discounted_report import write_all

    load_plotly()  # a missing extra is reported before any work is done
    folder = paper.find_data(data)
    if folder is None:
        click.echo(paper.WHERE_TO_GET, err=True)
    with _progress() as show:
        show("reading" if folder else "simulating the homes", 0, 1)
        source = paper.generated_source(seed) if folder is None else paper.real_source(folder)
        found = paper.reproduce(source, progress=show)
        show("writing the report", 0, 1)
        written = write_all(found, out)
    Console().print(_scales(found))
    click.echo(f"Data:    {source.name}")
    click.echo(f"Report:  {written[0]}")
    click.echo(f"Tables:  {written[1]}")
    click.echo(f"Numbers: {', '.join(path.name for path in written[2:])}")


def _scales(found: Reproduction) -> Table:
    """The table of noise scales."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from halflife.papers.discounted import TABLE_HEADS, table_cells

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
