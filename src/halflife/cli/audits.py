"""`audit`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from halflife.cli.group import main
from halflife.cli.terminal import progress_bar, say, screen

if TYPE_CHECKING:
    from halflife.audit.verdict import Verdict


@main.command()
@click.argument("policy", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--faults", is_flag=True, help="Audit planted faults instead: every one of them must be accused.")
@click.option(
    "--rivals", is_flag=True, help="Audit rivals instead: faulty ones must be accused, and none of our forms."
)
@click.option(
    "--seconds", type=float, default=60.0, show_default=True, help="Time for all of it: what is left is for runs."
)
@click.option("--runs", type=int, default=20_000, show_default=True, help="The most runs of each stream of a pair.")
@click.option("--processes", type=int, metavar="N", help="Run in so many processes.  [default: one for each core]")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a report.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def audit(policy: Path | None, faults: bool, rivals: bool, seconds: float, runs: int, processes: int | None, html: Path | None,
          as_json: bool) -> None:  # fmt: skip
    """Attack what a policy promises: does what is really published keep it?

    Runs the policy's own publisher on neighbouring populations that are made for it, and works its losses out again by other
    means. None of its data is read. Ends with status 1 if anything is accused; with --faults or --rivals if a fault is not, or
    something honest is.

    \b
    Example:
      halflife audit policy.yaml --html audit.html
      halflife audit --faults
      halflife audit --rivals
    """
    import os

    from halflife.audit.faults import audit_faults, find_mistakes
    from halflife.audit.policy.audit import audit_policy
    from halflife.audit.report import findings_table, write_audit
    from halflife.audit.rivals.verdicts import plant_rivals
    from halflife.policy import Policy

    if (policy is not None) + faults + rivals != 1:
        raise click.UsageError("give a policy to audit, or --faults, or --rivals")
    with progress_bar() as show:
        if policy is None:
            verdict = audit_faults(plant_rivals() if rivals else None, seconds, runs, show)
        else:
            many = processes or os.cpu_count() or 1
            verdict = audit_policy(Policy.load(policy), seconds=seconds, runs=runs, processes=many, progress=show)
    if html is not None:
        write_audit(verdict, html)
    if as_json:
        say(json.dumps(verdict.to_dict(), indent=2, ensure_ascii=False))
    else:
        screen().print(findings_table(verdict))
        say(_sum_up(verdict, planted=policy is None))
    if html is not None:
        say(f"Report: {html}", err=as_json)
    if find_mistakes(verdict) if policy is None else not verdict.good:
        raise SystemExit(1)


def _sum_up(verdict: Verdict, planted: bool) -> str:
    """What the findings come to: of a policy whether it is accused, of planted faults whether each was found."""
    from halflife.audit.faults import find_mistakes

    if not planted:
        return "Nothing is accused." if verdict.good else "Accused: the promise is not kept."
    mistakes = find_mistakes(verdict)
    return (
        f"The audit is wrong about {', '.join(mistakes)}."
        if mistakes
        else "Every fault is accused, and nothing honest is."
    )
