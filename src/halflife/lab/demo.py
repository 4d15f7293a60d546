"""The demo's policies: one town's mean electricity use per home, every half hour, under one notion each.

`halflife.cli.demo` publishes under them.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from halflife.errors import HalflifeError
from halflife.lab.households.readings import MAX_KWH
from halflife.notions import Notion
from halflife.policy import Policy, channels

START = datetime.datetime(2024, 1, 8, tzinfo=datetime.UTC)
"""A Monday in winter."""

HOMES, POLICY, LEDGER, OUTPUT = "homes", "policy.yaml", "policy.ledger", "mean-use.csv"
KEY_FILE = "noise.key"
KEY_LINE = f"noise_key: file:{KEY_FILE}     # only a demo keeps the key beside its ledger\n"

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

ESTIMATED = ("w-event",)
"""Under these the demo publishes seasonal estimates; not under all, as fits take most of a second each."""


@dataclass(frozen=True)
class Draft:
    """A policy that is yet to be written: for which notion, into which folder."""

    notion: Notion
    folder: Path
    text: str


def _parameters(notion: Notion) -> str:
    """A notion's parameters as lines of a promise."""
    given = {k: v for k, v in notion.to_dict().items() if k != "name" and v is not None}
    return "\n".join(f"  {key}: {json.dumps(value)}" for key, value in given.items())


def policy_text(notion: Notion, households: int) -> str:
    """Return the demo's policy for a notion; its parameters count steps."""
    promise = SECRETS if notion.attached else _parameters(notion)
    post = (
        "    post:\n      - seasonal: fitted        # estimates from published values alone: free\n"
        if notion.name in ESTIMATED
        else ""
    )
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
{post}    output: {OUTPUT}

ledger: {LEDGER}
{KEY_LINE if notion.shares_draws else ""}"""


def draft_policy(notion: Notion, folder: Path, households: int, steps: int) -> Draft:
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
