"""What an audit found: its findings, one by one, and the verdict that they make together."""

from __future__ import annotations

import math
from dataclasses import dataclass

from halflife.numerics.forms import JsonObject

FAMILY_ERROR = 1e-6
"""The probability that anything that one audit finds is false."""
MARGIN = 1e-6
"""By how much, relatively, a second derivation in plain doubles may differ from an exact one."""


@dataclass(frozen=True)
class Finding:
    """One thing that was tried: what was claimed, what was found, and whether that accuses the release path.

    found    exact: the loss itself; black box: a lower bound on it; nan where there is no number
    accused  what was found is more than was claimed
    """

    name: str
    how: str
    claimed: float
    found: float
    accused: bool
    detail: str
    seconds: float
    runs: int = 0


@dataclass(frozen=True)
class Verdict:
    """All findings of one audit. `family_error` is the probability that any accusation of its black-box part is false."""

    subject: str
    findings: tuple[Finding, ...]
    family_error: float = FAMILY_ERROR

    @property
    def good(self) -> bool:
        """Whether nothing was accused."""
        return not any(f.accused for f in self.findings)

    def to_dict(self) -> JsonObject:
        """Return the verdict as JSON can hold it; what is not finite becomes text."""
        rows = [
            {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in vars(f).items()}
            for f in self.findings
        ]
        return {"subject": self.subject, "good": self.good, "family_error": self.family_error, "findings": rows}
