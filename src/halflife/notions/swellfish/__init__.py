"""Swellfish privacy: each household's declared secrets are hidden, only while they need to be."""

from halflife.notions.swellfish.notion import Swellfish

__all__ = ["Swellfish"]
