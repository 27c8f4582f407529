"""One server for all tests of a file that only look; T is large."""

import pytest
from server.pgwire.wired import wired


@pytest.fixture(scope="module")
def pg(tmp_path_factory):
    with wired(tmp_path_factory.mktemp("wired") / "instance") as served:
        yield served
