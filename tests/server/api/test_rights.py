"""Every route x role x key: an exact table. Another's dataset looks like a missing one."""

import re
from datetime import UTC, datetime, timedelta

import pytest

SECRET_ONLY = {"columns": {"secret": {"type": "boolean"}}}
ASK = {"query": {"where": "secret"}}
NORTH = {"rows": [{"predicate": "region = 'north'"}]}
NEW = {"name": "more", "source": "people.parquet", "schema": {}, "epsilon": 1.0, "queries": 9}

# method, path, body -> status for: the owner, a scoped owner's key, an invited analyst,
# an analyst who is not invited, another tenant's owner and analyst.
D = "/v1/datasets/people"
TABLE = [
    ("GET", "/v1/me", None, (200, 200, 200, 200, 200, 200)),
    ("GET", "/v1/datasets", None, (200, 200, 200, 200, 200, 200)),
    ("POST", "/v1/datasets", "new", (422, 403, 403, 403, 422, 403)),
    ("GET", D, None, (200, 200, 200, 404, 404, 404)),
    ("PATCH", D, {"description": "x"}, (200, 200, 403, 404, 404, 404)),
    ("POST", f"{D}/price", ASK, (200, 200, 200, 404, 404, 404)),
    ("POST", f"{D}/ask", ASK, (200, 200, 200, 404, 404, 404)),
    ("POST", f"{D}/estimate", ASK, (200, 200, 200, 404, 404, 404)),
    ("POST", f"{D}/review", {"queries": ["secret"]}, (409, 409, 409, 404, 404, 404)),
    ("POST", f"{D}/sql", {"sql": "select count(*) from people"}, (200, 200, 200, 404, 404, 404)),
    ("POST", f"{D}/sizes", NORTH, (200, 200, 200, 404, 404, 404)),
    ("GET", f"{D}/keys", None, (200, 200, 200, 404, 404, 404)),
    ("GET", f"{D}/answers", None, (200, 200, 200, 404, 404, 404)),
    ("GET", f"{D}/budget", None, (200, 200, 200, 404, 404, 404)),
    ("POST", f"{D}/refresh", {"reason": "because"}, (200, 200, 403, 404, 404, 404)),
    ("POST", f"{D}/append", {"reason": "because"}, (422, 422, 403, 404, 404, 404)),
    ("GET", f"{D}/ledger", None, (200, 200, 403, 404, 404, 404)),
    ("GET", f"{D}/allotments", None, (200, 200, 403, 404, 404, 404)),
    ("PUT", f"{D}/allotments/bob", {"queries": 50}, (200, 200, 403, 404, 404, 404)),
    ("PUT", f"{D}/analysts/bob", None, (200, 200, 403, 404, 404, 404)),
    ("DELETE", f"{D}/analysts/eve", None, (200, 200, 403, 404, 404, 404)),
    ("GET", f"{D}/timeline", None, (200, 200, 403, 404, 404, 404)),
    ("GET", f"{D}/report", None, (200, 200, 403, 404, 404, 404)),
    ("GET", "/v1/sources", None, (200, 403, 403, 403, 200, 403)),
    ("PUT", "/v1/files/new.txt", b"x", (422, 403, 403, 403, 422, 403)),
    ("DELETE", "/v1/files/new.txt", None, (404, 403, 403, 403, 404, 403)),
    ("POST", "/v1/draft", {"source": "people.parquet"}, (200, 403, 403, 403, 422, 403)),
    ("POST", "/v1/check", {"source": "people.parquet", "schema": SECRET_ONLY},
     (409, 403, 403, 403, 422, 403)),
    ("POST", f"{D}/check", None, (200, 200, 403, 404, 404, 404)),
    ("GET", "/v1/analysts", None, (200, 403, 403, 403, 200, 403)),
    ("POST", "/v1/analysts", {"name": "bob"}, (409, 403, 403, 403, 201, 403)),
    ("DELETE", "/v1/analysts/nobody", None, (404, 403, 403, 403, 404, 403)),
    ("GET", "/v1/keys", None, (200, 200, 200, 200, 200, 200)),
    ("POST", "/v1/keys", {"label": "x"}, (201, 403, 403, 403, 201, 403)),
    ("DELETE", "/v1/keys/0000000000000000", None, (404, 403, 404, 404, 404, 404)),
    ("PUT", "/v1/keys/0000000000000000/cap", {"queries": 5}, (404, 403, 403, 403, 404, 403)),
    ("GET", "/v1/audit-log", None, (200, 403, 403, 403, 200, 403)),
    ("GET", "/v1/audit-log/verify", None, (200, 403, 403, 403, 200, 403)),
    ("GET", "/v1/webhook", None, (404, 403, 403, 403, 404, 403)),
    ("PUT", "/v1/webhook", {"url": "https://a.example/"}, (409, 403, 403, 403, 409, 403)),
    ("DELETE", "/v1/webhook", None, (404, 403, 403, 403, 404, 403)),
    ("POST", "/v1/webhook/test", None, (404, 403, 403, 403, 404, 403)),
    ("GET", "/v1/alarms", None, (200, 403, 403, 403, 200, 403)),
    ("POST", "/v1/alarms/seen", None, (200, 403, 403, 403, 200, 403)),
    ("GET", "/v1/metrics", None, (200, 403, 403, 403, 200, 403)),
    ("GET", "/v1/health", None, (200, 200, 200, 200, 200, 200)),
    ("GET", "/v1/ready", None, (200, 200, 200, 200, 200, 200)),
    ("GET", "/v1/openapi.json", None, (200, 200, 200, 200, 200, 200)),
]  # fmt: skip
CLOSING = ("DELETE", D)  # tried last, and by those who may not
ROTATING = ("POST", "/v1/keys/rotate")  # ends the key it is sent with: tried with keys of its own
OPEN = ("/v1/health", "/v1/ready", "/v1/openapi.json")  # and, with [oidc] only, /v1/token
ROLES = ("anna", "scoped", "bob", "eve", "carl", "dan")


