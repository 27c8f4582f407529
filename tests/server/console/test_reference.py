"""The page of the API: every route with an example that works, for whoever comes by."""

import json
import re
import shlex

import pytest
from server.console.page_client import PageClient, plain, text

from sulq.server.api.api_reference import sections
from sulq.server.api.app import api

MAX_BYTES = 200_000


def routes():
    return [route for found in sections(api().openapi()).values() for route in found]


def test_the_page_has_every_route_and_no_script_from_elsewhere(shared):
    """Open to all, small, linked from every page's foot, and nothing on it is loaded from afar."""
    page = PageClient(shared).get("/console/reference")
    assert page.status == 200
    assert len(page.body) < MAX_BYTES
    said = plain(page).replace(" ", "")
    for path, methods in api().openapi()["paths"].items():
        for method in methods:
            assert f"{method.upper()}{path}" in said
    sources = re.findall(r'(?:src|href)="([^"]+)"', text(page))
    assert all(s.startswith(("/console/", "/v1/", "#")) for s in sources)
    anchors = {s[1:] for s in sources if s.startswith("#") and s != "#main"}
    assert anchors <= set(re.findall(r'id="([^"]+)"', text(page)))
    assert f"{shared.url}/v1/datasets/people/ask" in text(page)
    for reply in (
        PageClient(shared).get("/console/sign-in"),
        PageClient(shared, "bob").get("/console/"),
    ):
        assert 'href="/console/reference"' in text(reply)


@pytest.mark.parametrize("route", routes(), ids=lambda r: f"{r.method} {r.path}")
def test_an_example_is_as_its_schema_says(route):
    """Each reply shown is one that the route's schema takes."""
    from jsonschema import Draft202012Validator

    description = api().openapi()
    said = description["paths"][route.path][route.method.lower()]["responses"][route.status]
    (kind, content), *_ = said["content"].items()
    if kind == "application/json":
        schema = content["schema"] | {"components": description["components"]}
        errors = list(Draft202012Validator(schema).iter_errors(json.loads(route.reply)))
        assert errors == []


def test_examples_of_requests_are_understood(instance):
    """Each command on the page, sent as it stands, is no request that cannot be read."""
    for route in routes():
        if (route.method, route.path) == ("DELETE", "/v1/datasets/{name}"):
            continue
        words = shlex.split(route.request.replace("\\\n", " "))
        body = words[words.index("-d") + 1].encode() if "-d" in words else None
        path = words[-1].removeprefix("http://127.0.0.1:8707")
        reply = instance.call(route.method, path, body, "anna")
        assert reply.status not in (400, 405, 413, 415), route
        if reply.status == 422:
            assert not reply.json["error"]["message"].startswith(("body", "query", "path")), route
