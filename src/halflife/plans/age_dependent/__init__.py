"""Plans for age-dependent promises: equally spaced releases and the best schedule."""

from halflife.plans.age_dependent import plan

__all__ = ["plan"]
