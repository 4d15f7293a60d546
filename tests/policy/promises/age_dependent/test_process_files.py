"""Damaged files of processes: each a sentence with the file's name, in a policy and at the command line; never a traceback."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

from halflife import InvalidInput
from halflife.cli import main
from halflife.policy import Policy, PolicyError
from halflife.policy.promises.age_dependent.process import read_process_file
from policy.towns import GOOD, change, write_tables

COIN = {"name": "markov-chain", "matrix": [[0.9, 0.1], [0.1, 0.9]]}
FITTED = {**COIN, "fitted": {"transitions": 90, "edges": [1.0]}}
CYCLE = {"name": "periodic-markov-chain", "kernels": [[[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.3, 0.7]]]}
LAGS = {"name": "empirical", "bounds": [[[0.0], [0.5]], [[0.0], [0.4]]]}
PEOPLE = {"name": "process-family", "processes": [COIN, COIN]}
WALK = {"name": "autoregressive", "rho": 0.9, "sigma": 1.0, "span": 1.0}
QUICK = {"name": "geometric", "c": 1.0, "rho": 0.5}
TEXT = json.dumps(COIN)

RAW = {
    "nothing": b"",
    "blank": b" \n",
    "text": b"It moves slowly.",
    "YAML": b"name: geometric\nc: 1\nrho: 0.5\n",
    "truncated": TEXT[:-3].encode(),
    "half a number": TEXT[:30].encode(),
    "two documents": (TEXT + TEXT).encode(),
    "binary": bytes(range(256)),
    "zeros": b"\0" * 100,
    "gzip": b"\x1f\x8b\x08\x00" + TEXT.encode(),
    "latin-1": '{"name": "gëometric"}'.encode("latin-1"),
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"name":' * 50_000,
    "NaN": b'{"name": "geometric", "c": NaN, "rho": 0.5}',
    "Infinity": b'{"name": "geometric", "c": Infinity, "rho": 0.5}',
    "NaN in a check": b'{"name": "geometric", "c": 1, "rho": 0.5, "checked": {"good": true, "worst": NaN}}',
    "infinite in a check": b'{"name": "geometric", "c": 1, "rho": 0.5, "checked": {"good": true, "worst": 1e400}}',
    "5000 digits": b'{"name": "geometric", "c": ' + b"9" * 5000 + b', "rho": 0.5}',
    "400 digits": b'{"name": "geometric", "c": ' + b"9" * 400 + b', "rho": 0.5}',
    "a key twice": b'{"name": "geometric", "c": 1, "c": 2, "rho": 0.5}',
    "half a surrogate": b'{"name": "\\ud800"}',
    "escape codes": b'{"name": "\\u001b[31mred"}',
}
VALUES = {
    "null": None,
    "a number": 5,
    "a list": [COIN],
    "no name": {"matrix": [[1.0]]},
    "a number for a name": {**COIN, "name": 5},
    "a list for a name": {**COIN, "name": ["markov-chain"]},
    "an unknown name": {**COIN, "name": "markov"},
    "a long name": {"name": "x" * 100_000},
    "a missing parameter": {"name": "geometric", "c": 1.0},
    "an unknown parameter": {**QUICK, "sigma": 1.0},
    "text for a matrix": {**COIN, "matrix": "x" * 100_000},
    "text in a matrix": {**COIN, "matrix": [["0.9", 0.1], [0.1, 0.9]]},
    "text for a row": {**COIN, "matrix": ["ab", "cd"]},
    "truth in a matrix": {**COIN, "matrix": [[True, False], [False, True]]},
    "an object for a matrix": {**COIN, "matrix": {"0": [1.0]}},
    "an empty matrix": {**COIN, "matrix": []},
    "an empty row": {**COIN, "matrix": [[]]},
    "a ragged matrix": {**COIN, "matrix": [[0.5, 0.5], [1.0]]},
    "a cube for a matrix": {**COIN, "matrix": [[[1.0]]]},
    "a negative chance": {**COIN, "matrix": [[1.5, -0.5], [0.5, 0.5]]},
    "a huge chance": {**COIN, "matrix": [[1e308, 1e308], [0.5, 0.5]]},
    "too many states": {**COIN, "matrix": [[1.0] * 201] * 201},
    "two classes": {**COIN, "matrix": [[1.0, 0.0], [0.0, 1.0]]},
    "text for kernels": {**CYCLE, "kernels": "night"},
    "text for a kernel": {**CYCLE, "kernels": ["night", "day"]},
    "kernels that differ": {**CYCLE, "kernels": [[[1.0]], [[0.5, 0.5], [0.5, 0.5]]]},
    "text for bounds": {**LAGS, "bounds": "0.5"},
    "text for a lag": {**LAGS, "bounds": ["ab", "cd"]},
    "text in a lag": {**LAGS, "bounds": [[["a"], ["b"]]]},
    "a number for a side": {**LAGS, "bounds": [[0.0, 0.5]]},
    "sides that differ": {**LAGS, "bounds": [[[0.0, 0.1], [0.5]]]},
    "a chance above one": {**LAGS, "bounds": [[[0.0], [1.5]]]},
    "text for medians": {**LAGS, "medians": "half"},
    "a number for medians": {**LAGS, "medians": 5},
    "too few medians": {**LAGS, "medians": [0.5]},
    "text for people": {**PEOPLE, "processes": "everybody"},
    "text for a person": {**PEOPLE, "processes": [COIN, "Bob"]},
    "nobody": {**PEOPLE, "processes": []},
    "a person without a matrix": {**PEOPLE, "processes": [COIN, {"name": "markov-chain"}]},
    "text for rho": {**WALK, "rho": "0.9"},
    "rho of one": {**WALK, "rho": 1.0},
    "a list for rho": {**WALK, "rho": [0.9, 0.1]},
    "a negative sigma": {**WALK, "sigma": -1.0},
    "null for a span": {**WALK, "span": None},
    "text for c": {**QUICK, "c": "one"},
    "text for fitted": {**COIN, "fitted": "yesterday"},
    "text for transitions": {**FITTED, "fitted": {"transitions": "many", "edges": [1.0]}},
    "huge transitions": {**FITTED, "fitted": {"transitions": 10**400, "edges": [1.0]}},
    "text for slots": {**FITTED, "fitted": {"transitions": 9, "edges": [1.0], "slots": "x"}},
    "no slots": {**FITTED, "fitted": {"transitions": 9, "edges": [1.0], "slots": 0}},
    "text for edges": {**FITTED, "fitted": {"transitions": 9, "edges": "none"}},
    "text for checked": {**COIN, "checked": "fine"},
    "a check without an outcome": {**COIN, "checked": {"verdict": "fine"}},
}
DAMAGED = {**RAW, **{what: json.dumps(value).encode() for what, value in VALUES.items()}}


def with_process(process):
    promise = f"age-dependent\n  epsilon: 1\n  process: {process}"
    return change("exponential\n  epsilon: 1\n  half_life: 1 day", promise, GOOD)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("town"))


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_file_is_refused_by_its_name(folder, what):
    path = folder / "home.json"
    path.write_bytes(DAMAGED[what])
    with pytest.raises(
        PolicyError, match=r"^policy.yaml:\d+:\d+: promise.process.file: home.json( is not JSON)?: "
    ) as error:
        Policy.parse(with_process("{file: home.json, whose: public}"), folder)
    said = str(error.value)
    assert len(said) < 700
    assert said.isprintable()
    shown = CliRunner().invoke(main, ["process", "show", str(path)])
    assert shown.exit_code == 1
    assert isinstance(shown.exception, SystemExit)
    assert shown.output.startswith(f"Error: {path}")


def test_whole_files_are_read(folder):
    """The files that the damaged ones were made from."""
    path = folder / "home.json"
    for good in (COIN, FITTED, CYCLE, LAGS, PEOPLE, WALK, QUICK):
        path.write_text(json.dumps(good))
        assert read_process_file(path).to_dict().items() >= good.items()
        assert CliRunner().invoke(main, ["process", "show", str(path)]).exit_code == 0


def test_what_is_no_file_is_refused_and_never_waited_for(folder):
    os.mkfifo(folder / "pipe.json")
    (folder / "loop.json").symlink_to("loop.json")
    for name, said in (
        ("pipe.json", "cannot be read: it is a pipe or a device"),
        (".", "cannot be read: Is a directory"),
        ("/dev/zero", "cannot be read: it is a pipe or a device"),
        ("loop.json", "cannot be read: "),
        ("gone.json", "cannot be read: No such file"),
        ("homes.csv/home.json", "cannot be read: Not a directory"),
        ("x" * 300, "cannot be read: File name too long"),
    ):
        with pytest.raises(PolicyError, match=rf"promise.process.file: .*{said}"):
            Policy.parse(with_process(f"{{file: {name}}}"), folder)
    with pytest.raises(PolicyError, match=r"promise.process.file: .*cannot be read: embedded null"):
        Policy.parse(with_process('{file: "a\\0b"}'), folder)
    asked = ["plan", "--notion", "age-dependent", "--epsilon", "1", "--process", str(folder / "pipe.json")]
    shown = CliRunner().invoke(main, asked)
    assert shown.exit_code != 0
    assert isinstance(shown.exception, SystemExit)


def test_a_file_that_may_not_be_read_is_refused(folder, monkeypatch):
    (folder / "home.json").write_text(TEXT)

    def forbidden(path, most):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("halflife.policy.promises.age_dependent.process.read_regular", forbidden)
    with pytest.raises(InvalidInput, match=r"home.json cannot be read: Permission denied: `halflife process fit`"):
        read_process_file(folder / "home.json")
