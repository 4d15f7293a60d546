"""Published quantiles: exact next to without noise, one release for all of them, verified, refused where nothing is proved."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import halflife as hl
from halflife.audit.policy.audit import audit_policy
from halflife.cli.policy_report import write_policy_report
from halflife.engines import open_source
from halflife.ledger import open_ledger
from halflife.policy import PolicyError, channels
from halflife.publisher import drawing
from halflife.publisher.preview import preview
from halflife.publisher.readable import noise_bounds
from halflife.publisher.replay import QuantileReplay
from publisher.town import LOUD
from thinning import keep

QUANTILES, STEPS, HOMES = (0.1, 0.5, 0.95), 4, 200
CHAIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}
OVEN = {"power": 3, "duration": 2, "start": 3, "end": 8, "epsilon": 1}
SECRETS = {
    "notion": "swellfish", "neighbours": "one-window", "outside": "exact",
    "specifications": {"households": {"h1": [OVEN]}, "readings": 1},
}  # fmt: skip


def readings(seed=1):
    """Each home's kWh in each step; some have none, and some several readings, of which the last counts."""
    draw = random.Random(seed)
    rows = []
    for step in range(STEPS):
        for home in range(HOMES):
            for minute in range(draw.choice([0, 1, 1, 2])):
                rows.append((f"h{home}", f"2026-01-01T{step:02d}:{minute:02d}", round(draw.gammavariate(2, 0.5), 3)))
    return rows


def town(folder, epsilon=LOUD, promise=None, output="use.csv", rows=None, **parts):
    """A policy that publishes quantiles of the town's use; `stream` and `statistic` are merged into their parts."""
    lines = ["home,time,kwh", *(",".join(map(str, row)) for row in rows or readings())]
    (folder / "readings.csv").write_text("\n".join(lines) + "\n")
    (folder / "homes.csv").write_text(
        "home,where\n" + "".join(f"h{h},{'north' if h % 3 else 'south'}\n" for h in range(HOMES))
    )
    statistic = {
        "kind": "quantile", "quantiles": list(QUANTILES), "unit": "kWh", "resolution": "1 Wh", "fold": "last",
        "grid": {"low": "0", "high": "5 kWh", "bins": 100}, **parts.get("statistic", {}),
    }  # fmt: skip
    source = {"files": "readings.csv", "time": "time", "value": "kwh"}
    stream = {"name": "use", "source": source, "statistic": statistic, "output": output, **parts.get("stream", {})}
    return hl.Policy.from_dict(
        {
            "population": {"id": "town", "size": HOMES, "person": "home", **parts.get("population", {})},
            "promise": promise or {"notion": "w-event", "epsilon": epsilon, "w": 2},
            "clock": {"step": "1 h", "start": "2026-01-01", "end": f"2026-01-01T{STEPS:02d}:00"},
            "streams": [stream],
            "ledger": "town.ledger",
        },
        folder,
    )


def exact(rows, keep=lambda home: True):
    """The exact quantiles of every step: the least reading that so large a part of those with one do not exceed."""
    last = {(time[11:13], home): kwh for home, time, kwh in rows if keep(home)}
    steps = [[kwh for (hour, _), kwh in last.items() if int(hour) == step] for step in range(STEPS)]
    return np.array([np.quantile(step, QUANTILES, method="inverted_cdf") for step in steps])


def published(policy, column="value"):
    frame = pl.read_csv(policy.path("use.csv"))
    return frame[column].to_numpy()


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_next_to_without_noise_the_exact_quantiles_come_out(tmp_path, neighbours):
    policy = town(tmp_path, population={"neighbours": neighbours})
    hl.publish(policy)
    values, bands = (published(policy, c).reshape(STEPS, -1) for c in ("value", "error_band"))
    assert np.abs(values - exact(readings())).max() <= 0.05 + 1e-6, "a bin is 50 Wh wide"
    assert (np.abs(values - exact(readings())) <= bands + 1e-9).all()
    assert (bands <= 0.1).all()
    frame = pl.read_csv(policy.path("use.csv"))
    assert frame.columns == ["step", "start", "end", "quantile", "value", "error_band"]
    assert frame["quantile"].to_list() == list(QUANTILES) * STEPS
    assert hl.verify(policy).problems == ()


