"""A server of its own for each test that changes it, one for all that only look."""

import pytest
from server.instance import made


@pytest.fixture
def instance(tmp_path):
    """An instance, served without padding."""
    with made(tmp_path / "instance").serving() as served:
        yield served


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The same for a whole file of tests; T is large."""
    with made(tmp_path_factory.mktemp("server") / "instance", queries=100_000).serving() as served:
        yield served
