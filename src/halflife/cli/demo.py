"""The demo: one town's mean electricity use per home, published every half hour under every registered notion.

The homes are generated (`lab.households`); everything after that is what a real publication does. Readings go to a
file, a policy is written for each notion, and `halflife.publish` keeps a ledger and an output for each, which
`halflife.verify` then checks. The exact series is shown beside them, as only a demo with generated homes can do.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from halflife import registry
from halflife.errors import HalflifeError, InvalidInput
from halflife.lab.comparison import DemoResult, Outcome, exact_series, write_releases
from halflife.lab.demo import HOMES, KEY_FILE, LEDGER, OUTPUT, POLICY, START, Draft, draft_policy
from halflife.lab.households.readings import SLOTS_PER_DAY, Readings, readings_table, simulate
from halflife.ledger import ledger_names, open_ledger
from halflife.ledger.marks import ENDING
from halflife.numerics.parameters import whole
from halflife.numerics.progress import Progress
from halflife.policy import Policy, channels
from halflife.publisher import publish, verify
from halflife.publisher.readable import in_output_units
from halflife.publisher.secrets_at_rest import make_key_file

MARKER = ".made-by-halflife-demo"
MADE = ("readings.parquet", POLICY, OUTPUT, f"{OUTPUT}{ENDING}", KEY_FILE, *ledger_names(LEDGER))
"""All that the demo puts into a folder of its own, and all that it ever deletes there."""


# One policy ---------------------------------------------------------------------------------------------------------


def publish_and_verify(
    file: Path, progress: Progress = lambda what, done, total: None, clock: Callable[[], float] = time.time
) -> Outcome:
    """Publish what a policy has due, check it, and return all that it has published: one stream of one number, as CSV.

    Demonstrations publish about one population under several promises, each with a ledger of its own.
    """
    from pyarrow import csv

    policy = Policy.load(file)
    (channel,) = channels(policy)
    output = policy.path(channel.part.output)
    missed = publish(policy, second_ledger=True, progress=progress, clock=clock).passed_over
    if missed:
        raise HalflifeError(
            f"{file}: {missed:,} late steps had no room: to replay the past write `late: as-planned` (clock)"
        )
    verdict = verify(policy.ledger_url, {channel.name: str(output)}, progress)
    if not verdict.good:
        raise HalflifeError(f"what {file} published does not verify: {verdict.problems[0]}")
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries = list(book.entries(channel.name))
    charged, noisy = [entry.releases for entry in entries], np.array([entry.noisy for entry in entries])
    columns, notion = csv.read_csv(output), policy.notion
    return Outcome(
        notion=notion,
        plan=channel.plan,
        releases=tuple(release for step in charged for release in step),
        added=tuple(step[-1] for step in charged),
        published=columns["value"].to_numpy(),
        scales=np.array([step[-1].scale for step in charged]) * float(channel.factors[0]),
        error_band=columns["error_band"].to_numpy(),
        risks=notion.risks(np.array([step[-1].loss for step in charged]), channel.age, channel.plan.noise),
        limit=verdict.limit,
        policy=file,
        ledger=policy.ledger_url,
        head=verdict.head,
        noisy=in_output_units(noisy, channel.factor_of_cells)[:, 0] if channel.part.post else None,
    )


# The demo -----------------------------------------------------------------------------------------------------------


def run_demo(
    folder: Path,
    households: int = 10_000,
    days: int = 14,
    seed: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> DemoResult:
    """Publish the town's mean use under every registered notion; write `releases.parquet` and `report.html`.

    Readings, policies, outputs and ledgers are in folders of the demo's own, which the next run replaces. The seed makes
    the homes, never the noise: two runs have the same exact series and different published ones. A notion that cannot
    publish this series stops the demo with an error that names it, before anything is written.
    """
    from halflife.lab.views.page import load_plotly

    load_plotly()  # a missing extra is reported before any work is done
    homes = whole("households", households, least=1)
    notions = [cls.examples()[0] for cls in registry.NOTIONS.values()]
    total = len(notions) + 2
    progress("simulating the homes", 0, total)
    town = simulate(homes, days, START, seed)
    drafts = [draft_policy(notion, folder, homes, len(town.times)) for notion in notions]
    try:
        _own_folders([folder / HOMES, *(d.folder for d in drafts)])
        _write_inputs(town, folder / HOMES, drafts)
        outcomes = []
        for done, draft in enumerate(drafts, start=1):
            progress(f"publishing under {draft.notion.name}", done, total)
            outcomes.append(_publish(draft, len(town.times)))
        progress("writing the report", total - 1, total)
        result = _result(town, outcomes, folder, days, seed)
        _write_results(result)
    except OSError as error:
        raise InvalidInput(f"cannot write to {folder}: {error.strerror or error}: choose another folder") from error
    progress("done", total, total)
    return result


def _own_folders(folders: Sequence[Path]) -> None:
    """Make folders for the demo, or empty those of an earlier one: of what it made, and of nothing else."""
    if len(set(folders)) < len(folders):
        twice = next(f for f in folders if folders.count(f) > 1)
        raise HalflifeError(f"two notions of the demo would share the folder {twice}: rename one of them")
    for mine in folders:
        if mine.exists() and not (mine / MARKER).is_file():
            raise InvalidInput(f"{mine} is there, and the demo did not make it: choose another folder, or move it away")
    for mine in folders:
        for name in MADE:
            (mine / name).unlink(missing_ok=True)
        mine.mkdir(parents=True, exist_ok=True)
        (mine / MARKER).write_text("The next `halflife demo` into the folder above this one replaces what is here.\n")


def _write_inputs(town: Readings, homes: Path, drafts: Sequence[Draft]) -> None:
    import pyarrow.parquet as pq

    pq.write_table(readings_table(town), homes / "readings.parquet")
    for draft in drafts:
        (draft.folder / POLICY).write_text(draft.text, encoding="utf-8")
        if draft.notion.shares_draws:
            make_key_file(draft.folder / KEY_FILE)


def _publish(draft: Draft, steps: int) -> Outcome:
    """Publish under one notion, by a clock that stands at the end of the readings."""
    end = (START + datetime.timedelta(minutes=30) * steps).timestamp()
    try:
        return publish_and_verify(draft.folder / POLICY, clock=lambda: end)
    except HalflifeError as error:
        raise HalflifeError(f"the demo cannot publish under {draft.notion.name}: {error}") from error


def _result(town: Readings, outcomes: Sequence[Outcome], folder: Path, days: int, seed: int) -> DemoResult:
    homes, steps = town.kwh.shape
    policy = Policy.load(outcomes[0].policy)
    (channel,) = channels(policy)
    return DemoResult(
        households=homes,
        sensitivity=float(channel.sensitivity.l1 * channel.factors[0]),
        times=town.times,
        width=np.timedelta64(1440 // SLOTS_PER_DAY, "m"),
        unit="kWh per home and half hour",
        exact=exact_series(policy, steps),
        outcomes=tuple(outcomes),
        days=days,
        seed=seed,
        parquet=folder / "releases.parquet",
        report=folder / "report.html",
    )


def _write_results(result: DemoResult) -> None:
    from halflife.lab.views.report import write_report

    write_releases(result, result.parquet)
    write_report(result, result.report)
