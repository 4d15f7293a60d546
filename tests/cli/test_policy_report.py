"""The page about a policy: every number in it against the outputs, the ledger and a second way to work it out."""

from __future__ import annotations

import base64
import datetime
import json
import re
from html import unescape

import numpy as np
import pytest
from click.testing import CliRunner

import halflife as hl
from browser import opened, turn_over
from halflife.cli import main
from halflife.cli.policy_report import write_policy_report
from halflife.ledger import open_ledger
from halflife.publisher.plain_terms import Losses
from halflife.release import Release
from publisher.town import make, policy_dict, read_csv, readings, write_readings

HOSTILE = "</script><img src=x onerror=alert(1)>"
ZONE = "Europe/London"


def town(folder, days=3, **changes):
    """A town with a mean, sums of two groups, one of a hostile name, and a daily histogram; all its homes are read."""
    rows = readings(steps=24 * days)
    write_readings(folder, rows)
    names = [
        "home,area",
        *(f'{home},"{HOSTILE if k % 2 else "north"}"' for k, home in enumerate(sorted({r[0] for r in rows}))),
    ]
    (folder / "areas.csv").write_text("\n".join(names) + "\n")
    data = policy_dict(epsilon=3.0)
    first = data["streams"][0]
    area = {"table": {"file": "areas.csv", "person": "home", "group": "area"}}
    sums = {**first["statistic"], "kind": "sum"}
    bins = {
        "kind": "histogram",
        "unit": "kWh",
        "resolution": "1 Wh",
        "edges": ["0", "30 kWh", "40 kWh", "80 kWh"],
        "fold": "sum",
    }
    data["promise"] = {"notion": "w-event", "epsilon": 3.0, "w": "1 day"}
    data["streams"] = [
        {**first, "share": 0.4},
        {**first, "name": "areas", "statistic": sums, "groups": area, "output": "areas-out.csv", "share": 0.3},
        {**first, "name": "spread", "step": "1 day", "statistic": bins, "output": "spread.csv", "share": 0.3},
    ]
    data["population"]["id"] = HOSTILE
    data["clock"] |= {"start": "2026-01-01", "end": f"2026-01-0{1 + days}", "zone": ZONE}
    for key, value in changes.items():
        data[key] |= value
    (folder / "policy.yaml").write_text(json.dumps(data))
    return folder / "policy.yaml"


def figures(page):
    """The plots of a page by name, with their arrays decoded."""
    found = re.findall(r'<script type="application/json" data-plot="([^"]+)">(.*?)</script>', page, re.DOTALL)
    return {unescape(name): json.loads(spec) for name, spec in found}


def numbers(column):
    if isinstance(column, dict):
        flat = np.frombuffer(base64.b64decode(column["bdata"]), np.dtype(column["dtype"]))
        shape = column.get("shape")
        return flat if shape is None else flat.reshape([int(n) for n in shape.split(",")])
    return np.array(column, dtype=float)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("town")
    policy = town(folder)
    hl.publish(policy)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    verdict = write_policy_report(policy, folder / "report.html")
    assert verdict.good
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "report.html"}
    assert {k: v for k, v in after.items() if not k.endswith(("-shm", "-wal"))} == {
        k: v for k, v in before.items() if not k.endswith(("-shm", "-wal"))
    }
    return folder


@pytest.fixture(scope="module")
def page(made):
    return (made / "report.html").read_text(encoding="utf-8")


def test_series_and_bands_are_those_of_the_outputs(made, page):
    plots = figures(page)
    rows = {"series-0": read_csv(made / "mean.csv")}
    for j, name in enumerate(sorted(["north", HOSTILE])):
        rows[f"series-1-{j}"] = [row for row in read_csv(made / "areas-out.csv") if row["group"] == name]
    for name, published in rows.items():
        low, high, value = plots[name]["data"]
        values, bands = (np.array([float(row[key]) for row in published]) for key in ("value", "error_band"))
        assert len(values) == 72
        assert np.allclose(numbers(value["y"]), values, rtol=1e-12)
        assert np.allclose(numbers(low["y"]), values - bands)
        assert np.allclose(numbers(high["y"]), values + bands)
        assert [row["start"][:16].replace(" ", "T") for row in published] == value["x"]
    spread = read_csv(made / "spread.csv")
    counts = np.array([float(row["value"]) for row in spread]).reshape(3, 3)
    (heat,) = plots["map-2-0"]["data"]
    assert np.allclose(numbers(heat["z"]), counts.T)
    noise = numbers(plots["noise-2"]["data"][0]["y"])
    assert np.allclose(noise, [float(row["error_band"]) for row in spread[::3]])


