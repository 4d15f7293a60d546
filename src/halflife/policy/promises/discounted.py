"""Discounted privacy in policies: a person's whole series, of which older releases count less."""

from __future__ import annotations

from halflife.policy.promises.table import accept_everything

_RULES = accept_everything(
    "one person's whole series may be any other: each release moves by at most its sensitivity, and counts less as it ages",
    "hides whether anything was ever recorded of a person, counted less as releases age; which of two series was recorded "
    "costs up to twice as much",
)

RULES = {"exponential": _RULES, "hyperbolic": _RULES, "gaussian-discount": _RULES}
