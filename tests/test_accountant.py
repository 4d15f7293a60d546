"""Accounts: exact spending, clear refusals, and no trace of what was refused."""

from __future__ import annotations

import math
import random
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from halflife import (
    Accountant,
    BudgetExceeded,
    Classical,
    ExponentialDiscount,
    HyperbolicDiscount,
    InvalidInput,
    Release,
    UnboundedLoss,
    WEvent,
)


@pytest.mark.parametrize("notion", [Classical(0.3), WEvent(0.3, 5)])
def test_exactly_all_of_it_can_be_spent(notion):
    account = Accountant(notion)
    account.admit(Release(1, 0.1))
    account.admit(Release(2, 0.2))
    assert account.used(2) == 1.0
    assert account.headroom(2) == 0.0
    assert account.least_scale(2, 1.0) == math.inf
    with pytest.raises(BudgetExceeded):
        account.admit(Release(3, 1e-9))


@pytest.mark.parametrize(("epsilon", "parts"), [(1.0, 10), (1.0, 1000), (0.7, 7), (3.3, 11_000), (1e-6, 100)])
def test_equal_decimal_parts_add_up_to_the_whole(epsilon, parts):
    account = Accountant(Classical(epsilon))
    account.admit(*(Release(k, epsilon / parts) for k in range(1, parts + 1)))
    assert account.used() == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(BudgetExceeded):
        account.admit(Release(parts + 1, epsilon * 1e-9))


@given(st.lists(st.floats(1e-9, 0.2), min_size=1, max_size=20))
def test_risk_is_never_below_the_exact_sum_nor_headroom_above_the_rest(losses):
    account = Accountant(Classical(4.0))
    account.admit(*(Release(k, x) for k, x in enumerate(losses, start=1)))
    exact = sum(map(Fraction, losses))
    assert exact <= Fraction(account.risk()) <= exact * (1 + Fraction(1, 2**51))
    room = account.headroom()
    assert Fraction(room) <= 4 - exact <= Fraction(room) + Fraction(1, 2**48)
    account.admit(Release(99, room))


def test_a_refusal_carries_the_numbers_and_the_next_step():
    account = Accountant(Classical(1.0))
    account.admit(Release(4, 0.75))
    with pytest.raises(BudgetExceeded) as error:
        account.admit(Release(9, 0.5))
    assert (error.value.step, error.value.risk, error.value.limit, error.value.headroom) == (9, 1.25, 1.0, 0.25)
    for part in ("step 9", "0.5", "1.25", "1", "0.25", "headroom(step)", "more noise"):
        assert part in str(error.value)


def test_a_refusal_counts_what_came_before_it_in_the_same_call():
    with pytest.raises(BudgetExceeded) as error:
        Accountant(Classical(1.0)).admit(Release(1, 0.5), Release(2, 0.9))
    assert error.value.headroom == 0.5


RUNS = st.lists(
    st.tuples(st.integers(1, 160), st.integers(1, 3), st.sampled_from([0.001, 0.002]), st.integers(0, 2)),
    min_size=1,
    max_size=4,
)
"""Runs of equal releases: how many, after how many steps without any, of which loss and age."""


def as_releases(runs):
    step, made = 0, []
    for count, gap, loss, age in runs:
        made += [Release(step + gap + k, loss, age) for k in range(count)]
        step += gap + count - 1
    return made


def outcome(admit, account):
    """What an account is after some releases; or why they were refused."""
    try:
        admit(account)
    except (BudgetExceeded, InvalidInput) as error:
        return str(error)
    return account.to_json()


@pytest.mark.parametrize(
    "notion",
    [
        WEvent(0.5, 1), WEvent(0.05, 20), WEvent(0.4, 48), WEvent(0.5, 30, reach=10), ExponentialDiscount(1.0, alpha=0.5),
        ExponentialDiscount(0.004, alpha=0.25), Classical(0.3),
    ],
    ids=str,
)  # fmt: skip
@given(runs=RUNS)
@example(runs=[(160, 1, 0.001, 0), (160, 1, 0.002, 0), (160, 2, 0.001, 1), (9, 1, 0.001, 0)])
def test_runs_are_charged_as_one_by_one(notion, runs):
    releases = as_releases(runs)

    def one_by_one(account):
        for release in releases:
            account.admit(release)

    assert outcome(lambda a: a.admit(*releases), Accountant(notion)) == outcome(one_by_one, Accountant(notion))


