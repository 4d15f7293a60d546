"""Print `docs/promises.md`: python -m halflife.policy.promises > docs/promises.md."""

from __future__ import annotations

from halflife.policy.promises.page import write_page

print(write_page(), end="")
