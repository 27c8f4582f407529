"""sulq.connect: the same calls, prices and kinds of result as embedded, and it survives the way."""

import gzip
import json
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import numpy as np
import pyarrow as pa
import pytest
from attacks.harness import SCHEMA, opened, people
from engines import people_statements
from server.instance import made

import sulq
from sulq import (
    Bins,
    Blocks,
    Leaf,
    Mean,
    NearestCentre,
    Products,
    Query,
    Rows,
    Side,
    Strategy,
    Sums,
    learn,
)
from sulq.values.query import Residual

D = "/v1/datasets/people"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same table twice: behind a server, and embedded under the same promise."""
    instance = made(tmp_path_factory.mktemp("remote") / "instance", queries=100_000)
    local = opened(people(), SCHEMA, queries=100_000, name="people")
    with instance.serving() as served, sulq.connect(served.url, served.keys["bob"], "people") as db:
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
    Query(Strategy("ranges"), by=["region", Bins("age", range(0, 101, 5))]),
    Query(Residual(), by=["region", "city"], where="age > 3", weights=[Fraction(2, 3)]),
    Query(Strategy(matrix=[[1, 2, 0], [0, -3, 1]]), by=Bins("age", [0, 50, 100]), weights=[0.5]),
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
    """Every call gives the same kind of result at the same price as embedded."""
    remote, local, _ = pair
    calls = [
        lambda db: db.count("secret"), lambda db: db.sum("income", "age > 3"),
        lambda db: db.mean("income"), lambda db: db.mean("income", "secret"),
        lambda db: db.mean("income", "region = 'north'"),
        lambda db: db.mean("income", rows=Rows.sample(2, Fraction(1, 3))),
        lambda db: db.histogram("age", 5), lambda db: db.histogram("city"),
        lambda db: db.histogram("age", 4, subtotals=[2]), lambda db: db.ecdf("age"),
        lambda db: db.crosstab(["region", "secret"]),
        lambda db: db.sql("select city, count(*), avg(income) from people group by city"),
        lambda db: db.sql("select median(age) from people"),
        lambda db: db.sql("select percentile_disc(0.9) within group (order by age) from people"),
        lambda db: db.sql("select city, secret, count(*) from people group by cube (city, secret)"),
        lambda db: db.marginals(["city", "secret", "region", "age"], 2)["city", "age"],
        lambda db: db.marginals(["city", "secret"], 1, where="age > 3", budget=2)["secret",],
        lambda db: db.ask([Query(by="city"), Query(by=["secret", "city"]), Query(by="region")])[1],
        lambda db: db.ask([Query(where=f"age > {i}") for i in range(30)])[3],
        lambda db: db.ask([Query(where=f"age > {i}") for i in (2, 3)], share=False)[1],
        lambda db: db.define(old="age > 65", half="income / 2").mean("half", "old"),
        lambda db: db.define(band="floor(age / 25)").histogram("band", where="secret"),
        lambda db: db.define(old="age > 65").sql("select old, count(*) from people group by old"),
    ]  # fmt: skip
    for call in calls:
        there, here = call(remote), call(local)
        assert type(there) is type(here)
        assert there.price == here.price
        if isinstance(there, sulq.Table):
            assert list(there.columns) == list(here.columns)
            assert [there[b] for b in there.by] == [here[b] for b in here.by]


def test_what_is_public_is_the_same(pair):
    """Rows, columns, promise and public sizes are those of an embedded database."""
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
    """The history is one's own; the whole chain is for the owner."""
    remote, _, instance = pair
    remote.count("secret")
    mine = remote.history()
    assert mine
    assert {c.analyst for c in mine} == {"bob"}
    with pytest.raises(sulq.NotPermitted):
        remote.verify()
    owner = sulq.connect(instance.url, instance.keys["anna"], "people")
    assert owner.verify() == len(list(owner.entries()))
    owner.allot("bob", "99999.5")
    assert owner.allotments()["bob"].allotted == 99_999_500_000
    assert remote.budget.total == Fraction(199_999, 2)
    owner.allot("bob", None)
    assert [e.kind for e in owner.decisions()] == ["open", "allot", "allot"]


