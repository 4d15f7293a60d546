"""`period`: is the data almost periodic?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from halflife.cli.group import main
from halflife.cli.processes import read_readings, readings_options, say_left_out
from halflife.cli.terminal import progress_bar, say, screen


@main.command()
@readings_options
@click.option("--step", default="30 min", show_default=True, metavar="TIME", help="How wide a step is.")
@click.option("--period", "periods", multiple=True, default=("1 day", "7 days"), show_default=True, metavar="TIME",
              help="A period to try; give several to compare them.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of the shuffled copies.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write an HTML page with plots."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of words.")
def period(step: str, periods: tuple[str, ...], seed: int, report: Path | None, as_json: bool, **where: Any) -> None:
    """Test whether readings are almost periodic, for an almost-periodic promise, and propose a period.

    It looks at the readings themselves: run it on a design sample of other people, and publish nothing of what it says about
    yours. Looking is not free if it changes the policy. The test supports the meaning of the promise, not its proof.

    \b
    Example:
      halflife period design.parquet --person id --time ts --value kwh --period "1 day" --period "7 days" --report period.html
    """
    from halflife.errors import InvalidInput
    from halflife.lab.almost_periodic.periodicity import best_period
    from halflife.lab.almost_periodic.view import print_periodicity, write_periodicity_page
    from halflife.steps import microseconds, parse_width

    sample = read_readings(step=step, **where)
    say_left_out(sample.left_out)
    candidates = []
    for text in periods:
        steps, rest = divmod(microseconds(parse_width(text)), sample.step)
        if rest or not steps:
            raise InvalidInput(f"a period of {text} is no whole number of steps of {step}")
        candidates.append(steps)
    with progress_bar() as show:
        table = sample.side_by_side()
        found = best_period(table, candidates, step_minutes=sample.step_minutes, seed=seed, progress=show)
        if report is not None:
            write_periodicity_page(found, report)
    if as_json:
        say(
            json.dumps(
                {"best": found.best.period, "reason": found.reason, "checks": [c.summary() for c in found.checks]}
            )
        )
    else:
        print_periodicity(found, screen())
    if report is not None:
        say(f"Page: {report}", err=as_json)
