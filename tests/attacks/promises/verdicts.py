"""What a case comes to: refused, or attained losses beside what was promised and what the account says."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

ROUNDING = 1e-9


@dataclass(frozen=True)
class Accusation:
    """Somebody attains more than they may."""

    family: str
    seed: int
    what: str
    attained: float
    allowed: float
    story: str

    def __str__(self) -> str:
        numbers = f"{self.attained:.9g} attained, {self.allowed:.9g} allowed"
        return f"[{self.family} {self.seed}] {self.what}: {numbers}\n    {self.story}"


@dataclass
class Tally:
    """How many cases there were, by notion: accepted and refused; and who was accused."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    accusations: list[Accusation] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return sum(self.accepted.values()) + sum(self.refused.values())

    def __str__(self) -> str:
        both = sorted({*self.accepted, *self.refused})
        kinds = ", ".join(f"{name} {self.accepted[name]}/{self.accepted[name] + self.refused[name]}" for name in both)
        lines = [
            f"{self.cases} cases, {sum(self.accepted.values())} accepted ({kinds})",
            *map(str, self.accusations[:20]),
        ]
        return "\n".join(lines)


class Case:
    """One case: it collects accusations."""

    def __init__(self, family: str, seed: int) -> None:
        self.family, self.seed = family, seed
        self.accusations: list[Accusation] = []

    def compare(self, what: str, attained: float, allowed: float, story: object, slack: float = ROUNDING) -> None:
        """Accuse if more is attained than allowed; what is attained must be a number."""
        assert not math.isnan(attained), (what, story)
        if attained > allowed * (1 + slack) + 1e-15:
            self.accusations.append(Accusation(self.family, self.seed, what, attained, allowed, str(story)))

    def expect(self, what: str, holds: bool, story: object) -> None:
        """Accuse if something that must hold does not."""
        if not holds:
            self.accusations.append(Accusation(self.family, self.seed, what, math.nan, math.nan, str(story)))