def test_refusals_arrive_as_the_same_exceptions(pair):
    """A refusal over HTTP raises what the library raises, with its numbers."""
    remote, _, instance = pair
    with pytest.raises(sulq.QueryNotAllowed, match="no_such"):
        remote.count("no_such > 1")
    with pytest.raises(sulq.BudgetExceeded) as caught:
        remote.count("secret", error=1)
    assert caught.value.price > caught.value.remaining > 0
    remote.ask(Query(where="secret"), request_id="one")
    with pytest.raises(sulq.QueryNotAllowed, match="another question"):
        remote.ask(Query(where="not secret"), request_id="one")
    with pytest.raises(sulq.NotFound):
        sulq.connect(instance.url, instance.keys["bob"], "secrets")
    with pytest.raises(sulq.KeyRefused):
        sulq.connect(instance.url, "sulq_0_0", "people")
    with pytest.raises(sulq.Refused):
        remote.as_analyst("anna")


def test_the_only_dataset_need_not_be_named(pair, monkeypatch):
    """A key for one dataset needs no name; a key for none says so."""
    _, _, instance = pair
    monkeypatch.setenv("SULQ_KEY", instance.keys["bob"])
    assert sulq.connect(instance.url).name == "people"
    assert sulq.connect(f"{instance.url}/people").name == "people"
    monkeypatch.delenv("SULQ_KEY")
    with pytest.raises(sulq.KeyRefused, match="SULQ_KEY"):
        sulq.connect(instance.url)
    with pytest.raises(sulq.NotFound, match="0 datasets"):
        sulq.connect(instance.url, instance.keys["eve"])


@pytest.mark.parametrize(
    "url", ["ftp://x", "people", "http://", "http://h/a/b", "http://h/a?b=1", 3]
)
def test_what_is_no_address_is_refused(url):
    """An address that is none is refused before anything is sent."""
    with pytest.raises(sulq.Refused, match="url"):
        sulq.connect(url, "key")


def test_a_key_is_not_sent_in_the_clear_to_another_machine():
    """Without TLS a key stays on this machine."""
    with pytest.raises(sulq.Refused, match="TLS"):
        sulq.connect("http://example.org:8707/people", "sulq_x")


def test_a_server_that_is_away_is_said_so():
    """No reply is an error of its own, which names the address."""
    with pytest.raises(sulq.ServerAway, match=r"no reply from http://127\.0\.0\.1:9"):
        sulq.connect("http://127.0.0.1:9", "key", "people", patience_seconds=0.1)


# ---- on the way -----------------------------------------------------------------------------


@contextmanager
def proxy(instance, spoil):
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
            reply = instance.call(self.command, self.path, body, None, **sent)
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
def test_a_request_lost_on_the_way_is_sent_again_and_paid_once(instance, how):
    """Whether the request or its reply was lost: one charge, one answer, the same id."""
    with proxy(instance, lambda n: how if n in (3, 4) else None) as (url, seen):
        db = sulq.connect(url, instance.keys["bob"], "people")
        answers = [db.count("secret"), db.count("age > 50")]
        spent = db.budget.spent
    asked = [key for path, key in seen if path.endswith("/ask")]
    assert len(asked) == 4
    assert len(set(asked)) == 2
    assert spent == 2
    direct = sulq.connect(instance.url, instance.keys["bob"], "people")
    assert direct.count("secret").exact == answers[0].exact
    assert direct.count("age > 50").exact == answers[1].exact


def test_control_without_a_request_id_a_lost_reply_is_not_one_request(instance):
    """The line does lose replies: a client without patience sees it."""
    with proxy(instance, lambda n: "after" if n >= 2 else None) as (url, _):
        db = sulq.connect(url, instance.keys["bob"], "people", patience_seconds=0.0)
        with pytest.raises(sulq.ServerAway):
            db.count("secret")


def test_another_version_on_the_other_side_is_noticed(pair, monkeypatch):
    """Numbers that do not fit what this program would ask are not laid out wrongly."""
    from sulq.client.wire import Wire

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


