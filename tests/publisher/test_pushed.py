"""What programs push: within the public range, whatever it is, and nothing about it decides whether a step is published."""

from __future__ import annotations

import datetime
import itertools
import json
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import halflife as hl
from halflife import InvalidInput
from halflife.engines import open_source
from halflife.policy import channels
from halflife.policy.ranges import total_range
from publisher.town import HOMES, LOUD, make

FINE = 1e-2
NAN, INF = float("nan"), float("inf")


def pushed(policy, *values):
    """What comes out for values that are pushed one step after the other, next to without noise."""
    with hl.Stream(policy) as stream:
        return [stream.publish(value, at=step).value for step, value in enumerate(values, start=1)]


def told(folder):
    return [json.loads(line) for line in (folder / "town.ledger.operator.jsonl").read_text().splitlines()]


def table(folder, text, name="table.csv"):
    (folder / name).write_text(text)
    return name


def test_a_billion_from_five_homes_is_what_five_homes_can_use(tmp_path):
    """5 homes of at most 5 kWh come to 25 kWh; it came out as 10⁹."""
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None}, statistic={"kind": "sum"})
    assert pushed(policy, 1e9, -1e9, 24.5) == pytest.approx([25.0, 0.0, 24.5], abs=FINE)
    assert [line["clamped"] for line in told(tmp_path)] == [1, 1, 0]
    assert [line["bad_value"] for line in told(tmp_path)] == [0, 0, 0]


NOBODY = (NAN, INF, -INF, None, np.float64("nan"), np.float32("-inf"), np.ma.masked, pd.NA, pd.NaT, Decimal("NaN"),
          Decimal("sNaN"), Decimal("-Infinity"), np.ma.array([2.0], mask=[True]), pa.scalar(None, pa.float64()), [None],
          pd.Series([None], dtype="Float64"))  # fmt: skip
HIGH = (10**400, Fraction(10**400, 3), Decimal("1e400"), Decimal("1e999999"), 1e308, np.float64(1e300),
        np.longdouble("1e4000"), 2**63, np.uint64(2**64 - 1), 5.001)  # fmt: skip
AS_IS = (2, 2.0, True + 1, Fraction(2), Decimal("2"), np.int8(2), np.float16(2), np.longdouble(2), np.array(2.0), [2],
         (2.0,), np.array([2]), pd.Series([2]), pl.Series([2]), pa.scalar(2.0), Decimal("2" + "0" * 70).scaleb(-70))  # fmt: skip


@pytest.mark.parametrize(
    ("values", "expected"),
    [(NOBODY, 1.0), (HIGH, 5.0), (tuple(-h for h in HIGH[:7]), -5.0), (AS_IS, 2.0), ((Decimal("1e-999999"),), 0.0)],
)
def test_no_number_stops_a_program_and_each_means_one_thing(tmp_path, values, expected):
    """A mean over homes in [-5, 5] kWh, of whom a missing one counts as 1 kWh."""
    policy = make(
        tmp_path, epsilon=LOUD, stream={"source": None}, statistic={"clip": ["-5 kWh", "5 kWh"], "missing": "1 kWh"}
    )
    assert pushed(policy, *values) == pytest.approx([expected] * len(values), abs=FINE)
    assert sum(line["bad_value"] for line in told(tmp_path)) == (len(values) if values is NOBODY else 0)
    assert sum(line["clamped"] for line in told(tmp_path)) == (len(values) if abs(expected) == 5 else 0)


@pytest.mark.parametrize(
    "value", ["much", "1.5", b"1.5", {"a": 1.0}, [[1.0]], [1.0, 2.0], [], 1j, datetime.date(2026, 1, 1), object()]
)
def test_the_shape_of_a_call_is_refused_before_anything_is_spent_or_told(tmp_path, value):
    """Text is refused whether or not it reads as a number: its type decides, never what it says."""
    policy = make(tmp_path, stream={"source": None})
    with hl.Stream(policy) as stream:
        with pytest.raises(InvalidInput, match="number"):
            stream.publish(value, at=1)
        assert stream._session.ledger.last_step("mean") == 0
    assert not (tmp_path / "town.ledger.operator.jsonl").exists()


