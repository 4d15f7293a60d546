"""What the page about a policy shows, gathered in one pass over its ledger: published values, noise, risks and plain losses.

Memory does not grow with the number of values: series are thinned as they are read, and a release leaves 16 bytes. No reading, no
tally and no saved state is looked at.
"""

from __future__ import annotations

import datetime
import hashlib
import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from halflife.accountant import Accountant
from halflife.errors import BudgetExceeded, InvalidInput, LedgerError
from halflife.lab.views.plan import classical_words
from halflife.lab.views.policy import SHOWN, HeatMap, Panel, PolicyView, Reading, StreamView, write_policy_page
from halflife.lab.views.text import describe_parameters, three_figures
from halflife.lab.views.thinning import Extremes, Means
from halflife.ledger import Entry, Ledger, open_ledger
from halflife.ledger.entry import first_link, split_vintage
from halflife.ledger.vintages import find_vintages
from halflife.local_time import from_us
from halflife.numerics.arrays import Floats, Integers
from halflife.numerics.progress import Progress
from halflife.policy import Channel, Policy, channels, explain
from halflife.publisher import Verdict, verify
from halflife.publisher.holding import hold_to_ledger
from halflife.publisher.plain_terms import Losses, describe_promise, find_plain_losses, list_unprotected
from halflife.publisher.promise_warnings import warn_about_promise
from halflife.publisher.readable import make_readable, noisy_values
from halflife.publisher.restores import add_lost, list_restores
from halflife.publisher.skipping import say_stretches
from halflife.release import Release

BLOCK = 1_000
POINTS = 20_000
"""A series with more values is thinned to about so many; those of a stream's groups share them."""
COLUMNS = 500
MOST_BINS = 100
LONGEST_LIST = 20


def write_policy_report(file: Path, out: Path, progress: Progress = lambda what, done, total: None) -> Verdict:
    """Write the page about a policy's ledger, and return what its verification found."""
    from halflife.lab.views.page import load_plotly

    load_plotly()  # a missing extra is reported before any work is done
    policy = Policy.load(file)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        with book.snapshot(None):
            gathered = _Gathered(policy, book, progress)
        book.check_unwritten()
    verdict = verify(policy, progress=progress)
    progress("writing the page", 0, 0)
    write_policy_page(_view(gathered.policy, file, gathered, verdict), out)
    return verdict


# One pass over the ledger ---------------------------------------------------------------------------------------------


class _Gathered:
    """What one pass over a ledger's entries leaves: every stream's series, the risks, and the losses by data time."""

    def __init__(self, policy: Policy, book: Ledger, progress: Progress) -> None:
        facts = book.facts()
        if not facts or book.newest() is None:
            raise LedgerError(f"{book.name}: nothing is published yet: halflife publish")
        self.policy = policy = hold_to_ledger(book, policy)
        newest = book.newest()
        assert newest is not None
        self.entries, self.head, self.committed = newest.last, newest.link.hex(), newest.at_us
        self.begin, self.first_committed = first_link(book.begun()).hex(), next(book.batches()).at_us
        self.series = {c.name: s for c in channels(policy) if (s := _Series.of(c, book)) is not None}
        self.risk, self.losses = _Risk(policy, self.entries), Losses()
        charged, done = add_lost(book.chained(), list_restores(book)), 0
        while block := list(islice(charged, BLOCK)):
            entries = [one.entry for one in block]
            for name in {
                entry.stream for entry in entries
            } & self.series.keys():  # streams that ended have no plan to show
                self.series[name].feed([entry for entry in entries if entry.stream == name])
            self.losses.feed(r for one in block for r in one.releases)
            self.risk.feed([r for one in block for r in one.releases])
            done += len(block)
            progress("reading what was published", done, self.entries)
        self.risk.settle()


