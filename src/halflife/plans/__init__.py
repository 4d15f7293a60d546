"""Noise schedules: each paper's, and the tighter ones; each certified against its notion, infinite tail included."""

from halflife.plans import age_dependent, almost_periodic, classical, discounted, swellfish, w_event
from halflife.plans.base import Plan
from halflife.registry import import_modules

__all__ = ["Plan", "age_dependent", "almost_periodic", "classical", "discounted", "swellfish", "w_event"]

import_modules(__name__, __path__)
