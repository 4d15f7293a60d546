"""Experiments, tables and figures of the Swellfish paper."""
