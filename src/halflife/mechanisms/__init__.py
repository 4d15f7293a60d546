"""How a value becomes an output."""

from halflife.mechanisms.draw import Draw, Mechanism, ReleaseDraw, SimulatedDraw, check_adaptive
from halflife.mechanisms.planned import PlannedNoise, publish_series
from halflife.mechanisms.reused import ReusedNoise

__all__ = [
    "Draw",
    "Mechanism",
    "PlannedNoise",
    "ReleaseDraw",
    "ReusedNoise",
    "SimulatedDraw",
    "check_adaptive",
    "publish_series",
]
