"""Cases in a process of their own, one line of JSON before and after each: `python -m attacks.damage 3 0 100` plays a hundred.

A case that kills the process, or that nothing can wake, is then the last that was begun.
"""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
import traceback
from pathlib import Path

from attacks.damage.case import Town
from attacks.damage.worlds import a_place
from own_keys import use_own_keys

MEMORY = 6 * 2**30
"""Bytes of address space: a case that asks for more ends in a MemoryError, not with the machine."""


def main(seed: int, first: int, last: int, place: Path) -> None:
    """Build the worlds of a seed, and play cases first … last − 1."""
    town = Town(place, seed)
    for number in range(first, last):
        begun = time.monotonic()
        print(json.dumps({"begin": number}), flush=True)
        try:
            story, accusations = town.play(number)
        except Exception:
            story, accusations = "the attack itself failed", [traceback.format_exc()]
        line = {"case": [seed, number], "story": story, "accusations": accusations, "seconds": time.monotonic() - begun}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    use_own_keys()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with a_place() as folder:
        main(*map(int, sys.argv[1:4]), Path(*sys.argv[4:]) if sys.argv[4:] else folder)
    gc.unfreeze()
