"""The lab: simulate, compare, look. It never touches a ledger."""
