"""`compare`: mechanisms, notions, plans and post-processors side by side on one stream."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen, write_whole


@main.command()
@click.option(
    "--series", required=True, metavar="FILE|NAME",
    help="One value a line, a CSV file with a header (--column), a Parquet file; or a name: london, gefcom-4, gefcom-18, "
    "ausgrid, taxis, check-ins, flu, heart-rates, const, sine, random-walk, white-noise.",
)  # fmt: skip
@click.option("--column", metavar="NAME", help="The column of a file that has a header.")
@click.option("--time", metavar="NAME", help="The column of its times: errors are then shown by time of day, too.")
@click.option(
    "--mechanism", "mechanisms", multiple=True, metavar="NAME[+POST]",
    help="uniform, sample, bd, ba, fast, rescue-dp, …; give several.  [default: all that answer values, if no --notion is given]",
)  # fmt: skip
@click.option(
    "--notion", "notions", multiple=True, metavar="NAME[,KEY=VALUE]...",
    help='Planned noise of a notion: classical, w-event, "exponential,half_life=48", "hyperbolic,beta=0.1", '
    '"almost-periodic,period=48", "classical,delta=1e-6"; give several. Keys of the plan: method, horizon, every, noise.',
)  # fmt: skip
@click.option(
    "--post", multiple=True, metavar="POST[+POST]",
    help="One more row for each of them, post-processed: moving-average=N, kalman, kalman=DRIFT, seasonal=STEPS-A-DAY, "
    "truncate=LOW:HIGH, counts; give several.",
)  # fmt: skip
@click.option("--w", type=int, default=20, show_default=True, help="Width of the window, in steps.")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="What each promises, in nats.")
@click.option(
    "--sensitivity", type=float, help="How far one person can move a value.  [default: 1; of named series their own]"
)
@click.option("--repetitions", type=int, default=100, show_default=True, help="How often each runs.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of all noise, and of generated series.")
@click.option("--jobs", type=int, help="Processes; rows do not depend on them.  [default: one a core]")
@click.option(
    "--time-limit", type=float, metavar="SECONDS", help="Stop then; a row says how many repetitions it rests on."
)
@click.option("--totals", is_flag=True, help="Judge running totals: published by binary-tree, …, or values added up.")
@click.option("--delta", type=float, help="The δ of running totals with Gaussian noise: toeplitz, toeplitz-unbounded.")
@click.option("--truncate", is_flag=True, help="Noisy values and outputs become max(0, round(·)), as counts are.")
@click.option(
    "--data", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
    help="Folder with the open data; what is not there is generated.  [default: $HALFLIFE_DATA, else ../shared/data]",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(file_okay=False, writable=True, path_type=Path), metavar="DIR",
    help="Folder for report.html, rows.json, rows.csv and tables.md; made if it is not there.",
)  # fmt: skip
@click.option(
    "--csv", "csv_file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the rows as CSV."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def compare(
    series: str, mechanisms: tuple[str, ...], post: tuple[str, ...], jobs: int | None, out: Path | None, csv_file: Path | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Compare mechanisms, notions and post-processors on one stream: errors, closed forms, bands, and costs.

    Only simulation noise is drawn, from a seed. Choosing a mechanism by looking at one's own data is itself a query on it, and
    not free: compare on public or old data.

    MAE is the mean of |x − r|, mre the mean of |x − r| / max(x, 1 % of the sum of the whole stream), mre1 that of |x − r| /
    max(|x|, 1), rmse the root of the mean square. Docs: docs/compare.md.

    \b
    Example:
      halflife compare --series sine
      halflife compare --series x.csv --mechanism uniform --mechanism ba --w 20 --epsilon 1 --sensitivity 1 --json
      halflife compare --series london --w 48 --notion w-event --notion exponential,half_life=48 --post kalman --out london
      halflife compare --series use.csv --column kwh --time start --sensitivity 2 --w 48
      halflife compare --series taxis --totals --time-limit 60
    """
    from halflife.lab.compare import compare as run
    from halflife.lab.compare.tables import cost_table, error_table, format_csv
    from halflife.lab.compare.view import write_all
    from halflife.lab.views.page import load_plotly

    if out is not None:
        load_plotly()  # a missing extra is reported before any work is done
    processes = len(os.sched_getaffinity(0)) if jobs is None else jobs
    with progress_bar() as show:
        result = run(mechanisms or None, series, post=post, jobs=processes, progress=show, **options)
    written = [] if out is None else write_all(result, out)
    if csv_file is not None:
        write_whole(csv_file, format_csv(result.rows))
    if as_json:
        say(result.to_json())
    else:
        screen().print(error_table(result.rows, result.stream.title))
        screen().print(cost_table(result.rows))
    for note in result.notes:
        say(f"- {note}", err=as_json)
    if written:
        say(f"Report: {written[0]}", err=as_json)
        say(f"Rows:   {', '.join(str(path) for path in written[1:])}", err=as_json)
    if csv_file is not None:
        say(f"CSV:    {csv_file}", err=as_json)