class _Series:
    """The thinned series of one stream: its first groups, or their histograms, and its noise."""

    def __init__(self, channel: Channel, first: int, last: int) -> None:
        self.channel, self.steps = channel, 0
        self.first_us, self.last_us = channel.steps.start(first), channel.steps.end(last)
        self.layout = channel.layout
        self.shown = min(SHOWN, self.layout.rows if self.layout.quantiles else max(1, len(channel.groups)))
        self.bins = self.layout.bins[:MOST_BINS]
        self.noise = Extremes(first, last, 1, POINTS)
        if self.bins:
            columns = max(1, COLUMNS // self.shown)
            self.maps = [Means(first, last, len(self.bins), columns) for _ in range(self.shown)]
        else:
            self.lines, self.raw = (Extremes(first, last, self.shown, max(2, POINTS // self.shown)) for _ in range(2))
        self.processed, self.repeated = False, 0
        self.again: tuple[str, ...] = ()

    @classmethod
    def of(cls, channel: Channel, book: Ledger) -> _Series | None:
        """The series of a stream, None if nothing was published in it."""
        first = book.next_step(channel.name, 0)
        if first is None:
            return None
        made = cls(channel, first, book.last_step(channel.name))
        made.again = tuple(_say_vintage(channel, book, name) for name in find_vintages(book, channel.name))
        return made

    def feed(self, entries: Sequence[Entry]) -> None:
        block = make_readable(entries, self.channel.worth, banded=bool(self.layout.quantiles))
        steps, times = np.array(block.steps), np.array(block.starts)
        widest = block.bands.max(axis=1)[:, None]
        own = np.isfinite(widest[:, 0])
        self.steps += len(entries)
        self.repeated += int(np.count_nonzero(~own))
        if own.any():
            self.noise.feed(steps[own], times[own], widest[own], np.zeros_like(widest[own]))
        if not self.bins:
            bands = np.where(own[:, None], block.bands, np.nan)[:, : self.shown]
            self.lines.feed(steps, times, block.values[:, : self.shown], bands)
            if not self.layout.quantiles:
                self._feed_raw(entries, steps, times)
            return
        each = len(self.layout.bins)
        for j, heat in enumerate(self.maps):
            heat.feed(steps, times, block.values[:, j * each : j * each + len(self.bins)])

    def _feed_raw(self, entries: Sequence[Entry], steps: Integers, times: Integers) -> None:
        """Take the noisy values that post-processing began with; they are as public as what it made of them."""
        shown = self.channel.tree is None  # nodes are no totals: they are not shown beside them
        self.processed = self.processed or (shown and any(entry.value is not None for entry in entries))
        raw = noisy_values(entries, self.channel.worth)
        self.raw.feed(steps, times, raw[:, : self.shown], np.zeros((len(entries), self.shown)))

    def _panel(self, name: str, j: int) -> Panel:
        return Panel(name, self.lines.line(j), self.raw.line(j) if self.processed else None)

    def _names(self) -> tuple[str, ...]:
        """What each line or map is called: by its group, or its quantile, or both."""
        which = [f"{q:g}" for q in self.layout.quantiles]
        if not which:
            return self.layout.groups or (self.channel.name,)
        return tuple(f"{g}, {q}" for g in self.layout.groups for q in which) or tuple(which)

    def view(self, policy: Policy) -> StreamView:
        c, other = self.channel, self.channel.held or self.channel.tree
        names = self._names()
        panels = () if self.bins else tuple(self._panel(names[j], j) for j in range(self.shown))
        maps = tuple(HeatMap(names[j], heat.result()[0], self.bins, heat.result()[1]) for j, heat in enumerate(self.maps)) \
            if self.bins else ()  # fmt: skip
        return StreamView(
            name=c.name, kind=f"{c.part.statistic.kind} every {c.part.step or policy.clock.step}",
            unit=(c.part.statistic.unit or "") if self.layout.quantiles else c.unit,
            bin_unit=c.part.statistic.unit or "", steps=self.steps,
            first_us=self.first_us, last_us=self.last_us, panels=panels, maps=maps,
            groups=len(names) if c.groups or len(names) > 1 else 0,
            bins=len(self.layout.bins), each="quantile" if self.layout.quantiles else "group",
            every=1 if self.bins else self.lines.size, map_every=self.maps[0].size if self.bins else 1,
            noise=self.noise.line(0), noise_every=self.noise.size, said=(*explain(c), *self.again),
            post=tuple(_post(p) for p in c.part.post), covers=_covers(c.part.post),
            certificate=_shorten(c.plan.certificate()) if other is None else other.describe(), repeated=self.repeated,
        )  # fmt: skip


def _say_vintage(channel: Channel, book: Ledger, name: str) -> str:
    """Which steps a vintage has, in words."""
    steps = [entry.step for entry in book.entries(name)]
    begin, end = (
        from_us(us, channel.steps.zone) for us in (channel.steps.start(steps[0]), channel.steps.end(steps[-1]))
    )
    return (
        f"vintage {split_vintage(name)[1]}: {len(steps):,} steps from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} were "
        "published again, from corrected data; the picture has the first values"
    )


class _Risk:
    """The risk after the account's steps, worked out again from the releases; of a long ledger, after every n-th step."""

    def __init__(self, policy: Policy, entries: int) -> None:
        self._account, self._steps = Accountant(policy.notion), channels(policy)[0].account
        self.every = -(-entries // POINTS)
        self._waiting: list[Release] = []
        self._seen, self._found, self.stopped = 0, array("d"), False
        self._at: list[int] = []

    def feed(self, releases: Sequence[Release]) -> None:
        for release in releases:
            if self._waiting and release.step != self._waiting[-1].step:
                self._seen += 1
                if self._seen % self.every == 0:
                    self.settle()
            self._waiting.append(release)

    def settle(self) -> None:
        """Charge what was read, and note the risk."""
        if not self._waiting or self.stopped:
            return
        try:
            self._account.admit(*self._waiting)
        except (BudgetExceeded, InvalidInput):  # no ledger that verifies has one: the verification names it
            self.stopped = True
            return
        self._waiting.clear()
        risk, _, limit = self._account.exposure()
        self._at.append(self._account.step)
        self._found.extend((risk, limit))

    def series(self) -> tuple[Integers, Floats, Floats]:
        """Return when each noted step was over, its risk, and its limit."""
        found = np.array(self._found).reshape(-1, 2)
        return np.array([self._steps.end(k) for k in self._at], dtype=np.int64), found[:, 0], found[:, 1]


# What is said ---------------------------------------------------------------------------------------------------------


def _view(policy: Policy, file: Path, found: _Gathered, verdict: Verdict) -> PolicyView:
    notion = policy.notion
    times, risks, limits = found.risk.series()
    readings, instead = _plain_terms(policy, found.losses)
    folder = f"{file.resolve().parent}/"
    return PolicyView(
        population=policy.population.id,
        size=policy.members.at(found.committed),
        notion=notion.name,
        parameters=describe_parameters(notion),
        summary=notion.summary,
        zone=policy.clock.zone,
        warnings=tuple(warn_about_promise(notion)),
        not_protected=tuple(list_unprotected(policy)),
        promise=tuple(describe_promise(policy)),
        readings=readings,
        instead=instead,
        streams=tuple(series.view(policy) for series in found.series.values()),
        risk_times=times,
        risks=risks,
        limits=limits,
        risk_every=found.risk.every,
        used=verdict.used,
        problems=tuple(problem.replace(folder, "") for problem in verdict.problems),
        checked=tuple(_checked(policy, found, verdict)),
        facts=tuple(_facts(policy, file, found)),
    )


def _plain_terms(policy: Policy, losses: Losses) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """What the releases come to within a day, a week, a year and classically; or, where losses do not add up, what plans say."""
    found = find_plain_losses(policy, losses)
    if not found:
        return (), tuple(f"{c.name}: {classical_words(c.plan)}" for c in channels(policy))
    return tuple(Reading(x.span, x.loss, f" at δ = {x.delta:g}" if x.delta else "") for x in found), ()


def _checked(policy: Policy, found: _Gathered, verdict: Verdict) -> Iterator[str]:
    yield (
        "Every link of the ledger's chain of hashes, every loss against its noise, and every risk were worked out again from the "
        "ledger alone, and the outputs were compared with it."
    )
    for name, step in verdict.steps.items():
        compared = " and compared with its output" if name in policy.outputs else ""
        yield f"{name}: {verdict.published[name]:,} steps, up to step {step:,}, were read{compared}."
    for name, runs in verdict.skipped.items():
        yield (
            f"{name}: steps {say_stretches(runs)} are not published and never will be: their source was out of reach when they "
            "were closed. Nothing was read, drawn or charged for them."
        )
    if not math.isnan(verdict.limit):
        risk, peak = three_figures(verdict.risk), three_figures(verdict.peak)
        yield f"Risk {risk} of {verdict.limit:g} nats at step {verdict.step:,} of the account; worst from then on {peak}."
    if verdict.marks and verdict.good:
        yield (
            f"All that {len(verdict.marks)} marks outside the ledger say was published is in it."
            if len(verdict.marks) > 1
            else ("All that the mark outside the ledger says was published is in it.")
        )
    if verdict.head and verdict.head != found.head:
        yield "More was published while this page was made: what was checked goes further than what is shown. Make it again."


def _facts(policy: Policy, file: Path, found: _Gathered) -> Iterator[tuple[str, str]]:
    zone = policy.clock.zone
    yield "Policy", file.name
    yield "SHA-256 of the policy file", hashlib.sha256(file.read_bytes()).hexdigest()
    yield "First hash of the ledger: of the facts that it is held to", found.begin
    yield "Newest hash of the ledger", found.head
    yield "Entries", f"{found.entries:,}"
    yield "First committed", from_us(found.first_committed, zone).isoformat(sep=" ", timespec="seconds")
    yield "Newest committed", from_us(found.committed, zone).isoformat(sep=" ", timespec="seconds")
    yield (
        "This page",
        datetime.datetime.now(datetime.UTC).astimezone(from_us(0, zone).tzinfo).isoformat(sep=" ", timespec="seconds"),
    )
    yield "halflife", version("halflife")


def _post(post: Any) -> str:
    """One step of post-processing in words."""
    if post.truncate is not None:
        return f"values are held within {post.truncate[0]} and {post.truncate[1]}"
    if post.moving_average is not None:
        where = "" if post.above is None else f" where the noise exceeds {post.above}"
        return f"the mean of the last {post.moving_average} values is taken{where}"
    if post.kalman is not None:
        drift = "as fast as published values say" if post.kalman == "fitted" else f"by about {post.kalman} a step"
        return f"a Kalman filter follows values that drift {drift}"
    return (
        "a model of level, day and week, with the known noise of every step, estimates the values from those published"
    )


def _covers(chain: Sequence[Any]) -> str:
    """What the bands cover after a chain of post-processing, in a sentence; nothing without any."""
    if not chain:
        return ""
    if any(post.seasonal is not None or post.kalman == "fitted" for post in chain):
        return (
            "Bands are those of the estimates: they hold 95 % of the exact values, noise and what the model cannot follow "
            "together, as far as the model is right; before its first fit they are those of the noise."
        )
    if any(post.kalman is not None for post in chain):
        return (
            "Bands hold 95 % of the exact values if these drift as the policy declares: a claim of the filter's model."
        )
    if any(post.moving_average is not None for post in chain):
        return "Bands hold 95 % of the noise that is left in a mean; that a mean lags behind is not in them."
    return "Bands hold 95 % of the noise, as before: truncation widens no error."


def _shorten(value: Any) -> Any:
    """A certificate without its long lists."""
    if isinstance(value, Mapping):
        return {key: _shorten(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_shorten(part) for part in value] if len(value) <= LONGEST_LIST else f"{len(value):,} items"
    return value
