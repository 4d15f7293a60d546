"""What an almost-periodic promise asks of a policy: to say what is published exactly, and that nothing breaks linearity."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halflife.notions import AlmostPeriodic
from halflife.notions.base import Notion
from halflife.steps import DAY, Steps

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
    if notion.strong:
        return
    if promise.variations != "public":
        raise policy.error((
            ("promise", "variations"),
            "missing: the weak notion publishes every change from one period to the next exactly; in a group of one home "
            "that is the "
            "raw data. Write `variations: public` if that is meant, or `strong: yes` to hide one period's changes",
        ))  # fmt: skip
    if promise.readings != "complete":
        raise policy.error((
            ("promise", "readings"),
            "missing: one reading that is clipped or absent, or one person who joins or leaves, makes the weak loss "
            "infinite. Write "
            "`readings: complete` if bounds cannot bind, everybody always has a reading and members are fixed; else `strong: "
            "yes`, which "
            "counts all of this as variations",
        ))  # fmt: skip
    for i, stream in enumerate(policy.streams):
        if stream.groups is not None and stream.groups.table is None:
            raise policy.error((
                ("streams", i, "groups"),
                "people who change their group join one and leave another, which makes the weak loss infinite: fix "
                "everybody's group "
                "by a table, or write `strong: yes`",
            ))  # fmt: skip
    _check_period(policy, notion, account)


def _check_period(policy: Policy, notion: AlmostPeriodic, account: Steps) -> None:
    """Refuse a period of days on steps that do not fit into a day: phases would wander."""
    length = notion.period * account.width
    if not account.days and length % DAY == 0 and DAY % account.width:
        raise policy.error(
            (("promise", "period"), f"steps of {policy.clock.step} do not fit into a day, so days have no phases")
        )
