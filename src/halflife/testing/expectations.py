"""What a failed check raises, and what every suite measures with."""

from __future__ import annotations

from halflife.numerics.rounding import TOLERANCE


def expect(condition: bool, message: str) -> None:
    """Raise an AssertionError with this message unless the condition holds; `assert` would vanish under `python -O`."""
    if not condition:
        raise AssertionError(message)


def within(risk: float, limit: float) -> bool:
    """Whether a risk keeps to a limit, but for rounding."""
    return risk <= limit * (1 + TOLERANCE)
