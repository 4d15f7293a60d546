"""Figures and tables of the paper on discounted losses."""
