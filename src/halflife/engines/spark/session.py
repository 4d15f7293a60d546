"""The session of this process: the one that runs already, or a new one on the cluster that the policy or the environment names.

There is one session in a process, and all sources share it. It stays until the process ends: to start one takes seconds.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from typing import Any

from halflife.errors import InvalidInput, SourceUnreachable, missing_extra


def connect(master: str | None) -> Any:
    """Return a session of our own settings on the cluster `master`, else on SPARK_MASTER, else as spark-defaults says."""
    _import_pyspark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context
    wanted = master or os.environ.get("SPARK_MASTER")
    if running is not None and master is not None and running.master != master:
        raise InvalidInput(
            f"this process has a Spark session on {running.master} already, and one process has one: leave `master` out, or "
            f"publish what is on {master} by a process of its own"
        )
    session = SparkSession.builder.getOrCreate() if running is not None else _start(SparkSession.builder, wanted)
    own = session.newSession()
    own.conf.set("spark.sql.caseSensitive", "true")
    own.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return own


def _start(builder: Any, master: str | None) -> Any:
    """Start a session; Spark takes Ctrl-C for itself, and gives it back here."""
    if not _find_java():
        raise SourceUnreachable(
            "Spark needs Java, and there is none: install a runtime (openjdk-17-jre-headless), or say where it is by JAVA_HOME"
        )
    builder = builder.appName("halflife").config("spark.ui.showConsoleProgress", "false")
    builder = builder if master is None else builder.master(master)
    kept, refusal = signal.getsignal(signal.SIGINT), None
    session: Any = None
    try:
        session = builder.getOrCreate()
    except Exception as error:
        refusal = SourceUnreachable(
            f"no session on {master or 'the cluster of spark-defaults'} ({name_failure(error)}): check that it runs, its "
            "address, and that it can reach this machine"
        )
    finally:
        with contextlib.suppress(
            ValueError, TypeError
        ):  # only the main thread has signals; this one may not be Python's
            signal.signal(signal.SIGINT, kept)
    if refusal is not None:
        raise refusal
    check_session(session)
    session.sparkContext.setLogLevel("OFF")  # what Spark says of a failure may quote a cell
    return session


def check_session(session: Any) -> None:
    """Refuse a session of Spark Connect, whose work can be neither broken off nor watched from here as that of others."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise InvalidInput(
            "this is a session of Spark Connect, which is not supported: run halflife where the driver runs, as a job of the "
            "cluster (docs/cluster.md)"
        )


def name_failure(error: Exception) -> str:
    """The kind of a failure, never Spark's words: its condition, or the class of its innermost cause."""
    found = getattr(error, "getCondition", lambda: None)()
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    kind = type(error).__name__
    while cause is not None and hasattr(cause, "getCause"):
        kind, cause = cause.getClass().getSimpleName(), cause.getCause()
    return str(found or kind)


def _find_java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(home and os.access(os.path.join(home, "bin", "java"), os.X_OK)) or shutil.which("java") is not None


def _import_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise missing_extra("pyspark", "spark", "a source on a Spark cluster") from None
