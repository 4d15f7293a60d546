"""`revise`: steps published again from corrected data."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("stream")
@click.argument("step")
@click.option("--to", "last", metavar="STEP", help="The last of several steps in a row: a number, or a time in it.")
@click.option("--loss", type=float, metavar="NUMBER",
              help="What each step may lose this time, in nats.  [default: as the plan has it]")  # fmt: skip
@click.option(
    "--dry-run", is_flag=True, help="Say whether there is room, and at what risk; nothing is read or published."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def revise(
    policy: Path, stream: str, step: str, last: str | None, loss: float | None, dry_run: bool, as_json: bool
) -> None:
    """Publish a step of a stream again, from data that was corrected since, as a new vintage beside the first.

    STEP is the number of a step, or a time that lies in it by the policy's clock. The new value has fresh noise, is charged like
    any release, and goes to a file of its own (use.vintage-2.csv); the first stays as it was. It needs room that no stream is
    planned to use: without it the command says how much would fit, and when there is room. That a step is published again is
    public, and tells that its data changed: let a public rule decide which are.

    \b
    Example:
      halflife revise policy.yaml use 1742 --dry-run
      halflife revise policy.yaml use "2026-03-01 13:30"
      halflife revise policy.yaml use 2026-03-01 --to "2026-03-01 23:30" --loss 0.001
    """
    from halflife.publisher import revise as publish_again

    with progress_bar(rate="steps") as show:
        made = publish_again(policy, stream, step, last, loss=loss, dry_run=dry_run, progress=show)
    if as_json:
        say(json.dumps(dataclasses.asdict(made), indent=2, ensure_ascii=False))
        return
    which = f"step {made.first:,}" if made.first == made.last else f"steps {made.first:,} to {made.last:,}"
    say(f"{made.stream}, {which} ({made.begins} to {made.ends}): a loss of {made.loss:.6g} each")
    say(f"Risk under the promise {'now' if made.recorded else 'then'}: {made.risk:.6g} of {made.limit:g}")
    say(
        f"Vintage {made.vintage}: {made.file}"
        if made.recorded
        else f"There is room. It would be vintage {made.vintage}, in {made.file}; nothing was published: leave out --dry-run."
    )
