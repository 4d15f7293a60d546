"""`check`: a private look before anything is published."""

from __future__ import annotations

import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import explain_failure, progress_bar, say
from halflife.errors import HalflifeError, visible


class Refused(click.ClickException):
    """A policy, file or column that cannot be read: status 2, whatever the data."""

    exit_code = 2


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--show", is_flag=True, help="Show some cells that cannot be read as they stand: they are somebody's.")
@click.option(
    "--private-verdict",
    is_flag=True,
    help="End with status 1 if the data look wrong: never in a program that publishes.",
)
def check(policy: Path, as_json: bool, show: bool, private_verdict: bool) -> None:
    """Look at the readings beside the policy, for the operator alone; nothing is spent, published or written.

    Counts what cannot be read, is unknown, clipped or missing, sets the noise beside the data, and says what looks wrong, why,
    and which key to write. Shows shapes of values, no value of anybody.

    Ends with status 0, or with 2 if the policy, a file or a column cannot be read: never by what the data are. Do not let
    `publish` depend on it: whether something is published would then tell of people's data. Looking is not free if it changes
    the policy.

    \b
    Example:
      halflife check policy.yaml
      halflife check policy.yaml --json > private.json
    """
    from halflife.publisher.inspection import check as look

    try:
        with progress_bar() as progress:
            found = look(policy, show=show, progress=progress)
    except HalflifeError as error:
        raise Refused(visible(str(error))) from error
    except OSError as error:
        raise Refused(visible(explain_failure(error))) from error
    say(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else str(found))
    if private_verdict and found.problems:
        raise SystemExit(1)
