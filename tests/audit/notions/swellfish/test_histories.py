"""The audit of Swellfish privacy: a second derivation that agrees with the account and a brute force, and its faults caught."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from halflife import Accountant, Release, Secret, Specification, Specifications, Swellfish
from halflife.audit import attack, audit_history, audit_paths, pair_loss, worst_loss
from halflife.audit.notions.swellfish.faults import SimulatedPath, all_at_once, plant_faults, s1_witness, witness_pair
from halflife.audit.notions.swellfish.histories import worst_secret
from halflife.specifications import neighbouring

INTERPRETATIONS = ("one-event", "one-window", "all-events")

secrets = st.builds(
    lambda power, lasts, start, more, epsilon: Secret(power, lasts, start, start + lasts - 1 + more, epsilon),
    st.sampled_from([0.5, 1.0, 3.0]), st.integers(1, 3), st.integers(1, 5), st.integers(0, 3), st.sampled_from([0.5, 1.0]),
)  # fmt: skip
households = st.lists(secrets, min_size=1, max_size=3, unique=True)


def releases_of(scales):
    return [Release(t, 1 / b, scale=b) for t, b in enumerate(scales, start=1) if math.isfinite(b)]


def brute_force(own, secret, scales, interpretation):
    """The largest Σ |change|/λ over J_s, over every combination of placements that the interpretation has."""

    def placements(s):
        return [range(a, a + s.duration) for a in range(s.start, s.end - s.duration + 2)]

    def lost(change):
        inside = range(secret.start, min(secret.end, len(scales)) + 1)
        return math.fsum(change.get(t, 0.0) / scales[t - 1] for t in inside)

    if interpretation == "one-event":
        return max(lost(dict.fromkeys(w, secret.power)) for w in placements(secret))
    if interpretation == "one-window":
        delta = Specification(own).sensitivity
        return max(lost({t: delta(t) for t in w}) for w in placements(secret))
    found = 0.0
    for chosen in itertools.product(*map(placements, own)):
        change = {}
        for s, w in zip(own, chosen, strict=True):
            for t in w:
                change[t] = change.get(t, 0.0) + s.power
        found = max(found, lost(change))
    return found


@given(
    held=st.tuples(households, households),
    scales=st.lists(st.sampled_from([1.0, 2.0, 7.0, math.inf]), min_size=3, max_size=9),
)
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_it_is_the_worst_of_all_placements(interpretation, held, scales):
    """Against every combination of placements, for the secret that loses the largest share."""
    notion = Swellfish([Specification(own, f"home {i}") for i, own in enumerate(held)], neighbours=interpretation)
    found = worst_secret(notion, releases_of(scales))
    shares = [brute_force(own, s, scales, interpretation) / s.epsilon for own in held for s in own]
    assert found.share == pytest.approx(max(shares), rel=1e-12, abs=1e-12)
    assert found.loss == pytest.approx(found.share * found.epsilon)


@given(held=households, scales=st.lists(st.sampled_from([5.0, 20.0, 70.0]), min_size=3, max_size=9))
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_both_derivations_agree(interpretation, held, scales):
    """The account and the audit, pure and Gaussian; where the account has an upper bound it is one."""
    for delta, noise in ((0.0, "laplace"), (1e-4, "gaussian")):
        notion = Swellfish(Specification(held), delta, interpretation, noise)
        history = [replace(r, noise=noise) for r in releases_of(scales)]
        account, again = Accountant.replay(notion, history).risk(), worst_loss(notion, history)
        if noise == "gaussian" and interpretation == "all-events":
            assert 0.3 * account <= again <= account * (1 + 1e-9)
        else:
            assert again == pytest.approx(account, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("interpretation", INTERPRETATIONS)
def test_laplace_noise_with_a_delta_loses_what_its_composition_says(interpretation):
    """Calibrated scales come to ε for the longest event, and no more; a tenth less noise comes to more."""
    spec = Specification([Secret(3.0, 20, 1, 60, 1.0), Secret(1.0, 2, 11, 14, 0.5)], "Elm 7")
    notion = Swellfish(spec, 1e-6, interpretation, "laplace")
    scales = notion.plan().scales(60)
    kept = worst_secret(notion, releases_of(scales))
    assert 0.9 < kept.share < 1.003 if interpretation != "all-events" else kept.share < 1.003
    if interpretation == "one-event":
        assert worst_secret(notion, releases_of(scales * 0.9)).share > 1.05


def test_exact_values_cost_nothing_outside_hiding_intervals_and_everything_within():
    notion = Swellfish(Specification([Secret(3.0, 2, 4, 8, 1.0)], "Elm 7"))
    plan = notion.plan()
    history = [r for k in range(1, 13) for r in plan.releases_at(k)]
    assert sum(r.scale == 0 for r in history) == 7
    assert not audit_history("kept", notion, history, 1.0).accused
    history[5] = Release(6, math.inf, scale=0.0)
    assert worst_loss(notion, history) == math.inf
    assert audit_history("broken", notion, history, 1.0).accused


def test_of_very_many_secrets_the_worst_is_found(monkeypatch):
    """One of a thousand asks for more than it gets: the certificate's own ranking leads to it."""
    monkeypatch.setattr("halflife.audit.notions.swellfish.histories.MOST_SECRETS", 50)
    many = [
        Specification([Secret(1.0, 2, 5 * i + 1, 5 * i + 4, 0.3 if i == 617 else 1.0)], f"h{i}") for i in range(1000)
    ]
    found = worst_secret(Swellfish(many), releases_of([2.0] * 5000))
    assert (found.household, found.loss, found.epsilon) == ("h617", 1.0, 0.3)


