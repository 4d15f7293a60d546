"""Almost-periodic promises through the publisher: one noise for each phase of the clock, kept through crashes, never shown."""

import datetime
import json
import zoneinfo

import numpy as np
import pytest

import halflife as hl
from halflife.accountant import Accountant
from halflife.ledger import open_ledger
from publisher.town import KILLED, kept_noise, policy_dict, read_csv, run_and_die, write_readings

WEAK = {
    "notion": "almost-periodic", "epsilon": 1.0, "period": "1 day",
    "variations": "public", "readings": "complete", "rounding": "none",
}  # fmt: skip
STRONG = {"notion": "almost-periodic", "epsilon": 1.0, "period": "1 day", "strong": True}


def town(folder, promise, days=4, zone="UTC", start="2026-01-01", **changes):
    """A town whose homes all read nothing, so that what is published is noise."""
    write_readings(folder, [])
    data = policy_dict(**changes)
    first = datetime.date.fromisoformat(start)
    data["promise"] = dict(promise)
    data["clock"] = {"step": "1 h", "start": start, "end": str(first + datetime.timedelta(days=days)), "zone": zone}
    (folder / "policy.yaml").write_text(json.dumps(data))
    return hl.Policy.load(folder / "policy.yaml")


def values(policy, name="mean"):
    return np.array([float(row["value"]) for row in read_csv(policy.path(f"{name}.csv"))])


def recorded(policy):
    with open_ledger(policy.ledger_url, read_only=True) as book:
        return list(book.entries()), book.states()


@pytest.mark.parametrize("promise", [WEAK, STRONG], ids=["weak", "strong"])
def test_days_cost_what_a_day_costs(tmp_path, promise):
    policy = town(tmp_path, promise, days=10)
    hl.publish(policy)
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))})
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(1.0, rel=1e-9)
    days = values(policy).reshape(10, 24)
    assert (np.ptp(days, axis=0).max() < 1e-9) == (promise is WEAK)


def test_a_restart_at_any_hour_draws_nothing_again(tmp_path):
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    for folder in (whole, pieces):
        folder.mkdir()
    policy = town(pieces, WEAK, days=2)
    for hour in (*range(1, 5), 23, 24, 25, 26, 27, 40, 47, 48, 49):
        at = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(hours=hour)
        hl.publish(policy, clock=at.timestamp)
    days = values(policy).reshape(2, 24)
    assert np.array_equal(days[0], days[1])
    assert len(set(days[0].tolist())) == 24


@pytest.mark.parametrize("point", ["noise drawn", "entries committed", "outputs written"])
def test_a_crash_keeps_the_noise(tmp_path, point):
    policy = town(tmp_path, WEAK, days=3)
    assert run_and_die(tmp_path, point, 2) == KILLED
    entries, _ = recorded(policy)
    assert len(kept_noise(policy)) == min(24, len(entries))
    hl.publish(policy)
    days = values(policy).reshape(3, 24)
    assert np.array_equal(days[0], days[1])
    assert np.array_equal(days[1], days[2])
    assert [e.noisy.tolist() for e in recorded(policy)[0][: len(entries)]] == [e.noisy.tolist() for e in entries]


@pytest.mark.parametrize("point", ["noise drawn", "in the transaction", "entries committed", "outputs written"])
def test_a_crash_keeps_the_noise_of_every_stream(tmp_path, point):
    """Two streams of one batch: either both have their noise after a crash, or neither was ever seen."""
    policy = town(tmp_path, WEAK, days=3)
    data = policy.model_dump(mode="json", exclude_none=True)
    data["streams"] += [{**data["streams"][0], "name": "late", "output": "late.csv", "delay": "3 h"}]
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    policy = hl.Policy.load(tmp_path / "policy.yaml")
    assert run_and_die(tmp_path, point, 2, batch=7) == KILLED
    before = {
        e.stream: [x.noisy.tolist() for x in recorded(policy)[0] if x.stream == e.stream] for e in recorded(policy)[0]
    }
    hl.publish(policy)
    for name in ("mean", "late"):
        days = values(policy, name).reshape(3, 24)
        assert np.array_equal(days[0], days[1])
        assert np.array_equal(days[1], days[2])
        kept = [e.noisy.tolist() for e in recorded(policy)[0] if e.stream == name]
        assert kept[: len(before.get(name, []))] == before.get(name, [])
    assert hl.verify(policy.ledger_url).problems == ()


def test_phases_follow_the_wall_clock_over_clock_changes(tmp_path):
    """London, 2026: 29 March has 23 hours and 25 October 25; every hour of the day keeps its noise."""
    for start in ("2026-03-27", "2026-10-23"):
        folder = tmp_path / start
        folder.mkdir()
        policy = town(folder, WEAK, days=5, zone="Europe/London", start=start)
        hl.publish(policy, clock=lambda: datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp())
        rows, zone = read_csv(policy.path("mean.csv")), zoneinfo.ZoneInfo("Europe/London")
        assert len(rows) == 5 * 24 + (-1 if "03" in start else 1)
        by_hour: dict[int, set[str]] = {}
        for row in rows:
            local = datetime.datetime.fromisoformat(row["start"]).astimezone(zone)
            by_hour.setdefault(local.hour, set()).add(row["value"])
        assert sorted(by_hour) == list(range(24))
        assert all(len(found) == 1 for found in by_hour.values())
        assert hl.verify(policy.ledger_url).risk == pytest.approx(1.0, rel=1e-9)


