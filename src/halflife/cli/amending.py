"""`amend`: a recorded change of what a ledger is held to."""

from __future__ import annotations

import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--reason", required=True, metavar="TEXT", help="Why: a public text, which every certificate shows.")
@click.option(
    "--by", metavar="NAME", help="Who says so, public too.  [default: the name of the account on this machine]"
)
@click.option("--from", "start", metavar="TIME", help="From when on it holds, by the policy's clock: all before it must be "
              "published already, and nothing after it.  [default: each stream's next step]")  # fmt: skip
@click.option("--begin", metavar="TIME", help="When streams that are added begin, if later than that.")
@click.option("--same-meaning", is_flag=True, help="Declare that renamed columns mean what the old ones meant.")
@click.option("--weaken", is_flag=True, help="Allow a promise that protects less than before.")
@click.option("--dry-run", is_flag=True, help="Work all of it out, say what would change, and record nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def amend(
    policy: Path, reason: str, by: str | None, start: str | None, begin: str | None, same_meaning: bool, weaken: bool,
    dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Hold a policy's ledger to the policy as it is now, from the next steps on: an amendment in the ledger's chain.

    Write the policy as it shall be, and amend: members of the population and their tables, renamed columns, streams that are
    added or left out, shares, the promise. What was published stays as it was, and counts: the whole history is replayed under a
    new promise, and refused if that is over it; an added stream is refused until there is room, with when that is. A promise that
    protects less needs --weaken. Another `end`, files, outputs and post-processing need no amendment.

    \b
    Example:
      halflife amend policy.yaml --reason "20 households joined in June" --dry-run
      halflife amend policy.yaml --reason "20 households joined in June"
      halflife amend policy.yaml --reason "daily maxima for the council" --begin 2026-07-01
    """
    from halflife.publisher import amend as record

    with progress_bar(rate="entries") as show:
        made = record(
            policy, reason, by=by, start=start, begin=begin, same_meaning=same_meaning, weaken=weaken, dry_run=dry_run,
            progress=show,
        )  # fmt: skip
    found = made.amendment
    if as_json:
        told = {
            "recorded": made.recorded, "changes": found.changes, "from": found.starts, "begins": made.begins,
            "weakens": found.weakens, "reason": found.reason, "by": found.by, "risk": made.risk, "limit": made.limit,
        }  # fmt: skip
        say(json.dumps(told, indent=2, ensure_ascii=False))
        return
    for change in found.changes:
        say(f"- {change}")
    for stream, when in made.begins.items():
        say(
            f"{stream}: from step {found.starts[stream]:,} on, {when}"
            if stream in found.starts
            else f"{stream}: as before"
        )
    if found.weakens:
        say("The promise protects less than before: certificates show the risk under each promise ever made.")
    say(f"Risk under the promise as it is now: {made.risk:.6g} of {made.limit:g}")
    say("Recorded in the ledger." if made.recorded else "Nothing was recorded: leave out --dry-run to do so.")
