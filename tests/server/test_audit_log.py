"""Every decision leaves an entry in the audit log, and each entry says by whom for good."""

import re
from contextlib import contextmanager

import pandas as pd
import pyarrow as pa
import pytest
import typer
from server.instance import call, made
from server.issuer import AUDIENCE, issuing, settings_of
from server.test_institution import JWT, Browser, exchanged
from test_append_rows import MONTHS, SCHEMA, rows
from typer.testing import CliRunner

from sulq.cli import app
from sulq.server.api.app import api
from sulq.server.services.audit_log import record, who_of
from sulq.server.services.registry_file import RegistryFile

D = "/v1/datasets/{name}"
ASKED = "a question, which the ledger has, or a look"
OWN = "a person's own answers and models"
# What changes something without being a decision of an owner or of whoever runs the server.
ROUTES_WITHOUT = {
    **dict.fromkeys((("POST", f"{D}/{x}") for x in ("ask", "price", "estimate", "sql", "review",
                                                     "sizes", "check")), ASKED),
    ("POST", "/v1/draft"): ASKED, ("POST", "/v1/check"): ASKED,
}  # fmt: skip
COMMANDS_WITHOUT = {
    "webhook show": ASKED, "dataset list": ASKED, "analyst list": ASKED, "key list": ASKED,
    "audit-log": ASKED, "demo": "a server of its own",
    "serve": "it decides nothing: who asks of it leaves entries",
}  # fmt: skip
DECISIONS = re.compile(
    r"\s*(INSERT INTO|UPDATE|DELETE FROM)\s+(people|keys|datasets|members|webhooks|identities)\b"
)
# Statements on those tables that decide nothing: what was spent, measured, seen, moved, forgotten.
NO_DECISION = re.compile(
    r"SET (spent|pace|seen)|SET arguments = \? WHERE id = \? AND arguments"
    r"|DELETE FROM (keys WHERE person = \? AND label|members WHERE dataset = \? AND \(SELECT)"
)


@pytest.fixture(scope="module")
def issuer():
    with issuing() as found:
        yield found


def periods(*months):
    return pa.Table.from_pandas(pd.concat([rows(m) for m in months]), preserve_index=False)


def prepared(folder, issuer):
    """anna's server with a dataset of periods, an institution, and a place for messages."""
    found = made(folder, periods(MONTHS[0]), SCHEMA, queries=100)
    settings = (found.folder / "sulq.toml").read_text()
    hooks = 'webhook_hosts = ["127.0.0.1"]\nwebhook_secret = "a secret for the tests only"\n'
    (found.folder / "sulq.toml").write_text(settings + hooks + settings_of(issuer))
    rows(MONTHS[1]).to_parquet(found.folder / "data" / "feb.parquet")
    rows(MONTHS[2]).to_parquet(found.folder / "data" / "march.parquet")
    more = rows(MONTHS[0]).assign(extra=1.0)  # other rows than those of `people`
    more.to_parquet(found.folder / "data" / "more.parquet")
    return found


def made_of(source, **said):
    return {"source": source, "schema": SCHEMA, "epsilon": 1.0, "queries": 9} | said


