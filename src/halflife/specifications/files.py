"""Specifications in files: YAML and JSON for people, CSV and Parquet for many; every problem with file, line and field."""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from halflife.errors import InvalidInput
from halflife.local_time import find_zone
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import LARGEST, MOST_PARTS, Document, PolicyError
from halflife.specifications.base import NUMBERS, Specifications
from halflife.specifications.checks import KEEP_ONE, MOST_FAULTS
from halflife.specifications.entries import Frame
from halflife.specifications.sources import SUFFIXES, Part, document_part, read_part
from halflife.steps import Steps

LONGEST_KEY = 1000
"""YAML reads keys of up to 1024 characters."""


@dataclass(frozen=True)
class ParsedSpecifications:
    """Specifications parsed from files, and the households that were left out with the reason, a line each (with skip=True)."""

    specifications: Specifications
    problems: tuple[str, ...] = ()
    about: str | None = None
    """What secrets by the clock could not be read without: the stream's `steps`, or the `last` of them."""


def read_specifications(
    paths: str | Path | Document | Iterable[str | Path],
    *,
    steps: Steps | None = None,
    last: int | None = None,
    unit: str = "kW",
    zone: str | None = None,
    skip: bool = False,
) -> ParsedSpecifications:
    """Read what households want hidden from files, folders (every YAML, JSON, CSV and Parquet file in it), globs, or a document
    that is parsed already.

    steps  of the stream: secrets by the clock need them
    last   the last step up to which recurring secrets without an `until` are wanted
    unit   of powers; a bare number is in it, another prefix is converted exactly and rounded up
    zone   of times that carry none, in files that name none
    skip   leave out households and files that cannot be read, and list why; else any problem is an error with all of them

    A household may stand in several files: it wants all of its secrets hidden. The same secret twice is an error. In CSV and
    Parquet a secret is a row (household, power, duration, start, end, epsilon); in YAML and JSON:

        zone: Europe/Berlin
        households:
          Elm 7:
            - {what: oven, every: weekday, from: "18:00", to: "21:00", power: 3 kW, duration: 30 min, epsilon: 1}
            - every weekend 10:00–14:00, oven, 3 kW, 30 min, epsilon 1
            - {what: holiday, start: 2026-07-04, end: 2026-07-11, power: 2 kW, duration: 1 week, epsilon: 0.1}
            - {power: 3, duration: 2, start: 1, end: 4, epsilon: 1}

    An end is when it is over: `end: 2026-07-11` hides up to that day's midnight, as `clock.end` of a policy does.
    """
    if zone is not None:
        find_zone(zone)
    frame = Frame(steps, last, unit, zone)
    parts: list[Part] = []
    problems: list[str] = []
    for path in [paths] if isinstance(paths, Document) else find_files(paths):
        try:
            part = document_part(path, frame) if isinstance(path, Document) else read_part(path, frame)
        except PolicyError as error:
            problems += error.problems
            continue
        parts.append(part)
        problems += part.lines(path.name if isinstance(path, Document) else path)
    joined = _Joined(parts)
    try:
        made = joined.specifications(joined.spoiled)
    except InvalidInput:
        twice, whose = joined.find_repeated()
        if not twice:
            raise
        problems += twice
        made = joined.specifications(joined.spoiled | whose)
    about = next((name for name in ("steps", "last") if any(name in part.about for part in parts)), None)
    if problems and not skip:
        raise PolicyError(*problems, about=about)
    return ParsedSpecifications(made, tuple(problems), about)


