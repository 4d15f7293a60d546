"""What `process` and `period` make of readings that do not fit: steps, categories, people with too few of them."""

from __future__ import annotations

import datetime
import json
import random

import numpy as np
import pytest
from click.testing import CliRunner

from halflife.cli import main
from halflife.engines import samples
from halflife.engines.samples import read_sample
from halflife.errors import InvalidInput
from halflife.processes import Process

START = datetime.datetime(2025, 3, 1)
COLUMNS = {"person": "id", "time": "ts", "value": "x"}
WHERE = [f"--{key}={value}" for key, value in COLUMNS.items()]


def write(path, minutes, jitter=0, drop=0.0, people=3, count=200, value=lambda r: f"{r.random():.3f}"):
    """Readings so many minutes apart, give or take some seconds, some of them missing; and one person with a single one."""
    r = random.Random(1)
    rows = [
        f"p{p},{START + datetime.timedelta(minutes=minutes * k, seconds=r.randint(0, jitter))},{value(r)}\n"
        for p in range(people)
        for k in range(count)
        if r.random() >= drop
    ]
    path.write_text("id,ts,x\n" + "".join(rows) + f"lonely-lou,{START},{value(r)}\n")
    return path


@pytest.mark.diagonal
@pytest.mark.parametrize(("minutes", "step", "fits"), [
    (60, "30 min", False), (60, "1 h", True), (60, "2 h", True), (60, "90 min", False), (60, "1 day", True),
    (60, "25 min", False), (30, "30 min", True), (30, "1 h", True), (30, "45 min", False), (15, "30 min", True),
    (1440, "1 day", True), (1440, "1 h", False),
])  # fmt: skip
@pytest.mark.parametrize(("jitter", "drop"), [(0, 0.0), (20, 0.2)])
def test_a_step_holds_a_whole_number_of_readings(tmp_path, minutes, step, fits, jitter, drop):
    path = write(tmp_path / "a.csv", minutes, jitter, drop)
    if fits:
        assert read_sample([path], **COLUMNS, step=step).left_out == 1
        return
    with pytest.raises(InvalidInput, match=r"readings are .* apart, and a step of .* holds no whole number") as caught:
        read_sample([path], **COLUMNS, step=step)
    if not jitter:
        apart = {60: "1 h", 30: "30 min", 1440: "1 day"}[minutes]
        assert f"give a step of {apart} (--step '{apart}'), or a multiple of it" in str(caught.value)


def test_events_at_any_time_have_no_spacing(tmp_path):
    r, path = random.Random(2), tmp_path / "a.csv"
    rows = [f"p{p},{START + datetime.timedelta(seconds=r.randrange(10**6))},1\n" for p in range(9) for _ in range(50)]
    path.write_text("id,ts,x\n" + "".join(rows))
    assert len(read_sample([path], **COLUMNS, step="30 min").people) == 9


def test_commands_refuse_a_step_and_count_who_is_left_out(tmp_path):
    path, runner = write(tmp_path / "hours.csv", 60), CliRunner()
    output = ["--states", "2", "--output", str(tmp_path / "p.json")]
    for arguments in (["process", "fit", str(path), *WHERE, *output], ["period", str(path), *WHERE]):
        said = runner.invoke(main, arguments)
        assert said.exit_code == 1
        assert "readings are 1 h apart" in said.output
    said = runner.invoke(main, ["process", "fit", str(path), *WHERE, *output, "--step", "1 h"])
    assert said.exit_code == 0, said.output
    assert "from 3 people" in said.output
    assert "Left out: 1 people with too few readings." in said.output
    assert "lou" not in said.output
    assert json.loads((tmp_path / "p.json").read_text())["fitted"]["left_out"] == 1
    family = runner.invoke(main, ["process", "fit", str(path), *WHERE, *output, "--step", "1 h", "--kind", "family"])
    assert "family from 3 people" in family.output, family.output


def test_a_family_leaves_out_those_whose_chain_nothing_is_known_of(tmp_path):
    path = write(tmp_path / "a.csv", 60)
    rows = f"jo,{START},1\njo,{START + datetime.timedelta(hours=1)},2\n"
    path.write_text(path.read_text() + rows)
    arguments = ["process", "fit", str(path), *WHERE, "--states", "2", "--step", "1 h", "--kind", "family", "--output"]
    said = CliRunner().invoke(main, [*arguments, str(tmp_path / "p.json")])
    assert "family from 3 people" in said.output
    assert "Left out: 2 people" in said.output
    assert len(Process.from_dict(json.loads((tmp_path / "p.json").read_text())).processes) == 3


