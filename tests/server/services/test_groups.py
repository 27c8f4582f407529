"""Datasets of a server that are about the same people: made, asked, backed up, restored.

No luck is involved.
"""

import shutil

import pytest
from attacks.harness import SCHEMA, people
from server.console.page_client import PageClient, plain
from server.instance import PROMISE, made, rows

import sulq
from sulq.errors import LedgerDamaged, Refused
from sulq.server.services.folder import backup, restore

D = "/v1/datasets"
NEW = {"schema": SCHEMA, "group": "patients"} | PROMISE


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """anna's datasets visits and tests are in a group; carl has a group of the same name."""
    instance = made(tmp_path_factory.mktemp("groups") / "instance")
    (instance.folder / "data" / "carl").mkdir()
    places = {"visits": "visits.parquet", "tests": "tests.parquet", "carls": "carl/carls.parquet"}
    for seed, place in enumerate(places.values()):
        rows(instance.folder / "data" / place, people(30 + seed, seed=20 + seed))
    with instance.serving():
        for name, who in (("visits", "anna"), ("tests", "anna"), ("carls", "carl")):
            body = NEW | {"name": name, "source": places[name]}
            reply = instance.call("POST", D, body, who)
            assert reply.status == 201, reply.body
        instance.call("PUT", f"{D}/visits/analysts/bob", None, "anna")
        yield instance


def test_what_is_spent_on_one_counts_for_the_other_and_for_no_other_tenant(instance):
    """Over HTTP, in the client's budget and promise, and on every page that shows a budget."""
    assert instance.ask("secret", "bob", "visits").status == 200
    left = [instance.call("GET", f"{D}/{n}/budget", None, w).json
            for n, w in (("tests", "anna"), ("visits", "bob"), ("carls", "carl"))]  # fmt: skip
    assert [budget["spent_micro"] for budget in left] == [1_000_000, 1_000_000, 0]
    assert [budget["group"] for budget in left] == ["patients"] * 3
    assert left[0]["elsewhere_micro"] == 1_000_000
    with sulq.connect(instance.url, key=instance.keys["anna"], name="tests") as db:
        assert db.budget.group == "patients"
        assert db.budget.elsewhere == 1
        assert "the group 'patients' together" in str(db.promise)
    anna = PageClient(instance, "anna")
    for page in ("owner", "report"):
        assert "Counted over the group patients" in plain(
            anna.get(f"/console/datasets/tests/{page}")
        )
    bob = PageClient(instance, "bob")
    assert "Counted over the group patients" in plain(bob.get("/console/datasets/visits"))


def test_members_that_do_not_fit_are_refused(instance):
    """Another promise, and a ledger that is given up: neither lets a dataset in or out."""
    rows(instance.folder / "data" / "more.parquet", people(25, seed=40))
    body = NEW | {"name": "more", "source": "more.parquet", "epsilon": 2.0}
    reply = instance.call("POST", D, body, "anna")
    assert (reply.status, reply.error) == (422, "PromiseError"), reply.body
    assert "the group has epsilon=1.0" in reply.json["error"]["message"]
    instance.call("DELETE", f"{D}/tests", None, "anna")
    again = NEW | {"name": "tests", "source": "tests.parquet"}
    left = instance.call("POST", D, again | {"override": "to leave"}, "anna")
    assert "none leaves" in left.json["error"]["message"]
    del again["group"]
    assert instance.call("POST", D, again, "anna").json["promise"]["group"] == "patients"


def test_backup_and_restore_keep_the_group(tmp_path):
    """Copied together they go on together; the group's ledger alone, set back, is noticed."""
    instance = made(tmp_path / "instance")
    for seed, name in enumerate(("visits", "tests")):
        rows(instance.folder / "data" / f"{name}.parquet", people(30 + seed, seed=20 + seed))

    def create(services, name):
        said = NEW | {"source": str(instance.folder / "data" / f"{name}.parquet")}
        return services.datasets.create(services.people.owner("anna"), name, said)

    with instance.services() as services:
        for name in ("visits", "tests"):
            services.datasets.opened(create(services, name)).db.count("secret")
    made_copy = backup(instance.folder, tmp_path / "copy")
    assert any(name.startswith("group.") for name in made_copy["heads"])
    shutil.rmtree(instance.folder / "ledgers")
    restore(tmp_path / "copy", instance.folder, "disk lost")
    with instance.services() as services:
        tenant = services.people.owner("anna").tenant
        db = services.datasets.opened(services.datasets.find(tenant, "tests")).db
        assert (db.group, db.budget.spent) == ("patients", 2)
        db.count("not secret", error=1000)
        db.verify()
    (group,) = (tmp_path / "copy" / "ledgers").glob("group.*.ledger")
    there = instance.folder / "ledgers" / group.name
    for path in there.parent.glob(f"{group.name}*"):
        path.unlink()
    with pytest.raises((LedgerDamaged, Refused)):
        restore(tmp_path / "copy", instance.folder, "set back")