@contextmanager
def answering(reply):
    """A server that is none of ours: `reply(handler)` writes to whoever asks."""

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            reply(self)

        def log_message(self, *words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def test_a_reply_without_end_is_cut_off(monkeypatch):
    """A server that never stops sending cannot fill the memory of whoever asks."""
    from sulq.client import wire

    sent = []

    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):  # the other side hangs up
            while len(sent) < 1000:
                handler.wfile.write(b" " * 65_536)
                sent.append(1)

    monkeypatch.setattr(wire, "MAX_REPLY_BYTES", 1_000_000)
    with answering(endless) as url, pytest.raises(sulq.ServerAway, match="not a sulq server's"):
        sulq.connect(url, key="sulq_x", name="people")
    assert len(sent) < 1000


def test_a_compressed_reply_is_not_unpacked():
    """A few bytes that unpack to gigabytes stay a few bytes, and no document."""
    packed = gzip.compress(b'{"name": "people"}')

    def reply(handler):
        asked.append(handler.headers["accept-encoding"])
        handler.send_response(200)
        handler.send_header("content-encoding", "gzip")
        handler.send_header("content-length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    asked = []
    with answering(reply) as url, pytest.raises(sulq.ServerAway, match="not a sulq server's"):
        sulq.connect(url, key="sulq_x", name="people")
    assert asked == ["identity"]


def test_neither_a_redirect_nor_a_proxy_gets_the_key(monkeypatch):
    """A key goes to the address it was given for, whatever a reply or the environment says."""
    seen = []

    def elsewhere(handler):
        seen.append(handler.path)
        handler.send_response(307)
        handler.send_header("location", "/v1/elsewhere")
        handler.send_header("content-length", "0")
        handler.end_headers()

    with answering(elsewhere) as url:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        with pytest.raises(sulq.ServerAway, match="status 307"):
            sulq.connect(url, key="sulq_x", name="people")
    assert seen == ["/v1/datasets/people"]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("..", "/v1/datasets/%2E%2E/budget"), (".", "/v1/datasets/%2E/budget"),
        ("a/b", "/v1/datasets/a%2Fb/budget"), ("a?b#c", "/v1/datasets/a%3Fb%23c/budget"),
        ("%2e%2e", "/v1/datasets/%252e%252e/budget"),
    ],
)  # fmt: skip
def test_a_name_stays_one_part_of_its_path(name, path):
    """No name leads to another route, after the client's own normalising too."""
    from sulq.client.wire import at

    assert httpx.URL("http://h" + at(name, "budget")).raw_path.decode() == path


def test_a_name_longer_than_any_is_not_found(pair):
    """In words, before anything is sent."""
    _, _, instance = pair
    with pytest.raises(sulq.NotFound, match="70,000 characters"):
        sulq.connect(instance.url, instance.keys["bob"], "a" * 70_000)


