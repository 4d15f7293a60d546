"""Notions of privacy over time: one a file, all of them answering `halflife.notions.base.Notion`."""

from halflife.notions.age_dependent.notion import AgeDependent
from halflife.notions.almost_periodic.notion import AlmostPeriodic
from halflife.notions.base import Exposure, Notion
from halflife.notions.classical import Classical
from halflife.notions.discounted import ExponentialDiscount, GaussianDiscount, HyperbolicDiscount
from halflife.notions.request import PlanRequest
from halflife.notions.swellfish.notion import Swellfish
from halflife.notions.w_event import WEvent
from halflife.registry import import_modules

__all__ = [
    "AgeDependent",
    "AlmostPeriodic",
    "Classical",
    "ExponentialDiscount",
    "Exposure",
    "GaussianDiscount",
    "HyperbolicDiscount",
    "Notion",
    "PlanRequest",
    "Swellfish",
    "WEvent",
]

import_modules(__name__, __path__)
