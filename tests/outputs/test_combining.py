"""Bands of sums of published rows: every row's noises are simulated by brute force, and 95 % of errors lie within the band."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from halflife.errors import InvalidInput
from halflife.local_time import parse_time, to_us
from halflife.numerics.noise_sums import GAUSSIAN_BAND, LAPLACE_BAND, band_of_noises
from halflife.outputs import NoiseFacts, PublishedValues
from halflife.postprocessing import Kalman, MovingAverage, Truncate

HOUR = 3_600_000_000
START = to_us(parse_time("2026-03-28", "Europe/London"))  # a day before one of 23 hours
TIMES = 60_000
"""Simulated sums: a coverage of 95 % comes out within 0.4 %, four and a half standard deviations."""


def rows(steps, bands, facts=None, groups=(), values=None, zone="Europe/London", stream="s"):
    """Published rows of hours, by step and group, with these bands (one for each row)."""
    cells = max(1, len(groups))
    k = np.repeat(np.asarray(steps), cells)
    moment = pa.timestamp("us", zone)
    columns = {
        "step": pa.array(k),
        "start": pa.array(START + (k - 1) * HOUR).cast(moment),
        "end": pa.array(START + k * HOUR).cast(moment),
        **({"group": pa.array(list(groups) * len(steps))} if groups else {}),
        "value": pa.array(np.zeros(len(k)) if values is None else np.asarray(values, dtype=np.float64)),
        "error_band": pa.array(np.broadcast_to(np.asarray(bands, dtype=np.float64), len(k))),
    }
    return PublishedValues(pa.table(columns), "out.parquet", stream, "kWh", zone, facts, "nothing is known", {})


def covered(found, errors):
    return float((np.abs(errors) <= found.band).mean())


def london_phase(k):
    """The hour that a London clock shows at step k, by the calendar."""
    moment = pa.scalar(START + (k - 1) * HOUR, pa.timestamp("us", "Europe/London")).as_py()
    return moment.hour


WEIGHTS = {
    "total": np.ones(60),
    "few": np.r_[1.0, np.zeros(23), 1.0, 1.0, np.zeros(34)],
    "difference a day apart": np.r_[np.ones(20), np.zeros(4), -np.ones(20), np.zeros(16)],
    "uneven": np.linspace(-1, 3, 60),
    "twice": np.r_[2.0, 0.5, np.zeros(58)],
}


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_fresh_noise(family, weights):
    r, a = np.random.default_rng(1), WEIGHTS[weights]
    scales = 1 + np.arange(60) % 7
    found = rows(
        range(1, 61), scales * {"laplace": LAPLACE_BAND, "gaussian": GAUSSIAN_BAND}[family], NoiseFacts(family)
    ).combine(a)
    draw = r.laplace if family == "laplace" else r.normal
    errors = sum(a[i] * scales[i] * draw(size=TIMES) for i in np.flatnonzero(a))
    assert covered(found, errors) == pytest.approx(0.95, abs=0.004)
    if family == "gaussian":
        assert found.band == pytest.approx(GAUSSIAN_BAND * np.linalg.norm(a * scales), rel=1e-9)


@pytest.mark.parametrize("fresh", [0.0, 0.7, 5.0], ids=["weak", "strong", "strong, little reused"])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("phases", ["by step", "renewed", "by clock"])
def test_reused_noise_counts_once(phases, weights, fresh):
    r, a, scale = np.random.default_rng(2), WEIGHTS[weights], 3.0
    facts = {
        "by step": NoiseFacts("laplace", 7, fresh=fresh),
        "renewed": NoiseFacts("laplace", 7, renew=2, fresh=fresh),
        "by clock": NoiseFacts("laplace", 24, by_clock=True, fresh=fresh),
    }[phases]
    name = {
        "by step": lambda k: (k - 1) % 7,
        "renewed": lambda k: ((k - 1) % 7, (k - 1) // 14),
        "by clock": london_phase,
    }[phases]
    noises = {key: scale * r.laplace(size=TIMES) for key in {name(k) for k in range(1, 61)}}
    errors = sum(a[k - 1] * noises[name(k)] for k in range(1, 61))
    if fresh:
        errors = errors + sum(w * fresh * scale * r.laplace(size=TIMES) for w in a if w)
    one = band_of_noises(np.array([scale, fresh * scale]))
    found = rows(range(1, 61), one, facts).combine(a)
    if np.abs(errors).max() < 1e-9:
        assert found.band == 0
        assert found.covers == "no noise: the value is exact"
    else:
        assert covered(found, errors) == pytest.approx(0.95, abs=0.004)


def test_a_difference_of_one_phase_is_exact_and_across_a_changed_clock_too():
    facts = NoiseFacts("laplace", 24, by_clock=True)
    values = rows(range(1, 61), 9.0, facts)
    first, second = (
        values.total("2026-03-28T10:00", "2026-03-28T12:00"),
        values.total("2026-03-29T10:00", "2026-03-29T12:00"),
    )
    assert (first - second).band == 0
    assert (first + second).band == pytest.approx(2 * first.band)
    by_step = rows(range(1, 61), 9.0, NoiseFacts("laplace", 24))
    moved = by_step.total("2026-03-28T10:00", "2026-03-28T12:00") - by_step.total(
        "2026-03-29T10:00", "2026-03-29T12:00"
    )
    assert moved.band > 0, "the day of 23 hours has moved phases that are counted in steps"


def test_where_phases_follow_a_clock_that_is_not_known_bands_are_added_up():
    facts = NoiseFacts("laplace", 24, by_clock=True)
    table = rows(range(1, 61), 9.0).frame
    values = PublishedValues(table, "out.csv", "s", "kWh", None, facts, "the zone is not known")
    assert values.combine(np.ones(60)).band == pytest.approx(540)


def test_groups_have_noises_of_their_own():
    r, names = np.random.default_rng(3), ("north", "south", "west")
    bands = np.tile([1.0, 2.0, 4.0], 10) * LAPLACE_BAND
    for facts, period in ((NoiseFacts("laplace"), 10), (NoiseFacts("laplace", 5), 5)):
        values = rows(range(1, 11), bands, facts, names)
        noises = r.laplace(size=(TIMES, period, 3)) * [1.0, 2.0, 4.0]
        every = np.tile(noises, (1, 10 // period, 1))
        assert covered(values.total(), every.sum(axis=(1, 2))) == pytest.approx(0.95, abs=0.004)
        south = values.total(group="south")
        assert covered(south, every[:, :, 1].sum(axis=1)) == pytest.approx(0.95, abs=0.004)
        assert south.steps == 10
        between = values.total(group="south") - values.total(group="north")
        assert covered(between, (every[:, :, 1] - every[:, :, 0]).sum(axis=1)) == pytest.approx(0.95, abs=0.004)


# Estimates ----------------------------------------------------------------------------------------------------------

CHAINS = {
    "truncate": ("laplace", lambda: [Truncate(0.0, 50.0)], 0.0),
    "truncate, truth inside": ("laplace", lambda: [Truncate(-1.0, 50.0)], 0.3),
    "truncate, gaussian": ("gaussian", lambda: [Truncate(0.0, 50.0)], 0.0),
    "average": ("laplace", lambda: [MovingAverage(6)], 5.0),
    "average, gaussian": ("gaussian", lambda: [MovingAverage(6)], 5.0),
    "kalman": ("laplace", lambda: [Kalman(0.2)], 5.0),
    "average, truncate": ("laplace", lambda: [MovingAverage(3), Truncate(0.0, 50.0)], 0.0),
    "truncate, average": ("laplace", lambda: [Truncate(0.0, 50.0), MovingAverage(4, independent=False)], 0.0),
}


@pytest.mark.diagonal
@pytest.mark.parametrize("weights", ["total", "few", "uneven", "twice"])
@pytest.mark.parametrize("chain", CHAINS)
def test_bands_of_estimates_that_are_added_up_hold(chain, weights):
    """Of a constant truth, which no average lags behind: errors are the noise's alone, correlated as the chain makes them."""
    from halflife.postprocessing import Facts

    family, make, truth = CHAINS[chain]
    r, a, lanes = np.random.default_rng(4), WEIGHTS[weights], 20_000
    noise = r.laplace(size=(60, lanes)) if family == "laplace" else r.normal(size=(60, lanes))
    values, scales = truth + noise, np.ones(60)
    known = Facts(std=math.sqrt(2) if family == "laplace" else 1.0)
    for smoother in make():
        values, scales = smoother.smooth(values, scales, known)
    bands = scales * {"laplace": LAPLACE_BAND, "gaussian": GAUSSIAN_BAND}[family]
    names = tuple(s.name for s in make())
    found = rows(range(1, 61), bands, NoiseFacts(family, post=((1, names),))).combine(a)
    assert found.band == pytest.approx(float(np.abs(a) @ bands))
    assert covered(found, a @ (values - truth)) >= 0.945
    assert ", ".join(names) in found.covers