@pytest.mark.parametrize("output", ["use.jsonl", "use.parquet", "parts/"])
def test_every_output_is_what_the_ledger_holds(tmp_path, output):
    policy = town(tmp_path, epsilon=20.0, output=output)
    hl.publish(policy)
    assert hl.verify(policy).problems == ()
    if output.endswith("parquet"):
        assert pl.read_parquet(policy.path(output))["quantile"].to_list() == list(QUANTILES) * STEPS


def test_all_quantiles_of_a_step_are_one_release_of_the_whole_tree(tmp_path):
    policy = town(tmp_path, epsilon=1.0)
    hl.publish(policy)
    (channel,) = channels(policy)
    tree = channel.measure.tree
    assert (tree.levels, tree.branching, tree.total, tree.nodes) == (2, 10, True, 111)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        for entry in book.entries():
            (release,) = entry.releases
            assert (release.sensitivity, release.loss, release.scale) == (4.0, 0.5, pytest.approx(8.0))
            assert len(entry.noisy) == 111
            assert len(entry.value) == 2 * len(QUANTILES)


def test_the_nodes_have_the_noise_that_is_charged(tmp_path):
    """Mean |noise| of Laplace noise is its scale, 8: over 444 numbers, within 20 %."""
    policy = town(tmp_path, epsilon=1.0)
    hl.publish(policy)
    (channel,) = channels(policy)
    engine = open_source([str(tmp_path / "readings.csv")])
    totals = channel.totals(engine.aggregate(channel.question(1, STEPS)).sums, 1)
    engine.close()
    assert (totals[:, 0] == totals[:, 1:12].sum(axis=1) - 0).all() or (
        totals[:, 0] == totals[:, 1:11].sum(axis=1)
    ).all()
    assert (totals[:, 0] == totals[:, 11:].sum(axis=1)).all()
    with open_ledger(policy.ledger_url, read_only=True) as book:
        noise = np.array([entry.noisy for entry in book.entries()]) - totals
    assert np.abs(noise).mean() == pytest.approx(8.0, rel=0.2)


def test_bands_hold_what_they_should_under_real_noise(tmp_path):
    policy = town(tmp_path, epsilon=4.0)
    hl.publish(policy)
    values, bands = (published(policy, c).reshape(STEPS, -1) for c in ("value", "error_band"))
    assert (np.abs(values - exact(readings())) <= bands + 1e-9).mean() > 0.7
    assert (bands[:, 1] < 2.5).all()


def test_each_group_of_a_table_has_its_own_tree(tmp_path):
    fixed = {"table": {"file": "homes.csv", "person": "home", "group": "where"}}
    policy = town(tmp_path, stream={"groups": fixed})
    hl.publish(policy)
    (channel,) = channels(policy)
    assert channel.sensitivity.l1 == 2 * channel.measure.tree.levels
    frame = pl.read_csv(policy.path("use.csv"))
    for name, belongs in (("north", lambda h: int(h[1:]) % 3 != 0), ("south", lambda h: int(h[1:]) % 3 == 0)):
        mine = frame.filter(pl.col("group") == name)["value"].to_numpy().reshape(STEPS, -1)
        assert np.abs(mine - exact(readings(), belongs)).max() <= 0.05 + 1e-6
    assert hl.verify(policy).problems == ()


@pytest.mark.parametrize(
    "promise",
    [
        {"notion": "classical", "epsilon": 8.0},
        {"notion": "classical", "epsilon": 8.0, "delta": 1e-6, "noise": "gaussian"},
        {"notion": "exponential", "epsilon": 8.0, "half_life": "1 h"},
        {"notion": "gaussian-discount", "epsilon": 8.0, "delta": 1e-6, "beta": 0.5},
        {"notion": "age-dependent", "epsilon": 8.0, "process": CHAIN},
    ],
    ids=lambda p: p["notion"],
)
def test_promises_that_cover_histograms_cover_quantiles(tmp_path, promise):
    policy = town(tmp_path, promise=promise)
    hl.publish(policy, clock=lambda: 1_767_225_600 + 3600 * 2)
    hl.publish(policy, clock=lambda: 1_767_225_600 + 3600 * 4)
    assert hl.verify(policy).problems == ()
    (channel,) = channels(policy)
    wide = channel.measure.tree.levels
    assert wide == (3 if channel.plan.noise == "gaussian" else 2)
    assert channel.plan.sensitivity == pytest.approx((2 * wide) ** (0.5 if channel.plan.noise == "gaussian" else 1))


