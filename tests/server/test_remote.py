"""sulq.connect: the same calls, prices and kinds of result as embedded, and it survives the way."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pyarrow as pa
import pytest
from attacks.harness import SCHEMA, opened, people
from server.house import made

import sulq
from sulq import Bins, Blocks, Leaf, Mean, NearestCentre, Products, Query, Rows, Side, Sums, learn

D = "/v1/datasets/people"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same table twice: behind a server, and embedded under the same promise."""
    house = made(tmp_path_factory.mktemp("remote") / "house", queries=100_000)
    local = opened(people(), SCHEMA, queries=100_000, name="people")
    with house.serving() as served, sulq.connect(served.url, served.keys["bob"], "people") as db:
        yield db, local, served


QUESTIONS = [
    Query(),
    Query(where="secret and age > 50"),
    Query(["1", "income"], by=["region", "city"], where="age < 70"),
    Query(["income"], error=5_000_000),
    Query(["income"], weights=[3]),
    Query(Mean("income"), where="secret"),
    Query(Sums(["age", "income"])),
    Query(Products(["age", "income"], mean_weight=0.5), error=Fraction(10**6, 7)),
    Query(by=Bins("age", [0, 30, 60, 100])),
    Query(by=NearestCentre(["age", "income"], [[0.2, 0.2], [0.8, 0.9]])),
    Query(by=Side(["age"], [1.0], -0.5)),
    Query(by=Leaf({"column": "age", "threshold": 40, "below": None, "above": None})),
    Query(by=Blocks(5, 7)),
    Query(rows=Rows.where("region = 'north'")),
    Query(rows=Rows.sample(3, Fraction(1, 2))),
    Query(["income"], rows=Rows.blocks(3, 4)),
]


@pytest.mark.parametrize("query", QUESTIONS, ids=lambda q: str(q.to_json())[:60])
def test_every_query_has_one_price_and_one_form(pair, query):
    """Price, labels, names, errors and shape are those of an embedded database."""
    remote, local, _ = pair
    assert remote.price(query) == local.price(query)
    before = remote.budget.spent
    there, here = remote.ask(query), local.ask(query)
    assert remote.budget.spent - before in (there.price.queries, 0)
    assert [len(row) for row in there.exact] == [len(row) for row in here.exact]
    for name in ("stds", "cells", "names", "axes", "price", "note"):
        assert getattr(there, name) == getattr(here, name)
    assert there.spread(0.95) == here.spread(0.95)
    assert remote.ask(query).exact == there.exact  # the stored answer, exactly


def test_the_front_door_is_the_same(pair):
    remote, local, _ = pair
    calls = [
        lambda db: db.count("secret"), lambda db: db.sum("income", "age > 3"),
        lambda db: db.mean("income"), lambda db: db.mean("income", "secret"),
        lambda db: db.mean("income", "region = 'north'"),
        lambda db: db.mean("income", rows=Rows.sample(2, Fraction(1, 3))),
        lambda db: db.histogram("age", 5), lambda db: db.histogram("city"),
        lambda db: db.crosstab(["region", "secret"]),
        lambda db: db.sql("select city, count(*), avg(income) from people group by city"),
        lambda db: db.sql("select median(age) from people"),
        lambda db: db.ask([Query(where=f"age > {i}") for i in range(30)])[3],
        lambda db: db.ask([Query(where=f"age > {i}") for i in (2, 3)], share=False)[1],
    ]  # fmt: skip
    for call in calls:
        there, here = call(remote), call(local)
        assert type(there) is type(here)
        assert there.price == here.price
        if isinstance(there, sulq.Table):
            assert list(there.columns) == list(here.columns)
            assert [there[b] for b in there.by] == [here[b] for b in here.by]


def test_what_is_public_is_the_same(pair):
    remote, local, _ = pair
    assert (remote.rows, remote.columns, remote.promise, remote.pricing) == (
        local.rows, local.columns, local.promise, local.pricing
    )  # fmt: skip
    sets = [Rows.where("region = 'north'"), Rows.blocks(3, 4)]
    assert remote.sizes(*sets) == local.sizes(*sets)
    assert remote.key_counts() == local.key_counts()
    assert remote.sizes() == []
    assert [c["region"] for c in remote.budget_by_cell()] == ["north", "south", None]
    assert "people" in repr(remote)


def test_an_analyst_sees_own_charges_and_an_owner_the_chain(pair):
    remote, _, house = pair
    remote.count("secret")
    mine = remote.history()
    assert mine
    assert {c.analyst for c in mine} == {"bob"}
    with pytest.raises(sulq.NotPermitted):
        remote.verify()
    owner = sulq.connect(house.url, house.keys["anna"], "people")
    assert owner.verify() == len(list(owner.entries()))
    owner.allot("bob", "99999.5")
    assert owner.allotments()["bob"].allotted == 99_999_500_000
    assert remote.budget.total == Fraction(199_999, 2)
    owner.allot("bob", None)
    assert [e.kind for e in owner.decisions()] == ["open", "allot", "allot"]


