"""The operator's file: counts of late, clipped and bad readings, which are private and stand nowhere else."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from halflife.errors import InvalidInput
from halflife.steps import from_us


def write_operator(path: Path, now_us: int, line: Mapping[str, object]) -> None:
    """Append a line to the ledger's operator file, which only its owner can read."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)  # no pipe is waited for
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(json.dumps({"time": from_us(now_us).isoformat(timespec="seconds"), **line}) + "\n")
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be written: {error.strerror or error}: make its folder writable") from error
