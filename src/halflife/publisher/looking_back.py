"""`hindsight`: every stream of a ledger estimated again with what came later, as a second output beside the first.

What was published stays as it was; nothing is drawn or charged, as nothing but noisy values and public facts is read. The
output's name carries its *vintage*, when the ledger's newest batch was committed: a later one knows more, and is another file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from halflife.errors import InvalidInput, LedgerError, unknown
from halflife.ledger import Entry, Ledger, ledger_exists, open_ledger
from halflife.ledger.vintages import find_vintages
from halflife.local_time import from_us
from halflife.numerics.progress import Progress
from halflife.outputs import Block, open_output
from halflife.policy import Channel, GivenPolicy, Policy, channels, rules
from halflife.postprocessing.base import Estimate
from halflife.postprocessing.reconcile.rules import Rule, connect_rules
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.readable import HINDSIGHT, find_facts
from halflife.publisher.revising import Raw, estimate_alone, estimate_together
from halflife.publisher.verification import find_broken_link


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

    A stream's own estimator is used, `seasonal` where it has none; a `truncate` that it has is applied. Streams that add up
    (`reconcile`), over groups or over time, are estimated together, and add up to the last bit. Steps that were published again
    (`revise`) count with all their values. The ledger's chain is
    checked first: of one that was changed nothing is estimated. No file is ever written over.
    """
    loaded = Policy.of(policy)
    _choose(channels(loaded), streams)
    if not ledger_exists(loaded.ledger_url):
        raise LedgerError(f"{loaded.ledger_url}: there is no such ledger: nothing was published yet")
    with open_ledger(loaded.ledger_url, read_only=True) as book:
        followed = hold_to_ledger(book, loaded)
        known = {channel.name: channel for channel in channels(followed)}
        chosen = _choose(list(known.values()), streams)
        files = {c.name: _find_file(c, loaded.outputs.get(c.name, "-"), folder, book) for c in chosen}
        progress("checking the ledger", 0, len(chosen))
        wrong = find_broken_link(book)
        if wrong is not None:
            raise LedgerError(f"{wrong}. Nothing was estimated: see `halflife verify`")
        made: dict[str, Revised] = {}
        for names, together in _find_sets(list(files), rules(followed)):
            raws = {name: _read_raw(book, known[name]) for name in names if book.last_step(name)}
            progress(f"estimating {', '.join(raws)}", len(made), len(chosen))
            for name, found in _estimate(raws, together, followed.members.largest).items():
                if name in files:
                    made[name] = _write(known[name], files[name], found, raws[name].entries)
        progress("estimating", len(chosen), len(chosen))
        return [made[name] for name in files]


def _read_raw(book: Ledger, channel: Channel) -> Raw:
    """What was published of a stream, with all its vintages."""
    again = [list(book.entries(vintage)) for vintage in find_vintages(book, channel.name)]
    return Raw(channel, list(book.entries(channel.name)), again)


def _find_sets(chosen: Sequence[str], known: Sequence[Rule]) -> Iterator[tuple[list[str], tuple[Rule, ...]]]:
    """Streams that are estimated together, with the rules among them: all those that one which is asked for adds up with."""
    sets = connect_rules(known)
    named = [list(dict.fromkeys(name for rule in found for name in (rule.total, rule.parts))) for found in sets]
    for names, found in zip(named, sets, strict=True):
        if set(names) & set(chosen):
            yield names, found
    yield from (([name], ()) for name in chosen if not any(name in names for names in named))


def _estimate(raws: Mapping[str, Raw], together: Sequence[Rule], size: int) -> dict[str, Estimate]:
    """The estimates of streams that have values, by stream."""
    held = [rule for rule in together if rule.total in raws and rule.parts in raws]
    if held:
        return estimate_together(raws, held, size)
    return {name: estimate_alone(raw) for name, raw in raws.items()}


def _choose(known: Sequence[Channel], streams: Sequence[str]) -> list[Channel]:
    """The streams that are asked for, or all that can be estimated."""
    names = [channel.name for channel in known]
    for name in streams:
        if name not in names:
            raise unknown("stream", name, names)
    chosen = [c for c in known if (c.name in streams if streams else c.quantiles is None and c.as_planned)]
    for channel in chosen:
        if channel.tree is not None:
            raise InvalidInput(
                f"{channel.name}: running totals share the noise of their nodes, and no estimate of them with hindsight is "
                "worked out"
            )
        if channel.held is not None:
            raise InvalidInput(
                f"{channel.name}: {channel.mechanism} repeats outputs, and how far the truth has moved since is not known: there "
                "is no estimate of it with hindsight"
            )
        if channel.quantiles is not None:
            raise InvalidInput(
                f"{channel.name}: quantiles have no estimate with hindsight: their bands are not worked out"
            )
    if not chosen:
        raise InvalidInput("no stream of this policy has values that can be estimated with hindsight")
    return chosen


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
        facts = find_facts(channel, HINDSIGHT, False)
        writer = open_output(str(temporary), channel.layout, 0, lambda step: None, facts=facts)
        steps, starts, ends = zip(*((e.step, e.start_us, e.end_us) for e in entries), strict=True)
        writer.write(Block(steps, starts, ends, found.values, found.bands))
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
