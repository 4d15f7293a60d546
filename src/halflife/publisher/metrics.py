"""Metrics of a policy for Prometheus: a text file that the node exporter's textfile collector reads.

All of it is public: it follows from the policy, the clock and what was published, and nothing in it depends on a reading that was
not. Names, base units and label escaping are those of the Prometheus text format, version 0.0.4. Each sample has the label
`population`, so that several policies may have their files in one folder.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from halflife.errors import HalflifeError, InvalidInput
from halflife.policy import Policy
from halflife.policy.paths import check_apart
from halflife.publisher.standing import Status, StreamStatus, status

ENDING = ".prom"
MODE = 0o644
"""Who may read the file: everybody, as the node exporter runs as somebody else."""

log = logging.getLogger("halflife.publisher")

Labels = Mapping[str, str]


class Metric(NamedTuple):
    """One gauge or counter: its name, what it says, and its samples, each with its labels."""

    name: str
    help: str
    samples: list[tuple[Labels, float]]

    @property
    def kind(self) -> str:
        """What it is, by its name: counters end in `_total`."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def lines(self) -> Iterator[str]:
        """Yield its lines in the text format."""
        yield f"# HELP {self.name} {_escape(self.help)}"
        yield f"# TYPE {self.name} {self.kind}"
        for labels, value in self.samples:
            named = ",".join(f'{key}="{_escape_label(text)}"' for key, text in labels.items())
            yield f"{self.name}{{{named}}} {_number(value)}"


def format_metrics(found: Status, population: str) -> str:
    """Return where a policy stands in the Prometheus text format.

    found       what `status` returned;  population  the `id` of the policy's population
    """
    return "".join(f"{line}\n" for metric in _metrics(found, population) if metric.samples for line in metric.lines())


def _metrics(found: Status, population: str) -> Iterator[Metric]:
    """The metrics of all streams together, then those of each stream."""
    own = {"population": population}
    about = {"version": version("halflife"), **own, "notion": str(found.promise["name"])}
    yield Metric(
        "halflife_info", "The version of halflife, the population and the notion of its promise.", [(about, 1.0)]
    )
    yield Metric("halflife_promise_limit_nats", "The largest risk that is promised, in nats.", [(own, found.limit)])
    yield Metric("halflife_promise_risk_nats", "The risk by the account now, in nats.", [(own, found.risk)])
    yield Metric(
        "halflife_promise_used_ratio", "The share of the promise that is used, from 0 to 1.", [(own, found.used)]
    )

    def each(name: str, words: str, value: Callable[[StreamStatus], float | None]) -> Metric:
        known = [({**own, "stream": stream.name}, value(stream)) for stream in found.streams]
        return Metric(
            f"halflife_stream_{name}", words, [(labels, number) for labels, number in known if number is not None]
        )

    yield each("newest_step", "The newest step that is published; 0 if none is.", lambda s: s.newest)
    yield each("published_steps_total", "Steps that are published.", lambda s: s.published)
    yield each(
        "skipped_steps_total",
        "Steps that are not published and never will be: their source was out of reach, or late ones had no room.",
        lambda s: s.skipped,
    )
    yield each(
        "newest_step_end_timestamp_seconds",
        "When the newest published step ended, in seconds since 1970.",
        lambda s: None if s.end is None else s.end.timestamp(),
    )
    yield each(
        "next_step_closing_timestamp_seconds",
        "When the next step that is not closed yet will be closed, in seconds since 1970.",
        lambda s: None if s.next_due is None else s.next_due.timestamp(),
    )
    yield each("lag_steps", "Steps that were closed, and are neither published nor skipped for good.", lambda s: s.lag)
    yield Metric(
        "halflife_written_timestamp_seconds", "When these metrics were worked out, in seconds since 1970.",
        [(own, found.now.timestamp())],
    )  # fmt: skip


def _number(value: float) -> str:
    """A value as the text format has it: shortest digits that read back the same.

    >>> _number(0.1), _number(1767229200.0), _number(math.inf), _number(math.nan)
    ('0.1', '1767229200', '+Inf', 'NaN')
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escape(text: str) -> str:
    r"""A help text with \ and new lines escaped."""
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _escape_label(text: str) -> str:
    r"""A label's value with \, new lines and quotes escaped.

    >>> print(_escape_label('north "A"\n'))
    north \"A\"\n
    """
    return _escape(text).replace('"', r"\"")


# The file -----------------------------------------------------------------------------------------------------------


def check_metrics_file(path: Path, policy: Policy) -> None:
    """Refuse a path that does not end in .prom, or is a file that the policy reads or writes otherwise."""
    if path.suffix != ENDING or not path.stem:
        raise InvalidInput(
            f"{path}: the file of metrics ends in {ENDING}: the node exporter reads no other, such as town{ENDING}"
        )
    check_apart(policy, path)


def write_metrics(path: Path, found: Status, population: str) -> None:
    """Write where a policy stands to a file, which is there whole or not at all; a link in its place is replaced.

    path        ends in .prom (`check_metrics_file`)
    found       what `status` returned;  population  the `id` of the policy's population
    """
    try:
        _replace(path, format_metrics(found, population).encode())
    except OSError as error:
        why = error.strerror or error
        raise InvalidInput(f"{path}: metrics cannot be written: {why}: make its folder writable, with room") from error


def _replace(path: Path, content: bytes) -> None:
    """Put a file into its place by a name that the node exporter does not look for."""
    number, name = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".new", dir=path.parent)
    try:
        with open(number, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(number, MODE)
            os.fsync(number)
        os.replace(name, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(name)


class MetricsFile:
    """The file of metrics of a publisher, written after its runs. What cannot be written is said once, and stops nothing.

    path   where it is, or None: then nothing is written;  policy  whose metrics it is to hold, against which the path is checked
    warn   is given a sentence if the file cannot be written, and again only after it could be;  clock  seconds since 1970
    """

    def __init__(
        self, path: Path | None, policy: Policy, warn: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        if path is not None:
            check_metrics_file(path, policy)
        self._path, self._warn, self._clock = path, warn or _log_warning, clock
        self._failed = False

    def write(self, policy: Policy) -> None:
        """Write where the policy stands now."""
        if self._path is None:
            return
        try:
            check_metrics_file(self._path, policy)  # it may have been read again, with other files
            write_metrics(self._path, status(policy, clock=self._clock), policy.population.id)
        except Exception as error:  # whatever it is: publishing goes on
            if not self._failed:
                self._warn(str(error) if isinstance(error, HalflifeError) else type(error).__name__)
            self._failed = True
        else:
            self._failed = False


def _log_warning(why: str) -> None:
    log.warning("metrics not written", extra={"fields": {"why": why}})
