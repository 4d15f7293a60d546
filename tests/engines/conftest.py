"""Shared by the tests of engines: the server that one of the sources is on, started when it is first asked for."""

from __future__ import annotations

import pytest

from engines.sources import SERVER


@pytest.fixture(scope="session", autouse=True)
def server_of_sources(request: pytest.FixtureRequest) -> None:
    SERVER["find"] = lambda: request.getfixturevalue("postgresql_server")
