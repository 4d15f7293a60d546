"""Plans under discounted privacy: losses that saturate, and the least-squares optimum."""

from halflife.plans.discounted import plan

__all__ = ["plan"]
