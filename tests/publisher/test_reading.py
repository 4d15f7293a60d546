"""Published values read back: what is published in each format, under each mechanism, and how its rows may be added up."""

from __future__ import annotations

import datetime
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import halflife as hl
from halflife.ledger import open_ledger
from halflife.numerics.noise_sums import LAPLACE_BAND
from halflife.outputs import NoiseFacts, PublishedValues
from halflife.policy import channels
from publisher.test_almost_periodic import STRONG, WEAK, town
from publisher.town import exact_means, make, policy_dict, readings, write_readings

KINDS = (
    "almost-periodic-*",
    "groups",
    "post-processing",
    "spans",
    "days",
    "swellfish-gaussian",
    "units",
    "w-event",
    "exponential",
)
"""Golden ledgers that differ in what noise rows carry; all others are like one of them."""
GOLDEN = sorted(path for kind in KINDS for path in (Path(__file__).parents[1] / "golden").glob(f"*/{kind}"))
FORMATS = ("out.csv", "out.jsonl", "out.parquet", "out/")
DAYS = {"clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-01-05"}}


def publish(folder, output="out.parquet", rows=None, **changes):
    """Four days of the small town; returns the policy and the place of its output."""
    write_readings(folder, readings(steps=96) if rows is None else rows)
    policy = make(folder, output=output, **{**DAYS, **changes})
    hl.publish(policy)
    return policy, f"{folder}/{output}"


@pytest.mark.parametrize("output", FORMATS)
def test_every_format_is_read_back_as_it_was_published(tmp_path, output):
    policy, place = publish(tmp_path, output)
    truth = sum(exact_means(readings(steps=96), 96)[24:48])
    plain, known = hl.read_published(place), hl.read_published(place, policy)
    scale = channels(policy)[0].plan.scale(1) / 1000 / 5
    assert plain.frame.column_names == ["step", "start", "end", "value", "error_band"]
    for values in (plain, known):
        day = values.total("2026-01-02", "2026-01-03")
        assert (day.steps, day.missing) == (24, 0)
        assert abs(day.value - truth) < 24 * 25 * scale, "the sum of what was published, and not of something else"
        assert day.value == pytest.approx(float(np.sum(values.frame["value"].to_numpy()[24:48])))
        assert str(day.start) == "2026-01-02 00:00:00+00:00"
    own = 24 * LAPLACE_BAND * scale
    tells = output in ("out.parquet", "out/")
    exact = known.total("2026-01-02", "2026-01-03").band
    assert exact == pytest.approx(1.9689 * math.sqrt(2 * 24) * scale, rel=1e-3)
    assert plain.total("2026-01-02", "2026-01-03").band == pytest.approx(exact if tells else own, rel=1e-9)
    assert (plain.facts == NoiseFacts("laplace")) == tells
    assert hl.verify(policy).good, "what a file says about its noise is no difference from the ledger"


def test_the_band_holds_for_many_hours(tmp_path):
    """Release-grade noise has no seed: of 400 sums fewer than 352 are inside once in 10⁷ runs, and never if a third is missed."""
    end = {"clock": {"step": "1 h", "start": "2026-01-01", "end": "2026-04-11"}}
    _, place = publish(tmp_path, rows=[("h0", "2026-01-01T00:30:00", 0.0)], **end)
    values = hl.read_published(place)
    sums = [values.combine(np.repeat(np.eye(400)[i], 6)) for i in range(400)]
    inside = sum(abs(one.value) <= one.band for one in sums)
    assert 352 <= inside < 400


