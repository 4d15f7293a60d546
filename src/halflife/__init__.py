"""halflife: private statistics about people's time series, step after step, for ever.

One spine: release → notion → accountant → plan → mechanism.

>>> import halflife as hl
>>> plan = hl.WEvent(epsilon=1.0, w=48).plan(sensitivity=0.02)
>>> round(plan.scale(1), 2)
0.96
"""

from halflife import plans
from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, HalflifeError, InvalidInput, MissingExtra, UnboundedLoss
from halflife.mechanisms import Mechanism, PlannedNoise, ReleaseDraw, SimulatedDraw, publish_series
from halflife.notions import (
    Classical,
    ExponentialDiscount,
    Exposure,
    GaussianDiscount,
    HyperbolicDiscount,
    Notion,
    WEvent,
)
from halflife.plans import Plan
from halflife.release import History, Release
from halflife.sensitivity import mean_sensitivity

__version__ = "0.1.0"

__all__ = [
    "Accountant",
    "BudgetExceeded",
    "Classical",
    "ExponentialDiscount",
    "Exposure",
    "GaussianDiscount",
    "HalflifeError",
    "History",
    "HyperbolicDiscount",
    "InvalidInput",
    "Mechanism",
    "MissingExtra",
    "Notion",
    "Plan",
    "PlannedNoise",
    "Release",
    "ReleaseDraw",
    "SimulatedDraw",
    "UnboundedLoss",
    "WEvent",
    "mean_sensitivity",
    "plans",
    "publish_series",
]
