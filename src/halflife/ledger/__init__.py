"""Releases and spending, committed together or not at all."""

from halflife.ledger.entry import Entry
from halflife.ledger.sqlite.ledger import SqliteLedger

__all__ = ["Entry", "SqliteLedger"]
