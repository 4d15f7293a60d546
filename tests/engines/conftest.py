"""Shared by the tests of engines: the server and the session that some of the sources are on, started when first asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engines.sources import SERVER
from spark_cluster import run_session


@pytest.fixture(scope="session", autouse=True)
def server_of_sources(request: pytest.FixtureRequest) -> None:
    SERVER["find"] = lambda: request.getfixturevalue("postgresql_server")
    SERVER["session"] = lambda: request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One session of Spark for all tests of engines: Java takes seconds to start."""
    with run_session(tmp_path_factory.mktemp("warehouse")) as session:
        yield session
