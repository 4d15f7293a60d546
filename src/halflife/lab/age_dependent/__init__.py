"""Errors of stale data, and views of processes."""
