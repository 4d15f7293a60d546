"""Specifications in files: round trips to the last bit, every form, and every problem with file, line and field."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from halflife.errors import InvalidInput
from halflife.parsing.documents import PolicyError
from halflife.specifications import (
    Recurring,
    Secret,
    Specification,
    Specifications,
    read_specifications,
    write_specifications,
)
from halflife.steps import Steps
from work import work

SUFFIXES = (".yaml", ".yml", ".json", ".csv", ".parquet")
STEPS = Steps.of("15 min", "2026-01-01", "Europe/Berlin")
TOWN = """\
zone: Europe/Berlin
households:
  Elm 7:
    - {what: oven, every: weekday, from: "18:00", to: "21:00", power: 3 kW, duration: 30 min, epsilon: 1}
    - {what: holiday, start: 2026-07-04, end: 2026-07-11, power: 2 kW, duration: 1 week, epsilon: 0.1}
    - {power: 3, duration: 2, start: 1, end: 4, epsilon: 1}
  Elm 8:
    - every weekday 18:00–21:00, oven, 3 kW, 30 min, epsilon 1
"""

ONE = "{power: 3, duration: 2, start: 1, end: 4, epsilon: 1}"
LAUGHS = "".join(
    f"{b}: &{b} [{','.join([a] * 9)}]\n" for a, b in zip(["x", *(f"*{c}" for c in "abcde")], "abcdef", strict=True)
).encode()


names = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(
    lambda name: name == name.strip(" ") and "  " not in name
)
positive = st.floats(1e-300, 1e6) | st.sampled_from([0.1, 0.3, 1 / 3, 5e-308, 1e6])
secrets = st.builds(
    lambda p, T, start, slack, epsilon: Secret(p, T, start, start + T - 1 + slack, epsilon),
    positive,
    st.integers(1, 10**6),
    st.integers(-(10**9), 10**9),
    st.integers(0, 10**6),
    positive,
)


def problems(path, **options):
    with pytest.raises(PolicyError) as caught:
        read_specifications(path, **options)
    return str(caught.value).splitlines()


def written(folder, name, text):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(held=st.dictionaries(names, st.lists(secrets, min_size=1, max_size=3, unique=True), max_size=4))
@example(
    held={
        "007": [Secret(0.1, 1, 1, 1, 0.3)],
        "null": [Secret(0.1, 1, 1, 1, 0.3)],
        'a, "b"': [Secret(1.0, 1, 1, 1, 1.0)],
    }
)
@example(held={"\u2028😀\ufeff'": [Secret(0.1, 1, 1, 1, 0.3)], "\U000e0001" * 500: [Secret(0.1, 1, 1, 1, 0.3)]})
@example(held={"~": [Secret(2.0, 1, 1, 1, 0.3)], "\u200b" * 150: [Secret(0.1, 1, 1, 1, 0.3)]})
def test_a_round_trip_gives_the_same_to_the_last_bit(tmp_path, suffix, held):
    many = Specifications([Specification(s, name) for name, s in held.items()])
    path = tmp_path / f"town{suffix}"
    write_specifications(many, path)
    again = read_specifications(path).specifications
    assert again == many
    assert again.sha256 == many.sha256


def test_every_form_of_a_secret_in_one_file(tmp_path):
    read = read_specifications(written(tmp_path, "town.yaml", TOWN), steps=STEPS, last=96 * 365).specifications
    oven = Recurring.of("weekday", "18:00", "21:00", 3.0, "30 min", 1.0, zone="Europe/Berlin").secrets(STEPS, 96 * 365)
    assert len(oven) == 261  # weekdays of 2026
    assert set(read.specification("Elm 8").secrets) == set(oven)
    holiday = Secret.between(2.0, "1 week", "2026-07-04T00:00+02:00", "2026-07-11T00:00+02:00", 0.1, STEPS)
    assert holiday.duration == holiday.end - holiday.start + 1 == 672
    assert set(read.specification("Elm 7").secrets) == {*oven, holiday, Secret(3.0, 2, 1, 4, 1.0)}


def test_json_and_csv_hold_the_same_forms(tmp_path):
    from halflife.parsing.documents import parse_document

    expected = read_specifications(written(tmp_path, "town.yaml", TOWN), steps=STEPS, last=5000).specifications
    as_json = written(tmp_path, "town.json", json.dumps(parse_document(TOWN).data, indent="\t"))
    assert read_specifications(as_json, steps=STEPS, last=5000).specifications == expected
    rows = [
        "household,what,power,duration,start,end,epsilon,every,from,to,zone",
        "Elm 7,oven,3 kW,30 min,,,1,weekday,18:00,21:00,Europe/Berlin",
        "Elm 7,holiday,2,1 week,2026-07-04T00:00+02:00,2026-07-11T00:00+02:00,0.1,,,,",
        "Elm 7,,3000 W,2,1,4,1,,,,",
        'Elm 8,oven,3,30 min,,,1,"mon, tue, wed and thu-fri",18:00,21:00,',
    ]
    as_csv = written(tmp_path, "town.csv", "\ufeff" + "\r\n".join(rows) + "\r\n")
    assert read_specifications(as_csv, steps=STEPS, last=5000, zone="Europe/Berlin").specifications == expected


def test_json_may_write_one_character_as_two_halves(tmp_path):
    data = {"households": {"😀": [{"power": 3, "duration": 1, "start": 1, "end": 1, "epsilon": 1}]}}
    assert read_specifications(written(tmp_path, "a.json", json.dumps(data))).specifications.households == ("😀",)


def test_powers_are_converted_exactly_and_rounded_up(tmp_path):
    rows = "household,power,duration,start,end,epsilon\n" + "".join(
        f"{i},{p},1,1,1,1\n" for i, p in enumerate(["300 W", "0.3", "0.3 kW", "2 MW"])
    )
    read = read_specifications(written(tmp_path, "a.csv", rows)).specifications
    assert read.power.tolist() == [0.30000000000000004, 0.3, 0.3, 2000.0]
    assert read_specifications(tmp_path / "a.csv", unit="W", skip=True).specifications.power.tolist() == [
        300.0,
        0.3,
        300.0,
        2e6,
    ]


# Problems -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            "{power: 3, duration: 5, start: 1, end: 4, epsilon: 1}",
            "4:18: households.Elm 7.0.duration: is too long: the hiding interval [1, 4] has 4 steps",
        ),
        (
            "{power: 0, duration: 2, start: 1, end: 4, epsilon: 1}",
            "4:8: households.Elm 7.0.power: must be above 0, not 0.0",
        ),
        ("{power: 3, duration: 2, start: 1, end: 4, epsilon: -1}", "4:49: households.Elm 7.0.epsilon: must be above 0"),
        ("{power: .nan, duration: 2, start: 1, end: 4, epsilon: 1}", "households.Elm 7.0.power: "),
        ("{power: 3 A, duration: 2, start: 1, end: 4, epsilon: 1}", "power: '3 A' is not in kW"),
        ("{power: 3, duration: 2, start: 1, end: 4}", "4:7: households.Elm 7.0.epsilon: is missing"),
        (
            "{power: 3, duraton: 2, start: 1, end: 4, epsilon: 1}",
            "4:18: households.Elm 7.0.duraton: unknown field 'duraton': did you mean 'duration'?",
        ),
        ("{power: 3, duration: 2, start: 5, end: 4, epsilon: 1}", "end: must not lie before the start, not 4"),
        ("{power: 3, duration: 2, start: 1, end: 99999999999999, epsilon: 1}", "end: must be a whole number within"),
        (
            "{power: 3, duration: 2, start: 1, end: 2026-01-05, epsilon: 1}",
            "end: end '2026-01-05' by the clock and start '1' and duration '2' in steps",
        ),
        (
            "{power: 3, duration: 1 h, start: 2026-01-04, end: 2026-01-05, epsilon: 1}",
            "start: '2026-01-04' has no zone: write its offset",
        ),
        (
            "{power: 3, duration: 1 h, start: 2026-01-04, end: 2026-01-05, epsilon: 1, zone: Europe/Berln}",
            "zone: unknown zone 'Europe/Berln': did you mean 'Europe/Berlin'?",
        ),
        (
            "{power: 3, duration: 2 d, start: 2026-01-04Z, end: 2026-01-05, epsilon: 1, zone: UTC}",
            "start: '2026-01-04Z' is no date",
        ),
        (
            "{power: 3, duration: 2 d, start: 2026-01-04, end: 2026-01-05, epsilon: 1, zone: UTC}",
            "duration: the hiding interval 2026-01-04 to 2026-01-05 is 1 day, 0:00:00 long, shorter",
        ),
        (
            "{power: 3, duration: 1 h, start: 2025-01-04, end: 2025-01-05, epsilon: 1, zone: UTC}",
            "end: the hiding interval 2025-01-04 to 2025-01-05 is over before step 1",
        ),
        (
            "{every: day, from: '18:00', to: '19:00', power: 3, duration: 1 h, epsilon: 1}",
            "4:8: households.Elm 7.0.every: its times have no zone",
        ),
        (
            "{every: day, from: '18:00', to: '19:00', power: 3, duration: 2, epsilon: 1, zone: UTC}",
            "duration: '2' is a number of steps",
        ),
        (
            "{every: day, from: '18:00', to: '19:00', power: 3, duration: 2 h, epsilon: 1, zone: UTC}",
            "duration: the hiding interval 18:00–19:00 is shorter",
        ),
        (
            "{every: day, from: '18:00', to: '19:00', power: 3, duration: 1 h, epsilon: 1, zone: UTC, start: 3}",
            "start: has no place in a secret that recurs",
        ),
        ("{every: day, from: '18:00', power: 3, duration: 1 h, epsilon: 1, zone: UTC}", "to: is missing: give both"),
        (
            "{every: day, from: '18:00', to: 7, power: 3, duration: 1 h, epsilon: 1, zone: UTC}",
            "to: must be a time of day",
        ),
        (
            "{from: '18:00', power: 3, duration: 1, start: 1, end: 1, epsilon: 1}",
            "from: has no place in a secret that does not recur",
        ),
        ("{power: [3], duration: 1, start: 1, end: 1, epsilon: 1}", "power: must be one value"),
        ("every weekday 18:00–21:00, 3 kW, 30 min, epsilon 1", "4:7: households.Elm 7.0: its times have no zone"),
        ("seven", "households.Elm 7.0: 'seven' is no recurring secret"),
        ("[1, 2]", "households.Elm 7.0: a secret is a mapping of fields"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_field(tmp_path, entry, says):
    path = written(tmp_path, "town.yaml", f"\nhouseholds:\n  Elm 7:\n    - {entry}\n")
    lines = problems(path, steps=STEPS, last=1000)
    assert any(line.startswith(f"{path}:4:") and says in line for line in lines), lines


def test_all_problems_of_all_files_are_told_at_once(tmp_path):
    entry = "    - {{power: 3, duration: {}, start: 1, end: 4, epsilon: 1}}\n"
    text = "households:\n  a:\n" + "".join(entry.format(5 + i) for i in range(30))
    one, two = written(tmp_path, "a.yaml", text), written(tmp_path, "b.csv", "household,powr\n")
    three = written(
        tmp_path,
        "c.csv",
        'household,power,duration,start,end,epsilon\nx,1,1,1,1,1\n\n"y\nz",1,1,1,1,1\nx,-1,1,1,1,1\nx,1\n',
    )
    lines = problems(tmp_path)
    assert [line.split(": ")[0] for line in lines[:20]] == [f"{one}:{i}:18" for i in range(3, 23)]
    assert lines[20] == f"{one}: … and 10 more"
    assert lines[21].startswith(f"{two}:1: unknown column 'powr': did you mean 'power'?")
    assert lines[22].startswith(f"{three}:4: a household's name must not hold control characters")
    assert lines[23] == f"{three}:6: power: must be above 0, not -1.0"
    assert lines[24] == f"{three}:7: has 4 fewer fields than the first line"
    assert len(lines) == 25


def test_parquet_names_file_and_row(tmp_path):
    table = pa.table(
        {
            "household": ["a", "b", "c"],
            "power": [1.0, -1.0, None],
            "duration": [1, 1, 9],
            "start": [1] * 3,
            "end": [4] * 3,
            "epsilon": [1.0] * 3,
        }
    )
    path = tmp_path / "town.parquet"
    pq.write_table(table, path)
    assert problems(path) == [
        f"{path}: row 2: power: must be above 0 and at most 1e+15, not -1.0",
        f"{path}: row 3: power: is empty: a secret must be complete",
    ]
    pq.write_table(table.rename_columns({"power": "powr"}), path)
    assert problems(path)[0].startswith(f"{path}: unknown column of specifications 'powr': did you mean 'power'?")
    path.write_bytes(b"PAR1 is what it says")
    assert problems(path)[0].startswith(f"{path}: cannot be read as Parquet")


def test_the_same_secret_in_two_files_is_refused_with_both(tmp_path):
    one = written(
        tmp_path, "a.yaml", "households:\n  Elm 7:\n    - {power: 3, duration: 2, start: 1, end: 4, epsilon: 1}\n"
    )
    two = written(
        tmp_path, "b.csv", "household,power,duration,start,end,epsilon\nElm 8,3,2,1,4,1\n\nElm 7,3.0,2,1,4,1e0\n"
    )
    (line,) = problems([one, two])
    assert line.startswith(
        f"{two}:4: household 'Elm 7' has this secret already, in {one}:3:7: households.Elm 7.0: keep one"
    )
    left = read_specifications([one, two], skip=True)
    assert left.specifications.households == ("Elm 8",)
    assert left.problems == (line,)


def test_a_recurring_secret_that_stands_twice_is_told_once(tmp_path):
    text = TOWN.replace("  Elm 8:\n", "")
    path = written(tmp_path, "town.yaml", text)
    (line,) = problems(path, steps=STEPS, last=96 * 100)
    assert line.startswith(f"{path}:7:7: households.Elm 7.3: household 'Elm 7' has this secret already, in {path}:4:7")


def test_a_household_in_two_files_wants_all_of_its_secrets_hidden(tmp_path):
    header = "household,power,duration,start,end,epsilon\n"
    written(tmp_path, "a.csv", header + "x,3,2,1,4,1\n")
    written(tmp_path, "b.csv", header + "x,3,2,1,5,1\n")
    written(tmp_path, ".hidden.csv", "nonsense")
    written(tmp_path, "notes.txt", "nonsense")
    assert len(read_specifications(tmp_path).specifications) == 2
    assert len(read_specifications(str(tmp_path / "*.csv")).specifications) == 2
    assert len(read_specifications([tmp_path, tmp_path / "a.csv"]).specifications) == 2  # a file is read once


def test_skipping_leaves_out_a_household_as_a_whole_and_says_why(tmp_path):
    bad = written(
        tmp_path,
        "a.yaml",
        f"households:\n  x:\n    - {ONE}\n    - {{power: 3}}\n  y:\n    - {ONE}\n",
    )
    written(tmp_path, "b.csv", "household,power,duration,start,end,epsilon\nx,3,2,1,5,1\nz,1,1,1,1,1\n")
    written(tmp_path, "c.json", "{")
    n = 100
    table = {
        "household": [f"p{i % 50}" for i in range(n)],
        "power": [1.0 - 2 * (i % 50 < 40) for i in range(n)],
        "duration": [1] * n,
        "start": range(n),
        "end": range(n),
        "epsilon": [1.0] * n,
    }
    pq.write_table(pa.table(table), tmp_path / "d.parquet")
    read = read_specifications(tmp_path, skip=True)
    assert read.specifications.households == (*(f"p{i}" for i in range(40, 50)), "y", "z")
    assert [line.split(":")[0].split("/")[-1] for line in read.problems] == ["a.yaml"] * 4 + ["c.json"] + [
        "d.parquet"
    ] * 21
    assert read.problems[-1].endswith("… and 60 more")
    assert len(problems(tmp_path)) == len(read.problems)
    assert str(bad) in read.problems[0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.yaml", b"", "is empty"),
        ("a.yaml", b"# nothing\n", "is empty"),
        ("a.csv", b"", "is empty"),
        ("a.parquet", b"", "is empty"),
        ("a.yaml", b"households:\n  a: \xff\n", "not UTF-8 text (byte 17)"),
        ("a.csv", b"household,power\n\xff,3\n", "not UTF-8"),
        ("a.yaml", b"x: 1\n" * 300_000, "larger than 1,000,000 bytes, too large for YAML or JSON: use Parquet or CSV"),
        ("a.yaml", b"[1, 2]", "must be a mapping with `households:`"),
        ("a.yaml", b"households: 7", "must map each household's name"),
        ("a.yaml", b"zone: Europe/Berlin", "must map each household's name"),
        ("a.yaml", b"zone: Atlantis\nhouseholds: {}", "a.yaml:1:1: zone: unknown zone 'Atlantis'"),
        ("a.yaml", b"housholds: {}", "did you mean 'households'"),
        ("a.yaml", b"households:\n  a:\n", "a.yaml:2:3: households.a: must be a list of secrets"),
        ("a.yaml", b"households:\n  a: []\n  a: []\n", "stands twice"),
        ("a.yaml", b"households: {a: &a [*a]}", "a.yaml"),
        (
            "a.yaml",
            LAUGHS,
            "too many parts",
        ),
        ("a.yaml", b"households: !!python/object/apply:os.system [ls]", "must map"),
        ("a.json", b'{"households": {"a": [', "not YAML"),
        ("a.csv", b"power,start\n1,2\n", "lacks a column 'household'"),
        ("a.csv", b"household,household\n1,2\n", "stands twice"),
        ("a.csv", b'household,power\n"a,3\n', "not CSV"),
        ("a.csv", b"household,power\n" + b"a" * 200_000 + b",3\n", "not CSV: field larger than field limit"),
        ("a.csv", b"household,power,duration,start,end,epsilon\n,3,1,1,1,1\n", "a.csv:2: a household must be a text"),
        ("a.csv", b"household,power,duration,start,end,epsilon\na,nan,1,1,1,1\n", "a.csv:2: power:"),
        (
            "a.csv",
            b"household,power,duration,start,end,epsilon\na,1,1,1.5,2,1\n",
            "a.csv:2: start: start '1.5' by the clock",
        ),
        ("a.txt", b"household", "files that end in"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    lines = problems(tmp_path / name)
    assert says in lines[0]
    assert name in lines[0]
    assert read_specifications(tmp_path / name, skip=True).problems == tuple(lines)


def test_missing_paths_are_refused_even_when_told_to_skip(tmp_path):
    assert "holds no specifications" in problems(tmp_path, skip=True)[0]
    assert "matches no file" in problems(str(tmp_path / "*.yaml"), skip=True)[0]
    assert "no specifications are given" in problems([], skip=True)[0]
    assert "cannot be read: No such file" in problems(tmp_path / "a.yaml")[0]


def test_the_clock_needs_steps_and_what_recurs_an_end(tmp_path):
    path = written(tmp_path, "town.yaml", TOWN)
    lines = problems(path)
    assert [line.split(": ")[0] for line in lines] == [f"{path}:4:20", f"{path}:5:23", f"{path}:8:7"]
    assert all("needs the stream's steps: give `steps`" in line for line in lines)
    lines = problems(path, steps=STEPS)
    assert [line.split(": ")[1] for line in lines] == ["households.Elm 7.0.until", "households.Elm 8.0"]
    assert all("needs an end" in line for line in lines)


def test_nothing_to_hide_is_no_error_and_a_household_without_secrets_is_not_there(tmp_path):
    assert len(read_specifications(written(tmp_path, "a.yaml", "households: {}")).specifications) == 0
    assert read_specifications(written(tmp_path, "b.yaml", "households: {a: []}")).specifications.households == ()
    for suffix in SUFFIXES:
        write_specifications(Specifications([Specification([], "a")]), tmp_path / f"c{suffix}")
        assert read_specifications(tmp_path / f"c{suffix}").specifications == Specifications([])


def test_too_many_for_a_text_are_not_written(tmp_path):
    n = 20_000
    many = Specifications.from_columns(
        ["a"],
        np.zeros(n, dtype=int),
        {
            "power": np.ones(n),
            "duration": np.ones(n, dtype=int),
            "start": np.arange(n),
            "end": np.arange(n),
            "epsilon": np.ones(n),
        },
    )
    for suffix in (".yaml", ".json"):
        with pytest.raises(InvalidInput, match="20,000 secrets are too many for YAML or JSON"):
            write_specifications(many, tmp_path / f"a{suffix}")
        some = many.only(np.arange(10_000))
        write_specifications(some, tmp_path / f"a{suffix}")
        with pytest.raises(InvalidInput, match="no room for the household"):
            write_specifications(Specifications([Specification([], "<<")]), tmp_path / f"a{suffix}")
        with pytest.raises(InvalidInput, match="no room for the household"):
            write_specifications(Specifications([Specification([], "\u200b" * 500)]), tmp_path / f"a{suffix}")
    with pytest.raises(InvalidInput, match="files that end in"):
        write_specifications(many, tmp_path / "a.txt")
    assert not (tmp_path / "a.txt").exists()


def random_secrets(n):
    rng = np.random.default_rng(8)
    start, T = rng.integers(1, 157_000, n), rng.integers(1, 65, n)
    columns = {
        "power": rng.uniform(0.1, 4, n),
        "duration": T,
        "start": start,
        "end": start + 5 * T,
        "epsilon": rng.uniform(0.1, 1, n),
    }
    return Specifications.from_columns([f"household {i}" for i in range(250)], rng.integers(0, 250, n), columns)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_many_numbers_are_read_as_columns(tmp_path, suffix):
    """Four times as many take as many lines of Python; row by row it would be four times as many."""
    taken = []
    for n in (3_000, 5_000, 20_000):  # the first for what is imported and remembered
        many, path = random_secrets(n), tmp_path / f"{n}{suffix}"
        write_specifications(many, path)
        taken.append(work(lambda path=path: read_specifications(path)))
        assert read_specifications(path).specifications == many
    assert taken[2] <= 1.5 * taken[1]


@pytest.mark.parametrize(
    ("entry", "steps", "about"),
    [
        ("every weekend 10:00–14:00, oven, 3 kW, 30 min, epsilon 1", None, "steps"),
        ("every weekend 10:00–14:00, oven, 3 kW, 30 min, epsilon 1", Steps.of("1 h", "2026-01-01", "UTC"), "last"),
        ("{every: day, from: 10:00, to: 12:00, power: 3, duration: 1 h, epsilon: 1}", None, "steps"),
        ("{start: 2026-01-01T10:00, end: 2026-01-01T12:00, power: 3, duration: 1 h, epsilon: 1}", None, "steps"),
        ("every weekend 10:00–14:00, oven, 3 kW, 30 min, epsilon -1", Steps.of("1 h", "2026-01-01", "UTC"), None),
        ("{power: -3, duration: 2, start: 1, end: 4, epsilon: 1}", None, None),
    ],
)  # fmt: skip
def test_an_error_carries_its_problems_and_what_secrets_by_the_clock_lack(tmp_path, entry, steps, about):
    (tmp_path / "town.yaml").write_text(f"zone: UTC\nhouseholds:\n  Elm 7:\n    - {{epsilon: x}}\n    - {entry}\n")
    with pytest.raises(PolicyError) as caught:
        read_specifications(tmp_path / "town.yaml", steps=steps)
    assert caught.value.about == about
    assert len(caught.value.problems) >= 2
    assert "\n".join(caught.value.problems) == str(caught.value)
    assert read_specifications(tmp_path / "town.yaml", steps=steps, skip=True).about == about