def test_refusals_arrive_as_the_same_exceptions(pair):
    remote, _, house = pair
    with pytest.raises(sulq.QueryNotAllowed, match="no_such"):
        remote.count("no_such > 1")
    with pytest.raises(sulq.BudgetExceeded) as caught:
        remote.count("secret", error=1)
    assert caught.value.price > caught.value.remaining > 0
    remote.ask(Query(where="secret"), request_id="one")
    with pytest.raises(sulq.QueryNotAllowed, match="another question"):
        remote.ask(Query(where="not secret"), request_id="one")
    with pytest.raises(sulq.NotFound):
        sulq.connect(house.url, house.keys["bob"], "secrets")
    with pytest.raises(sulq.KeyRefused):
        sulq.connect(house.url, "sulq_0_0", "people")
    with pytest.raises(sulq.Refused):
        remote.as_analyst("anna")


def test_the_only_dataset_need_not_be_named(pair, monkeypatch):
    _, _, house = pair
    monkeypatch.setenv("SULQ_KEY", house.keys["bob"])
    assert sulq.connect(house.url).name == "people"
    assert sulq.connect(f"{house.url}/people").name == "people"
    monkeypatch.delenv("SULQ_KEY")
    with pytest.raises(sulq.KeyRefused, match="SULQ_KEY"):
        sulq.connect(house.url)
    with pytest.raises(sulq.NotFound, match="0 datasets"):
        sulq.connect(house.url, house.keys["eve"])


@pytest.mark.parametrize(
    "url", ["ftp://x", "people", "http://", "http://h/a/b", "http://h/a?b=1", 3]
)
def test_what_is_no_address_is_refused(url):
    with pytest.raises(sulq.Refused, match="url"):
        sulq.connect(url, "key")


def test_a_key_is_not_sent_in_the_clear_to_another_machine():
    with pytest.raises(sulq.Refused, match="TLS"):
        sulq.connect("http://example.org:8707/people", "sulq_x")


def test_a_server_that_is_away_is_said_so():
    with pytest.raises(sulq.ServerAway, match=r"no reply from http://127\.0\.0\.1:9"):
        sulq.connect("http://127.0.0.1:9", "key", "people", patience_seconds=0.1)


# ---- on the way -----------------------------------------------------------------------------


@contextmanager
def proxy(house, spoil):
    """A bad line to the server: spoil(number of the request) says what happens to it."""
    seen = []

    class Line(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do(self):
            size = int(self.headers.get("content-length", 0))
            body = self.rfile.read(size) if size else None
            seen.append((self.path, self.headers.get("idempotency-key")))
            how = spoil(len(seen))
            if how == "before":
                return self.hang_up()
            sent = {k: v for k, v in self.headers.items() if k.lower() != "host"}
            reply = house.call(self.command, self.path, body, None, **sent)
            if how == "after":
                return self.hang_up()
            status = 503 if how == "busy" else reply.status
            data = b"<html>busy</html>" if how == "busy" else reply.body
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
            return None

        def hang_up(self):
            self.close_connection = True
            self.connection.close()

        do_GET = do_POST = do_PUT = do

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Line)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("how", ["before", "after", "busy"])
def test_a_request_lost_on_the_way_is_sent_again_and_paid_once(house, how):
    """Whether the request or its reply was lost: one charge, one answer, the same id."""
    with proxy(house, lambda n: how if n in (3, 4) else None) as (url, seen):
        db = sulq.connect(url, house.keys["bob"], "people")
        answers = [db.count("secret"), db.count("age > 50")]
        spent = db.budget.spent
    asked = [key for path, key in seen if path.endswith("/ask")]
    assert len(asked) == 4
    assert len(set(asked)) == 2
    assert spent == 2
    direct = sulq.connect(house.url, house.keys["bob"], "people")
    assert direct.count("secret").exact == answers[0].exact
    assert direct.count("age > 50").exact == answers[1].exact


def test_control_without_a_request_id_a_lost_reply_is_not_one_request(house):
    """The line does lose replies: a client without patience sees it."""
    with proxy(house, lambda n: "after" if n >= 2 else None) as (url, _):
        db = sulq.connect(url, house.keys["bob"], "people", patience_seconds=0.0)
        with pytest.raises(sulq.ServerAway):
            db.count("secret")


