"""Plans for secrets: as in the paper, tight, and optimal by a convex program."""

from halflife.plans.swellfish import optimal, plan

__all__ = ["optimal", "plan"]