def test_noise_of_another_family_bounds_nothing():
    notion = Swellfish(Specification([Secret(3.0, 2, 4, 8, 1.0)]))
    strange = [replace(r, noise="gaussian") for r in releases_of([50.0] * 9)]
    assert worst_loss(notion, strange) == math.inf
    assert worst_loss(notion, strange[:3]) == 0.0, "nobody hides anything at steps 1 to 3"


def test_nothing_published_loses_nothing():
    assert worst_secret(Swellfish(s1_witness()), []).loss == 0.0


# Planted faults -----------------------------------------------------------------------------------------------------


def test_the_witness_is_a_pair_of_neighbouring_streams():
    """All but the last of the ten: `neighbouring` searches ten secrets at most."""
    nine = Specification(s1_witness().secrets[:10])
    quiet, loud = np.zeros(90), all_at_once(nine, 90)
    assert np.array_equal(loud, witness_pair("paper").second[:90])
    assert neighbouring(nine, quiet, loud, "all-events")
    assert not neighbouring(nine, quiet, loud, "one-window")


def test_theorem_8_loses_what_erratum_s1_says():
    """9.684, by the definition and by the likelihood ratio of the two streams."""
    notion, releases, claimed = plant_faults().histories["Theorem 8 of Swellfish under all-events"]
    assert claimed == 1.0
    assert worst_loss(notion, releases) == pytest.approx(3002 / 310, rel=1e-8)
    assert pair_loss(releases, all_at_once(s1_witness(), 100)) == pytest.approx(3002 / 310, rel=1e-8)
    assert worst_loss(replace(notion, neighbours="one-window"), releases) == pytest.approx(1.0, rel=1e-8)


def test_a_black_box_accuses_theorem_8_every_time():
    ((pair, path),) = plant_faults().paths.values()
    found = [attack((path(0, 16_000), path(1, 16_000)), pair, 1e-8).epsilon for _ in range(3)]
    assert min(found) > 1.1 * pair.claimed
    assert max(found) < 3 * 3002 / 310


@pytest.mark.soak
def test_a_black_box_accuses_the_witness_itself():
    """At ε = 1, with more runs."""
    pair = witness_pair("paper")
    path = SimulatedPath(pair)
    assert 1.2 < attack((path(0, 80_000), path(1, 80_000)), pair, 1e-6).epsilon < 3002 / 310


def test_the_same_streams_with_enough_noise_are_not_accused():
    ((pair, path),) = plant_faults().honest.values()
    assert np.sum((pair.second - pair.first) / pair.scales) == pytest.approx(pair.claimed, rel=1e-8)
    assert not any(f.accused for f in audit_paths([(pair, path)], runs=10_000, chunk=5_000))
    weak = SimulatedPath(replace(pair, scales=pair.scales * 0.9))
    assert any(f.accused for f in audit_paths([(pair, weak)], runs=10_000, chunk=5_000))


@pytest.mark.parametrize(
    ("name", "found"),
    [("Swellfish with durations a step short", 4 / 3), ("Theorem 9 of Swellfish without one household", 1.5)],
)
def test_other_faults_are_off_by_what_they_say(name, found):
    finding = audit_history(name, *plant_faults().histories[name])
    assert finding.accused
    assert finding.found == pytest.approx(found, rel=1e-8)


def test_plans_of_every_method_and_reading_are_not_accused():
    spec = Specifications([Specification([Secret(3.0, 2, 1, 9, 1.0), Secret(1.0, 4, 5, 20, 0.5)], "a"), s1_witness()])
    for interpretation in INTERPRETATIONS:
        notion = Swellfish(spec, neighbours=interpretation)
        for method in ("tight", "optimal", *(["paper"] if interpretation != "all-events" else [])):
            plan = notion.plan(method=method)
            worst = worst_secret(notion, [r for k in range(1, 101) for r in plan.releases_at(k)])
            assert worst.share <= 1 + 1e-9, (interpretation, method, worst)
