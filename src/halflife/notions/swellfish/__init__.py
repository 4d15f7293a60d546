"""Swellfish privacy: households hide secrets only when they must."""

from halflife.notions.swellfish.notion import Swellfish

__all__ = ["Swellfish"]
