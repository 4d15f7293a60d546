"""Swellfish privacy audited: what each secret loses, planted faults, and policies with events as neighbours."""

from halflife.audit.notions.swellfish.faults import plant_faults
from halflife.audit.notions.swellfish.histories import worst_secret
from halflife.audit.notions.swellfish.policy import try_policy
from halflife.audit.registry import NotionAudit, register_audit

register_audit(
    "swellfish",
    audit=NotionAudit(
        worst_loss=lambda notion, releases: worst_secret(notion, releases).loss,
        judges_exact=True,
        faults=plant_faults,
        try_policy=try_policy,
    ),
)
