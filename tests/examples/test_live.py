"""The example of a service: its units, its container and its policy fit the program as it is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

import halflife as hl
from halflife.cli import main

ROOT = Path(__file__).resolve().parents[2]
LIVE = ROOT / "examples" / "live"
UNITS = sorted(path for path in LIVE.iterdir() if path.suffix in (".service", ".timer"))
CONTAINER = (LIVE / "Containerfile").read_text()


def commands() -> list[list[str]]:
    """Every command line of halflife in the units and the container, without the program's name."""
    found = [
        shlex.split(line.partition("=")[2])[1:]
        for unit in UNITS
        for line in unit.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    lists = [json.loads(text) for text in re.findall(r"CMD (\[.*\])", CONTAINER)]
    return found + [line[1:] if line[0] == "halflife" else line for line in lists]


def test_every_command_line_is_one_of_the_program():
    lines = commands()
    assert len(lines) == 4
    for name, *arguments in lines:
        command = main.commands[name]
        context = command.make_context(name, list(arguments), resilient_parsing=False)
        assert isinstance(context, click.Context)
        assert context.params["policy"] == Path("town.yaml")


def test_the_policy_is_one(tmp_path):
    shutil.copy(LIVE / "town.yaml", tmp_path)
    policy = hl.Policy.load(tmp_path / "town.yaml")
    assert (policy.streams[0].lateness, policy.streams[0].absent) == ("10 min", "skip")


def test_the_units_are_taken_by_systemd(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    for unit in UNITS:
        text = unit.read_text().replace("/opt/halflife/bin/halflife", sys.executable)
        (tmp_path / unit.name).write_text(text.replace("WorkingDirectory=/srv/town", "WorkingDirectory=/"))
    paths = [str(tmp_path / unit.name) for unit in UNITS]
    found = subprocess.run([program, "verify", "--man=no", *paths], capture_output=True, text=True, check=False)
    own = [line for line in found.stderr.splitlines() if str(tmp_path) in line or "halflife" in line]
    assert own == [], own


def test_a_death_by_a_signal_to_reload_is_no_clean_end():
    """`Restart=on-failure` alone leaves a service down that a reload killed before it could listen."""
    lines = (LIVE / "halflife.service").read_text().splitlines()
    assert {"ExecReload=/bin/kill -HUP $MAINPID", "Restart=on-failure", "RestartForceExitStatus=SIGHUP"} <= set(lines)


def test_what_the_container_copies_and_installs_is_there():
    copied = [part for line in re.findall(r"^COPY (.*)$", CONTAINER, re.MULTILINE) for part in line.split()[:-1]]
    assert copied
    assert all((ROOT / part).exists() for part in copied)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (asked,) = re.findall(r"/build\[(.*?)\]", CONTAINER)
    assert set(asked.split(",")) <= set(extras)
    known = {"FROM", "COPY", "RUN", "USER", "WORKDIR", "VOLUME", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {line.split()[0] for line in CONTAINER.splitlines() if line and not line.startswith("#")} == known
