"""Attack the promise before anyone else does: exact audits, black-box audits, and planted faults to test them with."""

from halflife.audit.black_box import FAMILY_ERROR, Pair, attack
from halflife.audit.exact import pair_loss, worst_loss
from halflife.audit.notions.age_dependent.histories import attained_loss
from halflife.audit.notions.almost_periodic import one_habit_or_one_period
from halflife.audit.notions.swellfish import worst_secret
from halflife.audit.verdict import Finding, Verdict, audit_history, audit_paths

__all__ = [
    "FAMILY_ERROR",
    "Finding",
    "Pair",
    "Verdict",
    "attack",
    "attained_loss",
    "audit_history",
    "audit_paths",
    "one_habit_or_one_period",
    "pair_loss",
    "worst_loss",
    "worst_secret",
]
