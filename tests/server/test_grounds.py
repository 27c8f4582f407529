"""Every right is taken away in every way it can be granted, and what it gave ends at every door.

Grants are walked from the code's own list (`Ground`), ways from the table below, doors one by one:
HTTP, a page of a session, a sign-in link, an open connection of PostgreSQL's protocol, MCP, the
Python client. Each is open before; none may be afterwards.
"""

import contextlib
import itertools
import re
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg
import pytest
from scripted_agent import Agent
from server.console.page_client import PageClient, plain
from server.instance import QUICK, made
from server.pgwire.wired import Wired

import sulq
from sulq.errors import MICRO, KeyRefused, NotPermitted, SulqError
from sulq.server.console.sessions import Sessions
from sulq.server.process import listening_for_postgres, running
from sulq.server.services import people
from sulq.server.services.access import Access
from sulq.server.services.grounds import Ground, Grounds
from sulq.server.services.oidc_settings import OidcSettings
from sulq.server.services.registry_tables import STEPS
from sulq.server.services.settings import Settings

PEOPLE = "/v1/datasets/people"
COUNT = "select count(*) from people where secret"
OIDC = """
[oidc]
issuer = "https://login.example.org"
client_id = "sulq"
owner = "anna"
owners = ["heads"]
analysts = ["analysts", "research"]

[oidc.datasets]
research = ["people"]
"""
numbers = itertools.count()


@contextmanager
def served(folder):
    """The server of a folder, with a port for PostgreSQL's clients."""
    found = Wired(folder)
    said = Settings.load(folder, **QUICK | {"postgres": 0})
    own = listening_for_postgres(said)
    with running(said, own) as found.url:
        found.port = own.getsockname()[1]
        yield found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """anna's folder, where an institution's accounts sign in."""
    instance = made(tmp_path_factory.mktemp("grounds") / "instance", queries=100_000)
    with (instance.folder / "sulq.toml").open("a") as file:
        file.write(OIDC)
    return instance


@pytest.fixture(scope="module")
def server(folder):
    with served(folder.folder) as found:
        found.keys = folder.keys
        with folder.services() as found.local:  # what is done at the server's terminal
            yield found


# ---- what is granted ----------------------------------------------------------------------------


@dataclass
class Right:
    """A key that somebody holds, and what it rests on."""

    server: Wired
    key: str
    person: str
    claims: dict = field(default_factory=dict)  # of the account whose role it rests on
    above: tuple[str, ...] = ()  # the keys that it was made with, the nearest first

    @property
    def id(self):
        return self.key.split("_")[1]


def anna(server):
    return server.local.people.owner("anna")


def an_analyst(server, invited=True):
    person = server.local.people.add_analyst(anna(server).tenant, f"analyst-{next(numbers)}")
    if invited:
        record = server.local.datasets.find(person.tenant, "people")
        server.local.people.invite(record.id, person)
    return person


def signed_in(server, groups):
    name = f"account-{next(numbers)}"
    claims = {"sub": f"subject-{name}", "preferred_username": name, "groups": groups}
    key = server.local.institution.key_for(claims)
    owner = "heads" in groups
    return Right(server, key.text, "anna" if owner else name, claims)


def made_with(server, by, **said):
    """A key that the holder of another made over HTTP, for a new analyst unless `own`."""
    own = said.pop("own", False)
    person = None if own else an_analyst(server).name
    reply = server.call("POST", "/v1/keys", {"analyst": person} | said, by.key)
    assert reply.status == 201, reply.body
    return Right(server, reply.json["key"], person or "anna", by.claims, (by.id, *by.above))


def at_the_terminal(server):
    person = an_analyst(server)
    return Right(server, server.local.people.new_key(person).text, person.name)


def an_owners_key(server):
    return Right(server, server.local.people.new_key(anna(server)).text, "anna")


def rotated(server):
    right = made_with(server, an_owners_key(server))
    reply = server.call("POST", "/v1/keys/rotate", None, right.key)
    return Right(server, reply.json["key"], right.person, above=right.above)


