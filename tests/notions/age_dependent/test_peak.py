"""The worst risk from now on: where a process is known up to a last lag, and where rounding errors grow with the lag."""

import math

import numpy as np
import pytest

from halflife import Accountant, AgeDependent, BudgetExceeded, InvalidInput, Release
from halflife.processes import (
    AutoRegressive,
    EmpiricalProcess,
    GeometricMixing,
    MarkovChain,
    PeriodicMarkovChain,
    Process,
    ProcessFamily,
)
from halflife.processes.contraction import EVERYTHING


def known_to(variations):
    """A process of which single lags are known, and of each its Δ alone."""
    return EmpiricalProcess([[[0.0], [float(d)]] for d in variations])


def test_a_release_counts_in_full_again_beyond_the_last_known_lag():
    """A loss of 1 about data six steps old, known up to lag 8: 0.062 now, 1.0 three steps later."""
    notion = AgeDependent(1.0, known_to([0.0372245] * 8), horizon=8)
    account = Accountant.replay(notion, [Release(1, 1.0, age=6)])
    assert account.risk(1) == pytest.approx(0.062, abs=1e-5)
    assert account.risk(4) == account.peak(1) == pytest.approx(1.0)
    with pytest.raises(BudgetExceeded):
        Accountant(AgeDependent(0.9, notion.process, horizon=8)).admit(Release(1, 1.0, age=6))
    Accountant(AgeDependent(0.9, notion.process, horizon=3)).admit(Release(1, 1.0, age=6))


@pytest.mark.parametrize("seed", range(40))
def test_the_peak_is_the_worst_step_up_to_the_horizon(seed):
    """Lag by lag at random, several losses and ages: the peak is what looking at every later step finds."""
    rng = np.random.default_rng(seed)
    last = int(rng.integers(2, 30))
    process = known_to(rng.random(last) * rng.choice([0.05, 1.0]))
    if seed % 4 == 0:
        process = ProcessFamily([process, MarkovChain([[0.9, 0.1], [0.2, 0.8]])])
    horizon = int(rng.integers(1, last + 1))
    steps = np.sort(rng.integers(1, horizon + 1, int(rng.integers(1, 9))))
    ages = rng.integers(0, 2 * last, len(steps))
    notion = AgeDependent(100.0, process, horizon=horizon)
    account = Accountant(notion)
    account.admit(*(Release(int(s), float(rng.exponential()), int(a)) for s, a in zip(steps, ages, strict=True)))
    risks = [account.risk(s) for s in range(account.step, horizon + 1)]
    for i, step in enumerate(range(account.step, horizon + 1)):
        assert account.peak(step) == max(risks[i:])
    room = Accountant(AgeDependent(account.peak(), process, horizon=horizon))
    room.admit(*[Release(horizon, room.headroom(horizon, age), age) for age in (int(rng.integers(0, 2 * last)),)])


def chain(rng, states):
    """A transition matrix: quick, slow or nearly periodic."""
    rows = rng.dirichlet(np.full(states, rng.choice([0.2, 1.0, 5.0])), states) * 0.999 + 0.001 / states
    stay = (np.zeros((states, states)), np.eye(states), np.roll(np.eye(states), 1, 0))[rng.integers(3)]
    rows = rows if not stay.any() else 0.99 * stay + 0.01 * rows
    return (rows / rows.sum(axis=1, keepdims=True)).tolist()


PROCESSES = {
    "markov": lambda rng: MarkovChain(chain(rng, 3)),
    "periodic": lambda rng: PeriodicMarkovChain([chain(rng, 2) for _ in range(3)]),
    "population": lambda rng: ProcessFamily([MarkovChain(chain(rng, n)) for n in (2, 3, 3)]),
    "geometric": lambda rng: GeometricMixing(1 + rng.random(), float(rng.uniform(0.1, 0.999))),
    "autoregressive": lambda rng: AutoRegressive(float(rng.uniform(-0.999, 0.999)), 1.0, float(rng.uniform(0.1, 1))),
    "mixed": lambda rng: ProcessFamily([MarkovChain(chain(rng, 2)), AutoRegressive(0.9, 1.0, 1.0)]),
}
OPTIONS = ({}, {"bound": "paper"}, {"bound": "pairwise"}, {"adversary": "any-prior"}, {"delta": 1e-3})
LATER = (0, 1, 2, 3, 5, 8, 13, 21, 34, 64, 100, 257, 1000, 30_000, 10**6, 10**7)


