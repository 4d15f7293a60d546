"""Amendments: what a ledger is held to changes in its chain, from the next step on, and nothing else does."""

import csv
import json

import numpy as np
import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.plans.continuing import Lost, may_continue
from halflife.policy import Policy
from publisher.town import HOMES, exact_means, policy_dict, readings, write_readings

WHY = "the council asked for it"


def town(folder, **changes):
    """A policy in a folder, with readings of two days."""
    if not (folder / "readings.csv").exists():
        write_readings(folder, readings(steps=48))
    return Policy.from_dict(policy_dict(**changes), folder)


def second(name="peak", **changes):
    stream = {
        "name": name,
        "source": {"files": "readings.csv", "time": "time", "value": "kwh"},
        "statistic": {"kind": "sum", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "5 kWh"], "fold": "sum"},
        "output": f"{name}.csv",
    }
    return {**stream, **changes}


def with_streams(folder, shares, days=2, **changes):
    """The town with its mean and further streams, each with a share."""
    data = policy_dict(**changes)
    data["clock"]["end"] = f"2026-01-{days + 1:02d}"
    own = {**data["streams"][0], "share": shares["mean"]} if "mean" in shares else None
    rest = [second(name, share=share) for name, share in shares.items() if name != "mean"]
    data["streams"] = [s for s in (own, *rest) if s]
    return Policy.from_dict(data, folder)


def rows(path):
    with path.open() as file:
        return [(int(r["step"]), float(r["value"]), float(r["error_band"])) for r in csv.DictReader(file)]


def later(folder, **changes):
    clock = {"end": "2026-01-03"}
    return town(folder, clock=clock, **changes)


def test_another_end_needs_no_amendment_where_the_plan_does_not_depend_on_it(tmp_path):
    hl.publish(town(tmp_path))
    hl.publish(later(tmp_path))
    assert len(rows(tmp_path / "mean.csv")) == 48
    with pytest.raises(HalflifeError, match="nothing to amend"):
        hl.amend(town(tmp_path), WHY)


def test_an_end_that_the_plan_depends_on_is_refused_longer_and_taken_shorter(tmp_path):
    """Classical: 24 equal losses fill the promise; the rest of a shorter list may lose more, of a longer one nothing is left."""
    promise = {"notion": "classical", "epsilon": 1.0, "w": None}
    data = policy_dict(promise=promise)
    del data["promise"]["w"]
    write_readings(tmp_path, readings(steps=48))
    data["clock"]["end"] = "2026-01-01T12:00"
    hl.publish(Policy.from_dict(data, tmp_path))
    data["clock"]["end"] = "2026-01-03"
    longer = Policy.from_dict(data, tmp_path)
    with pytest.raises(HalflifeError, match="last step was 12 and is now 48"):
        hl.publish(longer)
    with pytest.raises(HalflifeError, match="there is no room for it"):
        hl.amend(longer, WHY)


def test_new_members_change_what_a_mean_is_worth_from_the_next_step_on(tmp_path):
    """An epsilon that leaves next to no noise shows exact means: over 5 people on the first day, over 10 on the second."""
    loud = {"epsilon": 1_000_000.0}
    hl.publish(town(tmp_path, **loud))
    grown = later(tmp_path, population={"size": 2 * HOMES}, **loud)
    with pytest.raises(HalflifeError, match=r"size was 5 and is now 10.*halflife amend"):
        hl.publish(grown)
    made = hl.amend(grown, WHY, by="A. Clerk")
    assert made.recorded
    assert made.amendment.starts == {"mean": 25}
    hl.publish(grown)
    exact = exact_means(readings(steps=48), 48)
    wanted = [x if k < 24 else x / 2 for k, x in enumerate(exact)]
    assert np.allclose([value for _, value, _ in rows(tmp_path / "mean.csv")], wanted, atol=1e-2)
    assert hl.verify(grown).problems == ()
    with pytest.raises(HalflifeError, match="size was 10 and is now 5"):
        hl.publish(later(tmp_path, **loud))


