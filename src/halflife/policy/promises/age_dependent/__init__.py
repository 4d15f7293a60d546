"""Age-dependent privacy in policies."""

from halflife.policy.promises.age_dependent import adapter

__all__ = ["adapter"]
