"""Ledgers and a server's folder that the version before wrote: they open, verify and go on.

tests/fixtures/part1.zip was written by make_older_folder.py with the source of commit 4485a66,
whose ledgers found charges neither by analyst nor by time and kept expressions as text. No luck
is involved.
"""

import json
import shutil
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path

import postgres
import pytest
from audit.harness import audited
from engines.test_contract import ONE_ROW, _cases
from ledger.older_calls import (
    ASKED,
    JUDGED,
    LEARNED,
    SCHEMA,
    TERMS,
    VERDICTS,
    plain,
    verdict,
    without_budget,
)  # fmt: skip
from server.instance import Instance
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

import sulq
from sulq.expressions.node import tree_of
from sulq.expressions.parse import parse
from sulq.expressions.stored_tree import dumps
from sulq.ledger import Ledger, Request, migrate
from sulq.ledger.older_text import _tree, question_of
from sulq.report import report

FIXTURE = Path(__file__).parents[1] / "fixtures" / "part1.zip"
AFTER = "after the stop"


@pytest.fixture
def older(tmp_path):
    """The folder as it was left, and what was answered then."""
    with zipfile.ZipFile(FIXTURE) as archive:
        archive.extractall(tmp_path)
    return tmp_path, json.loads((tmp_path / "asked.json").read_text(encoding="utf-8"))


# What is measured otherwise now, with less error for the price: asked again, it is a new question.
ANEW = {"shared", "sql parts"}


def opened(folder):
    return sulq.open(folder / "people.csv", SCHEMA, ledger=folder / "people.ledger", **TERMS)


def raw(path, statement="SELECT number, kind, body, previous, hash FROM entries ORDER BY number"):
    """Rows of a ledger's file, as they lie there."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute(statement).fetchall()


def told(ledger):
    """What the owner reads of it; what cannot be said in units in one version may be in another."""
    found = json.loads(json.dumps(report(ledger, answers=True)))
    for charge in found["charges"]:
        del charge["query"]
    return found


# ---- a ledger -------------------------------------------------------------------------------


def test_an_older_ledger_opens_with_its_bytes_and_tells_the_same(older):
    """The chain keeps every byte; questions, prices, times, analysts and answers stay."""
    folder, asked = older
    before, said = raw(folder / "people.ledger"), asked["noisy"]["told"]
    with opened(folder) as db:
        assert db._ledger.verify() == len(before)
        found = told(db._ledger)
    assert raw(folder / "people.ledger") == before
    assert raw(folder / "people.ledger", "SELECT version FROM layout") == [(4,)]
    for charge in said["charges"]:
        del charge["query"]
        charge["question"] = charge["question"].replace("null:number", "null")
    assert found["charges"] == said["charges"]
    assert (found["events"], found["budget"]) == (said["events"], said["budget"])
    assert {k: found["chain"][k] for k in said["chain"]} == said["chain"]
    assert found["answers"].keys() == said["answers"].keys()
    shown = {number: answer for number, answer in said["answers"].items() if answer is not None}
    assert {number: found["answers"][number] for number in shown} == shown


def test_what_an_older_ledger_answered_stays_free(older):
    """Every question of every kind is found again, with its answer, under the JSON it has now."""
    folder, asked = older
    with opened(folder) as db:
        spent = db.budget.spent
        for name, call in {**ASKED, **LEARNED}.items():
            if name not in ANEW:
                assert without_budget(plain(call(db))) == without_budget(asked["noisy"][name]), name
            assert db.budget.spent == spent, name
        again = plain(db.count("smoker and age > 91"))
        assert without_budget(again) == without_budget(asked["noisy"][AFTER])
        assert db.budget.spent == spent


def test_an_older_ledger_goes_on_spending(older):
    """A new question is paid once, in the same chain, and found by whoever opens it next."""
    folder, _ = older
    with opened(folder) as db:
        spent, entries = db.budget.spent, db._ledger.verify()
        first = db.count("smoker and age > 17")
        assert db.budget.spent == spent + 1
        assert db._ledger.allotment("bob").allotted == 1_500_000_000
    with opened(folder) as db:
        assert db.count("smoker and age > 17").value == first.value
        assert db.budget.spent == spent + 1
        assert db._ledger.verify() == entries + 2
        asked = db.question("select count(*) from people where age > 17 and smoker")
        assert db.history()[-1].query == asked.bundles[0].text


def test_a_request_id_of_an_older_ledger_still_stands_for_its_questions(older):
    """The same id with the same list pays nothing; with another list it is refused."""
    folder, asked = older
    with opened(folder) as db:
        spent = db.budget.spent
        found = plain(ASKED["batch with an id"](db))
        assert without_budget(found) == without_budget(asked["noisy"]["batch with an id"])
        with pytest.raises(sulq.QueryNotAllowed, match="used for another question"):
            db.ask(
                [sulq.Query(where="age > 31"), sulq.Query(where="smoker")], request_id="night run"
            )
        assert db.budget.spent == spent


def test_an_older_auditor_goes_on_with_its_verdicts(older):
    """What was answered and refused stays so, free, and weighs on what is asked next."""
    folder, asked = older
    source, ledger = folder / "audited.parquet", folder / "audited.ledger"
    with audited(source, JUDGED, ledger=ledger, dither=0.5) as db:
        spent = db.budget.spent
        found = {where: verdict(db, where) for where in VERDICTS}
        assert without_budget(found) == without_budget(asked["audited"]["verdicts"])
        assert db.budget.spent == spent
        assert "would single out" in verdict(db, "b and c")
        assert db.budget.spent == spent + 1
        shown = told(db._ledger)["answers"]
        assert {n: shown[n] for n in asked["audited"]["told"]["answers"]} == (
            asked["audited"]["told"]["answers"]
        )
    with audited(source, JUDGED, dither=0.5) as fresh:
        assert "value" in verdict(fresh, "b and c")  # without that past it is answered


# ---- the upgrade ----------------------------------------------------------------------------


def test_a_crash_in_the_upgrade_leaves_the_ledger_as_it_was(older, monkeypatch):
    """All of it or none: the tables of before, and the next one who opens it upgrades it."""
    folder, _ = older
    path = folder / "people.ledger"
    before = raw(path, "SELECT * FROM charges"), raw(path, "SELECT version FROM layout")
    fill = migrate._fill

    def fails(connection, table, rows):
        fill(connection, table, rows)
        if table.name == "requests":
            raise KeyboardInterrupt

    monkeypatch.setattr(migrate, "_fill", fails)
    with pytest.raises(KeyboardInterrupt):
        Ledger.reopen(path)
    after = raw(path, "SELECT * FROM charges"), raw(path, "SELECT version FROM layout")
    assert after == before
    monkeypatch.undo()
    with opened(folder) as db:
        assert db._ledger.verify() == len(raw(path))


def test_a_process_of_the_older_version_cannot_charge_any_more(older):
    """Its row would lack what finds a charge, so its transaction fails and nothing is charged."""
    folder, _ = older
    with opened(folder) as db:
        old = text("INSERT INTO charges (number, query, epoch) VALUES (1, 'x', 99)")
        with db._ledger._disk.reading() as connection, pytest.raises(IntegrityError):
            connection.execute(old)
        assert db._ledger.verify()


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ("analyst = 'bob' AND number > 3 ORDER BY number LIMIT 9", "charges_by_analyst"),
        ("time > '2026' ORDER BY time", "charges_by_time"),
    ],
)
def test_charges_are_found_by_index(older, wanted, index):
    """An analyst's page and a span of time are looked up, not searched for."""
    folder, _ = older
    opened(folder).close()
    plan = raw(folder / "people.ledger", f"EXPLAIN QUERY PLAN SELECT * FROM charges WHERE {wanted}")
    assert any(index in row[-1] for row in plan), plan


