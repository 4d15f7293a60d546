"""Docs that cannot lie: the Python and the policies in README and docs are run; that of CONTRIBUTING in test_added_notion.py."""

from __future__ import annotations

import datetime
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from halflife.cli import main

ROOT = Path(__file__).resolve().parents[1]


def blocks(name, language):
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / name).read_text(), re.S)


def python_blocks(name):
    return blocks(name, "python")


def write_named_files(name, folder):
    """Write each YAML block or script that begins with the name of its file (`# town.yaml`), as a reader would."""
    for text in blocks(name, "(?:yaml|bash)"):
        if found := re.match(r"# (\S+\.(?:yaml|sh))\n", text):
            (folder / found[1]).write_text(text)


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/publishing.md",
        "docs/smoothing.md",
        "docs/compare.md",
        "docs/reading.md",
        "docs/age-dependent.md",
        "docs/almost-periodic.md",
        "docs/swellfish.md",
    ],
)
def test_examples_run_as_pasted(name, tmp_path, monkeypatch, capsys):
    """As a program of its own names, in a folder of its own; that the package starts alone test_imports.py holds."""
    write_named_files(name, tmp_path)
    program = tmp_path / "pasted.py"
    program.write_text("\n".join(python_blocks(name)))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(program), run_name="__main__")
    assert name != "README.md" or "spent 6.2%" in capsys.readouterr().out


def test_the_policy_of_the_docs_is_one():
    from halflife import Policy

    assert Policy.parse(blocks("docs/publishing.md", "yaml")[0]).streams[0].name == "mean-use"


def test_the_policy_of_a_cluster_is_one():
    from halflife import Policy

    source = Policy.parse(blocks("docs/cluster.md", "yaml")[0]).streams[0].source
    assert (source.engine, source.master) == ("spark", "yarn")


def schema_keys(schema, part, path=""):
    """Yield (path, keys) of every mapping of a JSON Schema that names its keys: `streams.source`, ["files", …]."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[1]]
    if "properties" in part:
        yield path or "policy", list(part["properties"])
        for key, below in part["properties"].items():
            yield from schema_keys(schema, below, f"{path}.{key}".strip("."))
    for below in (*part.get("anyOf", ()), *part.get("oneOf", ()), *([part["items"]] if "items" in part else ())):
        yield from schema_keys(schema, below, path)


def test_publishing_has_every_key_of_the_schema_and_no_other():
    """Each mapping of a policy has a heading with its path, and a table with its keys."""
    from halflife.policy.template import json_schema

    page = (ROOT / "docs" / "publishing.md").read_text()
    told = {
        path: re.findall(r"^\| `(\w+)`(?: \?)? \|", text, re.M)
        for path, text in re.findall(r"^### (\S+)\n(.*?)(?=^##)", page, re.M | re.S)
    }
    expected = dict(schema_keys(json_schema(), json_schema()))
    assert {path: sorted(keys) for path, keys in told.items()} == {
        path: sorted(keys) for path, keys in expected.items()
    }


def test_publishing_says_which_keys_may_be_left_out():
    """Of the parts that the schema knows whole; which parameters a notion needs is the notion's to say."""
    from halflife.policy.template import json_schema

    schema, page = json_schema(), (ROOT / "docs" / "publishing.md").read_text()
    parts = {"population": "Population", "clock": "Clock", "streams": "StreamPart", "streams.source": "Source",
             "streams.statistic": "Statistic", "streams.groups": "Groups", "streams.statistic.weights": "Weights"}  # fmt: skip
    for path, name in parts.items():
        (text,) = re.findall(rf"^### {re.escape(path)}\n(.*?)(?=^##)", page, re.M | re.S)
        needed = re.findall(r"^\| `(\w+)` \|", text, re.M)
        assert sorted(needed) == sorted(schema["$defs"][name].get("required", []))


@pytest.mark.parametrize("name", ["docs/age-dependent.md", "docs/almost-periodic.md"])
def test_the_promises_of_the_docs_can_be_made(name):
    from halflife import Policy

    whole = blocks("docs/publishing.md", "yaml")[0]
    for text in re.findall(r"```yaml\n(promise:.*?)```", (ROOT / name).read_text(), re.S):
        assert Policy.parse(re.sub(r"promise:\n(  .*\n)+", text, whole)).promise.notion in text


