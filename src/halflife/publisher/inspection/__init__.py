"""A private look at readings beside a policy, for the operator alone: what looks wrong, why, and which key to write."""

from halflife.publisher.inspection.check import check
from halflife.publisher.inspection.report import CheckReport, Problem

__all__ = ["CheckReport", "Problem", "check"]
