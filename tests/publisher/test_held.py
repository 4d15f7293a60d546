"""Streams that repeat outputs (Sample, BD, BA): from the policy to ledger, outputs, certificates, and back after any kill."""

from __future__ import annotations

import csv
import json
import math
import random
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.mechanisms import BudgetDistribution
from halflife.mechanisms.fast import Fast
from halflife.policy import channels
from halflife.publisher.replay import HeldReplay
from publisher.test_crash import EVERYWHERE
from publisher.test_vintages import at
from publisher.town import HOMES, KILLED, STEPS, make, policy_dict, read_csv, readings, run_and_die, write_readings

EPSILON, W = 300.0, 6
"""A budget that leaves little noise, so that some steps publish and others repeat."""
HELD = ("sample", "bd", "ba")


def quiet_and_loud():
    """Readings that stand still for some hours and jump in others."""
    rows = readings(seed=4)
    return [(home, time, 1.0 if int(time[11:13]) % 8 < 5 else kwh) for home, time, kwh in rows]


def town(folder, mechanism="bd", epsilon=EPSILON, **changes):
    write_readings(folder, quiet_and_loud())
    stream = {"mechanism": mechanism, **changes.pop("stream", {})}
    return make(folder, epsilon=epsilon, stream=stream, **changes)


def entries_of(policy, stream="mean"):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return list(book.entries(stream))


def expected_losses(mechanism, entries, epsilon, w):
    """What each output and each question must have cost, worked out again from which steps published: (questions, outputs)."""
    one, outputs, questions, newest, paid = epsilon / (2 * w), [], [], 0, 1
    for step, entry in enumerate(entries, start=1):
        own, first = math.isfinite(entry.spread), step == 1
        if mechanism == "sample":
            asked, cost = 0.0, epsilon
        elif mechanism == "bd":
            asked, cost = (0.0 if first else one), (epsilon / 2 - sum(outputs[max(0, step - w) :])) / 2
        else:
            absorbed = 1 if first else min(max(0, step - newest - (paid - 1)), w)
            asked, cost = (0.0 if first or not absorbed else one), absorbed * one
            newest, paid = (step, absorbed) if own else (newest, paid)
        questions.append(asked)
        outputs.append(cost if own else 0.0)
    return questions, outputs


def check_whole(policy, mechanism, epsilon=EPSILON):
    """Each step once; repeated where there is no noise of its own; what was charged is what the mechanism's rule gives."""
    entries = entries_of(policy)
    assert [e.step for e in entries] == list(range(1, STEPS + 1))
    questions, outputs = expected_losses(mechanism, entries, epsilon, W)
    for entry, asked, cost in zip(entries, questions, outputs, strict=True):
        assert [r.loss for r in entry.releases] == pytest.approx([x for x in (asked, cost) if x], rel=1e-9)
    for before, entry in pairwise(entries):
        assert math.isfinite(entry.spread) or entry.noisy.tobytes() == before.noisy.tobytes()
        assert math.isinf(entry.spread) or entry.spread == entry.releases[-1].scale
    verdict = hl.verify(policy, policy=None)
    assert verdict.problems == ()
    return entries


@pytest.mark.parametrize("mechanism", HELD)
def test_steps_publish_or_repeat_and_every_charge_follows_from_the_rule(tmp_path, mechanism):
    policy = town(tmp_path, mechanism)
    hl.publish(policy)
    entries = check_whole(policy, mechanism)
    repeated = [math.isinf(e.spread) for e in entries]
    assert 4 <= sum(repeated) <= 20, "the readings are made for both"
    rows = read_csv(policy.path("mean.csv"))
    assert [row["error_band"] == "inf" for row in rows] == repeated
    finite = [float(row["error_band"]) for row in rows if row["error_band"] != "inf"]
    scales = [e.spread for e in entries if math.isfinite(e.spread)]
    assert finite == pytest.approx([math.log(20) * s / 1000 / HOMES for s in scales], rel=1e-9)


