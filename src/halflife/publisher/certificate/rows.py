"""Published rows as bytes, for a digest that is the same from a ledger and from an output of whatever format."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

ROW = np.dtype(
    [("cell", "V32"), ("step", ">i8"), ("start", ">i8"), ("end", ">i8"), ("value", ">f8"), ("error_band", ">f8")]
)
"""A published number: which one of its step it is, µs since 1970 and doubles, big end first."""


def digest_cells(names: Sequence[str], cells: Sequence[Sequence[Any]]) -> NDArray[np.void]:
    """Return a digest of what tells each number of a step from the others: its group, its bin, its quantile.

    >>> len(set(digest_cells(["group"], [["north"], ["south"]]).tolist()))
    2
    """
    texts = (json.dumps([(n, _plain(v)) for n, v in zip(names, cell, strict=True)]) for cell in cells)
    return np.array([hashlib.sha256(text.encode()).digest() for text in texts], dtype="V32")


def _plain(value: object) -> object:
    return None if isinstance(value, float) and math.isinf(value) else value


def pack_rows(
    cells: NDArray[np.void], steps: ArrayLike, starts: ArrayLike, ends: ArrayLike, values: ArrayLike, bands: ArrayLike
) -> bytes:
    """Return rows as bytes, one after the other.

    >>> len(pack_rows(digest_cells([], [[], []]), [1, 1], [0, 0], [60, 60], [0.5, 0.25], [1.0, 1.0]))
    144
    """
    rows = np.empty(len(cells), ROW)
    for name, column in zip(ROW.names or (), (cells, steps, starts, ends, values, bands), strict=True):
        rows[name] = column
    return rows.tobytes()
