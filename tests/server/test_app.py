"""One application: the API and the console beside each other, over the same services."""

import ast
from pathlib import Path

import pytest
from server.instance import call, made
from starlette.applications import Starlette
from starlette.routing import Mount, Route

import sulq
from sulq.server.app import make_app
from sulq.server.console.app import ROUTES, Console
from sulq.server.console.pages import HEADERS
from sulq.server.gate import Gate
from sulq.server.services.settings import Settings

BY_HAND = {"http.client", "urllib.request", "requests", "aiohttp", "urllib3"}


def test_neither_the_console_nor_the_api_wraps_the_other(tmp_path):
    """Starlette hands a request to one of the two; a request for the API meets no page's code."""
    app = make_app(Settings.load(made(tmp_path / "folder").folder, port=0))
    assert isinstance(app, Starlette)
    mounts = {route.path: route.app for route in app.routes if isinstance(route, Mount)}
    assert {path: type(mounted) for path, mounted in mounts.items()} == {
        "/console": Console, "": Gate,
    }  # fmt: skip
    assert all(isinstance(route, Route) for route in ROUTES)


def imported(path):
    """The full name of every module that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))


def test_one_library_speaks_http():
    """Whatever asks over HTTP asks through httpx, whose limits are set in one place."""
    source = Path(sulq.__file__).parent
    found = {p.relative_to(source): BY_HAND & set(imported(p)) for p in source.rglob("*.py")}
    assert len(found) > 100
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "ODD"])
@pytest.mark.parametrize("path", ["/console/", "/console/nowhere", "/console/datasets/people/pay"])
def test_every_method_meets_the_sign_in_page_and_the_headers(shared, method, path):
    """Whether there is such a page, and for which method, is nothing a stranger learns."""
    found = call(shared.url, method, path)
    assert found.status == 303
    assert found.headers["location"].startswith("/console/sign-in")
    assert HEADERS.items() <= found.headers.items()


def test_a_file_that_is_not_there_has_the_headers_too(shared):
    """A wrong name beside the stylesheet is a plain 404."""
    found = call(shared.url, "GET", "/console/static/none.css")
    assert found.status == 404
    assert HEADERS.items() <= found.headers.items()