def test_the_policy_about_secrets_is_one_and_hides_them(tmp_path):
    from halflife import Policy
    from halflife.policy import channels

    (text,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "swellfish.md").read_text(), re.S)
    (channel,) = channels(Policy.parse(text, tmp_path))
    secrets = channel.plan.notion.specifications
    assert len(secrets) == 261 + 104 + 1 + 366  # weekdays, weekends, a holiday; nights, that into 1 January too
    assert channel.plan.verdict()["kept"]


def test_the_readme_example_is_about_ten_lines():
    (block,) = python_blocks("README.md")
    assert len([line for line in block.splitlines() if line.strip()]) <= 12


def test_nothing_that_we_write_publishes_by_the_private_look():
    for page in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("**/*.service"),
        *ROOT.glob("examples/**/*.*"),
    ]:
        text = page.read_text(errors="replace")
        assert not re.search(
            r"halflife check [^\n]*(&&|;|\|\|)[^\n]*halflife publish|Exec(StartPre|Condition)=.*check", text
        ), page.name
    told = (ROOT / "docs" / "publishing.md").read_text()
    assert "Never let a timer, a unit file or a pipeline publish or not by it" in told


def test_links_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


def test_requirements_pin_everything_and_name_no_index():
    lines = [line for line in (ROOT / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9._-]+==[0-9][^ ]*", line) for line in lines)


def test_every_file_and_module_that_the_docs_name_is_there():
    """A page that names `plans/w_event.py` or `halflife.lab.views` points at something; other people's files are not ours."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    lost = []
    for page in pages:
        text = re.sub(r"https?://\S+", "", page.read_text())
        for name in set(re.findall(r"[\w.-]+(?:/[\w.-]+)*/\w+\.py\b", text)):
            if name.endswith("/halving.py"):  # the example of a notion that is added
                continue
            if not any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "halflife", ROOT / "tests")):
                lost.append((page.name, name))
        for name in set(re.findall(r"`halflife((?:\.[a-z_]+)+)", text)):
            *parents, last = name.strip(".").split(".")
            place = ROOT / "src" / "halflife" / "/".join(parents)
            whole = place / last
            inside = place.with_suffix(".py") if parents else ROOT / "src" / "halflife" / "__init__.py"
            held = [
                f for f in (inside, place / "__init__.py") if f.exists() and re.search(rf"\b{last}\b", f.read_text())
            ]
            if not (whole.is_dir() or whole.with_suffix(".py").exists() or held):
                lost.append((page.name, f"halflife{name}"))
    assert not lost


# docs/operating.md --------------------------------------------------------------------------------------------------

OPERATING = "docs/operating.md"


def run_line(line):
    """Run a line of the page where we are, our own commands without a new program; return its status and what it printed."""
    if line.startswith("halflife "):
        ours = CliRunner().invoke(main, shlex.split(line, comments=True)[1:])
        return ours.exit_code, ours.output
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = os.environ | {"PATH": path}
    done = subprocess.run(["sh", "-ec", line], capture_output=True, text=True, check=False, env=env)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The page's readings and policies."""
    folder = tmp_path_factory.mktemp("operating")
    write_named_files(OPERATING, folder)
    (program,) = python_blocks(OPERATING)
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True)
    return folder


@pytest.fixture
def operated(written, tmp_path):
    """A copy of them."""
    return shutil.copytree(written, tmp_path, dirs_exist_ok=True)


def test_the_commands_for_operators_run_in_their_order(operated, monkeypatch):
    monkeypatch.chdir(operated)
    for line in "".join(blocks(OPERATING, "sh")).splitlines():
        status, said = run_line(line)
        assert status == 0, (line, said)
    assert "Everything agrees." in said
    kept = {path.name for path in (operated / "backup" / "newest").iterdir()}
    assert kept == {"ledger.sqlite", "manifest.json", "policy.yaml"}


def test_the_page_backs_up_again_and_again(operated, monkeypatch):
    """`newest` is the newest each time, whole, and the ones before are left as they were."""
    from halflife.publisher.backing_up import read_backup

    monkeypatch.chdir(operated)
    for day, entries in (("2026-02-01", 31), ("2026-02-11", 41), ("2026-02-21", 51)):
        publish_until(operated, day)
        before = {path.name for path in Path("backup").glob("2*")}
        while before and max(before) >= f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S}":
            time.sleep(0.05)
        status, said = run_line("sh backup.sh")
        assert status == 0, said
        assert read_backup("backup/newest").mark.entries == entries
    assert [read_backup(path).mark.entries for path in sorted(Path("backup").glob("2*"))] == [31, 41, 51]
    assert sorted(path.name for path in Path("backup").iterdir())[-1] == "newest"
    shutil.rmtree("backup")
    Path("town.yaml").rename("away.yaml")
    assert run_line("sh backup.sh")[0] != 0, "a backup that was refused fails the unit"
    assert "ExecStartPost=/bin/sh backup.sh" in (ROOT / OPERATING).read_text()