def test_categories_are_states(tmp_path):
    """Two hours of home, then one of work, in turns: the kernel is known, and so is the order of the states."""
    path = tmp_path / "a.csv"
    rows = [
        f"p{p},{START + datetime.timedelta(hours=k)},{('home', 'home', 'work')[k % 3]}\n"
        for p in range(3)
        for k in range(90)
    ]
    rows += [
        f"p0,{START + datetime.timedelta(hours=4)},\n",
        f"p0,{START + datetime.timedelta(hours=1, minutes=9)},home\n",
    ]
    path.write_text("id,ts,x\n" + "".join(rows))
    runner, output = CliRunner(), tmp_path / "p.json"
    for asked, names in ((["--categories"], ["home", "work"]), (["--states", "work,home"], ["work", "home"])):
        said = runner.invoke(
            main, ["process", "fit", str(path), *WHERE, "--step", "1 h", *asked, "--output", str(output)]
        )
        assert said.exit_code == 0, said.output
        assert f"States: 0 {names[0]}, 1 {names[1]}." in said.output
        made = Process.from_dict(json.loads(output.read_text()))
        assert made.fitted["categories"] == names
        home, work = names.index("home"), names.index("work")
        assert made.matrix[work, home] == 1
        assert made.matrix[home, work] == pytest.approx(0.5, abs=0.02)
        checked = runner.invoke(main, ["process", "check", str(output), str(path), *WHERE])
        assert checked.exit_code in (0, 1), checked.output
        assert "3 people" in checked.output
    sample = read_sample([path], **COLUMNS, step="1 h", categories=["home", "gym"])
    assert np.isnan(sample.sequences[0][2])
    assert sample.sequences[0][1] == 0
    for wrong in (["home"], ["home", "home"], ["home", ""]):
        with pytest.raises(InvalidInput, match="there must be 2 to 200"):
            read_sample([path], **COLUMNS, step="1 h", categories=wrong)


def test_of_several_categories_in_a_slot_the_last_counts(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("id,ts,x\n" + "".join(f"p,1969-12-31 {h}:{m},{x}\n" for h, m, x in (
        ("10", "10", "b"), ("10", "50", "a"), ("10", "20", "c"), ("11", "00", "a"), ("11", "00", "c"), ("11", "00", "b"),
    )))  # fmt: skip
    sample = read_sample([path], **COLUMNS, step="1 h", categories=True)
    assert sample.categories == ("a", "b", "c")
    assert sample.sequences[0][10:].tolist() == [0.0, 2.0]


def test_too_many_categories_and_empty_slots_are_refused_by_count(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", 60, count=300, value=lambda r: f"secret{r.randrange(10**6)}")
    with pytest.raises(InvalidInput, match="has more than 200 categories") as caught:
        read_sample([path], **COLUMNS, step="1 h", categories=True)
    assert "secret" not in str(caught.value)
    r = random.Random(2)
    rows = [f"p{p},{START + datetime.timedelta(seconds=r.randrange(10**6))},1\n" for p in range(9) for _ in range(20)]
    path.write_text("id,ts,x\n" + "".join(rows))
    monkeypatch.setattr(samples, "MOST_EMPTY", 10**5)
    with pytest.raises(InvalidInput, match=r"9 people have readings in 180 of 7,\d+,\d+ slots: give a wider step"):
        read_sample([path], **COLUMNS, step="1 s")


def test_check_ins_are_read_and_the_many_with_one_are_left_out(data_folder):
    where = {"person": "user", "time": "ts", "value": "lat"}
    sample = read_sample([data_folder / "gowalla_nyc.parquet"], **where, step="1 day")
    assert len(sample.people) + sample.left_out == 7115
    assert sample.left_out == 2036
    with pytest.raises(InvalidInput, match=r"people have readings in .* slots: give a wider step"):
        read_sample([data_folder / "gowalla_nyc.parquet"], **where, step="1 min")
    hours = read_sample([data_folder / "gowalla_nyc.parquet"], **where, step="1 h")
    with pytest.raises(InvalidInput, match=r"too many numbers side by side, with .* readings: give a wider step"):
        hours.side_by_side()
