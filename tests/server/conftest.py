"""A server of its own for each test that changes it, one for all that only look."""

import pytest
from server.house import made


@pytest.fixture
def house(tmp_path):
    """A house, served without padding."""
    with made(tmp_path / "house").serving() as served:
        yield served


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The same for a whole file of tests; T is large."""
    with made(tmp_path_factory.mktemp("server") / "house", queries=100_000).serving() as served:
        yield served
