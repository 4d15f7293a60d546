"""Laplace or Gaussian noise where a policy leaves it open: by both sensitivities, for good, and said."""

from __future__ import annotations

import json
import math

import pytest

import halflife as hl
from halflife.lab.views.plan import other_words, policy_views
from halflife.notions.gaussian_dp import gaussian_mu
from halflife.policy import Policy, channels, explain, find_change, follow_ledger, ledger_facts
from halflife.publisher.preview import preview

CHAIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}
SUM = {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": [0, 5], "fold": "sum"}
ZONES = {"names": [f"z{i}" for i in range(100)], "most_per_person": 10}


def counts(groups=ZONES, **promise):
    """Counts of people by zone, of which one person may be in 10 of 100."""
    return policy([{"statistic": {"kind": "count"}, "groups": groups}], **promise)


def policy(streams, **promise):
    source = {"files": "r.csv", "time": "ts", "value": "kwh", "group": "zone"}
    made = [
        {
            "name": f"s{i}",
            "output": "-",
            "source": {k: v for k, v in source.items() if k != "group" or "groups" in s},
            **s,
        }
        for i, s in enumerate(streams)
    ]
    for stream in made:
        if stream["statistic"]["kind"] == "count":
            stream["source"] = {k: v for k, v in stream["source"].items() if k != "value"}
    return Policy.from_dict({
        "population": {"id": "town", "size": 1000, "person": "id"},
        "promise": {
            k: v for k, v in {"notion": "w-event", "w": 5, "epsilon": 1, "delta": 1e-6, **promise}.items() if v is not None
        },
        "clock": {"step": "1 h", "start": "2026-01-01"},
        "streams": made,
    })  # fmt: skip


def test_ten_of_a_hundred_groups_have_gaussian_noise():
    """4b: a standard deviation of 42.2 instead of 141.4. One person moves 20 counts by 1: Δ₁ = 20, Δ₂ = √20."""
    (stream,) = channels(counts())
    assert (stream.sensitivity.l1, stream.sensitivity.l2) == (20, pytest.approx(math.sqrt(20)))
    assert stream.plan.noise == "gaussian"
    by_hand = math.sqrt(20) * math.sqrt(5) / gaussian_mu(1.0, 1e-6)  # five releases of μ have √5 μ together
    assert stream.plan.std(1) == pytest.approx(by_hand, rel=1e-9) == pytest.approx(42.247, abs=1e-3)
    (laplace,) = channels(counts(noise="laplace"))
    assert laplace.plan.std(1) == pytest.approx(math.sqrt(2) * 20 * 5, rel=1e-4)


def test_one_number_has_laplace_noise_where_few_releases_count():
    """Where both sensitivities are the same the losses decide, as before: √2·w against √w/0.2367."""
    for w, family in ((5, "laplace"), (8, "laplace"), (10, "gaussian")):
        (stream,) = channels(policy([{"statistic": SUM}], w=w))
        assert stream.plan.noise == family
        other = {"laplace": "gaussian", "gaussian": "laplace"}[family]
        assert stream.plan.std(1) < channels(policy([{"statistic": SUM}], w=w, noise=other))[0].plan.std(1)


def test_the_choice_is_said_and_certified():
    made = counts()
    (stream,) = channels(made)
    said = "Gaussian noise, with a standard deviation of 42.25 people: Laplace noise would have 141.4 people"
    assert said in list(explain(stream))
    assert said in preview(made, clock=lambda: 1767225600.0).streams[0].reasons
    assert f"{said}." in other_words(policy_views(made)[0])
    found = stream.plan.certificate()["plan"]
    assert found["std"] == {"laplace": pytest.approx(141.42, abs=0.01), "gaussian": pytest.approx(42.247, abs=1e-3)}
    json.dumps(found)
    asked = channels(counts(noise="gaussian"))[0]
    assert not any("Laplace noise would have" in line for line in explain(asked))


def test_one_family_serves_all_streams():
    """Laplace noise if it is better in every stream, Gaussian noise if it is, or if they disagree."""
    sums, zones = {"statistic": SUM}, {"statistic": {"kind": "count"}, "groups": ZONES}
    for streams, family in (([sums, sums], "laplace"), ([zones, zones], "gaussian"), ([sums, zones], "gaussian")):
        assert [c.plan.noise for c in channels(policy(streams))] == [family] * 2


@pytest.mark.parametrize(
    "promise", [{"notion": "classical", "w": None}, {"notion": "age-dependent", "w": None, "process": CHAIN}]
)
def test_every_promise_that_knows_both_families_chooses(promise):
    for groups in (ZONES, {**ZONES, "most_per_person": 1}):
        found = {
            noise: channels(counts(groups, noise=noise, **promise))[0].plan for noise in (None, "laplace", "gaussian")
        }
        far = 1 + 17_519 * found["laplace"].request.every
        stds = {noise: plan.std(far) for noise, plan in found.items()}
        assert stds[None] == min(stds["laplace"], stds["gaussian"])


def test_a_promise_without_a_delta_or_by_a_paper_has_no_choice():
    for promise in ({"delta": 0}, {"plan": "paper"}):
        made = counts(**promise)
        assert channels(made)[0].plan.noise == "laplace"
        assert "noise" not in json.loads(ledger_facts(made)["promise"])


def test_a_ledger_remembers_the_family_and_the_policy_follows_it():
    """A ledger that remembers none was begun by a version that chose from losses alone: it goes on with Laplace noise."""
    made = counts()
    facts = ledger_facts(made)
    assert json.loads(facts["promise"])["noise"] == "gaussian"
    assert follow_ledger(made, facts) is made
    begun = json.loads(facts["promise"])
    del begun["noise"]
    before = {**facts, "promise": json.dumps(begun)}
    followed = follow_ledger(made, before)
    assert channels(followed)[0].plan.noise == "laplace"
    assert channels(followed)[0].plan.std(1) == pytest.approx(141.42, abs=0.01)
    assert ledger_facts(followed) == ledger_facts(follow_ledger(followed, before))
    assert "noise" not in json.loads(ledger_facts(followed)["promise"])
    assert find_change(before, made) is None
    assert find_change(facts, counts(noise="gaussian")) is None
    assert find_change(before, counts(noise="laplace")) is None
    assert "noise was not given and is now 'gaussian'" in find_change(before, counts(noise="gaussian"))
    assert "noise was 'gaussian' and is now 'laplace'" in find_change(facts, counts(noise="laplace"))
    laplace = {**facts, "promise": json.dumps({**begun, "noise": "laplace"})}
    assert channels(follow_ledger(made, laplace))[0].plan.noise == "laplace"
    assert follow_ledger(made, {}) is made
    assert follow_ledger(made, {"promise": "{"}) is made


def test_a_ledger_of_an_autoregressive_process_keeps_its_rules():
    """Begun before, a loss counts as that of the whole clip; weights, by which a value moves more, have these rules still."""
    process = {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 0.4}
    mean = {"statistic": {**SUM, "kind": "mean", "clip": [0, 40]}}
    made = policy([mean], notion="age-dependent", w=None, epsilon=0.1, delta=0, process=process)
    (stream,) = channels(made)
    assert made.notion.rules == 2
    assert stream.plan.scale(1) == pytest.approx(401 / (0.1 * 0.1), rel=1e-6)  # resolutions: the span over ε(1 − ρ)
    facts = ledger_facts(made)
    begun = json.loads(facts["promise"])
    assert begun["notion"].pop("rules") == 2
    begun["notion"]["process"]["span"] = 400.0  # not rounded then
    followed = follow_ledger(made, {**facts, "promise": json.dumps(begun)})
    assert followed.notion.rules == 1
    assert channels(followed)[0].plan.scale(1) == pytest.approx(40_000 / (0.1 * 0.1), rel=1e-6)
    assert find_change({**facts, "promise": json.dumps(begun)}, made) is None


def test_weights_keep_the_whole_clip(tmp_path):
    (tmp_path / "w.csv").write_text("id,weight\na,3\nb,1\n")
    weights = {"file": str(tmp_path / "w.csv"), "person": "id", "weight": "weight", "largest": "3"}
    process = {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 0.4}
    weighted = {"statistic": {**SUM, "kind": "weighted sum", "clip": [0, 40], "weights": weights}}
    made = policy([weighted], notion="age-dependent", w=None, epsilon=0.1, delta=0, process=process)
    assert made.notion.rules == 1
    (stream,) = channels(made)
    assert stream.plan.scale(1) == pytest.approx(stream.sensitivity.l1 / (0.1 * 0.1), rel=1e-6)
    account = hl.Accountant(made.notion)
    account.admit(*stream.plan_releases(5))
