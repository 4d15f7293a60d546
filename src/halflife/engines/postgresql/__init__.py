"""Readings in a table on a PostgreSQL server."""