REFUSED = {
    "swellfish": ({"promise": SECRETS}, "secrets bound what an event adds to a sum"),
    "almost-periodic": ({"promise": {"notion": "almost-periodic", "epsilon": 1, "period": 2, "strong": True}},
                        "nor are the counts under a quantile"),
    "AR(1)": ({"promise": {"notion": "age-dependent", "epsilon": 1,
                           "process": {"name": "autoregressive", "rho": 0.9, "sigma": 1, "span": 1}}},
              "in proportion to how far a person's value moved"),
    "no quantiles": ({"statistic": {"quantiles": None}}, "statistic.quantiles: missing: which quantiles"),
    "0": ({"statistic": {"quantiles": [0, 0.5]}}, "a quantile lies between 0 and 1, not at '0'"),
    "100 %": ({"statistic": {"quantiles": ["100 %"]}}, "a quantile lies between 0 and 1, not at '100 %'"),
    "descending": ({"statistic": {"quantiles": [0.5, "25 %"]}}, "quantiles must ascend: '25 %' does not"),
    "twice": ({"statistic": {"quantiles": [0.5, "50 %"]}}, "quantiles must ascend"),
    "median": ({"statistic": {"quantiles": ["median"]}}, "a quantity must be a number"),
    "one bin": ({"statistic": {"grid": {"low": 0, "high": 5, "bins": 1}}}, "statistic.grid: a quantile is found among"),
    "odd bins": ({"statistic": {"grid": {"low": 0, "high": 5, "bins": 3}}}, "3 bins from 0 to 5 have no width of"),
    "downwards": ({"statistic": {"grid": {"low": 5, "high": 0, "bins": 5}}}, "must go from low to high"),
    "no grid": ({"statistic": {"grid": None}}, "statistic.edges: missing: a quantile needs the bounds of its bins"),
    "both": ({"statistic": {"edges": [0, 1, 2]}}, "`edges` say it already"),
    "clip": ({"statistic": {"clip": [0, 5]}}, "a quantile has no `clip`"),
    "missing": ({"statistic": {"missing": 0}}, "a quantile has no `missing`"),
    "post": ({"stream": {"post": [{"moving_average": 3}]}}, "streams.0.post: the error band of a quantile after"),
    "of a mean": ({"statistic": {"kind": "mean", "grid": None, "clip": [0, 5]}}, "a mean has no `quantiles`"),
    "grid of a mean": ({"statistic": {"kind": "mean", "quantiles": None, "clip": [0, 5]}}, "a mean has no `grid`"),
    "of a histogram": ({"statistic": {"kind": "histogram"}}, "a histogram has no `quantiles`"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proved_or_makes_no_sense_is_refused(tmp_path, name):
    parts, message = REFUSED[name]
    with pytest.raises(PolicyError) as error:
        town(tmp_path, **parts)
    assert message in str(error.value)


def test_a_histogram_may_have_a_grid_too(tmp_path):
    grid = {"low": 0, "high": 5, "bins": 5}
    policy = town(tmp_path, statistic={"kind": "histogram", "quantiles": None, "grid": grid})
    assert channels(policy)[0].bins == ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5))


def test_a_program_pushes_the_counts_and_gets_quantiles(tmp_path):
    grid = {"low": 0, "high": 4, "bins": 4}
    policy = town(tmp_path, statistic={"grid": grid}, stream={"source": None})
    with hl.Stream(policy) as stream:
        shown = stream.publish([20, 60, 100, 20], at=1)
        assert shown.value == pytest.approx([1.0, 2.2, 3.5], abs=1e-3)
        assert len(shown.error_band) == 3
        assert stream.publish([0, 0, 0, 1], at=1).value == shown.value
        with pytest.raises(hl.InvalidInput, match="4 numbers are needed, not 3"):
            stream.publish([1, 2, 3], at=2)
        assert stream.publish([None, 1e9, float("nan"), -5], at=2).value == pytest.approx([1.1, 1.5, 1.95], abs=1e-3)
    assert hl.verify(policy).problems == ()


