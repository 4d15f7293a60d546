"""What secrets cost: numbers against brute force, words, pictures and pages."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from browser import opened
from halflife import InvalidInput, Secret, Specification
from halflife.lab.swellfish import costs, view
from halflife.specifications import Specifications
from halflife.steps import Steps


@pytest.fixture(scope="module")
def town():
    return costs.generate_secrets(3, 2, seed=3)[0]


@pytest.fixture(scope="module")
def found(town):
    return costs.compare(town, delta=0.0, steps=192)


def sensitivities(s, n):
    """Δ of each household and step, secret by secret."""
    return np.array([[held.sensitivity(t) for t in range(1, n + 1)] for held in s])


def test_the_overview_is_what_counting_gives(town):
    delta = sensitivities(town, 192)
    seen = costs.overview(town, 192)
    assert seen.sensitivity == pytest.approx(delta.max(), rel=1e-12)
    assert seen.widest == np.argmax(np.round(delta.max(axis=0), 9)) + 1
    assert seen.relevant == np.mean(delta.max(axis=0) > 0)
    assert seen.one_household == pytest.approx(np.median((delta > 0).mean(axis=1)))
    assert seen.longest == max(s.duration for held in town for s in held.secrets)
    assert seen.smallest_epsilon == min(s.epsilon for held in town for s in held.secrets)


def test_secrets_before_the_first_step_and_after_the_last_do_not_count_as_time():
    s = Specifications(Specification([Secret(1.0, 1, -5, 2, 1.0), Secret(1.0, 1, 9, 30, 1.0)], "a"))
    seen = costs.overview(s, 10)
    assert seen.relevant == seen.one_household == pytest.approx(0.4)
    with pytest.raises(InvalidInput, match="no secret"):
        costs.overview(s.only(slice(0, 0)))


def test_total_noise_is_the_sum_over_the_formula(town, found):
    """Theorem 8 and its correction, secret by secret and step by step."""
    paper = tight = 0.0
    for t in range(1, 193):
        relevant = [held.relevant(t) for held in town if held.relevant(t)]
        paper += max((sum(s.power for s in r) * max(s.duration for s in r) / min(s.epsilon for s in r) for r in relevant),
                     default=0)  # fmt: skip
        tight += max((sum(s.power for s in r) * max(s.duration / s.epsilon for s in r) for r in relevant), default=0)
    by_method = {o.method: o for o in found.outcomes}
    assert by_method["paper"].total == pytest.approx(np.sqrt(2) * paper, rel=1e-6)
    assert by_method["tight"].total == pytest.approx(np.sqrt(2) * tight, rel=1e-6)
    assert by_method["tight"].error == pytest.approx(tight / 192, rel=1e-6)
    assert by_method["tight"].std.sum() == pytest.approx(by_method["tight"].total)
    assert found.gain(0.0, "laplace") == pytest.approx(1 - by_method["optimal"].total / by_method["tight"].total)
    assert 0 < found.gain(0.0, "laplace") < 0.5
    assert found.gain(0.0, "gaussian") is None


def test_no_plan_has_more_noise_than_uniform_at_any_step(found):
    """Section IV-D."""
    (uniform,) = found.uniform
    for outcome in found.outcomes[:2]:
        assert outcome.std.max() <= uniform.mean * (1 + 1e-8)
    s = found.specifications
    w_event = found.facts.sensitivity * s.duration.max() / s.epsilon.min()
    assert uniform.error == pytest.approx(w_event, rel=1e-6)


def test_t6_by_hand():
    rows = costs.quieter_data((1, 65), 0.1, costs.PAPER_DELTA)
    assert rows[1].laplace == pytest.approx(np.sqrt(2) * 363.45, rel=1e-4)
    assert rows[1].gaussian == pytest.approx(372.88, rel=1e-4)
    assert [row.noise for row in rows] == ["laplace", "gaussian"]
    assert costs.quieter_data((1,), 0.1, 0.0) == ()


def test_verdicts_in_words():
    assert view.verdict_words({"kept": True}) == "kept"
    assert view.verdict_words({"kept": False, "broken": 1200, "worst": {"share": 1.5}}) == "1.5 ε (1,200)"
    assert view.verdict_words({"kept": False, "broken": 1, "worst": {"share": "unbounded"}}) == "unbounded (1)"


def test_the_text_has_all_numbers_and_fits_a_terminal(found):
    out = io.StringIO()
    view.print_noise(found, Console(file=out, width=80, markup=False, highlight=False))
    text = out.getvalue()
    assert "…" not in text
    for outcome in found.outcomes:
        assert view.three_figures(outcome.total) in text
    assert "What is not protected" in text
    assert "optimal has" in text
    assert "w-event privacy with w =" in " ".join(text.split())


def test_progress_is_told(town):
    told = []
    costs.compare(town, delta=0.0, methods=["tight"], progress=lambda *args: told.append(args))
    assert told == [("tight, Laplace, pure", 0, 2), ("Laplace or Gaussian", 1, 2)]


def test_long_curves_show_the_largest_of_each_stretch():
    steps, values = view.curve_data(np.arange(10.0), most=4)
    assert steps.tolist() == [1, 4, 7, 10]
    assert values.tolist() == [2, 5, 8, 9]


def test_the_picture_of_who_hides_when_is_each_households_own_sensitivity(town):
    data = view.hiding_data(town, last=100)
    np.testing.assert_allclose(np.nan_to_num(data.cells), sensitivities(town, 100), rtol=1e-12)
    assert np.isnan(data.cells).any()
    assert data.households == town.households
    assert view.hiding_data(town, last=100, most=2).households == (town.households[0], town.households[2])


def test_steps_become_times(town):
    steps = Steps.of("15 min", "2026-01-05", "Europe/Berlin")
    figure = view.plot_curves([view.Curve("x", np.array([1.0, 2.0, 0.0]))], "kW", steps, log=True)
    assert list(figure.data[0].x) == ["2026-01-05T00:00", "2026-01-05T00:15", "2026-01-05T00:30"]
    assert figure.layout.xaxis.title.text == "time (Europe/Berlin)"
    assert np.isnan(figure.data[0].y[2])
    assert figure.layout.yaxis.type == "log"
    assert view.plot_curves([view.Curve("x", np.ones(3))], "kW").data[0].x[-1] == 3


def test_methods_have_colours_and_families_dashes(found):
    curves = view.noise_data(found)
    assert [c.colour for c in curves] == [0, 1, 2]
    assert {c.dash for c in curves} == {0}


def specs_of(path):
    return re.findall(
        r'<script type="application/json" data-plot="([^"]+)">(.*?)</script>',
        path.read_text(encoding="utf-8"),
        flags=re.S,
    )


def test_the_pages_have_it_all(found, town, tmp_path):
    view.write_noise_page(found, tmp_path / "deep" / "noise.html")
    view.write_overview_page(town, tmp_path / "show.html", found.facts)
    assert [name for name, _ in specs_of(tmp_path / "deep" / "noise.html")] == ["noise"]
    assert [name for name, _ in specs_of(tmp_path / "show.html")] == ["delta", "lambda", "hiding"]
    for path in (tmp_path / "deep" / "noise.html", tmp_path / "show.html"):
        assert "What is not protected" in path.read_text()
        for _, spec in specs_of(path):
            assert all(trace["meta"]["colours"] for trace in json.loads(spec)["data"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="cannot write"):
        view.write_noise_page(found, tmp_path / "file" / "page.html")


def test_the_pages_are_drawn_in_a_browser(chromium, found, town, tmp_path):
    view.write_noise_page(found, tmp_path / "noise.html")
    view.write_overview_page(town, tmp_path / "show.html", found.facts, Steps.of("15 min", "2026-01-05"))
    for scheme, width, name, plots in (
        ("light", 1200, "show", 3),
        ("dark", 390, "noise", 1),
        ("light", 390, "show", 3),
    ):
        with opened(chromium, tmp_path / f"{name}.html", width, scheme) as page:
            assert page.locator(".plot .main-svg").count() >= 2 * plots
