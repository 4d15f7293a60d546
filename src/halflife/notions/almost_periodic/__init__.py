"""Almost-periodic privacy: reused noise and the names it goes by."""

from halflife.notions.almost_periodic.notion import AlmostPeriodic

__all__ = ["AlmostPeriodic"]
