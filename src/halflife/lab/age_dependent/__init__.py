"""Errors of stale and of aged data, artificial aging, and views of processes."""
