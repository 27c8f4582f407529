"""Every door leads through the one answering path: what it does not charge is not answered."""

import pytest
from attacks.harness import SCHEMA, opened, people
from server.console.page_client import PageClient, plain
from server.console.test_analyst import D as PAGES
from server.console.test_analyst import priced, sql
from server.instance import made

import sulq
from sulq import Query, vertical
from sulq.learn import KMeans
from sulq.pipeline import Order, Pipeline

PEOPLE = "/v1/datasets/people"


def audited():
    schema = {n: SCHEMA[n] for n in ("id", "region", "secret")}
    return opened(
        people(), schema, mode="audited", independent_rows=True, priors={"secret": 0.5}, queries=9
    )


DOORS = {
    "library": lambda db: db.count("secret"),
    "list": lambda db: db.ask([Query(where="secret"), Query(["income"])]),
    "sql": lambda db: db.sql("select avg(income) from frame"),
    "analyst": lambda db: db.as_analyst("bob").histogram("city"),
    "late": lambda db: db.answer_with_noise_alone(Order(db.question(Query(where="secret")))),
    "learner": lambda db: KMeans(2, max_iter=1).fit(db, ["income", "age"]),
    "mining": lambda db: vertical.implication(
        db, "secret", opened(people(seed=9), SCHEMA, queries=20), "age > 30"
    ),
    "auditor": lambda db: audited().count("secret"),
}
REQUESTS = {
    "http": lambda instance: instance.ask("secret").json["error"]["message"],
    "http, by sql": lambda instance: instance.call(
        "POST", f"{PEOPLE}/sql", {"sql": "select avg(income) from people"}
    ).json["error"]["message"],
    "console": lambda instance: paid_on_a_page(PageClient(instance, "bob")),
    "client": lambda instance: said_by(
        lambda: sulq.connect(instance.url, instance.keys["bob"], "people").count("secret")
    ),
}


def paid_on_a_page(bob):
    form = priced(bob, sql("select count(*) from people where secret"))
    return plain(bob.post(f"{PAGES}/pay", form))


def said_by(work):
    with pytest.raises(sulq.SulqError) as caught:
        work()
    return str(caught.value)


@pytest.fixture
def closed(monkeypatch):
    """The one place that charges refuses; rows that are read all the same are counted."""

    def refuse(self, cases, found):
        for case in cases:
            case.error = sulq.Refused("the till is closed. Nothing was charged.")

    monkeypatch.setattr(Pipeline, "_charge", refuse)


@pytest.mark.parametrize("door", DOORS)
def test_every_door_pays_in_the_pipeline(door, closed):
    """With the one charge refused nothing is answered, and no private row is read."""
    db = opened(people(), SCHEMA, queries=20)
    if door != "mining":  # which counts the people of each table first: public, so free
        db._pipeline.engine.sums = None  # a scan would fail in other words
    assert "the till is closed" in said_by(lambda: DOORS[door](db))
    assert db.history() == []


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("door", REQUESTS)
def test_every_door_of_a_server_pays_in_the_pipeline(door, padding, closed, tmp_path):
    """The same over HTTP, on pages and from a client, with deadlines and without."""
    instance = made(tmp_path / "instance")
    terms = {"padding": True, "deadline_seconds": 0.5} if padding else {}
    with instance.serving(**terms) as served:
        assert "till is closed" in REQUESTS[door](served)
        budget = served.call("GET", f"{PEOPLE}/budget", None, "bob").json
    assert budget["spent_micro"] == 0


@pytest.mark.parametrize("door", DOORS)
def test_control_every_door_is_answered_when_it_pays(door):
    """The same questions, with the charge in place."""
    db = opened(people(), SCHEMA, queries=20)
    assert DOORS[door](db) is not None
