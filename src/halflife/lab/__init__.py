"""Simulations, comparisons and views of plans, processes and promises. Nothing here touches a ledger."""