@pytest.mark.parametrize(
    "notion", [WEvent(1.0, 48), WEvent(1.0, 48, 1e-6), ExponentialDiscount(1.0, alpha=0.5)], ids=str
)
def test_a_run_costs_no_more_the_longer_it_is(notion, monkeypatch):
    charged, charge = [], Accountant._charge
    monkeypatch.setattr(
        Accountant, "_charge", lambda a, step, releases: charged.append(step) or charge(a, step, releases)
    )
    costs = []
    for steps in (1_000, 20_000):
        charged.clear()
        account = Accountant(notion)
        account.admit(*(Release(k, 1e-3) for k in range(1, steps + 1)))
        assert account.step == steps
        costs.append(len(charged))
    assert costs[0] == costs[1] <= 512


ERRORS = [
    ("back-dated", lambda a: a.admit(Release(4, 0.1)), InvalidInput, "step 4 comes after one of step 5"),
    ("no release", lambda a: a.admit(0.1), InvalidInput, "must be a Release, not 0.1"),
    ("risk in the past", lambda a: a.risk(4), InvalidInput, "replay the history"),
    ("step NaN", lambda a: a.risk(float("nan")), InvalidInput, "whole number, not nan"),
    ("negative age", lambda a: a.headroom(5, age=-1), InvalidInput, "age must be at least 0"),
    ("sensitivity 0", lambda a: a.least_scale(5, 0.0), InvalidInput, "sensitivity must be above 0"),
    (
        "gaussian under a pure promise",
        lambda a: a.admit(Release(6, 0.1, noise="gaussian")),
        UnboundedLoss,
        "delta above 0",
    ),
    ("exact value", lambda a: a.admit(Release(6, math.inf, scale=0.0)), UnboundedLoss, "exact value"),
    (
        "noise used twice",
        lambda a: a.admit(Release(6, 0.1, draw="v"), Release(7, 0.1, draw="v")),
        UnboundedLoss,
        "'v' was used before",
    ),
    ("too much", lambda a: a.admit(Release(6, 2.0)), BudgetExceeded, "above the promised 1"),
    ("second of two too much", lambda a: a.admit(Release(6, 0.1), Release(6, 2.0)), BudgetExceeded, "a loss of 2"),
    ("restored from nothing", lambda a: Accountant.from_json("{}"), InvalidInput, "not a halflife.account"),
    (
        "restored with an unknown notion",
        lambda a: Accountant.from_json(a.to_json().replace('"classical"', '"clasical"')),
        InvalidInput,
        "did you mean 'classical'",
    ),
    (
        "restored with a negative sum",
        lambda a: Accountant.from_json(a.to_json().replace('"0x', '"-0x')),
        InvalidInput,
        "cannot be negative",
    ),
    ("a notion of text", lambda a: Accountant("classical"), InvalidInput, "needs a notion such as"),
]


