"""Who is one person; and a stream's groups: a public list, and a table that fixes everybody's or a bound on how many count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from halflife.errors import InvalidInput, unknown
from halflife.parsing.documents import Where
from halflife.policy.model import Groups, PolicyKeys, Source
from halflife.policy.tables import read_public_table

MOST_GROUPS = 100_000


@dataclass(frozen=True)
class GroupList:
    """The groups of a stream: names, sizes, and how many of them one person counts in.

    names  the public list, empty for no groups
    table  each person's group, as an index into `names`, fixed for ever; None without one
    sizes  how many people each group has, where that is public
    most   in how many groups a person may count within a step
    """

    names: tuple[str, ...] = ()
    table: Mapping[str, int] | None = field(default=None, repr=False)
    sizes: Mapping[str, int] = field(default_factory=dict, repr=False)
    most: int = 1

    @property
    def fixed(self) -> bool:
        """Whether a person's group never changes: a table says it, or there are no groups."""
        return self.table is not None or not self.names

    def people(self, population: int) -> list[int]:
        """How many people can be in each group; one number for all without groups."""
        return [self.sizes.get(name, population) for name in self.names] if self.names else [population]


def read_groups(policy: PolicyKeys, i: int) -> GroupList:
    """Work out the groups of a stream."""
    part = policy.streams[i]
    at: Where = ("streams", i, "groups")
    if part.groups is None:
        with policy.about("streams", i, "source", "group"):
            if part.source is not None and part.source.group is not None:
                raise InvalidInput("the stream has no groups: list them under `groups`, or leave this out")
        return GroupList()
    if part.groups.table is not None:
        with policy.about("streams", i, "source", "group"):
            if part.source is not None and part.source.group is not None:
                raise InvalidInput("a table fixes each person's group for ever: leave this out")
        with policy.about(*at, "table"):
            return _by_table(policy, part.groups)
    with policy.about(*at):
        return _by_column(policy, part.groups, part.source)


def _by_column(policy: PolicyKeys, groups: Groups, source: Source | None) -> GroupList:
    """Groups that a column of the data names: a person counts in so many of them within a step."""
    names, most, sizes = groups.names, groups.most_per_person, groups.sizes or {}
    if names is None or most is None:
        raise InvalidInput("needs either a table that fixes each person's group for ever, or names and most_per_person")
    if source is not None and source.group is None:
        raise InvalidInput("without a table of groups the source needs a `group` column")
    _check_unique(names)
    if most > len(names):
        raise InvalidInput(f"most_per_person is {most}, but there are only {len(names)} groups")
    for name, size in sizes.items():
        if name not in names:
            raise unknown("group in sizes", name, names)
        if size > policy.members.largest:
            raise InvalidInput(
                f"sizes: {name!r} has {size} people, more than the population ({policy.members.largest})"
            )
    return GroupList(tuple(names), None, sizes, most)


def _by_table(policy: PolicyKeys, groups: Groups) -> GroupList:
    """Groups that a public table fixes: it says how large they are, too."""
    assert groups.table is not None
    if groups.most_per_person is not None or groups.sizes is not None:
        raise InvalidInput("a table fixes each person's group and its size: leave most_per_person and sizes out")
    file = groups.table.file
    rows = read_public_table(policy.path(file), groups.table.person, groups.table.group)
    if len(rows) > policy.members.largest:
        raise InvalidInput(f"{file} has {len(rows)} people, more than the population ({policy.members.largest})")
    count = Counter(rows.values())
    names = groups.names if groups.names is not None else sorted(count)
    _check_unique(names)
    index = {name: g for g, name in enumerate(names)}
    strange = sorted(set(count) - set(index))
    if strange:
        raise InvalidInput(f"{file}: {unknown('group', strange[0], names)}")
    if len(names) > MOST_GROUPS:
        raise InvalidInput(f"{file} has {len(names)} groups, more than {MOST_GROUPS:,}")
    table = {person: index[group] for person, group in rows.items()}
    return GroupList(tuple(names), table, {name: count[name] for name in names})


def read_units(policy: PolicyKeys) -> Mapping[str, str] | None:
    """Return whose each id of the data is, where one person may have several; None if ids are people."""
    given = policy.population.units
    if given is None:
        return None
    with policy.about("population", "units"):
        units = read_public_table(policy.path(given.file), given.id, given.unit)
        count, size = len(set(units.values())), policy.members.largest
        if count > size:
            raise InvalidInput(
                f"{given.file} names {count} of column {given.unit!r}, more than the population ({size})"
            )
    return units


def _check_unique(names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise InvalidInput(f"group {name!r} stands twice")
