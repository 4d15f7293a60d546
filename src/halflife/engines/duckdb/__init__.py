"""Bounded aggregation in DuckDB."""
