"""Age-dependent differential privacy: what releases about old data reveal about a person's current state."""

from halflife.notions.age_dependent.notion import AgeDependent

__all__ = ["AgeDependent"]