@pytest.mark.diagonal
@pytest.mark.parametrize("promise", [WEAK, STRONG], ids=["weak", "strong"])
@pytest.mark.parametrize("start", ["2026-03-27", "2026-10-23"])
def test_the_account_knows_the_clock_of_the_policy(tmp_path, start, promise):
    """A name for 02:00 is used for 02:00 on both sides of a clock change; counted in steps it would have no bound."""
    policy = town(tmp_path, promise, days=5, zone="Europe/London", start=start)
    far = datetime.datetime(2027, 1, 1, tzinfo=datetime.UTC).timestamp()
    hl.publish(policy, clock=lambda: far)
    entries, states = recorded(policy)
    saved = json.loads(states["account"])
    assert saved["notion"]["clock"]["zone"] == "Europe/London"
    releases = [r for e in entries for r in e.releases]
    notion = Accountant.from_json(states["account"]).notion
    assert Accountant.replay(notion, releases).risk() == pytest.approx(1.0, rel=1e-6)
    counted_in_steps = hl.AlmostPeriodic(1.0, 24, strong=promise is STRONG)
    assert Accountant.replay(counted_in_steps, releases).risk() == float("inf")


def test_a_week_has_a_phase_for_each_of_its_hours(tmp_path):
    policy = town(tmp_path, {**WEAK, "period": "7 days"}, days=15, start="2026-01-02")
    hl.publish(policy)
    found = values(policy)
    assert np.array_equal(found[:168], found[168:336])
    assert len(set(found[:168].tolist())) == 168


def test_streams_have_noise_of_their_own_and_share_the_promise(tmp_path):
    policy = town(tmp_path, STRONG, days=3)
    data = policy.model_dump(mode="json", exclude_none=True)
    other = {**data["streams"][0], "name": "late", "output": "late.csv", "delay": "3 h"}
    data["streams"] = [{**data["streams"][0], "share": 0.25}, {**other, "share": 0.75}]
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    verdict = hl.verify(policy.ledger_url)
    assert verdict.problems == ()
    assert verdict.risk == pytest.approx(1.0, rel=1e-6)
    names = {r.draw for e in recorded(policy)[0] for r in e.releases if r.draw}
    assert len(names) == 48
    assert {name.split(":")[0] for name in names} == {"mean", "late"}
    releases = sorted((r for e in recorded(policy)[0] for r in e.releases), key=lambda r: r.step)
    replayed = Accountant.replay(hl.AlmostPeriodic(1.0, 24, strong=True), releases)
    assert replayed.risk() == pytest.approx(verdict.risk, rel=1e-9)


def test_a_step_that_is_pushed_late_is_charged_at_the_time_its_data_is_about(tmp_path):
    policy = town(tmp_path, STRONG, days=2)
    data = policy.model_dump(mode="json", exclude_none=True)
    stream = {k: v for k, v in data["streams"][0].items() if k != "source"}
    data["streams"] = [{**stream, "name": name, "output": f"{name}.csv"} for name in ("ahead", "behind")]
    policy = hl.Policy.from_dict(data, tmp_path)
    with hl.Stream(policy, "ahead") as ahead, hl.Stream(policy, "behind") as behind:
        for step in (1, 20):
            ahead.publish(1.0, at=step)
        behind.publish(1.0, at=5)
    late = [r for e in recorded(policy)[0] if e.stream == "behind" for r in e.releases]
    assert {(r.step, r.age, r.data_time) for r in late} == {(20, 15, 5)}


def test_groups_have_a_noise_for_each_number(tmp_path):
    (tmp_path / "homes.csv").write_text("home,zone\nh0,a\nh1,b\nh2,c\n")
    groups = {"groups": {"table": {"file": "homes.csv", "person": "home", "group": "zone"}}}
    policy = town(tmp_path, WEAK, days=2, stream=groups)
    hl.publish(policy)
    rows = [float(row["value"]) for row in read_csv(policy.path("mean.csv"))]
    assert rows[: 24 * 3] == rows[24 * 3 :]
    assert len(set(rows[: 24 * 3])) == 24 * 3


def test_renewed_noise_goes_on_under_a_discount(tmp_path):
    over = {"notion": "exponential", "half_life": "10 days"}
    policy = town(tmp_path, {**STRONG, "renew": 2, "over": over}, days=8)
    data = policy.model_dump(mode="json", exclude_none=True)
    data["clock"]["late"] = "as-planned"
    policy = hl.Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    names = {r.draw for e in recorded(policy)[0] for r in e.releases if r.draw}
    assert len(names) == 4 * 24
    assert hl.verify(policy.ledger_url).risk <= 1.0 + 1e-9


