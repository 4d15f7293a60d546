"""`read_published`: published values from their file, to be added up with a band that holds."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from halflife.errors import InvalidInput, unknown
from halflife.ledger import Entry, Ledger, open_ledger
from halflife.ledger.entry import name_vintage
from halflife.local_time import find_zone
from halflife.outputs import NoiseFacts, PublishedValues, read_rows_of
from halflife.outputs.parquet import make_table
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.postprocessing.chains import load_chains
from halflife.postprocessing.reconcile.rules import load_rules
from halflife.publisher.drawing import find_spread
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.readable import HINDSIGHT, count_people, find_facts, was_reconciled
from halflife.publisher.replay import find_scales
from halflife.publisher.session import read_entries
from halflife.publisher.vintages.files import find_vintage_file, read_vintage_name

if TYPE_CHECKING:
    import pyarrow as pa

UNKNOWN_MECHANISM = "this mechanism does not say what noise its values carry"


def read_published(
    file: str | Path,
    policy: GivenPolicy | None = None,
    *,
    stream: str | None = None,
    zone: str | None = None,
    raw: bool = False,
) -> PublishedValues:
    """Return the published values of one stream, whose totals, means and differences carry a band that holds.

    file    an output: .csv, .jsonl, .parquet, or a folder of Parquet parts; a revised one, as `hindsight` wrote it; or a
            vintage, as `revise` did
    policy  whose output it is. Its ledger says what noise the rows carry, which a Parquet file says itself and a text file does
            not: without it bands of text files are added up, which always holds and is far too wide for long sums. It has the
            values before post-processing too: where their sum has the smaller band, it is taken instead of that of estimates
    stream  which one, where that is not clear;  zone  of a text file's clock, where no policy is given
    raw     take the values as they were before post-processing, from the policy's ledger, in any case

    >>> read_published("nowhere.parquet")
    Traceback (most recent call last):
    ...
    halflife.errors.InvalidInput: nowhere.parquet is not there: give the path of an output that was published
    """
    name = str(file)
    if policy is None:
        if raw:
            raise InvalidInput("raw values are in the ledger: give the policy whose output it is")
        rows = read_rows_of(file, stream)
        if zone is not None:
            find_zone(zone)
        return PublishedValues(
            rows.frame, name, rows.stream, rows.unit, zone or rows.zone, rows.facts, rows.why_unknown,
            None if rows.facts is None else dict(rows.facts.people),
        )  # fmt: skip
    if zone is not None:
        raise InvalidInput("the policy says in which zone its clock is: leave zone out")
    loaded = Policy.of(policy)
    channel = _find_channel(loaded, file, stream)
    held = read_rows_of(file, channel.name).frame
    with open_ledger(loaded.ledger_url, read_only=True) as book:
        channel = _find_channel(hold_to_ledger(book, loaded), file, stream)
        if vintage := find_vintage(loaded, channel.name, file):
            return _read_vintage(book, channel, held, name, vintage)
        shown, before, facts = _read_ledger(book, channel, held, find_revised(file) == channel.name)
    about = (name, channel.name, channel.unit, channel.steps.zone)
    people, plain = count_people(channel), facts and replace(facts, post=())
    earlier = PublishedValues(before, *about, plain, UNKNOWN_MECHANISM, people)
    if channel.tree is not None:
        if raw:
            raise InvalidInput(
                f"{channel.name} publishes running totals: before that there are nodes of a tree, and no values"
            )
        return PublishedValues(shown, *about, facts, UNKNOWN_MECHANISM, people)
    if raw:
        return earlier
    return PublishedValues(shown, *about, facts, UNKNOWN_MECHANISM, people, None if facts is None else earlier)


def find_revised(file: str | Path) -> str | None:
    """Return whose estimates with hindsight a file holds, by its name; None if it is not called so.

    >>> find_revised("out/half-hours.revised-20261118T080000Z.csv"), find_revised("half-hours.csv")
    ('half-hours', None)
    """
    found = re.fullmatch(r"(.+)\.revised-\d{8}T\d{6}Z\.\w+", Path(file).name)
    return None if found is None else found[1]


def find_vintage(policy: Policy, stream: str, file: str | Path) -> int:
    """Return which vintage of a stream a file is, by where it lies and its name; 0 if it is none."""
    number = read_vintage_name(file) or 0
    beside = number and os.path.realpath(find_vintage_file(policy, stream, number)) == os.path.realpath(file)
    return number if beside else 0


def _read_vintage(book: Ledger, channel: Channel, held: pa.Table, name: str, vintage: int) -> PublishedValues:
    """The values of steps that were published again: raw ones, each with noise of its own."""
    with book.snapshot(None):
        entries = list(book.entries(name_vintage(channel.name, vintage)))
    shown = _make_frame(channel, entries)
    if not _are_alike(shown, held, ()):
        raise InvalidInput(
            f"the file is not what {book.name} holds of vintage {vintage} of {channel.name!r}: `halflife verify` says where they "
            "differ"
        )
    facts = find_facts(channel, (), reconciled=False)
    about = (name, name_vintage(channel.name, vintage), channel.unit, channel.steps.zone)
    return PublishedValues(shown, *about, facts, UNKNOWN_MECHANISM, count_people(channel))


def _find_channel(policy: Policy, file: str | Path, stream: str | None) -> Channel:
    """Return the stream that is named, whose output the file is, or else the only one."""
    known = {channel.name: channel for channel in channels(policy)}
    if stream is not None:
        if stream not in known:
            raise unknown("stream", stream, known)
        return known[stream]
    place, revised = os.path.realpath(file), find_revised(file)
    if revised in known:
        return known[revised]
    found = [name for name, target in policy.outputs.items() if os.path.realpath(target) == place]
    found = found or [name for name in known if find_vintage(policy, name, file)] or list(known)
    if len(found) > 1:
        raise InvalidInput(f"{file} is no output that the policy names: say whose it is (stream: {', '.join(found)})")
    return known[found[0]]


def _read_ledger(
    book: Ledger, channel: Channel, held: pa.Table, is_revised: bool
) -> tuple[pa.Table, pa.Table, NoiseFacts | None]:
    """Return the rows of the steps that a file holds, the same before post-processing, and what is known of their noise.

    Rows are the ledger's, and must be the file's; of a revised file they are its own, and must be of the ledger's steps.
    """
    steps = set(held["step"].to_pylist())
    with book.snapshot(None):
        states = book.public_states()
        entries = list(book.entries(channel.name, last=max(steps, default=0)))
    chains = states.get(f"post:{channel.name}")
    record, prefix = () if chains is None else load_chains(chains), "reconcile:"
    totals = {key.removeprefix(prefix): text for key, text in states.items() if key.startswith(prefix)}
    rules = {total: load_rules(total, text) for total, text in totals.items()}
    facts = find_facts(channel, HINDSIGHT, False) if is_revised else None
    facts = facts or find_facts(channel, record, was_reconciled(channel.name, rules))
    shown = _make_frame(channel, [entry for entry in entries if entry.step in steps])
    if not _are_alike(shown, held, ("value", "error_band") if is_revised else ()):
        raise InvalidInput(
            f"the file is not what {book.name} holds of {channel.name!r}: `halflife verify` says where they differ"
        )
    if is_revised:
        shown = held.select(shown.column_names)
    if channel.quantiles is not None:
        return shown, shown, facts  # which nobody adds up
    before = [
        entry
        if entry.value is None
        else replace(entry, value=None, spread=find_spread(scales, entry.releases[0].noise))
        for entry, scales in zip(entries, find_scales(entries), strict=True)
    ]
    return shown, _make_frame(channel, [entry for entry in before if entry.step in steps]), facts


def _make_frame(channel: Channel, entries: Sequence[Entry]) -> pa.Table:
    return make_table([read_entries(channel, entries)], channel.layout).replace_schema_metadata(None)


def _are_alike(ours: pa.Table, held: pa.Table, apart: Sequence[str]) -> bool:
    """Whether two tables hold the same rows, in whatever zone their times are shown, apart from some columns."""
    return len(ours) == len(held) and all(
        ours[key].cast("int64").equals(held[key].cast("int64"))
        if key in ("start", "end")
        else ours[key].equals(held[key])
        for key in ours.column_names
        if key in held.column_names and key not in apart
    )
