"""Age-dependent privacy audited: histories, planted rules, and one person who is in one of two states now."""

from halflife.audit.notions.age_dependent.faults import plant_faults
from halflife.audit.notions.age_dependent.histories import worst_risk
from halflife.audit.notions.age_dependent.policy import try_policy
from halflife.audit.registry import NotionAudit, register_audit

register_audit("age-dependent", audit=NotionAudit(worst_loss=worst_risk, faults=plant_faults, try_policy=try_policy))
