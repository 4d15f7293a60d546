"""Running totals from a binary tree in policies: to ledger and outputs, and back after any kill; no exact sum is ever kept."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.numerics.dyadic import find_first, find_node
from halflife.policy import channels
from halflife.postprocessing.chains import add_chain
from halflife.publisher import backfill
from halflife.publisher.nodes import read_rows
from halflife.publisher.replay import Replay
from publisher.test_crash import EVERYWHERE
from publisher.test_vintages import at
from publisher.town import (
    HOMES,
    KILLED,
    LOUD,
    STEPS,
    exact_means,
    make,
    policy_dict,
    read_csv,
    readings,
    run_and_die,
    write_readings,
)

EPSILON, W = 300.0, 6
TREE = {"mechanism": "binary-tree"}
ENDLESS = {"clock": {"end": None}}


def town(folder, epsilon=EPSILON, **changes):
    write_readings(folder)
    return make(folder, epsilon=epsilon, stream={**TREE, **changes.pop("stream", {})}, **changes)


def entries_of(policy, stream="mean"):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return list(book.entries(stream))


def lose(releases, begin, w=W):
    """What the data of w steps from `begin` on lose: each release by how many of them it covers, from its own facts alone."""
    shared = [max(0, min(r.data_time, begin + w - 1) - max(r.first_data_time, begin) + 1) for r in releases]
    one = [r.step_sensitivity or r.sensitivity for r in releases]
    return math.fsum(j * x / r.scale for j, x, r in zip(shared, one, releases, strict=True))


def check_whole(policy, epsilon=EPSILON, steps=STEPS):
    """Each step once, a node each; the worst window loses ε and no more; all that is told follows from the nodes."""
    entries, endless = entries_of(policy), channels(policy)[0].last is None
    assert [e.step for e in entries] == list(range(1, steps + 1))
    assert [len(e.releases) for e in entries] == [1] * steps
    assert [e.releases[0].span for e in entries] == [find_node(k, endless).width for k in range(1, steps + 1)]
    worst = max(lose([e.releases[0] for e in entries], begin) for begin in range(2 - W, steps + 1))
    if endless:
        assert 0.5 * epsilon < worst <= epsilon * (1 + 1e-9)
    else:
        assert worst == pytest.approx(epsilon, rel=1e-9)
    for t, entry in enumerate(entries, start=1):
        held, left = [], t
        while left:  # from the newest node back to step 1
            held.append(entries[left - 1])
            left -= find_node(left, endless).width
        total = math.fsum(float(e.noisy[0]) for e in held) / 1000 / HOMES
        assert float(entry.value[0]) == pytest.approx(total, rel=1e-12)
    assert hl.verify(policy).problems == ()
    return entries


@pytest.mark.parametrize("changes", [{}, ENDLESS], ids=["end", "endless"])
def test_a_policy_publishes_running_totals_whose_noise_is_told(tmp_path, changes):
    policy = town(tmp_path, epsilon=LOUD, **changes)
    hl.publish(policy, clock=at(9))
    hl.publish(policy, clock=at(STEPS))
    check_whole(policy, LOUD)
    rows, exact = read_csv(policy.path("mean.csv")), np.cumsum(exact_means())
    assert [float(row["value"]) for row in rows] == pytest.approx(exact.tolist(), abs=0.01)
    tree = channels(policy)[0].tree
    for step, row in enumerate(rows, start=1):
        gaussian, laplace = 1.9599, math.log(20) / math.sqrt(2)
        std = tree.std(step) / 1000 / HOMES
        assert gaussian < float(row["error_band"]) / std < laplace * (1 + 1e-6), "between one noise and very many"


@pytest.mark.parametrize("changes", [{}, pytest.param(ENDLESS, marks=pytest.mark.soak)], ids=["end", "endless"])
def test_the_noise_in_totals_has_the_size_that_is_told(tmp_path, changes):
    """Over many new ledgers. A total less the one before its newest node is that node: 6720 noises tell a scale 10 % off."""
    from halflife.audit.policy.path import PublishingPath, as_data

    policy, runs = town(tmp_path, **changes), 280
    totals = np.arange(1, STEPS + 1, dtype=np.int64)[:, None] * 700
    outputs = PublishingPath(as_data(policy), str(tmp_path), ({"mean": totals},) * 2)(0, runs)
    errors = np.hstack([np.zeros((runs, 1)), (outputs - np.cumsum(totals) / 1000 / HOMES) * 1000 * HOMES])
    tree = channels(policy)[0].tree
    before = [k - find_node(k, tree.endless).width for k in range(1, STEPS + 1)]
    scales = np.array([tree.tree.scale(k) for k in range(1, STEPS + 1)])
    assert np.mean(np.abs(errors[:, 1:] - errors[:, before]) / scales) == pytest.approx(1, abs=0.05), "four deviations"
    told = np.array([tree.std(k) for k in range(1, STEPS + 1)])
    assert np.mean(errors[:, 1:] ** 2 / told**2) == pytest.approx(1, abs=0.25)


def test_no_exact_sum_is_in_the_ledger(tmp_path):
    """Planted values whose sums are recognised anywhere: in no entry, state or byte of the ledger's files."""
    planted = [(h, t, 1.234 + 0.001 * k) for k, (h, t, _) in enumerate(readings())]
    write_readings(tmp_path, planted)
    policy = make(tmp_path, epsilon=1.0, stream=TREE)
    for hour in (3, 13, STEPS):
        hl.publish(policy, clock=at(hour))
    units = np.array([[round(1000 * x) for _, _, x in planted]]).reshape(STEPS, HOMES).sum(axis=1)
    sums = {int(units[a:b].sum()) for a in range(STEPS) for b in range(a + 1, STEPS + 1)}
    with open_ledger(policy.ledger_url, read_only=True) as book:
        text = " ".join(book.states().values())
        noisy = [float(x) for e in book.entries("mean") for x in e.noisy]
    files = b"".join(f.read_bytes() for f in tmp_path.iterdir() if f.name.startswith("town.ledger"))
    for total in sums:
        shapes = [str(total), str(total / 1000), str(total / 1000 / HOMES)]
        assert not any(f"[{x}]" in text or f"[{x}.0]" in text for x in shapes)
        assert not any(np.float64(x).tobytes() in files for x in (total, total / 1000, total / 1000 / HOMES))
    assert not {round(x) for x in noisy if x == round(x)} & sums
    state = json.loads(json.loads(json.dumps(text))[text.index('{"version": 1, "smoothers"') :])
    assert [first for first, _, _ in state["smoothers"][0]["nodes"]] == [1, 17], (
        "noisy nodes of 16 and 8 steps, and no more"
    )