# What is known of noise, against the ledger -------------------------------------------------------------------------


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: path.name)
def test_noises_are_those_of_the_ledger_s_releases(golden, tmp_path):
    """For every kind of noise in golden ledgers: of three sums the coefficient of each draw, by its name in the ledger."""
    shutil.copytree(golden, tmp_path / "g")
    policy = hl.Policy.load(tmp_path / "g" / "policy.yaml")
    for channel in channels(policy):
        if channel.quantiles is not None:
            continue
        values = hl.read_published(policy.outputs[channel.name], policy, stream=channel.name, raw=True)
        with open_ledger(policy.ledger_url, read_only=True) as book:
            entries = list(book.entries(channel.name))
        worth = [float(f) for f in channel.factor_of_cells]
        r, scales = np.random.default_rng(1), {}
        for weights in (
            np.ones(len(values.frame)),
            r.integers(-2, 3, len(values.frame)),
            r.normal(size=len(values.frame)),
        ):
            expected = {}
            for k, entry in enumerate(entries):
                scales |= {release.draw: release.scale for release in entry.releases if release.draw}
                names = {release.draw or release.atop for release in entry.releases} - {None}
                noises = [(name, scales[name]) for name in names]
                noises += [
                    (("fresh", entry.step, i), one.scale) for i, one in enumerate(entry.releases) if not one.draw
                ]
                for cell in range(len(worth)):
                    for name, scale in noises:
                        a = weights[k * len(worth) + cell] * worth[cell] * (scale or 0.0)
                        expected[name, cell] = expected.get((name, cell), 0.0) + a
            found = values.combine(weights)
            (carried,) = found.noises.values()
            assert {source.family for source in found.noises} == {entries[0].releases[0].noise}
            want = np.sort([x for x in expected.values() if abs(x) > 1e-9])
            np.testing.assert_allclose(np.sort(carried.scales[np.abs(carried.scales) > 1e-9]), want, rtol=3e-6)


