"""The content of a certificate, worked out from a ledger alone, up to one of its batches.

A *period* is a stretch of time; what was released at a step of the account that ended within it was published in it. Risks count
all that was released up to its end, whenever that began. The content names the hash of the newest batch, so that whoever has the
ledger can work everything out again, however much was published since, and says by a digest of every row what was published, so
that whoever has the outputs alone can compare them.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import InvalidInput, LedgerError
from halflife.ledger import Batch, Entry, Ledger, open_ledger
from halflife.ledger.entry import first_link, split_vintage
from halflife.ledger.vintages import find_vintages
from halflife.local_time import from_us, parse_time, to_us
from halflife.notions import WEvent
from halflife.notions.base import Notion
from halflife.numerics.forms import JsonObject
from halflife.numerics.progress import Progress
from halflife.policy import Channel, GivenPolicy, Policy, channels, explain, find_worth, stream_shape
from halflife.policy.facts import Amendment
from halflife.publisher.certificate.rows import digest_cells, pack_rows
from halflife.publisher.certificate.signing import sign
from halflife.publisher.holding import hold_to_ledger, list_amendments, list_promises, read_members
from halflife.publisher.plain_terms import Losses, describe_promise, find_plain_losses, list_unprotected
from halflife.publisher.readable import make_readable
from halflife.publisher.restores import Restore, add_lost, list_restores
from halflife.publisher.skipping import join_skipped, list_skipped
from halflife.publisher.verification import verify
from halflife.release import Release

FORMAT = {"name": "halflife.certificate", "version": 1}
BLOCK = 1_000


class Period(NamedTuple):
    """A stretch of time in µs since 1970, and the steps of the account that ended within it."""

    start_us: int
    end_us: int
    first: int
    last: int


def certify(
    given: GivenPolicy,
    start: str | None = None,
    end: str | None = None,
    *,
    key: Path | str | None = None,
    clock: Callable[[], float] = time.time,
    progress: Progress = lambda what, done, total: None,
) -> JsonObject:
    """Return the certificate of what a policy published from `start` to `end`, by its own clock: all of it if they are not given.

    The ledger and the outputs are verified first; what does not verify is not certified.

    key  the file of a private Ed25519 key (PEM), to sign it with

    >>> certify("nowhere.yaml")
    Traceback (most recent call last):
    ...
    halflife.parsing.documents.PolicyError: nowhere.yaml: cannot be read: No such file or directory: give the path of a policy
    """
    policy = Policy.of(given)
    verdict = verify(policy, progress=progress)
    if not verdict.good:
        raise LedgerError("what does not verify is not certified:\n" + "\n".join(verdict.problems))
    with open_ledger(policy.ledger_url, read_only=True) as book:
        with book.snapshot(None):
            batch = find_batch(book, verdict.head)
            if batch is None:
                raise LedgerError(f"{book.name}: nothing is published yet: halflife publish")
            policy = hold_to_ledger(book, policy)
            period = find_period(policy, book, start, end, int(clock()) * 1_000_000)
            content = make_content(policy, book, batch, period, progress)
        book.check_unwritten()
    content["made"] = _say_time(int(clock()) * 1_000_000, policy.clock.zone)
    content["format"] = FORMAT
    return {"certificate": content, **({} if key is None else {"signature": sign(content, key)})}


def find_batch(book: Ledger, head: str) -> Batch | None:
    """Return the batch of this hash, None if there is none."""
    return next((batch for batch in book.batches() if batch.link.hex() == head), None)


def find_period(policy: Policy, book: Ledger, start: str | None, end: str | None, now_us: int) -> Period:
    """Return the period from `start` to `end` on the policy's clock; by default from the first release to the newest."""
    account, zone = channels(policy)[0].account, policy.clock.zone
    begun = account.start(next(book.entries()).release_step)
    start_us = begun if start is None else _read_time("from", start, zone)
    if end is None:
        states = book.public_states()
        newest = Accountant.from_json(states["account"], states.get("attachment")).step
        names = [c.name for c in channels(policy)]
        last = (e.release_step for n in names for k in [book.last_step(n)] if k for e in book.entries(n, k, k))
        end_us = account.end(max([newest, *last]))  # of steps that repeat an output the account may know nothing
    else:
        end_us = _read_time("to", end, zone)
        if end_us > now_us:
            raise InvalidInput(
                f"the period ends at {end}, which is still to come ({_say_time(now_us, zone)} now): what is not over cannot be "
                "certified",
                about="to",
            )
    return make_period(policy, start_us, end_us)


