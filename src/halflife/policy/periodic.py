"""What an almost-periodic promise asks of a policy: to say what is published exactly, and that nothing breaks linearity."""

from __future__ import annotations

import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from halflife.notions import AlmostPeriodic
from halflife.notions.base import Notion
from halflife.steps import DAY, Steps, find_zone

if TYPE_CHECKING:
    from halflife.policy.model import Policy


def check_periodic(policy: Policy, notion: Notion[Any], account: Steps) -> None:
    """Refuse a weak promise that does not say what it publishes, or whose statistic is not linear for sure (P4).

    In the weak notion a clip that binds, a missing reading, and people who join, leave or change their group make the loss
    infinite (clip at 1, z = 0.9 or 0.5, w = (0, 0.3): the difference of two published values is exactly 0.1 or 0.3). A program
    cannot see from a policy that they never happen, and must not look at the data: the operator declares it. Strong counts all
    of them as variations.
    """
    promise = policy.promise
    if not isinstance(notion, AlmostPeriodic):
        for key in ("variations", "readings"):
            if getattr(promise, key) is not None:
                raise policy.error((("promise", key), f"is said of almost-periodic promises, not of {notion.name}"))
        return
    _check_period(policy, notion, account)
    if notion.strong:
        return
    if promise.variations != "public":
        raise policy.error((
            ("promise", "variations"),
            "missing: the weak notion publishes every change from one period to the next exactly; in a group of one home that "
            "is the raw data. Write `variations: public` if that is meant, or `strong: yes` to hide one period's changes",
        ))  # fmt: skip
    if promise.readings != "complete":
        raise policy.error((
            ("promise", "readings"),
            "missing: one reading that is clipped or absent, or one person who joins or leaves, makes the weak loss infinite. "
            "Write `readings: complete` if bounds cannot bind, everybody always has a reading and members are fixed; else "
            "`strong: yes`, which counts all of this as variations",
        ))  # fmt: skip
    for i, stream in enumerate(policy.streams):
        if stream.groups is not None and stream.groups.table is None:
            raise policy.error((
                ("streams", i, "groups"),
                "people who change their group join one and leave another, which makes the weak loss infinite: fix everybody's "
                "group by a table, or write `strong: yes`",
            ))  # fmt: skip


def _check_period(policy: Policy, notion: AlmostPeriodic, account: Steps) -> None:
    """Refuse a period of days whose phases would not follow the wall clock that people live by: their noise would be used for
    another stretch of the day after a clock change, and the difference of the two tells all."""
    if account.days or (notion.period * account.width) % DAY:
        return
    if DAY % account.width:
        raise policy.error(
            (("promise", "period"), f"steps of {policy.clock.step} do not fit into a day, so days have no phases")
        )
    changes = _clock_changes(policy.clock.zone)
    if any(change % account.width for change in changes):
        raise policy.error((
            ("clock", "step"),
            f"when the clocks of {policy.clock.zone} change, steps of {policy.clock.step} lie across others of the day before: "
            "take steps that divide the change, or a zone whose clocks do not change",
        ))  # fmt: skip
    if changes and notion.renew is not None:
        raise policy.error((
            ("promise", "renew"),
            f"noise that is renewed counts its phases in steps, and the clocks of {policy.clock.zone} change: take a zone whose "
            "clocks do not, such as UTC",
        ))  # fmt: skip


def _clock_changes(zone: str) -> set[int]:
    """By how many microseconds the clocks of a zone change within the years that anybody may publish in."""
    place, offsets = find_zone(zone), []
    for year in range(1990, 2061):
        for month in range(1, 13):
            moment = datetime.datetime(year, month, 15, 12, tzinfo=datetime.UTC).astimezone(place)
            offsets.append(round((moment.utcoffset() or datetime.timedelta()).total_seconds() * 1_000_000))
    return {abs(b - a) for a, b in pairwise(offsets)} - {0}
