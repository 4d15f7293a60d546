"""Figures and tables of the paper on age-dependent privacy."""
