"""Files that must outlast a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path | str) -> None:
    """Wait until a file, or the names in a folder, are on disk."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(number)
    finally:
        os.close(number)
