"""`status`, `report` and `hindsight`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen

if TYPE_CHECKING:
    from halflife.policy import Policy
    from halflife.publisher import Status


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--error", type=float, metavar="NUMBER",
              help="Ask when a stream's expected error passes this, in the stream's unit.")  # fmt: skip
@click.option("--left", metavar="TIME",
              help="Ask what is still exposed of a person who left at this time, by the policy's clock.")  # fmt: skip
@click.option("--watch", type=click.FloatRange(min=0.1), is_flag=False, flag_value=5.0, metavar="[SECONDS]",
              help="Look again every so many seconds, 5 if none are given, until Ctrl-C.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table; with --watch, a line each time.")
@click.option("--check", "slack", type=click.FloatRange(min=0), is_flag=False, flag_value=60.0, metavar="[SECONDS]",
              help="End with 1, and say why, if anything is wrong, or a step later than this; 60 if not given.")  # fmt: skip
@click.option("--metrics", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.prom",
              help="Write public metrics for Prometheus' node exporter too, each time.")  # fmt: skip
def status(
    policy: Path, error: float | None, left: str | None, watch: float | None, as_json: bool, slack: float | None,
    metrics: Path | None,
) -> None:  # fmt: skip
    """Show where a policy's streams stand: promise used, newest step, lag, next step, headroom, noise, and the last run.

    It reads the policy and its ledger, holds nothing, and works while somebody publishes. The expected error is the mean absolute
    noise that the plan gives a step, before post-processing.

    Whoever leaves is taken out of the data: --left tells from which steps on nothing is published about them, what is still
    exposed of what was published before, and when that will have fallen to a tenth and a hundredth of the promise.

    \b
    Example:
      halflife status policy.yaml
      halflife status policy.yaml --left 2026-05-01
      halflife status policy.yaml --error 0.5 --json
      halflife status policy.yaml --watch 10
      halflife status policy.yaml --check 120
      halflife status policy.yaml --metrics town.prom
    """
    from halflife.policy import Policy
    from halflife.publisher import status as find_status
    from halflife.publisher.metrics import check_metrics_file, write_metrics

    loaded = Policy.load(policy)
    if slack is not None:
        if watch is not None or error is not None or left is not None or metrics is not None:
            raise click.UsageError("--check answers one question: leave out --watch, --error, --left and --metrics")
        _check_health(loaded, slack, as_json)
        return
    if metrics is not None:
        check_metrics_file(metrics, loaded)

    def look() -> Status:
        found = find_status(loaded, error=error, left=left)
        if metrics is not None:
            write_metrics(metrics, found, loaded.population.id)
        return found

    if watch is not None:
        _watch(look, watch, as_json)
    elif as_json:
        say(json.dumps(look().to_dict(), indent=2, ensure_ascii=False))
    else:
        from halflife.cli.status_table import status_table

        console = screen()
        console.print(status_table(look(), console.width))


def _check_health(policy: Policy, slack: float, as_json: bool) -> None:
    """Say whether all is well; end with status 1 if not."""
    from halflife.publisher.health import find_trouble

    problems = find_trouble(policy, slack)
    if as_json:
        say(json.dumps({"healthy": not problems, "problems": problems}, ensure_ascii=False))
    else:
        for problem in problems:
            say(f"UNHEALTHY  {problem}")
        if not problems:
            say(f"Healthy: no step is late by more than {slack:g} s, and the last run did not fail.")
    if problems:
        raise SystemExit(1)


def _watch(look: Callable[[], Status], seconds: float, as_json: bool) -> None:
    """Show what `look` returns, again and again, until Ctrl-C."""
    from rich.live import Live

    from halflife.cli.status_table import status_table

    console = screen()
    try:
        if as_json or not console.is_terminal:
            while True:
                found = look()
                if as_json:
                    say(json.dumps(found.to_dict(), ensure_ascii=False))
                else:
                    console.print(status_table(found, console.width))
                time.sleep(seconds)
        with Live(console=console, auto_refresh=False, screen=False) as live:
            while True:
                live.update(status_table(look(), console.width), refresh=True)
                time.sleep(seconds)
    except KeyboardInterrupt:
        return


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True,
              metavar="FILE", help="The page to write.")  # fmt: skip
def report(policy: Path, out: Path) -> None:
    """Write one page about what a policy has published: what is not protected, the series, noise and risk, what it means, and
    whether it verifies.

    For a privacy officer and for a curious reader. It needs no network, and is made from what was published and from the ledger's
    public facts alone. Ends with status 1 if the verification finds anything wrong, with the page written.

    \b
    Example:
      halflife report policy.yaml --out report.html
    """
    from halflife.cli.policy_report import write_policy_report

    with progress_bar(rate="steps") as show:
        verdict = write_policy_report(policy, out, show)
    for problem in verdict.problems:
        say(f"WRONG  {problem}")
    say(f"Report: {out}")
    if not verdict.good:
        raise SystemExit(1)


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--stream", "streams", multiple=True, metavar="NAME", help="Only this stream; may be given several times."
)
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), metavar="FOLDER",
              help="Where to write, instead of beside each output.")  # fmt: skip
def hindsight(policy: Path, streams: tuple[str, ...], folder: Path | None) -> None:
    """Estimate what was published again with what came later, as second outputs beside the first.

    It reads the ledger's noisy values and public facts alone, so it costs no privacy; nothing is drawn, charged or written over.
    Each file's name has its vintage: when the ledger's newest values were committed. Values are those of a model of level, day
    and week, and `error_band` is the 95 % band of that estimate. Streams that add up (`reconcile`), zones and their city as well
    as half hours and their days, are estimated together and add up to the last bit.

    \b
    Example:
      halflife hindsight policy.yaml
      halflife hindsight policy.yaml --stream demand --folder revised/
    """
    from halflife.publisher import hindsight as look_back

    with progress_bar(rate="streams") as show:
        made = look_back(policy, streams, folder=folder, progress=show)
    for one in made:
        say(f"{one.stream}: {one.steps:,} steps with hindsight, vintage {one.vintage}: {one.file}")
