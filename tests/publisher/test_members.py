"""Sizes of a population by date: what a mean is divided by follows a public table, and no loss does."""

import csv
import json
import math

import numpy as np
import pytest

import halflife as hl
from halflife.errors import HalflifeError
from halflife.ledger import open_ledger
from halflife.policy import Policy, channels
from halflife.publisher.backfill import open_source_of
from publisher.town import HOMES, LOUD, exact_means, policy_dict, readings, write_readings

WHY = "12 homes joined"
DAY = "2026-01-01,5\n2026-01-01T06:00,8\n2026-01-01T12:30,4\n"


def write_members(folder, rows=DAY):
    (folder / "members.csv").write_text("from,size\n" + rows)


def town(folder, rows=DAY, hours=24, **changes):
    """A town whose size is in a table; readings of two days."""
    if not (folder / "readings.csv").exists():
        write_readings(folder, readings(steps=48))
    if rows is not None:
        write_members(folder, rows)
    end = f"2026-01-{1 + hours // 24:02d}T{hours % 24:02d}:00"
    given = {"population": {"size": "members.csv"}, "clock": {"end": end}, **changes}
    return Policy.from_dict(policy_dict(**given), folder)


def rows_of(path):
    with path.open() as file:
        return [(int(r["step"]), float(r["value"]), float(r["error_band"])) for r in csv.DictReader(file)]


def sizes(steps=24):
    """By hand: 5 up to 06:00, 8 up to 12:30, which is within step 13, and 4 from the next step on."""
    return [5 if k <= 6 else 8 if k <= 13 else 4 for k in range(1, steps + 1)]


def test_means_are_divided_by_the_size_in_force_when_a_step_begins(tmp_path):
    """An epsilon that leaves next to no noise shows exact means; the total is that of all who have readings."""
    policy = town(tmp_path, epsilon=LOUD)
    hl.publish(policy)
    totals = np.array(exact_means(readings(steps=48), 48))[:24] * HOMES
    found = np.array([value for _, value, _ in rows_of(tmp_path / "mean.csv")])
    assert np.allclose(found, totals / sizes(), atol=1e-2)
    assert hl.verify(policy).problems == ()


def test_who_is_missing_among_the_size_counts_as_missing(tmp_path):
    """5 homes have readings; of a size of 8 three are missing, of 4 one counts too much, which a public size may get wrong."""
    policy = town(tmp_path, epsilon=LOUD, statistic={"missing": "2 kWh"})
    hl.publish(policy)
    exact = np.array(exact_means(readings(steps=48), 48))[:24] * HOMES
    wanted = [(x + 2 * (n - HOMES)) / n for x, n in zip(exact, sizes(), strict=True)]
    assert np.allclose([value for _, value, _ in rows_of(tmp_path / "mean.csv")], wanted, atol=1e-2)


@pytest.mark.parametrize("promise", [
    {"notion": "w-event", "epsilon": 1.0, "w": 6}, {"notion": "hyperbolic", "epsilon": 1.0, "beta": 0.5},
    {"notion": "gaussian-discount", "epsilon": 1.0, "delta": 1e-6, "half_life": 4},
])  # fmt: skip
def test_no_loss_follows_the_sizes_and_every_band_does(tmp_path, promise):
    """By brute force: two towns that differ in one home, at every step, at both ends of the clip.

    The loss of a release is how far their totals lie apart over the scale of its noise, in whole units, whatever the size; the
    band of the mean is that of the noise over the size of the step.
    """
    write_readings(tmp_path, readings(steps=48))
    write_members(tmp_path)
    data = policy_dict()
    data |= {"promise": promise, "population": {**data["population"], "size": "members.csv"}}
    data["clock"]["late"] = "as-planned"
    policy = Policy.from_dict(data, tmp_path)
    hl.publish(policy)
    (channel,) = channels(policy)
    totals = []
    for kwh in (0.0, 9.0):
        other = [(home, time, kwh if home == "h0" else x) for home, time, x in readings(steps=48)]
        (tmp_path / "other").mkdir(exist_ok=True)
        write_readings(tmp_path / "other", other)
        write_members(tmp_path / "other")
        moved = Policy.from_dict(data, tmp_path / "other")
        engine = open_source_of(moved, channels(moved)[0])
        totals.append(channels(moved)[0].totals(engine.aggregate(channel.question(1, 24)).sums, 1))
    apart = np.abs(totals[0] - totals[1])[:, 0]
    assert set(apart.tolist()) == {5000}  # Wh: as far as the clip lets one home move a total, at every size
    with open_ledger(policy.ledger_url, read_only=True) as book:
        releases = [entry.releases[0] for entry in book.entries()]
    assert [r.loss for r in releases] == pytest.approx([5000 / r.scale for r in releases], rel=1e-6)
    constant = Policy.from_dict({**data, "population": {**data["population"], "size": 5}}, tmp_path)
    assert [r.loss for r in releases] == pytest.approx(channels(constant)[0].losses(1, 24), rel=1e-9)
    width = math.log(20) if releases[0].noise == "laplace" else 1.959964
    bands = [width * r.scale / 1000 / n for r, n in zip(releases, sizes(), strict=True)]
    assert [band for *_, band in rows_of(tmp_path / "mean.csv")] == pytest.approx(bands, rel=1e-6)