@pytest.fixture(scope="module")
def roles(shared):
    """One instance for the table; its owner has a second key, for 'people' only."""
    made = shared.call("POST", "/v1/keys", {"datasets": ["people"]}, "anna")
    shared.keys["scoped"] = made.json["key"]
    shared.until_ready()
    return shared


def send(instance, entry, who):
    method, path, body, _ = entry
    body = NEW | {"source": "no-such-file.parquet"} if body == "new" else body
    return instance.call(method, path, body, who)


@pytest.mark.parametrize("role", ROLES)
def test_the_table_of_rights_is_exact(roles, role):
    """Each role gets what the table says at every route."""
    column = ROLES.index(role)
    found = {e[:2]: send(roles, e, role).status for e in TABLE}
    assert found == {e[:2]: e[3][column] for e in TABLE}


def test_the_table_has_every_route(roles):
    """A new route without a line in the table is noticed."""
    paths = roles.call("GET", "/v1/openapi.json").json["paths"]
    routes = {(m.upper(), p) for p, methods in paths.items() for m in methods}
    described = {e[:2] for e in TABLE} | {CLOSING, ROTATING}
    names = {
        "people": "{name}",
        "bob|eve|nobody": "{analyst}",
        "0{16}": "{key}",
        "new.txt": "{file}",
    }
    plain = set()
    for method, path in described:
        for said, name in names.items():
            path = re.sub(f"/({said})(?=/|$)", f"/{name}", path)
        plain.add((method, path))
    assert plain - {("GET", "/v1/openapi.json")} == routes


