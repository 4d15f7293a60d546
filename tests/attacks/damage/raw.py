"""Damage to the bytes of a file, whatever they mean."""

from __future__ import annotations

import random
from pathlib import Path

PAGE = 4096


def damage_bytes(path: Path, draw: random.Random, others: list[Path]) -> str:
    """Damage a file in one random way, and say which; Parquet, whose pages have checksums, in its footer more often."""
    data = bytearray(path.read_bytes())
    name = draw.choices([*WAYS], weights=[weight for weight, _ in WAYS.values()])[0]
    if path.suffix == ".parquet" and draw.random() < 0.5:
        name = "a bit flipped near the end"
    WAYS[name][1](data, draw, others)
    path.write_bytes(data)
    return name


def _flip(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        if data:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)


def _flip_near_the_end(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    if data:
        data[-1 - draw.randrange(min(len(data), 700))] ^= 1 << draw.randrange(8)


def _overwrite(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    start, size = _stretch(data, draw)
    data[start : start + size] = bytes(size) if draw.random() < 0.5 else draw.randbytes(size)


def _truncate(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    del data[draw.randrange(len(data) + 1) :]


def _empty(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    data.clear()


def _append(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    data += draw.choice((b"\n", b"\0" * 40, draw.randbytes(draw.randrange(1, 200)), bytes(data[-100:]), bytes(PAGE)))


def _insert(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    at = draw.randrange(len(data) + 1)
    data[at:at] = draw.choice((b"\0", b"\n", b"\r", b'"', b",", b"9", b"-", b"\xff\xfe", draw.randbytes(12)))


def _cut_out(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    start, size = _stretch(data, draw)
    del data[start : start + size]


def _change_digit(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    """What looks like a number becomes another one."""
    places = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if places:
        data[draw.choice(places)] = draw.choice(b"0123456789")


def _splice(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    """A stretch of this file, or of another one, lies over another stretch."""
    other = bytes(data) if draw.random() < 0.5 or not others else draw.choice(others).read_bytes()
    if data and other:
        start, size = _stretch(data, draw)
        source = draw.randrange(len(other))
        piece = other[source : source + size]
        data[start : start + len(piece)] = piece


def _swap_pages(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    pages = len(data) // PAGE
    if pages > 1:
        i, j = (PAGE * draw.randrange(pages) for _ in range(2))
        one, two = data[i : i + PAGE], data[j : j + PAGE]
        data[i : i + PAGE] = two
        if draw.random() < 0.7:  # else the page is there twice
            data[j : j + PAGE] = one


def _lines(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    lines = bytes(data).split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    kind = draw.choice(("swap", "twice", "gone"))
    if kind == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == "twice":
        lines.insert(j, lines[i])
    else:
        del lines[i]
    data[:] = b"\n".join(lines)


def _ends(data: bytearray, draw: random.Random, others: list[Path]) -> None:
    data[:] = bytes(data).replace(b"\n", draw.choice((b"\r\n", b"\r")))


def _stretch(data: bytearray, draw: random.Random) -> tuple[int, int]:
    """A random place, and a size that is small more often than not."""
    start = draw.randrange(len(data) + 1)
    return start, min(len(data) - start, int(2 ** (12 * draw.random())))


WAYS = {
    "bits flipped": (6, _flip),
    "a bit flipped near the end": (3, _flip_near_the_end),
    "a stretch overwritten": (3, _overwrite),
    "truncated": (3, _truncate),
    "emptied": (1, _empty),
    "something appended": (2, _append),
    "something inserted": (2, _insert),
    "a stretch cut out": (2, _cut_out),
    "a digit changed": (4, _change_digit),
    "a stretch spliced in": (2, _splice),
    "pages swapped": (2, _swap_pages),
    "lines moved": (2, _lines),
    "line ends changed": (1, _ends),
}
