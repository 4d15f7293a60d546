"""Named moments of a publishing run, in their order, at which tests stop the process."""

from __future__ import annotations

CHECKPOINTS = (
    "ledger locked",
    "marks written",
    "outputs complete",
    "totals read",
    "noise drawn",
    "entries committed",
    "outputs written",
    "outputs closed",
)


def reach(checkpoint: str) -> None:
    """Mark that a run has reached a checkpoint; does nothing, but tests replace it."""
