"""Which statistics a promise covers, notion by notion: one file each, and one table of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from halflife.notions import AgeDependent, AlmostPeriodic
from halflife.notions.base import Notion
from halflife.parsing.documents import Where
from halflife.policy.promises import age_dependent, almost_periodic, classical, discounted, swellfish, w_event
from halflife.policy.promises.almost_periodic import check_declared
from halflife.policy.promises.table import Case, Rule, judge
from halflife.processes import AutoRegressive

if TYPE_CHECKING:
    from halflife.policy.model import Policy, PostProcessing

RULES: dict[str, tuple[Rule, ...]] = {
    name: rules
    for room in (classical, w_event, discounted, age_dependent, almost_periodic, swellfish)
    for name, rules in room.RULES.items()
}
"""Every notion's rules, by the name that a policy writes and, where that has several meanings, the meaning."""

__all__ = ["RULES", "check_declared", "check_statistics", "find_rules"]


def find_rules(notion: Notion[Any]) -> tuple[Rule, ...]:
    """Return the rules of a promise; none for a notion that nobody has declared any for."""
    name = notion.name
    if isinstance(notion, AlmostPeriodic):
        name = almost_periodic.name_variant(notion)
    elif isinstance(notion, AgeDependent) and isinstance(notion.process, AutoRegressive):
        name = f"{notion.name}, autoregressive"
    return RULES.get(name, ())


def check_statistics(policy: Policy, notion: Notion[Any]) -> tuple[Rule, ...]:
    """Return the rule that each stream is accepted by; refuse what no rule accepts, with the key that must change."""
    return tuple(_check_stream(policy, i, notion) for i in range(len(policy.streams)))


def _check_stream(policy: Policy, i: int, notion: Notion[Any]) -> Rule:
    stream = policy.streams[i]
    s = stream.statistic
    groups = "none" if stream.groups is None else "column" if stream.groups.table is None else "table"
    clip = "none" if s.clip is None else "may bind" if policy.promise.readings is None else "never binds"
    rules = find_rules(notion)
    accepted = None
    for post in [_name_post(p) for p in stream.post] or ["none"]:
        case = Case(s.kind, policy.population.neighbours, groups, clip, s.fold or "none", post)
        accepted = judge(rules, case)
        if not accepted.accepted:
            raise policy.error((_find_key(accepted.about, i), accepted.why))
    assert accepted is not None
    return accepted


def _name_post(post: PostProcessing) -> str:
    return next((key for key in ("truncate", "moving_average", "kalman") if getattr(post, key) is not None), "none")


def _find_key(about: str, i: int) -> Where:
    """Where a policy writes what an axis of the table is about."""
    places: dict[str, Where] = {
        "neighbours": ("population", "neighbours"),
        "groups": ("streams", i, "groups"),
        "folds": ("streams", i, "statistic", "fold"),
        "clips": ("promise", "readings"),
        "posts": ("streams", i, "post"),
    }
    return places.get(about, ("streams", i, "statistic", "kind"))
