"""Reconciliation: totals and parts that are published with noise of their own, made to add up."""

from halflife.postprocessing.reconcile.least_squares import Common, hold_above_zero, reconcile, solve_least_squares
from halflife.postprocessing.reconcile.rules import Rule
from halflife.postprocessing.reconcile.sums import Sums, adds_up, settle

__all__ = ["Common", "Rule", "Sums", "adds_up", "hold_above_zero", "reconcile", "settle", "solve_least_squares"]
