"""Two servers whose tables differ in one row: all that can be seen is the same, but for noise."""

import json
import re

import pytest
from attacks.harness import people, replaced
from server.instance import made

from sulq.engines.duckdb import DuckDBEngine
from sulq.errors import EngineFailed

D = "/v1/datasets/people"
ROW = people().slice(17, 1).to_pylist()[0]
OTHER = {
    "secret": not ROW["secret"], "age": 10**9, "income": float("nan"), "city": "atlantis",
}  # fmt: skip
QUERIES = [
    {"where": "secret"},
    {"where": "city = 'atlantis'"},
    {"where": "city is null"},
    {"by": "city"},
    {"by": ["region", "secret"], "values": ["1", "income"]},
    {"by": {"kind": "bins", "column": "age", "edges": [0, 50, 100]}},
    {"by": {"kind": "blocks", "seed": 3, "count": 4}},
    {"by": {"kind": "nearest", "columns": ["age", "income"], "centres": [[0.1, 0.1], [0.9, 0.9]]}},
    {"values": {"kind": "products", "columns": ["age", "income"]}},
    {"values": {"kind": "mean", "expression": "income / (age - 50)"}},
    {"where": "secret", "rows": {"predicate": "region = 'north'", "kind": "rows"}},
    {"values": ["sqrt(income) + ln(age)"], "error": 100000},
    {"where": "secret", "error": 1},
    {"where": "no_such_column = 1"},
    {"values": ["income"], "weights": ["2", "3"]},
]
STATEMENTS = [
    "select city, count(*), avg(income) from people group by city order by city",
    "select median(age) from people where secret",
    "select * from people",
    "select count(*) from people where city = 'atlantis'",
]
LOOKS = [
    ("GET", "/v1/health", "bob"), ("GET", "/v1/openapi.json", "bob"), ("GET", "/v1/me", "bob"),
    ("GET", "/v1/datasets", "bob"), ("GET", D, "bob"), ("GET", f"{D}/budget", "bob"),
    ("GET", f"{D}/answers", "bob"), ("GET", f"{D}/keys", "bob"), ("GET", D, "anna"),
    ("GET", f"{D}/allotments", "anna"), ("GET", f"{D}/ledger", "anna"),
    ("GET", "/v1/alarms", "anna"), ("GET", "/v1/metrics", "anna"),
]  # fmt: skip
NOISY = {"value", "low", "high", "exact", "rows", "answer", "values", "too_noisy"}
SAID = {"note", "notes"}  # of noisy numbers, and of nothing else
OWN = re.compile(rb'"(time|created|expires|hash|previous|id|key)":\s*"[^"]*"')  # of each server


def masked(value, inside=False):
    """A body without its noisy numbers; everything else as it is."""
    if isinstance(value, dict):
        return {k: masked(v, inside or k in NOISY) for k, v in value.items() if k not in SAID}
    if isinstance(value, list):
        return [masked(v, inside) for v in value]
    exact = isinstance(value, str) and re.fullmatch(r"-?\d+(/\d+)?", value)
    noisy = inside and (exact or value is None or isinstance(value, int | float))
    return "noise" if noisy else value


def seen(reply):
    """What a principal sees of a reply: status, headers, text; noise, times and keys left out."""
    own = ("date", "content-length", "x-request-id")
    headers = {k: v for k, v in reply.headers.items() if k not in own}
    body = OWN.sub(rb'"\1": "own"', reply.body)
    try:
        return reply.status, headers, masked(json.loads(body))
    except ValueError:
        lines = [json.loads(x) for x in body.splitlines() if x.startswith(b"{")]
        for line in lines:  # the owner's ledger: stored answers are noise, and their charges equal
            line["body"].pop("answer", None)
        return reply.status, headers, lines or body


def shown(instance):
    """Every reply to every request, in order."""
    out = []
    for query in QUERIES:
        for path in ("price", "ask", "ask"):
            out.append(seen(instance.call("POST", f"{D}/{path}", {"query": query})))
    out.append(
        seen(instance.call("POST", f"{D}/ask", {"queries": QUERIES[:4]}, Idempotency_Key="b"))
    )
    for text in STATEMENTS:
        out.append(seen(instance.call("POST", f"{D}/sql", {"sql": text})))
    out.append(seen(instance.call("POST", f"{D}/sizes", {"rows": [{"seed": 1, "count": 3}]})))
    out += [seen(instance.call(method, path, None, who)) for method, path, who in LOOKS]
    return out


@pytest.fixture(scope="module")
def twins(tmp_path_factory):
    """Two instances, both served: the second's row 17 is another."""
    folder = tmp_path_factory.mktemp("twins")
    tables = people(), replaced(people(), 17, **OTHER)
    instances = [made(folder / str(i), t, queries=10**6) for i, t in enumerate(tables)]
    with instances[0].serving() as one, instances[1].serving() as two:
        yield one, two


def test_twins_look_the_same_from_outside(twins):
    """Status, headers, text, shape, order, prices, refusals, budget, ledger. No luck involved."""
    one, two = map(shown, twins)
    assert len(one) > 60
    for a, b in zip(one, two, strict=True):
        assert a == b
    statuses = {status for status, _, _ in one}
    assert {200, 402, 422} <= statuses


def test_control_an_engine_that_trips_over_a_row_is_caught(tmp_path, monkeypatch):
    """The same comparison finds a server whose failures depend on a row."""
    honest = DuckDBEngine.sums
    many = sum(people().column("secret").to_pylist())

    def tripping(self, queries):
        found = honest(self, queries)
        if [[many]] in found:
            raise EngineFailed("no sum")
        return found

    monkeypatch.setattr(DuckDBEngine, "sums", tripping)
    tables = people(), replaced(people(), 17, **OTHER)
    seen_of = []
    for i, table in enumerate(tables):
        with made(tmp_path / str(i), table, queries=100).serving() as instance:
            seen_of.append(shown(instance))
    assert seen_of[0] != seen_of[1]
