"""`init`, `publish` and `verify`."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from halflife.cli.group import main
from halflife.cli.terminal import (
    Stop,
    catch_reload_signal,
    catch_stop_signals,
    event_log,
    progress_bar,
    say,
    write_whole,
)

MOST_SHOWN = 30
"""Of a table with more columns none is named."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from halflife.policy import Policy
    from halflife.publisher import Summary, Verdict
    from halflife.publisher.metrics import MetricsFile


@main.command()
@click.argument("data", nargs=-1, metavar="FILE...")
@click.option("--format", "form", metavar="NAME", help="parquet, csv, duckdb or sqlite, if the ending does not say.")
@click.option("--table", metavar="NAME", help="The table of a server's database, or of a DuckDB or SQLite file.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("policy.yaml"), show_default=True,
    metavar="FILE", help="The policy to write; one that is there is left alone.",
)  # fmt: skip
@click.option("--schema", is_flag=True, help="Print the JSON Schema of policies for your editor, and write nothing.")
def init(data: tuple[str, ...], form: str | None, table: str | None, out: Path, schema: bool) -> None:
    """Write a commented policy for a data file. It looks at the file's columns, never at its values.

    What must be public knowledge is left blank for you to fill in: nothing about the data may decide it.

    \b
    Example:
      halflife init readings.parquet
      halflife init meters-2026-*.csv.gz --out meters.yaml
      halflife init postgresql://db.example.org/meters --table readings
      halflife init --schema > policy.schema.json
    """
    from halflife.policy.template import SCHEMA_FILE, is_wide, json_schema, write_template

    if schema:
        say(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    if not data:
        raise click.UsageError("give the data file that the policy is for, such as readings.parquet")
    if os.path.lexists(out):
        raise click.ClickException(f"{out} is there already: give another --out, or move it away")
    from halflife.engines import open_source
    from halflife.engines.columns import is_header
    from halflife.libpq import is_server

    engine = open_source(data[0] if len(data) == 1 and is_server(data[0]) else list(data), form, table)
    try:
        columns = engine.columns()
    finally:
        engine.close()
    named = is_header(columns)
    write_whole(out, write_template(columns if named else {}, data, table, out.name), anew=True)
    if not named:
        say(
            "Not all columns have names that begin with a letter. If the file has no header, its first line is a reading, "
            "so no column was taken from it: name them in the policy, `columns: [id, time, ...]` under `source`, in order.",
            err=True,
        )
    elif is_wide(columns):
        say(
            "The file has many columns of one kind, as if each were one person's readings, so none of their names was written: "
            "`wide: yes` reads them so. If they are not, take that line away and name the columns for person and value.",
            err=True,
        )
    else:
        say("Columns: " + _list_columns(columns))
    wrote = str(out)
    if not os.path.lexists(out.parent / SCHEMA_FILE):
        write_whole(out.parent / SCHEMA_FILE, json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n", anew=True)
        wrote += f", and {out.parent / SCHEMA_FILE} for your editor"
    say(f"Wrote {wrote}. Fill in the blanks, then look: halflife check {out}")
    say(f"If it is as you meant it: halflife publish {out} --dry-run, and then without --dry-run")


def _list_columns(columns: Mapping[str, str]) -> str:
    """The columns with their types; their number alone if there are many, or if none is called as columns of readings are.

    A table with a column for each person has their names there, and a CSV file without a header somebody's reading.
    """
    from halflife.policy.template import has_usual_name

    if len(columns) > MOST_SHOWN or not any(map(has_usual_name, columns)):
        return (
            f"{len(columns)}, whose names are not shown: they may be people's, or a reading in a file without a header"
        )
    return ", ".join(f"{name} ({kind})" for name, kind in columns.items())


@main.command()
@click.argument("policy", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--wait", type=float, default=10.0, show_default=True, metavar="SECONDS",
              help="How long to wait for another process that holds the ledger.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be published, with which noise and why; read no reading.")
@click.option("--private", is_flag=True, help="Show the counts of bad and clipped readings on the screen too.")
@click.option("--second-ledger", is_flag=True, help="Begin this ledger beside another one about the same population.")
@click.option("--follow", "stays", is_flag=True,
              help="Stay, and publish each step when it is closed: its end, plus `delay` and `lateness`.")  # fmt: skip
@click.option("--metrics", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE.prom",
              help="Write public metrics for Prometheus' node exporter after each run.")  # fmt: skip
def publish(
    policy: Path, wait: float, dry_run: bool, private: bool, second_ledger: bool, stays: bool, metrics: Path | None
) -> None:
    """Publish every step that is due, exactly once; run it again to go on, or let it stay (--follow).

    Says first what is not protected, then what is due, how far one person can move each stream and why, and the noise over time.
    A dry run ends there: it looks at files, columns, outputs and the ledger, at no reading, and refuses what a run would refuse.
    SIGTERM and Ctrl-C end a run early, with everything written and an exit status of its own (143, 130). Without a terminal it
    writes one JSON line for each event to stderr.

    With --follow it catches up with what is due, then sleeps until the next step is closed, by the clock alone; what has arrived
    by then counts. SIGTERM and Ctrl-C finish the step in hand and end with status 0; SIGHUP reads the policy again. Several may
    follow one policy on one ledger: each step is published once, by whoever comes first.

    \b
    Example:
      halflife publish policy.yaml --dry-run
      halflife publish policy.yaml
      halflife publish policy.yaml --follow --metrics /var/lib/node_exporter/town.prom
    """
    with catch_stop_signals() as stop, catch_reload_signal(stays) as reload:
        from halflife.policy import Policy
        from halflife.publisher import preview
        from halflife.publisher import publish as run
        from halflife.publisher.backfill import check_sources
        from halflife.publisher.metrics import MetricsFile
        from halflife.publisher.preview import rehearse

        loaded = Policy.load(policy)
        measured = MetricsFile(metrics, loaded, _warn_about_metrics if sys.stderr.isatty() and not stays else None)
        for line in preview(loaded).lines():
            say(line, err=True)
        if dry_run:
            rehearse(loaded, wait, second_ledger=second_ledger)
            check_sources(loaded)
            say("Files and columns are as the policy says. Nothing was read, drawn or written.", err=True)
            return
        if stays:
            _follow(policy, wait, private, second_ledger, stop, reload, measured)
            return
        with event_log(), progress_bar(rate="steps") as show:
            summary = run(loaded, wait=wait, second_ledger=second_ledger, progress=show, stop=stop)
            measured.write(loaded)
    doubt = say_doubt(loaded)
    for line in _summary_in_words(summary, private, doubt):
        say(line, err=True)
    if summary.stopped:
        say("Stopped as asked, with everything written. Run it again to go on.", err=True)
        raise SystemExit(128 + (stop.signal or 0))


def _follow(
    policy: Path, wait: float, private: bool, second_ledger: bool, stop: Stop, reload: Callable[[], bool],
    measured: MetricsFile,
) -> None:  # fmt: skip
    """Publish each step when it is closed, and say so: as JSON lines to a log, as sentences to a person."""
    from halflife.publisher.follow import follow

    def tell(loaded: Policy, summary: Summary) -> None:
        measured.write(loaded)
        if sys.stderr.isatty() and any(summary.published.values()):
            for line in _summary_in_words(summary, private, say_doubt(loaded)):
                say(line, err=True)

    with event_log(sentences=sys.stderr.isatty()):
        follow(policy, wait=wait, second_ledger=second_ledger, stop=stop, reload=reload, told=tell)
    if stop():
        say("Stopped as asked, with everything written. Run it again to go on.", err=True)


def _warn_about_metrics(why: str) -> None:
    say(f"WARNING  {why}; what was published is not affected", err=True)


def say_doubt(policy: Policy) -> str | None:
    """Return what to say beside a risk that rests on an assumption which failed its check, or had none; None if all is well."""
    from halflife.publisher.promise_warnings import find_failed_checks

    if any(find_failed_checks(policy.notion)):
        return "what it assumes FAILED its check: the true risk is larger"
    return "what it assumes was never checked" if policy.notion.unchecked() else None


def _summary_in_words(summary: Summary, private: bool, doubt: str | None) -> Iterator[str]:
    """What a run did, stream by stream, and how the promise stands."""
    for name, count in summary.published.items():
        step, when = summary.last[name]
        again = summary.emitted_again[name]
        wrote = f", {again:,} that were committed before written again" if again else ""
        newest = f"newest is step {step:,}, up to {when}" if step else "nothing of it was ever published"
        yield f"{name}: {count:,} steps published{wrote}; {newest}"
        if private:
            yield f"  private: {json.dumps(dict(summary.tallies.get(name, {})))}"
    if summary.passed_over:
        yield f"{summary.passed_over:,} late steps were passed over, as the warning above says."
    kept = "The promise is kept" if doubt is None else f"By the account the promise is kept, but {doubt}"
    full = ", all of it in use, as the plan intends: it never takes more" if summary.used > 0.999999 else ""
    yield f"{kept}: risk {summary.risk:.6g} of {summary.limit:g}{full}."
    if not private and any(summary.published.values()):
        yield f"Counts of bad and clipped readings, for the operator alone: {summary.operator_file} (or --private)"


@main.command()
@click.argument("given", type=click.Path(dir_okay=False), metavar="POLICY_LEDGER_OR_CERTIFICATE")
@click.option("--output", "outputs", multiple=True, metavar="STREAM=FILE", help="Compare this file with a stream.")
@click.option("--policy", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Of a certificate: the policy from whose ledger all that it says is worked out again.")  # fmt: skip
@click.option("--public-key", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE",
              help="Of a certificate: the key (PEM) that must have signed it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(given: str, outputs: tuple[str, ...], policy: Path | None, public_key: Path | None, as_json: bool) -> None:
    """Work out every risk again from the ledger alone, check its chain, and compare outputs with it; or check a certificate.

    With a policy its ledger and its outputs are checked; with a ledger the outputs that you name; with a certificate its
    signature, all that it says against the policy's ledger, and the outputs that you name, for which no ledger is needed. Ends
    with status 1 if anything is wrong.

    \b
    Example:
      halflife verify policy.yaml
      halflife verify policy.ledger --output mean-use=mean-use.csv
      halflife verify certificate.json --policy policy.yaml --public-key public.pem
      halflife verify certificate.json --output mean-use=mean-use.csv
    """
    import dataclasses

    from halflife.publisher import is_certificate
    from halflife.publisher import verify as check
    from halflife.publisher.skipping import say_stretches

    path = Path(given)
    if is_certificate(path):
        from halflife.cli.certificates import verify_certificate

        verify_certificate(path, policy, _name_outputs(outputs), public_key, as_json)
        return
    if policy is not None or public_key is not None:
        lack = "is no certificate that ends in .json" if path.exists() else "is not there"
        raise click.UsageError(f"--policy and --public-key are about a certificate, and {path} {lack}")
    found, files = _what_to_verify(given, outputs)
    with progress_bar() as show:
        verdict = check(found, files, show)
    if as_json:
        rows = {
            k: None if isinstance(v, float) and math.isnan(v) else v for k, v in dataclasses.asdict(verdict).items()
        }
        say(json.dumps({"good": verdict.good, **rows}, indent=2))
    else:
        for problem in verdict.problems:
            say(f"WRONG  {problem}")
        for name, step in verdict.steps.items():
            file = verdict.compared.get(name)
            steps = f"{verdict.published[name]:,} {'step' if verdict.published[name] == 1 else 'steps'}"
            say(f"{name}: {steps} published, up to step {step:,}" + (f", compared with {file}" if file else ""))
        for name, runs in verdict.skipped.items():
            say(f"{name}: skipped for good, as the source was out of reach: steps {say_stretches(runs)}")
        say(_risk_in_words(verdict))
        doubt = None if isinstance(found, str) else say_doubt(found)
        if doubt is not None:
            say(f"WARNING  this risk rests on the promise, and {doubt}: see `halflife status`")
        if verdict.marks and verdict.good:
            say(f"marks outside the ledger agree: {', '.join(verdict.marks)}")
        say(f"newest hash {verdict.head}")
        count = len(verdict.problems)
        say("Everything agrees." if verdict.good else f"{count} problem{'s' if count > 1 else ''}.")
    if not verdict.good:
        raise SystemExit(1)


def _risk_in_words(verdict: Verdict) -> str:
    """The risk that was worked out again."""
    if not verdict.step:
        return "nothing is published yet: no risk"
    risk = f"risk {verdict.risk:.12g} of {verdict.limit:g} at step {verdict.step:,}"
    return f"{risk}, worst from now on {verdict.peak:.12g}"


def _what_to_verify(path: str, named: tuple[str, ...]) -> tuple[Policy | str, dict[str, str]]:
    """Return the policy or the ledger's address, and the outputs to compare by stream."""
    files = _name_outputs(named)
    from halflife.policy import Policy
    from halflife.publisher.verification import is_policy

    if not is_policy(path):
        return path, files
    policy = Policy.load(path)
    return policy, {**policy.outputs, **files}


def _name_outputs(named: tuple[str, ...]) -> dict[str, str]:
    """Return the outputs to compare by stream."""
    files = dict(pair.split("=", 1) for pair in named if "=" in pair)
    if len(files) != len(named):
        raise click.UsageError("write --output as STREAM=FILE, such as --output mean-use=mean-use.csv")
    return files