def routes(key, token, instance):
    """Every decision over HTTP: the route, how it is asked, the kind of entry it leaves."""
    people, new = "/v1/datasets/people", made_of("more.parquet", name="more")
    yield "POST", "/v1/datasets", "/v1/datasets", new, "dataset"
    yield "PATCH", D, people, {"description": "Words."}, "describe"
    yield "PATCH", D, people, {"programs": True}, "programs"
    yield "PATCH", D, people, {"state": "frozen"}, "freeze"
    yield "PATCH", D, people, {"state": "open"}, "thaw"
    yield "POST", f"{D}/refresh", f"{people}/refresh", {"reason": "as agreed"}, "refresh"
    february = {"reason": "rows", "rows": "feb.parquet"}
    yield "POST", f"{D}/append", f"{people}/append", february, "append"
    at = f"{D}/allotments/{{analyst}}"
    yield "PUT", at, f"{people}/allotments/bob", {"queries": 5}, "allot"
    yield "PUT", f"{D}/analysts/{{analyst}}", f"{people}/analysts/eve", None, "invite"
    yield "DELETE", f"{D}/analysts/{{analyst}}", f"{people}/analysts/eve", None, "uninvite"
    yield "PUT", "/v1/files/{file}", "/v1/files/sent.csv", b"a,b\n1,2\n", "file"
    yield "DELETE", "/v1/files/{file}", "/v1/files/sent.csv", None, "file-removed"
    yield "POST", "/v1/analysts", "/v1/analysts", {"name": "zoe"}, "analyst"
    yield "DELETE", "/v1/analysts/{analyst}", "/v1/analysts/zoe", None, "analyst-removed"
    yield "POST", "/v1/keys", "/v1/keys", {"analyst": "bob", "cap": 3}, "key"
    yield "PUT", "/v1/keys/{key}/cap", f"/v1/keys/{key}/cap", {"queries": 5}, "cap"
    yield "DELETE", "/v1/keys/{key}", f"/v1/keys/{key}", None, "key-revoked"
    hook = {"url": "http://127.0.0.1:9/hook"}
    yield "PUT", "/v1/webhook", "/v1/webhook", hook, "webhook"
    yield "POST", "/v1/webhook/test", "/v1/webhook/test", None, "webhook-test"
    yield "DELETE", "/v1/webhook", "/v1/webhook", None, "webhook-removed"
    said = {"grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": token, "subject_token_type": JWT}  # fmt: skip
    yield "POST", "/v1/token", "/v1/token", said, "key"
    yield "POST", "/v1/alarms/seen", "/v1/alarms/seen", None, "alarms-seen"
    yield "POST", "/v1/keys/rotate", "/v1/keys/rotate", None, "key-replaced"
    yield "DELETE", D, "/v1/datasets/more", None, "close"


def commands(folder, key):
    """Every decision of a command: its words, the kind of entry it leaves."""
    data = str(folder / "data" / "march.parquet")
    yield ["allot", "people", "bob", "7"], "allot"
    yield ["alarms", "--seen"], "alarms-seen"
    yield ["dataset", "freeze", "people"], "freeze"
    yield ["dataset", "thaw", "people"], "thaw"
    yield ["dataset", "programs", "people", "--fuel", "900"], "programs"
    yield ["dataset", "append", "people", data], "append"
    yield ["dataset", "refresh", "people", "--reason", "as agreed"], "refresh"
    yield ["analyst", "add", "yan"], "analyst"
    yield ["analyst", "invite", "yan", "people"], "invite"
    yield ["analyst", "uninvite", "yan", "people"], "uninvite"
    yield ["analyst", "link", "yan", "248289761001"], "linked"
    yield ["analyst", "remove", "yan"], "analyst-removed"
    yield ["key", "new", "bob"], "key"
    yield ["key", "cap", key, "3"], "cap"
    yield ["key", "revoke", key], "key-revoked"
    yield ["webhook", "set", "http://127.0.0.1:9/hook"], "webhook"
    yield ["webhook", "test"], "webhook-test"
    yield ["webhook", "remove"], "webhook-removed"
    yield ["dataset", "close", "people", "--yes"], "close"
    more = folder / "data" / "more.parquet"
    more.with_suffix(".toml").write_text(TOML)
    yield ["dataset", "add", str(more), "--name", "again"], "dataset"


TOML = """\
[columns]
sick = { type = "boolean" }
"""


def log_of(instance, kind=None):
    found = instance.call("GET", "/v1/audit-log", None, "anna").json["entries"]
    return [e for e in found if kind in (None, e["kind"])]


@contextmanager
def watched(monkeypatch):
    """Decisions that were written in a transaction without an entry beside them."""
    bare, honest = [], RegistryFile.writing

    @contextmanager
    def writing(self):
        said = []
        with honest(self) as run:

            def noted(sql, *values):
                found = run(sql, *values)
                if found.rowcount != 0:
                    said.append(sql)
                return found

            yield noted
        decided = [s for s in said if DECISIONS.match(s) and not NO_DECISION.search(s)]
        if decided and not any("INTO audit_log" in s for s in said):
            bare.extend(decided)

    monkeypatch.setattr(RegistryFile, "writing", writing)
    yield bare


