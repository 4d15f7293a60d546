"""Exit statuses are those of the table in docs/operating.md: each is provoked once."""

import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

import halflife as hl
from forked import finish, start
from halflife.cli import main
from publisher.children import publish_and_ask, publish_and_die
from publisher.town import STEPS, make, write_readings

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"


@pytest.fixture
def town(tmp_path):
    write_readings(tmp_path)
    make(tmp_path)
    return tmp_path / "policy.yaml"


def run(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments))).exit_code


def finishes(town):
    """What goes well, a publisher that stays until the last step, and one that is asked to stop in the middle."""
    asked = finish(start(publish_and_ask, str(town), signal.SIGTERM, "--follow"))
    assert 0 < count(town) < STEPS
    assert finish(start(publish_and_ask, str(town), signal.SIGINT, "--follow")) == 0
    rest = [run("publish", town, "--follow"), run("publish", town), run("status", town, "--check"), run("verify", town)]
    assert count(town) == STEPS
    return {asked, *rest, run("report", town, "--out", town.parent / "r.html"), run("--help")}


def finds(town):
    """What is refused, and what is wrong."""
    found = {
        run("status", town, "--check"),
        run("certificate", town),
        run("publish", town.parent / "none.yaml", "--follow"),
    }
    hl.publish(town)
    output = town.parent / "mean.csv"
    output.write_text(output.read_text().replace(",", ";", 1))
    return found | {run("verify", town), run("report", town, "--out", town.parent / "r.html"), run("publish", town)}


def misunderstands(town):
    """A wrong call; and what `check` refuses."""
    wrong = {run("publish"), run("publish", town, "--no-such"), run("status", town, "--check", "--watch")}
    (town.parent / "readings.csv").unlink()
    return wrong | {run("check", town)}


def is_stopped(number):
    def stopped(town):
        ended = finish(start(publish_and_ask, str(town), number))
        assert 0 < count(town) < STEPS
        assert run("publish", town) == 0
        assert hl.verify(town).problems == ()
        return {ended}

    return stopped


def is_killed(town):
    return go_on(town, finish(start(publish_and_die, str(town), "entries committed", 1, 3)))


def hangs_up(town):
    return go_on(town, finish(start(publish_and_ask, str(town), signal.SIGHUP)))


def go_on(town, ended):
    """The next run goes on; return the status as a shell has it."""
    assert ended < 0
    assert run("publish", town) == 0
    assert hl.verify(town).problems == ()
    return {128 - ended}


def count(town):
    return hl.status(town).streams[0].published


PROVOKED = {
    0: finishes,
    1: finds,
    2: misunderstands,
    129: hangs_up,
    130: is_stopped(signal.SIGINT),
    143: is_stopped(signal.SIGTERM),
    137: is_killed,
}


def test_the_table_has_every_status_that_is_provoked_here():
    table = PAGE.read_text().split("| status | what it means |")[1].split("\n\n")[0]
    named = {int(n) for row in table.splitlines()[2:] for n in re.findall(r"\b\d+\b", row.split("|")[1])}
    assert named - {9} == set(PROVOKED), "−1 and −9 are how a program that started it sees 129 and 137"


@pytest.mark.parametrize("status", PROVOKED)
def test_each_status_is_what_the_command_line_ends_with(town, status):
    assert PROVOKED[status](town) == {status}
