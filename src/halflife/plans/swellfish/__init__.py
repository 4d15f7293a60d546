"""Plans under Swellfish privacy: the paper's, the tight one, and the optimum of a convex program."""

from halflife.plans.swellfish import optimal, plan

__all__ = ["optimal", "plan"]
