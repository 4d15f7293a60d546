"""Damage to files as such: gone, older, something else in their place."""

from __future__ import annotations

import os
import random
import shutil
import socket
from pathlib import Path

from attacks.damage.witness import LEDGER
from attacks.damage.worlds import World

LOG = (f"{LEDGER}-wal", f"{LEDGER}-shm", f"{LEDGER}-journal")


def guards(folder: Path) -> list[Path]:
    """The files beside the ledger that say who holds it and what was shown: all that is not the ledger or the operator's."""
    mine = (p for p in sorted(folder.iterdir()) if p.name.startswith(LEDGER))
    return [p for p in mine if p.name not in (LEDGER, f"{LEDGER}.operator.jsonl", *LOG)]


def output_files(world: World, folder: Path) -> list[Path]:
    """The files of all outputs; what went to the standard output is out of reach."""
    found = []
    for target in world.targets.values():
        path = folder / target
        if target == "stdout.jsonl":
            continue
        found += sorted(p for p in path.iterdir() if p.is_file()) if path.is_dir() else [path] if path.is_file() else []
    return found


def remove(path: Path) -> None:
    """Remove whatever lies there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def put_back(source: Path, folder: Path, names: list[str]) -> None:
    """Put files or folders back as an older copy has them; those it does not have are removed."""
    for name in names:
        remove(folder / name.rstrip("/"))
        if (source / name).is_dir():
            shutil.copytree(source / name, folder / name)
        elif (source / name).exists():
            shutil.copy2(source / name, folder / name)


def restore_some(world: World, folder: Path, draw: random.Random) -> str:
    """Put the ledger back, and some of its witnesses; the guard or an output at least stays as new as it was."""
    source = draw.choice(world.older)
    witnesses: dict[str, list[str]] = {"guard": [p.name for p in guards(folder)]}
    witnesses |= {
        f"output of {stream}": [target] for stream, target in world.targets.items() if target != "stdout.jsonl"
    }
    back = draw.sample(sorted(witnesses), draw.randrange(len(witnesses)))
    whole = draw.random() < 0.4  # as a backup holds them: outputs too, but not the guard
    if whole:
        back = [name for name in sorted(witnesses) if name != "guard"]
    log = whole or draw.random() < 0.8
    put_back(source, folder, [LEDGER, *(LOG if log else [])])
    told = []
    for name in back:
        if whole or draw.random() < 0.5:
            put_back(source, folder, witnesses[name])
            told.append(f"{name} too")
        else:
            for part in witnesses[name]:
                remove(folder / part.rstrip("/"))
            told.append(f"{name} gone")
    return ", ".join([f"ledger of {source.name}{'' if log else ' without its log'}", *told])


def put_fork(world: World, folder: Path, draw: random.Random) -> str:
    """Put the ledger of a copy there that went on elsewhere: as many entries, other noise. A witness stays, or more."""
    put_back(world.fork, folder, [LEDGER, *LOG])
    gone = draw.random() < 0.5
    for target in world.targets.values():
        if gone and target != "stdout.jsonl":
            remove(folder / target.rstrip("/"))
    return f"the ledger of a copy that went on elsewhere{', outputs gone' if gone else ''}"


def swap_in(world: World, folder: Path, path: Path, draw: random.Random) -> str:
    """Put a copy of another file where a file is, as a slip of the hand does: readings, ledger, policy, another output."""
    names = [*[world.source] * 3, LEDGER, "policy.yaml", "secrets.json", f"{LEDGER}.operator.jsonl"]
    files = [folder / name for name in names if (folder / name).is_file()]
    other = draw.choice(
        [p for p in (*files, *guards(folder), *output_files(world, folder)) if p != path and p.is_file()]
    )
    data = other.read_bytes()
    remove(path)
    path.write_bytes(data)
    return f"a copy of {other.relative_to(folder)}"


def restore_log(world: World, folder: Path, draw: random.Random) -> str:
    """Put the write-ahead log of another day beside the ledger, or a journal that SQLite would roll back."""
    source = draw.choice((*world.older, world.fork))
    log = Path(f"{folder / LEDGER}-wal")
    journal = Path(f"{folder / LEDGER}-journal")
    if (source / log.name).is_file():
        shutil.copy2(source / log.name, log)
        return f"the log of {source.name}"
    page = (source / LEDGER).read_bytes()[:4096]
    header = bytes.fromhex("d9d505f920a163d7") + (1).to_bytes(4, "big") + bytes(4) + (1).to_bytes(4, "big")
    header += (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    total = sum(page[i] for i in range(4096 - 200, 0, -200))
    journal.write_bytes(header.ljust(512, b"\0") + (1).to_bytes(4, "big") + page + total.to_bytes(4, "big"))
    return f"a journal with the first page of {source.name}"


def leave_something(world: World, folder: Path, draw: random.Random) -> str:
    """Leave a file where outputs are written: a temporary one, or one that looks like a part."""
    target = draw.choice([t for t in world.targets.values() if t != "stdout.jsonl"] or ["first.csv"])
    part = draw.choice(("part-000000001-000000002", "part-000000007-000000008", "part-000000099-000000100"))
    name = draw.choice(
        (f".{part}.parquet.halflife-tmp", f"{part}.parquet", f"{part}.parquet~", "notes.txt", "_SUCCESS")
    )
    path = folder / target / name if target.endswith("/") else folder / f".{target}.halflife-tmp"
    some = [p.read_bytes() for p in output_files(world, folder) if p.suffix == ".parquet"]
    kind = draw.choice(("junk", "begun", "a part", "a folder", "a pipe"))
    path.parent.mkdir(exist_ok=True)
    remove(path)
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(some[0] if kind == "a part" and some else b"PAR1" if kind == "begun" else b"junk")
    return f"{path.relative_to(folder)}: {kind}"


def restore_other(world: World, folder: Path, draw: random.Random) -> str:
    """Put outputs, or the guard, back; the ledger stays."""
    source = draw.choice(world.older)
    names = [
        [p.name for p in guards(folder)],
        *([target] for target in world.targets.values() if target != "stdout.jsonl"),
    ]
    chosen = draw.sample(names, draw.randrange(1, len(names) + 1))
    for some in chosen:
        put_back(source, folder, some)
    return f"{[name for some in chosen for name in some]} of {source.name}"


def replace_kind(path: Path, draw: random.Random) -> str:
    """Put something else where a file is."""
    name = draw.choice([*KINDS])
    kept = path.with_name(f"{path.name}.moved")
    if path.exists() and not path.is_dir():
        shutil.copy2(path, kept)
    remove(path)
    KINDS[name](path, kept)
    if "moved" not in name:
        kept.unlink(missing_ok=True)
    return name


def _fifo(path: Path, kept: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path, kept: Path) -> None:
    here = os.getcwd()  # an address has at most 108 bytes
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _unreadable(path: Path, kept: Path) -> None:
    shutil.copy2(kept, path)
    path.chmod(0)


def _read_only(path: Path, kept: Path) -> None:
    shutil.copy2(kept, path)
    path.chmod(0o400)


KINDS = {
    "gone": lambda path, kept: None,
    "a folder": lambda path, kept: path.mkdir(),
    "a pipe": _fifo,
    "a socket": _socket,
    "a link to itself": lambda path, kept: path.symlink_to(path.name),
    "a link to nothing": lambda path, kept: path.symlink_to("nowhere/at/all"),
    "a link to where it was moved": lambda path, kept: path.symlink_to(kept.name),
    "a link to /dev/null": lambda path, kept: path.symlink_to("/dev/null"),
    "a link to /dev/full": lambda path, kept: path.symlink_to("/dev/full"),
    "not readable": _unreadable,
    "not writable": _read_only,
}


def break_guard(path: Path, draw: random.Random) -> str:
    """Write something else into a lock or guard; what stood there stands in part of the choices."""
    text = path.read_text(errors="replace") if path.is_file() else ""
    number = "".join(c for c in text.split("shown")[-1] if c.isdigit()) or "6"
    changed = draw.choice(
        ("", "\n", text[: len(text) // 2], text[:-2], text.replace(number, "0"), text.replace(number, "999999"),
         text.replace("shown", "show"), text * 2, "\0" * len(text), "shown -1\n", "shown 1e9\n", "shown " + "9" * 400 + "\n")
    )  # fmt: skip
    path.write_text(changed)
    return f"{path.name} says {changed[-30:]!r}"
