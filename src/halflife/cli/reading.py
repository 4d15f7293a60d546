"""`total`: sums and means of published values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from halflife.cli.group import main
from halflife.cli.terminal import say, screen

if TYPE_CHECKING:
    from halflife.outputs import Combination


@main.command()
@click.argument("file", type=click.Path(path_type=str))
@click.option(
    "--from", "start", metavar="TIME", help="Where to begin: 2026-01-31, 2026-01-31T13:30. [default: the first step]"
)
@click.option(
    "--to", "end", metavar="TIME", help="Where to end; the step that begins then is not counted. [default: the last]"
)
@click.option("--by", "period", type=click.Choice(["day", "week", "month", "year"]),
              help="A row for each calendar period, by the clock of the output's zone.")  # fmt: skip
@click.option("--minus", nargs=2, metavar="FROM TO", help="Subtract the total, or the mean, of this stretch.")
@click.option("--group", metavar="NAME", help="Of this group alone.  [default: all of them together]")
@click.option(
    "--bin",
    "low",
    type=float,
    metavar="LOW",
    help="Of the bin with this low edge alone.  [default: all of them together]",
)
@click.option("--mean", "as_mean", is_flag=True, help="The mean over steps instead of their total.")
@click.option("--policy", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="The policy that the output is of: its ledger says what noise a CSV or JSON file carries.")  # fmt: skip
@click.option("--raw", is_flag=True, help="Take values from before post-processing, from the policy's ledger.")
@click.option("--stream", metavar="NAME", help="Which stream, where that is not clear.")
@click.option("--zone", metavar="ZONE", help="Whose clock a CSV or JSON file follows, without a policy.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def total(
    file: str, start: str | None, end: str | None, period: str | None, minus: tuple[str, str] | None, group: str | None,
    low: float | None, as_mean: bool, policy: Path | None, raw: bool, stream: str | None, zone: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Add up published values: a total or mean of any stretch of time, with the band that holds the truth with 95 %.

    The band of a sum is not the sum of bands: independent noises cancel in part, and noise that is used again does not. A
    Parquet output says which it is. Of a CSV or JSON file give the policy; without it bands are added up, which always holds.

    \b
    Example:
      halflife total mean-use.parquet --from 2026-01-01 --to 2026-02-01
      halflife total mean-use.parquet --by month --mean --group north
      halflife total daily.csv --policy policy.yaml --from 2026-02-01 --to 2026-03-01 --minus 2026-01-01 2026-02-01
    """
    from halflife.publisher import read_published

    if period is not None and minus is not None:
        raise click.UsageError("--by gives many rows, and --minus is about one: take one of them")
    values = read_published(file, policy, stream=stream, zone=zone, raw=raw)
    if period is not None:
        sums = values.by(period, start, end, group, low)  # type: ignore[arg-type]
        found = [one / one.steps if as_mean else one for one in sums]
    else:
        find = values.mean if as_mean else values.total
        first = find(start, end, group, low)
        found = [first if minus is None else first - find(*minus, group, low)]
    if as_json:
        say(json.dumps([one.to_dict() for one in found], indent=2, ensure_ascii=False))
    else:
        _print(found, "mean" if as_mean else "total", minus is not None)
        if values.zone is None:
            say(f"Times are in UTC: {file} does not name the zone of its clock (--zone, --policy).")


def _print(found: list[Combination], kind: str, is_difference: bool) -> None:
    """A table, and below it what bands rest on and how many steps are missing."""
    from halflife.lab.views.text import text_table

    rows = []
    for one in found:
        when = [] if is_difference else ["" if t is None else f"{t:%Y-%m-%d %H:%M}" for t in (one.start, one.end)]
        rows.append((*when, *_numbers(one.value, one.band), one.unit, f"{one.steps:,}", f"{one.missing:,}"))
    heads = (
        *(() if is_difference else ("from", "to")),
        "difference" if is_difference else kind,
        "± 95 %",
        "unit",
        "steps",
        "missing",
    )
    screen().print(text_table(heads, rows, left=() if is_difference else (0, 1)))
    exact = "independent noises, counted exactly"
    told = [found[0].covers] if len(found) == 1 else ["; ".join(one.remarks) or exact for one in found]
    for words in dict.fromkeys(told):
        say(f"Band: {words}.")
    lacking = sum(one.missing > 0 for one in found)
    if lacking:
        where = (
            "Steps are missing"
            if len(found) == 1
            else f"In {lacking} row{'s' if lacking > 1 else ''} steps are missing"
        )
        what = "a mean is of those that are there" if kind == "mean" else "a total is of fewer steps"
        say(f"{where}, as they were passed over or are not published yet: {what}.")


def _numbers(value: float, band: float) -> tuple[str, str]:
    """A value and its band with as many decimals as the band leaves a meaning.

    >>> _numbers(1234.5678, 0.0456), _numbers(1234.5678, 321.0)
    (('1,234.5678', '0.0456'), ('1,235', '321'))
    """
    if math.isinf(band):
        return f"{value:,.6g}", "unknown"
    places = 6 if not band else max(0, 2 - math.floor(math.log10(band)))
    return f"{value:,.{places}f}", f"{band:,.{places}f}"
