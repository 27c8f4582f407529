"""A registry as a file and in PostgreSQL: the same answers, races without a second winner, a move.

Several servers share the one in PostgreSQL: what one of them writes the others see at once.
"""

import os
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import postgres
import pytest
from server.api.test_rights import ROLES, TABLE, send
from server.console.page_client import PageClient
from server.instance import Instance, made
from typer.testing import CliRunner

from sulq.cli import app
from sulq.errors import KeyRefused, LedgerDamaged, LimitReached, NotFound, Refused
from sulq.server.console.saved_results import FORGET
from sulq.server.console.sessions import Sessions
from sulq.server.services.access import Access
from sulq.server.services.folder import backup, begin
from sulq.server.services.people import People
from sulq.server.services.registry import FILE, Registry, Taken
from sulq.server.services.registry_move import MOVED, open_registry
from sulq.server.services.shared_rate import SharedRate

psycopg = postgres.driver()


def fresh():
    """The address of a registry that nobody has begun."""
    return postgres.registry()


@pytest.fixture
def address(monkeypatch, tmp_path):
    """A new registry in PostgreSQL, for every folder of this test."""
    found = fresh()
    monkeypatch.setenv("SULQ_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("SULQ_SERVER_REGISTRY", found)
    return found


@pytest.fixture(params=["file", "server"])
def pair(request, tmp_path):
    """One registry opened twice, as by two processes."""
    where = fresh() if request.param == "server" else None
    if where is None:
        Registry.begin(tmp_path).close()
    one, two = (Registry.open(tmp_path, where) for _ in range(2))
    with closing(one), closing(two):
        yield one, two


def at_once(*calls):
    """What each of some calls gave or raised, begun together in threads."""
    start = threading.Barrier(len(calls))

    def run(call):
        start.wait()
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


# ---- one behaviour --------------------------------------------------------------------------


def test_of_many_who_take_a_name_at_once_one_has_it(pair):
    """Eight threads at two registries: one owner, one analyst, one dataset of each name."""
    every = [People(registry) for registry in pair * 4]
    won = at_once(*[lambda p=p: p.add_owner("anna") for p in every])
    assert sum(not isinstance(x, Exception) for x in won) == 1
    assert all(type(x) is Refused for x in won if isinstance(x, Exception))
    tenant = every[0].owner().tenant
    won = at_once(*[lambda p=p: p.add_analyst(tenant, "bob") for p in every])
    assert sum(not isinstance(x, Exception) for x in won) == 1
    assert [a["name"] for a in every[1].analysts(tenant)] == ["bob"]


def test_what_one_writes_the_other_sees_at_once(pair):
    """Keys, invitations, revoked keys and sessions are one for all who share the registry."""
    one, two = pair
    people = People(one)
    anna = people.add_owner("anna")
    bob = people.add_analyst(anna.tenant, "bob")
    key = people.new_key(bob)
    access = Access(two)
    principal = access.principal(f"Bearer {key.text}")
    assert (principal.person, principal.key) == (bob, key.id)
    session = Sessions(one, Access(one)).begin(key.text)
    assert Sessions(two, access).find(session.secret).principal == principal
    people.revoke(anna.tenant, key.id)
    with pytest.raises(KeyRefused):
        access.principal(f"Bearer {key.text}")
    assert Sessions(two, access).find(session.secret) is None
    people.remove_analyst(anna.tenant, "bob")
    with pytest.raises(NotFound):
        People(two).analyst(anna.tenant, "bob")


def test_a_sign_in_link_is_used_once_among_all(pair):
    """Eight who open one link at two servers at once: one is signed in."""
    people = People(pair[0])
    key = people.new_key(people.add_owner("anna"))
    doors = [Sessions(registry, Access(registry)) for registry in pair * 4]
    token = doors[0].link(key.id).rsplit("/", 1)[-1]
    came = at_once(*[lambda d=d: d.enter(token) for d in doors])
    assert sum(not isinstance(x, Exception) for x in came) == 1
    assert {type(x) for x in came if isinstance(x, Exception)} == {NotFound}


def test_a_transaction_that_fails_leaves_nothing(pair):
    """What is refused in the middle is not there, and the next transaction works."""
    one, two = pair

    def write(then):
        with one.writing() as run:
            run("INSERT INTO people (house, name, role, created) VALUES (0, 'x', 'owner', '')")
            then(run)

    def twice(run):
        run("INSERT INTO people (house, name, role, created) VALUES (0, 'x', 'owner', '')")

    def refuse(run):
        raise LimitReached("no")

    for then, error in ((twice, Taken), (refuse, LimitReached)):
        with pytest.raises(error):
            write(then)
    assert People(two).all_owners() == []
    assert People(one).add_owner("x").name == "x"


def test_what_was_kept_last_comes_first_and_the_oldest_is_forgotten(pair):
    """Rows are listed in the order they came, on both."""
    one, two = pair
    person = People(one).add_owner("anna").id
    with one.writing() as run:
        run("INSERT INTO datasets (house, name, description, arguments, state, created) "
            "VALUES (?, 'd', '', '{}', 'open', '')", person)  # fmt: skip
        number = run("SELECT id FROM datasets").fetchone()["id"]
        for name in "cabd":
            run("INSERT INTO asked (id, dataset, person, created, question, answer) "
                "VALUES (?, ?, ?, '', '', '')", name, number, person)  # fmt: skip
        run(FORGET.format("asked"), number, person, 3)
    assert [row["id"] for row in two.own_rows("asked", number, person, 10)] == ["d", "b", "a"]
    assert dict(two.own_row("asked", number, person, "b"))["person"] == person


# ---- limits ---------------------------------------------------------------------------------


def test_limits_are_counted_by_all_servers_together():
    """Eight threads at two servers take a burst of 20: twenty pass, and a wait is named."""
    where = fresh()
    with closing(Registry.begin(None, where)) as one, closing(Registry.begin(None, where)) as two:
        rates = [SharedRate(r.store, "requests", 0.001, 20) for r in (one, two) * 4]

        def take(rate):
            return [at_once(lambda: rate.take(7))[0] for _ in range(5)]

        found = [x for some in at_once(*[lambda r=r: take(r) for r in rates]) for x in some]
        refused = [x for x in found if x is not None]
        assert len(found) - len(refused) == 20
        assert all(isinstance(x, LimitReached) and 0 < x.retry_after <= 1000 for x in refused)
        rates[0].take(8)  # another person
        SharedRate(one.store, "sign-in", 0.001, 20).take(7, 20)  # another kind
        with pytest.raises(LimitReached):
            SharedRate(two.store, "sign-in", 0.001, 20).take(7)


# ---- a whole server on it -------------------------------------------------------------------


def test_the_table_of_rights_is_the_same_on_postgresql(address, tmp_path):
    """Every route and role as in the table; a second folder joins; a session opens both."""
    instance = made(tmp_path / "instance", queries=100_000)
    assert not (instance.folder / FILE).exists()
    with instance.serving():
        made_key = instance.call("POST", "/v1/keys", {"datasets": ["people"]}, "anna")
        instance.keys["scoped"] = made_key.json["key"]
        instance.until_ready()
        for column, role in enumerate(ROLES):
            found = {e[:2]: send(instance, e, role).status for e in TABLE}
            assert found == {e[:2]: e[3][column] for e in TABLE}, role
        second = Instance(tmp_path / "second", keys=instance.keys)
        assert begin(second.folder, "anna") is None  # its owners are there already
        (second.folder / "data").rmdir()
        (second.folder / "data").symlink_to(instance.folder / "data")
        with second.serving():
            mine = instance.ask("age > 4 and secret").json["answer"]
            theirs = second.ask("age > 4 and secret").json["answer"]
            assert theirs["exact"] == mine["exact"]
            page = PageClient(instance, "bob")
            page.instance = second
            assert page.get("/console/").status == 200


@contextmanager
def own_server():
    """A PostgreSQL of this test's own, to be stopped and started."""
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        server = postgres.Server.make(Path(place) / "server")
        server.start()
        try:
            yield server
        finally:
            server.stop()


def test_a_database_that_is_away_is_said_so_and_comes_back(tmp_path, monkeypatch):
    """503 in the one shape while PostgreSQL is down, health answers; then all goes on."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    with own_server() as server:
        monkeypatch.setenv("SULQ_SERVER_REGISTRY", server.url())
        instance = Instance(tmp_path / "instance")
        instance.keys["anna"] = begin(instance.folder, "anna").text
        with instance.serving():
            assert instance.call("GET", "/v1/me", None, "anna").status == 200
            server.stop()
            for _ in range(3):
                reply = instance.call("GET", "/v1/me", None, "anna")
                assert (reply.status, reply.error) == (503, "LimitReached")
                assert reply.headers["retry-after"] == "1"
                assert b"postgres" not in reply.body
            assert instance.call("GET", "/v1/health").status == 200
            server.start()
            again = threading.Event()
            while instance.call("GET", "/v1/me", None, "anna").status != 200:
                assert not again.wait(0.1)


# ---- from the file to the server ------------------------------------------------------------


def test_a_folder_moves_its_registry_once(tmp_path, monkeypatch):
    """Set `registry`, start: people, keys and datasets are there, and the file is put aside."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    instance = made(tmp_path / "instance", queries=50)
    with instance.serving():
        first = instance.ask("secret").json["answer"]["exact"]
        page = PageClient(instance, "bob")
    where = fresh()
    for _ in range(2):
        with instance.serving(registry=where):
            assert instance.ask("secret").json["answer"]["exact"] == first
            page.instance = instance
            assert page.get("/console/").status == 200
            made_again = instance.call("POST", "/v1/analysts", {"name": "bob"}, "anna")
            assert made_again.error == "Refused"
            assert instance.call("GET", "/v1/datasets", None, "carl").json["datasets"]
    assert (instance.folder / MOVED).exists()
    assert not (instance.folder / FILE).exists()
    with instance.serving(registry=where):  # numbers go on behind those that were copied
        assert instance.call("POST", "/v1/analysts", {"name": "new"}, "anna").status == 201


def test_a_move_that_died_before_the_file_was_put_aside_is_recognised(tmp_path):
    """The file once more, as it was: it is put aside; another one is refused."""
    where = fresh()
    begin(tmp_path / "a", "anna")
    begin(tmp_path / "b", "berta")
    open_registry(tmp_path / "a", where).close()
    (tmp_path / "a" / MOVED).rename(tmp_path / "a" / FILE)
    with closing(open_registry(tmp_path / "a", where)) as registry:
        assert len(People(registry).all_owners()) == 1
    assert (tmp_path / "a" / MOVED).exists()
    with pytest.raises(Refused, match="has owners already"):
        open_registry(tmp_path / "b", where)
    assert (tmp_path / "b" / FILE).exists()


def test_ledgers_without_a_registry_are_no_fresh_start(tmp_path):
    """An empty database beside a folder with ledgers: refused."""
    folder = made(tmp_path / "instance", queries=5).folder
    (folder / FILE).unlink()
    with pytest.raises(LedgerDamaged, match="registry is empty"):
        open_registry(folder, fresh())


def test_an_address_that_is_none_is_refused_without_its_password(tmp_path, monkeypatch):
    """A wrong `registry` is said so, and no password with it; nothing is left behind."""
    monkeypatch.setenv("SULQ_SERVER_REGISTRY", "mysql://anna:tresor@db/x")
    with pytest.raises(Refused, match="registry") as error:
        begin(tmp_path / "a", "anna")
    assert "tresor" not in str(error.value)
    monkeypatch.setenv("SULQ_SERVER_REGISTRY", "postgresql://anna:tresor@127.0.0.1:1/x")
    with pytest.raises(Refused, match="cannot be reached") as error:
        begin(tmp_path / "b", "anna")
    assert "tresor" not in str(error.value)
    assert not any((tmp_path / "b").iterdir())


def test_a_closed_dataset_goes_on_with_its_ledger_on_the_server(address, tmp_path):
    """The same rows made again under another name: what was spent stays spent."""
    instance = made(tmp_path / "instance", queries=50)
    with instance.serving():
        instance.ask("secret")
        assert instance.call("DELETE", "/v1/datasets/people", None, "anna").status == 200
    with instance.services() as services:
        from attacks.harness import SCHEMA
        from server.instance import PROMISE

        said = {"source": str(instance.folder / "data/people.parquet"), "schema": SCHEMA} | PROMISE
        anna = services.people.owner("anna")
        record = services.datasets.create(anna, "again", said | {"queries": 50})
        assert services.datasets.opened(record).db.budget.spent == 1
        carl = services.people.owner("carl")
        with pytest.raises(Refused):
            services.datasets.create(carl, "mine", said | {"queries": 50})


def test_control_without_the_lock_two_writers_do_the_same_thing_twice(monkeypatch):
    """The races above are found: without the lock a look before a write is no protection."""
    from sulq.server.services import registry_server

    where = fresh()
    monkeypatch.setattr(registry_server, "WRITING", b"BEGIN")
    with closing(Registry.begin(None, where)) as one, closing(Registry.begin(None, where)) as two:
        looked = threading.Barrier(2)

        def write(registry):
            with registry.writing() as run:
                there = run("SELECT count(*) FROM alarms").fetchone()[0]
                looked.wait(10)
                if not there:
                    run("INSERT INTO moved (digest) VALUES (?)", str(id(registry)))

        at_once(lambda: write(one), lambda: write(two))
        assert one.one("SELECT count(*) FROM moved")[0] == 2


def test_a_backup_says_that_a_registry_elsewhere_is_not_in_it(address, tmp_path):
    """It is PostgreSQL's to copy; the terminal says so, and what there is to do."""
    begin(tmp_path / "instance", "anna")
    found = backup(tmp_path / "instance", tmp_path / "copy")
    assert found["registry"] is False
    assert len(found["elsewhere"]) == 1
    said = CliRunner().invoke(app, ["backup", str(tmp_path / "instance"), str(tmp_path / "again")])
    assert said.exit_code == 0, said.output
    assert "Copied 0 ledgers, not the registry, to" in said.output
    assert not list((tmp_path / "again").glob("server.db*"))
