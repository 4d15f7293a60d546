"""One adapter for each notion: its own keys, what it accepts, checks, plans, explanation and schema."""

from __future__ import annotations

from typing import Any

from halflife.notions.base import Notion
from halflife.policy.promises.base import ADAPTERS, RULES, Adapter, find_adapter
from halflife.policy.promises.table import Rule
from halflife.registry import import_modules

# The order of docs/promises.md and of `halflife init`; notions that are added come after these.
# isort: off
from halflife.policy.promises import classical, w_event, discounted, age_dependent, almost_periodic, swellfish
# isort: on

__all__ = [
    "ADAPTERS", "RULES", "Adapter", "age_dependent", "almost_periodic", "classical", "discounted", "find_adapter", "find_rules",
    "swellfish", "w_event",
]  # fmt: skip

import_modules(__name__, __path__)


def find_rules(notion: Notion[Any]) -> tuple[Rule, ...]:
    """Return the rules of a promise, an empty tuple for a notion that declares none."""
    return RULES.get(ADAPTERS.get(notion.name, Adapter).variant(notion), ())
