"""halflife: private statistics about people's time series, step after step, for ever.

One spine: release → notion → accountant → plan → publisher.

>>> import halflife as hl
>>> plan = hl.WEvent(epsilon=1.0, w=48).plan(sensitivity=0.02)
>>> round(plan.scale(1), 2)
0.96
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from halflife import plans
from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, HalflifeError, InvalidInput, LedgerError, MissingExtra, UnboundedLoss
from halflife.mechanisms import Mechanism, PlannedNoise, ReleaseDraw, ReusedNoise, SimulatedDraw, publish_series
from halflife.notions import (
    AgeDependent,
    AlmostPeriodic,
    Classical,
    ExponentialDiscount,
    Exposure,
    GaussianDiscount,
    HyperbolicDiscount,
    Notion,
    Swellfish,
    WEvent,
)
from halflife.plans import Plan
from halflife.plans.age_dependent.schedule import Schedule, best_schedule
from halflife.processes import (
    AutoRegressive,
    EmpiricalProcess,
    GeometricMixing,
    MarkovChain,
    PeriodicMarkovChain,
    Population,
    Process,
)
from halflife.release import History, Release
from halflife.sensitivity import mean_sensitivity
from halflife.specifications import (
    Recurring,
    Secret,
    Specification,
    Specifications,
    read_specifications,
    write_specifications,
)

__version__ = "0.1.0"

if TYPE_CHECKING:
    from halflife.policy import Policy
    from halflife.publisher import Stream, publish, verify

_LATE = {"Policy": "policy", "Stream": "publisher", "publish": "publisher", "verify": "publisher"}


def __getattr__(name: str) -> Any:
    """Import what needs heavier parts (pydantic, SQLite) when it is first used."""
    if name not in _LATE:
        raise AttributeError(f"module 'halflife' has no attribute {name!r}")
    return getattr(import_module(f"halflife.{_LATE[name]}"), name)


__all__ = [
    "Accountant",
    "AgeDependent",
    "AlmostPeriodic",
    "AutoRegressive",
    "BudgetExceeded",
    "Classical",
    "EmpiricalProcess",
    "ExponentialDiscount",
    "Exposure",
    "GaussianDiscount",
    "GeometricMixing",
    "HalflifeError",
    "History",
    "HyperbolicDiscount",
    "InvalidInput",
    "LedgerError",
    "MarkovChain",
    "Mechanism",
    "MissingExtra",
    "Notion",
    "PeriodicMarkovChain",
    "Plan",
    "PlannedNoise",
    "Policy",
    "Population",
    "Process",
    "Recurring",
    "Release",
    "ReleaseDraw",
    "ReusedNoise",
    "Schedule",
    "Secret",
    "SimulatedDraw",
    "Specification",
    "Specifications",
    "Stream",
    "Swellfish",
    "UnboundedLoss",
    "WEvent",
    "best_schedule",
    "mean_sensitivity",
    "plans",
    "publish",
    "publish_series",
    "read_specifications",
    "verify",
    "write_specifications",
]
