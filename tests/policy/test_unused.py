"""Keys that would have no effect are refused, and those that stay have one."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import halflife as hl
from halflife.engines import open_source
from halflife.engines.samples import read_sample
from halflife.errors import InvalidInput
from halflife.policy import Policy, PolicyError, channels
from halflife.policy.ranges import total_range
from policy.towns import change, moving, write_tables
from publisher.town import make, write_readings

CHAIN = "age-dependent\n  epsilon: 1\n  process: {name: markov-chain, matrix: [[0.9, 0.1], [0.2, 0.8]]"
AGED = change("exponential\n  epsilon: 1\n  half_life: 1 day", CHAIN + "}")
FIT = "{name: markov-chain, fit: {files: a.csv, time: ts, value: kwh, states: 2, whose: public, "


@pytest.fixture
def folder(tmp_path):
    return write_tables(tmp_path)


def refusal(text, folder):
    with pytest.raises(PolicyError) as error:
        Policy.parse(text, folder)
    return str(error.value)


def test_every_key_without_effect_is_named_at_once(folder):
    text = change("      time: ts\n", "      time: ts\n      table: meters\n      epoch: s\n")
    assert [line.split(": ")[1] for line in refusal(text, folder).splitlines()] == [
        "streams.0.source.table", "streams.0.source.zone",
    ]  # fmt: skip


def test_of_epoch_zone_and_time_format_each_has_an_effect(folder):
    written = "      time: ts\n      time_format: '%d/%m/%y %H:%M{}'\n"
    Policy.parse(change("      time: ts\n", written.format("")), folder)
    assert "source.zone: every time states its offset (%z in" in refusal(
        change("      time: ts\n", written.format(" %z")), folder
    )
    Policy.parse(change("      zone: Europe/Paris\n", written.format(" %z").replace("      time: ts\n", "")), folder)
    text = change("      zone: Europe/Paris\n", "      epoch: s\n      time_format: '%d/%m/%y'\n")
    assert "source.time_format: times are numbers since 1970 (`epoch: s`), not text: leave one" in refusal(text, folder)
    text = change("      time: ts\n", "      time: ts\n      time_format: '%c'\n")
    assert "policy.yaml:20:7: streams.0.source.time_format: '%c': %c means something else" in refusal(text, folder)


def test_units_are_the_ids_of_a_source(folder):
    units = change("  person: who\npromise", "  person: who\n  units: {file: homes.csv, id: who, unit: where}\npromise")
    text = change("        group: where", "        group: weight", units)
    Policy.parse(text, folder)
    source = text[text.index("    source:") : text.index("    statistic:")]
    assert "population.units: no stream has a source whose ids these would be" in refusal(
        change(source, "", text), folder
    )
    few = change("size: 4", "size: 1", text).replace("    groups:", "    # groups:")
    few = few[: few.index("    # groups:")] + few[few.index("    delay") :]
    assert "population.units: homes.csv names 2 of column 'where', more than the population (1)" in refusal(few, folder)


def test_a_wide_table_has_no_columns_of_values_persons_and_groups(folder):
    wide = change("      value: kwh\n", "      wide: yes\n")
    Policy.parse(wide, folder)
    for key in ("value", "person", "group"):
        text = change("      wide: yes\n", f"      wide: yes\n      {key}: x\n", wide)
        assert f"source.{key}: every column of a wide table but 'ts' is one person's readings" in refusal(text, folder)


def test_a_wide_table_without_a_header_is_refused(folder):
    """Fields x, y of one household and z of another, named x, z, y from now on: x and y would be clipped apart, 10 for 5."""
    wide = change("      value: kwh\n", "      wide: yes\n      columns: [ts, x, y, z]\n")
    assert "source.columns: a wide table says itself whose readings each column holds" in refusal(wide, folder)


def test_columns_are_for_csv_and_name_what_is_used(folder):
    names = "      columns: [who, ts, kwh]\n"
    Policy.parse(change("      time: ts\n", "      time: ts\n" + names), folder)
    parquet = change("files: readings.csv\n", "files: readings.parquet\n" + names)
    assert "source.columns: a parquet file names its columns itself: leave this out" in refusal(parquet, folder)
    for columns, said in (
        ("[who, ts, kw]", "source.columns: unknown name of a column that is used, 'kwh': did you mean 'kw'?"),
        ("[who, ts, kwh, ts]", "source.columns: a name stands twice"),
    ):
        text = change("      time: ts\n", f"      time: ts\n      columns: {columns}\n")
        assert said in refusal(text, folder)
    between = "      delimiter: ';'\n"
    Policy.parse(change("      time: ts\n", "      time: ts\n" + names + between), folder)
    said = "source.delimiter: a file with a header says its delimiter by it: leave this out, or give `columns`"
    assert said in refusal(change("      time: ts\n", "      time: ts\n" + between), folder)


def test_a_table_stays_where_files_may_be_databases(folder):
    for files in ("meters.db", "meters.duckdb", "meters-*", "[a.csv, b.db]"):
        Policy.parse(change("files: readings.csv\n", f"files: {files}\n      table: meters\n"), folder)


@pytest.mark.parametrize("open_files", [
    lambda path: open_source(str(path), table="meters"),
    lambda path: read_sample([path], person="home", time="time", value="kwh", step="1 h", table="meters"),
])  # fmt: skip
def test_engines_refuse_a_table_of_files_without_any(tmp_path, open_files):
    write_readings(tmp_path)
    (tmp_path / "readings.csv").rename(tmp_path / "readings.tsv")
    with pytest.raises(
        InvalidInput, match="a csv file has no tables: leave out table 'meters', or give a DuckDB or SQLite file"
    ):
        open_files(tmp_path / "readings.tsv")


@pytest.mark.parametrize(("process", "said"), [
    (FIT + "table: meters}}", "promise.process.fit.table: a csv file has no tables: leave this out"),
    (FIT + "zone: Europe/Paris, epoch: s}}", "promise.process.fit.zone: times that are numbers since 1970"),
    (FIT + "time_format: '%Y%m%d', epoch: s}}", "promise.process.fit.time_format: times are numbers since 1970"),
    ("{name: markov-chain, matrix: [[0.9, 0.1], [0.2, 0.8]], whose: public}",
     "promise.process.whose: the process was written out, not fitted on anybody's readings: leave this out"),
])  # fmt: skip
def test_a_process_has_no_such_keys_either(folder, process, said):
    start = AGED.index("{name: markov")
    text = AGED[:start] + process + AGED[AGED.index("\nclock") :]
    assert said in refusal(text, folder)


# What has an effect ----------------------------------------------------------------------------------------------------


def test_sizes_hold_what_is_pushed_of_a_sum(folder):
    text = change("most_per_person: 1", "most_per_person: 1\n      sizes: {north: 1, south: 2}", moving())
    source = text[text.index("    source:") : text.index("    statistic:")]
    (channel,) = channels(Policy.parse(change(source, "", text), folder))
    assert total_range(channel, 4) == ((0, 5000), (0, 10_000))


def test_the_unit_of_a_count_names_bounds_and_stands_in_the_output(tmp_path):
    write_readings(tmp_path)
    count = {"kind": "count", "unit": "homes", "resolution": None, "clip": None, "fold": None}
    policy = make(tmp_path, output="count.parquet", statistic=count, stream={"post": [{"truncate": ["0", "3 homes"]}]})
    hl.publish(policy, clock=lambda: 1_767_225_600 + 3600 * 3)
    assert pq.read_schema(tmp_path / "count.parquet").metadata[b"unit"] == b"homes"


def test_the_value_of_a_count_says_whose_reading_is_good(tmp_path):
    (tmp_path / "readings.csv").write_text("home,time,kwh\na,2026-01-01T00:30Z,1\nb,2026-01-01T00:30Z,none\n")
    for value, people in (({"value": "kwh"}, 1), ({}, 2)):
        source = {"files": "readings.csv", "time": "time", **value}
        count = {"kind": "count", "unit": None, "resolution": None, "clip": None, "fold": None}
        (channel,) = channels(make(tmp_path, stream={"source": source}, statistic=count))
        engine = open_source(str(tmp_path / "readings.csv"))
        assert engine.aggregate(channel.question(1, 1)).sums.sum() == people
        engine.close()