def test_truncated_sums_would_not_be_covered_as_if_their_noises_were_independent():
    """Why bands are added up: half of the errors are cut off at 0, and the rest lean to one side."""
    values = np.clip(np.random.default_rng(6).laplace(size=(60, 20_000)), 0, None)
    as_if_raw = rows(range(1, 61), LAPLACE_BAND, NoiseFacts("laplace")).combine(np.ones(60))
    assert covered(as_if_raw, values.sum(axis=0)) < 0.3


def test_raw_and_averaged_rows_together():
    """Post-processing began at step 31: raw rows count as one noise beside the estimates."""
    noise = np.random.default_rng(7).laplace(size=(60, 20_000))
    values, scales = MovingAverage(6).smooth(noise[30:], np.ones(30))
    errors = np.r_[noise[:30], values]
    bands = np.r_[np.ones(30), scales] * LAPLACE_BAND
    facts = NoiseFacts("laplace", post=((31, ("moving_average",)),))
    found = rows(range(1, 61), bands, facts).combine(np.ones(60))
    assert covered(found, errors.sum(axis=0)) >= 0.945
    assert found.band == pytest.approx(LAPLACE_BAND * math.sqrt(30) + bands[30:].sum())
    assert found.covers.startswith("30 independent noises, counted as one; estimates (moving_average)")
    raw_alone = rows(range(1, 61), bands, facts).total("2026-03-28", "2026-03-29")
    assert raw_alone.covers == "24 independent noises, counted exactly"


