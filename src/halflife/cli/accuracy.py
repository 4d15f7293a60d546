"""`accuracy`: what post-processing gives back, on series whose truth is public."""

from __future__ import annotations

import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen


@main.command()
@click.option(
    "--series", "names", multiple=True, metavar="NAME",
    help="london, gefcom-4, gefcom-18, ausgrid, taxis, flu, random-walk, white-noise; give several.  [default: all]",
)  # fmt: skip
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="How many times noise is drawn; errors are means."
)
@click.option("--days", type=int, help="Only the first so many days of each series, but all of weekly ones: quicker.")
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Folder with the real data; what is not there is generated.  [default: $HALFLIFE_DATA, else ../shared/data]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), default=Path("halflife-accuracy"),
    show_default=True, metavar="DIR", help="Folder for report.html, tables.md and numbers.json; made if it is not there.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def accuracy(names: tuple[str, ...], seeds: int, days: int | None, data: Path | None, out: Path, as_json: bool) -> None:
    """Compare raw values, moving average, Kalman filter and seasonal estimates with a public truth.

    Prints errors, how often 95 % bands hold, and run times; writes a page with the curves. One year of half hours takes a minute
    or two for each noise and seed.

    \b
    Example:
      halflife accuracy --out accuracy
      halflife accuracy --series london --series flu --seeds 10
      halflife accuracy --series gefcom-4 --days 120 --json
    """
    from halflife.lab.accuracy import cases as lab
    from halflife.lab.accuracy.series import choose_sources, read_series
    from halflife.lab.accuracy.view import print_tables, write_all
    from halflife.lab.views.page import load_plotly

    load_plotly()  # a missing extra is reported before any work is done
    with progress_bar() as show:
        series = [read_series(source, data, days) for source in choose_sources(names)]
        found = lab.run_cases(series, seeds, show)
        written = write_all(found, seeds, out)
    if as_json:
        say(json.dumps([case.to_json() for case in found], indent=2, ensure_ascii=False))
    else:
        print_tables(found, seeds, screen())
    say(f"Report: {written[0]}", err=as_json)
    say(f"Tables: {written[1]}, {written[2].name}", err=as_json)