@pytest.mark.parametrize("post", [[{"moving_average": 3}], [{"seasonal": "fitted"}], [{"kalman": "fitted"}]])
def test_estimates_over_an_amendment_verify(tmp_path, post):
    stream = {"post": post}
    hl.publish(town(tmp_path, stream=stream))
    grown = later(tmp_path, stream=stream, population={"size": 2 * HOMES})
    hl.amend(grown, WHY)
    hl.publish(grown)
    assert hl.verify(grown).problems == ()
    bands = [band for _, _, band in rows(tmp_path / "mean.csv")]
    assert min(bands[:24]) > 0
    assert np.isfinite(bands).all()


def test_an_added_stream_takes_over_a_share_at_once_and_for_ever(tmp_path):
    write_readings(tmp_path, readings(steps=72))
    hl.publish(with_streams(tmp_path, {"mean": 1.0}, days=1))
    both = with_streams(tmp_path, {"mean": 0.5, "peak": 0.5}, days=3)
    with pytest.raises(HalflifeError, match="stream peak is new"):
        hl.publish(both)
    (problem,) = hl.verify(both).problems  # and not that the ledger is damaged
    assert "stream peak is new" in problem
    assert "halflife amend" in problem
    made = hl.amend(both, WHY)
    assert made.amendment.starts == {"mean": 25, "peak": 25}
    hl.publish(both)
    assert [step for step, *_ in rows(tmp_path / "peak.csv")] == list(range(25, 73))
    verdict = hl.verify(both)
    assert verdict.problems == ()
    assert verdict.peak <= 1 + 1e-9
    assert hl.status(both).streams[1].newest == 72


@pytest.mark.parametrize("promise", [
    {"notion": "exponential", "half_life": "6 h"}, {"notion": "hyperbolic", "beta": 0.5}, {"notion": "w-event", "w": 6},
])  # fmt: skip
def test_every_notion_that_adds_up_has_room_for_a_share_that_is_given_up(tmp_path, promise):
    """`late: as-planned` charges every step where it was planned, as if it had been published in time."""
    write_readings(tmp_path, readings(steps=72))

    def make(shares, days):
        data = policy_dict()
        data["promise"] = {"epsilon": 1.0, **promise}
        data["clock"] |= {"end": f"2026-01-{days + 1:02d}", "late": "as-planned"}
        data["streams"] = [{**second(name), "share": share} for name, share in shares.items()]
        return Policy.from_dict(data, tmp_path)

    hl.publish(make({"a": 1.0}, 1))
    both = make({"a": 0.25, "b": 0.75}, 3)
    hl.amend(both, WHY)
    hl.publish(both)
    assert hl.verify(both).problems == ()
    alone = make({"b": 1.0}, 4)
    made = hl.amend(alone, WHY)
    assert made.amendment.changes[0] == "stream a is gone"
    hl.publish(alone)
    assert hl.verify(alone).problems == ()


def test_a_stream_for_which_there_is_no_room_is_told_when_there_is(tmp_path):
    """w = 6 hours, all of it in use: a stream that gets more than is given up must wait until old windows have passed."""
    write_readings(tmp_path, readings(steps=72))
    hl.publish(with_streams(tmp_path, {"mean": 0.5, "a": 0.5}, days=1))
    wider = with_streams(tmp_path, {"mean": 0.5, "b": 0.5}, days=3, promise={"w": 12})
    with pytest.raises(HalflifeError, match="does not keep the new promise"):
        hl.amend(wider, WHY)
    daily = with_streams(tmp_path, {"mean": 0.5, "b": 0.5}, days=3)
    data = daily.model_dump(exclude_none=True)
    data["streams"][1] |= {"step": "2 h"}
    two_hours = Policy.from_dict(data, tmp_path)
    with pytest.raises(HalflifeError, match=r"no room for b yet.*room from 2026-01-02") as refused:
        hl.amend(two_hours, WHY)
    when = str(refused.value).split("--begin '")[1].split("'")[0]
    hl.amend(two_hours, WHY, begin=when)
    hl.publish(two_hours)
    assert hl.verify(two_hours).problems == ()


