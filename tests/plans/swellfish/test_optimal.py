"""The plan of least noise against a general solver on all placements, closed forms, and a solver that fails or lies."""

from __future__ import annotations

import datetime
import itertools
import sys

import numpy as np
import pytest
from scipy.optimize import minimize

from halflife import Accountant, InvalidInput, MissingExtra, Secret, Specification, Specifications, Swellfish
from halflife.errors import HalflifeError
from halflife.lab.households.appliances import generate, secrets_of
from halflife.plans.swellfish import program as swellfish_program
from halflife.plans.swellfish.optimal import keeps
from halflife.plans.swellfish.program import POWER, System, least_noise, lower_bound, program_of

INTERPRETATIONS = ("one-event", "one-window", "all-events")
NOISES = ("laplace", "gaussian")


def notion_of(specifications, interpretation="one-window", noise="laplace"):
    return Swellfish(specifications, 1e-6 if noise == "gaussian" else 0.0, interpretation, noise)


def town(households, steps, seed=3):
    table = secrets_of(generate(households, steps, datetime.datetime(2004, 1, 1), seed), seed)
    return Specifications.from_arrow(
        table.rename_columns(["what" if c == "appliance" else c for c in table.column_names])
    )


def few(seed, steps=9, households=2, secrets=3):
    """Some secrets at random, every step relevant to one at least."""
    rng = np.random.default_rng(seed)

    def one(whole):
        start, end = (1, steps) if whole else np.sort(rng.integers(1, steps + 1, 2)).tolist()
        return Secret(
            rng.uniform(0.5, 3), int(rng.integers(1, min(4, end - start + 1) + 1)), start, end, rng.uniform(0.1, 1)
        )

    return Specifications(
        [Specification([one(k == h == 0) for k in range(secrets)], f"house {h}") for h in range(households)]
    )


# The oracle ---------------------------------------------------------------------------------------------------------------


def placements(secret):
    return [range(a, a + secret.duration) for a in range(secret.start, secret.end - secret.duration + 2)]


def all_rows(notion, steps):
    """Every linear constraint Σ a_t x_t ≤ 1 of steps 1 … n, one placement (or choice of placements) at a time."""
    square = 2 if notion.noise == "gaussian" else 1
    limit = dict(zip(range(len(notion.limits)), notion.limits.tolist(), strict=True))
    number, rows = 0, []
    for household in notion.specifications:
        for s in household.secrets:
            others = [o for o in household.secrets if o.start <= s.end and s.start <= o.end]
            shared = [min(o.duration, min(o.end, s.end) - max(o.start, s.start) + 1) for o in others]
            parts = np.array([o.power * m**0.5 for o, m in zip(others, shared, strict=True)])
            weights = parts / parts.sum() if square == 2 else np.ones(len(others))
            choices = (
                itertools.product(*(placements(o) for o in others))
                if notion.neighbours == "all-events"
                else placements(s)
            )
            for choice in choices:
                row = np.zeros(steps)
                if notion.neighbours == "all-events":
                    for o, w, where in zip(others, weights, choice, strict=True):
                        for t in where:
                            row[t - 1] += o.power**square / w if s.start <= t <= s.end else 0.0
                else:
                    for t in choice:
                        row[t - 1] = (
                            s.power if notion.neighbours == "one-event" else household.sensitivity(t)
                        ) ** square
                rows.append(row / limit[number])
            number += 1
    return np.unique(np.array(rows), axis=0)


