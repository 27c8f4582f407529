"""Two servers with folders of their own, one PostgreSQL ledger: one budget, one answer."""

from concurrent.futures import ThreadPoolExecutor

import postgres
import pytest
from attacks.harness import SCHEMA
from server.instance import PROMISE, Instance, rows

from sulq.server.services.folder import begin

psycopg = postgres.driver()
D = "/v1/datasets/people"
TOTAL = 20


@pytest.fixture
def pair(tmp_path, monkeypatch):
    """Two instances, as on two machines, that offer the same rows under one ledger."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    address, source = postgres.ledger(postgres.own_database()), rows(tmp_path / "people.parquet")
    instances = []
    for i in range(2):
        instance = Instance(tmp_path / str(i))
        instance.keys["anna"] = begin(instance.folder, "anna").text
        said = {"schema": SCHEMA, "source": str(source), "ledger": address}
        with instance.services() as services:
            owner = services.people.owner()
            record = services.datasets.create(owner, "people", said | PROMISE | {"queries": TOTAL})
            bob = services.people.add_analyst(owner.tenant, "bob")
            services.people.invite(record.id, bob)
            instance.keys["bob"] = services.people.new_key(bob).text
        instances.append(instance)
    with instances[0].serving() as one, instances[1].serving() as two:
        yield one, two


def test_two_servers_spend_one_budget(pair):
    """Eight clients ask both at once: T answers in all, and both agree on each."""

    def ask(k):
        found = {}
        for i in range(8):
            where = f"income > {100 * k + i}"
            reply = pair[k % 2].ask(where)
            if reply.status == 200:
                found[where] = reply.json["answer"]["exact"]
            else:
                assert reply.error == "BudgetExceeded"
        return found

    with ThreadPoolExecutor(8) as pool:
        delivered = {w: x for found in pool.map(ask, range(8)) for w, x in found.items()}
    assert len(delivered) == TOTAL
    for where, exact in list(delivered.items())[:6]:
        assert {str(h.ask(where).json["answer"]["exact"]) for h in pair} == {str(exact)}


def test_an_allotment_given_at_one_holds_at_the_other(pair):
    """Two servers on one ledger share allotments."""
    one, two = pair
    one.call("PUT", f"{D}/allotments/bob", {"queries": 2}, "anna")
    assert [two.ask(f"age > {i}").status for i in range(3)] == [200, 200, 402]
    spent = one.call("GET", f"{D}/allotments", None, "anna").json["allotments"]["bob"]
    assert spent["spent_micro"] == 2_000_000
    assert two.call("GET", f"{D}/ledger", None, "anna").status == 200
    assert b"postgresql://" not in two.call("GET", D, None, "anna").body