@pytest.mark.parametrize(("act", "kind", "message"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_bad_input_is_refused_and_leaves_no_trace(act, kind, message):
    account = Accountant(Classical(1.0))
    account.admit(Release(5, 0.1))
    before = account.to_json()
    with pytest.raises(kind) as error:
        act(account)
    assert message in str(error.value)
    assert account.to_json() == before


BAD_NOTIONS = [
    (lambda: Classical(0.0), "epsilon must be above 0"),
    (lambda: Classical(-1.0), "epsilon must be above 0"),
    (lambda: Classical(float("nan")), "epsilon is NaN"),
    (lambda: Classical(math.inf), "epsilon must be finite"),
    (lambda: Classical("1"), "epsilon must be a number"),
    (lambda: Classical(1.0, 1.0), "delta must be below 1"),
    (lambda: Classical(1.0, 1e-30), "cannot be certified"),
    (lambda: Classical(1.0, -0.1), "delta must be at least 0"),
    (lambda: WEvent(1.0, 0), "w must be at least 1"),
    (lambda: WEvent(1.0, 2.5), "w must be a whole number"),
    (lambda: Classical(1.0).plan(sensitivity=0.0), "sensitivity must be above 0"),
    (lambda: Classical(1.0).plan(horizon=0), "horizon must be at least 1"),
    (lambda: Classical(1.0).plan(method="tigth"), "did you mean 'tight'"),
    (lambda: Classical(1.0).plan(every=0), "every must be at least 1"),
    (lambda: Classical(1.0).plan(age=-1), "age must be at least 0"),
    (lambda: Classical(1.0).plan(noise="gauss"), "did you mean 'gaussian'"),
    (lambda: Classical(1.0).plan(method="constant"), "needs a horizon"),
    (lambda: WEvent(1.0, 4).plan(method="optimal"), "Known: constant, paper, tight"),
    (lambda: Classical(1.0).plan(horizon=10).scale(11), "beyond the plan's horizon of 10"),
    (lambda: Classical(1.0).plan(horizon=10, noise="gaussian"), "delta"),
]


@pytest.mark.parametrize(("make", "message"), BAD_NOTIONS, ids=[b[1] for b in BAD_NOTIONS])
def test_bad_parameters_are_refused(make, message):
    with pytest.raises(InvalidInput) as error:
        make()
    assert message in str(error.value)


def test_a_restored_account_remembers_which_noise_was_used():
    account = Accountant(Classical(1.0))
    account.admit(Release(1, 0.1, draw="v"))
    with pytest.raises(UnboundedLoss, match="'v' was used before"):
        Accountant.from_json(account.to_json()).admit(Release(2, 0.1, draw="v"))


def test_nothing_is_admitted_after_an_unbounded_loss():
    account = Accountant.replay(Classical(1.0), [Release(1, math.inf, scale=0.0), Release(5, 0.1)])
    assert account.step == 5
    with pytest.raises(UnboundedLoss, match="exact value"):
        account.admit(Release(6, 0.1))


def test_only_a_successor_is_adopted():
    account = Accountant(Classical(1.0))
    account.admit(Release(5, 0.1))
    copy = account.copy()
    copy.admit(Release(6, 0.2))
    for other in (Accountant(Classical(2.0)), Accountant(Classical(1.0))):
        with pytest.raises(InvalidInput, match="no successor"):
            account.adopt(other)
    account.admit(Release(5, 0.3))
    with pytest.raises(InvalidInput, match="has changed since"):
        account.adopt(copy)
    assert account.risk() == pytest.approx(0.4)


def test_a_headroom_that_forgot_the_newest_release_would_be_caught():
    account = Accountant(Classical(1.0))
    for step in range(1, 40):
        account.admit(Release(step, account.headroom(step) / 2))
    assert account.risk() <= 1.0
    assert account.headroom() == pytest.approx(2.0**-39, rel=1e-3)


@pytest.mark.parametrize(
    "notion",
    [Classical(1.0), WEvent(1.0, 48), ExponentialDiscount(1.0, alpha=0.99), HyperbolicDiscount(1.0, beta=0.1)],
    ids=lambda n: n.name,
)
def test_cost_and_memory_of_admit_do_not_grow_with_the_stream(notion):
    def bytecodes(account, step):
        count = 0

        def tracer(frame, event, arg):
            nonlocal count
            frame.f_trace_opcodes = True
            count += event == "opcode"
            return tracer

        sys.settrace(tracer)
        try:
            account.admit(Release(step, 1e-9))
        finally:
            sys.settrace(None)
        return count

    account, seen = Accountant(notion), {}
    for step in range(1, 10_001):
        account.admit(Release(step, 1e-9))
        if step in (200, 1000, 10_000):
            seen[step] = bytecodes(account.copy(), step + 1)
    assert seen[10_000] <= seen[1000] * 1.2 + 50
    assert len(account.to_json()) < 10_000


@pytest.mark.soak
def test_long_random_streams_never_break_their_promise(time_left):
    rounds = 0
    while time_left() or rounds == 0:
        rng = random.Random(rounds)
        w, steps = rng.randint(1, 60), 3000
        account, history = Accountant(WEvent(1.0, w)), []
        for step in range(1, steps):
            age = rng.choice([0, 0, 0, min(w - 1, 2)])
            room = account.headroom(step, age)
            release = Release(step, room * rng.random(), age)
            account.admit(release)
            history.append(release)
        sums = {}
        for r in history:
            sums[r.data_time] = sums.get(r.data_time, Fraction(0)) + Fraction(r.loss)
        times = range(-5, steps)
        prefix = [Fraction(0)]
        for t in times:
            prefix.append(prefix[-1] + sums.get(t, 0))
        worst = max(b - a for a, b in zip(prefix, prefix[w:], strict=False))
        assert worst <= 1 + Fraction(1, 10**11)
        rounds += 1


@pytest.mark.soak
def test_long_discounted_streams_never_under_report(time_left):
    """Random irregular histories of 20,000 releases: the hyperbolic account against the plain sum, at random steps."""
    rounds = 0
    while time_left() or rounds == 0:
        rng = np.random.default_rng(rounds)
        beta = float(10 ** rng.uniform(-6, 4))
        account = Accountant(HyperbolicDiscount(1.0, beta=beta))
        steps, losses, step = [], [], 1
        for i in range(20_000):
            step += int(rng.choice([1, 1, 1, 0, rng.integers(1, 10**6)]))
            loss = account.headroom(step) * float(rng.uniform(0, 1))
            if loss > 1e-300:
                account.admit(Release(step, loss))
                steps.append(step)
                losses.append(loss)
            if i % 2000 == 1999:
                plain = math.fsum((np.array(losses) / (1 + beta * (step - np.array(steps)))).tolist())
                assert plain * (1 - 1e-12) <= account.risk(step) <= plain * (1 + 1e-6)
        rounds += 1
