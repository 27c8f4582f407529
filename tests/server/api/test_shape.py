"""One error shape everywhere, a description that fits, and no 5xx whatever is sent."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import (
    allow_header_conformance,
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.core.failures import Failure, FailureGroup
from server.instance import PROMISE
from soak import SOAK, times

from sulq import errors
from sulq.server.gate import OPEN
from sulq.server.services.responses import STATUS, error_body, status_of

D = "/v1/datasets/people"
NEW = {"name": "more", "source": "people.parquet", "schema": {"age": {"type": "integer"}}} | PROMISE

# What is sent -> the status and the type of the error that comes back.
ERRORS = [
    ("GET", D, None, "nobody", 401, "KeyRefused"),
    ("POST", f"{D}/ask", {"query": {"where": "secret", "error": 1}}, "bob", 402,
     "BudgetExceeded"),
    ("PATCH", D, {"state": "frozen"}, "bob", 403, "NotPermitted"),
    ("GET", "/v1/datasets/nothing", None, "bob", 404, "NotFound"),
    ("GET", "/v1/elsewhere", None, "bob", 404, "NotFound"),
    ("GET", "/nothing", None, "bob", 404, "NotFound"),
    ("GET", "/v1/datasets/a%0Ab", None, "bob", 404, "NotFound"),
    ("GET", "/a%0Ab", None, "bob", 404, "NotFound"),
    ("PUT", D, {}, "bob", 405, "Refused"),
    ("POST", "/v1/datasets", NEW, "anna", 409, "Refused"),
    ("POST", f"{D}/ask", b"{", "bob", 400, "QueryNotAllowed"),
    ("POST", f"{D}/ask", b"[" * 99, "bob", 413, "LimitReached"),
    ("POST", f"{D}/ask", {"query": {"where": "nothing > 3"}}, "bob", 422, "QueryNotAllowed"),
    ("POST", f"{D}/ask", {"query": 3}, "bob", 422, "QueryNotAllowed"),
    ("GET", f"{D}/answers?after=x", None, "bob", 422, "QueryNotAllowed"),
    ("POST", "/v1/datasets", NEW | {"name": "b", "source": "../server.db"}, "anna", 422,
     "SchemaError"),
    ("POST", "/v1/datasets", NEW | {"name": "b", "epsilon": -1.0}, "anna", 422, "PromiseError"),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "body", "who", "status", "kind"), ERRORS)
def test_every_error_has_the_one_shape(shared, method, path, body, who, status, kind):
    """Every refusal is {error: {type, message, charged}} with its status."""
    reply = shared.call(method, path, body, who)
    assert (reply.status, reply.error) == (status, kind)
    assert set(reply.json) == {"error"}
    assert {"type", "message", "charged"} <= set(reply.json["error"])
    assert reply.headers["content-type"] == "application/json"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in reply.headers["content-security-policy"]
    assert "server" not in reply.headers


def test_every_class_of_error_has_a_status():
    """A new error is not forgotten: each finds its own line before that of its parent."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        made = kind(1, 2) if name == "BudgetExceeded" else kind("words")
        assert 400 <= status_of(made) < 600
        assert error_body(made)["error"]["type"] == name
    order = [kind for kind, _ in STATUS]
    for i, kind in enumerate(order):
        assert not any(issubclass(kind, before) for before in order[:i])


def test_a_failure_inside_says_nothing_of_it(instance, monkeypatch):
    """An unexpected error: 500 in the one shape, without its words, and the server goes on."""
    from sulq.pipeline import Pipeline

    def broken(*_, **__):
        raise RuntimeError("row 17: Joe smokes; /home/anna/secret.parquet")

    monkeypatch.setattr(Pipeline, "answer", broken)
    reply = instance.ask("secret")
    assert reply.status == 500
    assert reply.json["error"]["type"] == "SulqError"
    assert reply.json["error"]["charged"] is None  # who knows?
    assert b"Joe" not in reply.body
    assert b"/home" not in reply.body
    monkeypatch.undo()
    assert instance.ask("secret").status == 200


def test_no_message_names_a_place_on_the_disk(instance):
    """Owners read about their files, not about the server's folders."""
    bodies = [
        NEW | {"name": "b", "source": "people.parquet"},
        NEW | {"name": "c", "source": "others.parquet"},
        NEW | {"name": "d", "source": str(instance.folder / "server.db")},
    ]
    for body in bodies:
        reply = instance.call("POST", "/v1/datasets", body, "anna")
        assert reply.status in (409, 422)
        assert str(instance.folder).encode() not in reply.body