@pytest.mark.diagonal
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("mechanism", ["bd", "ba"])
@pytest.mark.parametrize("point", EVERYWHERE)
def test_killed_at_any_point_it_goes_on_in_the_middle_of_a_window(tmp_path, point, mechanism, number):
    """What was committed is never drawn again, and losses after the kill are those of an uninterrupted run's rule."""
    policy = town(tmp_path, mechanism)
    ended = run_and_die(tmp_path, point, number)
    assert ended == KILLED or (number == 2 and point in ("ledger locked", "outputs complete", "outputs closed"))
    before = {}
    if policy.path("town.ledger").exists():
        try:
            before = {e.step: e.noisy.tobytes() for e in entries_of(policy)}
        except HalflifeError:  # killed before the tables were made
            before = {}
    lines = policy.path("mean.csv").read_bytes() if policy.path("mean.csv").exists() else b""
    hl.publish(policy)
    after = {e.step: e.noisy.tobytes() for e in check_whole(policy, mechanism)}
    assert all(after[step] == value for step, value in before.items()), "a committed value was drawn again"
    assert policy.path("mean.csv").read_bytes().startswith(lines[: lines.rfind(b"\n") + 1])


@pytest.mark.parametrize("mechanism", HELD)
def test_a_run_that_is_stopped_after_every_step_is_one_run(tmp_path, mechanism):
    policy = town(tmp_path, mechanism)
    for hour in range(1, STEPS + 1):
        hl.publish(policy, clock=at(hour))
    check_whole(policy, mechanism)


@pytest.mark.parametrize("output", ["mean.csv", "mean.jsonl", "mean.parquet", "parts/"])
def test_outputs_of_every_kind_say_where_a_value_is_repeated(tmp_path, output):
    policy = town(tmp_path, "bd", output=output)
    for hour in (7, STEPS):
        hl.publish(policy, clock=at(hour))
    entries = entries_of(policy)
    file = f"{policy.path(output)}{'/' if output == 'parts/' else ''}"
    assert hl.verify(policy.ledger_url, {"mean": file}).problems == ()
    repeated = [math.isinf(e.spread) for e in entries]
    for given in (None, policy):
        values = hl.read_published(file, given)
        assert np.isinf(values.frame["error_band"].to_numpy()).tolist() == repeated
        total = values.total()
        assert math.isinf(total.band)
        assert total.to_dict()["band"] is None
        assert f"none: {sum(repeated)} of the steps have no band" in total.covers
        known = values.combine([0.0 if r else 1.0 for r in repeated])
        assert math.isfinite(known.band), "of steps with noise of their own there is a band"
        assert not math.isnan((0.0 * total).band)
    if output.endswith("jsonl"):
        assert [row["error_band"] is None for row in map(json.loads, policy.path(output).open())] == repeated


@pytest.mark.parametrize("mechanism", HELD)
def test_gaussian_noise_under_a_delta(tmp_path, mechanism):
    """Squares of μ follow the rules that losses follow, with w times the plan's μ² for ε."""
    promise = {"delta": 1e-6, "noise": "gaussian"}
    policy = town(tmp_path, mechanism, promise=promise)
    budget = W * channels(policy)[0].plan.loss(1) ** 2
    for hour in (4, 10, STEPS):
        hl.publish(policy, clock=at(hour))
    entries = entries_of(policy)
    questions, outputs = expected_losses(mechanism, entries, budget, W)
    for entry, asked, cost in zip(entries, questions, outputs, strict=True):
        assert [r.loss**2 for r in entry.releases] == pytest.approx([x for x in (asked, cost) if x], rel=1e-9)
        assert all(r.noise == "gaussian" for r in entry.releases)
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    assert verdict.risk <= EPSILON * (1 + 1e-12)
    data = policy_dict(epsilon=EPSILON, promise=promise, stream={"mechanism": mechanism, "share": 0.5})
    data["streams"].append({**data["streams"][0], "name": "other", "output": "other.csv", "mechanism": "planned"})
    with pytest.raises(HalflifeError, match="for a policy of one stream"):
        hl.Policy.from_dict(data, tmp_path)