def make_period(policy: Policy, start_us: int, end_us: int) -> Period:
    """Return the period between two moments; refuse one in which no step ends."""
    account, zone = channels(policy)[0].account, policy.clock.zone
    period = Period(start_us, end_us, max(1, account.last_over(start_us) + 1), account.last_over(end_us))
    if period.last < period.first:
        raise InvalidInput(
            f"no step of {policy.clock.step} ends after {_say_time(start_us, zone)} and by {_say_time(end_us, zone)}: give a "
            "longer period",
            about="to",
        )
    return period


def _read_time(name: str, text: str, zone: str) -> int:
    try:
        return to_us(parse_time(text, zone))
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}", about=name) from error


def make_content(
    policy: Policy, book: Ledger, batch: Batch, period: Period, progress: Progress = lambda what, done, total: None
) -> JsonObject:
    """Return what a certificate says about a period, from the entries up to a batch alone: first what is *not* protected.

    Raises LedgerError if a later batch holds more of the period: a certificate of all of it by an old batch would say too little.
    """
    zone, made = policy.clock.zone, channels(policy)
    promises = [notion for notion, _ in list_promises(book, batch)][::-1] or [policy.notion]
    told, restores = _Told(book, policy, promises, period), list_restores(book, batch)
    skipped = join_skipped(list_skipped(book, batch))
    for step, parts in groupby(_charge_by_step(book, restores), key=lambda part: part[0]):
        if step > period.last:
            break
        entries: list[Entry] = []
        releases: list[Release] = []
        for _, number, entry, charged in parts:
            releases += charged
            if entry is None:
                continue
            if number > batch.last:
                raise LedgerError(
                    f"{book.name}: more counts at step {step:,} of the period, up to step {period.last:,}, than was committed by "
                    f"{_say_time(batch.at_us, zone)}: a certificate by then says too little; make one of the ledger as it is"
                )
            entries.append(entry)
            if number % BLOCK == 0:
                progress("working risks out again", number, batch.last)
        told.feed(step, entries, releases)
    losses = find_plain_losses(policy, told.losses)
    return {
        "not_protected": list(list_unprotected(policy)),
        "population": {
            "id": policy.population.id,
            "size": policy.members.at(told.newest_us),
            "neighbours": policy.population.neighbours,
        },
        "period": {
            "from": _say_time(period.start_us, zone),
            "to": _say_time(period.end_us, zone),
            "zone": zone,
            "first_step": period.first,
            "last_step": period.last,
        },
        "promises": [
            _promise(notion, told.risk(i), describe_promise(policy, notion)) for i, notion in enumerate(promises)
        ],
        "amendments": [_amendment(a, policy) for a in list_amendments(book, batch)],
        **({"restores": [_restore(r, policy) for r in restores]} if restores else {}),
        **({"skipped": {n: [list(run) for run in runs] for n, runs in skipped.items()}} if skipped else {}),
        "classically": [
            {"within": x.span, "loss": _number(x.loss), **({"delta": x.delta} if x.delta else {})} for x in losses
        ]
        or [{"within": f"{c.name}, as planned", **_finite(c.plan.certificate()["classical_risk"])} for c in made],
        "published": [stream.describe(zone) for stream in told.streams.values() if stream.is_told],
        "ledger": {
            "begun": first_link(book.begun()).hex(),
            "head": batch.link.hex(),
            "entries": batch.last,
            "committed": _say_time(batch.at_us, zone),
        },
        "software": {"halflife": version("halflife"), "opendp": version("opendp")},
    }


def _amendment(amendment: Amendment, policy: Policy) -> JsonObject:
    """What was amended, when, by whom and why."""
    return {
        "at": _say_time(amendment.at_us, policy.clock.zone),
        "by": amendment.by,
        "reason": amendment.reason,
        "changes": list(amendment.changes),
        "from_steps": dict(amendment.starts),
        "weakens": amendment.weakens,
    }


def _restore(restore: Restore, policy: Policy) -> JsonObject:
    """Which steps a restored ledger has lost, when and why."""
    return {
        "at": _say_time(restore.at_us, policy.clock.zone),
        "by": restore.by,
        "reason": restore.reason,
        "passed_over": {name: list(steps) for name, steps in restore.passed.items()},
    }


