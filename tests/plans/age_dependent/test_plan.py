"""Plans under age-dependent privacy: admitted for ever, quick to make, and honest about the past."""

import math

import numpy as np
import pytest

from halflife import (
    Accountant,
    AgeDependent,
    AutoRegressive,
    EmpiricalProcess,
    GeometricMixing,
    InvalidInput,
    MarkovChain,
    Release,
)
from halflife.plans.age_dependent.plan import retrospective_peak

COIN = MarkovChain([[0.9, 0.1], [0.1, 0.9]])
DE_BRUIJN = MarkovChain([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]])
"""Two fair bits, the newer one pushed in: not reversible, and everything is forgotten after two steps."""


@pytest.mark.parametrize("eta", [2e-3, 1e-2])
def test_a_slow_chain_never_passes_its_promise_by_rounding(eta):
    """An account rounds up at every release; a slow chain adds that up, which the plan must leave room for."""
    notion = AgeDependent(1.0, MarkovChain([[1 - eta, eta], [eta, 1 - eta]]))
    account, loss = Accountant(notion), notion.plan().loss(1)
    for step in range(1, 6000):
        account.admit(Release(step, loss))
    assert 0.999 < account.risk() <= 1.0


@pytest.mark.parametrize(
    ("process", "options"),
    [
        (GeometricMixing(1.0, 0.8), {"age": 1, "every": 24, "horizon": 40}),
        (GeometricMixing(1.0, 0.5), {"every": 2000}),
        (MarkovChain([[1.0]]), {"age": 1}),
        (MarkovChain([[0.5, 0.5], [0.5, 0.5]]), {"every": 3}),
    ],
)
def test_processes_that_forget_everything_are_planned_at_once(process, options):
    plan = AgeDependent(1.0, process).plan(**options)
    assert plan.loss(1) >= 0.99
    assert max(plan.risks(200 if "horizon" not in options else 40)) <= 1 + 1e-9


@pytest.mark.diagonal
@pytest.mark.parametrize("every", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "chain",
    [COIN, DE_BRUIJN, MarkovChain([[0.8, 0.2, 0], [0.1, 0.8, 0.1], [0, 0.2, 0.8]])],
    ids=["coin", "de Bruijn", "walk"],
)
def test_the_first_line_says_how_far_the_past_is_exposed(chain, every):
    """Every step between two data times is asked for, long after it: none is above what the certificate says."""
    notion = AgeDependent(50.0, chain)
    account = Accountant(notion)
    for k in range(60):
        account.admit(Release(1 + k * every, 0.7))
    said = retrospective_peak(notion, 0.7, every)
    seen = [account.retrospective(None, about) for about in range(1 + 25 * every, 1 + 27 * every)]
    assert max(seen) <= said * (1 + 1e-9)
    assert max(seen) >= said * 0.9


@pytest.mark.parametrize(
    ("p", "every", "span"), [(0.02, 24, 24), (0.1, 24, 24), (0.1, 6, 3), (0.05, 8, 2), (0.05, 8, 8)]
)
def test_so_it_does_where_releases_cover_several_steps(p, every, span):
    notion = AgeDependent(50.0, MarkovChain([[1 - p, p], [p, 1 - p]]))
    account = Accountant(notion)
    for k in range(1, 25):
        account.admit(Release(every * k, 0.7, span=span))
    said = retrospective_peak(notion, 0.7, every, span)
    seen = [account.retrospective(None, about) for about in range(12 * every, 13 * every)]
    assert max(seen) <= said * (1 + 1e-9)
    assert max(seen) == pytest.approx(said, rel=1e-4)
    assert retrospective_peak(notion, 0.7, every, every + 1) == math.inf
    plan = AgeDependent(1.0, notion.process).plan(every=every, span=span)
    assert (
        f"grows to {retrospective_peak(plan.notion, plan.loss(1), every, span):.3g} "
        in plan.certificate()["not_protected"][0]
    )


def test_certificates_say_what_was_not_checked():
    plan = AgeDependent(1.0, COIN).plan()
    assert "never checked" in plan.certificate()["not_protected"][0]
    failed = COIN.with_check({"good": False, "verdict": "it under-reports 39 times"})
    plan = AgeDependent(1.0, failed).plan()
    assert "FAILED ITS CHECK: it under-reports 39 times" in plan.certificate()["not_protected"][0]
    assert plan.certificate()["assumptions"][1]["checked"]["good"] is False
    passed = AgeDependent(1.0, COIN.with_check({"good": True, "verdict": "no contradiction"})).plan()
    assert "no contradiction" in passed.certificate()["not_protected"][0]