def test_an_operator_file_that_cannot_be_written_refuses_good_and_bad_numbers_alike(tmp_path):
    policy = make(tmp_path, stream={"source": None})
    (tmp_path / "town.ledger.operator.jsonl").mkdir()
    with hl.Stream(policy) as stream:
        for value in (1.0, NAN, 1e9):
            with pytest.raises(InvalidInput, match=r"operator\.jsonl"):
                stream.publish(value, at=1)
        assert stream._session.ledger.last_step("mean") == 0


# The public range, against every population that there can be -------------------------------------------------------

CLIPS = ((0, 3), (-2, 1), (1, 2), (-3, -1))


def _policy(folder, low, high, missing, **more):
    """Units of 1 kWh, so that a brute force over all readings is small."""
    statistic = {"kind": "sum", "resolution": "1 kWh", "clip": [str(low), str(high)], "missing": str(missing)}
    return make(
        folder, stream={"source": None, **more.pop("stream", {})}, statistic=statistic | more, population={"size": 3}
    )


def _possible(low, high, missing, weights):
    """The least and the largest total over all that people can have: a reading in the bounds, or none."""
    totals = {
        sum(w * v for w, v in zip(weights, values, strict=True))
        for values in itertools.product((low, high, missing), repeat=len(weights))
    }
    return min(totals), max(totals)


@pytest.mark.parametrize("missing", [-4, 0, 2, 5])
@pytest.mark.parametrize(("low", "high"), CLIPS)
def test_a_range_is_what_all_populations_come_to(tmp_path, low, high, missing):
    (channel,) = channels(_policy(tmp_path, low, high, missing))
    assert total_range(channel, 3) == (_possible(low, high, missing, [1, 1, 1]),)

    file = table(tmp_path, "id,zone\na,north\nb,north\nc,south\n")
    groups = {"table": {"file": file, "person": "id", "group": "zone"}, "names": ["north", "south", "none"]}
    (channel,) = channels(_policy(tmp_path, low, high, missing, stream={"groups": groups}))
    by_group = [_possible(low, high, missing, [1] * n) for n in (2, 1, 0)]
    assert total_range(channel, 3) == tuple(by_group)

    weights = {
        "file": table(tmp_path, "id,w\na,2\nb,-3\nc,0\n", "weights.csv"),
        "person": "id",
        "weight": "w",
        "largest": "5",
    }
    (channel,) = channels(_policy(tmp_path, low, high, missing, kind="weighted sum", weights=weights))
    assert total_range(channel, 3) == (_possible(low, high, missing, [2, -3, 0]),)
    (channel,) = channels(
        _policy(tmp_path, low, high, missing, kind="weighted sum", weights=weights, stream={"groups": groups})
    )
    by_group = [_possible(low, high, missing, w) for w in ([2, -3], [0], [])]
    assert total_range(channel, 3) == tuple(by_group)


def test_a_range_of_groups_that_may_change_allows_for_anybody_up_to_their_public_size(tmp_path):
    groups = {"names": ["a", "b"], "most_per_person": 2, "sizes": {"a": 2}}
    (channel,) = channels(_policy(tmp_path, 1, 2, 0, stream={"groups": groups}))
    assert total_range(channel, 3) == ((0, 4), (0, 6))
    weights = {"file": table(tmp_path, "id,w\na,2\nb,-3\n"), "person": "id", "weight": "w", "largest": "5"}
    del groups["sizes"]  # of no use where people have weights, and refused
    (channel,) = channels(_policy(tmp_path, 1, 2, 0, kind="weighted sum", weights=weights, stream={"groups": groups}))
    assert total_range(channel, 3) == ((-6, 4), (-6, 4))


