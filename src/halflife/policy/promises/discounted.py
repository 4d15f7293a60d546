"""Discounted privacy in policies: a person's whole series, of which older releases count less."""

from __future__ import annotations

from halflife.policy.promises.base import Adapter, register_adapter
from halflife.policy.promises.table import accept_everything


@register_adapter
class DiscountedAdapter(Adapter):
    """Covers every statistic, whatever the discount."""

    names = ("exponential", "hyperbolic", "gaussian-discount")
    rules = dict.fromkeys(
        names,
        accept_everything(
            "one person's whole series may be any other: each release moves by at most its sensitivity, and counts less as it "
            "ages",
            "hides whether anything was ever recorded of a person, counted less as releases age; which of two series was "
            "recorded costs up to twice as much",
        ),
    )
    template = """\
  # half_life: 1 week         # exponential: when a loss counts half
"""
