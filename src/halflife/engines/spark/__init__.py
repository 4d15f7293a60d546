"""Readings on an Apache Spark cluster: files that it can reach, tables of its catalog, and data frames of a running session."""