def publish_until(folder, day):
    import halflife as hl

    now = datetime.datetime.fromisoformat(f"{day}T03:00+00:00").timestamp()
    return hl.publish(folder / "town.yaml", clock=lambda: now).published["daily-use"]


def copy_ledger(folder):
    names = ("town.ledger", "town.ledger.shown", "daily-use.csv", "daily-use.csv.mark")
    return {name: (folder / name).read_bytes() for name in names}


def restore(folder, copy, *names):
    for name in names:
        (folder / name).write_bytes(copy[name])


def test_what_the_page_says_of_older_copies_is_said(operated):
    """The messages of the page are those of a copy of 31 steps beside 41 that were published; the newest goes on."""
    from halflife import HalflifeError

    told = [line for line in (ROOT / OPERATING).read_text().splitlines() if line.startswith("Error: ")]
    assert publish_until(operated, "2026-02-01") == 31
    older = copy_ledger(operated)
    assert publish_until(operated, "2026-02-11") == 10
    newest = copy_ledger(operated)
    all_but_output = ("town.ledger", "town.ledger.shown", "daily-use.csv.mark")
    for expected, names in zip(told, [all_but_output[:1], all_but_output[:2], all_but_output], strict=True):
        restore(operated, older, *names)
        with pytest.raises(HalflifeError) as refused:
            publish_until(operated, "2026-02-21")
        assert f"Error: {refused.value}".replace(str(operated), "/srv/town") == expected
        restore(operated, newest, *newest)
    assert publish_until(operated, "2026-02-21") == 10


def test_a_copy_that_goes_on_elsewhere_is_told_from_the_ledger(operated):
    from halflife import HalflifeError

    publish_until(operated, "2026-02-01")
    copy = copy_ledger(operated)
    publish_until(operated, "2026-02-11")
    shown = (operated / "town.ledger.shown").read_bytes()
    restore(operated, copy, *copy)
    assert publish_until(operated, "2026-02-21") == 20, "where everything goes back together nothing can notice"
    (operated / "town.ledger.shown").write_bytes(shown)
    with pytest.raises(HalflifeError, match="is not the ledger that 41 entries were published from"):
        publish_until(operated, "2026-02-21")


def test_the_page_restores_a_dead_disk(operated, monkeypatch):
    """A backup of 31 steps, 41 published: refused, then passed over as the page says; the next run goes on with step 42."""
    import halflife as hl

    monkeypatch.chdir(operated)
    publish_until(operated, "2026-02-01")
    hl.backup("town.yaml", "backup/newest")
    publish_until(operated, "2026-02-11")
    for file in operated.glob("town.ledger*"):
        file.unlink()
    status, said = run_line("halflife restore backup/newest town.yaml")
    assert (status, "--pass-over" in said) == (1, True)
    assert "halflife restore backup/newest town.yaml --pass-over" in (ROOT / OPERATING).read_text()
    now = datetime.datetime.fromisoformat("2026-02-11T03:00+00:00").timestamp()
    made = hl.restore("backup/newest", "town.yaml", pass_over=True, clock=lambda: now)
    assert made.passed == {"daily-use": (32, 41)}
    assert publish_until(operated, "2026-02-12") == 1
    assert run_line("halflife verify town.yaml")[0] == 0


def test_a_new_ledger_after_a_lost_one_shares_no_window_with_it(operated):
    """The page's second policy begins more than w steps after the last one that the first had published."""
    from halflife import Policy

    first, second = (Policy.load(operated / name) for name in ("town.yaml", "town-2.yaml"))
    assert first.notion == second.notion
    last = datetime.date(2026, 2, 10)
    assert (datetime.date.fromisoformat(second.clock.start) - last).days > first.notion.w
    assert first.population.id != second.population.id
    assert {first.ledger, first.streams[0].output}.isdisjoint({second.ledger, second.streams[0].output})


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(tmp_path):
    names = []
    for text in blocks(OPERATING, "ini"):
        names.append(tmp_path / re.match(r"# (\S+)", text)[1])
        names[-1].write_text(text.replace("/opt/halflife/bin/halflife", sys.executable).replace("User=publisher\n", ""))
    assert [name.name for name in names] == ["town.service", "town.timer"]
    done = subprocess.run(["systemd-analyze", "verify", *names], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "SuccessExitStatus=143" in names[0].read_text()