@pytest.mark.diagonal
@pytest.mark.parametrize("promise", [WEAK, STRONG], ids=["weak", "strong"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/London"])
def test_a_file_alone_says_which_rows_share_their_noise(tmp_path, promise, zone):
    """Over the end of March, by the London clock too: the file's own rule gives the same noises as the ledger's names."""
    policy = town(tmp_path, promise, days=4, zone=zone, start="2026-03-27", output="out.parquet")
    hl.publish(policy)
    alone, known = hl.read_published(tmp_path / "out.parquet"), hl.read_published(tmp_path / "out.parquet", policy)
    assert alone.facts == known.facts
    assert alone.facts.by_clock
    days = [alone.total(f"2026-03-{d}T05:00", f"2026-03-{d}T09:00") for d in (27, 28, 29, 30)]
    difference = days[0] - days[3]
    if promise is WEAK:
        assert difference.band == 0
        assert difference.value == pytest.approx(0, abs=1e-9)
        assert sum(days[1:], days[0]).band == pytest.approx(4 * days[0].band)
    else:
        fresh = alone.facts.fresh
        assert difference.band > 0
        assert fresh == pytest.approx(channels(policy)[0].plan.scale(1) / channels(policy)[0].plan.pattern_scale(1))
        assert 2 * days[0].band < sum(days[1:], days[0]).band < 4 * days[0].band


def test_a_noise_that_is_renewed_is_another(tmp_path):
    promise = {**WEAK, "period": "4 h", "renew": 2, "over": {"notion": "w-event", "epsilon": 1.0, "w": 24}}
    policy = town(tmp_path, promise, days=2, output="out.parquet")
    hl.publish(policy)
    values = hl.read_published(tmp_path / "out.parquet")
    assert values.facts == NoiseFacts("laplace", 4, renew=2)
    first, second, third = (values.total(f"2026-01-01T{h:02}:00", f"2026-01-01T{h + 4:02}:00") for h in (0, 4, 8))
    assert (first - second).band == 0
    assert first.value == pytest.approx(second.value)
    assert (first - third).band > first.band


# Post-processing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["out.parquet", "out/"])
def test_a_change_of_post_processing_is_in_the_file(tmp_path, output):
    """Two days raw, two averaged, one raw again: the file says so, and raw values are in the ledger."""

    def until(day):
        return datetime.datetime(2026, 1, day, tzinfo=datetime.UTC).timestamp

    write_readings(tmp_path, readings(steps=96))
    hl.publish(make(tmp_path, output=output, **DAYS), clock=until(3))
    averaged = {"stream": {"post": [{"moving_average": 4}, {"truncate": ["0", "5 kWh"]}]}}
    hl.publish(make(tmp_path, output=output, **DAYS, **averaged), clock=until(4))
    policy = make(tmp_path, output=output, **DAYS)
    hl.publish(policy)
    assert hl.verify(policy).good
    place = f"{tmp_path}/{output}"
    alone, known = hl.read_published(place), hl.read_published(place, policy)
    assert alone.facts == known.facts == NoiseFacts("laplace", post=((49, ("moving_average", "truncate")), (73, ())))
    days = alone.by("day")
    assert [one.bound > 0 for one in days] == [False, False, True, False]
    assert "estimates (moving_average, truncate), whose errors are correlated, or lean to one side" in days[2].covers
    raw = hl.read_published(place, policy, raw=True)
    for mine, own in zip(raw.by("day"), days, strict=True):
        assert mine.band == pytest.approx(days[0].band, rel=1e-9)
        assert (mine.value == pytest.approx(own.value)) == (own is not days[2])
    with open_ledger(policy.ledger_url, read_only=True) as book:
        noisy = [float(e.noisy[0]) / 5000 for e in book.entries("mean")]
    np.testing.assert_allclose(raw.frame["value"].to_numpy(), noisy)


def test_the_bound_of_estimates_is_what_their_bands_come_to(tmp_path):
    policy, place = publish(tmp_path, stream={"post": [{"kalman": "0.5 kWh"}]})
    values = hl.read_published(place)
    assert values.total().band == pytest.approx(float(values.frame["error_band"].to_numpy().sum()))
    assert hl.read_published(place, policy, raw=True).total().band < values.total().band


def test_with_its_ledger_a_sum_is_that_of_raw_values_where_their_band_is_smaller(tmp_path):
    """Of few rows the estimates' bands are the smaller ones, of many the raw sum's: which, follows from public bands."""
    policy, place = publish(tmp_path, stream={"post": [{"kalman": "0.01 kWh"}]})
    alone, known, raw = (
        hl.read_published(place),
        hl.read_published(place, policy),
        hl.read_published(place, policy, raw=True),
    )
    first, all_of_it = ("2026-01-04T20:00", "2026-01-04T22:00"), (None, None)
    assert (known.total(*first).value, known.total(*first).band) == (
        alone.total(*first).value,
        alone.total(*first).band,
    )
    assert known.total(*first).band < raw.total(*first).band
    assert (known.total().value, known.total().band) == (raw.total().value, raw.total().band)
    assert raw.total().band < 0.5 * alone.total().band
    assert "the sum of the values before post-processing" in known.total(*all_of_it).covers
    for found in known.by("day"):
        assert found.band == min(v.total(found.start, found.end).band for v in (alone, raw))


def test_means_of_groups_count_by_their_people(tmp_path):
    """Three homes in the north and two in the south: together 3/5 and 2/5; a file that cannot say so is refused."""
    write_readings(tmp_path, readings(steps=96))
    homes = "".join(f"h{i},{'north' if i < 3 else 'south'}\n" for i in range(5))
    (tmp_path / "zones.csv").write_text("home,zone\n" + homes)
    for output in ("out.parquet", "out.csv"):
        data = policy_dict(output=output, **DAYS)
        data["streams"][0]["groups"] = {"table": {"file": "zones.csv", "person": "home", "group": "zone"}}
        data["ledger"] = f"{output}.ledger"
        policy = hl.Policy.from_dict(data, tmp_path)
        hl.publish(policy, second_ledger=True)
        alone, known = hl.read_published(tmp_path / output), hl.read_published(tmp_path / output, policy)
        north, south = (known.total(group=name) for name in ("north", "south"))
        together = known.total()
        assert together.value == pytest.approx(0.6 * north.value + 0.4 * south.value)
        assert together.band == pytest.approx((0.6 * north + 0.4 * south).band)
        assert [day.value for day in known.by("day")] == pytest.approx(
            [
                0.6 * n.value + 0.4 * s.value
                for n, s in zip(known.by("day", group="north"), known.by("day", group="south"), strict=True)
            ]
        )
        if output == "out.parquet":
            assert alone.total().band == together.band
        else:
            with pytest.raises(hl.InvalidInput, match="does not say whether its groups add up, or are means"):
                alone.total()
            assert alone.total(group="north").value == pytest.approx(north.value)


@pytest.mark.parametrize("output", ["out.parquet", "out.csv"])
def test_a_revised_file_is_read_with_its_policy(tmp_path, output):
    policy, place = publish(tmp_path, output)
    (one,) = hl.hindsight(policy)
    known, raw = hl.read_published(one.file, policy), hl.read_published(place, policy)
    assert known.stream == "mean"
    hour = known.total("2026-01-02T04:00", "2026-01-02T05:00")
    assert hour.value == known.frame["value"].to_numpy()[28]
    assert hour.band == known.frame["error_band"].to_numpy()[28]
    assert "estimates (hindsight)" in hour.covers
    assert known.total().band <= raw.total().band
    alone = hl.read_published(one.file)
    assert ("hindsight" in alone.total("2026-01-02T04:00", "2026-01-02T05:00").covers) == (output == "out.parquet")
    other = tmp_path / one.file.name.replace("mean", "men")
    shutil.copy(one.file, other)
    with pytest.raises(hl.InvalidInput, match="is not what"):
        hl.read_published(other, policy)
    assert hl.read_published(one.file, policy, raw=True).total().band == raw.total().band


# Refusals -----------------------------------------------------------------------------------------------------------


def test_what_is_not_an_output_is_refused(tmp_path):
    for name, text, said in (
        ("a.csv", "", "is empty"),
        ("a.csv", "a,b\n1,2\n", "has no column 'step', but a, b"),
        ("a.jsonl", "nonsense\n", "cannot be read as an output"),
        ("a.parquet", "nonsense", "cannot be read as an output"),
        ("a.csv", "step,start,end,value,error_band\n1,x,y,1,2\n", "cannot be read as an output"),
        ("a.csv", "step,start,end,value,error_band\n", "holds no step yet"),
        (
            "a.csv",
            "step,start,end,value,error_band\n1,2026-01-01T00:00Z,2026-01-02T00:00Z,1,-2\n",
            "not finite, or below 0",
        ),
        ("a.xlsx", "", "unknown ending"),
    ):
        path = tmp_path / name
        path.write_text(text)
        with pytest.raises(hl.InvalidInput, match=said):
            hl.read_published(path)
    (tmp_path / "parts").mkdir()
    with pytest.raises(hl.InvalidInput, match="holds no part yet"):
        hl.read_published(tmp_path / "parts")
    with pytest.raises(hl.InvalidInput, match="give the policy"):
        hl.read_published(tmp_path / "a.csv", raw=True)


def test_stretches_of_time(tmp_path):
    _, place = publish(tmp_path)
    values = hl.read_published(place)
    for call, said in (
        (
            lambda: values.total("2026-01-02T00:30"),
            "step 25 lasts from 2026-01-02T00:00:00.* begin and end where steps do",
        ),
        (lambda: values.total("2027-01-01", "2027-02-01"), "no step from 2027-01-01.* holds those from 2026-01-01"),
        (lambda: values.total("2026-01-03", "2026-01-02"), "has no step from"),
        (lambda: values.by("year", "2027-01-01", "2027-02-01"), "has no step"),
        (lambda: values.total("tomorrow"), "no date"),
        (lambda: values.total(group="north"), "has no groups"),
        (lambda: values.total(bin=1.0), "has no bins"),
        (lambda: values.by("moon"), "unknown period 'moon': did you mean 'month'"),
    ):
        with pytest.raises(hl.InvalidInput, match=said):
            call()
    (week,) = values.by("year")
    assert (week.steps, week.missing) == (96, 365 * 24 - 96)
    (part,) = values.by("month", "2026-01-02", "2026-01-03")
    assert (part.steps, part.missing, str(part.start)[:10]) == (24, 0, "2026-01-02")
    gone = values.total(datetime.datetime(2025, 12, 31), datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    assert (gone.steps, gone.missing) == (24, 24)
    assert values.mean("2026-01-02", "2026-01-03").value == pytest.approx(
        values.total("2026-01-02", "2026-01-03").value / 24
    )
    assert "PublishedValues" in repr(values)
    assert "± " in repr(week)


def test_weeks_and_days_follow_the_local_calendar(tmp_path):
    """Days of London over the end of March: 24, 23 and 24 hours, and weeks that begin on Mondays."""
    policy = town(
        tmp_path,
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        days=12,
        zone="Europe/London",
        start="2026-03-27",
        output="out.parquet",
    )
    hl.publish(policy)
    values = hl.read_published(tmp_path / "out.parquet")
    days = values.by("day")
    assert [day.steps for day in days[:4]] == [24, 24, 23, 24]
    assert all(day.missing == 0 for day in days)
    weeks = values.by("week")
    assert [str(week.start) for week in weeks] == [
        f"2026-{d} 00:00:00+0{o}:00" for d, o in (("03-23", 0), ("03-30", 1), ("04-06", 1))
    ]
    assert [(week.steps, week.missing) for week in weeks] == [(71, 96), (168, 0), (48, 120)]
    assert sum(week.value for week in weeks) == pytest.approx(values.total().value)


def test_missing_months_are_counted_though_months_differ():
    """Ten years of months without three of them; the shortest and the longest are three days apart."""
    edges = [datetime.datetime(2010 + k // 12, k % 12 + 1, 1, tzinfo=datetime.UTC) for k in range(121)]
    held = [k for k in range(120) if k not in (5, 40, 118)]
    columns = {"step": [k + 1 for k in held], "start": [edges[k] for k in held], "end": [edges[k + 1] for k in held]}
    moments = pa.schema([("step", pa.int64()), *((name, pa.timestamp("us", "UTC")) for name in ("start", "end"))])
    frame = pa.table(columns, schema=moments)
    for name in ("value", "error_band"):
        frame = frame.append_column(name, pa.array([1.0] * len(held)))
    values = PublishedValues(frame, "months", zone="UTC")
    assert (values.total().steps, values.total().missing) == (117, 3)
    assert [year.missing for year in values.by("year")] == [1, 0, 0, 1, 0, 0, 0, 0, 0, 1]


def test_a_text_file_in_another_zone_needs_its_name(tmp_path):
    policy = town(
        tmp_path,
        {"notion": "w-event", "epsilon": 1.0, "w": 6},
        days=4,
        zone="Europe/London",
        start="2026-03-27",
        output="out.csv",
    )
    hl.publish(policy)
    place = tmp_path / "out.csv"
    values = hl.read_published(place)
    assert values.zone is None
    for call in (lambda: values.by("day"), lambda: values.total("2026-03-28")):
        with pytest.raises(hl.InvalidInput, match="does not name the zone of its clock"):
            call()
    assert values.total("2026-03-28T00:00+00:00", "2026-03-28T02:00Z").steps == 2
    for named in (hl.read_published(place, zone="Europe/London"), hl.read_published(place, policy)):
        assert [day.steps for day in named.by("day")] == [24, 24, 23, 24]
    with pytest.raises(hl.InvalidInput, match="did you mean 'Europe/London'"):
        hl.read_published(place, zone="Europe/Lundon")
    with pytest.raises(hl.InvalidInput, match="leave zone out"):
        hl.read_published(place, policy, zone="UTC")


def test_a_file_that_is_not_the_ledger_s_is_refused_with_its_policy(tmp_path):
    policy, place = publish(tmp_path, "out.csv")
    path = Path(place)
    text = path.read_text()
    lines = text.splitlines(True)
    path.write_text("".join(lines[:50]))
    assert hl.read_published(place, policy).total().steps == 49, "a copy that ends earlier is the ledger's too"
    path.write_text("".join([*lines[:3], *lines[4:]]))
    assert hl.read_published(place, policy).total("2026-01-01", "2026-01-02").missing == 1
    first = lines[1].split(",")
    path.write_text("".join([lines[0], ",".join([*first[:3], "0.5", first[4]]), *lines[2:]]))
    with pytest.raises(hl.InvalidInput, match=r"is not what .*town.ledger holds of 'mean'"):
        hl.read_published(place, policy)
    path.write_text("".join([lines[0], ",".join([*first[:4], "0.5\n"]), *lines[2:]]))
    with pytest.raises(hl.InvalidInput, match=r"is not what .*town.ledger holds of 'mean'"):
        hl.read_published(place, policy)
    path.write_text("".join([*lines, lines[-1]]))
    with pytest.raises(hl.InvalidInput, match="holds a row twice"):
        hl.read_published(place)
    path.write_text(text)
    with pytest.raises(hl.LedgerError, match=r"epsilon of the promise was 1.0 and is now 2.0"):
        hl.read_published(
            place, {**policy_dict(epsilon=2.0, output="out.csv", **DAYS), "ledger": str(tmp_path / "town.ledger")}
        )
    with pytest.raises(hl.InvalidInput, match="did you mean 'mean'"):
        hl.read_published(place, policy, stream="meen")


def test_what_a_newer_version_says_is_not_guessed(tmp_path):
    _, place = publish(tmp_path)
    table = pq.read_table(place)
    changed = {**table.schema.metadata, b"noise": b'{"version": 2, "family": "laplace"}'}
    pq.write_table(table.replace_schema_metadata(changed), place)
    values = hl.read_published(place)
    assert values.total().band == pytest.approx(float(table["error_band"].to_numpy().sum()))
    assert "newer halflife" in values.total().covers


def test_a_file_of_an_earlier_version_is_gone_on_with(tmp_path):
    """One without the key: it is of the same stream, and says what its noise is once it is written anew."""
    write_readings(tmp_path, readings(steps=96))
    policy = make(tmp_path, output="out.parquet", **DAYS)
    hl.publish(policy, clock=datetime.datetime(2026, 1, 3, tzinfo=datetime.UTC).timestamp)
    place = tmp_path / "out.parquet"
    table = pq.read_table(place)
    assert json.loads(table.schema.metadata[b"noise"]) == {"version": 1, "family": "laplace"}
    sink = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata({k: v for k, v in table.schema.metadata.items() if k != b"noise"}), sink
    )
    place.write_bytes(sink.getvalue())
    import hashlib

    with open_ledger(policy.ledger_url) as book, book.hold():
        book.mark_written("mean", "parquet", 48, hashlib.sha256(place.read_bytes()).digest())
    assert hl.read_published(place).facts is None
    hl.publish(policy)
    assert hl.read_published(place).facts == NoiseFacts("laplace")
    assert hl.verify(policy).good


def test_a_file_saved_from_the_standard_output_holds_several_streams(tmp_path, capfd):
    data = policy_dict(output="-", **DAYS)
    data["streams"].append({**data["streams"][0], "name": "other"})
    write_readings(tmp_path, readings(steps=96))
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    hl.publish(tmp_path / "policy.yaml")
    saved = tmp_path / "saved.jsonl"
    saved.write_text(capfd.readouterr().out)
    with pytest.raises(hl.InvalidInput, match=r"rows of 2 streams: say which is meant \(mean, other\)"):
        hl.read_published(saved)
    mean, other = (hl.read_published(saved, tmp_path / "policy.yaml", stream=name) for name in ("mean", "other"))
    assert mean.total().value != other.total().value
    assert (mean.total() - other.total()).covers == "192 independent noises, counted exactly"
    with pytest.raises(hl.InvalidInput, match="say whose it is"):
        hl.read_published(saved, tmp_path / "policy.yaml")
    assert hl.read_published(saved, stream="other").total().value == other.total().value


def test_groups_bins_and_quantiles(tmp_path):
    write_readings(tmp_path, readings(steps=96))
    (tmp_path / "zones.csv").write_text(
        "home,zone\n" + "".join(f"h{i},{'north' if i < 3 else 'south'}\n" for i in range(5))
    )
    groups = {"table": {"file": "zones.csv", "person": "home", "group": "zone"}, "names": ["north", "south"]}
    statistic = {
        "kind": "histogram",
        "unit": "kWh",
        "resolution": "1 Wh",
        "edges": ["0", "1 kWh", "5 kWh"],
        "fold": "sum",
    }
    data = policy_dict(output="out.jsonl", **DAYS)
    data["streams"][0] |= {"groups": groups, "statistic": statistic}
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    hl.publish(tmp_path / "policy.yaml")
    values = hl.read_published(tmp_path / "out.jsonl", tmp_path / "policy.yaml")
    assert len(values.frame) == 96 * 4
    north = values.total(group="north")
    parts = [values.total(group="north", bin=low) for low in (0.0, 1.0)]
    assert north.value == pytest.approx(parts[0].value + parts[1].value)
    assert (north.steps, parts[0].steps) == (96, 96)
    assert north.band == pytest.approx((parts[0] + parts[1]).band)
    assert north.covers == "192 independent noises, counted exactly"
    with pytest.raises(hl.InvalidInput, match="unknown group 'nort': did you mean 'north'"):
        values.total(group="nort")
    with pytest.raises(hl.InvalidInput, match="unknown low edge of a bin '2'"):
        values.total(bin=2)
    data["streams"][0] |= {"output": "q.parquet", "statistic": {
        "kind": "quantile", "unit": "kWh", "resolution": "1 Wh", "edges": ["0", "1 kWh", "2 kWh", "5 kWh"],
        "quantiles": [0.5], "fold": "sum"}}  # fmt: skip
    data["ledger"] = "quantiles.ledger"
    data["population"]["id"] = "another town"
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    hl.publish(tmp_path / "policy.yaml", second_ledger=True)
    for policy in (None, tmp_path / "policy.yaml"):
        with pytest.raises(hl.InvalidInput, match="quantiles, which cannot be added up"):
            hl.read_published(tmp_path / "q.parquet", policy)