def test_renamed_columns_need_a_declaration(tmp_path):
    hl.publish(town(tmp_path))
    text = (tmp_path / "readings.csv").read_text()
    (tmp_path / "readings.csv").write_text(text.replace("home,time,kwh", "home,time,energy", 1))
    renamed = later(tmp_path, stream={"source": {"files": "readings.csv", "time": "time", "value": "energy"}})
    with pytest.raises(HalflifeError, match="--same-meaning"):
        hl.amend(renamed, WHY)
    hl.amend(renamed, WHY, same_meaning=True)
    hl.publish(renamed)
    assert hl.verify(renamed).problems == ()


def test_a_weaker_promise_must_be_meant_and_certificates_show_every_promise(tmp_path):
    hl.publish(town(tmp_path))
    weaker = later(tmp_path, epsilon=2.0)
    with pytest.raises(HalflifeError, match=r"epsilon of the promise was 1.0 and is now 2.0.*--weaken"):
        hl.amend(weaker, WHY)
    hl.amend(weaker, WHY, weaken=True)
    hl.publish(weaker)
    assert hl.verify(weaker).problems == ()
    content = hl.certify(weaker)["certificate"]
    assert [p["notion"]["epsilon"] for p in content["promises"]] == [2.0, 1.0]
    risks = [p["risk"]["largest"] for p in content["promises"]]
    assert risks == pytest.approx([2.0, 2.0])  # under the first promise, which was 1
    assert [p["risk"]["limit"] for p in content["promises"]] == [2.0, 1.0]
    assert content["amendments"][0]["reason"] == WHY
    assert content["amendments"][0]["weakens"]
    with pytest.raises(HalflifeError, match="does not keep the new promise"):
        hl.amend(later(tmp_path, epsilon=1.0), WHY)


def test_a_stricter_promise_is_taken_where_the_past_keeps_it(tmp_path):
    hl.publish(with_streams(tmp_path, {"mean": 0.5}, days=1) if write_readings(tmp_path, readings(steps=48)) else None)
    stricter = with_streams(tmp_path, {"mean": 1.0}, epsilon=0.5)
    made = hl.amend(stricter, WHY)
    assert not made.amendment.weakens
    assert made.risk == pytest.approx(0.5)
    hl.publish(stricter)
    assert hl.verify(stricter).problems == ()


def test_an_ended_stream_cannot_come_back(tmp_path):
    write_readings(tmp_path, readings(steps=72))
    hl.publish(with_streams(tmp_path, {"mean": 0.5, "peak": 0.5}, days=1))
    alone = with_streams(tmp_path, {"mean": 0.5}, days=2)
    hl.amend(alone, WHY)
    hl.publish(alone)
    assert hl.verify(alone).problems == ()
    content = hl.certify(alone)["certificate"]
    assert [(p["stream"], p["steps"]) for p in content["published"]] == [("mean", 48), ("peak", 24)]
    with pytest.raises(HalflifeError, match="let it end, and add another stream"):
        hl.amend(with_streams(tmp_path, {"mean": 0.5, "peak": 0.5}, days=3), WHY)


@pytest.mark.parametrize(("changes", "said"), [
    ({"clock": {"step": "2 h", "end": "2026-01-03"}}, "cannot be amended"),
    ({"population": {"id": "city"}}, "cannot be amended"),
    ({"stream": {"statistic": {"kind": "mean", "unit": "kWh", "resolution": "1 Wh", "clip": ["0", "6 kWh"], "fold": "sum"}}},
     "let it end, and add another stream"),
])  # fmt: skip
def test_what_the_ledger_rests_on_stays(tmp_path, changes, said):
    hl.publish(town(tmp_path))
    with pytest.raises(HalflifeError, match=said):
        hl.amend(town(tmp_path, **changes), WHY)


