"""What households want hidden, and when: secrets, specifications, and what follows from them alone (Swellfish)."""

from halflife.specifications.additions import added, check_added
from halflife.specifications.base import Secret, Specification, Specifications
from halflife.specifications.files import Reading, read_specifications, write_specifications
from halflife.specifications.neighbours import neighbouring
from halflife.specifications.recurring import Recurring, parse_recurring

__all__ = [
    "Reading",
    "Recurring",
    "Secret",
    "Specification",
    "Specifications",
    "added",
    "check_added",
    "neighbouring",
    "parse_recurring",
    "read_specifications",
    "write_specifications",
]
