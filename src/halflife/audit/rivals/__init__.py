"""Rivals as others published them: models of those whose promise does not hold, and a verdict on each."""
