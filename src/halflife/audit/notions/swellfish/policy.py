"""The audit of a policy about secrets: its neighbours are a household with and without events, as the promise defines neighbours.

    sensitivity   how far the engine's exact totals of neighbours are apart at each step, against what the secrets are charged at
    attained      what the whole event loses by these totals and the noise that is planned, against the secret's ε
    exact         what the planned noise (and that of a ledger, if there is one) comes to for each secret, by definition
    black box     the real path, run again and again on a household with and without the event
    silence       everything but the values must be the same for both: steps, times, losses, logs
    observer      what the promise leaves open: where exact values are published

Events are taken from the secrets as they were written, in kW and hours, and not from what the policy made of them. They are
placed where they lose most, once with the steps and once half a step later, and as readings that rounding moves farthest.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

import numpy as np

from halflife.audit.black_box import Pair
from halflife.audit.notions.swellfish.events import (
    PLANNED,
    TIMINGS,
    first_data_time,
    place_events,
    promise_of,
    read_written_secrets,
)
from halflife.audit.notions.swellfish.histories import worst_secret
from halflife.audit.notions.swellfish.readings import Tried, largest_move, loss_of_totals, try_events
from halflife.audit.policy.neighbours import distances
from halflife.audit.policy.path import PublishingPath, as_data, compare_traces
from halflife.audit.registry import Trial
from halflife.audit.verdict import MARGIN, Finding
from halflife.ledger import ledger_exists, open_ledger
from halflife.notions import Swellfish
from halflife.numerics.arrays import Floats
from halflife.numerics.rounding import TOLERANCE
from halflife.policy import Channel, Policy, channels
from halflife.publisher.readable import in_output_units
from halflife.release import Release

MOST_STEPS, MOST_NUMBERS, MOST_SECRETS = 48, 480, 50_000
COMPOSED = 5e-3
"""How much above the truth a composed loss distribution may lie, relatively."""


def try_policy(policy: Policy) -> Trial:
    """Return what is tried on a policy about secrets, with neighbours that are made from them."""
    made = channels(policy)
    notion = policy.notion
    assert isinstance(notion, Swellfish)
    written, wanted = read_written_secrets(policy)
    tried: list[Tried] = []
    findings: list[Finding] = []
    for how in TIMINGS:
        some = [try_events(policy, placed, wanted) for placed in place_events(policy, written, how)]
        if some:
            findings += [_sensitivity(c, some, how) for c in made]
            findings.append(_judge_attained(some, how, notion))
            tried += some
    findings += list(_histories(policy, made, notion))
    cases: list[tuple[Pair, PublishingPath]] = []
    if len(written) > MOST_SECRETS:
        findings.append(_not_run(len(written)))
    elif tried:
        worst = _shorten(made, max(tried, key=lambda t: t.loss / t.epsilon))
        without, with_events = worst.totals
        findings.append(compare_traces(policy, {"no event": without, "event": with_events}, _extent(made, worst)[1]))
        cases = [_case(policy, worst, "a household with and without its events"), _one_step(policy, worst)]
    return Trial(findings, cases, list(_exact_values(made)))


# Findings -------------------------------------------------------------------------------------------------------------


def _sensitivity(c: Channel, some: Sequence[Tried], how: str) -> Finding:
    start, worst = time.perf_counter(), (-1.0, 0.0, 0.0)
    for tried in some:
        for k, found in enumerate(distances(c, *tried.totals).tolist()):
            allowed = largest_move(c, tried.placed, tried.first + k)
            worst = max(worst, (found / allowed, found, allowed))
    detail = (
        f"the engine's exact totals with and without the events of {len(some)} secrets, at the step that is nearest to what the "
        "secrets are charged at, in units"
    )
    _, found, allowed = worst
    return Finding(
        f"{c.name}: events {how}", "sensitivity", allowed, found, found > allowed, detail, time.perf_counter() - start
    )


def _judge_attained(some: Sequence[Tried], how: str, notion: Swellfish) -> Finding:
    worst = max(some, key=lambda t: t.loss / t.epsilon)
    s, row = notion.specifications, worst.placed.row
    detail = (
        f"read as {notion.neighbours}: of {len(some)} secrets worst that of {s.name_of(row)!r} in steps {s.start[row]} to "
        f"{s.end[row]}"
    )
    name = f"a household with and without its events {how}"
    return _judge(name, "attained", worst.epsilon, worst.loss, detail, notion, 0.0)


def _judge(name: str, how: str, claimed: float, found: float, detail: str, notion: Swellfish, spent: float) -> Finding:
    slack = COMPOSED if notion.by_threshold else TOLERANCE + MARGIN
    return Finding(name, how, claimed, found, not found <= claimed * (1 + slack), detail, spent)


def _histories(policy: Policy, made: Sequence[Channel], notion: Swellfish) -> Iterator[Finding]:
    planned: list[Release] = []
    for c in made:
        last = min(PLANNED, c.last or max(1, notion.specifications.last_step - first_data_time(c) + 1))
        planned += c.plan_releases(last)
    yield _judge_history("the plan's first steps", notion, planned)
    if ledger_exists(policy.ledger_url):
        with open_ledger(policy.ledger_url, read_only=True) as book:
            history = [r for e in book.entries() for r in e.releases]
        yield _judge_history("what the ledger recorded", notion, history)


def _judge_history(name: str, notion: Swellfish, releases: Sequence[Release]) -> Finding:
    start = time.perf_counter()
    worst = worst_secret(notion, releases)
    where = "" if worst.secret is None else f": worst {worst.household!r}, {worst.secret}"
    exact = sum(r.scale == 0 for r in releases)
    detail = f"{len(releases):,} releases, {exact:,} of them exact values, read as {notion.neighbours}{where}"
    return _judge(name, "exact", worst.epsilon, worst.loss, detail, notion, time.perf_counter() - start)


def _not_run(secrets: int) -> Finding:
    detail = (
        f"a run of the publisher keeps all {secrets:,} secrets in its ledger, and a black box needs hundreds of runs"
    )
    return Finding("the publisher was not run", "observer", math.nan, math.nan, False, detail, 0.0)


def _exact_values(made: Sequence[Channel]) -> Iterator[Finding]:
    """Where exact values are published: the promise says so, and it is no fault."""
    for c in made:
        s = promise_of(c).specifications
        steps = min(PLANNED, c.last or max(1, s.last_step - first_data_time(c) + 1))
        exact = int(np.count_nonzero(c.plan.scales(steps) == 0))
        detail = (
            f"of the first {steps:,} steps, {exact:,} lie outside all hiding intervals and are published without noise"
        )
        yield Finding(f"{c.name}: exact values", "observer", math.nan, exact / steps, False, detail, 0.0)


# The black box --------------------------------------------------------------------------------------------------------


def _shorten(made: Sequence[Channel], tried: Tried) -> Tried:
    """The steps to publish: at most so many, from the beginning of the events on."""
    room = max(1, min(MOST_STEPS, MOST_NUMBERS // sum(c.cells for c in made)))
    first, second = ({name: t[:room] for name, t in totals.items()} for totals in tried.totals)
    loss = loss_of_totals(made, (first, second), tried.first, promise_of(made[0]).delta)
    return tried._replace(totals=(first, second), loss=loss)


def _extent(made: Sequence[Channel], tried: Tried) -> tuple[int, dict[str, int]]:
    """How many steps there are, and which is the first of each stream."""
    return len(tried.totals[0][made[0].name]), {c.name: tried.first - first_data_time(c) + 1 for c in made}


def _case(policy: Policy, tried: Tried, name: str) -> tuple[Pair, PublishingPath]:
    """The pair as the black box sees it, all numbers of all streams, and the publisher on it."""
    made = channels(policy)
    steps, first = _extent(made, tried)
    values: list[tuple[Floats, ...]] = []
    for c in made:
        k = first[c.name]
        scales = np.array([r.scale for r in c.plan_releases(k + steps - 1, first=k)])
        exact = (t[c.name].astype(np.float64) for t in tried.totals)
        parts = (*exact, np.repeat(scales[:, None], c.cells, axis=1))
        values.append(tuple(in_output_units(x, c.factor_of_cells).ravel() for x in parts))
    a, b, sizes = (np.concatenate(x) for x in zip(*values, strict=True))
    plural = "s" if steps > 1 else ""
    pair = Pair(
        f"the publisher on {name}, {steps} step{plural}",
        a,
        b,
        sizes,
        tried.loss,
        made[0].plan.noise,
        promise_of(made[0]).delta,
    )
    return pair, PublishingPath(as_data(policy), str(policy.path(".")), tried.totals, first)


def _one_step(policy: Policy, tried: Tried) -> tuple[Pair, PublishingPath]:
    """One step that moves as far as its noise's scale: no neighbours, but then a black box sees something."""
    made = channels(policy)
    c = made[0]
    at = int(np.argmax(distances(c, *tried.totals)))
    first = {d.name: tried.totals[0][d.name][at : at + 1] for d in made}
    cell = int(np.argmax(np.abs(tried.totals[1][c.name] - tried.totals[0][c.name])[at]))
    second = {name: t.copy() for name, t in first.items()}
    k = tried.first + at - first_data_time(c) + 1
    second[c.name][0, cell] += math.ceil(c.plan_releases(k, first=k)[0].scale or 0.0)
    totals = (first, second)
    loss = loss_of_totals(made, totals, tried.first + at, promise_of(c).delta)
    moved = tried._replace(first=tried.first + at, totals=totals, loss=loss)
    return _case(policy, moved, "totals as far apart as the noise's scale")