def test_risks_are_those_of_an_account_and_readings_those_of_windows(made, page):
    policy = hl.Policy.load(made / "policy.yaml")
    with open_ledger(policy.ledger_url, read_only=True) as book:
        releases = [r for entry in book.entries() for r in entry.releases]
    risk, limit = figures(page)["risk"]["data"]
    steps = sorted({r.step for r in releases})
    expected = [hl.Accountant.replay(policy.notion, [r for r in releases if r.step <= k]).risk() for k in steps]
    assert numbers(risk["y"]).tolist() == expected
    assert set(numbers(limit["y"]).tolist()) == {3.0}
    cells = re.findall(r'<th scope="row">(any day|any week|any year|all of it \(classically\))</th><td>([\d.,]+)', page)
    total = sum(r.loss for r in releases)
    said = {name: float(x.replace(",", "")) for name, x in cells}
    day = max(hl.Accountant.replay(policy.notion, releases[:n]).risk() for n in range(1, len(releases) + 1))
    assert said["any day"] == pytest.approx(day, rel=5e-3)
    assert said["any year"] == said["any week"] == said["all of it (classically)"] == pytest.approx(total, rel=5e-3)
    assert total > 2 * day


def test_worst_windows_agree_with_brute_force():
    rng = np.random.default_rng(5)
    for _ in range(20):
        made = [
            Release(int(t) + int(age), float(loss), int(age), span=int(span))
            for t, age, loss, span in zip(
                rng.integers(1, 40, 30),
                rng.integers(0, 5, 30),
                rng.uniform(0.1, 1, 30),
                rng.choice([1, 3, 7], 30),
                strict=True,
            )
        ]
        losses = Losses()
        losses.feed(iter(made))
        for width in (1, 2, 5, 13, 100):
            windows = [range(a, a + width) for a in range(-120, 60)]
            touched = [[r for r in made if r.data_time >= w[0] and r.first_data_time <= w[-1]] for w in windows]
            assert losses.worst(width) == pytest.approx(max(sum(r.loss for r in t) for t in touched))
            assert losses.worst(width, 2) == pytest.approx(max(sum(r.loss**2 for r in t) for t in touched))
    singles = [Release(k, float(x)) for k, x in enumerate(rng.uniform(0, 1, 60), start=1)]
    losses = Losses()
    losses.feed(iter(singles))
    account = [hl.Accountant.replay(hl.WEvent(1.0, 7), singles[:n]).risk() for n in range(1, 61)]
    assert losses.worst(7) == pytest.approx(max(account))


def test_what_is_not_protected_comes_first_and_names_are_text(made, page):
    assert page.index("What is not protected") < page.index("What is promised") < page.index("What it means within")
    assert (
        page.index("What it means within")
        < page.index('id="stream-0"')
        < page.index('id="checked"')
        < page.index('id="facts"')
    )
    assert HOSTILE not in page
    assert "&lt;/script&gt;&lt;img" in page
    for sentence in (
        "The 2 groups of areas are public; who belongs to which is in a public table",
        "That somebody is one of the 5 people is not hidden",
        "Everything agrees.",
        "w = 24 steps of 1 h: 1 day.",
    ):
        assert sentence in page, sentence
    with open_ledger(made / "town.ledger", read_only=True) as book:
        assert book.newest().link.hex() in page
    assert str(made) not in page


def test_nothing_private_is_in_the_page(made, page):
    operator = (made / "town.ledger.operator.jsonl").read_text()
    assert "clipped_readings" in operator
    assert not any(word in page for word in ("clipped_readings", "bad_value", "unknown_person", "duplicates"))
    with open_ledger(made / "town.ledger", read_only=True) as book:
        noisy = [float(x) for entry in book.entries("mean") for x in entry.noisy]
    exact = [
        sum(r[2] for r in readings(steps=72) if r[1] == time) / 5 for time in sorted({r[1] for r in readings(steps=72)})
    ]
    assert len(exact) == len(noisy)
    drawn = numbers(figures(page)["series-0"]["data"][2]["y"])
    assert not np.any(np.isclose(drawn, exact, rtol=1e-9))


def test_the_page_in_a_browser(chromium, made):
    report = made / "report.html"
    with opened(chromium, report, 420) as narrow:
        assert narrow.locator(".plot").count() == 1 + 2 + 1 + 3 + 1
        assert narrow.locator("img").count() == 0
        turn_over(narrow, least=6)
    with opened(chromium, report, 1100, "dark") as wide:
        assert (
            wide.evaluate("document.querySelector('.multiples').getBoundingClientRect().height") < 400
        )  # side by side
        assert wide.locator("h1").inner_text() == f"What was published about {HOSTILE}"