@pytest.mark.diagonal
@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("point", EVERYWHERE)
def test_killed_at_any_point_it_goes_on_in_the_middle_of_a_node(tmp_path, point, number):
    policy = town(tmp_path)
    ended = run_and_die(tmp_path, point, number)
    assert ended == KILLED or (number == 2 and point in ("ledger locked", "outputs complete", "outputs closed"))
    before = {}
    if policy.path("town.ledger").exists():
        try:
            before = {e.step: e.noisy.tobytes() for e in entries_of(policy)}
        except HalflifeError:  # killed before the tables were made
            before = {}
    hl.publish(policy)
    after = {e.step: e.noisy.tobytes() for e in check_whole(policy)}
    assert all(after[step] == value for step, value in before.items()), "a committed node was drawn again"


@pytest.mark.parametrize("changes", [{}, ENDLESS], ids=["end", "endless"])
def test_a_run_that_is_stopped_between_any_steps_is_one_run(tmp_path, changes):
    policy = town(tmp_path, epsilon=LOUD, **changes)
    for hour in (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 23, STEPS):
        hl.publish(policy, clock=at(hour))
    check_whole(policy, LOUD)
    found = [float(row["value"]) for row in read_csv(policy.path("mean.csv"))]
    assert found == pytest.approx(np.cumsum(exact_means()).tolist(), abs=0.01)


def test_batches_and_reads_of_any_size_give_the_same_totals(tmp_path, monkeypatch):
    monkeypatch.setattr(backfill, "BATCH_STEPS", 3)
    monkeypatch.setattr(backfill, "READ_CELLS", 4)
    policy = town(tmp_path, epsilon=LOUD)
    summary = hl.publish(policy)
    check_whole(policy, LOUD)
    found = [float(row["value"]) for row in read_csv(policy.path("mean.csv"))]
    assert found == pytest.approx(np.cumsum(exact_means()).tolist(), abs=0.01)
    lines = [json.loads(line) for line in summary.operator_file.read_text().splitlines()]
    told = [line["steps"] for line in lines if "steps" in line and isinstance(line["steps"], list)]
    assert [step for a, b in told for step in range(a, b + 1)] == list(range(1, STEPS + 1)), "each step is tallied once"


@pytest.mark.parametrize("endless", [False, True])
@pytest.mark.parametrize("most", [1, 3, 1000])
def test_nodes_are_sums_of_their_steps_by_brute_force(tmp_path, endless, most):
    channel = channels(town(tmp_path, **(ENDLESS if endless else {})))[0]
    values, seen = np.random.default_rng(3).integers(-(2**61), 2**61, 41), []

    def read(low, high):
        seen.append(high - low + 1)
        return values[low - 1 : high, None]

    for first, last in [(1, 40), (5, 5), (8, 8), (9, 16), (33, 40), (31, 33)]:
        seen.clear()
        found = read_rows(channel, first, last, most, read, read)[:, 0].tolist()
        for step, total in zip(range(first, last + 1), found, strict=True):
            exact = sum(int(x) for x in values[step - find_node(step, endless).width : step])
            assert total == max(-(2**62), min(2**62, exact)), "held within 64 bits, whatever the data"
        assert sum(seen) == last - find_first(first, last, endless) + 1
        assert all(size <= most for size in seen[:-1])