def test_the_table_grows_without_an_amendment_and_never_changes_what_is_published(tmp_path):
    first = "2026-01-01,5\n"
    hl.publish(town(tmp_path, first, hours=12))
    grown = town(tmp_path, first + "2026-01-01T12:00,9\n2026-01-03,7\n", hours=24)
    hl.publish(grown)
    assert hl.verify(grown).problems == ()
    with open_ledger(grown.ledger_url, read_only=True) as book:
        assert book.events() == []
    with pytest.raises(HalflifeError, match="nothing to amend"):
        hl.amend(grown, WHY)
    wrong = first + "2026-01-01T12:00,9\n2026-01-01T20:00,11\n"
    said = r"from 2026-01-01 20:00:00.*on was 9 and is now 11.*step 24 of mean.*Undo that row"
    for refused in (hl.publish, hl.status, hl.certify, hl.hindsight, lambda p: hl.amend(p, WHY)):
        with pytest.raises(HalflifeError, match=said):
            refused(town(tmp_path, wrong, hours=48))
    assert any("is now 11" in problem for problem in hl.verify(town(tmp_path, wrong, hours=48)).problems)
    with pytest.raises(HalflifeError, match=r"was 5 and is now 6"):
        hl.publish(town(tmp_path, "2026-01-01,6\n2026-01-01T12:00,9\n", hours=48))
    last = town(tmp_path, first + "2026-01-01T12:00,9\n2026-01-01T23:30,11\n", hours=48)
    hl.publish(last)  # from within step 24 on: step 25 is the first that begins later
    assert hl.verify(last).problems == ()
    bands = [band for *_, band in rows_of(tmp_path / "mean.csv")]
    assert [bands[0] / bands[k] for k in (12, 23, 24, 47)] == pytest.approx([9 / 5, 9 / 5, 11 / 5, 11 / 5])


def test_a_ledger_of_one_number_is_amended_to_a_table_and_back(tmp_path):
    write_readings(tmp_path, readings(steps=48))
    fixed = {"population": {"size": 5}}
    hl.publish(town(tmp_path, None, hours=12, **fixed))
    with pytest.raises(HalflifeError, match="size was 5 and is now a public table by date"):
        hl.publish(town(tmp_path, "2026-01-01,5\n2026-01-01T12:00,9\n"))
    with pytest.raises(HalflifeError, match=r"says 6 people at 2026-01-01 00:00.*was divided by 5"):
        hl.amend(town(tmp_path, "2026-01-01,6\n"), WHY)
    by_date = town(tmp_path, "2026-01-01,5\n2026-01-01T12:00,9\n2026-01-01T18:00,4\n")
    hl.amend(by_date, WHY)
    assert hl.verify(by_date).problems == ()
    hl.publish(by_date)
    assert hl.verify(by_date).problems == ()
    again = town(tmp_path, None, hours=30, population={"size": 7})
    hl.amend(again, WHY)
    hl.publish(again)
    assert hl.verify(again).problems == ()
    assert hl.certify(again)["certificate"]["population"]["size"] == 7
    bands = [band for *_, band in rows_of(tmp_path / "mean.csv")]
    assert [bands[0] / bands[k] * 5 for k in (11, 12, 17, 18, 24)] == pytest.approx([5, 9, 9, 4, 7])


def test_status_preview_pages_and_certificates_go_by_the_size_of_the_step(tmp_path):
    policy = town(tmp_path, DAY + "2026-01-02,50\n", hours=24)
    hl.publish(policy)
    later = town(tmp_path, DAY + "2026-01-02,50\n", hours=48)
    bands = [band for *_, band in rows_of(tmp_path / "mean.csv")]
    assert hl.status(later).streams[0].band == pytest.approx(bands[0] * 5 / 50)
    before = hl.certify(policy)["certificate"]
    assert before["population"]["size"] == 4
    (tmp_path / "c.json").write_text(json.dumps(hl.certify(later)))
    hl.publish(later)
    assert hl.check_certificate(tmp_path / "c.json", later).problems == ()
    assert hl.certify(later)["certificate"]["population"]["size"] == 50
    revised = hl.hindsight(later)[0]
    assert len(rows_of(revised.file)) == 48
    assert hl.verify(later).problems == ()


