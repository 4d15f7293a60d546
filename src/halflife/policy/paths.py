"""Checks of a policy's file paths: outputs are distinct, none is a file of the ledger, and none is among the sources.

A published value that is read as if it were a person's reading would enter what is published next. Where the key to kept noise
lies is checked too: it must be a place, never the key itself.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator
from pathlib import Path

from halflife.engines.duckdb.files import guess_format
from halflife.errors import InvalidInput, unknown
from halflife.ledger import ledger_files, mark_beside
from halflife.libpq import is_server, read_address
from halflife.outputs import ENDINGS
from halflife.parsing.documents import Where
from halflife.policy.model import SCHEME, PolicyKeys, Source

FORM = "postgresql://HOST/DATABASE"
PART = "part-000000001-000000001.parquet"
"""The name of a file in an output folder, for matching against the sources' patterns."""
KEY_PLACE = re.compile(r"file:.+|env:[A-Za-z_][A-Za-z0-9_]*|keyring:[^/]+/.+")
KEY_ITSELF = re.compile(r"([a-z]+:)?([0-9a-fA-F]{64}|[A-Za-z0-9+_-]{43}|[A-Za-z0-9+/_-]{43}=)")
"""How a key is written, in hex or base64, with or without the name of a place before it."""


def check_key_place(policy: PolicyKeys) -> None:
    """Refuse a `noise_key` that names no place, or is a key, or lies in a file that the policy writes. It is not quoted."""
    given = policy.noise_key
    if given is None:
        return
    with policy.about("noise_key"):
        if isinstance(given, str) and KEY_ITSELF.fullmatch(given):
            raise InvalidInput(
                "this looks like a key, and a policy is public: make another one, as this may have been seen, and write where it "
                "lies, such as file:/etc/halflife/town.key"
            )
        if not isinstance(given, str) or not KEY_PLACE.fullmatch(given):
            raise InvalidInput("write where the key lies: file:PATH, env:NAME or keyring:SERVICE/USER")
        if given.startswith("file:"):
            file = os.path.realpath(policy.path(given.removeprefix("file:")))
            if file in (
                *ledger_files(policy.ledger_url),
                *(_output(policy, s.output) for s in policy.streams if s.output != "-"),
            ):
                raise InvalidInput(
                    "this is a file that is published, or one of the ledger: keep the key apart from both"
                )


def check_files(policy: PolicyKeys) -> None:
    """Refuse two outputs in one file, an output in a file of the ledger, and a source that the policy itself writes."""
    with policy.about("ledger"):
        written: dict[str, Where] = dict.fromkeys(ledger_files(policy.ledger_url), ("ledger",))
    for i, stream in enumerate(policy.streams):
        if stream.output == "-":
            continue
        with policy.about("streams", i, "output"):
            file = _output(policy, stream.output)
            if file in written:
                raise InvalidInput(
                    f"{stream.output!r} is {_whose(policy, written[file])} already: give each stream its own output"
                )
        written[file] = ("streams", i, "output")
        written.setdefault(mark_beside(file), ("streams", i, "output"))
    _check_mark(policy, written)
    for i, stream in enumerate(policy.streams):
        if stream.source is not None:
            _check_place(policy, i, stream.source)
    for file, where in list(written.items()):
        if where not in (("ledger",), ("mark",)):
            written.setdefault(f"{file}/{PART}", where)
    _check_sources(policy, written)


def _check_place(policy: PolicyKeys, i: int, source: Source) -> None:
    """Refuse a source that is neither files nor a table on a server, or both; and an address that holds a password."""
    at = ("streams", i, "source")
    if source.engine is not None or source.master is not None:
        _check_cluster(policy, at, source)
        return
    for n, file in enumerate(source.files):
        if SCHEME.match(file) and "://" in file:
            raise policy.error(
                (
                    (*at, "files", n),
                    f"{file!r} is not on this machine: if a Spark cluster reaches it, add `engine: spark`",
                )
            )
    if source.database is None and not source.files:
        raise policy.error((at, "where are the readings? Give `files`, or `database` and `table`"))
    if source.database is None:
        return
    with policy.about(*at, "database"):
        if not is_server(source.database):
            raise InvalidInput(f"a database is {FORM}, and this is none: files of databases are given by `files`")
        read_address(source.database, (), "a source", FORM)
    if source.table is None:
        raise policy.error(((*at, "database"), "say which table holds the readings: `table: NAME`, or SCHEMA.NAME"))
    for key in ("files", "format", "columns", "delimiter"):
        if getattr(source, key):
            raise policy.error(((*at, key), "the readings are in a table of `database`: leave one of them out"))


def _check_cluster(policy: PolicyKeys, at: Where, source: Source) -> None:
    """Refuse what Spark would not read, and keys that say two places."""
    if source.engine is None:
        raise policy.error(((*at, "master"), "a master is a Spark cluster's: add `engine: spark`, or leave this out"))
    if source.database is not None:
        raise policy.error(
            ((*at, "database"), "Spark reads `files`, or a `table` of its catalog: leave one of them out")
        )
    if (source.table is None) == (not source.files):
        raise policy.error(
            (at, "where are the readings? Give `files`, or the `table` of Spark's catalog, and not both")
        )
    if source.table is not None:
        for key in ("format", "columns"):
            if getattr(source, key):
                raise policy.error(((*at, key), "a table of Spark's catalog says this itself: leave this out"))
    elif guess_format(source.files, source.format) not in ("parquet", "csv"):
        raise policy.error((at, "Spark reads Parquet and CSV here: say `format: parquet` or `format: csv`"))