def least_by_slsqp(rows, start, power, weights=1.0, ceiling=np.inf):
    """The least Σ w x^(−r) with rows · x ≤ 1 and x ≤ ceiling, from a feasible start."""
    unit = start.copy()
    answer = minimize(
        lambda v: np.sum(weights * unit**-power * v**-power) / np.sum(weights * unit**-power),
        np.ones(len(unit)),
        jac=lambda v: -power * weights * unit**-power * v ** (-power - 1) / np.sum(weights * unit**-power),
        bounds=[(1e-6, max(1.0, ceiling / u)) for u in unit],
        constraints={"type": "ineq", "fun": lambda v: 1 - (rows * unit) @ v, "jac": lambda v: -(rows * unit)},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    v = answer.x / max(1.0, ((rows * unit) @ answer.x).max())
    return float(np.sum(weights * (unit * v) ** -power))


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_total_is_that_of_a_general_solver_with_all_placements_written_down(interpretation, noise, seed):
    notion = notion_of(few(seed), interpretation, noise)
    plan, simple = notion.plan(method="optimal"), notion.plan()
    power = POWER[noise]
    best = least_by_slsqp(all_rows(notion, 9), simple.scales(9) ** (-1 / power), power)
    total = plan.scales(9).sum()
    assert total <= simple.scales(9).sum()
    assert total <= best * (1 + 1e-5)
    if (interpretation, noise) != (
        "all-events",
        "gaussian",
    ):  # there only what is truly broken is constrained, so it may be less
        assert total >= best * (1 - 1e-5)
    assert plan.verdict()["kept"]
    assert 0 < plan.facts["gap"] < 1e-5
    assert plan.facts["gain_over_tight"] == pytest.approx(1 - total / simple.scales(9).sum(), abs=1e-9)


def test_with_unequal_blocks_and_every_second_step_it_is_the_least_of_those():
    notion = notion_of(few(7, steps=12))
    options = {"block": [1, 3, 7], "every": 2}
    plan, simple = notion.plan(method="optimal", **options), notion.plan(**options)
    rows = all_rows(notion, 12)[:, ::2]
    merged = np.stack([rows[:, :1].sum(1), rows[:, 1:3].sum(1), rows[:, 3:].sum(1)], axis=1)
    counts = np.array([1, 2, 3])
    best = least_by_slsqp(merged, 1 / simple.scales(12)[[0, 2, 6]], 1.0, counts)
    scales = plan.scales(12)
    assert np.isinf(scales[1::2]).all()
    assert scales[::2].sum() == pytest.approx(best, rel=1e-5)
    assert scales[::2].sum() < simple.scales(12)[::2].sum() * 0.999
    assert scales[::2] == pytest.approx(np.repeat(scales[[0, 2, 6]], counts), rel=1e-12)
    assert plan.verdict()["kept"]


def test_a_horizon_within_a_block_looks_no_further():
    notion = notion_of(few(7, steps=12))
    plan, simple = (notion.plan(method=method, block=4, horizon=6) for method in ("optimal", "tight"))
    rows = all_rows(notion, 12)[:, :6]
    merged = np.stack([rows[:, :4].sum(1), rows[:, 4:].sum(1)], axis=1)
    best = least_by_slsqp(merged, 1 / simple.scales(6)[[0, 4]], 1.0, np.array([4, 2]))
    assert plan.scales(6).sum() == pytest.approx(best, rel=1e-5)
    assert plan.scales(6).sum() < simple.scales(6).sum() * 0.999
    assert plan.verdict()["kept"]


def test_with_a_floor_it_is_the_least_above_the_floor_and_not_just_raised():
    notion = notion_of(few(4))
    free = notion.plan(method="optimal").scales(9)
    floor = float(np.quantile(free, 0.7))
    plan = notion.plan(method="optimal", floor=floor)
    best = least_by_slsqp(all_rows(notion, 9), 1 / notion.plan(floor=floor).scales(9), 1.0, 1.0, 1 / floor)
    assert plan.scales(9).sum() == pytest.approx(best, rel=1e-5)
    assert plan.scales(9).sum() < np.maximum(free, floor).sum() * 0.999
    assert plan.scales(9).min() >= floor
    assert plan.verdict()["kept"]


def test_a_floor_above_all_scales_is_all_there_is():
    notion = notion_of(few(7))
    floor = 2 * notion.sufficient.largest
    assert notion.plan(method="optimal", floor=floor).scales(9) == pytest.approx(np.full(9, floor), rel=1e-6)


# Closed forms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_one_event_that_fills_its_hiding_interval_has_equal_scales(interpretation):
    notion = notion_of(Specification([Secret(2.0, 5, 3, 7, 0.5)]), interpretation)
    plan = notion.plan(method="optimal")
    assert plan.scales(9) == pytest.approx([0, 0, *[2.0 * 5 / 0.5] * 5, 0, 0], rel=1e-3)
    assert plan.facts["gain_over_tight"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("noise", "power"), [("laplace", 0.5), ("gaussian", 2 / 3)])
def test_a_window_with_unequal_sensitivities_follows_their_root(noise, power):
    """Σ 1/x with Σ Δ x ≤ ε is least at λ ∝ √Δ; Σ x^(−½) with Σ Δ² x ≤ μ² at σ ∝ Δ^⅔."""
    mild = [Secret(p, 1, t, t, 1e4) for p, t in ((3.0, 2), (8.0, 3), (15.0, 4))]
    notion = notion_of(Specification([Secret(1.0, 4, 1, 4, 1.0), *mild]), "one-window", noise)
    delta = np.array([1.0, 4.0, 9.0, 16.0])
    shape = delta**power
    limit = notion.limits[notion.specifications.duration == 4][0]
    size = np.sum(delta / shape) / limit if noise == "laplace" else np.sqrt(np.sum((delta / shape) ** 2) / limit)
    plan = notion.plan(method="optimal")
    assert plan.scales(4) == pytest.approx(size * shape, rel=1e-3)
    assert plan.total()[0] < 0.9 * notion.plan().total()[0]


def test_secrets_that_share_no_step_are_settled_apart():
    kitchen = [Secret(1.0, 2, 1, 2, 1.0), Secret(3.0, 1, 2, 2, 1.0)]
    study = [Secret(1.0, 2, 101, 102, 0.1), Secret(3.0, 1, 102, 102, 0.1)]
    plan = notion_of(Specification([*kitchen, *study])).plan(method="optimal")
    assert plan.scales(102)[[0, 1, 100, 101]] == pytest.approx([3, 6, 30, 60], rel=1e-3)
    assert not plan.scales(102)[2:100].any()


# The rows and the bounds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_rows_cut_off_what_breaks_a_secret_and_nothing_that_keeps_all(interpretation, noise):
    notion = notion_of(town(3, 96), interpretation, noise)
    rules = program_of(notion, notion.plan()).rules
    rng = np.random.default_rng(5)
    size = len(rules.unit)
    bad = rng.uniform(0.5, 3, size)
    rows = rules.cuts(bad, 1.0)
    assert (rows.pair == -1).all()
    assert rows.matrix.shape[0] > 2
    assert (rows.matrix @ bad > 1).all()
    parts = rules.cuts(bad, 1.0, apart=True)
    for _ in range(20):
        good = rules.shrink(rng.uniform(0.2, 5, size) ** 2)
        assert rules.shares(good).max() <= 1 + 1e-12
        if (interpretation, noise) == ("all-events", "gaussian"):
            continue  # the rows are sufficient there, not necessary
        assert (rows.matrix @ good).max() <= 1 + 1e-9
        if interpretation == "all-events":
            secret = parts.pair // len(rules.secrets)
            assert np.bincount(secret, parts.matrix @ good).max() <= 1 + 1e-9


@pytest.mark.parametrize("noise", NOISES)
def test_parts_add_up_to_the_whole_row_which_is_the_share_or_above(noise):
    notion = notion_of(town(3, 96), "all-events", noise)
    rules = program_of(notion, notion.plan()).rules
    z = np.random.default_rng(6).uniform(0.5, 3, len(rules.unit))
    whole, parts = rules.cuts(z, 1.0).matrix @ z, rules.cuts(z, 1.0, apart=True)
    secret = parts.pair // len(rules.secrets)
    sums = np.bincount(secret, parts.matrix @ z)
    chosen = np.unique(secret)
    assert np.sort(sums[chosen]) == pytest.approx(np.sort(whole), rel=1e-9)
    shares = rules.shares(z)[chosen]
    if noise == "laplace":
        assert sums[chosen] == pytest.approx(shares, rel=1e-9)
    assert (sums[chosen] >= shares * (1 - 1e-9)).all()


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_any_prices_bound_the_least_noise_from_below(interpretation, noise):
    notion = notion_of(few(2), interpretation, noise)
    program = program_of(notion, notion.plan())
    best = program.value(least_noise(program).z)
    z = np.full(9, 3.0)
    system = System.of(program.rules.cuts(z, 0.0, apart=True), len(program.rules.secrets))
    rng = np.random.default_rng(8)
    found = [
        lower_bound(system, rng.exponential(1.0, system.matrix.shape[0]) - 0.1, program.costs, program.power)
        for _ in range(200)
    ]
    assert max(found) <= best * (1 + 1e-6)
    assert max(found) > best / 20
    assert lower_bound(system, np.full(system.matrix.shape[0], -1.0), program.costs, program.power) == 0


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_a_small_town_saves_noise_and_keeps_every_secret(interpretation, noise):
    notion = notion_of(town(6, 96), interpretation, noise)
    plan, simple = notion.plan(method="optimal"), notion.plan()
    assert plan.verdict()["kept"]
    assert keeps(plan, plan.steps)
    assert plan.total()[0] < simple.total()[0] * 0.995
    assert plan.facts["gap"] < 1e-4
    assert ((plan.scales(96) > 0) == (simple.scales(96) > 0)).all()
    account = Accountant(notion)
    for k in range(1, 25):
        account.admit(*plan.releases_at(k))


def test_scales_that_are_too_small_are_not_kept():
    notion = notion_of(few(1))
    plan = notion.plan(method="optimal")
    less = type(plan.hidden)(plan.hidden.starts, plan.hidden.values * (1 - 1e-6))
    object.__setattr__(plan, "hidden", less)
    assert not keeps(plan, 9)


# Requests -----------------------------------------------------------------------------------------------------------------


def test_a_horizon_leaves_out_what_comes_later():
    secrets = [Secret(1.0, 4, 1, 4, 1.0), Secret(5.0, 1, 3, 6, 0.1)]
    notion = notion_of(Specification(secrets), "one-event")
    short, full = notion.plan(method="optimal", horizon=2), notion.plan(method="optimal")
    assert short.scales(2) == pytest.approx([2, 2], rel=1e-4)  # only two of the four steps are ever published
    assert full.scales(4)[:2] == pytest.approx([2, 2], rel=0.05)
    assert full.scales(4)[:2].min() > 2.0 + 1e-3
    assert short.verdict()["kept"]


def test_an_age_shifts_the_scales_with_the_data():
    notion = notion_of(Specification([Secret(1.0, 2, -1, 2, 1.0), Secret(3.0, 1, 2, 2, 1.0)]))
    plan = notion.plan(method="optimal", age=2)
    assert plan.verdict()["kept"]
    assert plan.facts["variables"] == 4
    assert plan.scales(6)[4:].tolist() == [0.0, 0.0]
    assert plan.total()[0] < notion.plan(age=2).total()[0]


def test_where_nothing_hidden_is_published_there_is_nothing_to_save():
    plan = notion_of(Specification([Secret(1.0, 2, 50, 60, 1.0)])).plan(method="optimal", horizon=10)
    assert plan.scales(10).tolist() == [0.0] * 10
    assert "no step is published" in plan.source


def test_laplace_noise_with_a_delta_keeps_the_scales_of_tight_and_says_so():
    notion = Swellfish(few(1), 1e-6)
    plan = notion.plan(method="optimal")
    assert plan.scales(9).tolist() == notion.plan().scales(9).tolist()
    assert "must keep these scales" in plan.source
    assert plan.facts["gain_over_tight"] == 0


def test_options_that_are_not_known_are_refused():
    with pytest.raises(InvalidInput, match="flor"):
        notion_of(few(1)).plan(method="optimal", flor=1.0)


def test_too_many_steps_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(swellfish_program, "MOST_VARIABLES", 8)
    with pytest.raises(InvalidInput, match=r"9 scales .* shorter horizon, or blocks"):
        notion_of(few(1)).plan(method="optimal")
    assert notion_of(few(1)).plan(method="optimal", block=2).verdict()["kept"]


# The solver ---------------------------------------------------------------------------------------------------------------


def test_without_the_solver_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "clarabel", None)
    with pytest.raises(MissingExtra, match=r"halflife\[optimal\]"):
        notion_of(few(1)).plan(method="optimal")