@pytest.mark.parametrize("promise", [WEAK, STRONG], ids=["weak", "strong"])
def test_runs_far_apart_under_a_discount_go_on_with_what_fits(tmp_path, promise):
    """Late steps count from now: two of one phase at one step, or data that the account forgot, are passed over, and no run is
    refused. Before, every later run was."""
    over = {"notion": "exponential", "half_life": "10 days"}
    policy = town(tmp_path, {**promise, "renew": 4, "over": over}, days=12)
    start, published = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).timestamp(), []
    for hour in (3, 30, 31, 60, 120, 121, 200, 201, 202):
        summary = hl.publish(policy, clock=lambda: start + 3600 * hour)  # noqa: B023
        published.append(summary.published["mean"])
        assert summary.used <= 1.0 + 1e-9
    assert published[:3] in ([3, 24, 1], [3, 27, 1])
    assert published[-1] == 1, "on time again"
    verdict = hl.verify(policy.ledger_url, {"mean": str(policy.path("mean.csv"))}, policy=policy)
    assert verdict.problems == ()
    assert sum(published) == verdict.steps["mean"] or verdict.steps["mean"] == 202


def test_reused_noise_is_never_shown(tmp_path, caplog):
    policy = town(tmp_path, STRONG, days=2)
    with caplog.at_level("DEBUG"):
        hl.publish(policy, clock=datetime.datetime(2026, 1, 2, 23, tzinfo=datetime.UTC).timestamp)
        units = [str(n) for noise in kept_noise(policy).values() for n in noise]
        hl.publish(policy)
    shown = policy.path("mean.csv").read_text() + caplog.text + (tmp_path / "town.ledger.operator.jsonl").read_text()
    assert units
    assert not any(n in shown for n in units if len(n) > 6)


def test_the_error_band_covers_both_noises(tmp_path):
    policy = town(tmp_path, {**STRONG, "period": "40 days"}, days=40)
    hl.publish(policy)
    rows = read_csv(policy.path("mean.csv"))
    inside = np.mean([abs(float(r["value"])) <= float(r["error_band"]) for r in rows])
    assert abs(inside - 0.95) < 0.04  # 960 independent hours: 5.7 standard errors


@pytest.mark.parametrize("promise", [WEAK, STRONG], ids=["weak", "strong"])
@pytest.mark.parametrize(
    ("clock", "extra", "words"),
    [
        ({"step": "2 h", "zone": "Europe/London"}, {}, "when the clocks of Europe/London change"),
        ({"step": "1 h", "zone": "Europe/London"}, {"renew": 2}, "counts its phases in steps"),
        ({"step": "5 h", "zone": "UTC"}, {"period": "5 days"}, "do not fit into a day"),
        ({"step": "30 min", "zone": "Australia/Lord_Howe"}, {}, None),
    ],
)
def test_phases_that_would_wander_are_refused(tmp_path, promise, clock, extra, words):
    data = policy_dict()
    data["promise"], data["clock"] = {**promise, **extra}, {"start": "2026-01-01", "end": "2026-01-11", **clock}
    if words is None:
        assert hl.Policy.from_dict(data, tmp_path)
        return
    with pytest.raises(hl.HalflifeError, match=words):
        hl.Policy.from_dict(data, tmp_path)


@pytest.mark.parametrize(
    ("promise", "stream", "words"),
    [
        ({"variations": None}, {}, "promise.variations: missing: the weak notion publishes every change"),
        ({"readings": None}, {}, "promise.readings: missing: one reading that is clipped or absent"),
        ({"rounding": None}, {}, "promise.rounding: missing: one reading that is rounded"),
        (
            {},
            {"groups": {"names": ["a", "b"], "most_per_person": 1}},
            "streams.0.groups: people who change their group",
        ),
        ({"notion": "classical", "period": None}, {}, "is said of weak almost-periodic promises"),
        ({"strong": "perhaps"}, {}, "strong must be yes or no"),
        ({"period": "90 min"}, {}, "no whole number of steps"),
        ({"over": "exponential"}, {}, "over must be a mapping with a notion"),
        ({"over": {"notion": "exponential", "halflife": 3}}, {}, "did you mean 'half_life'"),
        ({"renew": 3}, {}, "without bound"),
    ],
)
def test_what_weak_does_not_protect_must_be_said(tmp_path, promise, stream, words):
    changed = {k: v for k, v in {**WEAK, **promise}.items() if v is not None}
    data = policy_dict(stream=stream)
    data["promise"] = changed
    if "renew" in promise:
        del data["clock"]["end"]
    if stream:
        data["streams"][0]["source"]["group"] = "home"
    with pytest.raises(hl.HalflifeError, match=words):
        hl.Policy.from_dict(data, tmp_path)
