"""What households want hidden, and when: secrets, specifications, and what follows from them alone (Swellfish)."""

from halflife.specifications.additions import add_secrets, check_added
from halflife.specifications.base import Secret, Specification, Specifications
from halflife.specifications.files import ParsedSpecifications, read_specifications, write_specifications
from halflife.specifications.neighbours import neighbouring
from halflife.specifications.recurring import Recurring, parse_recurring

__all__ = [
    "ParsedSpecifications",
    "Recurring",
    "Secret",
    "Specification",
    "Specifications",
    "add_secrets",
    "check_added",
    "neighbouring",
    "parse_recurring",
    "read_specifications",
    "write_specifications",
]