def alarmed(instance):
    with instance.services() as services:
        from sulq.server.services.registry import alarm

        with services.registry.writing() as run:
            alarm(run, services.people.owner("anna").tenant, None, "slow", "Look at this.")


def test_every_route_that_decides_leaves_an_entry_by_whoever_asked(tmp_path, issuer, monkeypatch):
    """All of them, read off the API's own description; a new one without an entry is noticed."""
    found = prepared(tmp_path / "i", issuer)
    alarmed(found)
    tried = set()
    with found.serving() as instance, watched(monkeypatch) as bare:
        key = instance.call("POST", "/v1/keys", {"analyst": "bob"}, "anna").json["id"]
        for method, route, path, body, kind in routes(key, issuer.token(aud=AUDIENCE), instance):
            before, anna = len(log_of(instance)), instance.keys["anna"]
            found = instance.call(method, path, body, None if route == "/v1/token" else "anna")
            assert found.status in (200, 201), (method, path, found.body)
            if route == "/v1/keys/rotate":
                instance.keys["anna"] = found.json["key"]
            new = log_of(instance)[before:]
            assert kind in [e["kind"] for e in new], (method, route)
            (entry,) = [e for e in new if e["kind"] == kind]
            owner = route != "/v1/token"
            assert entry["body"]["by_id"] == (
                "owner:1" if owner else f"account:subject-1 {issuer.url}"
            )
            if owner:
                assert entry["body"]["with"] == anna.split("_")[1]
            tried.add((method, route))
    listed = {
        (method.upper(), path)
        for path, methods in api().openapi()["paths"].items()
        for method in methods
    }
    assert {r for r in listed if r[0] != "GET"} == tried | set(ROUTES_WITHOUT)
    assert bare == []


def leaves(command, before=""):
    """The names of all commands below one."""
    for name, found in getattr(command, "commands", {}).items():
        yield from leaves(found, f"{before}{name} ")
    if not hasattr(command, "commands"):
        yield before.strip(), {p.name for p in command.params}


def test_every_command_that_decides_leaves_an_entry_by_the_terminal(tmp_path, issuer, monkeypatch):
    """All that work on a server's folder, read off the commands themselves."""
    found = prepared(tmp_path / "i", issuer)
    alarmed(found)
    at = ["--dir", str(found.folder), "--owner", "anna"]
    run, tried = CliRunner().invoke, set()
    with found.services() as services:
        key = services.people.new_key(services.people.analyst(1, "bob")).id

    def log():
        with found.services() as services:
            return [link.shown() for link in services.log.all(1)]

    with watched(monkeypatch) as bare:
        for words, kind in commands(found.folder, key):
            before = len(log())
            done = run(app, [*words, *at])
            assert done.exit_code == 0, (words, done.output)
            (entry,) = [e for e in log()[before:] if e["kind"] == kind]
            assert entry["body"]["by_id"].startswith("terminal:"), words
            tried.add(" ".join(words[:2]) if words[0] in ("dataset", "analyst", "key", "webhook")
                      else words[0])  # fmt: skip
        copy = tmp_path / "copy"
        for words, kind in (
            (["backup", str(found.folder), str(copy)], "backup"),
            (["owner", "add", "xenia", "--dir", str(found.folder)], None),
            (["clock", "--accept", "--reason", "why", *at], "clock"),
        ):
            assert run(app, words).exit_code == 0
            assert kind in (None, log()[-1]["kind"])
            tried.add(" ".join(words[:2]) if words[0] == "owner" else words[0])
        (found.folder / "server.db").unlink()
        why = ["--reason", "disk replaced"]
        put_back = run(app, ["restore", str(copy), str(found.folder), *why])
        assert put_back.exit_code == 0, put_back.output
        assert (log()[-1]["kind"], log()[-1]["body"]["reason"]) == ("restore", "disk replaced")
        tried.add("restore")
        assert bare == []
    local = {"append", "refresh", "resume", "override"}  # in the ledger itself
    servers = {
        name
        for name, options in leaves(typer.main.get_command(app))
        if "folder" in options and name not in local | {"mcp"}
    }
    assert servers == tried | set(COMMANDS_WITHOUT), servers ^ (tried | set(COMMANDS_WITHOUT))


