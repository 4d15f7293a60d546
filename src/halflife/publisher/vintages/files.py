"""Where vintages are: in the ledger under names of their own, and in files beside the output of their stream."""

from __future__ import annotations

import os
import re
from pathlib import Path

from halflife.errors import InvalidInput
from halflife.outputs import ENDINGS
from halflife.policy import Policy
from halflife.policy.paths import matches


def name_vintage_file(stream: str, output: str, vintage: int) -> str:
    """Return the file of a vintage: beside the output, in its format; Parquet for a folder of parts, CSV for standard output.

    >>> name_vintage_file("use", "out/day.csv", 2), name_vintage_file("use", "out/parts/", 3), name_vintage_file("use", "-", 2)
    ('out/use.vintage-2.csv', 'out/use.vintage-3.parquet', 'use.vintage-2.csv')
    """
    known = Path(f"{stream}.csv") if output == "-" else Path(output)
    suffix = known.suffix if known.suffix.lower() in ENDINGS and not output.endswith("/") else ".parquet"
    return str(known.with_name(f"{stream}.vintage-{vintage}{suffix}"))


def find_vintage_file(policy: Policy, stream: str, vintage: int) -> str:
    """Return where a vintage of a policy's stream is written: beside the policy, if the stream goes to the standard output."""
    output = policy.outputs.get(stream, "-")
    file = name_vintage_file(stream, output, vintage)
    return str(policy.path(file)) if output == "-" else file


def is_output(policy: Policy, file: str) -> bool:
    """Return whether a file is the output of one of a policy's streams."""
    return os.path.realpath(file) in map(os.path.realpath, policy.outputs.values())


def check_vintage_file(policy: Policy, file: str) -> None:
    """Refuse a file that is there already, or is an output, or that a source takes in: it would be read as readings."""
    if os.path.lexists(file) or is_output(policy, file):
        raise InvalidInput(
            f"{file} is in the way: it is an output, or none of this ledger's files: move it, or name it otherwise"
        )
    place = os.path.realpath(file)
    for stream in policy.streams:
        for _, name in stream.source.list_local() if stream.source else ():
            if matches(place, os.path.realpath(policy.path(name))):
                raise InvalidInput(
                    f"{file} would be among the files of the source of {stream.name} ({name!r}), and be read as readings: write "
                    "its output into another folder"
                )


def read_vintage_name(file: str | Path) -> int | None:
    """Return which vintage a file holds by its name; None if it is not called so.

    >>> read_vintage_name("out/use.vintage-2.csv"), read_vintage_name("out/use.csv")
    (2, None)
    """
    found = re.fullmatch(r".+\.vintage-([1-9]\d{0,8})\.\w+", Path(file).name)
    return None if found is None else int(found[1])