def under_a_rotated_key(server):
    """The key that it was made with was replaced since: it rests on the new one."""
    owner = an_owners_key(server)
    right = made_with(server, owner)
    reply = server.call("POST", "/v1/keys/rotate", None, owner.key)
    return Right(server, right.key, right.person, above=(reply.json["id"],))


@dataclass(frozen=True)
class Granted:
    """How a right is made, what its grounds are, and how it may be taken away."""

    grounds: tuple[Ground, ...]
    make: object
    ways: str


GRANTS = {
    "a key from the terminal": Granted(
        (Ground.TERMINAL, Ground.OWNER), at_the_terminal, "revoked expired removed uninvited"),
    "an owner's key from the terminal": Granted(
        (Ground.TERMINAL,), an_owners_key, "revoked expired"),
    "a key made with a key": Granted(
        (Ground.KEY, Ground.OWNER), lambda s: made_with(s, an_owners_key(s)),
        "revoked expired removed uninvited above-revoked above-expired above-gone"),
    "an owner's key made with a key": Granted(
        (Ground.KEY,), lambda s: made_with(s, an_owners_key(s), own=True),
        "revoked expired above-revoked above-expired above-gone"),
    "a key made with a key made with a key": Granted(
        (Ground.KEY, Ground.KEY),
        lambda s: made_with(s, made_with(s, an_owners_key(s), own=True)),
        "above-revoked above-expired top-revoked top-expired top-gone"),
    "a key in place of another": Granted(
        (Ground.KEY,), rotated, "revoked expired removed above-revoked"),
    "a key made with one that was replaced": Granted(
        (Ground.KEY,), under_a_rotated_key, "above-revoked above-expired"),
    "an analyst's sign-in": Granted(
        (Ground.ROLE, Ground.ROLE), lambda s: signed_in(s, ["research"]),
        "revoked expired removed role-lost role-changed uninvited"),
    "an owner's sign-in": Granted(
        (Ground.ROLE,), lambda s: signed_in(s, ["heads"]),
        "revoked expired role-lost role-changed"),
    "a key that a signed-in owner made": Granted(
        (Ground.ROLE, Ground.KEY, Ground.OWNER), lambda s: made_with(s, signed_in(s, ["heads"])),
        "revoked removed uninvited above-revoked above-expired role-lost role-changed"),
    "an owner's key that a signed-in owner made": Granted(
        (Ground.ROLE, Ground.KEY), lambda s: made_with(s, signed_in(s, ["heads"]), own=True),
        "above-revoked role-lost role-changed"),
}  # fmt: skip


# ---- how it is taken away ---------------------------------------------------------------------


def ask_owner(right, method, path):
    reply = right.server.call(method, path, None, "anna")
    assert reply.status == 200, reply.body


def run_sql(right, sql, *values):
    with right.server.local.registry.writing() as run:
        assert run(sql, *values).rowcount


def lose_role(right, *roles):
    with contextlib.suppress(NotPermitted):
        right.server.local.institution.key_for(right.claims | {"groups": list(roles)})


def expire(right, key):
    run_sql(right, "UPDATE keys SET expires = '2020-01-01T00:00:00+00:00' WHERE id = ?", key)


def go(right, key):
    """Its row is gone, as if an older registry had been restored in part."""
    run_sql(right, "UPDATE keys SET parent = 'gone' || parent WHERE parent = ?", key)


WAYS = {
    "revoked": lambda r: ask_owner(r, "DELETE", f"/v1/keys/{r.id}"),
    "expired": lambda r: expire(r, r.id),
    "removed": lambda r: ask_owner(r, "DELETE", f"/v1/analysts/{r.person}"),
    "uninvited": lambda r: ask_owner(r, "DELETE", f"{PEOPLE}/analysts/{r.person}"),
    "above-revoked": lambda r: ask_owner(r, "DELETE", f"/v1/keys/{r.above[0]}"),
    "above-expired": lambda r: expire(r, r.above[0]),
    "above-gone": lambda r: go(r, r.above[0]),
    "top-revoked": lambda r: ask_owner(r, "DELETE", f"/v1/keys/{r.above[-1]}"),
    "top-expired": lambda r: expire(r, r.above[-1]),
    "top-gone": lambda r: go(r, r.above[-1]),
    "role-lost": lambda r: lose_role(r, "visitors"),
    "role-changed": lambda r: lose_role(r, "analysts" if "heads" in r.claims["groups"] else "x"),
}
LOGGED = {"key-ended", "key-revoked", "analyst-removed", "uninvite"}
CASES = [(grant, way) for grant, granted in GRANTS.items() for way in granted.ways.split()]


