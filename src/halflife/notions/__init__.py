"""Notions of privacy over time: one a file, all of them answering `halflife.notions.base.Notion`."""

from halflife.notions.aged import AgeDependent
from halflife.notions.base import Exposure, Notion, PlanRequest
from halflife.notions.classical import Classical
from halflife.notions.discounted import ExponentialDiscount, GaussianDiscount, HyperbolicDiscount
from halflife.notions.periodic import AlmostPeriodic
from halflife.notions.swellfish import Swellfish
from halflife.notions.windowed import WEvent

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
