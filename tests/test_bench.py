"""The bench runs its jobs as programs of their own: nothing of ours stands in their way."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def publish(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import publish

    return publish


def test_a_job_finds_no_module_of_the_bench_in_place_of_pythons_own(tmp_path, monkeypatch, publish):
    """`bench/secrets.py` stood in for `secrets` of Python, so a peer without our dependencies failed: no module named 'rich'."""
    assert (ROOT / "bench" / "secrets.py").exists()
    (tmp_path / "secrets.py").write_text("raise ModuleNotFoundError('this one is not meant')")
    (tmp_path / "jobs.py").write_text(
        "import json, secrets\nprint(json.dumps({'bits': len(secrets.token_bytes(2)) * 8}))"
    )
    (tmp_path / "about.json").write_text(json.dumps({}))
    monkeypatch.setattr(publish, "JOBS", tmp_path / "jobs.py")
    assert publish.run("any", tmp_path / "data", tmp_path) == {"bits": 16}


# One table of all ----------------------------------------------------------------------------------------------------


def test_every_measurement_gives_findings_for_the_table_of_all(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import __main__ as bench

    for name in bench.NAMES:
        main = importlib.import_module(f"bench.{name}").main
        assert inspect.signature(main).return_annotation == "list[Finding]", name


def test_noise_is_a_table_with_ratios(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import noise, results

    for size in ("STEPS", "ALONE", "GROUPS"):
        monkeypatch.setattr(noise, size, 50)
    found = noise.main()
    assert results.tabulate({"noise": found}).row_count == len(found)
    assert all(f.value > 0 and f.ratio > 0 and f.beside for f in found)


# The table of open streams ------------------------------------------------------------------------------------------


@pytest.fixture
def streams(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench import streams

    return streams


def test_the_page_of_open_streams_is_that_of_its_numbers(streams):
    """docs/streams.md is what docs/streams.json renders to, of real data, with every stream and mechanism."""
    found = json.loads((ROOT / "docs" / "streams.json").read_text())
    assert (ROOT / "docs" / "streams.md").read_text() == streams.render(found)
    assert all(part["real"] for part in found["parts"])
    assert {part["stream"] for part in found["parts"]} == set(streams.OPEN)
    assert {part["w"] for part in found["parts"]} == set(streams.WINDOWS)
    for part in found["parts"]:
        assert [row["mechanism"] for row in part["rows"]] == [*streams.MECHANISMS, f"exponential,half_life={part['w']}"]
        for row in part["rows"]:
            known = row["expected_mae"]
            assert known is None or abs(row["mae"] - known) <= 5 * row["mae_se"]  # 48 rows have a closed form
            assert row["epsilon_own"] <= 1 + 1e-9


def test_rows_of_the_page_can_be_had_again(streams, data_folder, monkeypatch):
    monkeypatch.setenv("HALFLIFE_DATA", str(data_folder))
    kept = json.loads((ROOT / "docs" / "streams.json").read_text())["parts"]
    (told,) = [part for part in kept if (part["stream"], part["w"]) == ("heart-rates", 20)]
    (again,) = streams.run(["heart-rates"], [20])["parts"]
    for mine, row in zip(again["rows"], told["rows"], strict=True):
        assert mine["mechanism"] == row["mechanism"]
        assert mine["mae"] == pytest.approx(row["mae"], rel=1e-9)


def test_streams_that_are_not_there_are_generated_and_named_so(streams, tmp_path, monkeypatch):
    monkeypatch.setenv("HALFLIFE_DATA", str(tmp_path))
    monkeypatch.setattr(streams, "MECHANISMS", ("uniform",))
    page = streams.render(streams.run(["heart-rates", "flu"], [20], repetitions=1))
    assert "**Generated, as the data was not there: heart-rates, flu.**" in page