def test_a_changed_quantile_in_the_ledger_is_found(tmp_path):
    policy = town(tmp_path, epsilon=20.0)
    hl.publish(policy)
    with open_ledger(policy.ledger_url, read_only=True) as book:
        entries = list(book.entries())
    (channel,) = channels(policy)
    replay = QuantileReplay(channel.quantiles)
    assert list(replay.find_changed(entries)) == []
    for k, by in ((0, 1e-6), (4, -1e-6)):  # a value, and an error band
        changed = entries[1].value.copy()
        changed[k] += by
        wrong = replace(entries[1], value=changed)
        assert list(replay.find_changed([entries[0], wrong])) == [wrong]
    none = replace(entries[1], value=None)
    assert list(replay.find_changed([none])) == [none]


def test_verify_works_quantiles_out_again(tmp_path, monkeypatch):
    """A publisher whose bands are half as wide: its chain of hashes is sound, and its bands are not what the counts give."""
    policy = town(tmp_path, epsilon=20.0)
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "noise_bounds", lambda entries: 0.5 * noise_bounds(entries))
        hl.publish(policy)
    (problem,) = hl.verify(policy).problems
    assert "its value is not what post-processing gives from its noisy one" in problem


def test_a_preview_tells_the_noise_of_a_rank(tmp_path):
    policy = town(tmp_path, epsilon=1.0)
    found = preview(policy).streams[0]
    tree = channels(policy)[0].measure.tree
    assert found.unit == "people"
    assert found.noise[0].std == pytest.approx(np.sqrt(2) * 8.0 * tree.rank_error)
    assert any("tree of 111 counts" in line for line in found.reasons)
    assert (found.low, found.high) == (0.0, HOMES)


@pytest.mark.parametrize("neighbours", keep(["replace-one", "add-remove"], lambda name: name == "replace-one"))
def test_the_audit_follows_the_tree_and_accuses_nothing(tmp_path, neighbours):
    policy = town(tmp_path, epsilon=1.0, population={"neighbours": neighbours}, rows=readings()[:50])
    verdict = audit_policy(policy, seconds=0.5, runs=30)
    moved = [f for f in verdict.findings if f.how == "sensitivity"]
    assert (
        max(f.found for f in moved) == channels(policy)[0].sensitivity.l1 == (4 if neighbours == "replace-one" else 2)
    )
    assert [f for f in verdict.findings if f.accused] == []


def test_status_and_check_speak_of_a_rank(tmp_path):
    policy = town(tmp_path, epsilon=1.0)
    rank = channels(policy)[0].measure.tree.rank_error
    (found,) = hl.status(policy).streams
    assert found.unit == "people"
    assert found.error == pytest.approx(8 * np.sqrt(2) * rank * np.sqrt(2 / np.pi))
    assert found.band == pytest.approx(8 * np.log(20) * rank)
    (looked,) = hl.check(policy).streams
    assert looked.noise.first == pytest.approx(8 * np.sqrt(2) * rank)
    assert (looked.noise.low, looked.noise.high) == (0, HOMES)
    assert looked.noise.mean == pytest.approx(150, rel=0.1), "three of four have a reading"
    assert "of a median's rank, standard deviation" in str(hl.check(policy))


def test_readings_beyond_the_grid_are_told_by_its_name(tmp_path):
    policy = town(tmp_path, statistic={"grid": {"low": 0, "high": 1, "bins": 10}})
    assert any("`grid`" in problem.seen for problem in hl.check(policy).problems)


def test_a_report_draws_each_quantile(tmp_path):
    fixed = {"table": {"file": "homes.csv", "person": "home", "group": "where"}}
    policy = town(tmp_path, epsilon=20.0, stream={"groups": fixed})
    hl.publish(policy)
    (tmp_path / "policy.json").write_text(json.dumps(policy.model_dump(mode="json")))
    assert write_policy_report(tmp_path / "policy.json", tmp_path / "report.html").good
    page = (tmp_path / "report.html").read_text()
    assert "All 6 quantiles, as the policy lists them" in page
    assert "quantile north, 0.95. Newest value" in page
