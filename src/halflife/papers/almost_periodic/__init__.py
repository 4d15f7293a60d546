"""Figures and tables of the paper on almost-periodic data."""
