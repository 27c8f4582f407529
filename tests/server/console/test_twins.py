"""Two consoles whose tables differ in one row: every page is the same, to the byte, but for noise.

Keys, ids, times and ports are each server's own. Only where noisy answers are shown are numbers
left out of the comparison; a drawing of such numbers, and what a model makes of them, is noise.
"""

import re

import pytest
from attacks.harness import people, replaced
from server.console.page_client import PageClient
from server.console.test_analyst import paid, sql
from server.instance import made
from server.test_twins import OTHER

D = "/console/datasets/people"
STATEMENTS = [
    "select city, count(*), avg(income) from people group by city",
    "select count(*) from people where secret and city = 'oslo'",
]
REFUSED = ["select * from people", "select no_such_column from people", "select",
           "select count(*) from people where city = 'atlantis'"]  # fmt: skip
EXACT = {
    "bob": ["/console/", D, f"{D}/ask", f"{D}/guided", f"{D}/rehearse", f"{D}/models",
            f"{D}/models/new/PCA", f"{D}/models/new/ID3", "/console/account", f"{D}/owner",
            "/console/nowhere", f"{D}/asked/00000000000000000000000000000000"],
    "anna": ["/console/", D, "/console/plan", "/console/new", "/console/analysts",
             "/console/analysts/bob", "/console/server", f"{D}/owner", f"{D}/owner/close",
             f"{D}/people", f"{D}/timeline", f"{D}/timeline?text=secret", f"{D}/schema",
             f"{D}/report"],
}  # fmt: skip
NOISY = [f"{D}/answers", f"{D}/answers/1", f"{D}/answers/3"]
POSTED = [
    ("bob", f"{D}/preview", [sql(text) for text in STATEMENTS + REFUSED]),
    ("bob", f"{D}/price", [sql(text) for text in STATEMENTS + REFUSED]),
    ("bob", f"{D}/owner/check", [{}]),
    ("anna", "/console/new/columns", [{"source": "people.parquet"}, {"source": "nobody.csv"}]),
    ("anna", f"{D}/schema", [{"columns": "1", "n0": "age", "t0": "integer", "check": "yes"}]),
]
OWN = [
    (rb"http://127\.0\.0\.1:\d+", b"HERE"),
    (rb"\b[0-9a-f]{64}\b|\b[0-9a-f]{32}\b|\b[0-9a-f]{16}\b", b"ID"),
    (rb"sulq_[0-9a-f]{4}\xe2\x80\xa6", b"KEY"),  # how a key begins
    (rb"already know this[^<\"]*", b"KNOWN"),  # from noisy answers
    (rb"about \xc2\xb1 [\d,.]+", b"ABOUT"),  # a rehearsal on made-up rows, with noise of its own
    (rb"\d{4}-\d\d-\d\d( \d\d:\d\d( UTC)?|T\d\d:\d\d:\d\d\+00:00)?", b"TIME"),
]
BELOW = rb"Noise can take a small number below 0\."  # said where a noisy count is
NUMBER = re.compile(rb"-?\d[\d,]*(\.\d+)?(e[-+]?\d+)?")


def seen(reply, noisy=False):
    """What a browser gets, but for what is each server's own."""
    own = ("date", "content-length", "x-request-id")
    headers = {k: v for k, v in reply.headers.items() if k not in own}
    body = reply.body
    for pattern, name in OWN:
        body = re.sub(pattern, name, body)
    if noisy:
        body = re.sub(rb'<p class="meta">%s</p>| %s' % (BELOW, BELOW), b"", body)
        body = re.sub(rb"<svg.*?</svg>", b"PICTURE", body, flags=re.DOTALL)
        body = NUMBER.sub(b"#", re.sub(rb"(too few rows| Too noisy)[^<]*", b"", body))
    headers = {k: re.sub(r"[0-9a-f]{32}", "ID", v) for k, v in headers.items()}
    return reply.status, headers, body


def unordered(found):
    """The same with its lines in any order: in which second a key was made is chance."""
    status, headers, body = found
    return status, headers, sorted(body.splitlines())


def walked(instance):
    """Every page, after the same questions."""
    principals = {who: PageClient(instance, who) for who in EXACT}
    bob, out = principals["bob"], {}
    for text in STATEMENTS:
        out["paid", text] = seen(bob.get(paid(bob, sql(text))), noisy=True)
    for who, paths in EXACT.items():
        for path in paths:
            found = seen(principals[who].get(path))
            dated = any(word in path for word in ("timeline", "report"))
            out[who, path] = unordered(found) if dated else found
    out |= {("noisy", path): seen(bob.get(path), noisy=True) for path in NOISY}
    for who, path, bodies in POSTED:
        for i, fields in enumerate(bodies):
            out[who, path, i] = seen(principals[who].post(path, fields))
    return out


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The pages of one table."""
    with made(tmp_path_factory.mktemp("one") / "instance", queries=1000).serving() as instance:
        return walked(instance)


def walk_of(folder, table):
    with made(folder / "instance", table, queries=1000).serving() as instance:
        return walked(instance)


def test_pages_of_twins_are_the_same(first, tmp_path):
    """Status, headers, every byte. No luck involved."""
    second = walk_of(tmp_path, replaced(people(), 17, **OTHER))
    assert len(first) > 40
    for place, page in first.items():
        assert page == second[place], place
    assert {page[0] for page in first.values()} >= {200, 403, 404, 422}


def test_control_a_page_that_tells_is_caught(first, tmp_path, monkeypatch):
    """The same comparison finds a console that says how many rows have the secret."""
    from sulq.server.api import datasets

    honest = datasets._line
    many = []

    def telling(caller, record):
        return honest(caller, record) | {"description": f"{many[0]} secrets"}

    monkeypatch.setattr(datasets, "_line", telling)
    found = []
    for i, table in enumerate((people(), replaced(people(), 17, **OTHER))):
        many[:] = [sum(table.column("secret").to_pylist())]
        found.append(walk_of(tmp_path / str(i), table))
    different = [place for place in first if found[0][place] != found[1][place]]
    assert ("bob", "/console/") in different
    assert ("anna", "/console/analysts") not in different
