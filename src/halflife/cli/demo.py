"""The demo: one town's mean electricity use per home, published every half hour under every registered notion.

The homes are generated (`lab.households`); everything after that is what a real publication does. Readings go to a
file, a policy is written for each notion, and `halflife.publish` keeps a ledger and an output for each, which
`halflife.verify` then checks. The exact series is shown beside them, as only a demo with generated homes can do.
"""

from __future__ import annotations

import datetime
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from halflife import registry
from halflife.engines import open_source
from halflife.errors import HalflifeError, InvalidInput
from halflife.lab.demo import DemoResult, Outcome, write_releases
from halflife.lab.households.readings import MAX_KWH, SLOTS_PER_DAY, Readings, simulate
from halflife.ledger import ledger_names, open_ledger
from halflife.notions import Notion
from halflife.numerics.arrays import Floats
from halflife.numerics.parameters import whole
from halflife.numerics.progress import Progress
from halflife.policy import Policy, channels
from halflife.publisher import publish, verify

if TYPE_CHECKING:
    import pyarrow as pa

START = datetime.datetime(2024, 1, 8, tzinfo=datetime.UTC)
"""A Monday in winter."""

SECRETS = """\
  neighbours: one-window      # all that a home's events can do within the time of one of them
  floor: 0.5 Wh               # noise outside the hiding intervals too, of which nothing is promised
  specifications:             # public: so recurring windows, not what a home really did
    readings: 1               # a home has one in a step, at most: each is rounded
    households:
      home-0001:
        - {what: oven, every: day, from: "17:00", to: "21:00", power: 3 kW, duration: 1 h, epsilon: 1, until: 2029-01-01}
        - every weekend 08:00–20:00, washing, 2 kW, 90 min, epsilon 1, until 2029-01-01
      home-0002:
        - every weekday 06:00–09:00, shower, 8 kW, 30 min, epsilon 1, until 2029-01-01
"""
"""What two homes want hidden: the promise of the demo's policy for notions that protect secrets."""

MARKER = ".made-by-halflife-demo"
HOMES, POLICY, LEDGER, OUTPUT = "homes", "policy.yaml", "policy.ledger", "mean-use.csv"
MADE = ("readings.parquet", POLICY, OUTPUT, *ledger_names(LEDGER))
"""All that the demo puts into a folder of its own, and all that it ever deletes there."""


def _silent(what: str, done: int, total: int) -> None:
    """Show no progress."""


# One policy ---------------------------------------------------------------------------------------------------------


def publish_and_verify(file: Path, progress: Progress = _silent, clock: Callable[[], float] = time.time) -> Outcome:
    """Publish what a policy has due, check it, and return all that it has published: one stream of one number, as CSV."""
    from pyarrow import csv

    policy = Policy.load(file)
    (channel,) = channels(policy)
    output = policy.path(channel.part.output)
    missed = publish(policy, progress=progress, clock=clock).passed_over
    if missed:
        raise HalflifeError(
            f"{file}: {missed:,} late steps had no room: to replay the past write `late: as-planned` (clock)"
        )
    verdict = verify(policy.ledger_url, {channel.name: str(output)}, progress)
    if not verdict.good:
        raise HalflifeError(f"what {file} published does not verify: {verdict.problems[0]}")
    with open_ledger(policy.ledger_url, read_only=True) as book:
        charged = [entry.releases for entry in book.entries(channel.name)]
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
    )


def exact_series(policy: Policy, steps: int) -> Floats:
    """Return what a policy's stream would publish without noise, from the engine that the publisher asks.

    Nobody may see this of real people: it is for generated homes, and for data that is public already.
    """
    (channel,) = channels(policy)
    source, factor = channel.part.source, channel.factors[0]
    assert source is not None
    engine = open_source([str(policy.path(f)) for f in source.files], source.format, source.table)
    try:
        totals = engine.aggregate(channel.question(1, steps)).sums[:, 0, 0] + channel.offsets[0]
    finally:
        engine.close()
    values: Floats = totals * factor.numerator / factor.denominator
    return values


# The demo -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draft:
    """A policy that is yet to be written: for which notion, into which folder."""

    notion: Notion[Any]
    folder: Path
    text: str


def run_demo(
    folder: Path, households: int = 300, days: int = 60, seed: int = 1, progress: Progress = _silent
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


def readings_table(town: Readings) -> pa.Table:
    """Return the readings as meters send them: home, time, kWh; one row a reading, in the order of time."""
    import pyarrow as pa

    homes, slots = town.kwh.shape
    names = pa.array([f"home-{i:04d}" for i in range(1, homes + 1)])
    which = pa.DictionaryArray.from_arrays(np.tile(np.arange(homes, dtype=np.int32), slots), names)
    times = pa.array(np.repeat(town.times.astype("datetime64[us]"), homes))
    return pa.table(
        {
            "home": which.cast(pa.string()),
            "time": times.cast(pa.timestamp("us", tz="UTC")),
            "kwh": town.kwh.T.reshape(-1),
        }
    )


def _parameters(notion: Notion[Any]) -> str:
    """A notion's parameters as lines of a promise."""
    given = {k: v for k, v in notion.to_dict().items() if k != "name" and v is not None}
    return "\n".join(f"  {key}: {json.dumps(value)}" for key, value in given.items())


def policy_text(notion: Notion[Any], households: int) -> str:
    """Return the demo's policy for a notion; its parameters count steps."""
    promise = SECRETS if notion.attached else _parameters(notion)
    return f"""\
# Written by `halflife demo`, which replaces it on its next run: copy it elsewhere before you change it.
halflife: 1

population:
  id: demo-town               # generated homes
  size: {f"{households}":<21} # public
  person: home

promise:
  notion: {json.dumps(notion.name)}
{promise}

clock:
  step: 30 min                # what the promise's parameters count
  start: {START:%Y-%m-%d}           # no end: the noise is planned for ever
  late: as-planned            # a replay: as if each half hour had been published as soon as it was over

streams:
  - name: mean-use
    source:
      files: ../{HOMES}/readings.parquet
      time: time
      value: kwh
    statistic:
      kind: mean
      unit: kWh
      resolution: 1 Wh        # readings become whole Wh, so that sums are exact
      clip: [0, {MAX_KWH:g} kWh]        # public, chosen before any data is seen
      fold: sum
      missing: 0
    output: {OUTPUT}

ledger: {LEDGER}
"""


def draft_policy(notion: Notion[Any], folder: Path, households: int, steps: int) -> Draft:
    """Return the policy for a notion, worked out and found to publish every step; nothing is written yet."""
    mine = folder / folder_name(notion.name)
    text = policy_text(notion, households)
    try:
        policy = Policy.parse(text, mine)
        (channel,) = channels(policy)
        kept = policy.notion
        published = int(np.count_nonzero(channel.plan.losses(steps)))
    except HalflifeError as error:
        raise HalflifeError(f"the demo cannot publish under {notion.name}: {error}") from error
    if kept != notion and not notion.attached:
        raise HalflifeError(
            f"the demo cannot publish under {notion.name}: its policy promises {kept!r}, not {notion!r}"
        )
    if published != steps:
        raise HalflifeError(
            f"the demo publishes every step, but the plan for {notion.name} has a release in only {published} of {steps}: "
            "its first example needs another plan"
        )
    return Draft(notion, mine, text)


def folder_name(name: str) -> str:
    """Return a notion's name as a folder can have it.

    >>> folder_name("w-event"), folder_name("<b>A/B</b>")
    ('w-event', 'b-A-B-b')
    """
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-") or "notion"


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
