"""How a value becomes an output."""

from halflife.mechanisms.draw import (
    Batch,
    Draw,
    Mechanism,
    ReleaseDraw,
    Request,
    ScheduledMechanism,
    SimulatedDraw,
    Turn,
    check_adaptive,
    record,
)
from halflife.mechanisms.planned import PlannedNoise, publish_series
from halflife.mechanisms.reused import ReusedNoise

__all__ = [
    "Batch",
    "Draw",
    "Mechanism",
    "PlannedNoise",
    "ReleaseDraw",
    "Request",
    "ReusedNoise",
    "ScheduledMechanism",
    "SimulatedDraw",
    "Turn",
    "check_adaptive",
    "publish_series",
    "record",
]