def test_a_total_that_was_tampered_with_is_found(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy)
    entries, channel = entries_of(policy), channels(policy)[0]

    def find(changed):
        replay = Replay(add_chain((), channel.smoothers(), 1), channel.worth, channel.steps.zone)
        return list(replay.find_changed(changed))

    assert not find(entries)
    for wrong in ({"value": entries[11].value + 1e-6}, {"spread": entries[11].spread * 0.9}, {"value": None}):
        assert entries[10] not in find(changed := [*entries[:11], replace(entries[11], **wrong), *entries[12:]])
        assert changed[11] in find(changed)
    rows = policy.path("mean.csv").read_text().splitlines()
    cells = rows[12].split(",")
    cells[3] = str(float(cells[3]) + 1)
    policy.path("mean.csv").write_text("\n".join([*rows[:12], ",".join(cells), *rows[13:]]) + "\n")
    assert hl.verify(policy).problems


def test_classical_privacy_with_an_end_spends_all_of_epsilon_on_all_nodes(tmp_path):
    write_readings(tmp_path)
    data = policy_dict(epsilon=EPSILON, stream=TREE) | {"promise": {"notion": "classical", "epsilon": EPSILON}}
    policy = hl.Policy.from_dict(data, tmp_path)
    for hour in (5, STEPS):
        hl.publish(policy, clock=at(hour))
    entries = entries_of(policy)
    assert math.fsum(r.loss for e in entries for r in e.releases) == pytest.approx(EPSILON, rel=1e-9)
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(EPSILON, rel=1e-9)


def test_it_shares_a_promise_with_other_streams(tmp_path):
    data = policy_dict(epsilon=EPSILON)
    first = {**data["streams"][0], "share": 0.5}
    data["streams"] = [
        {**first, "name": "plain", "share": 0.25, "output": "plain.csv"},
        {**first, **TREE},
        {**first, "name": "decides", "share": 0.25, "mechanism": "bd", "output": "bd.csv"},
    ]
    write_readings(tmp_path)
    policy = hl.Policy.from_dict(data, tmp_path)
    for hour in (5, 8, STEPS):
        hl.publish(policy, clock=at(hour))
    releases = [e.releases[0] for e in entries_of(policy)]
    assert max(lose(releases, begin) for begin in range(2 - W, STEPS + 1)) == pytest.approx(EPSILON / 2, rel=1e-9)
    verdict = hl.verify(policy)
    assert verdict.problems == ()
    assert verdict.steps == {"plain": STEPS, "mean": STEPS, "decides": STEPS}


