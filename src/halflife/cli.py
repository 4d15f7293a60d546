"""The command line: thin, every command is one call of the library. Heavy imports happen inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from halflife.errors import HalflifeError

if TYPE_CHECKING:
    from rich.table import Table

    from halflife.lab.demo import DemoResult


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
    show_default=True, metavar="DIR", help="Folder for report.html and releases.parquet; made if it is not there.",
)  # fmt: skip
@click.option("--households", type=int, default=300, show_default=True, help="How many homes to generate.")
@click.option("--days", type=int, default=60, show_default=True, help="How many days of half hours to publish.")
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Makes the homes repeatable. The noise has no seed."
)
def demo(out: Path, households: int, days: int, seed: int) -> None:
    """Publish a generated town's electricity use under every privacy promise, and compare.

    Writes a report to open in a browser (it needs no network) and the releases as a Parquet file.

    \b
    Example:
      halflife demo
      halflife demo --out big-town --households 3000 --days 30
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        from halflife.lab.demo import run_demo

        result = run_demo(out, households, days, seed, show)
    Console().print(_summary(result))
    click.echo(f"Report:   {result.report}")
    click.echo(f"Releases: {result.parquet}")


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