@pytest.mark.parametrize(("promise", "said"), [
    ({"notion": "w-event", "w": 6, "delta": 1e-6}, "with a delta losses must be fixed"),
    ({"notion": "almost-periodic", "period": "6 h", "strong": True}, "no plan of almost-periodic"),
])  # fmt: skip
def test_what_nobody_has_proved_is_refused(tmp_path, promise, said):
    write_readings(tmp_path, readings(steps=48))

    def make(share, **rest):
        data = policy_dict(**rest)
        data["promise"] = {"epsilon": 1.0, **promise}
        data["streams"][0]["share"] = share
        return Policy.from_dict(data, tmp_path)

    hl.publish(make(1.0))
    with pytest.raises(HalflifeError, match=said):
        hl.amend(make(0.5), WHY)
    if promise["notion"] == "almost-periodic":
        with pytest.raises(HalflifeError, match="those who came or left"):
            hl.amend(make(1.0, population={"size": 2 * HOMES}), WHY)


def test_a_declared_time_must_be_the_next_step(tmp_path):
    hl.publish(town(tmp_path))
    grown = later(tmp_path, population={"size": 9})
    with pytest.raises(HalflifeError, match="published already"):
        hl.amend(grown, WHY, start="2026-01-01T20:00")
    with pytest.raises(HalflifeError, match=r"3 steps from .* are not published yet"):
        hl.amend(grown, WHY, start="2026-01-02T03:00")
    assert hl.amend(grown, WHY, start="2026-01-02", dry_run=True).amendment.starts == {"mean": 25}
    for bad in ("", " ", "a\x1b[2Jb", "x" * 3000):
        with pytest.raises(HalflifeError, match="public text"):
            hl.amend(grown, bad)


def test_a_session_from_before_an_amendment_is_refused(tmp_path):
    """It would publish an added stream from its first step on, and read old means as those of now."""
    data = policy_dict(population={"size": 9}, clock={"end": "2026-01-03"})
    del data["streams"][0]["source"]
    first = {**data, "population": {**data["population"], "size": HOMES}}
    with hl.Stream(Policy.from_dict(first, tmp_path)) as stream:
        stream.publish(1.0, at=1)
    grown = Policy.from_dict(data, tmp_path)
    with hl.Stream(grown) as early:
        hl.amend(grown, WHY)
        with pytest.raises(HalflifeError, match="open it again"):
            early.publish(1.0, at=2)
    with hl.Stream(grown) as late:
        late.publish(1.0, at=2)
    assert hl.verify(grown).problems == ()


def test_certificates_from_before_an_amendment_still_agree(tmp_path):
    hl.publish(town(tmp_path))
    (tmp_path / "c.json").write_text(json.dumps(hl.certify(town(tmp_path))))
    weaker = later(tmp_path, epsilon=2.0, population={"size": 9})
    hl.amend(weaker, WHY, weaken=True)
    hl.publish(weaker)
    verdict = hl.check_certificate(tmp_path / "c.json", weaker)
    assert verdict.problems == ()
    assert "amended since" in verdict.checked[-1]
    (tmp_path / "c.json").write_text((tmp_path / "c.json").read_text().replace('"largest": 1.0', '"largest": 0.9'))
    assert hl.check_certificate(tmp_path / "c.json", weaker).problems


def test_a_dry_run_records_nothing(tmp_path):
    hl.publish(town(tmp_path))
    before = hl.verify(town(tmp_path)).head
    assert not hl.amend(later(tmp_path, population={"size": 9}), WHY, dry_run=True).recorded
    assert hl.verify(town(tmp_path)).head == before


def test_an_amendment_is_in_the_chain(tmp_path):
    """Who changes a reason, or removes an amendment, breaks the chain."""
    import sqlite3
    from contextlib import closing

    hl.publish(town(tmp_path))
    grown = later(tmp_path, population={"size": 9})
    hl.amend(grown, WHY)
    hl.publish(grown)
    ledger = tmp_path / "town.ledger"
    with closing(sqlite3.connect(ledger)) as db, db:
        db.execute("UPDATE event SET body = replace(body, 'council', 'mayor')")
    assert any("an event after entry 24 was changed" in p for p in hl.verify(grown).problems)