def test_a_closed_connection_is_refused(pair):
    """After close() nothing travels, and the message says so."""
    _, _, instance = pair
    db = sulq.connect(instance.url, instance.keys["bob"], "people")
    db.close()
    with pytest.raises(sulq.Refused, match="closed"):
        _ = db.budget
    with pytest.raises(sulq.Refused, match="closed"):
        db.count("secret")


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
    """Models spend the same price and find the same line and groups as embedded."""
    terms = {"epsilon": 4.0, "queries": 400}
    local = opened(line(), LINE, **terms)
    with made(tmp_path / "instance", line(), LINE, **terms).serving() as instance:
        remote = sulq.connect(instance.url, instance.keys["bob"], "people")
        found = {}
        for name, db in (("remote", remote), ("local", local)):
            pca = learn.PCA(n_components=1, budget=40).fit(db, columns=["x", "y"])
            assert db.project(pca).count("pc1 > 0").price.micro == 1_000_000
            start = [[0.2, 0.4], [0.9, 0.5]]
            kmeans = learn.KMeans(2, max_iter=3, init=start, budget=60).fit(db, columns=["x", "y"])
            found[name] = (
                db.budget.spent, np.abs(pca.components_[0]), np.sort(kmeans.cluster_centers_[:, 0])
            )  # fmt: skip
            for kind in (learn.AdditiveClassifier, learn.LogisticRegression):
                model = kind(max_iter=1, budget=20).fit(db, columns=["x", "y"], label="g")
                assert model.predict([[0.2, 0.2], [0.8, 0.8]]).tolist() == [True, False]
            for model in (
                learn.RandomTrees(n_estimators=2, budget=10), learn.LinearSVM(budget=10),
            ):  # fmt: skip
                price, before = model.price(db, ["x", "y"], "g").queries, db.budget.spent
                model.fit(db, columns=["x", "y"], label="g")
                assert price - 1 < db.budget.spent - before <= price
            mixture = learn.GaussianMixture(2, max_iter=1, budget=20)
            price, before = mixture.price(db, ["x", "y"]).queries, db.budget.spent
            mixture.fit(db, columns=["x", "y"])
            assert price - 1 < db.budget.spent - before <= price
            groups = learn.SpectralClustering(2, max_iter=2, budget=20)
            price, before = groups.price(db, ["x", "y"]).queries, db.budget.spent
            groups.fit(db, columns=["x", "y"])
            assert price - 1 < db.budget.spent - before <= price
            curve = learn.LocallyWeightedRegression(budget=10)
            price, before = curve.price(db, ["x"], "y").queries, db.budget.spent
            curve.fit(db, columns=["x"], label="y")
            assert db.budget.spent - before == price > 9
            assert curve.predict([[0.25], [0.75]]) == pytest.approx([0.25, 0.75], abs=0.1)
            for pairs in (learn.Synthesizer(budget=10), learn.AssociationRules(budget=10)):
                columns = ["x", "y", "g"] if isinstance(pairs, learn.Synthesizer) else ["g"]
                price, before = pairs.price(db, columns).queries, db.budget.spent
                pairs.fit(db, columns=columns)
                assert db.budget.spent - before == price > 9
    assert found["remote"][0] == found["local"][0]
    for spent, direction, centres in found.values():
        assert spent > 95
        assert direction == pytest.approx([0.7071, 0.7071], abs=0.1)
        assert centres == pytest.approx([0.25, 0.75], abs=0.1)


SERVER = """
import sys
from pathlib import Path
from sulq.server.process import listening, address, serve
from sulq.server.services.settings import Settings
settings = Settings.load(sys.argv[1], port=0, padding=False)
bound = listening(settings)
print(address(settings, bound), flush=True)
serve(settings, bound)
"""


@contextmanager
def in_a_process(instance):
    """The instance served by a process of its own."""
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(instance.folder)], stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        instance.url = child.stdout.readline().strip()
        yield instance
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
    instances = [
        made(tmp_path / str(i), t, s, **terms)
        for i, (t, s) in enumerate(zip(tables, schemas, strict=True))
    ]
    with in_a_process(instances[0]) as one, in_a_process(instances[1]) as two:
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
    _, _, instance = pair
    reply = instance.call("POST", f"{D}/ask", {"query": {"by": "region"}})
    answer = json.loads(reply.body)["answer"]
    assert answer["cells"] == ["north", "south", None]
    assert [float(Fraction(x[0])) for x in answer["exact"]] == [v[0] for v in answer["value"]]