# Arithmetic ---------------------------------------------------------------------------------------------------------


def test_combinations_are_linear():
    r = np.random.default_rng(8)
    values = rows(range(1, 61), 1 + r.random(60), NoiseFacts("laplace", 24), values=r.normal(size=60))
    a, b = r.normal(size=60), r.normal(size=60)
    made, direct = 3 * values.combine(a) - values.combine(b) / 2, values.combine(3 * a - b / 2)
    assert made.value == pytest.approx(direct.value)
    assert made.band == pytest.approx(direct.band, rel=1e-9)
    assert (-values.combine(a)).value == -values.combine(a).value
    zero = values.combine(a) - values.combine(a)
    assert (zero.value, zero.band) == (0, 0)


def test_different_streams_are_independent_and_a_day_is_not_its_hours():
    """A day and its hours in two streams are two releases: the difference of their totals carries the noise of both."""
    r = np.random.default_rng(9)
    hours = rows(range(1, 24), LAPLACE_BAND, NoiseFacts("laplace"), stream="hours")
    day = rows([1], 3 * LAPLACE_BAND, NoiseFacts("laplace"), stream="day")
    gaussian = rows([1], 2 * GAUSSIAN_BAND, NoiseFacts("gaussian"), stream="other")
    found = hours.total() - day.total() + gaussian.total()
    errors = r.laplace(size=(TIMES, 23)).sum(axis=1) - 3 * r.laplace(size=TIMES) + 2 * r.normal(size=TIMES)
    assert covered(found, errors) == pytest.approx(0.95, abs=0.004)
    assert found.covers == "25 independent noises, counted exactly"


def test_one_stream_read_twice_is_never_taken_for_two():
    """Whether their noises are the same is not known: bands are added up, in a sum and in a difference."""
    once, again = (rows(range(1, 11), LAPLACE_BAND, NoiseFacts("laplace")) for _ in range(2))
    for found in (once.total() + again.total(), once.total() - again.total()):
        assert found.band == pytest.approx(2 * LAPLACE_BAND * math.sqrt(10))
        assert "was read twice" in found.covers


def test_what_cannot_be_added_is_refused():
    values = rows(range(1, 11), 1.0, NoiseFacts("laplace"))
    other = PublishedValues(values.frame, "o", "o", "W", "UTC", values.facts)
    with pytest.raises(InvalidInput, match="kWh and W cannot be added"):
        values.total() + other.total()
    with pytest.raises(TypeError):
        values.total() + 3
    with pytest.raises(InvalidInput, match="divided by 0"):
        values.total() / 0
    for wrong in (math.nan, math.inf):
        with pytest.raises(InvalidInput):
            values.total() * wrong
    with pytest.raises(InvalidInput, match="10 rows need as many finite weights"):
        values.combine(np.ones(9))


def test_nothing_is_known_of_rows_without_facts():
    values = rows(range(1, 61), np.arange(1.0, 61.0))
    found = values.combine(WEIGHTS["uneven"])
    assert found.band == pytest.approx(float(np.abs(WEIGHTS["uneven"]) @ np.arange(1.0, 61.0)))
    assert found.covers == "bands were added up, which holds however errors are correlated: nothing is known"


# Facts --------------------------------------------------------------------------------------------------------------


def test_facts_are_written_without_defaults_and_read_back():
    assert NoiseFacts("gaussian").to_json() == '{"version": 1, "family": "gaussian"}'
    facts = NoiseFacts("laplace", 48, True, None, 0.25, ((1, ("moving_average", "truncate")), (49, ())))
    assert NoiseFacts.from_json(facts.to_json()) == facts
    assert [facts.find_post(k) for k in (1, 48, 49)] == [("moving_average", "truncate")] * 2 + [()]
    for wrong in ("[]", "{}", "nonsense", '{"version": 2, "family": "laplace"}', '{"family": "cauchy"}',
                  '{"family": "laplace", "x": 1}',
                  '{"family": "laplace", "period": 0}', '{"family": "laplace", "post": [1]}'):  # fmt: skip
        with pytest.raises(InvalidInput):
            NoiseFacts.from_json(wrong)
