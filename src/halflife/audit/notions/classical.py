"""Classical differential privacy audited: the loss of a history again, and an account that is lost on restart."""

from __future__ import annotations

from collections.abc import Sequence

from halflife.accountant import Accountant
from halflife.audit.exact import compose
from halflife.audit.registry import Faults, History, NotionAudit, register_audit
from halflife.notions import Classical
from halflife.release import Release


def whole_series(notion: Classical, releases: Sequence[Release]) -> float:
    """Return the loss if one person's whole series is another: every release may move by its sensitivity."""
    return compose(releases, notion.delta)


def reset_budget_on_restart() -> History:
    """Return what an account that is kept in memory alone lets through: after a restart it begins anew."""
    notion = Classical(1.0)
    releases: list[Release] = []
    for restart in range(3):
        account = Accountant(notion)
        for step in range(10 * restart + 1, 10 * restart + 11):
            release = Release(step, account.headroom(step) / 2)
            account.admit(release)
            releases.append(release)
    return notion, releases, 1.0


def plant_faults() -> Faults:
    """Return the planted faults of classical accounts."""
    return Faults(histories={"a budget that resets on restart": reset_budget_on_restart()})


register_audit("classical", audit=NotionAudit(worst_loss=whole_series, faults=plant_faults))