def _charge_by_step(
    book: Ledger, restores: Sequence[Restore]
) -> Iterator[tuple[int, int, Entry | None, Sequence[Release]]]:
    """Yield each entry with its number and its releases, by the account's step, and where they stand those that are lost."""
    for number, entry, charged in add_lost(book.chained(), restores):
        own = len(entry.releases)
        yield entry.release_step, number, entry, charged[:own]
        for release in charged[own:]:
            yield release.step, number, None, (release,)


def _promise(notion: Notion, risk: JsonObject, words: Iterable[str]) -> JsonObject:
    """A promise with what it leans on, and the risk under it of all that was published, also after it was amended."""
    checks = notion.checks()
    return {
        "notion": _finite(notion.reference()),
        "summary": notion.summary,
        "in_other_words": list(words),
        "assumptions": [{"assumes": a, "checked": _finite(checks.get(a))} for a in notion.assumptions],
        "risk": risk,
    }


class _Told:
    """One pass over entries: risks at every step of the period, plain losses, and what each stream published."""

    def __init__(self, book: Ledger, policy: Policy, promises: Sequence[Notion], period: Period) -> None:
        self.losses = Losses()
        kept = [promises[0], *(_reach_back(notion, book) for notion in promises[1:])]
        self._risks = [_Risk(notion, period, held=i == 0) for i, notion in enumerate(kept)]
        self._first, self.newest_us = period.first, channels(policy)[0].account.start(1)
        made = {c.name: c for c in channels(policy)}
        known = [key.removeprefix("stream:") for key in book.facts() if key.startswith("stream:")]
        names = [*made, *(name for name in known if name not in made)]
        names = [name for stream in names for name in (stream, *find_vintages(book, stream))]
        self.streams = {name: _Stream(name, book, made.get(split_vintage(name)[0])) for name in names}

    def feed(self, step: int, entries: Sequence[Entry], releases: Sequence[Release]) -> None:
        """Take in all that was released at a step of the account, also by entries that are lost."""
        self.newest_us = max([self.newest_us, *(entry.start_us for entry in entries)])
        for risk in self._risks:
            risk.feed(step, releases)
        self.losses.feed(releases)
        if step >= self._first:
            for name in {entry.stream for entry in entries}:
                self.streams[name].feed([entry for entry in entries if entry.stream == name])

    def risk(self, i: int) -> JsonObject:
        """Return the risk under one of the promises."""
        return self._risks[i].tell()


def _reach_back(notion: Notion, book: Ledger) -> Notion:
    """Return an earlier promise such that its account remembers as far back as steps were published again since."""
    if not isinstance(notion, WEvent):
        return notion
    streams = [key.removeprefix("stream:") for key in book.facts() if key.startswith("stream:")]
    again = (entry for s in streams for name in find_vintages(book, s) for entry in book.entries(name))
    reach = max((r.age + r.span for entry in again for r in entry.releases), default=0)
    return WEvent(notion.epsilon, notion.w, notion.delta, max(reach, notion.reach))


class _Risk:
    """The risk under one promise, at every step of a period.

    held  whether it is the promise of now, which all that was published keeps; one of the past may be broken since
    """

    def __init__(self, notion: Notion, period: Period, held: bool) -> None:
        self._period, self._account, self._held = period, Accountant(notion), held
        self._largest = self._largest_used = 0.0

    def feed(self, step: int, releases: Sequence[Release]) -> None:
        """Take in all that was released at a step of the account."""
        if step >= self._period.first > self._account.step:
            self._note(self._period.first - 1)  # what was published before still counts when the period begins
        if self._held:
            self._account.admit(*releases)
        else:
            self._account.record(*releases)
        if step >= self._period.first:
            self._note(step)

    def _note(self, step: int) -> None:
        """Remember the largest risk from a step on, which is no less than that of any step before the next release.

        Limits may differ from step to step (secrets have their own), so the largest share of one is remembered too.
        """
        if step >= self._account.step:
            _, peak, limit = self._account.exposure(step)
            self._largest = max(self._largest, peak)
            self._largest_used = max(self._largest_used, peak / limit)

    def tell(self) -> JsonObject:
        """Return the risk at the end of the period, its peak from then on if nothing more is published, and the largest in it."""
        last = self._period.last
        if self._account.step < self._period.first:
            self._note(self._period.first - 1)
        risk, peak, limit = self._account.exposure(last)
        found = {"risk": risk, "peak": peak, "largest": max(self._largest, risk), "limit": limit}
        used = self._account.used(last)
        return {"step": last, **found, "used": used, "largest_used": max(self._largest_used, used)}