def test_another_version_on_the_other_side_is_noticed(pair, monkeypatch):
    """Numbers that do not fit what this program would ask are not laid out wrongly."""
    from sulq.remote.wire import Wire

    remote, _, _ = pair
    honest = Wire.post

    def other(self, path, body, request_id=None):
        found = honest(self, path, body, request_id)
        if "answer" in found:
            found["answer"]["price_micro"] += 1
        return found

    monkeypatch.setattr(Wire, "post", other)
    with pytest.raises(sulq.SulqError, match="versions"):
        remote.count("age > 12")


# ---- learning and mining --------------------------------------------------------------------


def line(n=20_000, seed=3):
    """Two columns along a line, two groups of points, and a key."""
    rng = np.random.default_rng(seed)
    group = rng.random(n) < 0.5
    x = np.clip(np.where(group, 0.25, 0.75) + rng.normal(0, 0.05, n), 0, 1)
    y = np.clip(x + rng.normal(0, 0.03, n), 0, 1)
    return pa.table({"id": np.arange(n), "x": x, "y": y, "g": group})


LINE = {
    "id": {"key": True},
    "x": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "y": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "g": {"type": "boolean", "nullable": False},
}


def test_learning_runs_through_it_unchanged(tmp_path):
    """PCA and k-means spend the same price and find the same line and groups as embedded."""
    terms = {"epsilon": 4.0, "queries": 200}
    local = opened(line(), LINE, **terms)
    with made(tmp_path / "house", line(), LINE, **terms).serving() as house:
        remote = sulq.connect(house.url, house.keys["bob"], "people")
        found = {}
        for name, db in (("remote", remote), ("local", local)):
            pca = learn.PCA(n_components=1, budget=40).fit(db, columns=["x", "y"])
            assert db.project(pca).count("pc1 > 0").price.micro == 1_000_000
            start = [[0.2, 0.4], [0.9, 0.5]]
            kmeans = learn.KMeans(2, max_iter=3, init=start, budget=60).fit(db, columns=["x", "y"])
            found[name] = (
                db.budget.spent, np.abs(pca.components_[0]), np.sort(kmeans.cluster_centers_[:, 0])
            )  # fmt: skip
    assert found["remote"][0] == found["local"][0]
    for spent, direction, centres in found.values():
        assert spent > 95
        assert direction == pytest.approx([0.7071, 0.7071], abs=0.1)
        assert centres == pytest.approx([0.25, 0.75], abs=0.1)


SERVER = """
import sys
from pathlib import Path
from sulq.server.running import listening, address, serve
from sulq.server.settings import Settings
settings = Settings.load(sys.argv[1], port=0, padding=False)
bound = listening(settings)
print(address(settings, bound), flush=True)
serve(settings, bound)
"""


@contextmanager
def in_a_process(house):
    """The house served by a process of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(house.folder)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        house.url = child.stdout.readline().strip()
        yield house
    finally:
        child.terminate()
        child.wait(30)


def test_vertical_mining_across_two_servers_in_two_processes(tmp_path):
    """Each server has a column of the same people; neither sees the other's."""
    from sulq import vertical

    n, rng = 20_000, np.random.default_rng(5)
    a = rng.random(n) < 0.4
    b = rng.random(n) < np.where(a, 0.7, 0.2)
    terms = {"epsilon": 8.0, "queries": 4}
    tables = [pa.table({"id": np.arange(n), name: bits}) for name, bits in (("a", a), ("b", b))]
    schemas = [{"id": {"key": True}, c: {"type": "boolean", "nullable": False}} for c in "ab"]
    houses = [
        made(tmp_path / str(i), t, s, **terms)
        for i, (t, s) in enumerate(zip(tables, schemas, strict=True))
    ]
    with in_a_process(houses[0]) as one, in_a_process(houses[1]) as two:
        remote = [sulq.connect(h.url, h.keys["bob"], "people") for h in (one, two)]
        there = vertical.implication(remote[0], "a", remote[1], "b")
        spent = [db.budget.spent for db in remote]
    local = [opened(t, s, **terms) for t, s in zip(tables, schemas, strict=True)]
    here = vertical.implication(local[0], "a", local[1], "b")
    assert spent == [db.budget.spent for db in local]
    assert type(there) is type(here)
    true = b[a].mean() - b.mean()
    for found in (there, here):
        assert abs(found.delta.value - true) < 7 * found.delta.std
        assert found.price == there.price


def test_json_of_an_answer_is_enough_for_any_client(pair):
    """What curl gets can be added up without Python: fractions as text."""
    _, _, house = pair
    reply = house.call("POST", f"{D}/ask", {"query": {"by": "region"}})
    answer = json.loads(reply.body)["answer"]
    assert answer["cells"] == ["north", "south", None]
    assert [float(Fraction(x[0])) for x in answer["exact"]] == [v[0] for v in answer["value"]]
