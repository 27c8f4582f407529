"""One browser and one server for a whole file of tests."""

import pytest
from console.browser import launched, person
from console.visiting import Visiting
from server.house import made


@pytest.fixture(scope="module")
def browser():
    """Not for the whole session: while it is open, asyncio.run works in no other test."""
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """anna's dataset 'people', asked by bob; eve is not invited; carl and dan live next door."""
    folder = tmp_path_factory.mktemp("console") / "house"
    with made(folder, queries=100_000).serving() as served:
        yield served


@pytest.fixture
def sit(browser, house):
    """sit("bob") -> a page where bob has signed in; closed after the test."""
    pages = []

    def down(who, **said):
        pages.append(person(browser, said.pop("house", house), who, **said))
        return pages[-1]

    yield down
    for page in pages:
        page.context.close()


@pytest.fixture
def visit(house):
    """visit("bob") -> the same without a browser: get(path), post(path, fields)."""
    return lambda who, at=house: Visiting(at, who)