REFUSED = [
    ({"stream": {"post": [{"truncate": ["0", "5 kWh"]}]}}, r"streams\.0\.post: binary-tree publishes running totals"),
    ({"stream": {"source": None}}, r"streams\.0\.mechanism: binary-tree adds up steps of the data anew"),
    ({"stream": {"step": "2 h"}}, "adds up steps of the clock's width"),
    ({"stream": {"delay": "2 h"}}, "takes a delay of less than a step"),
    ({"promise": {"delta": 1e-6}}, "proved for delta 0 alone"),
    ({"promise": {"plan": "paper"}}, "not by a paper plan"),
    ({"promise": {"notion": "classical"}, "clock": {"end": None}}, "give the stream an end"),
    ({"statistic": {"kind": "histogram", "clip": None, "fold": "last", "edges": ["0", "1 kWh", "5 kWh"]}},
     "publishes one number a step"),
    ({"statistic": {"clip": ["0", "1000000000 Wh"]}, "population": {"size": 10**9}}, "would not fit 64 bits"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_nobody_has_worked_out_is_refused(tmp_path, changes, words):
    changes = {key: dict(value) for key, value in changes.items()}
    data = policy_dict(stream={**TREE, **changes.pop("stream", {})}, **changes)
    if data["promise"]["notion"] == "classical":
        del data["promise"]["w"]
    with pytest.raises(HalflifeError, match=words):
        hl.Policy.from_dict(data, tmp_path)


def test_pushed_streams_windows_of_one_step_and_dated_members_beside_it_are_refused(tmp_path):
    data = policy_dict(stream={**TREE, "share": 0.5})
    other = {**data["streams"][0], "name": "other", "output": "other.csv", "mechanism": "planned"}
    with pytest.raises(HalflifeError, match="a policy of its own"):
        hl.Policy.from_dict({**data, "streams": [*data["streams"], {**other, "source": None}]}, tmp_path)
    both = {**data, "streams": [other, *data["streams"]]}
    assert len(channels(hl.Policy.from_dict(both, tmp_path))) == 2
    with pytest.raises(HalflifeError, match="a policy of its own"):
        hl.Policy.from_dict({**both, "promise": {**data["promise"], "w": 1}}, tmp_path)
    with pytest.raises(HalflifeError, match="a policy of its own"):
        hl.Policy.from_dict({**both, "clock": {**data["clock"], "end": None}}, tmp_path)
    late = {**data["streams"][0], "start": "2026-01-01T05:00"}
    with pytest.raises(HalflifeError, match="a policy of its own"):
        hl.Policy.from_dict({**data, "streams": [other, late]}, tmp_path)
    hl.Policy.from_dict({**data, "streams": [other, {**late, "start": "2026-01-01T04:00"}]}, tmp_path)
    (tmp_path / "size.csv").write_text("from,size\n2026-01-01,5\n2026-01-01T12:00,6\n")
    with pytest.raises(HalflifeError, match="give one size"):
        make(tmp_path, stream=TREE, population={"size": "size.csv"})


def test_what_rests_on_a_plan_or_on_independent_values_is_refused_with_the_reason(tmp_path):
    policy = town(tmp_path, output="mean.parquet")
    hl.publish(policy, clock=at(12))
    with pytest.raises(HalflifeError, match="is not independent of the first"):
        hl.revise(policy, "mean", 3, clock=at(12))
    with pytest.raises(HalflifeError, match="running totals share the noise"):
        hl.hindsight(policy, ["mean"])
    for change, words in [({"epsilon": 2 * EPSILON}, "losses"), ({"population": {"size": 6}}, "members")]:
        with pytest.raises(HalflifeError, match=f"running total adds up steps from before.*{words}"):
            hl.amend(
                make(tmp_path, **{"epsilon": EPSILON, "output": "mean.parquet", "stream": TREE, **change}),
                "x",
                weaken=True,
            )
    longer = make(tmp_path, epsilon=EPSILON, output="mean.parquet", stream=TREE, clock={"end": "2026-01-03"})
    with pytest.raises(HalflifeError, match="end"):
        hl.publish(longer, clock=at(13))
    with pytest.raises(HalflifeError, match="adds up steps of the data"):
        hl.Stream(policy)
    with pytest.raises(HalflifeError, match="add up steps from before a person left"):
        hl.status(policy, left="2026-01-01T05:00", clock=at(12))
    for given in (None, policy):
        values = hl.read_published(policy.path("mean.parquet"), given)
        for refused in (values.total, values.mean, lambda values=values: values.by("day")):
            with pytest.raises(HalflifeError, match="running totals, which are not to be added up"):
                refused()
        between = values.combine([0, 0, -1, *[0] * 8, 1])
        bands = values.frame["error_band"].to_pylist()
        assert between.band == pytest.approx(bands[2] + bands[11])
    with pytest.raises(HalflifeError, match="nodes of a tree"):
        hl.read_published(policy.path("mean.parquet"), policy, raw=True)
    from halflife.lab.views.plan import policy_views

    with pytest.raises(HalflifeError, match="not a plan's"):
        policy_views(policy)


def test_lost_steps_are_not_passed_over(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(8))
    hl.backup(policy, tmp_path / "backup")
    hl.publish(policy, clock=at(16))
    policy.path("town.ledger").unlink()
    with pytest.raises(HalflifeError, match="noisy nodes of lost ones are lost"):
        hl.restore(tmp_path / "backup", policy, pass_over=True, clock=at(16))


def test_what_is_shown_is_the_trees_and_no_plans(tmp_path):
    policy = town(tmp_path)
    hl.publish(policy, clock=at(12))
    (stream,) = hl.status(policy, clock=at(12)).streams
    assert (stream.loss, stream.error, stream.band, stream.headroom) == (None, None, None, None)
    from halflife.publisher.preview import preview

    (shown,) = preview(policy, clock=at(14)).streams
    assert (shown.due, shown.noise, shown.low, shown.high) == (2, (), 0.0, 14 * 5.0)
    assert any("publishes the running total since the stream began" in line for line in shown.reasons)
    (told,) = hl.certify(policy)["certificate"]["published"]
    assert told["plan"]["method"] == "binary-tree"
    assert "repeat" not in json.dumps(told)
    checked = str(hl.check(policy))
    tree = channels(policy)[0].tree
    assert f"standard deviation {tree.std(1) / 1000 / HOMES:.3g} kWh at step 1" in checked
