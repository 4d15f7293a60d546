"""A PostgreSQL server from the system's packages, as a child process on loopback; where there is none, its tests skip."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob
from pathlib import Path
from typing import Any

import pytest

USER = "postgres"


def find_program(name: str) -> str | None:
    """Where a program of PostgreSQL is: on the path, or where Debian puts the newest."""
    return shutil.which(name) or max(glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class PostgresServer:
    """One server, with a database of the user's name; `root`, who may not run it, runs it as the user of the package."""

    def __init__(self, folder: Path, wal_level: str = "minimal") -> None:
        self.folder, self.port, self._wal_level = folder, free_port(), wal_level
        self._as = {"user": USER, "group": pwd.getpwnam(USER).pw_gid, "extra_groups": []} if os.getuid() == 0 else {}
        if self._as:
            shutil.chown(folder, USER)
        self._run("initdb", "-D", folder / "data", "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        self.start()

    def _run(self, name: str, *arguments: object) -> None:
        command = [find_program(name), *map(str, arguments)]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self._as)

    def start(self) -> None:
        command = [find_program("postgres"), "-D", self.folder / "data", "-p", str(self.port), "-k", self.folder]
        command += [
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "max_connections=40",
            "-c",
            f"wal_level={self._wal_level}",
        ]
        command += ["-c", "max_wal_senders=0", "-c", "shared_buffers=16MB"]
        log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, **self._as)
        end = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def _answers(self) -> bool:
        import psycopg

        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server at once: SIGINT breaks its sessions off, SIGQUIT is as a crash."""
        self.process.send_signal(how)
        self.process.wait(60)

    def become_replica(self) -> None:
        """Go on as a replica that waits for more from nobody, and answers readers."""
        self.stop()
        signal_file = self.folder / "data" / "standby.signal"
        signal_file.touch()
        if self._as:
            shutil.chown(signal_file, USER)
        self.start()

    def connect(self, user: str = USER) -> Any:
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.port, user=user, dbname=USER, autocommit=True)

    def url(
        self, schema: str, folder: Path | None = None, *, port: int | None = None, user: str = USER, lease: float = 30.0
    ) -> str:
        """The address of a ledger in a schema."""
        place = f"&folder={folder}" if folder is not None else ""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/{USER}?schema={schema}&lease={lease:g}{place}"

    def execute(self, *statements: str) -> list[Any]:
        """Run statements as the superuser, and return the rows of the last one."""
        with self.connect() as db:
            for statement in statements:
                cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def clear(self) -> None:
        """Leave no schema, and no session in one."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'halflife'")
        found = self.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema|public)'")
        self.execute("SELECT 1", *(f'DROP SCHEMA "{name}" CASCADE' for (name,) in found))


@contextmanager
def run_server(wal_level: str = "minimal") -> Iterator[PostgresServer]:
    """Start a server in a folder of its own, and leave nothing of it."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if find_program("initdb") is None or find_program("postgres") is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="halflife-pg-"))
    try:
        server = PostgresServer(folder, wal_level)
        try:
            yield server
        finally:
            server.stop(signal.SIGQUIT)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
