"""Run every measurement and print its table: python -m bench [name …] [--large]"""

from __future__ import annotations

import importlib
import sys

NAMES = ("accounts", "estimates", "noise", "plans", "publish", "secrets", "streams")

for name in [a for a in sys.argv[1:] if not a.startswith("-")] or NAMES:
    if name not in NAMES:
        sys.exit(f"unknown measurement {name!r}: one of {', '.join(NAMES)}")
    importlib.import_module(f"bench.{name}").main()
