"""Processes that begin with the library imported: a server imports it once and forks them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.context import ForkServerProcess
from pathlib import Path

CONTEXT = multiprocessing.get_context("forkserver")
PRELOADED = [
    "halflife.cli",
    "halflife.publisher",
    "halflife.engines.duckdb.engine",
    "duckdb",
    "opendp.measurements",
    "pyarrow",
]
"""The imports that cost most of a short life."""
CONTEXT.set_forkserver_preload([*PRELOADED, "ruamel.yaml"])


def start(function: Callable[..., object], *arguments: object, said: str | Path = os.devnull) -> ForkServerProcess:
    """Run a function of a test module in a process of its own; what it prints, and its traceback, goes to a file."""
    process = CONTEXT.Process(target=_run, args=(str(said), function, *arguments))
    process.start()
    return process


def finish(process: ForkServerProcess) -> int:
    """Wait for a process; return how it ended, as `subprocess` does."""
    process.join(120)
    assert process.exitcode is not None, "it still runs"
    return process.exitcode


def _run(said: str, function: Callable[..., object], *arguments: object) -> None:
    output = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(output, stream)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests with nohup has it ignored
    function(*arguments)
