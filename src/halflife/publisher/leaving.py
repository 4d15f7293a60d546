"""What is still exposed of a person who left: releases about data before that time count, later ones are not about them.

    R_t = the risk at t of all releases whose data began before the person left, under the promise as it is now

Whoever leaves stops being published about; nothing that was published is taken back. What it lost fades as the promise says:
never under classical privacy, with the last window under w-event, as the discount falls under discounted promises.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from halflife.accountant import Accountant
from halflife.errors import InvalidInput
from halflife.ledger import Ledger
from halflife.local_time import LATEST, from_us, parse_time, to_us
from halflife.notions.base import Notion
from halflife.plans.continuing import adds_up
from halflife.policy import Channel, Policy, channels
from halflife.publisher.restores import list_restores
from halflife.steps import MOST_STEPS, Steps

SHARES = (0.1, 0.01)
"""Of the promised ε: when the risk has fallen below these is told."""


@dataclass(frozen=True)
class Left:
    """What is still exposed of a person who left at a time, under the promise as it is now.

    at            when they left
    releases      how many published steps are about data from before, those that a restore passed over among them
    to_come       how many more will be: steps that began before, and are not published yet
    first_steps   of each stream, the first step that is not about them
    risk, peak    now, and the worst from now on, once what is to come is published as planned, in nats;  limit  what is promised
    falls         when the worst from then on has fallen to a tenth and a hundredth of ε; None for never
    """

    at: datetime.datetime
    releases: int
    to_come: int
    first_steps: Mapping[str, int]
    risk: float
    peak: float
    limit: float
    falls: Mapping[str, datetime.datetime | None]


def find_left(policy: Policy, book: Ledger | None, done: Mapping[str, int], left: str, step: int) -> Left:
    """Return what is still exposed at a step of the account of a person who left at a time, by replaying the history up to then.

    left  a time by the policy's clock;  done  the newest step of each stream
    """
    notion, zone = policy.notion, policy.clock.zone
    left_us = to_us(parse_time(left, zone))
    refuse_without_account(notion)
    for c in channels(policy):
        if c.tree is not None:
            raise InvalidInput(
                f"{c.name}: nodes of a running total that are still to come add up steps from before a person left: it is not "
                "worked out what is left of them"
            )
    steps = channels(policy)[0].account
    entries = [] if book is None else [e for e in book.entries() if e.start_us < left_us]
    lost = [] if book is None else [r for restore in list_restores(book) for r in restore.releases]
    lost = [r for r in lost if steps.start(r.first_data_time) < left_us]
    releases = sorted((*(r for e in entries for r in e.releases), *lost), key=lambda r: r.step)
    account = Accountant.replay(notion, releases)
    firsts = {c.name: max(1, c.steps.step(left_us - 1) + 1) for c in channels(policy)}
    lasts = {
        c.name: firsts[c.name] - 1 if c.last is None else min(c.last, firsts[c.name] - 1) for c in channels(policy)
    }
    now = max(step, account.step)
    risk, _, limit = account.exposure(now)
    coming = [(c, done[c.name] + 1, lasts[c.name]) for c in channels(policy) if lasts[c.name] > done[c.name]]
    later = _charge_coming(account, coming, now)
    return Left(
        at=from_us(left_us, zone),
        releases=len(entries) + len(lost),
        to_come=sum(last - first + 1 for _, first, last in coming),
        first_steps=firsts,
        risk=risk,
        peak=max(risk, later.peak(max(now, later.step))),
        limit=limit,
        falls={f"{share:g}": _find_fall(later, later.step or now, share * limit, steps) for share in SHARES},
    )


def _charge_coming(account: Accountant, coming: Sequence[tuple[Channel, int, int]], now: int) -> Accountant:
    """Return the account once steps that are still to come, and are about a person, are published as planned."""
    later = account.copy()
    planned = (r for c, first, last in coming for r in c.plan_releases(last, first))
    for release in sorted(planned, key=lambda r: r.step):
        late = max(0, max(now, later.step) - release.step)
        later.record(release.at_step(release.step + late, release.age + late))
    return later


def refuse_without_account(notion: Notion) -> None:
    """Refuse a promise under which what is left of a person who left has no account."""
    if notion.shares_draws:
        raise InvalidInput(
            f"under {notion.name} one noise is used in every period, so nobody can be taken out while it is in use, and what is "
            "published later is still about them",
            about="left",
        )
    if not adds_up(notion):
        raise InvalidInput(
            f"{notion.name} bounds what is known of those who are still in the data, and has no account of a person who left: "
            "what was published about them stays published",
            about="left",
        )


def _find_fall(account: Accountant, since: int, bound: float, steps: Steps) -> datetime.datetime | None:
    """When, from a step on, the worst risk from then on first is at most a bound; None for never."""
    last = min(MOST_STEPS, steps.last_over(LATEST))

    def holds(step: int) -> bool:
        return account.peak(step) <= bound

    if not holds(last):
        return None
    return from_us(steps.end(since + bisect_left(range(since, last), True, key=holds)), steps.zone)
