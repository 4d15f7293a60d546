"""YAML documents as plain data without implicit types, with the line and column of each key.

Every plain scalar stays the text that was written: `no` is a group's name until a yes-or-no question reads it, `12:30` a time,
`1e-6` a number, `007` a meter's number. The model decides by what it expects. A key that stands twice is refused.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from halflife.errors import InvalidInput

LARGEST = 1_000_000
DEEPEST = 20
MOST_PARTS = 120_000
Where = tuple[str | int, ...]
Problem = tuple[Where, str]
"""What is wrong, and at which key: (("promise", "w"), "must be …")."""


class PolicyError(InvalidInput):
    """A policy that cannot be kept or understood: one line for each of `problems`, with file, line and column."""

    def __init__(self, *problems: str, about: str | None = None) -> None:
        super().__init__("\n".join(problems), about=about)
        self.problems = problems


@dataclass(frozen=True)
class Document:
    """A policy's text as plain data: mappings, lists, texts and None; where each key stands, and which are blank."""

    name: str
    data: Any
    places: dict[Where, tuple[int, int]]
    blanks: tuple[Where, ...] = ()
    """Keys with nothing behind them: not yet filled in. One that is left out on purpose says `null` or `~`."""

    def error(self, problems: list[Problem]) -> PolicyError:
        """Return the error that names every problem as file:line:column: key: what is wrong."""
        lines = []
        for where, message in problems:
            at = self.name_place(where)
            lines.append(f"{at}: {dotted(where)}: {message}" if where else f"{at}: {message}")
        return PolicyError(*lines)

    def name_place(self, where: Where) -> str:
        """Return a key's place as file:line:column; the file alone if the data never was a text."""
        line, column = self._place(where)
        return f"{self.name}:{line}:{column}" if line else self.name

    def _place(self, where: Where) -> tuple[int, int]:
        """Return the position of a key, or of the nearest key around it."""
        for length in range(len(where), -1, -1):
            if where[:length] in self.places:
                return self.places[where[:length]]
        return (0, 0)


def dotted(where: Where) -> str:
    """Return a key as people name it: streams.0.source.time."""
    return ".".join(str(part) for part in where)


def read_document(path: Path) -> Document:
    """Read a policy file."""
    try:
        if path.stat().st_size > LARGEST:
            raise _too_large(str(path))
        text = read_regular(path, LARGEST + 1).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise PolicyError(f"{path}: cannot be read: {error.strerror or error}: give the path of a policy") from None
    return parse_document(text, path.name)


def read_regular(path: Path, most: int) -> bytes:
    """Return at most so many bytes of a regular file; an `OSError` for a pipe or device, which may never end."""
    number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        kind = os.fstat(number).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "it is a pipe or a device, not a file")
        with open(number, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(number)


def _too_large(name: str) -> PolicyError:
    return PolicyError(f"{name}: larger than {LARGEST:,} bytes: a policy is a short text; keep tables in files")


def parse_document(text: str, name: str = "policy.yaml") -> Document:
    """Parse a policy's text.

    >>> parse_document("a: no\\nb: [1e-6, 12:30, ~]").data
    {'a': 'no', 'b': ['1e-6', '12:30', None]}
    >>> parse_document("a: 1\\na: 2")
    Traceback (most recent call last):
    ...
    halflife.parsing.documents.PolicyError: policy.yaml:2:1: a: stands twice (first on line 1): keep one
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    if len(text) > LARGEST:
        raise _too_large(name)
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise PolicyError(f"{at}: not YAML: {error.problem or error.context}") from None
    except (YAMLError, RecursionError, ValueError) as error:
        raise PolicyError(f"{name}: not YAML: {(str(error) or 'nested too deeply').splitlines()[0]}") from None
    reader = _Reader(name)
    data = None if node is None else reader.plain(node, ())
    return Document(name, data, reader.places, tuple(reader.blanks))


class _Reader:
    """Turns nodes into plain data, and remembers where each key stands and which have nothing behind them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.places: dict[Where, tuple[int, int]] = {}
        self.blanks: list[Where] = []

    def plain(self, node: Any, where: Where) -> Any:
        """Return a node as plain data. An alias is read again wherever it stands, so what it unfolds to is counted."""
        from ruamel.yaml.nodes import MappingNode, ScalarNode

        self.places.setdefault(where, _at(node))
        if len(where) > DEEPEST or len(self.places) > MOST_PARTS:
            raise self._refusal(node, "too deep or too many parts for a policy: keep tables in files")
        if isinstance(node, MappingNode):
            return self._mapping(node, where)
        if not isinstance(node, ScalarNode):
            return [self.plain(child, (*where, i)) for i, child in enumerate(node.value)]
        if node.style is None and node.value == "" and where:
            self.blanks.append(where)
        return None if node.style is None and node.value in ("", "~", "null", "Null", "NULL") else node.value

    def _mapping(self, node: Any, where: Where) -> dict[str, Any]:
        from ruamel.yaml.nodes import ScalarNode

        result: dict[str, Any] = {}
        for key, child in node.value:
            if not isinstance(key, ScalarNode) or key.value == "<<":
                raise self._refusal(key, "a key must be a plain word")
            place = (*where, key.value)
            if key.value in result:
                raise self._refusal(
                    key, f"{dotted(place)}: stands twice (first on line {self.places[place][0]}): keep one"
                )
            self.places[place] = _at(key)
            result[key.value] = self.plain(child, place)
        return result

    def _refusal(self, node: object, message: str) -> PolicyError:
        line, column = _at(node)
        return PolicyError(f"{self.name}:{line}:{column}: {message}")


def _at(node: Any) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1
