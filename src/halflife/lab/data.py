"""Where real data lies, and the names of files that several experiments read."""

from __future__ import annotations

import os
from pathlib import Path

AUSGRID, LONDON = "ausgrid_300homes_aggregate_2010_2013.parquet", "lcl_2013_325_households.parquet"


def named_folder(folder: Path | None) -> Path | None:
    """Return the folder that somebody named: the one given, else $HALFLIFE_DATA."""
    return folder or (Path(os.environ["HALFLIFE_DATA"]) if os.environ.get("HALFLIFE_DATA") else None)


def data_folder(folder: Path | None) -> Path:
    """Return where to look for real data: the folder given, else $HALFLIFE_DATA, else ../shared/data.

    >>> data_folder(Path("loads")).name
    'loads'
    """
    return named_folder(folder) or Path("..") / "shared" / "data"
