"""Shared by all tests."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # several processes share the cores: threads that wait for one spin

import pytest
from hypothesis import Phase, settings

from browser import start
from own_keys import use_own_keys
from postgres_server import PostgresServer, run_server
from thinning import leave_diagonals

use_own_keys()
settings.register_profile("halflife", deadline=None, max_examples=60, derandomize=True)
settings.register_profile("breaks", settings.get_profile("halflife"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("soak", deadline=None, max_examples=2000)
settings.load_profile("soak" if os.environ.get("SOAK_MINUTES") else os.environ.get("HYPOTHESIS_PROFILE", "halflife"))

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_diagonals(items)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with the real data sets, beside the checkout; tests that need it skip without it."""
    if not DATA.is_dir():
        pytest.skip("the real data sets are not beside this checkout")
    return DATA


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests that look at pages: to start it takes longer than most of them."""
    with start() as browser:
        yield browser


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresServer]:
    """One server for all tests of ledgers on one."""
    with run_server() as server:
        yield server


@pytest.fixture
def postgresql(postgresql_server: PostgresServer) -> Iterator[PostgresServer]:
    """That server, for one test: nothing that it makes is left, as ledgers of one database know of each other."""
    yield postgresql_server
    postgresql_server.clear()


@pytest.fixture
def schema() -> str:
    """The name of a schema that no other test has."""
    return f"t{uuid.uuid4().hex[:16]}"


@pytest.fixture
def time_left(request: pytest.FixtureRequest) -> Callable[[], bool]:
    """Whether this soak test may begin another round: the budget is shared equally between those that go on until it is spent.

    Several workers have as many times the budget: SOAK_MINUTES is how long all of them together take.
    """
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    soaks = sum(1 for item in request.session.items if "time_left" in getattr(item, "fixturenames", ()))
    seconds = 60 * workers * float(os.environ.get("SOAK_MINUTES", "1")) / max(1, soaks, workers)
    end = time.monotonic() + seconds * 0.9
    return lambda: time.monotonic() < end
