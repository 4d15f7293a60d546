"""One adapter for each notion: its own keys, what it accepts, checks, plans, explanation and schema."""

from __future__ import annotations

from halflife.policy.promises.base import ADAPTERS, RULES, Adapter, find_adapter
from halflife.registry import import_modules

# The order of docs/promises.md and of `halflife init`; notions that are added come after these.
# isort: off
from halflife.policy.promises import classical, w_event, discounted, age_dependent, almost_periodic, swellfish
# isort: on

__all__ = [
    "ADAPTERS", "RULES", "Adapter", "age_dependent", "almost_periodic", "classical", "discounted", "find_adapter", "swellfish",
    "w_event",
]  # fmt: skip

import_modules(__name__, __path__)
