"""`hindsight`: every stream of a ledger estimated again with what came later, as a second output beside the first.

What was published stays as it was; nothing is drawn or charged, as nothing but noisy values and public facts is read. The
output's name carries its *vintage*, when the ledger's newest batch was committed: a later one knows more, and is another file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from halflife.errors import InvalidInput, LedgerError, unknown
from halflife.ledger import Entry, Ledger, ledger_exists, open_ledger
from halflife.local_time import from_us
from halflife.numerics.arrays import Floats
from halflife.numerics.progress import Progress
from halflife.outputs import Published, open_output
from halflife.policy import Channel, GivenPolicy, Policy, channels
from halflife.policy.streams import steps_per_day
from halflife.postprocessing import Facts, Seasonal, Truncate
from halflife.postprocessing.base import Estimate
from halflife.postprocessing.structural.estimator import Structural
from halflife.publisher.drawing import find_spread, post_facts
from halflife.publisher.readable import in_output_units
from halflife.publisher.replay import find_scales
from halflife.publisher.session import hold_to_ledger


@dataclass(frozen=True)
class Revised:
    """One stream's estimates with hindsight: where they were written, how many steps, and the vintage."""

    stream: str
    file: Path
    steps: int
    vintage: str


def hindsight(
    policy: GivenPolicy,
    streams: Sequence[str] = (),
    *,
    folder: Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> list[Revised]:
    """Estimate the series of a ledger with hindsight, and write each beside its output, under a name of its own.

    policy   a Policy, the path of its file, or a dict
    streams  whose; all that have values to estimate if none is named
    folder   where to write, instead of beside each output
    progress is told what is being done, how many streams are done, and how many there are

    A stream's own estimator is used, `seasonal` where it has none; a `truncate` that it has is applied. Streams are estimated
    one by one, from values before reconciliation: totals and parts need not add up. No file is ever
    written over.
    """
    loaded = Policy.of(policy)
    _choose(channels(loaded), streams)
    if not ledger_exists(loaded.ledger_url):
        raise LedgerError(f"{loaded.ledger_url}: there is no such ledger: nothing was published yet")
    book = open_ledger(loaded.ledger_url)
    try:
        chosen = _choose(channels(hold_to_ledger(book.name, book.facts(), loaded)), streams)
        made = []
        files = [_find_file(channel, loaded.outputs.get(channel.name, "-"), folder, book) for channel in chosen]
        for done, (channel, file) in enumerate(zip(chosen, files, strict=True)):
            progress(f"estimating {channel.name}", done, len(chosen))
            entries = list(book.entries(channel.name))
            made.append(_write(channel, file, look_back(channel, entries), entries))
        progress("estimating", len(chosen), len(chosen))
        return made
    finally:
        book.close()


def _choose(known: Sequence[Channel], streams: Sequence[str]) -> list[Channel]:
    """The streams that are asked for, or all that can be estimated."""
    names = [channel.name for channel in known]
    for name in streams:
        if name not in names:
            raise unknown("stream", name, names)
    chosen = [c for c in known if (c.name in streams if streams else c.quantiles is None)]
    for channel in chosen:
        if channel.quantiles is not None:
            raise InvalidInput(
                f"{channel.name}: quantiles have no estimate with hindsight: their bands are not worked out"
            )
    if not chosen:
        raise InvalidInput("no stream of this policy has values that can be estimated with hindsight")
    return chosen


def look_back(channel: Channel, entries: Sequence[Entry]) -> Estimate:
    """Return the estimates of all steps of a stream, given all of them, in the output's unit."""
    smoothers = channel.smoothers()
    estimator = next((s for s in smoothers if isinstance(s, Structural)), Seasonal(steps_per_day(channel.steps)))
    values, scales, facts = read_raw(channel, entries)
    found = estimator.look_back(values, scales, facts)
    for smoother in smoothers:
        if isinstance(smoother, Truncate):
            found = found._replace(values=smoother.smooth(found.values, scales, facts)[0])
    return found


def read_raw(channel: Channel, entries: Sequence[Entry]) -> tuple[Floats, Floats, Facts]:
    """Return the noisy values of some entries in the output's unit, the scale of each step's noise, and what else is public."""
    factors = channel.factor_of_cells
    noisy = np.array([entry.noisy for entry in entries])
    values, worth = in_output_units(noisy, factors), in_output_units(np.ones(len(factors)), factors)
    noises, releases, noise = list(find_scales(entries)), [e.releases for e in entries], entries[0].releases[0].noise
    scales = np.array([find_spread(found, noise) for found in noises])
    steps, starts = np.array([e.step for e in entries]), [e.start_us for e in entries]
    return values, scales, post_facts(steps, starts, channel.steps.zone, releases, noises, noise, worth)


def _find_file(channel: Channel, output: str, folder: Path | None, book: Ledger) -> Path:
    """Return where a stream's estimates go; refuse a stream without values, and a vintage that was written before."""
    newest = book.newest()
    if newest is None or not book.last_step(channel.name):
        raise LedgerError(f"{book.name}: nothing was published yet of {channel.name}: name the others with --stream")
    file = name_file(channel.name, output, folder, f"{from_us(newest.at_us):%Y%m%dT%H%M%SZ}")
    if file.exists():
        raise _written(file)
    return file


def _written(file: Path) -> InvalidInput:
    return InvalidInput(f"{file}: this vintage was written before; nothing has been published since")


def _write(channel: Channel, file: Path, found: Estimate, entries: Sequence[Entry]) -> Revised:
    """Write a stream's estimates to a file that does not exist yet: all of it, or nothing."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{os.getpid()}.{file.name}")
    try:
        writer = open_output(str(temporary), channel.layout, 0, lambda step: None)
        writer.write(list(_rows(found, entries)))
        writer.close()
        os.link(temporary, file)  # unlike a rename it fails where there is a file, whoever wrote it
    except FileExistsError:
        raise _written(file) from None
    finally:
        for leftover in [path for path in file.parent.iterdir() if path.name.startswith(temporary.name)]:
            leftover.unlink()
    return Revised(channel.name, file, len(entries), file.stem.rpartition("-")[2])


def name_file(stream: str, output: str, folder: Path | None, vintage: str) -> Path:
    """Return where the estimates go: beside the output, in its format; Parquet for a folder of parts, CSV for what went to
    stdout.

    >>> name_file("demand", "out/use.csv", None, "20260118T120000Z").as_posix()
    'out/demand.revised-20260118T120000Z.csv'
    """
    known = Path(f"{stream}.csv") if output == "-" else Path(output)
    suffix = known.suffix if known.suffix in (".csv", ".jsonl", ".parquet") else ".parquet"
    return (folder or known.parent) / f"{stream}.revised-{vintage}{suffix}"


def _rows(found: Estimate, entries: Sequence[Entry]) -> Iterator[Published]:
    for entry, values, bands in zip(entries, found.values, found.bands, strict=True):
        yield Published(entry.step, entry.start_us, entry.end_us, values, bands)