def find_files(paths: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the files that paths, folders and globs name, each once, in order."""
    given = [paths] if isinstance(paths, str | Path) else list(paths)
    files: dict[Path, Path] = {}
    for path in given:
        for file in _files(Path(path)):
            files.setdefault(file.resolve(), file)
    if not files:
        raise PolicyError("no specifications are given: name a file or a folder")
    return list(files.values())


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
        if not inside:
            raise PolicyError(f"{path}: holds no specifications: files that end in {', '.join(SUFFIXES)}")
        return inside
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matching = sorted(Path(p) for p in glob.glob(str(path), recursive=True) if not Path(p).is_dir())
    if not matching:
        raise PolicyError(f"{path}: matches no file")
    return matching


class _Joined:
    """The secrets of all files, concatenated."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.spoiled = {name for part in parts for name in part.spoiled}
        self.names = list(dict.fromkeys(name for part in parts for name in part.names))
        number = {name: i for i, name in enumerate(self.names)}
        codes = [
            np.array([number[name] for name in part.names], dtype=np.int64)[part.codes]
            for part in parts
            if len(part.codes)
        ]
        self.codes = np.concatenate(codes) if codes else np.zeros(0, dtype=np.int64)
        self.columns = {name: _end_to_end([part.columns[name] for part in parts]) for name in NUMBERS}
        self.first = np.cumsum([0, *(len(part.codes) for part in parts)])

    def specifications(self, left_out: set[str]) -> Specifications:
        """Return the specifications without these households; households without secrets are left out too."""
        wanted = np.array([name not in left_out for name in self.names], dtype=bool)
        rows = slice(None) if wanted.all() else wanted[self.codes]
        number = np.cumsum(wanted) - 1
        names = [name for name, kept in zip(self.names, wanted, strict=True) if kept]
        codes = number[self.codes[rows]] if names else np.zeros(0, dtype=np.int64)
        return Specifications.from_columns(names, codes, {name: self.columns[name][rows] for name in NUMBERS})

    def find_repeated(self) -> tuple[list[str], set[str]]:
        """Return a sentence for each repeated secret, and their households; households with other problems are skipped."""
        sound = np.array([name not in self.spoiled for name in self.names], dtype=bool)[self.codes]
        order = np.lexsort([*self.columns.values(), self.codes])
        order = order[sound[order]]
        same = np.ones(max(0, len(order) - 1), dtype=bool)
        for values in (self.codes, *self.columns.values()):
            held = values[order]
            same &= held[1:] == held[:-1]
        pairs = np.sort(np.stack([order[:-1][same], order[1:][same]], axis=1), axis=1)
        lines: dict[str, None] = {}
        for first, second in pairs[np.argsort(pairs[:, 1], kind="stable")][:1000].tolist():
            name = self.names[self.codes[first]]
            says = f"{self._place(second)}: household {name!r} has this secret already, in {self._place(first)}"
            lines[f"{says}: {KEEP_ONE}"] = None
            if len(lines) == MOST_FAULTS:
                break
        return list(lines), {self.names[code] for code in np.unique(self.codes[pairs[:, 0]])}

    def _place(self, row: int) -> str:
        i = int(np.searchsorted(self.first, row, side="right")) - 1
        return self.parts[i].place(row - int(self.first[i]))


def _end_to_end(arrays: list[Any]) -> Any:
    """Return the arrays concatenated; a single one is not copied."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays) if arrays else np.zeros(0)


# Writing ------------------------------------------------------------------------------------------------------------


def write_specifications(specifications: Specifications, path: str | Path) -> None:
    """Write secrets in steps to a .yaml, .json, .csv or .parquet file; reading it gives the same numbers, to the last bit.

    A household without secrets is not written: nothing of it is hidden.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise InvalidInput(f"{path}: specifications are written to files that end in {', '.join(SUFFIXES)}")
    if suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.write_table(specifications.to_arrow(), target)
    elif suffix == ".csv":
        import pyarrow as pa
        import pyarrow.csv as pcsv

        table = specifications.to_arrow()
        pcsv.write_csv(table.set_column(0, "household", table["household"].cast(pa.string())), target)
    else:
        _write_text(specifications, target, suffix)


def _write_text(specifications: Specifications, target: Path, suffix: str) -> None:
    households = len(np.unique(specifications.household))
    if 3 + households + (len(NUMBERS) + 1) * len(specifications) > MOST_PARTS:
        raise _too_large(specifications, target)
    for name in specifications.households:
        if name == "<<" or len(_quote(name)) > LONGEST_KEY:
            raise InvalidInput(
                f"{target}: YAML and JSON have no room for the household {name[:80]!r}: use .parquet or .csv"
            )
    held: dict[str, list[JsonObject]] = {}
    columns = [getattr(specifications, name).tolist() for name in NUMBERS]
    for code, *row in zip(specifications.household.tolist(), *columns, strict=True):
        held.setdefault(specifications.households[code], []).append(dict(zip(NUMBERS, row, strict=True)))
    text = _json(held) if suffix == ".json" else _yaml(held)
    if len(text.encode()) > LARGEST:
        raise _too_large(specifications, target)
    target.write_text(text, encoding="utf-8", newline="\n")


def _too_large(specifications: Specifications, target: Path) -> InvalidInput:
    return InvalidInput(
        f"{target}: {len(specifications):,} secrets are too many for YAML or JSON: use .parquet or .csv"
    )


def _quote(text: str) -> str:
    """A text as JSON and YAML both read it; characters that a text file may not hold or change are escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() or ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in plain)


def _json(held: dict[str, list[JsonObject]]) -> str:
    lines = [
        f"{_quote(name)}: [\n  " + ",\n  ".join(json.dumps(s) for s in secrets) + "]" for name, secrets in held.items()
    ]
    return '{"households": {\n' + ",\n".join(lines) + "}}\n"


def _yaml(held: dict[str, list[JsonObject]]) -> str:
    lines = ["households:" if held else "households: {}"]
    for name, secrets in held.items():
        lines.append(f"  {_quote(name)}:")
        lines += ["    - {" + ", ".join(f"{key}: {value!r}" for key, value in s.items()) + "}" for s in secrets]
    return "\n".join(lines) + "\n"
