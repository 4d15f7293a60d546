"""PeGaSus: what its groups tell by exact probabilities, the groups it makes, what it draws, and a benchmark's errors."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from halflife import Accountant, InvalidInput, WEvent
from halflife.mechanisms import LaneDraw, ReleaseDraw
from halflife.mechanisms.pegasus import LONGEST, Pegasus, _deviate, _select
from halflife.testing import check_mechanism

ORACLES = Path(__file__).resolve().parents[3] / "shared" / "oracles"


@pytest.fixture(scope="module")
def oracles():
    if not ORACLES.is_dir():
        pytest.skip("the numbers computed elsewhere are not beside this checkout")
    return ORACLES


def below(x, scale):
    """P(Laplace noise < x)."""
    return np.where(x < 0, 0.5 * np.exp(np.minimum(x, 0) / scale), 1 - 0.5 * np.exp(-np.maximum(x, 0) / scale))


def deviate(values):
    return float(np.abs(np.array(values) - np.mean(values)).sum())


def find_probability(values, joins):
    """P(these answers), by an integral over each group's threshold, for Δ = ε_g = 1: plainly from the definition.

    joins  for every step whether it joined the group before it; None where a group begins, as the one before was closed
    """
    reach = 300 + 2 * deviate(values)
    rho = np.linspace(-reach, reach, 40_001)
    density, result, first = None, 1.0, 0
    for t, joined in enumerate([*joins, None]):
        if joined is None:
            if density is not None:
                result *= np.trapezoid(density, rho)
            density, first = np.exp(-np.abs(rho) / 4) / 8, t
            continue
        m = np.abs(5 + rho)
        d = deviate(values[first : t + 1])
        inside = below(m - d, 8) - below(-m - d, 8)
        density = density * (inside if joined else 1 - inside)
    return result


def list_answers(steps):
    """All that may be answered in so many steps: after one that does not join a group begins."""
    found = [[None]]
    for _ in range(steps - 1):
        found = [[*way, a] for way in found for a in ((None,) if way[-1] is False else (True, False))]
    return found


@pytest.mark.parametrize("values", [(0, 0, 0, 0), (0, 20, 0, 20), (0, 100, 100, 0), (0, 8, 30, 3), (0, 400, 0, 400)])
def test_groups_lose_no_more_than_their_part(values):
    """R1: exact probabilities of all answers in four steps, with one reading moved by 1, either way."""
    ways = list_answers(4)
    own = [find_probability(values, way) for way in ways]
    assert sum(own) == pytest.approx(1, abs=1e-4)
    for t, sign in itertools.product(range(4), (-1, 1)):
        moved = [v + sign * (k == t) for k, v in enumerate(values)]
        other = [find_probability(moved, way) for way in ways]
        assert max(abs(math.log(a / b)) for a, b in zip(own, other, strict=True)) <= 1 + 1e-6


def test_it_answers_with_the_probabilities_of_its_definition():
    """w = 1, ε_g = 1, four steps, 30 000 repetitions: all answers are as frequent as the integrals say."""
    values, lanes, notion = [0.0, 12.0, 0.0, 30.0], 30_000, WEvent(5.0, 1)
    pegasus, draw, seen = Pegasus(notion), LaneDraw(notion, seed=2, lanes=lanes), []
    for step, value in enumerate(values, start=1):
        draw.run(pegasus, step, np.full(lanes, value))
        seen.append((pegasus._lanes["size"].copy(), pegasus._lanes["closed"] > 0))
    for way in list_answers(4):
        told = find_probability(values, way)
        there = np.ones(lanes, dtype=bool)
        for answer, (size, closed) in zip(way, seen, strict=True):
            there &= closed if answer is False else ~closed & ((size > 1) if answer else (size == 1))
        assert there.mean() == pytest.approx(told, abs=4.5 * math.sqrt(told * (1 - told) / lanes) + 1e-4)


def test_a_step_moves_deviations_by_less_than_twice_as_much():
    rng = np.random.default_rng(1)
    for n in (2, 3, 8, 50):
        values, moves = rng.normal(0, 10, (n, 500)), rng.choice([-1.0, 0.0, 1.0], (n, 500))
        moved = np.abs(_deviate(values + moves) - _deviate(values))
        assert (moved <= 2 * (1 - 1 / n) * np.abs(moves).sum(axis=0) + 1e-9).all()
    one = np.zeros((50, 1))
    one[0] = 1.0
    assert _deviate(one)[0] == pytest.approx(2 * (1 - 1 / 50))


def test_every_step_is_charged_its_part_with_the_noise_that_is_told():
    notion = WEvent(2.0, 5)
    draw, pegasus = ReleaseDraw(Accountant(notion)), Pegasus(notion, 3.0)
    for step in range(1, 12):
        begins = pegasus._lanes is None or bool(pegasus._lanes["closed"])
        draw.run(pegasus, step, float(step))
        assert sum(r.loss for r in draw.releases) == pytest.approx(2.0 / 5, rel=1e-9)
        told = [3 * 5 / 1.6, (4 if begins else 8) * 3 * 5 / 0.4]
        assert [r.scale for r in draw.releases] == pytest.approx(told, rel=1e-6)
    assert draw.account.peak(11) == pytest.approx(2.0, rel=1e-9)


def test_outputs_are_medians_of_groups():
    """Without noise: a step far off is alone, and the one after it begins a group."""
    pegasus, outputs = Pegasus(WEvent(1.0, 1)), []
    for step, value in enumerate([0.0, 2.0, 1.0, 900.0, 902.0, 903.0, 5.0], start=1):
        outputs.append(pegasus.step(step, value, lambda *_, **__: 0.0))
    assert outputs == [0.0, 1.0, 1.0, 900.0, 902.0, 902.5, 5.0]
    assert np.isnan(_select(np.ones((3, 2)), np.array([1.0, 3.0]))).sum() == 2


def test_memory_is_bounded():
    pegasus, sizes = Pegasus(WEvent(1.0, 1)), []
    for step in range(1, 2 * LONGEST):
        pegasus.step(step, 1.0, lambda *_, **__: 0.0)
        sizes.append(float(pegasus._lanes["size"]))
    assert sizes == [*range(1, LONGEST + 1), *range(1, LONGEST)]
    assert len(pegasus._lanes["exact"]) == len(pegasus._lanes["noisy"]) == LONGEST


def test_the_benchmarks_outputs_with_the_same_draws(oracles):
    with (oracles / "golden_sine.csv").open() as file:
        draws, *rows = csv.DictReader(file)
    count = itertools.count()
    pegasus = Pegasus(WEvent(1.0, 20))

    def draw(key, sensitivity, *, loss):
        return 2 * math.sin(0.7 * next(count) + 0.3) * sensitivity / loss

    outputs = [pegasus.step(k, float(row["true"]), draw) for k, row in enumerate(rows, start=1)]
    assert next(count) == int(draws["Pegasus_grouping"])
    assert np.abs(np.array(outputs) - [float(row["Pegasus_grouping"]) for row in rows]).max() <= 1e-12 * 2000


@pytest.mark.parametrize("stream", ["const", "sine", "gen100", "gefcom_z4"])
def test_errors_are_the_benchmarks(oracles, stream):
    """Mean absolute error within 5 % of what the benchmark has over 200 repetitions, or within four standard errors."""
    truths = np.loadtxt(oracles / "streams" / f"{stream}.csv")
    with (oracles / "w_event_errors.csv").open() as file:
        rows = [r for r in csv.DictReader(file) if (r["stream"], r["mechanism"]) == (stream, "Pegasus_grouping")]
    for row in (r for r in rows if (r["truncate"], r["w"], r["eps"]) == ("0", "20", "1.0")):
        notion, lanes = WEvent(float(row["eps"]), int(row["w"])), 20
        pegasus, draw, off = Pegasus(notion), LaneDraw(notion, seed=3, lanes=lanes), np.zeros(lanes)
        for step, truth in enumerate(truths.tolist(), start=1):
            off += np.abs(draw.run(pegasus, step, np.full(lanes, truth)) - truth)
        mean, error = off.mean() / len(truths), off.std(ddof=1) / len(truths) / math.sqrt(lanes)
        allowed = max(0.05 * float(row["mae"]), 4 * math.hypot(error, float(row["mae_se"])))
        assert abs(mean - float(row["mae"])) <= allowed, row


@pytest.mark.parametrize("w", [1, 5])
def test_it_keeps_the_contract_of_mechanisms(w):
    check_mechanism(lambda: Pegasus(WEvent(1.0, w)), WEvent(1.0, w))


def test_what_it_is_not_for():
    with pytest.raises(InvalidInput, match="delta 0"):
        Pegasus(WEvent(1.0, 3, 1e-6))
    with pytest.raises(InvalidInput, match="remembers exact values"):
        Pegasus.for_stream(WEvent(1.0, 4).plan(), name="", steps=None, begin=1, cells=1, touched=1)