def test_plans_go_on_from_histories_that_lost_no_more_by_brute_force():
    """Against the definition: risks of history and plan together, over a long time, for random histories."""
    draw, agreed = np.random.default_rng(4), {True: 0, False: 0}
    for _ in range(400):
        w, at = int(draw.integers(2, 9)), 20
        notion = [
            hl.WEvent(1.0, w),
            hl.ExponentialDiscount(1.0, alpha=0.8),
            hl.HyperbolicDiscount(1.0, 0.7),
            hl.Classical(9.0),
        ][int(draw.integers(4))]
        planned = np.asarray(notion.plan(horizon=120 if isinstance(notion, hl.Classical) else None).losses(120))
        history = planned[: at - 1] * draw.choice([0.0, 0.5, 1.0, 1.0, 1.5], size=at - 1)
        steps = np.arange(1, 121)
        said = may_continue(notion, Lost(steps[: at - 1], history), Lost(steps[: at - 1], planned[: at - 1]), at)
        risks = notion.risks(np.concatenate([history, planned[at - 1 :]]), 0, "laplace")[at - 1 :]
        limit = 9.0 if isinstance(notion, hl.Classical) else 1.0
        if said:
            assert risks.max() <= limit * (1 + 1e-6)
        agreed[said] += 1
    assert min(agreed.values()) > 20


# What was once accepted, and broke something later ----------------------------------------------------------------------


def hours(data, days):
    """The policy's data with another end."""
    return {**data, "clock": {**data["clock"], "end": f"2026-01-{days + 1:02d}"}}