def test_the_description_is_for_people(shared):
    """Every route has a sentence, a tag, its errors; nothing loads from elsewhere."""
    found = shared.call("GET", "/v1/openapi.json", None, None).json
    assert found["info"]["title"] == "SuLQ"
    for path, methods in found["paths"].items():
        for method in methods.values():
            assert method["summary"], path
            assert method["description"], path
            assert method["tags"], path
            if path not in OPEN:
                assert "401" in method["responses"], path
    assert shared.call("GET", "/docs", None, "bob").status == 404


# ---- anything at all ------------------------------------------------------------------------

EXAMPLES = times(6, 90)  # of each operation: some 3,000 for each of two people in `make soak`
CHECKS = (
    not_a_server_error, status_code_conformance, content_type_conformance,
    response_schema_conformance, allow_header_conformance,
)  # fmt: skip


@pytest.fixture(scope="module")
def operations(shared):
    """Every operation of our own description, and the instance that serves it."""
    body = shared.call("GET", "/v1/openapi.json", None, None).json
    schema = schemathesis.openapi.from_dict(body)
    return shared, [found.ok() for found in schema.get_all_operations()]


def sent(instance, case, who):
    """What a generated request gets, with a good key and, half of the time, a real dataset."""
    if case.path_parameters and "name" in case.path_parameters and hash(str(case.body)) % 2:
        case.path_parameters["name"] = "people"
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {instance.keys[who]}"}
    return case.call(base_url=instance.url)


def faults(instance, operations, who, examples=EXAMPLES):
    """Every generated request whose reply is a 5xx, not as described, or an error otherwise."""
    ends = ("DELETE", "/v1/datasets/{name}"), ("POST", "/v1/keys/rotate")
    chosen = [o for o in operations if (o.method.upper(), o.path) not in ends]
    return [fault for o in chosen for fault in faults_of(instance, o, who, examples)]


def faults_of(instance, operation, who, examples):
    found = []

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None,
              derandomize=not SOAK, database=None)  # fmt: skip
    @given(case=operation.as_strategy())
    def attempt(case):
        reply = sent(instance, case, who)
        label = f"{operation.method} {operation.path}"
        try:
            case.validate_response(reply, checks=CHECKS)
        except (FailureGroup, Failure) as failed:
            found.append((label, reply.status_code, str(failed)))
        if reply.status_code >= 400:
            body = json.loads(reply.content)
            if set(body) != {"error"} or "charged" not in body["error"]:
                found.append((label, "shape", reply.text))

    attempt()
    return found


@pytest.mark.parametrize("who", ["bob", "anna"])
def test_nothing_that_fits_the_description_breaks_the_server(operations, who):
    """schemathesis on our own OpenAPI: replies as described, errors in the one shape, no 5xx."""
    instance, every = operations
    assert len(every) >= 25
    assert faults(instance, every, who) == []
    instance.call("PATCH", D, {"state": "open"}, "anna")  # it may have been frozen
    assert instance.ask("secret", "anna").status == 200


def test_control_a_route_that_breaks_is_found(operations, monkeypatch):
    """The same search finds a route that fails on what it was not made for."""
    from sulq.server.services.people import People

    def careless(self, instance, name):
        raise KeyError(name)

    monkeypatch.setattr(People, "remove_analyst", careless)
    instance, every = operations
    chosen = [o for o in every if o.method.upper() == "DELETE"]
    assert any(f[1] == 500 for f in faults(instance, chosen, "anna", 3))


def test_control_a_reply_that_is_not_as_described_is_found(operations, monkeypatch):
    """The same search finds a name too many, and one that is missing."""
    from sulq.server.services.people import People

    instance, every = operations
    chosen = [o for o in every if o.path == "/v1/analysts" and o.method.upper() == "GET"]
    for wrong in ({"name": "x", "created": "", "datasets": [], "more": 1}, {"name": "x"}):
        monkeypatch.setattr(People, "analysts", lambda *_, wrong=wrong: [wrong])
        assert faults(instance, chosen, "anna", 1)


def test_every_reply_has_a_schema(operations):
    """Each route says what its reply holds."""
    instance, _ = operations
    found = instance.call("GET", "/v1/openapi.json", None, None).json
    bare = [
        (method, path)
        for path, methods in found["paths"].items()
        for method, route in methods.items()
        for status, reply in route["responses"].items()
        if not all(kind.get("schema") for kind in reply.get("content", {"": {}}).values())
    ]
    assert bare == []