@pytest.mark.diagonal
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", PROCESSES)
def test_no_risk_later_is_above_the_peak(kind, options):
    """Far ahead what is left is below the rounding errors, which grow with the lag: they are not reported as a rising risk."""
    tried = 0
    for seed in range(1 if "pairwise" in options.values() else 3):
        rng = np.random.default_rng(seed)
        try:
            notion = AgeDependent(100.0, PROCESSES[kind](rng), **options)
        except InvalidInput:
            continue  # nobody has proved this combination
        tried += 1
        account, step = Accountant(notion), 1
        for _ in range(5):
            step += int(rng.choice([0, 1, 2, 30]))
            noise = "gaussian" if "delta" in options and rng.random() < 0.5 else "laplace"
            account.admit(Release(step, float(rng.uniform(0, 0.5)), int(rng.choice([0, 1, 10])), noise=noise))
        risks = [account.risk(step + later) for later in LATER[: 10 if "pairwise" in options.values() else None]]
        for i, risk in enumerate(risks):
            assert max(risks[i:]) <= account.peak(step + LATER[i]) + 1e-11
            assert risk == account.peak(step + LATER[i])
    assert tried or options


def test_rounding_errors_that_grow_with_the_lag_do_not_revive_a_risk():
    """A loss of 20 about a quick cycle: 10⁶ steps later it was said to tell e^20 times the rounding error of 10⁶ products."""
    cycle = PeriodicMarkovChain([[[0.6, 0.4], [0.3, 0.7]], [[0.5, 0.5], [0.2, 0.8]]])
    for process in (
        cycle,
        ProcessFamily([MarkovChain([[0.6, 0.4], [0.3, 0.7]]), MarkovChain([[0.5, 0.5], [0.2, 0.8]])]),
    ):
        account = Accountant(AgeDependent(20.0, process, bound="paper"))
        account.admit(Release(1, 20.0))
        assert account.risk(10**6) <= account.risk(65) < 1e-3
        assert process.spread(10**6) <= process.spread(64)


class Short(Process):
    """Markov, it says, and known for two lags."""

    name, last_lag = "short", 2

    def frontier(self, t, direction="back"):
        return EVERYTHING

    def parameters(self):
        return {}


def test_a_markov_process_must_answer_for_every_lag():
    with pytest.raises(InvalidInput, match="must answer for every lag"):
        AgeDependent(1.0, Short(), horizon=2)


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_on_single_lags_keeps_its_promise_at_every_step(seed):
    """One release of age 5 cost 0.202 of 0.2, as nobody looked past the last lag; where lags allow more, more is spent."""
    rng = np.random.default_rng(seed)
    last = int(rng.integers(6, 20))
    horizon = int(rng.integers(1, last + 1))
    notion = AgeDependent(0.2, known_to(rng.random(last) * 0.3), horizon=horizon)
    for age, every in ((5, last), (0, 1), (last, 2), (2, 3)):
        plan, account = notion.plan(age=age, every=every), Accountant(notion)
        assert plan.risks(horizon).max() <= 0.2 * (1 + 1e-12)
        for k in range(1, horizon + 1):
            account.admit(*plan.releases_at(k))
        with pytest.raises(InvalidInput, match="beyond the promise's horizon"):
            plan.risks(horizon + 1)
        total = math.fsum(plan.losses(horizon).tolist())
        warning = plan.certificate()["not_protected"][1]
        assert f"after step {horizon}:" in warning
        assert f"{total:.3g}." in warning
        assert "later it only falls" not in plan.tail


def test_a_plan_on_single_lags_spends_what_its_lags_allow():
    """One release of age 5 whose data never passes the last lag: 4 ε, the most that a plan spends unless told; else ε."""
    process = known_to([0.05] * 20)
    assert AgeDependent(0.2, process, horizon=8).plan(age=5, every=8).loss(1) == 0.8
    assert AgeDependent(0.2, process, horizon=17).plan(age=5, every=17).loss(1) == pytest.approx(0.2)


@pytest.mark.parametrize("kind", PROCESSES)
def test_a_plan_with_an_end_keeps_its_promise_long_after_it(kind):
    notion = AgeDependent(0.5, PROCESSES[kind](np.random.default_rng(1)))
    plan = notion.plan(horizon=6, age=3, every=2)
    losses = np.concatenate([plan.losses(6), np.zeros(80)])
    assert notion.risks(losses, 3, "laplace").max() <= 0.5 * (1 + 1e-12)
