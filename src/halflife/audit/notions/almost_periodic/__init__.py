"""Almost-periodic privacy audited: histories, Corollary 8 as a planted fault, and policies with two habits as neighbours."""

from halflife.audit.notions.almost_periodic.faults import plant_faults
from halflife.audit.notions.almost_periodic.histories import worst_habit_or_period
from halflife.audit.notions.almost_periodic.policy import try_policy
from halflife.audit.registry import NotionAudit, register_audit

register_audit(
    "almost-periodic",
    audit=NotionAudit(worst_loss=worst_habit_or_period, faults=plant_faults, try_policy=try_policy),
)
