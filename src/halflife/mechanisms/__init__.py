"""How a value becomes an output."""

from halflife.mechanisms.base import Draw, Mechanism, Request, ScheduledMechanism, Turn, check_adaptive
from halflife.mechanisms.binary_tree import TreeNodes
from halflife.mechanisms.budget_absorption import BudgetAbsorption
from halflife.mechanisms.budget_distribution import BudgetDistribution
from halflife.mechanisms.draw import Batch
from halflife.mechanisms.held import HeldOutput
from halflife.mechanisms.lane_draw import LaneDraw
from halflife.mechanisms.lane_noise import LaneNoise
from halflife.mechanisms.planned import PlannedNoise, publish_series
from halflife.mechanisms.release_draw import ReleaseDraw, record
from halflife.mechanisms.rescue_dp import RescueDP
from halflife.mechanisms.reused import ReusedNoise
from halflife.mechanisms.sample import Sample
from halflife.mechanisms.schedule_draw import ScheduleDraw
from halflife.mechanisms.simulated_draw import SimulatedDraw
from halflife.mechanisms.uniform import Uniform
from halflife.registry import import_modules

__all__ = [
    "Batch",
    "BudgetAbsorption",
    "BudgetDistribution",
    "Draw",
    "HeldOutput",
    "LaneDraw",
    "LaneNoise",
    "Mechanism",
    "PlannedNoise",
    "ReleaseDraw",
    "Request",
    "RescueDP",
    "ReusedNoise",
    "Sample",
    "ScheduleDraw",
    "ScheduledMechanism",
    "SimulatedDraw",
    "TreeNodes",
    "Turn",
    "Uniform",
    "check_adaptive",
    "publish_series",
    "record",
]

import_modules(__name__, __path__)
