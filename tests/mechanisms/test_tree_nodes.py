"""Nodes of a binary tree as a policy's stream releases them: the account takes all of them, and they come to ε and no more."""

from __future__ import annotations

import random

import pytest

from halflife import Accountant, Classical, ExponentialDiscount, InvalidInput, Release, WEvent
from halflife.mechanisms import Turn, record
from halflife.mechanisms.binary_tree import BinaryTree
from halflife.steps import Steps

HOURS = Steps.of("1 h", "2026-01-01", "UTC")


@pytest.mark.parametrize("seed", range(12))
def test_the_account_never_refuses_a_tree_whatever_its_end_and_window(seed):
    """Charged one by one in any promise that takes it, with losses that come to ε in the worst window and to no more."""
    pick = random.Random(seed)
    last, w, epsilon = pick.randrange(1, 90), pick.choice([1, 2, 5, 24, 200]), pick.uniform(0.01, 20)
    classical, endless = seed % 4 == 3, seed % 4 == 2
    notion = Classical(epsilon) if classical else WEvent(epsilon, w)
    plan = notion.plan(sensitivity=pick.uniform(0.1, 1e6), horizon=None if endless else last)
    nodes = BinaryTree.for_stream(plan, name="s", steps=HOURS, begin=1, cells=1, touched=1)
    account, steps = Accountant(notion), list(range(1, last + 1))
    releases = record(map(Turn, steps, nodes.requests(steps)))
    for release in releases:
        account.admit(release)
    w = last if classical else w
    shared = [
        [max(0, min(r.step, k + w - 1) - max(r.first_data_time, k) + 1) for r in releases]
        for k in range(2 - w, last + 1)
    ]
    one = [r.loss / r.span for r in releases]
    worst = max(sum(j * x for j, x in zip(row, one, strict=True)) for row in shared)
    assert worst <= epsilon * (1 + 1e-9)
    assert endless or worst == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("w", [2, 3, 7, 40])
def test_beside_another_stream_that_goes_first_the_account_forgets_nothing_that_a_node_needs(w):
    notion, steps = WEvent(1.0, w), list(range(1, 140))
    nodes = BinaryTree.for_stream(
        notion.share(0.5).plan(horizon=steps[-1]), name="s", steps=HOURS, begin=1, cells=1, touched=1
    )
    account, plan = Accountant(notion), notion.share(0.5).plan()
    for release in record(map(Turn, steps, nodes.requests(steps))):
        account.admit(Release(release.step, plan.loss(release.step)))
        account.admit(release)


@pytest.mark.parametrize(("w", "begin", "last"), [(1, 1, 8), (3, 3, 8), (3, 1, None)])
def test_where_policies_refuse_it_beside_others_the_account_would(w, begin, last):
    """A window of one step, a start that is later than the window is long, and no end: it forgets what a node needs."""
    notion, steps = WEvent(1.0, w), list(range(1, 40 if last is None else last + 1))
    nodes = BinaryTree.for_stream(
        notion.share(0.5).plan(horizon=last), name="s", steps=HOURS, begin=1, cells=1, touched=1
    )
    account, plan = Accountant(notion), notion.share(0.5).plan()
    for step in range(1, begin):
        account.admit(Release(step, plan.loss(step)))
    with pytest.raises(InvalidInput, match="was forgotten"):
        for release in record(map(Turn, [k + begin - 1 for k in steps], nodes.requests(steps))):
            account.admit(Release(release.step, plan.loss(release.step)))
            account.admit(release)


@pytest.mark.parametrize(
    ("plan", "cells", "words"),
    [
        (WEvent(1.0, 6).plan(), 2, "publishes one number a step, and the stream has 2"),
        (WEvent(1.0, 6).plan(every=2), 1, "steps of the clock's width"),
        (WEvent(1.0, 6).plan(span=2), 1, "steps of the clock's width"),
        (WEvent(1.0, 6).plan(age=1), 1, "published 1 steps late"),
        (WEvent(1.0, 6, 1e-6).plan(), 1, "proved for delta 0 alone"),
        (WEvent(1.0, 6).plan(method="paper"), 1, "not by a paper plan"),
        (Classical(1.0).plan(), 1, "give the stream an end"),
        (ExponentialDiscount(1.0, half_life=48).plan(), 1, "nobody has shown that an account of exponential"),
        (WEvent(1e-11, 48).plan(), 1, "promise a larger epsilon"),
    ],
)
def test_what_is_not_proved_is_refused_with_its_reason(plan, cells, words):
    with pytest.raises(InvalidInput, match=words):
        BinaryTree.for_stream(plan, name="s", steps=HOURS, begin=1, cells=cells, touched=1)