def test_control_a_forgotten_check_is_caught(roles, monkeypatch):
    """The same comparison finds a server that forgets invitations."""
    from sulq.server.services.access import Access

    honest = Access.datasets

    def careless(self, principal, name=None):
        found = honest(self, principal, name)
        if found or name is None:
            return found
        everyone = self._registry.all("SELECT * FROM datasets WHERE name = ?", name)
        return [record_of(row) for row in everyone]

    from sulq.server.services.access import record_of

    monkeypatch.setattr(Access, "datasets", careless)
    found = [send(roles, e, "eve").status for e in TABLE]
    assert found != [e[3][ROLES.index("eve")] for e in TABLE]


def test_everybody_replaces_the_key_they_send(roles):
    """The new one is worth what the old one was, to the day; the old one ends."""
    made = roles.call("POST", "/v1/keys", {"analyst": "bob", "datasets": ["people"], "days": 7,
                                           "label": "laptop"}, "anna").json  # fmt: skip
    new = roles.call(*ROTATING, None, made["key"])
    assert new.status == 201
    assert new.json["expires"] == made["expires"]
    assert roles.call("GET", "/v1/me", None, made["key"]).status == 401
    assert roles.call("GET", "/v1/me", None, new.json["key"]).json["datasets"] == ["people"]
    listed = {k["id"]: k for k in roles.call("GET", "/v1/keys", None, "anna").json["keys"]}
    old, found = listed[made["id"]], listed[new.json["id"]]
    same = ("person", "role", "label", "datasets", "expires")
    assert [old[n] for n in same] == [found[n] for n in same]
    assert old["revoked"]
    assert roles.call(*ROTATING, None, made["key"]).status == 401


@pytest.mark.parametrize("role", ["bob", "eve", "carl", "dan"])
def test_only_the_owner_closes(roles, role):
    """Closing a dataset is for its owner's key."""
    assert roles.call(*CLOSING, None, role).status == (403 if role == "bob" else 404)
    assert roles.call("GET", D, None, "bob").status == 200


def bad_keys(instance):
    """Everything that is no key: whatever is wrong, it looks the same."""
    good = instance.keys["bob"]
    number, secret = good.split("_")[1], good.split("_", 2)[2]
    with instance.services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        expired, revoked = (services.people.new_key(bob) for _ in range(2))
        past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat(timespec="seconds")
        with services.registry.writing() as run:
            run("UPDATE keys SET expires = ? WHERE id = ?", past, expired.id)
        services.people.revoke(bob.tenant, revoked.id)
    return {
        "none": None,
        "empty": "",
        "nonsense": "nonsense",
        "another secret": f"sulq_{number}_{'A' * 43}",
        "another id": f"sulq_{'0' * 16}_{secret}",
        "cut short": good[:-1],
        "too long": good + "A",
        "expired": expired.text,
        "revoked": revoked.text,
        "unicode": "sulq_" + "\u00e9" * 10,
        "a wildcard": f"sulq_{number}_%",
    }


def test_every_bad_key_gets_the_same_401_everywhere(roles):
    """Missing, malformed, unknown, expired, revoked: one reply, at every route, to the byte."""
    replies = set()
    for text in bad_keys(roles).values():
        headers = {} if text is None else {"Authorization": f"Bearer {text}".encode()}
        for method in ("GET", "PATCH", "DELETE"):
            reply = roles.call(method, D, {} if method == "PATCH" else None, None, **headers)
            replies.add((reply.status, reply.body, reply.headers.get("www-authenticate")))
    assert len(replies) == 1
    assert next(iter(replies))[0] == 401
    for entry in TABLE:  # and with no key at all, at every route
        if entry[1] not in OPEN:
            assert send(roles, entry, None).status == 401


@pytest.mark.parametrize("how", ["Basic {}", "bearer  {} x", "{}", "Token {}"])
def test_only_a_bearer_is_a_key(roles, how):
    """A key is taken from an Authorization header of the Bearer scheme only."""
    said = how.format(roles.keys["bob"])
    assert roles.call("GET", D, None, None, Authorization=said).status == 401


