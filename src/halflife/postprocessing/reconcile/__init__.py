"""Reconciliation: totals and parts that are published with noise of their own, made to add up."""

from halflife.postprocessing.reconcile.least_squares import reconcile, solve_least_squares
from halflife.postprocessing.reconcile.rules import Rule

__all__ = ["Rule", "reconcile", "solve_least_squares"]