def test_a_solver_that_fails_leaves_tight_and_an_honest_gap(monkeypatch):
    def fail(system, costs, power):
        return np.full(len(costs), np.nan), np.zeros(len(system.pairs)), np.zeros(system.matrix.shape[0])

    monkeypatch.setattr(swellfish_program, "solve", fail)
    notion = notion_of(few(1))
    plan = notion.plan(method="optimal")
    assert plan.scales(9) == pytest.approx(notion.plan().scales(9), rel=1e-8)
    assert plan.facts["gap"] >= 1.0
    assert plan.verdict()["kept"]


def test_what_cannot_be_certified_is_refused(monkeypatch):
    monkeypatch.setattr(swellfish_program.Constraints, "shrink", lambda self, z: z * 1.01)
    with pytest.raises(HalflifeError, match="could not be certified"):
        notion_of(few(1)).plan(method="optimal")


@pytest.mark.parametrize("wrong", [0.3, 7.0])
def test_a_solver_that_lies_breaks_no_secret_and_no_bound(monkeypatch, wrong):
    honest = swellfish_program.solve

    def lie(system, costs, power):
        z, sums, prices = honest(system, costs, power)
        return z * np.where(np.arange(len(z)) % 2, wrong, 1.0), sums, prices * 3 - prices.mean()

    notion = notion_of(few(1))
    true = notion.plan(method="optimal").scales(9).sum()
    monkeypatch.setattr(swellfish_program, "solve", lie)
    plan = notion.plan(method="optimal")
    total = plan.scales(9).sum()
    assert plan.verdict()["kept"]
    assert true * (1 - 1e-6) <= total <= notion.plan().scales(9).sum() * (1 + 1e-12)
    assert total * (1 - plan.facts["gap"]) <= true * (1 + 1e-9)
