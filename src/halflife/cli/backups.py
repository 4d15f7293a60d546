"""`backup` and `restore`: a whole copy of a ledger, and the way back that draws no noise twice."""

from __future__ import annotations

import json
from pathlib import Path

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("destination", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(policy: Path, destination: Path, as_json: bool) -> None:
    """Copy a policy's ledger, with the policy and its public tables, into a new folder; others may publish meanwhile.

    The copy is of one moment, its chain of hashes is walked, and the folder gets its name when it is whole. It is as private as
    the ledger. The key to noise that is used again is never in it: back that up apart from it.

    \b
    Example:
      halflife backup town.yaml /backup/town-2026-03-01
    """
    from halflife.publisher import backup as copy

    with progress_bar() as show:
        made = copy(policy, destination, progress=show)
    if as_json:
        say(json.dumps({"folder": str(made.folder), **made.to_dict()}, indent=2))
        return
    events = f" and {made.mark.events:,} events" if made.mark.events else ""
    say(f"Backup: {made.folder}, {len(made.files) + 1} files, {made.mark.entries:,} entries{events}")
    for name, step in made.mark.streams.items():
        say(f"{name}: up to step {step:,}")
    if made.key is not None:
        say(f"Its noise is sealed with the key {made.key}, which is not in it: back that up too, and elsewhere.")
    say(f"newest hash {made.mark.head}")


@main.command()
@click.argument("backup", type=click.Path(exists=True, path_type=Path))
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--newest", is_flag=True, help="Declare that nothing was published after the backup, where no mark is left to say "
              "so: on another machine, say.")  # fmt: skip
@click.option("--pass-over", is_flag=True, help="Pass over for good the steps that were published after the backup, or may have "
              "been, and charge what they cost (classical and w-event promises).")  # fmt: skip
@click.option(
    "--unamended",
    is_flag=True,
    help="Declare that nothing was amended, or published again, after the backup, where no mark is left to say so.",
)
@click.option("--reason", default="the ledger was lost", show_default=True, metavar="TEXT",
              help="Why steps are passed over: a public text, which every certificate shows.")  # fmt: skip
@click.option(
    "--by", metavar="NAME", help="Who says so, public too.  [default: the name of the account on this machine]"
)
@click.option("--wait", type=float, default=10.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process that holds the ledger.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def restore(
    backup: Path, policy: Path, newest: bool, pass_over: bool, unamended: bool, reason: str, by: str | None, wait: float,
    as_json: bool,
) -> None:  # fmt: skip
    """Put the ledger of a backup back, or refuse if noise could be drawn twice for a step that was published.

    A ledger that is as new, newer or another one is never replaced. If a mark, the ledger's `.shown` or an output shows that
    more was published than the backup holds, it is refused: find a newer one. If there is none, --pass-over goes on without the
    lost steps: they are never published again, are charged to the account as the plan has them, and the restore stands in the
    ledger's chain and in every certificate. Where nothing is left to say how far a stream was published, all steps that are due
    by now are passed over.

    BACKUP is a folder that `halflife backup` made, or a ledger's file that was copied otherwise. A policy that is not there is
    taken from the backup.

    \b
    Example:
      halflife restore /backup/town-2026-03-01 town.yaml
      halflife restore /backup/town-2026-03-01 town.yaml --pass-over --reason "the disk died on 4 March"
    """
    from halflife.publisher import restore as put_back

    with progress_bar() as show:
        made = put_back(
            backup,
            policy,
            newest=newest,
            pass_over=pass_over,
            unamended=unamended,
            reason=reason,
            by=by,
            wait=wait,
            progress=show,
        )
    if as_json:
        told = {
            "ledger": made.ledger, "entries": made.entries, "head": made.head, "risk": made.risk, "limit": made.limit,
            "passed_over": {name: list(steps) for name, steps in made.passed.items()},
            "moved": dict(made.moved), "brought": list(made.brought),
        }  # fmt: skip
        say(json.dumps(told, indent=2))
        return
    for file in made.brought:
        say(f"Taken from the backup: {file}")
    for name, (first, last) in made.passed.items():
        say(f"{name}: steps {first:,} to {last:,} are passed over, and charged")
    for file, aside in made.moved.items():
        say(
            f"{file} holds what the ledger does not: it is now {aside}; keep it, it is the record of what was published"
        )
    say(f"Restored: {made.ledger}, {made.entries:,} entries; risk {made.risk:.6g} of {made.limit:g}")
    say(f"newest hash {made.head}")
