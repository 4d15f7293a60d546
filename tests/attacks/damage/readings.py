"""Damage to what comes in: the readings, the policy, the specifications."""

from __future__ import annotations

import copy
import gzip
import json
import random
import zlib
from pathlib import Path
from typing import Any

from attacks.damage.worlds import HEADER, PROMISES, Rows, World, write_source


def change_readings(world: World, folder: Path, draw: random.Random) -> str:
    """Write the readings with bad rows, other columns or none, and say how."""
    text = world.source.endswith((".csv", ".gz"))
    changes = {**CHANGES, **TEXTS} if text else CHANGES
    name = draw.choice([*changes])
    rows, header = changes[name](list(world.rows), draw)
    write_source(folder / world.source, rows, header)
    return name


def rewrite_readings(world: World, folder: Path, draw: random.Random) -> str:
    """Write the same readings otherwise: what is published must be the same, or refused."""
    takes = world.source.endswith((".csv", ".gz", ".parquet"))  # which tell columns apart that differ in their case
    name = draw.choice([n for n in SAME if takes or "KWH" not in n])
    rows, header, end = SAME[name](list(world.rows), draw)
    write_source(folder / world.source, rows, header, end)
    return name


def break_gzip(path: Path, draw: random.Random) -> str:
    """Damage what gzip puts around the text, or what it holds, so that it no longer unpacks."""
    data, name = (
        bytearray(path.read_bytes()),
        draw.choice(("checksum", "length", "cut", "no checksum", "twice and cut", "plain")),
    )
    if name == "checksum":
        data[-8] ^= 1
    elif name == "length":
        data[-4] ^= 1
    elif name == "cut":
        del data[draw.randrange(20, len(data)) :]
    elif name == "no checksum":
        del data[-8:]
    elif name == "twice and cut":
        data += data[: len(data) // 2]
    else:
        data = bytearray(gzip.decompress(bytes(data)))
    path.write_bytes(data)
    return f"gzip: {name}"


def unpacks(path: Path) -> bool:
    """Whether a gzip file is whole."""
    try:
        gzip.decompress(path.read_bytes())
        return True
    except (OSError, EOFError, zlib.error):
        return False


def change_policy(folder: Path, draw: random.Random) -> tuple[str, bool]:
    """Write a slightly different policy; say how, and whether the promise rests on what was changed."""
    path = folder / "policy.yaml"
    data = json.loads(path.read_text())
    name = draw.choice([*POLICIES])
    must_refuse, change = POLICIES[name]
    before = copy.deepcopy(data)
    change(data, draw)
    path.write_text(json.dumps(data))
    return name, must_refuse and data != before


def change_secrets(folder: Path, draw: random.Random) -> str:
    """Write other specifications, which only Swellfish reads."""
    path = folder / "secrets.json"
    data = json.loads(path.read_text())
    name = draw.choice(("none", "a larger epsilon", "a later start", "less power", "one more in the past"))
    for person, secrets in list(data["households"].items()):
        if name == "none":
            del data["households"][person]
        elif name == "one more in the past":
            data["households"]["other"] = [{**secrets[0], "start": 1, "end": 4}]
        else:
            key, factor = {
                "a larger epsilon": ("epsilon", 3),
                "a later start": ("start", 2),
                "less power": ("power", 0.5),
            }[name]
            secrets[0][key] *= factor
    path.write_text(json.dumps(data))
    return name


def _header(change):
    return lambda rows, draw: (rows, tuple(change(n) for n in HEADER))


def _values(change):
    """Change the readings of a few rows."""

    def changed(rows: Rows, draw: random.Random) -> tuple[Rows, tuple[str, ...]]:
        for _ in range(draw.choice((1, 3, 40))):
            i = draw.randrange(len(rows))
            rows[i] = change(rows[i], draw)
        return rows, HEADER

    return changed


def _bad_number(row: tuple[str, ...], draw: random.Random) -> tuple[str, ...]:
    text = draw.choice(("nan", "inf", "-inf", "1e300", "-5", "", "one", "1,5", "0x10", "9" * 400, "\0", '"', "é"))
    return (row[0], row[1], text, row[3])


CHANGES: dict[str, Any] = {
    "a column renamed": _header(lambda n: "usage" if n == "kwh" else n),
    "a column in capitals": _header(lambda n: n.upper() if n == "kwh" else n),
    "person renamed": _header(lambda n: "house" if n == "home" else n),
    "no column is known": _header(lambda n: f"x{n}"),
    "columns with spaces": _header(lambda n: f" {n} "),
    "no rows": lambda rows, draw: ([], HEADER),
    "half of the rows": lambda rows, draw: (rows[: len(rows) // 2], HEADER),
    "rows twice": lambda rows, draw: (rows + rows, HEADER),
    "bad times": _values(lambda row, draw: (row[0], draw.choice(("", "soon", "2026-13-99", "9" * 30)), *row[2:])),
    "nobody": _values(lambda row, draw: ("", *row[1:])),
    "other people": _values(lambda row, draw: (f"stranger-{draw.random()}", *row[1:])),
    "an unknown zone": _values(lambda row, draw: (*row[:3], "west")),
}
TEXTS = {
    "no header": lambda rows, draw: (rows[1:], rows[0]),
    "bad numbers": _values(_bad_number),
}
"""What happens to text alone: other files have named columns, of a type."""


def _decoy(rows: Rows, draw: random.Random, before: bool) -> tuple[Rows, tuple[str, ...], str]:
    """A column whose name differs in its case alone, with other numbers."""
    if before:
        return [("8.000001", *row) for row in rows], ("KWH", *HEADER), "\n"
    return [(*row, "8.000001") for row in rows], (*HEADER, "KWH"), "\n"


def _shuffled(rows: Rows, draw: random.Random) -> tuple[Rows, tuple[str, ...], str]:
    draw.shuffle(rows)
    return rows, HEADER, "\n"


SAME: dict[str, Any] = {
    "shuffled": _shuffled,
    "a column KWH behind": lambda rows, draw: _decoy(rows, draw, False),
    "a column KWH before": lambda rows, draw: _decoy(rows, draw, True),
    "other order of columns": lambda rows, draw: ([row[::-1] for row in rows], HEADER[::-1], "\n"),
    "a column more": lambda rows, draw: ([(*row, "1") for row in rows], (*HEADER, "more"), "\n"),
    "lines end with CR LF": lambda rows, draw: (rows, HEADER, "\r\n"),
    "lines end with CR": lambda rows, draw: (rows, HEADER, "\r"),
}


def _set(*where: Any, to: Any):
    def change(data: Any, draw: random.Random) -> None:
        for key in where[:-1]:
            data = data[key]
        data[where[-1]] = to

    return change


def _first(data: Any) -> str:
    """The file of the first stream's readings."""
    return str(data["streams"][0]["source"]["files"])


def _another_notion(data: Any, draw: random.Random) -> None:
    data["promise"] = draw.choice([p for p in PROMISES.values() if p["notion"] != data["promise"]["notion"]])


def _fewer_streams(data: Any, draw: random.Random) -> None:
    data["streams"] = (
        data["streams"][:1] if len(data["streams"]) > 1 else [*data["streams"], {**data["streams"][0], "name": "s"}]
    )


POLICIES: dict[str, tuple[bool, Any]] = {
    "another notion": (True, _another_notion),
    "epsilon": (True, _set("promise", "epsilon", to=2.0)),
    "w": (True, _set("promise", "w", to=5)),
    "half-life": (True, _set("promise", "half_life", to="1 h")),
    "period": (True, _set("promise", "period", to="2 h")),
    "size": (True, _set("population", "size", to=50)),
    "population": (True, _set("population", "id", to="village")),
    "clip": (True, _set("streams", 0, "statistic", "clip", to=["0", "5 kWh"])),
    "resolution": (True, _set("streams", 0, "statistic", "resolution", to="0.00001 kWh")),
    "fold": (True, _set("streams", 0, "statistic", "fold", to="max")),
    "kind": (True, _set("streams", 0, "statistic", "kind", to="mean")),
    "start": (True, _set("clock", "start", to="2025-12-31T23:00")),
    "step": (True, _set("clock", "step", to="30 min")),
    "zone": (True, _set("clock", "zone", to="Europe/London")),
    "other streams": (True, _fewer_streams),
    "no streams": (True, _set("streams", to=[])),
    "another output": (False, _set("streams", 0, "output", to="other.csv")),
    "the readings for a ledger": (True, lambda data, draw: data.update(ledger=data["streams"][0]["source"]["files"])),
    "the policy for a ledger": (True, _set("ledger", to="policy.yaml")),
    "the operator's file for a ledger": (True, _set("ledger", to="town.ledger.operator.jsonl")),
    "the specifications for a ledger": (True, _set("ledger", to="secrets.json")),
    "the readings for an output": (False, lambda data, draw: _set("streams", 0, "output", to=_first(data))(data, draw)),
    "an output for readings": (False, _set("streams", 0, "source", "files", to="first.csv")),
    "another file": (False, _set("streams", 0, "source", "files", to="absent.csv")),
    "a folder as file": (False, _set("streams", 0, "source", "files", to=".")),
    "an unknown key": (True, _set("promise", "half-life", to=3)),
    "text for a number": (True, _set("promise", "epsilon", to="much")),
    "post": (False, _set("streams", 0, "post", to=[{"moving_average": 5}])),
    "end": (False, _set("clock", "end", to="2026-01-03")),
}