def test_counts_and_bins_lie_between_nobody_and_everybody(tmp_path):
    edges = {"kind": "histogram", "edges": ["0", "1", "5"], "clip": None}
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None}, statistic=edges)
    ((low, high),) = pushed(policy, [-1e9, 1e9])
    assert (low, high) == pytest.approx((0, HOMES), abs=FINE)
    ((first, second),) = pushed(policy, [NAN, 3])[:1]
    assert (first, second) == (low, high), "published once"
    (tmp_path / "b").mkdir()
    policy = make(tmp_path / "b", epsilon=LOUD, stream={"source": None, "statistic": {"kind": "count"}})
    assert pushed(policy, 10**400, -1, 4.4, None) == pytest.approx([HOMES, 0, 4, 0], abs=FINE)


def test_a_mean_of_a_group_lies_within_the_clip(tmp_path):
    groups = {"names": ["a", "b"], "most_per_person": 1, "sizes": {"a": 2, "b": 3}}
    policy = make(tmp_path, epsilon=LOUD, stream={"source": None, "groups": groups})
    (found,) = pushed(policy, {"a": 1e9, "b": -1e9})
    assert found == pytest.approx({"a": 5.0, "b": 0.0}, abs=FINE)
    assert [line["clamped"] for line in told(tmp_path)] == [2]


# What engines add up ------------------------------------------------------------------------------------------------


def _totals(channel, rows):
    engine = open_source(pl.DataFrame(rows, schema=["home", "time", "kwh", "place"], orient="row"))
    answer = engine.aggregate(channel.question(1, 2))
    return (answer.sums + np.array(channel.sized_at(1).offsets)[None, :, None]).reshape(2, -1)


@pytest.mark.diagonal
@pytest.mark.parametrize("kind", ["sum", "count", "histogram"])
@pytest.mark.parametrize("grouped", [False, True])
def test_what_engines_add_up_lies_within_the_same_range(tmp_path, kind, grouped):
    """Random readings of the whole population, far outside the clip, missing and bad ones among them."""
    statistic = {
        "sum": {"kind": "sum", "clip": ["-2 kWh", "3 kWh"], "missing": "0"},
        "count": {"kind": "count", "unit": None, "resolution": None, "clip": None, "fold": None},
        "histogram": {"kind": "histogram", "edges": ["0", "1", "4"], "clip": None},
    }[kind]
    groups = {"groups": {"names": ["a", "b"], "most_per_person": 2}} if grouped else {}
    source = {"files": "-", "time": "time", "value": "kwh"} | ({"group": "place"} if grouped else {})
    (channel,) = channels(make(tmp_path, statistic=statistic, stream={"source": source, **groups}))
    low, high = np.array(total_range(channel, HOMES)).T
    draw, reached = np.random.default_rng(7), []
    for _ in range(8):
        size = draw.integers(1, 60)
        homes, hours = draw.integers(0, HOMES, size), draw.integers(0, 2, size)
        values = draw.choice([-1e9, -1.0, 0.0, 0.5, 2.0, 1e300, NAN], size)
        places = draw.choice(["a", "b", "elsewhere"], size)
        rows = [
            (f"h{h}", f"2026-01-01T{k:02}:{m:02}:00", float(v), str(g))
            for m, (h, k, v, g) in enumerate(zip(homes, hours, values, places, strict=True))
        ]
        totals = _totals(channel, rows)
        assert (low <= totals).all(), totals
        assert (totals <= high).all(), totals
        reached.append(totals)
    assert np.ptp(np.array(reached), axis=(0, 1)).all(), "something was added up"


def test_more_people_than_the_policy_says_move_a_total_no_further_each(tmp_path):
    """8 homes where the policy says 5: the total passes the range, and one home still moves it by its clip alone."""
    (channel,) = channels(make(tmp_path, statistic={"kind": "sum"}))
    rows = [(f"h{h}", "2026-01-01T00:30:00", 9.0, "") for h in range(8)]
    everybody = _totals(channel, rows)[0, 0]
    assert everybody == 8 * 5000 > total_range(channel, HOMES)[0][1]
    for value in (-INF, 0.0, 1.0, NAN):
        changed = _totals(channel, [*rows[:-1], (*rows[-1][:2], value, "")])[0, 0]
        assert abs(everybody - changed) <= channel.sensitivity.l1 == 5000