def check_apart(policy: PolicyKeys, path: Path) -> None:
    """Refuse a file, to be written beside what is published, that the policy reads or writes otherwise; links are followed."""
    named = os.path.join(os.path.realpath(path.parent), path.name)
    places = {named, os.path.realpath(path)}
    outputs = [os.path.realpath(policy.path(s.output)) for s in policy.streams if s.output != "-"]
    others = [policy.mark] if policy.mark else []
    others += [policy.noise_key.removeprefix("file:")] if (policy.noise_key or "").startswith("file:") else []
    written = {*ledger_files(policy.ledger_url), *outputs, *map(mark_beside, outputs)}
    written |= {os.path.realpath(policy.path(name)) for name in others}
    if places & written or os.path.dirname(named) in outputs:
        raise InvalidInput(f"{path} is a file of the ledger, an output or a key of this policy: give another path")
    for _, name in _sources(policy):
        if any(matches(place, os.path.realpath(policy.path(name))) for place in places):
            raise InvalidInput(f"{path} is among the files of the source {name!r}: put it into another folder")


def _check_mark(policy: PolicyKeys, written: dict[str, Where]) -> None:
    """Refuse a mark in a file that the policy writes otherwise; it is written too."""
    if policy.mark is None:
        return
    with policy.about("mark"):
        file = os.path.realpath(policy.path(policy.mark))
        if file in written:
            raise InvalidInput(
                f"{policy.mark!r} is {_whose(policy, written[file])} already, or the mark beside it: give the mark a file of "
                "its own, "
                "best on another disk"
            )
        if os.path.isdir(file):
            raise InvalidInput(
                f"{policy.mark!r} is a folder: give the path of a file in it, such as {policy.mark.rstrip('/')}/town.mark"
            )
    written[file] = ("mark",)


def _output(policy: PolicyKeys, output: str) -> str:
    ending = "/" if output.endswith("/") else Path(output).suffix.lower()
    if ending not in ENDINGS:
        raise unknown(f"ending of the output {output!r},", ending, (*ENDINGS, "-"))
    return os.path.realpath(policy.path(output))


def _whose(policy: PolicyKeys, where: Where) -> str:
    if where in (("ledger",), ("mark",)):
        return "a file of the ledger" if where == ("ledger",) else "the mark of what was published"
    return f"the output of {policy.streams[int(where[1])].name!r}"


def _check_sources(policy: PolicyKeys, written: dict[str, Where]) -> None:
    """Refuse a source whose pattern matches a file that the policy writes, even if that file does not exist yet."""
    seen: set[str] = set()
    for where, name in _sources(policy):
        try:
            pattern = os.path.realpath(policy.path(name))
        except InvalidInput:
            continue  # the path names no user's home (~name): reading the source refuses it
        if pattern in seen:
            continue
        seen.add(pattern)
        for file, other in written.items():
            if matches(file, pattern):
                whose = _whose(policy, other)
                raise policy.error(
                    (where, f"{name!r} takes in {file}, {whose}: what was published would be read as readings"),
                    (other, f"{file} is among the files of a source: put it into another folder"),
                )


def _sources(policy: PolicyKeys) -> Iterator[tuple[Where, str]]:
    for i, stream in enumerate(policy.streams):
        for n, name in stream.source.list_local() if stream.source else ():
            yield ("streams", i, "source", "files", n), name


def matches(file: str, pattern: str) -> bool:
    """Return whether a glob pattern matches a file: * and ? within a name, ** over folders, hidden files only by name.

    >>> [matches(file, "/a/**/*.csv") for file in ("/a/x.csv", "/a/b/c/x.csv", "/a/b/.x.csv", "/b/x.csv")]
    [True, True, False, False]
    """
    if file == pattern:
        return True
    parts = pattern.split("/")
    if parts[-1] == "**":
        parts.append("*")  # at the end it finds what is in the folders
    places = _skip({0}, parts)
    for name in file.split("/"):
        met = (i for i in places if i < len(parts) and _takes(parts[i], name))
        places = _skip({i if parts[i] == "**" else i + 1 for i in met}, parts)
    return len(parts) in places


def _skip(places: set[int], parts: list[str]) -> set[int]:
    """Return these positions in a pattern and those reached when a ** matches no folder."""
    waiting = list(places)
    while waiting:
        i = waiting.pop()
        if i < len(parts) and parts[i] == "**" and i + 1 not in places:
            places.add(i + 1)
            waiting.append(i + 1)
    return places


def _takes(part: str, name: str) -> bool:
    if name.startswith(".") and not part.startswith("."):
        return False
    return part in ("**", name) or fnmatch.fnmatchcase(name, part)
