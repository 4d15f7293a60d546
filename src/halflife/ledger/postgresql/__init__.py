"""Ledgers in schemas of a PostgreSQL server, each with the guard of what was shown in a folder of this machine."""
