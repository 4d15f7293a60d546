"""Age-dependent privacy: what old data still tells about a person now."""

from halflife.notions.age_dependent.notion import AgeDependent

__all__ = ["AgeDependent"]
