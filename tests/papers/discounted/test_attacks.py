"""Attacks on homes in a discounted stream: bounds, simulation of the stream itself, and that the docs print what is computed."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import numpy as np
import pytest

from halflife import Accountant, ExponentialDiscount, HyperbolicDiscount, InvalidInput
from halflife.lab.households.readings import simulate
from halflife.mechanisms import PlannedNoise, SimulatedDraw
from halflife.papers.discounted import attacks
from halflife.papers.discounted import reproduction as paper

DOCS = Path(__file__).resolve().parents[3] / "docs" / "discounted.md"


@pytest.fixture(scope="module")
def town():
    return simulate(households=8, days=30, start=datetime.datetime(2024, 1, 8), seed=2).kwh


@pytest.fixture(scope="module")
def outcomes(town):
    return attacks.attack_data(town)


def test_every_attack_under_every_promise(outcomes):
    made = [("averaging", "a day"), ("averaging", "a week"), ("averaging", "four weeks")]
    assert attacks.attacks_in(outcomes) == [*made, ("occupancy", "a day"), ("occupancy", "a week")]
    assert len(outcomes) == 5 * attacks.promise_count()


def test_no_attack_passes_its_bound(outcomes):
    """Average home, most exposed home, the largest change of this plan, the bound of T8: each is at most the next."""
    for o in outcomes:
        steps = (0.5, o.success, o.most, o.largest_change, attacks.most_guesses(o.loss), o.bound)
        assert (np.diff(steps) >= -1e-4).all(), o
        assert o.loss <= o.allowed * (1 + 1e-9), o
        assert o.bound == pytest.approx(math.exp(o.allowed) / (1 + math.exp(o.allowed)), rel=1e-12)


def test_the_first_releases_spend_all_that_is_allowed(outcomes):
    """T8 is attained by `tight` from the first step on; exponential: ε(1 + (w − 1)(1 − α)). Later windows spend less."""
    for o in outcomes:
        if o.half_life and o.attack == "averaging":
            assert o.loss == pytest.approx(o.allowed, rel=1e-5)
            if o.promise == "exponential":
                lost = 1 - 2 ** (-1 / o.half_life)
                assert o.allowed == pytest.approx(1 + (attacks.WINDOWS[o.window] - 1) * lost, rel=1e-9)
        elif o.half_life == 48 and o.promise == "exponential":
            assert o.loss == pytest.approx(attacks.WINDOWS[o.window] * (1 - 2 ** (-1 / 48)), rel=1e-5)


def test_the_longer_the_half_life_the_worse_the_guess(outcomes):
    for promise in attacks.DISCOUNTS:
        for attack, window in attacks.attacks_in(outcomes):
            for what in ("success", "most", "largest_change", "bound"):
                half_lives, y = attacks.curve(outcomes, promise, attack, window, what)
                assert half_lives.tolist() == list(attacks.HALF_LIVES)
                assert (np.diff(y) <= 1e-5).all(), (promise, attack, window, what)
    _, away = attacks.curve(outcomes, "exponential", "occupancy", "a week")
    assert away[0] > 0.55
    assert away[-1] == pytest.approx(0.5, abs=1e-3)


def test_what_remains_of_averaging_is_the_first_release(town, outcomes):
    """`tight` spends all of ε on it, so it tells 1 − e^{−m/(2 clip)}/2 of the guesses; a cap of ε(1 − α) does away with that."""
    first = np.clip(town[:, 0], 0, attacks.CLIP_KWH)
    alone = (1 - np.exp(-np.abs(first - np.roll(first, 1)) / attacks.CLIP_KWH / 2) / 2).mean()
    _, left = attacks.curve(outcomes, "exponential", "averaging", "four weeks")
    assert left[-1] == pytest.approx(alone, abs=2e-4)
    capped = next(o for o in outcomes if "cap" in o.promise)
    whole = next(o for o in outcomes if (o.promise, o.half_life) == ("exponential", 48))
    assert (capped.window, whole.window) == ("a day", "a day")
    assert capped.success < whole.success
    assert (capped.loss, whole.loss) == pytest.approx(
        (48 * (1 - 2 ** (-1 / 48)), 1 + 47 * (1 - 2 ** (-1 / 48))), rel=1e-5
    )


@pytest.mark.parametrize("clip", [attacks.CLIP_KWH, 0.5])
def test_an_attacker_of_the_published_total(town, clip):
    """The stream itself, 40,000 times: the total with the plan's noise, minus all other homes, and the likelier candidate."""
    lanes, home = 40_000, 3
    notion = ExponentialDiscount(1.0, half_life=2)
    plan = notion.plan(clip)
    attack = attacks.averaging(np.clip(town, 0.0, clip), "a day")
    predicted = float(attacks.right_guesses(attack.moves[home] / plan.scales(48))[0])
    kwh = np.clip(town[:, :48], 0.0, clip)
    candidates = kwh[home], kwh[home - 1]
    right = []
    for truth in candidates:
        others = np.delete(kwh, home, axis=0).sum(axis=0)
        draw = SimulatedDraw([Accountant(notion)], seed=7, lanes=lanes)
        published = np.array(draw.run_batch(PlannedNoise(plan), range(1, 49), list(others + truth)))
        seen = published.reshape(48, lanes) - others[:, None]
        mine, his = (np.abs(seen - c[:, None]) / plan.scales(48)[:, None] for c in candidates)
        guess = (his - mine).sum(axis=0)
        right.append((guess > 0).mean() if truth is candidates[0] else (guess < 0).mean())
    assert float(np.mean(right)) == pytest.approx(predicted, abs=3 * 0.5 / math.sqrt(2 * lanes))
    tenth = float(attacks.right_guesses(1.1 * attack.moves[home] / plan.scales(48))[0])
    assert clip == attacks.CLIP_KWH or tenth - predicted > 3 * 0.5 / math.sqrt(2 * lanes), "a tenth would be noticed"