def test_fast_filters_its_samples_and_claims_a_band_for_none_but_the_first_of_a_block(tmp_path):
    policy = town(tmp_path, "fast", promise={"w": 12})
    for hour in (3, 4, 13, STEPS):
        hl.publish(policy, clock=at(hour))
    entries = entries_of(policy)
    assert [e.step for e in entries if math.isfinite(e.spread)] == [1, 13], "each block has one sample of its own noise"
    assert [len(e.releases) for e in entries] == [1, *[0] * 11] * 2
    assert all(e.noisy == np.trunc(entries[0].noisy) for e in entries[1:12])
    assert [r.loss for e in entries for r in e.releases] == pytest.approx([EPSILON / 2] * 2)
    assert hl.verify(policy).problems == ()
    changed = [*entries[:5], replace(entries[5], noisy=entries[5].noisy + 1), *entries[6:]]
    assert changed[5] in list(HeldReplay(Fast).find_changed(changed))


GROUPS = {
    "source": {"files": "readings.csv", "time": "time", "value": "kwh", "group": "where"},
    "groups": {"names": ["north", "south"], "most_per_person": 2},
    "statistic": {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
}


@pytest.mark.parametrize("mechanism", HELD)
def test_groups_are_published_together_or_not_at_all(tmp_path, mechanism):
    pick = random.Random(2)
    policy = town(tmp_path, mechanism, stream=GROUPS)
    with (tmp_path / "readings.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["home", "time", "kwh", "where"])
        out.writerows((*row, pick.choice(["north", "south"])) for row in quiet_and_loud())
    hl.publish(policy)
    entries = check_whole(policy, mechanism)
    assert {len(e.noisy) for e in entries} == {2}
    for before, entry in pairwise(entries):
        same = before.noisy == entry.noisy
        assert same.all() if math.isinf(entry.spread) else not same.any()
    assert all(r.sensitivity == 10_000 for e in entries for r in e.releases), "5 kWh in two groups"


def test_streams_of_other_widths_and_shares_run_side_by_side(tmp_path):
    data = policy_dict(epsilon=EPSILON)
    first = {**data["streams"][0], "share": 0.5}
    data["clock"]["end"] = "2026-01-04"
    data["streams"] = [
        {**first, "mechanism": "bd"},
        {**first, "name": "wide", "mechanism": "ba", "step": "4 h", "share": 0.25, "output": "wide.csv"},
        {**first, "name": "plain", "share": 0.25, "output": "plain.csv", "post": [{"moving_average": 3}]},
    ]
    write_readings(tmp_path, readings(steps=72))
    policy = hl.Policy.from_dict(data, tmp_path)
    wide = channels(policy)[1].held
    assert wide.notion == hl.WEvent(EPSILON * 0.25, 3), "a window of 6 hours touches at most 3 steps of 4"
    for hour in (1, 5, 6, 20, 50, 72):
        hl.publish(policy, clock=at(hour))
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    assert verdict.steps == {"mean": 72, "wide": 18, "plain": 72}
    assert verdict.risk <= EPSILON
    assert {r.span for e in entries_of(policy, "wide") for r in e.releases} == {4}


@pytest.mark.parametrize("mechanism", HELD)
def test_pushed_steps_may_be_skipped(tmp_path, mechanism):
    data = policy_dict(epsilon=EPSILON, stream={"source": None, "mechanism": mechanism})
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy) as stream:
        found = [stream.publish(2.0 + (step > 9), at=step) for step in (2, 3, 9, 10, 17, 24)]
    assert math.isfinite(found[0].error_band), "the first has an output of its own, wherever it begins"
    assert hl.verify(policy).problems == ()
    entries = entries_of(policy)
    windows = [sum(r.loss for e in entries if k < e.step <= k + W for r in e.releases) for k in range(24)]
    assert max(windows) <= EPSILON * (1 + 1e-12)


@pytest.mark.parametrize("mechanism", [*HELD, "fast", "planned"])
def test_late_steps_that_the_account_has_forgotten_are_passed_over_by_the_clock_alone(tmp_path, mechanism):
    """A stream that lags behind another loses the same steps, whichever mechanism it has and whatever it would publish."""
    data = policy_dict(epsilon=EPSILON, stream={"share": 0.5, "mechanism": mechanism})
    pushed = {**data["streams"][0], "name": "pushed", "output": "pushed.csv", "source": None, "mechanism": "planned"}
    data["streams"].append(pushed)
    write_readings(tmp_path, quiet_and_loud())
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy, "pushed") as stream:
        for step in (1, 2, 24):
            stream.publish(1.0, at=step)
    summary = hl.publish(policy)
    assert summary.passed_over == 7, "whose windows may hold data time 2, which is forgotten"
    assert [e.step for e in entries_of(policy)] == list(range(8, STEPS + 1))
    assert hl.verify(policy).problems == ()


