"""Write the tables of `docs/papers-and-errata.md` anew: PYTHONPATH=tests python -m claims."""

from __future__ import annotations

from claims.page import PAGE, update

PAGE.write_text(update(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