def test_occupancy_home_by_home(town, outcomes):
    """Each home by a loop: its day of median use, its base load, and the noise of just those steps of the hyperbolic plan."""
    scales = HyperbolicDiscount(1.0, beta=1 / 2).plan(2.0).scales(30 * 48)
    found = []
    for row in town:
        kwh = np.minimum(row, 2.0)
        uses = [kwh[48 * d : 48 * d + 48].sum() for d in range(30)]
        day = uses.index(sorted(uses)[15])
        here = slice(48 * day, 48 * day + 48)
        found.append(attacks.right_guesses(np.abs(kwh[here] - np.quantile(kwh, 0.1)) / scales[here])[0])
    _, success = attacks.curve(outcomes, "hyperbolic", "occupancy", "a day")
    _, most = attacks.curve(outcomes, "hyperbolic", "occupancy", "a day", "most")
    assert (success[0], most[0]) == pytest.approx((np.mean(found), max(found)), abs=1e-9)


def test_a_narrower_clip_helps_the_attacker(town, outcomes):
    narrow = attacks.attack_data(town, half_lives=(2,), clip=attacks.CLIP_KWH / 2)
    wide = [o for o in outcomes if o.half_life == 2]
    assert all(a.success > b.success for a, b in zip(narrow, wide, strict=False) if a.half_life)


def test_where_curves_cross_a_level():
    h, y = np.array([2.0, 4.0, 16.0]), np.array([0.9, 0.7, 0.5])
    assert attacks.crossing(h, y, 0.6) == pytest.approx(8.0)
    assert (attacks.crossing(h, y, 0.95), attacks.crossing(h, y, 0.4)) == (0.0, math.inf)


def test_crossings_lie_where_they_are_said_to(town, outcomes):
    """Computed at the crossing itself, the success is the level: interpolation is good to half a per cent."""
    at = attacks.crossing(*attacks.curve(outcomes, "exponential", "averaging", "four weeks"), 0.6)
    notion = ExponentialDiscount(1.0, half_life=at)
    attack = attacks.averaging(np.clip(town, 0.0, attacks.CLIP_KWH), "four weeks")
    found = attacks.right_guesses(attack.moves / notion.plan(attacks.CLIP_KWH).scales(1_344)).mean()
    assert found == pytest.approx(0.6, abs=0.005)


def test_too_little_to_attack_is_refused():
    for shape in ((1, 96), (3, 47)):
        with pytest.raises(InvalidInput, match="two homes and a day"):
            attacks.attack_data(np.zeros(shape))


def test_the_tables(outcomes):
    heads, lines = attacks.success_cells(outcomes, 0.25)
    assert [len(line) for line in lines] == [len(heads)] * (2 * len(attacks.SHOWN) + 4)
    one = next(o for o in outcomes if (o.promise, o.half_life) == ("exponential", 48))
    row = next(line for line in lines if line[0] == "exponential, 1 day")
    assert float(row[1].replace(",", "")) == pytest.approx(2.0 / (1 - 2 ** (-1 / 48)) / 0.025, rel=5e-3)
    assert row[2] == f"{100 * one.success:.1f} %"
    heads, lines = attacks.crossing_cells(outcomes)
    assert len(lines) == 5
    assert all(len(line) == len(heads) for line in lines)
    assert any("already" in cell for line in lines for cell in line)
    assert [line[1] for line in attacks.bound_cells(outcomes)[:2]] == ["a day", "four weeks"]


@pytest.mark.soak
def test_on_london_as_the_docs_print_it(data_folder):
    """The tables of the docs, up to a half-life of a day, computed again."""
    source = paper.real_source(data_folder)
    assert source.homes.shape == (100, 17_520)
    text = DOCS.read_text(encoding="utf-8")
    found = attacks.attack_data(source.homes, half_lives=attacks.HALF_LIVES[:6])
    assert attacks.attack_tables(found, source.mean_clipped_kwh) in text
    wide = attacks.averaging(np.clip(source.homes, 0.0, 5.0), "a year").moves
    year = attacks.right_guesses(wide / ExponentialDiscount(1.0, half_life=2).plan(5.0).scales(17_520)).mean()
    assert f"{100 * year:.1f} % of the guesses from a year" in text