def test_a_value_that_neither_repeats_nor_has_the_noise_of_its_release_is_noticed(tmp_path):
    policy = town(tmp_path, "bd")
    hl.publish(policy)
    entries = entries_of(policy)
    assert not list(HeldReplay(BudgetDistribution).find_changed(entries))
    repeated = next(k for k, e in enumerate(entries) if math.isinf(e.spread))
    own = next(k for k, e in enumerate(entries) if k and math.isfinite(e.spread))
    for k, wrong in [
        (repeated, {"noisy": entries[repeated].noisy * (1 + 1e-15)}),
        (repeated, {"spread": entries[0].spread * 1.1}),
        (own, {"spread": entries[own].spread * 1.1}),
        (own, {"spread": math.inf}),
        (own, {"value": entries[own].noisy}),
        (0, {"spread": math.inf}),
    ]:
        changed = [*entries[:k], replace(entries[k], **wrong), *entries[k + 1 :]]
        assert changed[k] in list(HeldReplay(BudgetDistribution).find_changed(changed)), wrong


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stream": {"post": [{"kalman": "100 Wh"}]}}, r"streams\.0\.post: bd repeats outputs"),
        ({"stream": {"post": [{"truncate": ["0", "5 kWh"]}]}}, r"streams\.0\.post: bd repeats outputs"),
        (
            {"statistic": {"kind": "quantile", "clip": None, "grid": {"low": "0", "high": "5 kWh", "bins": 8},
                           "quantiles": ["0.5"]}},
            r"streams\.0\.statistic\.kind: bd repeats outputs",
        ),
        ({"promise": {"delta": 1e-6, "noise": "laplace"}}, r"streams\.0\.mechanism: what bd spends follows no plan"),
        ({"promise": {"plan": "paper"}}, r"streams\.0\.mechanism: bd spends by its own rule"),
    ],
)  # fmt: skip
def test_what_nobody_can_say_an_error_of_is_refused_by_its_line(tmp_path, changes, words):
    stream = {"mechanism": "bd", **changes.pop("stream", {})}
    with pytest.raises(HalflifeError, match=words):
        make(tmp_path, stream=stream, **changes)


@pytest.mark.parametrize("mechanism", [*HELD, "uniform"])
def test_no_key_is_asked_for_where_no_noise_is_kept(tmp_path, mechanism):
    data = {**policy_dict(stream={"mechanism": mechanism}), "noise_key": "file:noise.key"}
    with pytest.raises(HalflifeError, match="no noise is kept"):
        hl.Policy.from_dict(data, tmp_path)


@pytest.mark.parametrize("later", ["", "2026-01-01T12:00,6\n"])
def test_a_mean_over_dated_members_is_refused(tmp_path, later):
    """Also while the table has one size: once it grew, a policy that was taken could no longer be read, with steps published."""
    (tmp_path / "size.csv").write_text(f"from,size\n2026-01-01,5\n{later}")
    with pytest.raises(HalflifeError, match="divided by the people of another one"):
        make(tmp_path, stream={"mechanism": "bd"}, population={"size": "size.csv"})