REPLIES = {
    "no JSON": (200, b"<html>"), "a list": (200, b"[]"), "nothing": (200, b""),
    "other names": (200, b'{"rows": 3}'), "no error": (402, b'{"error": {}}'),
    "brackets": (200, b"[" * 100_000), "another place": (302, b""),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_that_no_sulq_server_gives_is_said_to_be_one(name):
    """A wrong address, or one who plays a server: no error of Python's own."""
    status, body = REPLIES[name]

    def reply(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    with answering(reply) as url:
        with pytest.raises(sulq.ServerAway, match="not a sulq server's"):
            sulq.connect(url, key="sulq_x", name="people")
        for key in ("sulq\n", "sulq\u20ac"):
            with pytest.raises(sulq.Refused, match="a character that none has"):
                sulq.connect(url, key=key, name="people")


@pytest.mark.parametrize("url", ["http://[", "http://127.0.0.1:99999", "http://127.0.0.1:x"])
def test_an_address_that_is_none_is_refused(url):
    """In words, before anything is sent."""
    with pytest.raises(sulq.Refused, match="want an address"):
        sulq.connect(url, key="sulq_x", name="people")


def test_what_was_paid_for_is_known_over_http_too(pair):
    """The same estimates, prices and combined answers as in process, and no charge for them."""
    db, _, served = pair
    db.ask(Query(by=("secret", Bins("age", [0, 50, 100]))))
    spent = db.budget
    found = db.estimate(Query(where="secret"))
    assert found.price.micro == 0
    assert found.std > 0
    assert "estimated from stored answers" in found.note
    assert "you already know this: " in str(db.price(Query(where="secret")))
    table = db.sql("select avg(secret) as share from people where age >= 50", free=True)
    assert table["share_low"][0] < table["share_high"][0]
    assert table["share"] == [None]  # too noisy to say
    with pytest.raises(sulq.NotKnown, match="Nothing was charged"):
        db.estimate(Query(where="age > 41 and income < 777"))
    reply = served.call("POST", f"{D}/estimate", {"sql": "select avg(secret) from people"}, "bob")
    assert reply.json["table"]["price_micro"] == 0
    assert db.budget == spent
    combined = db.count("secret and age < 50", combine=True)
    assert combined.std < db.count("secret and age < 50").std


def test_estimates_may_be_of_ones_own_answers_alone(tmp_path):
    """An owner may keep from analysts what others asked."""
    instance = made(tmp_path / "instance")
    with instance.serving(own_estimates=True) as served:
        served.call("POST", f"{D}/ask", {"query": {"by": "secret"}}, "anna")
        told = {"query": {"where": "secret"}}
        assert served.call("POST", f"{D}/estimate", told, "anna").status == 200
        assert served.call("POST", f"{D}/estimate", told, "bob").status == 409


def test_rows_named_by_key_travel(shared):
    """A set of keys in any order is one question over HTTP; a body too large is refused."""
    with sulq.connect(shared.url, key=shared.keys["bob"], name="people") as db:
        named = sulq.Rows.keys(range(0, 200, 2))
        first = db.count("age > 30", rows=named)
        assert db.sizes(named) == [(100,)]
        body = sulq.Query(where="age > 30", rows=named).to_json()
        body["rows"]["named"].reverse()
        again = shared.call("POST", "/v1/datasets/people/ask", {"query": body})
        assert again.json["answer"]["value"] == pytest.approx(first.value)
        with pytest.raises(sulq.errors.LimitReached):
            db.count("age > 30", rows=sulq.Rows.keys(range(10**6)))


def test_people_and_lookups_over_a_server(tmp_path):
    """A view of people and a joined lookup table: the same prices and canonical questions."""
    rows = people_statements.table_of(people_statements.events(3))
    wards = [{"ward": w, "floor": i} for i, w in enumerate("abc")]
    schema = people_statements.SCHEMA | {"lookups": {"wards": {"on": "ward", "rows": wards}}}
    instance = made(tmp_path / "instance", rows, schema, queries=100_000)
    local = opened(rows, schema, queries=100_000, name="people")
    features = {"visits": "count(*)", "highest": "max(wards.floor)"}
    text = (
        "select avg(v) as v from (select person, least(count(*), 9) as v from people join wards "
        "using (ward) where floor > 0 group by person)"
    )
    with instance.serving() as served, sulq.connect(served.url, served.keys["bob"], "people") as db:
        far, near = db.per_person(features), local.per_person(features)
        assert far.rows == near.rows
        sets = Rows.blocks(1, 3), Rows.where("person < 5")
        assert far.sizes(*sets) == near.sizes(*sets)
        assert far.key_counts() == near.key_counts()
        for query in (Query(["visits"]), Query(by="highest"), Query(Mean("visits"))):
            assert far.price(query) == near.price(query)
            assert far.question(query).bundles[0].text == near.question(query).bundles[0].text
        assert far.mean("visits").price == near.mean("visits").price
        assert len(far.histogram("highest")) == len(near.histogram("highest"))
        assert db.price(text) == local.price(text)
        assert db.sql(text).price == local.price(text)
        assert "per_person" in db.history()[-1].query
