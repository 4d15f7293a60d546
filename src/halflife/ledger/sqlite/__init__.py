"""A ledger in one SQLite file, with its lock and the mark of what was shown beside it."""

from halflife.ledger.sqlite.ledger import SqliteLedger

__all__ = ["SqliteLedger"]
