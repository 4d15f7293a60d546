"""Audits of privacy promises: exact ones, black-box ones, and planted faults to test them with."""

from halflife.audit.black_box import Pair, attack
from halflife.audit.exact import audit_history, pair_loss, worst_loss
from halflife.audit.running import audit_paths
from halflife.audit.verdict import FAMILY_ERROR, Finding, Verdict

__all__ = [
    "FAMILY_ERROR",
    "Finding",
    "Pair",
    "Verdict",
    "attack",
    "audit_history",
    "audit_paths",
    "pair_loss",
    "worst_loss",
]
