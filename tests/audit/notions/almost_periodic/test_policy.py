"""The audit of almost-periodic policies: the worst neighbours of each notion, the real path, and planted faults in it."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import halflife as hl
from halflife import noise as grade
from halflife.audit import audit_paths
from halflife.audit.black_box import Pair, attack_scale, size_exceeded
from halflife.audit.notions.almost_periodic.policy import (
    HABITS,
    VARIATIONS,
    VARIED,
    check_reuse,
    habit_cases,
    to_changes,
)
from halflife.audit.policy.audit import audit_policy
from halflife.audit.policy.path import run_once
from halflife.mechanisms.draw import Drawing, Layers, Shared
from halflife.mechanisms.release_draw import ReleaseDraw
from publisher.town import policy_dict, write_readings
from thinning import keep

FEW = {"seconds": 600.0, "runs": 4}
WEAK = {
    "notion": "almost-periodic", "epsilon": 1.0, "period": "3 h",
    "variations": "public", "readings": "complete", "rounding": "none",
}  # fmt: skip
STRONG = {"notion": "almost-periodic", "epsilon": 1.0, "period": "3 h", "strong": True}
PROMISES = {"weak": WEAK, "strong": STRONG}


def policy_of(folder, promise, **changes):
    write_readings(folder)
    (folder / "homes.csv").write_text("home,zone\n" + "".join(f"h{i},{'ab'[i % 2]}\n" for i in range(5)))
    data = policy_dict(**changes)
    data["promise"] = promise
    del data["clock"]["end"]
    return hl.Policy.from_dict(data, folder)


def shapes():
    table = {"file": "homes.csv", "person": "home", "group": "zone"}
    yield "a day", {}, {"period": "1 day"}
    yield "a week", {}, {"period": "7 days"}
    yield "a sum", {"statistic": {"kind": "sum"}}, {}
    yield "an odd range", {"statistic": {"clip": ["0.001 kWh", "5 kWh"]}}, {}
    yield "groups", {"stream": {"groups": {"table": table}}}, {}
    yield "pushed", {"stream": {"source": None}}, {}
    yield "the wall clock", {"clock": {"zone": "Europe/London", "start": "2026-03-28"}}, {"period": "1 day"}
    yield "an end", {"clock": {"end": "2026-01-01T08:00"}}, {}


@pytest.mark.parametrize(
    "shape", keep(zip(shapes()), lambda s: s[0] in ("groups", "the wall clock", "pushed")), ids=str
)
@pytest.mark.parametrize("name", ["weak"])
def test_no_sound_policy_is_accused(tmp_path, name, shape):
    """Before, every weak one ended in a TypeError."""
    _, changes, promise = shape
    end = changes.get("clock", {}).get("end")
    policy = policy_of(tmp_path, {**PROMISES[name], **promise}, **changes)
    if end:
        data = policy.model_dump(mode="json", exclude_none=True)
        data["clock"]["end"] = end
        policy = hl.Policy.from_dict(data, tmp_path)
    verdict = audit_policy(policy, **FEW)
    assert verdict.good, [f for f in verdict.findings if f.accused]
    assert {f.how for f in verdict.findings} == {
        "sensitivity", "exact", "silence", "black box", "noise size", "observer"
    } - ({"sensitivity"} if shape[0] == "pushed" else set())  # fmt: skip


def test_strong_counts_and_renewed_noise_are_audited(tmp_path):
    count = {"kind": "count", "unit": None, "resolution": None, "clip": None, "fold": None}
    data = policy_of(tmp_path, STRONG).model_dump(mode="json", exclude_none=True)
    data["streams"][0]["statistic"] = {k: v for k, v in count.items() if v}
    assert audit_policy(hl.Policy.from_dict(data, tmp_path), **FEW).good
    over = {"notion": "exponential", "half_life": "10 days"}
    renewed = policy_of(tmp_path, {**STRONG, "renew": 2, "over": over}, clock={"late": "as-planned"})
    assert audit_policy(renewed, **FEW).good


def test_several_streams_are_run_in_turn(tmp_path):
    data = policy_of(tmp_path, STRONG).model_dump(mode="json", exclude_none=True)
    data["streams"] += [{**data["streams"][0], "name": "late", "output": "late.csv", "delay": "2 h"}]
    verdict = audit_policy(hl.Policy.from_dict(data, tmp_path), **FEW)
    assert verdict.good
    habits = next(f for f in verdict.findings if f.name.startswith("two habits"))
    assert habits.claimed == pytest.approx(1.0, rel=1e-9)


# What neighbours are charged, and what is looked at -------------------------------------------------------------------


def cases_of(policy, strong):
    """Neighbours and path by name."""
    loud = {True: ", loud", False: ""}
    return {
        f"{pair.name.split(':')[0]}{loud['epsilon' in pair.name]}": (pair, path)
        for pair, path in habit_cases(policy, strong)
    }


def test_neighbours_are_charged_a_period_once(tmp_path):
    weak, strong = (cases_of(policy_of(tmp_path, p), "strong" in p) for p in (WEAK, STRONG))
    assert list(weak) == [HABITS.name, VARIED.name, f"{HABITS.name}, loud"]
    assert list(strong) == [HABITS.name, VARIATIONS.name, f"{HABITS.name}, loud", f"{VARIATIONS.name}, loud"]
    for cases in (weak, strong):
        assert cases[HABITS.name][0].claimed == pytest.approx(1.0, rel=1e-9)
        assert cases[f"{HABITS.name}, loud"][0].claimed == pytest.approx(1.0, rel=1e-9)
    assert weak[VARIED.name][0].claimed == pytest.approx(0.5, rel=1e-9)
    assert strong[VARIATIONS.name][0].claimed == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize("readings", [None, ["0", "0.7 kWh"], ["-3", "0.05 kWh"]])
def test_weak_neighbours_have_the_same_variations(tmp_path, readings):
    """From one period to the next both populations change by the same, exactly: else a sound policy would be accused."""
    statistic = {"clip": ["0.001 kWh", "5 kWh"], "clip_readings": readings}
    for pair, _ in habit_cases(policy_of(tmp_path, WEAK, statistic=statistic), strong=False):
        width = len(pair.first) // 3
        assert np.array_equal(pair.first[width:], pair.second[width:])
        assert (pair.first[:width] != pair.second[:width]).all()
    assert pair.first[width:] == pytest.approx(0.0)
    assert pair.looked_at[:width].all()
    assert not pair.looked_at[width:].any()


def test_a_run_is_a_stretch_of_each_of_three_periods(tmp_path):
    policy = policy_of(tmp_path, WEAK)
    (_, path), *_ = habit_cases(policy, strong=False)
    seen = []

    def remember(policy, stretches, place):
        seen.append([first["mean"] for first, _ in stretches])
        return run_once(policy, stretches, place)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("halflife.audit.notions.almost_periodic.policy.run_once", remember)
        outputs = path(1, 2)
    assert seen == [[1, 4, 7]] * 2
    assert outputs.shape == (2, 9)
    assert (outputs[:, 3:] == 0).all()
    assert np.ptp(outputs[:, :3], axis=0).min() > 0
    assert to_changes(np.array([1.0, 2.0, 4.0]), [(3, 1)]).tolist() == [1.0, 1.0, 2.0]


def test_two_noises_of_one_scale_exceed_a_size_as_often_as_simulated():
    rng = np.random.default_rng(5)
    sums = np.abs(rng.laplace(size=400_000) + rng.laplace(size=400_000))
    for q in (0.5, 0.2, 0.01):
        assert (sums > size_exceeded(q, "laplace twice")).mean() == pytest.approx(q, rel=0.05)
    assert size_exceeded(0.2, "gaussian") == pytest.approx(stats.norm.isf(0.1))


def test_the_size_of_two_noises_tells_their_scale():
    rng = np.random.default_rng(6)
    pair = Pair(
        "p", np.zeros(2), np.zeros(2), np.array([3.0, 0.1]), 1.0, "laplace twice", looked_at=np.array([True, False])
    )
    for true, accused in ((3.0, False), (2.7, True)):
        noise = rng.laplace(0, true, (4, 4_000)).reshape(2, 2, 4_000).sum(axis=1)
        outputs = tuple(np.stack([row, np.zeros(4_000)], axis=1) for row in noise)
        found = attack_scale(outputs, pair, 1e-6).epsilon
        assert (found > 1.0) == accused
        assert found < 3.0 / true


# Planted faults -------------------------------------------------------------------------------------------------------


def shrink(monkeypatch, factor):
    """All noise is drawn so much smaller than it is charged."""
    draw_many = grade.draw_many
    monkeypatch.setattr(
        grade, "draw_many", lambda some: draw_many([replace(c, spread=c.spread * factor) for c in some])
    )


def accused(case, runs):
    return {f.how for f in audit_paths([case], seconds=600, runs=runs, chunk=100) if f.accused}


@pytest.mark.parametrize("name", keep(PROMISES, lambda name: name == "weak"))
def test_noise_that_is_too_small_is_accused(tmp_path, monkeypatch, name):
    """A fifth too small, which 4,000 numbers miss once in 10⁷ times; a tenth needs five times as many, which a minute has."""
    cases = cases_of(policy_of(tmp_path, {**PROMISES[name], "period": "1 day"}), name == "strong")
    shrink(monkeypatch, 0.8)
    assert accused(cases[HABITS.name], 84) == {"noise size"}


def test_a_weak_policy_is_accused_on_strong_neighbours(tmp_path):
    """It publishes changes from one period to the next exactly, so what somebody did within one period shows at once."""
    cases = cases_of(policy_of(tmp_path, WEAK), strong=True)
    assert accused(cases[f"{VARIATIONS.name}, loud"], 160) >= {"black box"}


def test_strong_noise_without_its_fresh_part_is_accused(tmp_path, monkeypatch):
    """It is charged, and not added: what somebody did within one period is published exactly."""
    cases = cases_of(policy_of(tmp_path, STRONG), strong=True)
    monkeypatch.setattr(ReleaseDraw, "_sum", lambda self, pattern, fresh: pattern)
    assert accused(cases[f"{VARIATIONS.name}, loud"], 160) >= {"black box"}


def test_reused_noise_that_is_drawn_again_is_accused(tmp_path, monkeypatch):
    """Every period would then tell a habit anew."""

    sample = Drawing._sample

    def again(self, draws):
        sample(self, draws)
        return (next(sample(self, [Layers(Shared(x.shared.price), x.fresh, x.scales)])) for x in draws)

    policy = policy_of(tmp_path, WEAK)
    assert not check_reuse(policy).accused
    monkeypatch.setattr(Drawing, "_sample", again)
    assert check_reuse(policy).accused
