"""One browser and one server for a whole file of tests."""

import pytest
from server.console.browser import launched, person
from server.console.page_client import PageClient
from server.instance import made


@pytest.fixture(scope="module")
def browser():
    """Not for the whole session: while it is open, asyncio.run works in no other test."""
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """anna's dataset 'people', asked by bob; eve is not invited; carl and dan live next door."""
    folder = tmp_path_factory.mktemp("console") / "instance"
    with made(folder, queries=100_000).serving() as served:
        yield served


@pytest.fixture
def sit(browser, instance):
    """sit("bob") -> a page where bob has signed in; closed after the test."""
    pages = []

    def down(who, **said):
        pages.append(person(browser, said.pop("instance", instance), who, **said))
        return pages[-1]

    yield down
    for page in pages:
        page.context.close()


@pytest.fixture
def visit(instance):
    """visit("bob") -> the same without a browser: get(path), post(path, fields)."""
    return lambda who, at=instance: PageClient(at, who)
