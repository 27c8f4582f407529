"""Sources belong to owners: nobody offers, drafts or finds another owner's file."""

import os
import shutil
import sqlite3
from contextlib import closing

import pytest
from attacks.harness import SCHEMA, people
from server.console.page_client import PageClient, plain
from server.instance import PROMISE, made, rows

import sulq

NEW = {"name": "mine", "schema": SCHEMA} | PROMISE
RICH = NEW | {"epsilon": 20.0, "queries": 1}  # a promise that hides next to nothing


def offer(instance, source, who="carl", **more):
    return instance.call("POST", "/v1/datasets", RICH | more | {"source": source}, who)


def draft(instance, source, who="carl"):
    return instance.call("POST", "/v1/draft", {"source": source}, who)


def words(reply, name):
    """What a refusal says, but for the name that was asked for."""
    return reply.status, reply.body.replace(name.encode(), b"?")


@pytest.fixture
def stocked(tmp_path):
    """Two owners. anna's files: one offered, one not yet, one in her folder, one encoded away."""
    instance = made(tmp_path / "instance")
    data = instance.folder / "data"
    rows(data / "later.parquet", people(30, seed=3))
    for name in ("anna", "carl"):
        (data / name).mkdir()
    rows(data / "anna" / "own.parquet", people(31, seed=4))
    rows(data / "carl" / "own.parquet", people(32, seed=5))
    (data / "carl" / "link.parquet").symlink_to(data / "people.parquet")
    os.link(data / "people.parquet", data / "carl" / "hard.parquet")
    shutil.copy(data / "people.parquet", data / "carl" / "copy.parquet")
    with instance.serving() as served:
        yield served


@pytest.mark.parametrize(
    "name", ["people.parquet", "later.parquet", "anna/own.parquet", "./people.parquet",
             "carl/../people.parquet", "carl/link.parquet", "../anna/own.parquet"],
)  # fmt: skip
def test_another_owners_file_looks_like_a_missing_one(stocked, name):
    """Offered or not, by its name, a link or a detour: the words are those for no file at all."""
    nothing = "no-such-file.parquet"
    for ask in (offer, draft):
        assert words(ask(stocked, name), name) == words(ask(stocked, nothing), nothing)
        assert ask(stocked, name).status == 422


@pytest.mark.parametrize("name", ["own.db", "own.sqlite", "own.xlsx"])
def test_what_would_be_read_into_memory_is_refused(stocked, name):
    """A small file of SQLite's or a zip may hold, or make, more than a server has room for."""
    with closing(sqlite3.connect(stocked.folder / "data" / "carl" / name)) as file:
        file.execute("CREATE VIEW people AS SELECT 1 AS id")
        file.commit()
    for ask in (offer, draft):
        refused = ask(stocked, name)
        assert (refused.status, "read into memory" in refused.body.decode()) == (422, True)


@pytest.mark.parametrize("name", ["hard.parquet", "copy.parquet"])
def test_the_same_rows_in_ones_own_folder_are_recognised(stocked, name):
    """A hard link or a copy would have a budget of its own."""
    nothing, name = "no-such-file.parquet", f"carl/{name}"
    assert words(offer(stocked, name), name) == words(offer(stocked, nothing), nothing)


def test_rows_whose_ledger_is_elsewhere_are_recognised(tmp_path):
    """`dataset add --ledger`: its marks lie beside that ledger, not in the server's folder."""
    instance = made(tmp_path / "instance")
    file = rows(tmp_path / "far.parquet", people(40, seed=6))
    ledger = tmp_path / "far.ledger"
    db = sulq.open(file, schema=SCHEMA, ledger=ledger, **PROMISE)
    db.count("secret")
    db.close()
    with instance.services() as services:
        anna = services.people.owner("anna")
        said = {"source": str(file), "schema": SCHEMA, "ledger": str(ledger)} | PROMISE
        services.datasets.create(anna, "far", said)
    (instance.folder / "data" / "carl").mkdir()
    for owner, place in (("carl", "carl/far.parquet"), ("anna", "far.parquet")):
        shutil.copy(file, instance.folder / "data" / place)
        with instance.serving() as served:
            assert offer(served, place, owner).status == (422 if owner == "carl" else 409)


def test_what_is_ones_own_is_listed_drafted_and_offered(stocked):
    """The first owner has what lies in no other owner's folder; the second has a folder."""
    listed = {who: stocked.call("GET", "/v1/sources", None, who).json["files"]
              for who in ("anna", "carl")}  # fmt: skip
    assert listed["anna"] == ["anna/own.parquet", "later.parquet", "people.parquet"]
    assert set(listed["carl"]) == {
        "others.parquet", "carl/own.parquet", "carl/hard.parquet", "carl/copy.parquet"
    }  # fmt: skip
    for name in ("own.parquet", "carl/own.parquet"):
        assert draft(stocked, name).status == 200
    assert offer(stocked, "own.parquet").status == 201
    assert draft(stocked, "later.parquet", "anna").status == 200
    assert draft(stocked, "carl/own.parquet", "anna").status == 422