class _Stream:
    """What one stream published in a period.

    channel  as the policy has it; None of a stream that an amendment ended
    """

    def __init__(self, name: str, book: Ledger, channel: Channel | None) -> None:
        self._name, self._channel, self._digest = name, channel, hashlib.sha256()
        self._stream, self._vintage = split_vintage(name)
        self._layout, factors, quantiles = stream_shape(self._stream, book.facts())[:3]
        self._worth = find_worth(self._stream, book.begun(), list_amendments(book), read_members(book))
        self._numbers, self._banded = len(factors), quantiles is not None
        self._cells = digest_cells(self._layout.columns[3:-2], self._layout.cells)
        self._steps, self._first, self._last = 0, 0, 0
        self._begin_us, self._end_us = 0, 0
        self._least, self._largest, self._repeated = math.inf, 0.0, 0

    def feed(self, entries: Sequence[Entry]) -> None:
        """Take in entries of the stream."""
        block = make_readable(entries, self._worth, banded=self._banded)
        rows = self._layout.rows
        steps, starts, ends = (np.repeat(column, rows) for column in (block.steps, block.starts, block.ends))
        cells = np.tile(self._cells, len(entries))
        self._digest.update(pack_rows(cells, steps, starts, ends, block.values.ravel(), block.bands.ravel()))
        if not self._steps:
            self._first, self._begin_us = block.steps[0], block.starts[0]
        self._last, self._end_us = block.steps[-1], block.ends[-1]
        self._steps += len(entries)
        own = np.isfinite(block.bands).all(axis=1)
        self._repeated += int(np.count_nonzero(~own))
        self._least = min(self._least, float(block.bands[own].min(initial=math.inf)))
        self._largest = max(self._largest, float(block.bands[own].max(initial=0.0)))

    @property
    def is_told(self) -> bool:
        """Whether a certificate names it: every stream, and later vintages of which something was published in the period."""
        return self._vintage == 1 or self._steps > 0

    def describe(self, zone: str) -> JsonObject:
        """Return what was published, with the digest of all rows; without numbers if nothing was."""
        again = {"vintage": self._vintage} if self._vintage > 1 else {}
        told: JsonObject = {"stream": self._name, **again, **self._describe_channel(), "steps": self._steps}
        if not self._steps:
            return told
        return {
            **told,
            "first_step": self._first,
            "last_step": self._last,
            "not_published": self._last - self._first + 1 - self._steps,
            "from": _say_time(self._begin_us, zone),
            "to": _say_time(self._end_us, zone),
            **({} if self._least == math.inf else {"error_band": {"least": self._least, "largest": self._largest}}),
            **({"without_band": self._repeated} if self._repeated else {}),
            "sha256": self._digest.hexdigest(),
        }

    def _describe_channel(self) -> JsonObject:
        """What is published and why that keeps the promise; of a stream that ended, that it did."""
        c = self._channel
        if c is None:
            ended = "The stream ended by an amendment: nothing more is published of it, and what was still counts."
            return {
                "statistic": "ended",
                "unit": self._layout.unit or "",
                "numbers": self._numbers,
                "hidden": [ended],
                "plan": {"method": "ended", "noise": "", "source": "", "tail": ended},
            }
        plan = {
            "method": c.plan.request.method,
            "noise": c.plan.noise,
            "source": c.plan.source,
            "tail": c.plan.tail,
        }
        other = c.held or c.tree
        return {
            "statistic": c.part.statistic.kind,
            "unit": c.unit,
            "numbers": c.cells,
            "hidden": list(explain(c)),
            "plan": plan if other is None else other.describe(),
        }


def _say_time(us: int, zone: str) -> str:
    return from_us(us, zone).isoformat()


def _number(x: float) -> float | str:
    """A number as JSON can hold it."""
    return x if math.isfinite(x) else "unbounded"


def _finite(value: Any) -> Any:
    """JSON data without numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return _number(value) if isinstance(value, float) else value