def test_two_authorization_headers_are_none(roles):
    """Who reads the first and who reads the last must not differ."""
    import http.client

    host = roles.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=10)
    connection.putrequest("GET", D)
    for key in (roles.keys["eve"], roles.keys["bob"]):
        connection.putheader("Authorization", f"Bearer {key}")
    connection.endheaders()
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.parametrize("who", ["eve", "carl", "dan"])
def test_anothers_dataset_looks_like_a_missing_one(roles, who):
    """Status, headers and bytes are the same but for the name that was asked for."""
    for method, path, body, _ in TABLE:
        if not path.startswith(D):
            continue
        missing = path.replace("people", "nobody")
        there, not_there = (roles.call(method, p, body, who) for p in (path, missing))
        assert there.status == not_there.status == 404
        assert there.body.replace(b"people", b"nobody") == not_there.body
        for reply in (there, not_there):
            for name in ("date", "x-request-id"):
                reply.headers.pop(name, None)
        assert there.headers == not_there.headers


def test_a_name_taken_by_another_tenant_is_free(instance):
    """Names are a tenant's own, so none tells what is in another."""
    made = instance.call("POST", "/v1/analysts", {"name": "dan"}, "anna")
    assert made.status == 201
    assert [
        a["name"] for a in instance.call("GET", "/v1/analysts", None, "carl").json["analysts"]
    ] == ["dan"]


def test_a_key_for_some_datasets_sees_no_others(instance):
    """Scope is part of looking a dataset up: the rest is not there."""
    with instance.services() as services:
        bob = services.people.analyst(services.people.owner("anna").tenant, "bob")
        narrow = services.people.new_key(bob, datasets=["elsewhere"]).text
    assert instance.call("GET", "/v1/datasets", None, narrow).json == {"datasets": []}
    assert instance.ask("secret", narrow).status == 404


def test_revoking_works_at_once_and_for_ones_own_key(instance):
    """A revoked key is refused at its next request."""
    listed = instance.call("GET", "/v1/keys", None, "bob").json["keys"]
    assert [k["person"] for k in listed] == ["bob"]
    assert instance.call("DELETE", f"/v1/keys/{listed[0]['id']}", None, "eve").status == 404
    assert instance.call("DELETE", f"/v1/keys/{listed[0]['id']}", None, "bob").status == 200
    assert instance.call("GET", "/v1/me", None, "bob").status == 401


def test_a_removed_analyst_comes_back_with_what_they_spent(instance):
    """Leaving and returning is no fresh allotment."""
    instance.call("PUT", f"{D}/allotments/bob", {"queries": 1}, "anna")
    assert instance.ask("secret").status == 200
    assert instance.call("DELETE", "/v1/analysts/bob", None, "anna").status == 200
    assert instance.ask("age > 3").status == 401
    instance.call("POST", "/v1/analysts", {"name": "bob"}, "anna")
    instance.call("PUT", f"{D}/analysts/bob", None, "anna")
    instance.keys["bob"] = instance.call("POST", "/v1/keys", {"analyst": "bob"}, "anna").json["key"]
    assert instance.ask("age > 3").error == "BudgetExceeded"
    assert instance.ask("secret").status == 200  # what was paid for stays free


@pytest.mark.parametrize("who", ["anna", "bob"])
def test_a_key_for_some_datasets_lists_itself_alone(roles, who):
    """Whoever holds it hears nothing of what else its person or tenant has."""
    body = {"datasets": ["people"], "label": "scoped"} | ({"analyst": who} if who == "bob" else {})
    key = roles.call("POST", "/v1/keys", body, "anna").json
    listed = roles.call("GET", "/v1/keys", None, key["key"]).json["keys"]
    assert [k["id"] for k in listed] == [key["id"]]
    assert len(roles.call("GET", "/v1/keys", None, who).json["keys"]) > 1