def test_room_counts_all_steps_that_a_wide_release_is_about():
    """Against the account: random histories of wide and narrow releases, then the plan, which nothing may be refused of."""
    draw, agreed = np.random.default_rng(7), {True: 0, False: 0}
    for _ in range(1500):
        w, span, at = int(draw.integers(6, 11)), int(draw.integers(1, 6)), 25
        ends = np.arange(span, 80, span)
        count = -(-(w + span - 1) // span)  # as many wide releases as a window touches
        plan = [(int(t), 0.5 / count, span) for t in ends] + [(t, 0.5 / w, 1) for t in range(1, 80)]
        history = [(t, p * draw.choice([0.0, 0.5, 1.0, 1.0, 1.0, 1.3]), s) for t, p, s in plan if t < at]
        lost, planned = (
            Lost(*map(np.array, zip(*part, strict=True))) for part in (history, [x for x in plan if x[0] < at])
        )
        earliest = min(t - s + 1 for t, _, s in plan if t >= at)
        said = may_continue(hl.WEvent(1.0, w), lost, planned, at, earliest)
        account, fits = hl.Accountant(hl.WEvent(1.0, w)), True
        try:
            account.admit(*(hl.Release(t, p, span=s) for t, p, s in sorted(history)))
        except hl.BudgetExceeded:  # no ledger has such a history
            continue
        try:
            account.admit(*(hl.Release(t, p, span=s) for t, p, s in sorted(plan) if t >= at))
        except hl.BudgetExceeded:
            fits = False
        assert fits or not said
        agreed[said] += 1
    assert min(agreed.values()) > 20


def test_a_raised_share_must_fit_before_added_streams_begin(tmp_path):
    """The stream that goes on takes its larger share at once, and what the ended one lost still counts then.

    α⁶ = 1/2. At hour 21 the risk is 0.5 α³ of the wide stream and 0.5 of the other; three hours later the wide one adds
    0.95 (1 − α⁶): 0.25 + 0.354 + 0.475 = 1.079, above 1.
    """
    write_readings(tmp_path, readings(steps=96))
    data = policy_dict(clock={"late": "as-planned"})
    data["promise"] = {"epsilon": 1.0, "notion": "exponential", "half_life": 6}
    data["streams"] = [second("wide", share=0.5, step="6 h"), second("b", share=0.5)]
    hl.publish(Policy.from_dict(data, tmp_path), clock=lambda: 1767225600 + 21 * 3600)

    def amended(share):
        streams = [second("wide", share=share, step="6 h"), second("c", share=0.05)]
        return Policy.from_dict(hours({**data, "streams": streams}, 4), tmp_path)

    with pytest.raises(HalflifeError, match=r"bring the risk to 1.07\d+.*Keep their shares as they are until then"):
        hl.amend(amended(0.95), WHY, begin="2026-01-03T12:00")
    hl.amend(amended(0.5), WHY, begin="2026-01-03T12:00")
    hl.publish(amended(0.5))
    assert hl.verify(amended(0.5)).problems == ()


def test_with_a_delta_a_stream_that_ends_may_not_change_what_the_others_lose(tmp_path):
    """Two streams that share δ at w = 1 lose 0.5 each; one alone would lose 0.50000097."""
    write_readings(tmp_path, readings(steps=48))
    data = policy_dict()
    data["promise"] = {"notion": "w-event", "epsilon": 1.0, "w": 1, "delta": 1e-6}
    data["streams"] = [second("a", share=0.5), second("b", share=0.5)]
    hl.publish(Policy.from_dict(data, tmp_path))
    alone = Policy.from_dict(hours({**data, "streams": data["streams"][:1]}, 2), tmp_path)
    with pytest.raises(HalflifeError, match=r"a would lose 0.50000\d+ a step, and lost 0.5"):
        hl.amend(alone, WHY)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_with_a_delta_a_stream_may_end_where_the_others_lose_what_they_did(tmp_path, noise):
    write_readings(tmp_path, readings(steps=48))
    data = policy_dict()
    data["promise"] = {"notion": "w-event", "epsilon": 1.0, "w": 24, "delta": 1e-6, "noise": noise}
    data["streams"] = [second("a", share=0.5), second("b", share=0.5)]
    hl.publish(Policy.from_dict(data, tmp_path))
    alone = Policy.from_dict(hours({**data, "streams": data["streams"][:1]}, 2), tmp_path)
    hl.amend(alone, WHY)
    hl.publish(alone)
    assert hl.verify(alone).problems == ()


def test_who_is_one_person_stays_unless_it_is_declared(tmp_path):
    """A table of units taken away would make two people of a household with two meters: it could move a sum twice as far."""
    write_readings(tmp_path, readings(steps=48))
    rows = [f"h{h},{'one' if h < 2 else h}" for h in range(HOMES)]
    (tmp_path / "homes.csv").write_text("meter,home\n" + "\n".join(rows) + "\n")
    units = {"units": {"file": "homes.csv", "id": "meter", "unit": "home"}}
    hl.publish(town(tmp_path, population=units))
    for other in ({}, units):
        (tmp_path / "homes.csv").write_text("meter,home\n" + "\n".join(rows[1:]) + "\nh0,two\n")
        with pytest.raises(HalflifeError, match=r"every id still belongs to whom it did \(--same-meaning\)"):
            hl.amend(later(tmp_path, population=other), WHY)
    (tmp_path / "homes.csv").write_text("meter,home\n" + "\n".join(rows) + "\nh9,nine\n")
    grown = later(tmp_path, population={**units, "size": HOMES + 1})
    hl.amend(grown, WHY, same_meaning=True)
    hl.publish(grown)
    assert hl.verify(grown).problems == ()


def test_shares_must_fit_until_the_first_step_of_an_added_stream_is_published(tmp_path):
    """Steps of 6 hours that begin at hour 24 are published at hour 30, and a stream of 2 hours takes its larger share before."""
    write_readings(tmp_path, readings(steps=96))
    data = policy_dict(clock={"late": "as-planned"})
    data["promise"] = {"epsilon": 1.0, "notion": "exponential", "half_life": 6}
    data["streams"] = [second("a", share=0.889), second("two", share=0.111, step="2 h")]
    hl.publish(Policy.from_dict(data, tmp_path), clock=lambda: 1767225600 + 19 * 3600)
    raised = [second("a", share=0.332), second("two", share=0.5, step="2 h"), second("six", share=0.166, step="6 h")]
    amended = Policy.from_dict(hours({**data, "streams": raised}, 4), tmp_path)
    with pytest.raises(HalflifeError, match="Keep their shares as they are until then"):
        hl.amend(amended, WHY)
