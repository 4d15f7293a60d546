"""Spark for tests: a session within this process, and a cluster on loopback; where there is no Java, these tests skip."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from postgres_server import free_port

LOCAL = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
SMALL = {
    "spark.ui.enabled": "false", "spark.driver.memory": "600m", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.ui.showConsoleProgress": "false", "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}  # fmt: skip
"""A session of little memory, whose zone is not UTC: no answer may depend on it. Its Java compiles fast and runs slowly."""


def need_java() -> None:
    """Skip where Spark cannot run."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Java is not installed")


@contextmanager
def run_session(folder: Path) -> Iterator[Any]:
    """Start a session within this process, and stop it and its Java."""
    need_java()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    os.environ.update(LOCAL)
    builder = SparkSession.builder.master("local[1]").config("spark.sql.warehouse.dir", str(folder))
    for key, value in SMALL.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        gateway = SparkContext._gateway
        if gateway is not None:
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(30)


class Cluster:
    """A master and two workers of one core each, every one a process group of its own."""

    def __init__(self, folder: Path, memory: str = "600m") -> None:
        import pyspark

        self.folder, self.port, self._pages = folder, free_port(), free_port()
        self._home = Path(pyspark.__file__).parent
        self.master = f"spark://127.0.0.1:{self.port}"
        self._log = (folder / "log").open("ab")
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self._pages)]
        self.processes = [self._start("master.Master", *where)]
        for i in range(2):
            limits = ["--host", "127.0.0.1", "--cores", "1", "--memory", memory, "--work-dir", str(folder / f"work{i}")]
            self.processes.append(self._start("worker.Worker", *limits, "--webui-port", str(free_port()), self.master))
        end = time.monotonic() + 120
        while self._alive() < 2:
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.2)

    def _start(self, what: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(self._home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        environment = {**os.environ, **LOCAL, "SPARK_DAEMON_MEMORY": "200m", "SPARK_HOME": str(self._home)}
        environment["PYSPARK_PYTHON"] = sys.executable
        return subprocess.Popen(
            command, stdout=self._log, stderr=self._log, cwd=self.folder, env=environment, start_new_session=True
        )

    def _alive(self) -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._pages}/json/", timeout=5) as answer:
                return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
        except OSError:
            return 0

    def stop(self) -> None:
        """Kill all processes and what they started."""
        for process in reversed(self.processes):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait(30)
        self._log.close()


@contextmanager
def run_cluster(memory: str = "600m") -> Iterator[Cluster]:
    """Start a cluster in a folder of its own, and leave nothing of it."""
    need_java()
    folder = Path(tempfile.mkdtemp(prefix="halflife-spark-"))
    try:
        cluster = Cluster(folder, memory)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