# ---- the doors ----------------------------------------------------------------------------------


class Doors:
    """Everything that a key opened: a session, a link, a connection, a client."""

    def __init__(self, right):
        self.server, self.key = right.server, right.key
        self.sessions = Sessions(self.server.local.registry, self.server.local.access)
        self.page = PageClient(self.server)
        self.page.cookie = f"sulq_session={self.sessions.begin(self.key).secret}"
        self.link = self.sessions.link(right.id).rpartition("/")[2]
        self.server.keys[right.id] = self.key
        self.connection = self.server.connect(right.id)
        self.db = sulq.connect(self.server.url, key=self.key, name="people")

    def close(self):
        self.connection.close()

    def http(self):
        return self.server.call("GET", PEOPLE, None, self.key).status == 200

    def session(self):
        return self.page.get("/console/datasets/people").status == 200

    def sign_in_link(self):
        with contextlib.suppress(SulqError):
            principal = self.sessions.enter(self.link).principal
            self.link = self.sessions.link(principal.key).rpartition("/")[2]
            return bool(self.server.local.access.datasets(principal, "people"))
        return False

    def postgres(self):
        with contextlib.suppress(psycopg.Error):
            return bool(self.connection.execute(f"explain {COUNT}").fetchall())
        return False

    def new_postgres(self):
        with contextlib.suppress(psycopg.Error), self.server.connect(self.key.split("_")[1]) as one:
            return bool(one.execute(f"explain {COUNT}").fetchall())
        return False

    def agent(self):
        said = {"name": "schema", "arguments": {"dataset": "people"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": said}
        reply = self.server.call("POST", "/mcp", message, self.key)
        return reply.status == 200 and not reply.json["result"].get("isError")

    def client(self):
        with contextlib.suppress(SulqError):
            return self.db.budget is not None
        return False

    def open(self):
        """The doors that are open."""
        every = (self.http, self.session, self.sign_in_link, self.postgres, self.new_postgres,
                 self.agent, self.client)  # fmt: skip
        return {door.__name__ for door in every if door()}


ALL = {"http", "session", "sign_in_link", "postgres", "new_postgres", "agent", "client"}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_right_gave_ends_with_it(server, way):
    """For every grant that can be taken away so: open before, shut after, logged, listed."""
    for grant, granted in GRANTS.items():
        if way not in granted.ways.split():
            continue
        right = granted.make(server)
        doors = Doors(right)
        try:
            assert doors.open() == ALL, grant
            tenant, log = anna(server).tenant, server.local.log
            before = log.head(tenant)["number"]
            WAYS[way](right)
            assert doors.open() == set(), grant
            kinds = {entry.kind for entry in log.entries(tenant, before)}
            assert kinds & LOGGED or "expired" in way or "gone" in way, grant
        finally:
            doors.close()
        listed = server.call("GET", "/v1/keys", None, "anna").json["keys"]
        (line,) = [k for k in listed if k["id"] == right.id]
        assert line["ground"]
        assert (line["ended"] is None) == (way == "uninvited"), (grant, line)


def test_every_ground_and_every_way_is_walked():
    """A new kind of ground, or a way that nothing above takes, is noticed."""
    assert {ground for g in GRANTS.values() for ground in g.grounds} == set(Ground)
    assert {way for _, way in CASES} == set(WAYS)
    assert len(CASES) >= 40


TABLES = {  # of the registry, that name a key or a person: what a row there gives
    "keys": "a right, walked above", "members": "a right, walked above",
    "sessions": "rests on a key, walked above", "entrances": "rests on a key, walked above",
    "datasets": "an owner's, who is not removed", "alarms": "shown to an owner's key",
    "asked": "shown to whoever may see the dataset", "models": "shown to the same",
    "boards": "shown to the same", "shares": "shown to the same",
    "audit_log": "shown to an owner's key", "identities": "who an account is; its roles decide",
    "webhooks": "an owner's decision, which stays", "outbox": "messages to it",
    "told": "what was said once",
}  # fmt: skip


def test_no_table_of_rights_is_forgotten():
    """A table that refers to keys or people and is not above may hold rights of a new kind."""
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\n\)", "\n".join(STEPS), re.DOTALL)
    found = {n for n, body in tables if re.search(r"REFERENCES (keys|people)", body)}
    assert found == set(TABLES)
    assert len(tables) > len(TABLES)


OLD = {  # a server that copies rights when they are granted, as release 2 did
    "lost": lambda self, chain, now: None,
    "end_lost": lambda self, moment=None: 0,
    "opened": lambda self, person, owner: frozenset({"people"}),
}


@pytest.mark.parametrize("way", ["above-revoked", "role-lost", "role-changed"])
def test_control_rights_that_are_copied_outlive_their_ground(server, monkeypatch, way):
    """The same walk finds that the doors of a server with the old rule stay open."""
    for name, old in OLD.items():
        monkeypatch.setattr(Grounds, name, old)
    for grant, granted in GRANTS.items():
        if way in granted.ways.split():
            right = granted.make(server)
            doors = Doors(right)
            WAYS[way](right)
            assert doors.open() == ALL, grant
            doors.close()
            server.local.people.revoke(anna(server).tenant, right.id)


# ---- settings that change ---------------------------------------------------------------------

CHANGES = {
    "the owners' role": ('owners = ["heads"]', 'owners = ["chiefs"]', {"head", "under"}),
    "the analysts' roles": ('analysts = ["analysts", "research"]', 'analysts = ["x"]', {"rita"}),
    "what a role opens": ('research = ["people"]', 'other = ["people"]', {"rita"}),
    "the issuer": ("login.example.org", "elsewhere.example.org", {"head", "under", "rita"}),
    "whose analysts": ('owner = "anna"', 'owner = "carl"', {"head", "under", "rita"}),
    "no institution": (OIDC, "", {"head", "under", "rita"}),
}


@pytest.fixture(scope="module")
def rights(server):
    """Keys by role, one made with such a key, and one that has nothing to do with them."""
    head = signed_in(server, ["heads"])
    return {"head": head, "under": made_with(server, head), "rita": signed_in(server, ["research"]),
            "apart": made_with(server, an_owners_key(server))}  # fmt: skip


def settings(tmp_path, change):
    """[oidc] after a change, which a server has read from its file."""
    old, new, _ = CHANGES[change]
    assert old in OIDC
    (tmp_path / "sulq.toml").write_text(OIDC.replace(old, new))
    return OidcSettings.load(tmp_path)


@pytest.mark.parametrize("change", CHANGES)
def test_keys_are_worth_what_the_settings_of_now_give(server, rights, tmp_path, change):
    """Keys of a role that is taken no longer end, with what was made with them; others go on."""
    registry = server.local.registry
    access = Access(registry, Grounds(registry, settings(tmp_path, change)))
    found = set()
    for name, right in rights.items():
        try:
            shut = not access.datasets(access.principal(f"Bearer {right.key}"), "people")
        except KeyRefused:
            shut = True
        found |= {name} if shut else set()
    assert found == CHANGES[change][2]


def test_a_server_that_starts_with_other_settings_ends_what_they_no_longer_give(tmp_path):
    """For good and logged: it does not come back with the settings."""
    instance = made(tmp_path / "instance")
    file = instance.folder / "sulq.toml"
    text = file.read_text() + OIDC
    file.write_text(text)
    with instance.services() as local:
        server = Wired(instance.folder, keys=instance.keys)
        server.local = local
        head = signed_in(server, ["heads"])
        assert local.access.principal(f"Bearer {head.key}").is_owner
    file.write_text(text.replace(*CHANGES["the owners' role"][:2]))
    with instance.serving():
        assert instance.call("GET", "/v1/me", None, head.key).status == 401
        log = instance.call("GET", "/v1/audit-log", None, "anna").json["entries"]
    assert [e["body"]["key"] for e in log if e["kind"] == "key-ended"] == [head.id]
    file.write_text(text)
    with instance.services() as local, pytest.raises(KeyRefused, match="ended on 20"):
        local.access.principal(f"Bearer {head.key}")


def test_a_role_that_comes_back_revives_nothing(server):
    """A key whose ground was lost stays ended; the next sign-in makes a new one. It is said why."""
    right = signed_in(server, ["heads"])
    below, page = made_with(server, right), PageClient(server)
    sessions = Sessions(server.local.registry, server.local.access)
    page.cookie = f"sulq_session={sessions.begin(right.key).secret}"
    assert page.get("/console/account").status == 200
    lose_role(right, "visitors")
    there = page.get("/console/account").headers["location"]
    assert "Your session has ended" in plain(page.get(there))
    again = server.local.institution.key_for(right.claims)
    assert server.call("GET", PEOPLE, None, again.text).status == 200
    for ended, words in ((right, "owner role of account-"), (below, "owner role of account-")):
        reply = server.call("GET", PEOPLE, None, ended.key)
        assert reply.status == 401
        said = reply.json["error"]["message"]
        assert words in said
        assert "at the institution ended on 20" in said
        assert "Nothing was charged" in said
        listed = server.call("GET", "/v1/keys", None, "anna").json["keys"]
        (line,) = [k for k in listed if k["id"] == ended.id]
        assert "at the institution ended on 20" in line["ended"]


def test_an_owners_invitation_stands_though_a_role_opens_it_no_longer(server):
    """Each grant ends with its own ground: what an owner decided is the owner's to take back."""
    right = signed_in(server, ["research"])
    ask_owner(right, "PUT", f"{PEOPLE}/analysts/{right.person}")
    lose_role(right, "analysts")
    assert server.call("GET", PEOPLE, None, right.key).status == 200
    ask_owner(right, "DELETE", f"{PEOPLE}/analysts/{right.person}")
    assert server.call("GET", PEOPLE, None, right.key).status == 404


# ---- nobody grants more than they have ----------------------------------------------------------


def test_a_key_lasts_no_longer_than_the_one_it_is_made_with(server):
    """An owner who signed in for eight hours makes no key for ten years."""
    head = signed_in(server, ["heads"])
    listed = {k["id"]: k for k in server.call("GET", "/v1/keys", None, "anna").json["keys"]}
    for right in (made_with(server, head, days=3650), made_with(server, head, own=True, days=3650)):
        last = made_with(server, right, days=9) if right.person == "anna" else right
        found = server.call("GET", "/v1/keys", None, "anna").json["keys"]
        (line,) = [k for k in found if k["id"] == last.id]
        assert line["expires"] == listed[head.id]["expires"]


def test_a_key_with_a_cap_grants_no_more_than_its_cap(server):
    """It raises no cap but of keys made with it, and what those spend is taken from its own."""
    owner = an_owners_key(server)
    put = lambda key, queries, who: server.call(  # noqa: E731
        "PUT", f"/v1/keys/{key}/cap", {"queries": queries}, who
    )
    assert put(owner.id, 3, "anna").status == 200
    other = at_the_terminal(server)
    for key in (owner.id, other.id):
        for queries in (None, 99, 1):
            reply = put(key, queries, owner.key)
            assert (reply.status, reply.error) == (403, "NotPermitted")
    one, two = made_with(server, owner), made_with(server, owner, own=True, cap=99)
    below = made_with(server, two)
    assert put(one.id, 50, owner.key).status == 200  # of its own three
    assert put(two.id, None, owner.key).status == 200
    assert put(two.id, 99, two.key).status == 403
    asked = [server.ask(f"secret and age > {next(numbers)}", r.key).status
             for r in (one, two, below, one, two, below, owner)]  # fmt: skip
    assert asked == [200, 200, 200, 402, 402, 402, 402]
    assert server.local.caps.of(below.id).left == 0
    assert put(owner.id, 4, "anna").status == 200
    assert server.ask(f"secret and age > {next(numbers)}", below.key).status == 200
    kinds = [e.kind for e in server.local.log.all(anna(server).tenant)]
    assert kinds.count("cap") >= 4


def test_a_cap_that_is_lowered_holds_at_every_door(server):
    """Of the key itself or of one it was made with: the next question is refused, uncharged."""
    owner = an_owners_key(server)
    server.local.caps.set(anna(server).tenant, owner.id, 50)
    right = made_with(server, owner)
    doors = Doors(right)
    agent = Agent(lambda message: server.call("POST", "/mcp", message, right.key).json)
    where = lambda: f"age > {next(numbers)} and secret"  # noqa: E731
    sql = lambda: f"select count(*) from people where {where()}"  # noqa: E731
    asks = (
        lambda: server.ask(where(), right.key).status == 200,
        lambda: doors.connection.execute(sql()).fetchall(),
        lambda: doors.db.ask(sulq.Query(where=where())) is not None,
        lambda: not agent.ask(sql()).get("is_error") and "error" not in agent.ask(sql()),
    )
    for ask in asks:
        assert ask()
    cap = server.local.caps.of(right.id)
    server.local.caps.set(anna(server).tenant, owner.id, cap.most - cap.left and
                          str((cap.most - cap.left) / MICRO))  # fmt: skip
    spent = server.spent()
    for ask in asks:
        with contextlib.suppress(SulqError, psycopg.Error):
            assert not ask()
    assert server.spent() == spent
    doors.close()


def test_a_key_for_some_datasets_makes_none_for_others(server):
    """What a key is for is what it and all above it are for, however the rows came to be."""
    owner = an_owners_key(server)
    right = made_with(server, owner)
    run_sql(right, "UPDATE keys SET datasets = '[\"elsewhere\"]' WHERE id = ?", owner.id)
    assert server.call("GET", PEOPLE, None, right.key).status == 404


def test_a_chain_of_keys_has_an_end(server):
    """A key of a key of a key: so deep and no deeper, since each use walks the chain."""
    right, depth = an_owners_key(server), 0
    while True:
        reply = server.call("POST", "/v1/keys", {}, right.key)
        if reply.status != 201:
            break
        right, depth = Right(server, reply.json["key"], "anna"), depth + 1
        assert server.call("GET", "/v1/me", None, right.key).status == 200
    assert depth == 16
    assert "made with a key that was made with a key" in reply.json["error"]["message"]


def test_whoever_replaces_a_stolen_key_first_does_not_keep_it(server):
    """Revoking a key that was replaced ends what took its place."""
    right = at_the_terminal(server)
    reply = server.call("POST", "/v1/keys/rotate", None, right.key).json
    assert server.call("GET", "/v1/me", None, reply["key"]).status == 200
    ask_owner(right, "DELETE", f"/v1/keys/{right.id}")
    assert server.call("GET", "/v1/me", None, reply["key"]).status == 401


def test_a_key_is_replaced_so_often_and_no_more(server, monkeypatch):
    """Each replacement is kept: whoever holds a key cannot fill the registry and its owner's pages.

    Another key of the same person may still be replaced.
    """
    monkeypatch.setattr(people, "MAX_REPLACED", 3)
    right = at_the_terminal(server)
    person = server.local.people.analyst(anna(server).tenant, right.person)
    other = server.local.people.new_key(person, days=7).text
    key, replies = right.key, []
    for _ in range(5):
        replies.append(server.call("POST", "/v1/keys/rotate", None, key))
        key = replies[-1].json.get("key", key)
    assert [reply.status for reply in replies] == [201, 201, 201, 409, 409]
    assert "replaced 3 times" in replies[-1].json["error"]["message"]
    assert server.call("GET", "/v1/me", None, key).status == 200
    assert server.call("POST", "/v1/keys/rotate", None, other).status == 201