def test_pages_say_no_more(stocked):
    """The console's first step lists one's own files, and refuses others as missing."""
    carl = PageClient(stocked, "carl")
    assert "later.parquet" not in str(carl.get("/console/new").body)
    assert "carl/own.parquet" in str(carl.get("/console/new").body)
    said = [
        plain(carl.post("/console/new/columns", {"source": name})).replace(name, "?")
        for name in ("later.parquet", "gone1.parquet")
    ]
    assert said[0] == said[1]


def test_an_address_without_a_password_is_the_first_owners(tmp_path):
    """libpq would take the password of whoever runs the server."""
    instance = made(tmp_path / "instance")
    with instance.serving(sources=("data", "postgresql://127.0.0.1:1/")) as served:
        for source in ("postgresql://127.0.0.1:1/x", "postgresql://u@127.0.0.1:1/x"):
            reply = draft(served, source)
            assert reply.status == 422
            assert "a user and a password of yours" in reply.json["error"]["message"]


OWN = "data/carl/own.parquet"


@pytest.mark.parametrize(
    "target", ["data/later.parquet", "data/people.parquet", "data/anna/own.parquet", "server.db"]
)
def test_a_file_that_became_a_link_is_not_refreshed(stocked, target):
    """A refresh reads the file again: what it leads to must still be theirs."""
    assert offer(stocked, "own.parquet").status == 201
    own = stocked.folder / OWN
    own.unlink()
    own.symlink_to(stocked.folder / target)
    reply = stocked.call("POST", "/v1/datasets/mine/refresh", {"reason": "x"}, "carl")
    own.unlink()
    gone = stocked.call("POST", "/v1/datasets/mine/refresh", {"reason": "x"}, "carl")
    assert (reply.status, gone.status) == (422, 409)
    assert "is no file in the server's folders" in reply.json["error"]["message"]
    assert b"people" not in reply.body
    assert stocked.call("GET", "/v1/datasets/mine/ledger", None, "carl").status == 409


def test_ones_own_link_is_refreshed(stocked):
    """A link to another file of the same owner is as good as a file."""
    assert offer(stocked, "own.parquet").status == 201
    own = stocked.folder / OWN
    own.rename(own.with_name("moved.parquet"))
    own.symlink_to(own.with_name("moved.parquet"))
    assert stocked.call("POST", "/v1/datasets/mine/refresh", {"reason": "x"}, "carl").status == 200


def test_a_refresh_onto_another_owners_rows_names_nothing(stocked):
    """A copy of rows that another owner offers: no second budget, and not what theirs is called."""
    assert offer(stocked, "own.parquet").status == 201
    shutil.copy(stocked.folder / "data" / "people.parquet", stocked.folder / OWN)
    reply = stocked.call("POST", "/v1/datasets/mine/refresh", {"reason": "x"}, "carl")
    assert reply.status == 422
    assert "is no file in the server's folders" in reply.json["error"]["message"]
    assert b"people" not in reply.body


@pytest.mark.parametrize("host", ["127.0.0.9%2C", "%2Ftmp%2C", "127.0.0.9", "%5B::1%5D%2C"])
def test_an_address_with_two_hosts_in_it_is_not_opened(tmp_path, host):
    """libpq ends a password at the first @ and splits a host at %2C; urlsplit does neither."""
    instance = made(tmp_path / "instance")
    with instance.serving(sources=["data", "postgresql://127.0.0.1:1/"]):
        source = f"postgresql://u:p@{host}@127.0.0.1:1/base"
        for who in ("anna", "carl"):
            reply = instance.call("POST", "/v1/draft", {"source": source, "table": "t"}, who)
            assert reply.status == 422
            assert "not one that the server may open" in reply.json["error"]["message"]


def test_an_override_that_cannot_be_opened_gives_nothing_up(stocked):
    """A slip in the schema: the ledger stays, and others may go on making datasets."""
    assert offer(stocked, "own.parquet").status == 201
    assert stocked.ask("secret", "carl", "mine").status == 200
    assert stocked.call("DELETE", "/v1/datasets/mine", None, "carl").status == 200
    slip = SCHEMA | {"nonsense": {"type": "boolean"}}
    assert offer(stocked, "own.parquet", schema=slip, override="why").status == 422
    there = [path.name for path in (stocked.folder / "ledgers").iterdir()]
    assert "2.mine.ledger" in there
    assert not any("given-up" in name for name in there)
    assert offer(stocked, "own.parquet", queries=1).json["budget"]["spent_micro"] == 1_000_000
    assert offer(stocked, "anna/own.parquet", "anna").status == 201


def test_a_lost_ledger_of_another_owner_is_not_named(tmp_path):
    """Nothing is made while one is gone; what it is called is for its owner and the operator."""
    instance = made(tmp_path / "instance")
    for name in ("anna", "carl"):
        (instance.folder / "data" / name).mkdir()
        rows(instance.folder / "data" / name / "own.parquet", people(33, seed=len(name)))
    for path in list((instance.folder / "ledgers").rglob("1.people.ledger*")):
        path.unlink()
    with instance.serving():
        stranger, owner = (offer(instance, f"{who}/own.parquet", who) for who in ("carl", "anna"))
    assert (stranger.status, owner.status) == (503, 503)
    assert b"people" not in stranger.body
    assert b"1.people.ledger" in owner.body
