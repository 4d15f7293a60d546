"""Errors of stale data, and pictures of processes and schedules."""
