"""What is done to a damaged world: publish, verify, two publishers at once; and all that was said meanwhile."""

from __future__ import annotations

import gc
import io
import logging
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import halflife as hl
from attacks.damage.faults import Hung, Killed, no_hanging
from attacks.damage.worlds import ZONES, World, clock, exact_totals, known_totals
from halflife.cli import main


@dataclass
class Outcome:
    """How an act ended: "went on", "refused" (a HalflifeError), "failed" (any other), "killed" or "hung"."""

    how: str
    result: Any = None
    where: str = ""
    said: str = field(default="", repr=False)


def act(folder: Path, what: Callable[[], Any], *around: Any, publishes: bool = True) -> Outcome:
    """Do something; nothing that it raises or says gets away. What surrounds it (a fault) ends with it.

    What it publishes on the standard output is kept in a file, as a reader would.
    """
    out, err, log = io.StringIO(), io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(log)
    handler.setFormatter(Fields())
    logger = logging.getLogger("halflife")
    logger.addHandler(handler)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    outcome = Outcome("went on")
    try:
        with redirect_stdout(out), redirect_stderr(err), no_hanging(folder), ExitStack() as stack:
            for one in around:
                stack.enter_context(one)
            outcome.result = what()
    except hl.HalflifeError as error:
        outcome = Outcome("refused", str(error))
    except Killed:
        outcome = Outcome("killed")
    except Hung:
        outcome = Outcome("hung")
    except Exception as error:
        outcome = Outcome("failed", f"{type(error).__name__}: {error}", innermost(error))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    if outcome.how == "killed":
        gc.collect()  # lets go of what the process had open, as its end would
    if publishes:
        with (folder / "stdout.jsonl").open("a") as file:
            file.write(out.getvalue())
    outcome.said = "\n".join((out.getvalue(), err.getvalue(), log.getvalue(), str(outcome.result)))
    return outcome


class Fields(logging.Formatter):
    """All of a record: its message, its fields, its error."""

    def format(self, record: logging.LogRecord) -> str:
        """As text."""
        return f"{super().format(record)} {getattr(record, 'fields', '')}"


def innermost(error: BaseException) -> str:
    """Where in halflife an error came from."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/halflife/" in f.filename]
    return f"{frames[-1].filename.split('/halflife/')[-1]}:{frames[-1].name}" if frames else "?"


def publish(
    world: World, folder: Path, hours: float, policy: hl.Policy | None, *around: Any, read: bool = True
) -> Outcome:
    """Publish what is due; from the files if they are to be read, else from known totals."""

    def run() -> Any:
        with nullcontext() if read else known_totals(world.rows):
            return hl.publish(policy or hl.Policy.load(folder / "policy.yaml"), clock=clock(hours), wait=0.3)

    return act(folder, run, *around)


def push(world: World, folder: Path, hours: float, policy: hl.Policy | None) -> Outcome:
    """Push the newest total of the first stream, as a program does."""

    def run() -> Any:
        known = policy or hl.Policy.load(folder / "policy.yaml")
        totals = exact_totals(world.rows)[max(0, min(23, int(hours) - 1))] / 10**6
        grouped = known.streams[0].groups is not None
        with hl.Stream(known, known.streams[0].name, wait=0.3, clock=clock(hours)) as stream:
            return stream.publish(dict(zip(ZONES, totals, strict=True)) if grouped else float(totals.sum()))

    return act(folder, run)


def race(world: World, folder: Path, hours: float) -> Outcome:
    """Two publishers at once, each with a policy of its own; the worse of the two outcomes."""
    outcomes: list[Outcome] = []

    def one() -> None:
        try:
            hl.publish(hl.Policy.load(folder / "policy.yaml"), clock=clock(hours), wait=5)
            outcomes.append(Outcome("went on"))
        except hl.HalflifeError as error:
            outcomes.append(Outcome("refused", str(error)))
        except BaseException as error:
            outcomes.append(Outcome("failed", f"{type(error).__name__}: {error}", innermost(error)))

    def run() -> None:
        threads = [threading.Thread(target=one) for _ in range(2)]
        with known_totals(world.rows):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    outcome = act(folder, run)
    worst = min([*outcomes, outcome], key=lambda o: ["failed", "hung", "refused", "went on"].index(o.how))
    worst.said = outcome.said + "\n".join(str(o.result) for o in outcomes)
    return worst


def verify(world: World, folder: Path, policy: hl.Policy | None) -> Outcome:
    """Verify ledger, outputs and policy; the result is whether all agrees."""

    def run() -> Any:
        known = policy or hl.Policy.load(folder / "policy.yaml")
        outputs = {s: f"{folder / t}{'/' if t.endswith('/') else ''}" for s, t in world.targets.items()}
        return hl.verify(known.ledger_url, outputs, policy=known, wait=0.3)

    outcome = act(folder, run, publishes=False)
    if outcome.how == "went on":
        outcome.result = bool(outcome.result.good)
    return outcome


def command(folder: Path) -> Outcome:
    """`halflife verify policy.yaml`, as it is typed."""

    def run() -> Any:
        done = CliRunner().invoke(main, ["verify", str(folder / "policy.yaml")])
        print(done.output)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.exit_code

    outcome = act(folder, run, publishes=False)
    if outcome.how == "went on":
        outcome.result = outcome.result == 0
    return outcome
