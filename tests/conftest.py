"""Shared fixtures, and the order of the tests. SULQ_SOAK=1 runs all that takes long: soak.py."""

from __future__ import annotations

import functools
import gc
import os

# Beside each other, threads of linear algebra only wait for each other. Read when numpy is loaded.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import postgres
import pytest
import typer.testing
from helpers import ENGINES, show_every_number
from hypothesis import HealthCheck, settings
from seeded_noise import Draws
from soak import SOAK

# Quiet machines and loaded ones draw the same examples, so a run never fails by luck.
settings.register_profile(
    "default", derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
settings.register_profile("wide", settings.get_profile("default"), derandomize=False)
settings.load_profile("wide" if SOAK else "default")

# A forked child has none of its parent's threads: what they worked on must not be collected there.
os.register_at_fork(after_in_child=gc.disable)


# For every command that is tried, typer's runner would make all commands anew.
typer.testing._get_command = functools.cache(typer.testing._get_command)

DRAWS = Draws()


def pytest_configure() -> None:
    """Say where all workers find one PostgreSQL; the first test that needs it starts it."""
    postgres.plan()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item) -> None:
    """Let no test fail by luck, unless it says how often it does."""
    DRAWS.begin(item)


def pytest_collection_modifyitems(items) -> None:
    """Put Spark first: its tests take the longest, and one worker keeps those it began with."""
    items.sort(key=lambda item: item.path.name != "test_spark.py")


def pytest_unconfigure() -> None:
    postgres.end()


@pytest.fixture(params=sorted(ENGINES))
def make_engine(request):
    """Opens a source with one of the engines: make_engine(source, schema)."""
    made = []

    def make(source, schema, table=None):
        made.append(ENGINES[request.param](source, schema, table))
        return made[-1]

    make.engine = request.param
    yield make
    for engine in made:
        engine.close()


@pytest.fixture
def every_number(monkeypatch):
    """Show every number, those too noisy to say as well: under silent noise each one is exact."""
    show_every_number(monkeypatch)