def test_a_ledger_that_was_changed_is_told_and_ends_with_status_1(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path, output="<u>mean.csv"))
    output = tmp_path / "<u>mean.csv"
    output.write_text(re.sub(r"(?m)^3,(.*),[^,]+,([^,]+)$", r"3,\1,0.5,\2", output.read_text()))
    result = CliRunner().invoke(main, ["report", str(tmp_path / "policy.yaml"), "--out", str(tmp_path / "r.html")])
    assert result.exit_code == 1
    assert "WRONG" in result.output
    page = (tmp_path / "r.html").read_text()
    assert "The verification found problems" in page
    assert "&lt;u&gt;mean.csv" in page
    assert "<u>" not in page
    assert str(tmp_path) not in page


def test_nothing_published_and_another_policy_are_refused(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    run = lambda: CliRunner().invoke(main, ["report", str(tmp_path / "policy.yaml"), "--out", str(tmp_path / "r.html")])  # noqa: E731
    assert (run().exit_code, "publish first" in run().output) == (1, True)
    hl.publish(tmp_path / "policy.yaml")
    make(tmp_path, epsilon=2.0)
    assert (run().exit_code, "begun under another policy" in run().output) == (1, True)
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("promise", "words"),
    [
        (
            {"notion": "almost-periodic", "epsilon": 1, "period": "1 day", "strong": True},
            "with nothing forgotten, this plan loses",
        ),
        (
            {
                "notion": "almost-periodic",
                "epsilon": 1,
                "period": "12 h",
                "variations": "public",
                "readings": "complete",
                "rounding": "none",
            },
            "its loss has no bound: noise is used again",
        ),
        ({"notion": "gaussian-discount", "epsilon": 1, "delta": 1e-6, "half_life": 12}, "at δ = 1e-06"),
        ({"notion": "classical", "epsilon": 1}, "all of it (classically)"),
        ({"notion": "exponential", "epsilon": 1, "half_life": 12}, "Late steps are charged as if"),
    ],
)
def test_every_kind_of_promise_has_a_page(tmp_path, promise, words):
    write_readings(tmp_path)
    data = policy_dict()
    data["promise"] = promise
    if promise["notion"] in ("exponential", "gaussian-discount"):
        data["clock"]["late"] = "as-planned"
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    hl.publish(tmp_path / "policy.yaml")
    assert write_policy_report(tmp_path / "policy.yaml", tmp_path / "r.html").good
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert words in page
    assert len(numbers(figures(page)["risk"]["data"][0]["y"])) == 24


def test_a_long_ledger_is_thinned_to_its_extremes(tmp_path, monkeypatch):
    from halflife.cli import policy_report

    monkeypatch.setattr(policy_report, "POINTS", 40)
    monkeypatch.setattr(policy_report, "BLOCK", 17)
    write_readings(tmp_path, readings(steps=240))
    policy = make(tmp_path, clock={"end": "2026-01-11"})
    hl.publish(policy)
    assert write_policy_report(tmp_path / "policy.yaml", tmp_path / "r.html").good
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    values = np.array([float(row["value"]) for row in read_csv(tmp_path / "mean.csv")]).reshape(20, 12)
    plots = figures(page)
    drawn = numbers(plots["series-0"]["data"][2]["y"]).reshape(20, 2)
    assert np.allclose(np.sort(drawn, axis=1), np.stack([values.min(axis=1), values.max(axis=1)], axis=1))
    band = float(read_csv(tmp_path / "mean.csv")[0]["error_band"])  # the same at every step
    low, high = (numbers(trace["y"]).reshape(20, 2) for trace in plots["series-0"]["data"][:2])
    assert np.allclose(low, values.min(axis=1)[:, None] - band)
    assert np.allclose(high, values.max(axis=1)[:, None] + band)
    assert "stretches of 12 steps" in page
    assert len(numbers(plots["risk"]["data"][0]["y"])) == 40  # every sixth of 240
    assert "Every 6th step is drawn" in page


def test_times_are_those_of_the_zone_when_clocks_change(tmp_path):
    data = policy_dict(clock={"start": "2026-10-25", "end": "2026-10-26", "zone": ZONE})
    (tmp_path / "policy.yaml").write_text(json.dumps(data))
    write_readings(tmp_path, [])
    late = datetime.datetime(2026, 10, 27, tzinfo=datetime.UTC).timestamp()
    hl.publish(tmp_path / "policy.yaml", clock=lambda: late)
    write_policy_report(tmp_path / "policy.yaml", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    times = figures(page)["series-0"]["data"][2]["x"]
    assert [t[11:] for t in times[:4]] == ["00:00", "01:00", "01:00", "02:00"]
    assert len(times) == 25
    assert "an hour stands on the axis twice" in page


def test_no_page_is_written_over_a_ledger(tmp_path):
    write_readings(tmp_path)
    hl.publish(make(tmp_path))
    ledger = tmp_path / "town.ledger"
    before = ledger.read_bytes()
    done = CliRunner().invoke(main, ["report", str(tmp_path / "policy.yaml"), "--out", str(ledger)])
    assert (done.exit_code, "ends in .html" in done.output) == (1, True)
    assert ledger.read_bytes() == before
