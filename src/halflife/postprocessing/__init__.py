"""Post-processing of published values: what costs no privacy, one post-processor a file."""

from halflife.postprocessing.base import PLAIN, Facts, Smoother
from halflife.postprocessing.kalman import Kalman
from halflife.postprocessing.local_level import LocalLevel
from halflife.postprocessing.moving_average import MovingAverage
from halflife.postprocessing.seasonal import Seasonal
from halflife.postprocessing.truncate import Truncate

__all__ = ["PLAIN", "Facts", "Kalman", "LocalLevel", "MovingAverage", "Seasonal", "Smoother", "Truncate"]