def test_control_a_decision_without_an_entry_is_noticed(tmp_path, monkeypatch):
    """The same watch hears of a service that forgets the entry."""
    found = made(tmp_path / "i")
    with found.services() as services, watched(monkeypatch) as bare:
        with services.registry.writing() as run:
            run("UPDATE datasets SET description = ? WHERE id = 1", "Others.")
        assert len(bare) == 1
        with services.registry.writing() as run:
            run("UPDATE datasets SET description = ? WHERE id = 1", "Ours.")
            record(run, 1, "describe", dataset="people")
        assert len(bare) == 1


# ---- by whom ----------------------------------------------------------------------------------


def test_accounts_of_an_institution_are_told_apart_whatever_they_are_called(tmp_path, issuer):
    """Two heads of one name are one owner here, and two in the log, in all that they decide."""
    found = prepared(tmp_path / "i", issuer)
    with found.serving() as instance:
        for subject in ("head-1", "head-2"):
            issuer.person = {"sub": subject, "preferred_username": "Hanna", "groups": ["heads"]}
            token = issuer.token(aud=AUDIENCE)
            key = exchanged(instance, token).json["access_token"]
            body = {"description": f"By {subject}."}
            call(instance.url, "PATCH", "/v1/datasets/people", body, key)
            call(instance.url, "POST", "/v1/keys/rotate", None, key)
        for kind in ("describe", "key-replaced"):
            entries = [e["body"] for e in log_of(instance, kind)]
            assert [e["by"] for e in entries] == ["Hanna", "Hanna"]
            assert [e["by_id"].split()[0] for e in entries] == ["account:head-1", "account:head-2"]
            assert {e["as"] for e in entries} == {"owner:1"}


@pytest.mark.parametrize(
    "claimed", ["the server's terminal", "", None, 7, ["x"], "\x1b]0;x\x07\u202e", "a" * 10_000]
)
def test_no_account_passes_for_the_terminal(tmp_path_factory, issuer, claimed):
    """Whatever an account is called, also nothing at all: its entries carry its own id."""
    found = prepared(tmp_path_factory.mktemp("named") / "i", issuer)
    with found.serving() as instance:
        issuer.person = {"sub": "head-1", "preferred_username": claimed, "groups": ["heads"]}
        browser = Browser(instance)
        browser.sign_in(issuer)
        issuer.person |= {"groups": ["visitors"], "sub": "head-3"}
        Browser(instance).sign_in(issuer)
        entries = log_of(instance)[-3:]
        assert [e["kind"] for e in entries] == ["key", "sign-in", "sign-in-refused"]
        for entry, subject in zip(entries, ("head-1", "head-1", "head-3"), strict=True):
            id, name = who_of(entry)
            assert id == f"account:{subject} {issuer.url}"
            assert 0 < len(name) <= 100
            assert name.isprintable()


def test_an_owner_and_an_analyst_of_one_name_are_two(tmp_path):
    """anna the analyst is not anna the owner."""
    with made(tmp_path / "i").serving() as instance:
        instance.call("POST", "/v1/analysts", {"name": "anna"}, "anna")
        body = {"analyst": "anna"}
        other = instance.call("POST", "/v1/keys", body, "anna").json["key"]
        call(instance.url, "POST", "/v1/keys/rotate", None, other)
        owners, others = log_of(instance, "key")[-1], log_of(instance, "key-replaced")[-1]
        assert (owners["body"]["by"], others["body"]["by"]) == ("anna", "anna")
        assert (owners["body"]["by_id"], others["body"]["by_id"]) == ("owner:1", "analyst:6")
        assert owners["body"]["about_id"] == "analyst:6"


def test_what_nobody_asked_for_is_the_servers_own(tmp_path):
    """A freeze after late rows is not whoever's question was late."""
    with made(tmp_path / "i").services(most_late=1) as services:
        found = services.datasets.find(1, "people")
        services.datasets.note_late(found, services.datasets.opened(found).db.schema)
        entry = list(services.log.all(1))[-1].shown()
        assert entry["kind"] == "freeze"
        assert entry["body"]["by_id"] == "server"
