"""Shared fixtures. SULQ_EXAMPLES=20 runs twenty times as many random examples, freshly drawn."""

from __future__ import annotations

import os

import pytest
from helpers import ENGINES
from hypothesis import HealthCheck, settings

# Quiet machines and loaded ones draw the same examples, so a run never fails by luck.
settings.register_profile(
    "default", derandomize=True, deadline=None, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
settings.register_profile("wide", settings.get_profile("default"), derandomize=False)
settings.load_profile("wide" if "SULQ_EXAMPLES" in os.environ else "default")


@pytest.fixture(params=sorted(ENGINES))
def make_engine(request):
    """Opens a source with one of the engines: make_engine(source, schema)."""
    made = []

    def make(source, schema, table=None):
        made.append(ENGINES[request.param](source, schema, table))
        return made[-1]

    yield make
    for engine in made:
        engine.close()
