"""Policies, read from a file and checked as a whole: one that cannot be kept is refused before any data is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pydantic import PrivateAttr

from halflife.errors import InvalidInput
from halflife.ledger import Place, mark_beside
from halflife.notions.base import Notion
from halflife.numerics.forms import JsonObject
from halflife.parsing.documents import Document, Where, parse_document, read_document
from halflife.policy.model import PolicyKeys
from halflife.policy.promises import ADAPTERS
from halflife.policy.reconcile import read_rules
from halflife.policy.streams import Channel, work_out
from halflife.postprocessing.reconcile import Rule


class Policy(PolicyKeys):
    """What is published, and under which promise.

    >>> Policy.parse("population: {id: town, size: 3, persn: id}")
    Traceback (most recent call last):
    ...
    halflife.parsing.documents.PolicyError: policy.yaml:1:1: population.person: missing: The column that identifies a person.
    policy.yaml:1:33: population.persn: unknown key 'persn': did you mean 'person'? Known: id, neighbours, person, size, units
    policy.yaml:1:1: promise: missing: What is promised: a notion with its parameters, and the plan that keeps it.
    policy.yaml:1:1: clock: missing: Steps in wall-clock terms.
    policy.yaml:1:1: streams: missing: What is published: one or more streams of statistics.
    """

    _channels: tuple[Channel, ...] | None = PrivateAttr(None)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a policy file; what is wrong with it is named with line and column."""
        file = Path(path)
        return cls._check(read_document(file), file.resolve().parent)

    @classmethod
    def parse(cls, text: str, folder: str | Path = ".", name: str = "policy.yaml") -> Self:
        """Read a policy from its text; paths in it are relative to `folder`."""
        return cls._check(parse_document(text, name), Path(folder).resolve())

    @classmethod
    def from_dict(cls, data: JsonObject, folder: str | Path = ".") -> Self:
        """Read a policy from plain data, as a program has it."""
        return cls._check(Document("policy", data, {}), Path(folder).resolve())

    @classmethod
    def of(cls, given: GivenPolicy) -> Policy:
        """Return a policy however it was given: itself, as the path of its file, or as plain data.

        >>> Policy.of(3)
        Traceback (most recent call last):
        ...
        halflife.errors.InvalidInput: a policy is given as a Policy, the path of its file or a dict, not as 3
        """
        if isinstance(given, Policy):
            return given
        if isinstance(given, str | Path):
            return cls.load(given)
        if isinstance(given, Mapping):
            return cls.from_dict(dict(given))
        raise InvalidInput(f"a policy is given as a Policy, the path of its file or a dict, not as {given!r}")

    @property
    def outputs(self) -> dict[str, str]:
        """Where each stream's values are written, a folder with a slash at its end; streams to stdout are left out."""
        return {
            s.name: f"{self.path(s.output)}{'/' if s.output.endswith('/') else ''}"
            for s in self.streams
            if s.output != "-"
        }

    def to_data(self) -> JsonObject:
        """Return the policy as it was given, as plain data."""
        return dict(self._document.data)

    @property
    def marks(self) -> tuple[Place, ...]:
        """Where it is marked how much was published: beside each output that is a file or folder, and where `mark` says.

        The mark of an output answers for its own stream and for those that have none; the other one for all.
        """
        names = frozenset(s.name for s in self.streams)
        nowhere = names - self.outputs.keys()
        made = [Place(mark_beside(file), nowhere | {name}) for name, file in self.outputs.items()]
        return (*made, *([] if self.mark is None else [Place(os.path.realpath(self.path(self.mark)), names, True)]))

    @property
    def tables(self) -> tuple[str, ...]:
        """The public tables, and the promise's public files, as the policy names them: a ledger is held to what they say."""
        units, size = self.population.units, self.population.size
        named = [] if isinstance(size, int) else [size]
        named += [] if units is None else [units.file]
        for stream in self.streams:
            groups, weights = stream.groups, stream.statistic.weights
            named += [] if groups is None or groups.table is None else [groups.table.file]
            named += [] if weights is None else [weights.file]
        return tuple(dict.fromkeys([*named, *channels(self)[0].promise.public_files()]))

    @classmethod
    def _check(cls, document: Document, folder: Path) -> Self:
        policy = cls.from_document(document, folder)
        rules(policy)
        return policy

    @classmethod
    def describe_key(cls, where: Where) -> str:
        """Return what a key is for; that of a promise may be of one notion alone."""
        for adapter in ADAPTERS.values():
            if where[:1] == ("promise",) and where[-1] in adapter.keys.model_fields:
                return adapter.keys.model_fields[str(where[-1])].description or ""
        return super().describe_key(where)

    @property
    def notion(self) -> Notion:
        """The notion that is promised; its times are steps of the account."""
        return channels(self)[0].promise.notion

    def model_copy(self, *, update: Mapping[str, object] | None = None, deep: bool = False) -> Self:
        """Return a copy with these changes; it is checked again."""
        copy = super().model_copy(update=update, deep=deep)
        copy._channels = copy._members = None
        return copy


def channels(policy: Policy) -> tuple[Channel, ...]:
    """Return the streams of a policy; cached, so that tables are read and processes fitted once."""
    if policy._channels is None:
        policy._channels = work_out(policy)
    return policy._channels


def rules(policy: Policy) -> tuple[Rule, ...]:
    """Return which streams of a policy are reconciled; those that do not add up are refused."""
    return read_rules(policy, channels(policy))


GivenPolicy = Policy | str | Path | Mapping[str, object]
"""However a policy may be given: itself, as the path of its file, or as plain data."""
