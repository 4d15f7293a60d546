"""`halflife init` and the JSON Schema: blanks that are named, columns that survive, and an editor that agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st

from halflife import registry
from halflife.cli import main
from halflife.parsing.documents import parse_document
from halflife.policy import Policy, PolicyError, channels
from halflife.policy.template import json_schema, write_template
from policy.towns import GOOD, moving

METERS = {"lclid": "VARCHAR", "tstp": "TIMESTAMP", "kWh/hh": "DOUBLE"}
FILLED = {
    "size": "5000",
    "epsilon": "1",
    "start": "2026-01-01",
    "unit": "kWh",
    "resolution": "1 Wh",
    "clip": "[0, 5 kWh]",
}
BLANKS = ["population.size", "promise.epsilon", "clock.start", "streams.0.statistic.unit",
          "streams.0.statistic.resolution", "streams.0.statistic.clip"]  # fmt: skip


def fill(text, **more):
    """Fill in the blanks, as a person would."""
    for key, value in (FILLED | more).items():
        text, count = re.subn(rf"(?m)^(\s*{key}:)(?= *(#|$))", rf"\1 {value}", text)
        assert count == 1, key
    return text


SCHEMAS = [
    (METERS, ("lclid", "tstp", "kWh/hh")),
    ({"meter_id": "BIGINT", "time": "VARCHAR", "value": "INTEGER", "x": "DOUBLE"}, ("meter_id", "time", "value")),
    ({"person": "UUID", "date": "DATE", "kwh": "DECIMAL(9,3)"}, ("person", "date", "kwh")),
    ({"id": "INT", "timestamp": "DOUBLE", "kwh": "DOUBLE"}, ("id", "timestamp", "kwh")),
    (
        {"household": "VARCHAR", "ts": "TIMESTAMP WITH TIME ZONE", "load": "FLOAT", "zone": "VARCHAR"},
        ("household", "ts", "load"),
    ),
]


@pytest.mark.parametrize(("columns", "found"), SCHEMAS)
def test_once_its_blanks_are_filled_it_loads(tmp_path, columns, found):
    policy = Policy.parse(fill(write_template(columns, ["a.csv"], None, "policy.yaml")), tmp_path)
    source = policy.streams[0].source
    assert (policy.population.person, source.time, source.value) == found
    assert source.files == ["a.csv"]
    assert Path(policy.ledger_url) == tmp_path / "policy.ledger"


@pytest.mark.parametrize(("columns", "found"), SCHEMAS)
def test_each_blank_is_named_with_its_line(columns, found):
    text = write_template(columns, ["a.csv"], None, "policy.yaml")
    with pytest.raises(PolicyError) as error:
        Policy.parse(text)
    lines = str(error.value).splitlines()
    assert [line.split(": ")[1] for line in lines] == BLANKS
    for line, key in zip(lines, BLANKS, strict=True):
        number, column = map(int, line.split(":")[1:3])
        assert text.splitlines()[number - 1][column - 1 :].startswith(key.split(".")[-1] + ":")


def test_a_column_that_cannot_be_told_is_left_blank():
    text = write_template({"a": "VARCHAR", "b": "VARCHAR", "c": "DOUBLE", "d": "DOUBLE"}, ["x.parquet"], None, "p.yaml")
    with pytest.raises(PolicyError) as error:
        Policy.parse(text)
    for key in ("population.person", "streams.0.source.time", "streams.0.source.value"):
        assert f": {key}: is blank: The column" in str(error.value)


NASTY = [
    "no", "null", "~", "Null", "...", "---", "a b", "a: b", "a #b", "#a", "'", '"', "it's", 'say "hi"', "é", "电表", "1st",
    "007", "-", "- a", "?", "*x", "&x", "!x", "%x", "@x", "`x", "[x]", "{x}", "a,b", "x\ty", "x\ny", " x ", "\\", "💡",
    "true", "12:30", "|", ">", "x\u2028y", "\x85",
]  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_odd_names_survive(tmp_path, name):
    text = write_template({name: "VARCHAR", "time": "TIMESTAMP", "kwh": "DOUBLE"}, [name, "b.csv"], name, "policy.yaml")
    policy = Policy.parse(fill(text), tmp_path)
    assert policy.population.person == name
    assert policy.streams[0].source.files == [name, "b.csv"]
    assert policy.streams[0].source.table == name
    text = write_template({"id": "VARCHAR", "time": "TIMESTAMP", name: "DOUBLE"}, ["a.csv"], None, f"{name}.yaml")
    policy = Policy.parse(fill(text), tmp_path)
    assert policy.streams[0].source.value == name
    assert policy.population.id == name


@settings(max_examples=60, deadline=None)
@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20).filter(
        lambda name: name not in ("id", "time")  # the columns beside it
    )
)
@example("timestamp")
@example("TIMESTAMP_S")
@example("datetime")
@example("*.csv")
@example("*")
@example("**")
@example("~nobody")
def test_any_name_survives(name):
    """Hypothesis draws from the texts of all modules that are loaded, too: so a full run meets names that one file does not."""
    text = write_template({"id": "VARCHAR", "time": "TIMESTAMP", name: "DOUBLE"}, [name], None, "p.yaml")
    data = parse_document(fill(text)).data
    assert data["streams"][0]["source"]["files"] == name
    assert (data["population"]["person"], data["streams"][0]["source"]["time"]) == ("id", "time")
    assert data["streams"][0]["source"]["value"] == name
    Policy.parse(fill(text))


@pytest.mark.parametrize(
    ("files", "folder"),
    [("a.csv", ""), ("*.csv", "published/"), ("*", "published/"), ("kwh.csv", "published/"), ("**", "../published/")],
)
def test_the_output_is_not_among_the_files_that_are_read(tmp_path, files, folder):
    text = write_template({"id": "INT", "time": "DATE", "kwh": "DOUBLE"}, [files], None, "p.yaml")
    assert parse_document(text).data["streams"][0]["output"] == f"{folder}kwh.csv"
    Policy.parse(fill(text), tmp_path)


def test_nothing_but_names_and_types_is_looked_at():
    class Schema(dict):
        """Columns that may be listed, and nothing else."""

        def __getattr__(self, name):
            raise AssertionError(name)

    assert write_template(Schema(METERS), ["a.csv"], None, "p.yaml") == write_template(
        METERS, ["a.csv"], None, "p.yaml"
    )


# The JSON Schema ------------------------------------------------------------------------------------------------------


KINDS = {
    "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list, "object": dict,
}  # fmt: skip


def fits(schema, value, root):
    """Whether a value fits a schema: as much of JSON Schema as ours uses."""
    if "$ref" in schema:
        return fits(root["$defs"][schema["$ref"].split("/")[-1]], value, root)
    if "anyOf" in schema or "oneOf" in schema:
        return any(fits(s, value, root) for s in schema.get("anyOf", schema.get("oneOf")))
    wanted = schema.get("type", list(KINDS))
    wanted = [wanted] if isinstance(wanted, str) else wanted
    return (
        value == schema.get("const", value)
        and ("enum" not in schema or value in schema["enum"])
        and any(isinstance(value, KINDS[k]) and (k == "boolean" or not isinstance(value, bool)) for k in wanted)
        and (not isinstance(value, list) or _list_fits(schema, value, root))
        and (not isinstance(value, dict) or _mapping_fits(schema, value, root))
    )


def _list_fits(schema, value, root):
    long_enough = schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", 1e9)
    return long_enough and all(fits(schema.get("items", {}), v, root) for v in value)


def _mapping_fits(schema, value, root):
    known, rest = schema.get("properties", {}), schema.get("additionalProperties", True)
    if not set(schema.get("required", [])) <= set(value) or (rest is False and not set(value) <= set(known)):
        return False
    return all(fits(known.get(k, rest if isinstance(rest, dict) else {}), v, root) for k, v in value.items())


def as_an_editor_reads(data):
    """Plain data with the types that YAML 1.2 gives to plain words: numbers, true and false."""
    if isinstance(data, dict):
        return {k: as_an_editor_reads(v) for k, v in data.items()}
    if isinstance(data, list):
        return [as_an_editor_reads(v) for v in data]
    for read in (int, float):
        try:
            return read(data)
        except (TypeError, ValueError):
            pass
    return {"true": True, "false": False}.get(data, data)


GOODS = [
    GOOD,
    moving(),
    moving().replace("[north, south]", "[no, 007, 12:30, true]"),
    GOOD.replace("files: readings.csv", "files: [a.csv, b.csv]").replace("size: 4", "size: '4'"),
    GOOD.replace("half_life: 1 day", "half_life: 48\n  plan: tight\n  cap: 0.5"),
    fill(write_template(METERS, ["a.csv"], None, "p.yaml")),
    *(
        GOOD.replace("exponential\n", "age-dependent\n").replace("half_life: 1 day", f"process: {process}")
        for process in (
            "{name: markov-chain, matrix: [[0.9, 1e-1], [0.1, 0.9]]}\n  bound: tight\n  adversary: any-prior",
            "{file: home.json, whose: other people}\n  delta: 1e-6\n  horizon: 1 week",
            "{name: process-family, fit: {files: [a.csv], time: ts, value: kwh, states: 6, whose: public}}",
            "{name: markov-chain, fit: {files: a.csv, time: ts, value: kwh, edges: [0.1, 1], step: 30 min, whose: public}}",
        )
    ),
    *(
        GOOD.replace("exponential\n  epsilon: 1\n", "swellfish\n").replace("half_life: 1 day", secrets)
        for secrets in (
            "specifications: {files: secrets/, readings: 1}\n  neighbours: one-window\n  outside: exact",
            "specifications: [a.yaml, b.parquet]\n  neighbours: one-event\n  floor: 0.2 kWh\n  block: 1 day\n  delta: 1e-6",
            "specifications: {files: a.csv, unit: kW, zone: UTC, unreadable: skip, readings: 2}\n  neighbours: all-events\n"
            "  outside: exact\n  noise: gaussian",
            "specifications:\n    households:\n      Elm 7:\n        - every day 18:00-21:00, oven, 3 kW, 30 min, epsilon 1\n"
            "        - {power: 3, duration: 2, start: 1, end: 4, epsilon: 1}\n  neighbours: one-window\n  outside: exact",
        )
    ),
    GOOD.replace("exponential\n", "almost-periodic\n").replace(
        "half_life: 1 day",
        "period: 1 day\n  strong: true\n  renew: 30\n  over: {notion: exponential, half_life: 30 days}",
    ),
]


@pytest.mark.parametrize("text", GOODS)
def test_the_schema_takes_what_the_policy_takes(text):
    schema = json_schema()
    data = parse_document(text).data
    assert fits(schema, as_an_editor_reads(data), schema)


MISSPELT = [
    ("halflife: 1\n", "halfife: 1\n"),
    ("  size: 4", "  sise: 4"),
    ("half_life", "halflife"),
    ("exponential", "exponental"),
    ("zone: Europe/L", "zon: E"),
    ("      time: ts", "      tiem: ts"),
    ("kind: sum", "kind: summ"),
    ("fold: sum", "fould: sum"),
    ("        group: w", "        grup: w"),
    ("moving_average", "moving_avrage"),
    ("    delay", "    delai"),
    ("[0, 5 kWh]", "[1, 2, 3]"),
    ("  size: 4\n", ""),
    ("epsilon: 1", "epsilon: [1]"),
]


@pytest.mark.parametrize(("old", "new"), MISSPELT)
def test_the_schema_refuses_what_is_misspelt(old, new):
    schema = json_schema()
    assert GOOD.count(old) == 1
    assert not fits(schema, as_an_editor_reads(parse_document(GOOD.replace(old, new)).data), schema)


@pytest.mark.parametrize(
    "wrong",
    [
        "specifications: {file: a.csv}",
        "specifications: []",
        "specifications: {files: a.csv, unreadable: ignore}",
        "specifications: a.csv\n  neighbours: one-windows",
        "specifications: a.csv\n  outside: noisy",
    ],
)
def test_the_schema_refuses_what_is_wrong_about_secrets(wrong):
    schema = json_schema()
    text = GOOD.replace("exponential\n  epsilon: 1\n", "swellfish\n").replace("half_life: 1 day", wrong)
    assert not fits(schema, as_an_editor_reads(parse_document(text).data), schema)


def test_the_template_can_become_a_promise_about_secrets(tmp_path):
    (tmp_path / "secrets.yaml").write_text(
        "zone: UTC\nhouseholds:\n  a:\n    - every weekday 18:00-21:00, oven, 3 kW, 30 min, epsilon 1\n"
    )
    text = fill(write_template(METERS, ["a.csv"], None, "policy.yaml")).replace("  # end: 2027", "  end: 2027")
    assert "never what households really did" in text
    text = re.sub(r"(?m)^  (notion: w-event|epsilon:|w:).*\n", "", text).replace(
        "promise:\n", "promise:\n  notion: swellfish\n"
    )
    for key in ("specifications", "neighbours", "outside", "block"):
        text, count = re.subn(rf"(?m)^  # ({key}: )", r"  \1", text)
        assert count == 1
    policy = Policy.parse(text.replace("secrets/", "secrets.yaml"), tmp_path)
    (channel,) = channels(policy)
    assert len(channel.plan.notion.specifications) == 261  # weekdays of 2026
    assert channel.plan.scale(1) > 0  # the whole day has one noise
    assert channel.plan.scale(48 * 2 + 1) == 0  # a Saturday


def test_the_schema_knows_every_notion_plan_and_parameter():
    schema = json_schema()
    promise = schema["$defs"]["Promise"]["properties"]
    assert promise["notion"]["enum"] == sorted(registry.NOTIONS)
    assert {method for _, method in registry.PLANS} == set(promise["plan"]["enum"])
    assert {"epsilon", "delta", "w", "alpha", "beta", "half_life"} <= set(promise)
    assert schema["title"] == "halflife policy"
    for part in schema["$defs"].values():
        for name, key in part["properties"].items():
            assert key.get("description") or "$ref" in str(key), name


def test_the_names_of_a_wide_table_are_not_written(tmp_path):
    """More than 20 columns of one type may be people: home_7 would have been taken for the column of persons."""
    columns = {"ts": "TIMESTAMP", **{f"home_{i}": "DOUBLE" for i in range(21)}}
    text = write_template(columns, ["a.parquet"], None, "policy.yaml")
    assert "home_" not in text
    assert "time: ts" in text
    assert "wide: yes" in text
    few = write_template({"ts": "TIMESTAMP", "home_id": "VARCHAR", "kwh": "DOUBLE"}, ["a.parquet"], None, "policy.yaml")
    assert "person: home_id" in few
    assert "wide" not in few
    (tmp_path / "a.csv").write_text(",".join(columns) + "\n")
    said = CliRunner().invoke(main, ["init", str(tmp_path / "a.csv"), "--out", str(tmp_path / "p.yaml")])
    assert said.exit_code == 0, said.output
    assert "none of their names was written" in said.output
    assert "home_" not in said.output + (tmp_path / "p.yaml").read_text()