def test_what_rests_on_planned_losses_is_refused_with_the_reason(tmp_path):
    policy = town(tmp_path, "bd")
    hl.publish(policy, clock=at(12))
    with pytest.raises(HalflifeError, match="is not independent of the first"):
        hl.revise(policy, "mean", 3, clock=at(12))
    with pytest.raises(HalflifeError, match="no estimate of it with hindsight"):
        hl.hindsight(policy, ["mean"])
    with pytest.raises(HalflifeError, match="no stream of this policy has values"):
        hl.hindsight(policy)
    with pytest.raises(HalflifeError, match="what bd spends follows from what it published"):
        hl.amend(make(tmp_path, epsilon=2 * EPSILON, stream={"mechanism": "bd"}), "more", weaken=True)
    with pytest.raises(HalflifeError, match="divided by the people of another one"):
        hl.amend(make(tmp_path, epsilon=EPSILON, stream={"mechanism": "bd"}, population={"size": 6}), "one more")
    with pytest.raises(HalflifeError, match="cannot change under its name"):
        hl.amend(make(tmp_path, epsilon=EPSILON, stream={"mechanism": "ba"}), "another")
    from halflife.lab.views.plan import policy_views

    with pytest.raises(HalflifeError, match="no noise is planned"):
        policy_views(policy)


def test_columns_may_be_amended_and_it_goes_on(tmp_path):
    policy = town(tmp_path, "bd")
    hl.publish(policy, clock=at(12))
    text = (tmp_path / "readings.csv").read_text()
    (tmp_path / "readings.csv").write_text(text.replace("kwh", "energy", 1))
    source = {"files": "readings.csv", "time": "time", "value": "energy"}
    renamed = make(tmp_path, epsilon=EPSILON, stream={"mechanism": "bd", "source": source})
    hl.amend(renamed, "the meters' new software", same_meaning=True)
    hl.publish(renamed)
    check_whole(renamed, "bd")


def test_lost_steps_are_not_passed_over(tmp_path):
    policy = town(tmp_path, "bd")
    hl.publish(policy, clock=at(8))
    backup = hl.backup(policy, tmp_path / "backup")
    hl.publish(policy, clock=at(16))
    policy.path("town.ledger").unlink()
    with pytest.raises(HalflifeError, match="depends on what it saw, and that is lost"):
        hl.restore(tmp_path / "backup", policy, pass_over=True, clock=at(16))
    assert backup is not None


def test_what_is_shown_claims_no_planned_noise(tmp_path):
    policy = town(tmp_path, "bd")
    hl.publish(policy, clock=at(12))
    (stream,) = hl.status(policy, clock=at(12)).streams
    assert (stream.loss, stream.error, stream.band) == (None, None, None)
    assert stream.mechanism == "bd"
    from halflife.publisher.preview import preview

    (shown,) = preview(policy, clock=at(14)).streams
    assert (shown.due, shown.noise) == (2, ())
    assert any("all other steps repeat the output before them, without an error band" in line for line in shown.reasons)


def test_a_certificate_counts_repeated_steps_and_is_checked(tmp_path):
    policy = town(tmp_path, "ba")
    hl.publish(policy)
    made = hl.certify(policy)
    (told,) = made["certificate"]["published"]
    entries = entries_of(policy)
    own = [e.spread * math.log(20) / 1000 / HOMES for e in entries if math.isfinite(e.spread)]
    assert told["without_band"] == sum(math.isinf(e.spread) for e in entries)
    assert (told["error_band"]["least"], told["error_band"]["largest"]) == pytest.approx((min(own), max(own)))
    assert told["steps"] == STEPS, "steps that repeat at the end of a period are of it"
    assert told["plan"]["method"] == "ba"
    assert json.loads(json.dumps(made, allow_nan=False)) == made
