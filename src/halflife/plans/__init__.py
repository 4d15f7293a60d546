"""Noise schedules: each paper's, and the tighter ones; each certified against its notion, infinite tail included."""

from halflife.plans import aged, classical, discounted, periodic, swellfish, swellfish_optimal, windowed
from halflife.plans.base import Plan

__all__ = ["Plan", "aged", "classical", "discounted", "periodic", "swellfish", "swellfish_optimal", "windowed"]