def test_decisions_are_found_by_index(older):
    """Entries that are no questions are few, and found without reading the rest."""
    folder, _ = older
    with opened(folder) as db:
        with db._ledger._reading() as connection:
            from sulq.ledger.history import NEVER, _decisions

            asked = _decisions.params(after=-1, before=NEVER)
            sql = asked.compile(connection.engine, compile_kwargs={"literal_binds": True})
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}").fetchall()
        assert any("entries_decisions" in row[-1] for row in plan), plan
        kinds = [e.kind for e in db._ledger.decisions()]
    assert kinds == ["open", "refresh", "allot", "allot", "freeze", "resume"]


def test_a_changed_index_is_found_out(older):
    """What the columns say is compared with the chain at every start."""
    folder, _ = older
    path = folder / "people.ledger"
    opened(folder).close()
    for column, value in (
        ("analyst", "eve"),
        ("time", "2020"),
        ("kind", "batch"),
        ("question", "{}"),
    ):
        copy = folder / f"{column}.ledger"
        shutil.copy(path, copy)
        with closing(sqlite3.connect(copy)) as file:
            file.execute(f"UPDATE charges SET {column} = ? WHERE number = 12", [value])
            file.commit()
        with pytest.raises(sulq.LedgerDamaged, match="charges"):
            Ledger.reopen(copy)