@pytest.mark.parametrize("post", [[{"moving_average": 3}], [{"seasonal": "fitted"}], [{"kalman": "0.2 kWh"}]])
def test_estimates_follow_the_mean_and_verify(tmp_path, post):
    """Everybody uses 1 kWh, and the town grows twentyfold with its people: the mean stays, the total does not."""
    steady = [
        (f"h{h}", time, 1.0) for h in range(100) for _, time, _ in readings(1, 48) if h < 5 or time > "2026-01-02"
    ]
    write_readings(tmp_path, steady)
    policy = town(tmp_path, "2026-01-01,5\n2026-01-02,100\n", hours=48, epsilon=1000.0, stream={"post": post})
    hl.publish(policy)
    assert hl.verify(policy).problems == ()
    found = rows_of(tmp_path / "mean.csv")
    assert max(abs(value - 1) for _, value, _ in found[24:]) < 0.2
    assert max(band for *_, band in found[30:]) < min(band for *_, band in found[:3])


def test_pushed_totals_are_clipped_to_the_size_of_their_step(tmp_path):
    """9 kWh a head is beyond the clip of 5 kWh: at every size what is published is 5 kWh, but for the noise."""
    data = policy_dict(population={"size": "members.csv"}, epsilon=LOUD)
    del data["streams"][0]["source"]
    write_members(tmp_path)
    with hl.Stream(Policy.from_dict(data, tmp_path)) as stream:
        found = [stream.publish(9.0, at=k) for k in (1, 7, 14)]
        assert [x.value for x in found] == pytest.approx([5.0] * 3, abs=1e-2)
        write_members(tmp_path, DAY + "2026-01-01T20:00,40\n")  # while the stream is open
        assert stream.publish(9.0, at=21).error_band == pytest.approx(found[0].error_band * 5 / 40, rel=1e-6)
        assert stream.publish(None, at=22).value == pytest.approx(0.0, abs=1e-2)
    write_members(tmp_path, DAY + "2026-01-01T20:00,41\n")
    with pytest.raises(HalflifeError, match="was 40 and is now 41"):
        hl.Stream(Policy.from_dict(data, tmp_path)).publish(1.0, at=23)


@pytest.mark.parametrize(("rows", "said"), [
    ("2026-01-01T01:00,5\n", "how many people there are when the first step begins"),
    ("2026-01-01,5\n2026-01-01,6\n", r"row 2.*not later than the row before"),
    ("2026-01-01,5.5\n", r"row 1: size must be a whole number from 1"),
    ("2026-01-01,0\n", r"row 1: size must be a whole number from 1"),
    ("soon,5\n", "row 1: from: 'soon' is no date"),
    ("2026-01-01,\n", "row 1: from or size is empty"),
])  # fmt: skip
def test_a_table_that_cannot_be_is_refused_with_its_row(tmp_path, rows, said):
    with pytest.raises(HalflifeError, match=said):
        town(tmp_path, rows)


def test_where_members_are_fixed_a_table_is_refused(tmp_path):
    write_members(tmp_path)
    data = policy_dict(population={"size": "members.csv"})
    data["promise"] = {"notion": "almost-periodic", "epsilon": 1.0, "period": "6 h", "strong": True}
    with pytest.raises(HalflifeError, match="members are fixed, so give their number"):
        Policy.from_dict(data, tmp_path)
    with pytest.raises(HalflifeError, match=r"must be a whole number, not 'many'"):
        Policy.from_dict(policy_dict(population={"size": "many"}), tmp_path)


def test_an_older_halflife_refuses_a_ledger_of_sizes_by_date(tmp_path):
    """Its facts are of version 2, which the version before did not read."""
    hl.publish(town(tmp_path))
    with open_ledger(str(tmp_path / "town.ledger"), read_only=True) as book:
        facts = {key: json.loads(text) for key, text in book.facts().items()}
    assert facts["population"]["size"] == "by date"
    assert [facts[key]["version"] for key in ("population", "stream:mean", "clock")] == [2, 2, 1]


def test_plan_and_check_show_the_noise_of_each_size(tmp_path):
    """The scale in kWh is 5 kWh · 6 / n: 6 where n is 5, 3.75 where it is 8, 7.5 where it is 4."""
    from halflife.lab.views.plan import policy_views

    policy = town(tmp_path)
    (view,) = policy_views(policy)
    assert view.scales == pytest.approx([5 * 6 / n for n in sizes()])
    noise = hl.check(policy, clock=lambda: 1767225600 + 86400).streams[0].noise
    assert (noise.first, noise.newest) == pytest.approx((math.sqrt(2) * 6, math.sqrt(2) * 7.5))