def test_an_estimated_process_says_what_it_can_certify():
    chain = MarkovChain.fit(np.random.default_rng(1).integers(0, 2, 2000).astype(float), None)
    lines = AgeDependent(1.0, chain).plan(age=3).certificate()["not_protected"]
    assert "cannot be certified below" in lines[1]


def test_parts_of_a_promise_do_not_add_up():
    """Two half promises on one account pass the whole one, so no parts are given."""
    notion = AgeDependent(2.0, GeometricMixing(1.0, 0.5))
    half = AgeDependent(1.0, GeometricMixing(1.0, 0.5)).plan(age=1).loss(1)
    account = Accountant.replay(notion, [Release(k, half, 1) for k in range(2, 30) for _ in range(2)])
    assert account.risk() > 2.05
    with pytest.raises(InvalidInput, match="do not add up"):
        notion.share(0.5)
    assert notion.share(1.0) is notion


def test_an_autoregressive_account_knows_that_it_forgot():
    account = Accountant(AgeDependent(100.0, AutoRegressive(0.9, 1.0, 1.0)))
    account.admit(Release(1, 5.0))
    for k in range(1, 200):
        account.admit(Release(1 + k * 10_000, 0.1))
    with pytest.raises(InvalidInput, match="remembers data times from"):
        account.retrospective(None, 1)
    with pytest.raises(InvalidInput):
        Accountant.from_json(account.to_json().replace('"total": ', '"total": 0.0, "was": '))


def test_risks_far_away_do_not_rise_again():
    rng = np.random.default_rng(3)
    chain = MarkovChain(rng.dirichlet(np.ones(40), size=40))
    account = Accountant(AgeDependent(1.0, chain))
    account.admit(Release(1, 1.0, 40))
    assert account.risk(10**6) <= account.peak() * (1 + 1e-12)


def test_gaussian_and_laplace_plans_with_a_delta_are_admitted():
    notion = AgeDependent(1.0, COIN, delta=1e-6)
    for noise in ("laplace", "gaussian"):
        plan, account = notion.plan(noise=noise, every=12, age=3), Accountant(notion)
        for k in range(1, 1500, 12):
            account.admit(*plan.releases_at(k))
        assert account.risk() <= 1 + 1e-9
    assert math.isclose(
        notion.plan(every=12, age=3).std(1), min(notion.plan(noise=n, every=12, age=3).std(1) for n in notion.noises)
    )


def test_old_data_is_not_published_exactly_unless_that_is_asked_for():
    """p = q = 0.1, two hours old: even the exact state tells less than 1 about now, and everything about then."""
    notion = AgeDependent(1.0, COIN)
    assert COIN.amplify(math.inf, 4) < 1
    assert notion.plan(age=4, every=4).loss(1) == 4.0
    assert notion.plan(age=4, every=4, cap=50.0).loss(1) == 50.0
    assert notion.plan(age=4, every=4, cap=0.5).loss(1) == 0.5
    assert notion.plan(age=4, every=4, cap=0.5, horizon=100).loss(1) == 0.5
    with pytest.raises(InvalidInput, match="cap"):
        notion.plan(cap=0.0)


@pytest.mark.parametrize("releases", [1, 2, 4])
@pytest.mark.parametrize("left", [0.1, 0.5, 0.9])
def test_few_releases_of_a_process_known_lag_by_lag_spend_what_one_of_them_gains(left, releases):
    """4b: more than ε/n: (n − 1)·ρ + ln(1 + Δ(e^ρ − 1)) = ε, solved by itself; with one release that is K's inverse.

    At Δ = 0.1 and ε = 0.2 one release of age 5 may lose all that the cap allows, 0.8; beyond the last known lag nothing fades.
    """
    process = EmpiricalProcess([[[0.0], [left]]] * 24)
    plan = AgeDependent(0.2, process, horizon=12).plan(age=5, horizon=releases)
    low, high = 0.2 / releases, 0.8
    for _ in range(60):
        middle = (low + high) / 2
        fits = (releases - 1) * middle + math.log1p(left * math.expm1(middle)) <= 0.2
        low, high = (middle, high) if fits else (low, middle)
    assert plan.loss(1) == pytest.approx(low, rel=2e-5)
    assert plan.loss(1) > 1.001 * 0.2 / releases
    account = Accountant(plan.notion)
    account.admit(*(r for k in range(1, releases + 1) for r in plan.releases_at(k)))
    assert account.peak() <= 0.2
    beyond = AgeDependent(0.2, process, horizon=24).plan(age=5, horizon=releases)  # data turns 25 steps old at step 21
    assert beyond.loss(1) == pytest.approx(0.2 / releases, rel=1e-9)