def as_before(where, path):
    """Put an older SQLite ledger into a schema of a server, its tables as they were then."""
    book = Ledger.open(where, terms={"promise": {}, "schema": {}}, cells=1, total=1, name="x")
    with book._disk.writing() as connection:
        for name in ("requests", "charges", "cells", "analysts", "layout", "head", "entries"):
            connection.execute(text(f"DELETE FROM {name}"))
        connection.execute(text("DROP INDEX entries_decisions"))
        connection.execute(text("DROP INDEX charges_by_analyst"))
        for column in ("analyst", "time", "kind", "question"):
            connection.execute(text(f"ALTER TABLE charges DROP COLUMN {column}"))
        for name in ("entries", "head", "charges", "requests", "cells", "analysts", "layout"):
            with closing(sqlite3.connect(path)) as file:
                found = file.execute(f"SELECT * FROM {name}")
                names = [about[0] for about in found.description]
                rows = [dict(zip(names, row, strict=True)) for row in found]
            places = ", ".join(f":{n}" for n in names)
            put = text(f"INSERT INTO {name} ({', '.join(names)}) VALUES ({places})")
            if rows:
                connection.execute(put, rows)
    book.close()


def test_an_older_ledger_on_a_server_is_upgraded_alike(older):
    """The same charges, answers and decisions as in a file, and it goes on."""
    folder, _ = older
    where = postgres.ledger()
    as_before(where, folder / "people.ledger")
    at_server, in_file = Ledger.reopen(where), Ledger.reopen(folder / "people.ledger")
    try:
        first, second = told(at_server), told(in_file)
        for found in (first, second):
            del found["chain"]["verified"]
        assert first == second
        assert at_server.find(in_file.history()[-1].query) == in_file.find(
            in_file.history()[-1].query
        )
        assert at_server.charges(analyst="bob", newest=True, limit=3) == (
            in_file.charges(analyst="bob", newest=True, limit=3)
        )
        assert at_server.spending_since(0, 10) == in_file.spending_since(0, 10)
        at_server.charge([Request("new", 5, None, analyst="bob")])
        assert at_server.charges(analyst="bob", newest=True, limit=1)[0].query == "new"
    finally:
        at_server.close()
        in_file.close()
    again = Ledger.reopen(where)
    assert again.verify() == len(raw(folder / "people.ledger")) + 1
    again.close()


# ---- the text of before ---------------------------------------------------------------------


@pytest.mark.parametrize("expression", [expression for expression, _ in _cases()])
def test_an_expression_means_the_same_in_both_forms(expression):
    """The older text of every function becomes the JSON that the function has now."""
    schema = sulq.Schema.load({name: declared for name, (declared, _, _) in ONE_ROW.items()})
    node = parse(expression, schema)
    assert dumps(_tree(node.text)) == dumps(tree_of(node))


@pytest.mark.parametrize(
    "text",
    [
        "", "q", "{", "[1, 2]", "{}", '{"a": 1}', '{"form": 2, "values": ["(("], "by": []}', "null",
        '{"form": 7, "values": ["i:1"], "by": []}', '["x"]', '{"batch": 3}', "[[[[", '{"by":{}}',
    ],
)  # fmt: skip
def test_what_is_no_older_question_stays_as_it_is(text):
    """Texts of other callers are kept letter by letter."""
    assert question_of(text) == text


def test_questions_of_today_stay_as_they_are(older):
    """The JSON of a question is read as older text by nobody, whatever words are in it."""
    folder, _ = older
    with opened(folder) as db:
        for charge in db.history():
            assert question_of(charge.query) == charge.query
        asked = db.question(sulq.Query(by="'(bins c:''age'' [0.0])'", where="smoker"))
        assert question_of(asked.bundles[0].text) == asked.bundles[0].text


# ---- a server's folder ----------------------------------------------------------------------


def test_an_older_server_folder_goes_on(older):
    """Its history, timeline and answers are the same, retries are free, new questions are paid."""
    folder, asked = older
    said = asked["served"]
    instance = Instance(folder / "clinic", keys=said["keys"])
    with instance.serving() as served:
        at = "/v1/datasets/people"
        spent = served.call("GET", at).json["budget"]["spent_micro"]
        history = served.call("GET", f"{at}/answers").json
        for page in (history, said["history"]):
            for charge in page["answers"]:
                del charge["query"]
        assert history == said["history"]
        line = served.call("GET", f"{at}/timeline", who="anna").json
        beside = [e for e in line["entries"] if e["number"] is None]  # of keys and invitations
        assert {e["kind"] for e in beside} <= {"key", "invitation"}
        line["entries"] = [e for e in line["entries"] if e["number"] is not None]
        for name in ("entries", "people", "total_micro", "spent_micro", "first", "last", "curve"):
            assert line[name] == said["timeline"][name], name
        for i, (body, answer) in enumerate(said["answers"].items()):
            if body.startswith("{"):
                key = f"no-{i}"
                reply = served.call("POST", f"{at}/ask", json.loads(body), Idempotency_Key=key)
            else:
                reply = served.call("POST", f"{at}/sql", {"sql": body})
            assert without_budget(reply.json) == without_budget(answer)
        assert served.call("GET", at).json["budget"]["spent_micro"] == spent
        assert served.ask("age > 77 and secret").status == 200
        assert served.call("GET", at).json["budget"]["spent_micro"] == spent + 10**6
        assert served.call("GET", f"{at}/report", who="anna").status == 200
