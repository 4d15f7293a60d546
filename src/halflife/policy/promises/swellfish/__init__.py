"""Swellfish privacy (declared secrets) in policies."""

from halflife.policy.promises.swellfish import adapter

__all__ = ["adapter"]
