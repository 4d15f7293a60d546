"""Facts: what a release may say, how it is kept, and how neighbours' tools read it."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halflife import Accountant, Classical, History, InvalidInput, Release

NAN = float("nan")

BAD_RELEASES = [
    ("step 0", {"step": 0}, "step must be at least 1, not 0"),
    ("step in between", {"step": 1.5}, "whole number, not 1.5"),
    ("step of text", {"step": "1"}, "whole number, not '1'"),
    ("step NaN", {"step": NAN}, "whole number, not nan"),
    ("loss NaN", {"loss": NAN}, "loss is NaN"),
    ("loss infinite", {"loss": math.inf}, "loss must be finite"),
    ("loss negative", {"loss": -0.1}, "loss must be at least 0, not -0.1"),
    ("loss subnormal", {"loss": 5e-324}, "subnormal"),
    ("loss None", {"loss": None}, "loss must be a number"),
    ("loss True", {"loss": True}, "loss must be a number"),
    ("age negative", {"age": -1}, "age must be at least 0, not -1"),
    ("sensitivity NaN", {"sensitivity": NAN}, "sensitivity is NaN"),
    ("sensitivity negative", {"sensitivity": -2.0}, "sensitivity must be at least 0"),
    ("scale negative", {"scale": -1.0}, "scale must be at least 0"),
    ("scale 0, finite loss", {"scale": 0.0}, "scale 0 publishes the exact value"),
    ("loss below what the noise costs", {"scale": 5.0}, "less than sensitivity / scale = 1.0 / 5.0 = 0.2"),
    ("loss a tenth below what the noise costs", {"loss": 0.45, "scale": 2.0}, "= 1.0 / 2.0 = 0.5"),
    ("loss a hair below what the noise costs", {"loss": 0.4999, "scale": 2.0}, "= 1.0 / 2.0 = 0.5"),
    ("unknown noise", {"noise": "laplacian"}, "did you mean 'laplace'"),
    ("empty draw", {"draw": ""}, "1 to 200 characters"),
    ("draw of a number", {"draw": 7}, "1 to 200 characters"),
]


@pytest.mark.parametrize(("fields", "message"), [b[1:] for b in BAD_RELEASES], ids=[b[0] for b in BAD_RELEASES])
def test_bad_release_is_refused_with_the_numbers(fields, message):
    with pytest.raises(InvalidInput) as error:
        Release(**{"step": 1, "loss": 0.1, **fields})
    assert message in str(error.value)


releases = st.builds(
    Release,
    st.integers(1, 50),
    st.floats(1e-9, 10),
    st.integers(0, 9),
    sensitivity=st.floats(1e-3, 1e3),
    noise=st.sampled_from(["laplace", "gaussian"]),
    draw=st.none() | st.text("abc ", min_size=1, max_size=5),
)


@given(st.lists(releases))
def test_a_history_survives_the_disk_bit_for_bit(items):
    history = History(sorted(items, key=lambda r: r.step))
    assert History.from_json(history.to_json()) == history
    assert sum(len(group) for _, group in history.by_step()) == len(history)


def test_an_exact_value_is_a_fact_that_survives_the_disk():
    history = History([Release(1, math.inf, scale=0.0)])
    assert json.loads(history.to_json())["releases"][0]["loss"] == "inf"
    assert History.from_json(history.to_json()) == history


BAD_HISTORIES = [
    ("not JSON", "{", "not JSON"),
    ("another format", '{"format": "x"}', "'format' says otherwise"),
    ("a newer version", '{"format": "halflife.history", "version": 2}', "version 2"),
    ("no list", '{"format": "halflife.history", "version": 1, "releases": 3}', "list of releases"),
    (
        "unknown field",
        '{"format": "halflife.history", "version": 1, "releases": [{"stepp": 1}]}',
        "did you mean 'step'",
    ),
    ("no loss", '{"format": "halflife.history", "version": 1, "releases": [{"step": 1}]}', "lacks its loss"),
    ("deeply nested", "[" * 100_000, "not JSON"),
]


@pytest.mark.parametrize(("text", "message"), [b[1:] for b in BAD_HISTORIES], ids=[b[0] for b in BAD_HISTORIES])
def test_a_bad_file_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message):
        History.from_json(text)


def test_a_history_out_of_order_is_refused_with_the_item():
    with pytest.raises(InvalidInput, match="item 1 of a history is of step 1, after step 2"):
        History([Release(2, 0.1), Release(1, 0.1)])
    with pytest.raises(InvalidInput, match="item 0 of a history must be a Release"):
        History(["x"])


def test_columns_for_parquet():
    table = History([Release(1, 0.1, scale=10.0), Release(2, 0.2)]).to_arrow()
    assert table.column("scale").to_pylist() == [10.0, None]
    assert table.num_columns == 10
    assert table.column("span").to_pylist() == [1, 1]


BAD_SPANS = [
    ("no step", {"span": 0}, "span must be at least 1"),
    ("half a step", {"span": 1.5}, "span must be a whole number"),
    ("a step moves more than all", {"span": 3, "step_sensitivity": 2.0}, "is more than sensitivity 1.0"),
    (
        "steps that move too little",
        {"span": 3, "step_sensitivity": 0.3},
        "3 steps that move a value by 0.3 each cannot",
    ),
    ("one step that moves less than itself", {"step_sensitivity": 0.9}, "1 steps that move a value by 0.9 each cannot"),
    ("a step that moves nothing", {"span": 3, "step_sensitivity": 0.0}, "step_sensitivity must be"),
    ("shared noise", {"span": 3, "draw": "v"}, "with shared noise .'v'. is not worked out"),
    ("atop shared noise", {"span": 3, "atop": "v"}, "with shared noise .'v'. is not worked out"),
]


@pytest.mark.parametrize(("fields", "message"), [b[1:] for b in BAD_SPANS], ids=[b[0] for b in BAD_SPANS])
def test_a_span_that_cannot_be_is_refused(fields, message):
    with pytest.raises(InvalidInput, match=f"release at step 1: .*{message}"):
        Release(1, 0.5, **fields)


def test_a_span_ends_at_the_data_time_and_its_defaults_are_left_out():
    wide = Release(30, 0.5, age=4, span=24, step_sensitivity=1 / 24)
    assert (wide.first_data_time, wide.data_time, wide.at_step(31, 4).first_data_time) == (3, 26, 4)
    assert wide.step_share == 1 / 24
    assert wide.at_step(31, 4).step_sensitivity == 1 / 24
    assert {"span", "step_sensitivity"} <= set(wide.to_dict())
    assert Release.from_dict(wide.to_dict()) == wide
    plain = Release(30, 0.5, step_sensitivity=1.0)
    assert plain == Release(30, 0.5)
    assert not {"span", "step_sensitivity"} & set(plain.to_dict())
    assert Release(30, 0.5, sensitivity=7.0, span=49, step_sensitivity=7.0 / 49).step_share >= 1 / 49


def test_opendp_measurements_become_releases_that_bound_them():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.atom_domain(T="i64"), dp.absolute_distance(T="i64")
    release = Release.from_opendp(dp.m.make_laplace(*space, scale=4.0), step=3, d_in=2)
    assert release.loss == pytest.approx(2 * math.log((1 + math.exp(0.5)) / 2), rel=1e-9)
    with pytest.raises(InvalidInput, match="does not say what its noise is"):
        Release.from_opendp(dp.m.make_gaussian(*space, scale=4.0), step=3, d_in=2)


@given(st.floats(0.01, 5), st.floats(0, 6))
def test_what_is_charged_for_an_opendp_measurement_covers_randomised_response(epsilon, at):
    """δ(ε′) of randomised response is (e^ε − e^ε′)/(1 + e^ε), of Laplace noise of loss ρ 1 − e^{(ε′−ρ)/2}."""
    loss = 2 * math.log((1 + math.exp(epsilon)) / 2)
    response = max(0.0, (math.exp(epsilon) - math.exp(at)) / (1 + math.exp(epsilon)))
    assert max(0.0, -math.expm1((at - loss) / 2)) >= response - 1e-12


def test_dp_accounting_events_go_in_and_out():
    dp_accounting = pytest.importorskip("dp_accounting")
    history = History([Release(1, 0.5), Release(2, 0.25, noise="gaussian")])
    event = history.to_dp_event()
    assert [type(e).__name__ for e in event.events] == ["LaplaceDpEvent", "GaussianDpEvent"]
    assert [(r.loss, r.noise) for r in History.from_dp_event(event)] == [(0.5, "laplace"), (0.25, "gaussian")]
    many = dp_accounting.SelfComposedDpEvent(dp_accounting.LaplaceDpEvent(10.0), 3)
    assert Accountant.replay(Classical(1.0), History.from_dp_event(many)).risk() == pytest.approx(0.3)
    with pytest.raises(InvalidInput, match="PoissonSampledDpEvent"):
        History.from_dp_event(dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.LaplaceDpEvent(1.0)))
    with pytest.raises(InvalidInput, match="shares its noise"):
        History([Release(1, 0.1, draw="a")]).to_dp_event()
