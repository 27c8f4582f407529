"""Whole lives of a table: rows move, schemas change, and nobody takes part in more than T answers.

Spending belongs to rows, not to labels. A person who moves to another public cell takes along what
was spent on them. No luck is involved but the seeds of the lives.
"""

import random
import sqlite3
import zipfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import duckdb
import postgres
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from soak import some
from sqlalchemy import text

import sulq
from sulq.ledger import Ledger, Request
from sulq.ledger.chain import Page
from sulq.ledger.location import sealed
from sulq.ledger.seal import Seal
from sulq.open_database import refresh

T = 10
REGIONS = ["north", "south", "east", "west"]
SCHEMA = {
    "id": {"key": True},
    "region": {"values": REGIONS, "public": True},
    "secret": {"type": "boolean", "nullable": False},
}


def write(path, where):
    """The table in which everybody is in their region."""
    ids = sorted(where)
    rows = {"id": ids, "region": [where[i] for i in ids], "secret": [i % 2 == 0 for i in ids]}
    pq.write_table(pa.table(rows), path)
    return path


def begun(path):
    return sulq.open(path, SCHEMA, epsilon=1.0, queries=T)


def ask(db, number, region=None):
    """One new question about a region, or about everybody; was it answered?"""
    rest = "" if region is None else f" and region = '{region}'"
    try:
        db.count(f"secret and id <> {-1 - number}{rest}")
    except sulq.BudgetExceeded:
        return False
    return True


class Life:
    """A table that changes, the questions about it, and in how many answers each person was."""

    def __init__(self, path, seed):
        self.luck, self.path = random.Random(seed), path
        self.where = {i: self.luck.choice(REGIONS) for i in range(12)}
        self.part = Counter()
        self.asked = 0
        self.db = begun(write(path, self.where))

    def move(self):
        """Some move, one leaves, one arrives; some days nothing changes but the order."""
        for person in self.luck.sample(sorted(self.where), self.luck.randrange(4)):
            self.where[person] = self.luck.choice([*REGIONS, "abroad"])
        if self.luck.random() < 0.3:
            del self.where[self.luck.choice(sorted(self.where))]
            self.where[self.luck.randrange(12, 40)] = self.luck.choice(REGIONS)
        self.db.close()
        self.db = refresh(write(self.path, self.where), reason="moved")

    def question(self):
        """About one region or about everybody."""
        self.asked += 1
        region = self.luck.choice([*REGIONS, None])
        if ask(self.db, self.asked, region):
            self.part.update(i for i, r in self.where.items() if region in (None, r))

    def reopen(self):
        self.db.close()
        self.db = begun(self.path)

    def live(self, days):
        for _ in range(days):
            step = self.luck.choices([self.move, self.question, self.reopen], [2, 7, 1])[0]
            step()
        spent = max(cell["spent"] for cell in self.db.budget_by_cell())
        entries = self.db._ledger.verify()
        self.db.close()
        return max(self.part.values()), spent, entries


def left_with_the_cells(monkeypatch):
    """Put the old rule back: a refresh leaves spending where it was."""
    monkeypatch.setattr(Page, "level", lambda self: None)
    monkeypatch.setattr("sulq.ledger.replay.Spending.level", lambda self: None)


LIVES = some(range(12), 4)


@pytest.mark.parametrize("seed", LIVES)
def test_no_life_lets_a_person_outspend_t(tmp_path, seed):
    """Random moves, refreshes, questions, reopenings: at most T answers for everybody, as said."""
    most, spent, entries = Life(tmp_path / "people.parquet", seed).live(60)
    assert most <= spent <= T
    assert entries > T


def test_control_the_old_rule_lets_people_outspend_t(tmp_path, monkeypatch):
    """The same lives find the overspending when spending stays with the cells."""
    left_with_the_cells(monkeypatch)
    found = [Life(tmp_path / f"{seed}.parquet", seed).live(60)[0] for seed in LIVES]
    print(f"answers that one person was in, T = {T}: {found}")
    assert 2 * sum(most > T for most in found) >= len(LIVES)


def made(folder):
    folder.mkdir()
    return folder / "people.parquet"


def moved_around(path):
    """One person goes north, south, east, west, asked about as often as can be in each."""
    answers = 0
    for step, region in enumerate(REGIONS):
        write(path, {1: region, 2: "north", 3: "south", 4: "east", 5: "west"})
        db = begun(path) if step == 0 else refresh(path, reason="moved")
        with db:
            answers += sum(ask(db, 100 * step + i, region) for i in range(T + 5))
    return answers


def test_someone_who_moves_around_is_in_t_answers(tmp_path, monkeypatch):
    """North, south, east, west at T = 10: 10 answers. Control: 40 by the old rule."""
    assert moved_around(made(tmp_path / "a")) == T
    left_with_the_cells(monkeypatch)
    assert moved_around(made(tmp_path / "b")) == 4 * T


# ---- what a refresh may do ------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    """Three of ten queries spent on the north, one on everybody."""
    path = write(tmp_path / "people.parquet", dict(enumerate(REGIONS)))
    with begun(path) as db:
        assert all([ask(db, i, "north") for i in range(3)] + [ask(db, 3)])
    return path


def by_region(db):
    return {cell["region"]: int(cell["spent"]) for cell in db.budget_by_cell()}


def test_after_a_refresh_every_cell_carries_the_highest_spending(path):
    """In the budget by cell, the report, the chain, and when it is opened again."""
    write(path, {0: "south", 1: "south"})
    with refresh(path, reason="moved") as db:
        assert set(by_region(db).values()) == {4}
        assert db.budget.remaining == T - 4
    with begun(path) as db:
        assert set(by_region(db).values()) == {4}
        assert ask(db, 9, "west")
        assert by_region(db) == {"north": 4, "south": 4, "east": 4, "west": 5, None: 4}
        (entry,) = [e for e in db.entries() if e.kind == "refresh"]
        assert entry.body["spending"] == "highest"
    from sulq.report import report

    book = Ledger.reopen(f"{path}.ledger", seal=Seal.open(f"{path}.ledger"))
    (event,) = report(book)["events"]
    assert event["what"] == "reason: moved; every cell carries the highest spending of any"
    assert [c["spent_micro"] for c in report(book)["budget"]["cells"]] == [
        4_000_000, 4_000_000, 4_000_000, 5_000_000, 4_000_000
    ]  # fmt: skip


def test_the_same_bytes_with_another_private_range_keep_each_cells_spending(path):
    """A schema that changes no public column, on the same file: each row is where it was."""
    schema = SCHEMA | {"secret": {"type": "boolean"}}
    with refresh(path, schema, reason="may be missing") as db:
        assert by_region(db) == {"north": 4, "south": 1, "east": 1, "west": 1, None: 1}
        assert db._ledger.verify()
    with sulq.open(path, schema, epsilon=1.0, queries=T) as db:
        assert by_region(db)["south"] == 1


def test_rows_that_come_back_do_not_bring_old_spending_back(path):
    """Away and back again: the bytes are those of before, but others were asked meanwhile."""
    before = path.read_bytes()
    write(path, {0: "south"})
    refresh(path, reason="away").close()
    path.write_bytes(before)
    with refresh(path, reason="back") as db:
        assert set(by_region(db).values()) == {4}


def test_another_table_of_the_same_file_is_not_the_same_rows(tmp_path):
    """Else one person is in both tables, in another cell of each, and stored answers are wrong."""
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as file:
        for name, region in (("a", "north"), ("b", "south")):
            file.execute(
                f"CREATE TABLE {name} AS SELECT 1 AS id, '{region}' AS region, true AS secret"
            )
    terms = {"epsilon": 1.0, "queries": T}
    with sulq.open(path, SCHEMA, table="a", **terms) as db:
        assert all(ask(db, i, "north") for i in range(T))
    with pytest.raises(sulq.SourceChanged, match="table=b"):
        sulq.open(path, SCHEMA, table="b", **terms)
    with refresh(path, SCHEMA, table="b", reason="the other table") as db:
        assert not ask(db, 1000, "south")
    with sulq.open(path, SCHEMA, table="b", **terms) as db:
        assert db.budget.remaining == 0


CHANGES = {
    "another order": {"region": {"values": REGIONS[::-1], "public": True}},
    "one more value": {"region": {"values": [*REGIONS, "abroad"], "public": True}},
    "one value less": {"region": {"values": REGIONS[:3], "public": True}},
    "no longer public": {"region": {"values": REGIONS}},
    "public without values": {"region": {"type": "text", "public": True}},
    "one more public column": {"secret": {"type": "boolean", "public": True}},
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_refresh_with_other_cells_is_refused(path, change):
    """Cells listed anew, added, dropped or hidden: refused, and nothing is changed."""
    with pytest.raises(sulq.SchemaError):
        refresh(path, SCHEMA | CHANGES[change], reason="other cells")
    with begun(path) as db:
        assert by_region(db)["north"] == 4
        assert "refresh" not in [e.kind for e in db.entries()]


def test_a_refresh_with_another_unit_is_refused(path):
    """The promise is about rows; it cannot become one about persons."""
    with pytest.raises(sulq.SchemaError):
        refresh(path, {"columns": SCHEMA, "unit": {"column": "id", "max_rows": 2}}, reason="people")


@pytest.mark.parametrize("terms", [{"queries": 2 * T}, {"epsilon": 2.0}, {"delta": 1e-3}])
def test_after_a_refresh_the_promise_is_still_the_first_one(path, terms):
    """A refresh takes no other T or epsilon, and opening with one is refused after it too."""
    write(path, {0: "south"})
    refresh(path, reason="moved").close()
    with pytest.raises(sulq.PromiseError):
        sulq.open(path, SCHEMA, **{"epsilon": 1.0, "queries": T} | terms)


# ---- ledgers of before ----------------------------------------------------------------------

OLD = Path(__file__).parents[1] / "fixtures" / "release1-refreshed.zip"


@pytest.fixture
def old(tmp_path):
    """What release 1 left behind: 10 answers north, 10 south and 5 east, refreshed in between."""
    with zipfile.ZipFile(OLD) as archive:
        archive.extractall(tmp_path)
    for name in ("people.parquet.ledger", "calm.parquet.ledger"):
        (tmp_path / name).chmod(0o600)
    return tmp_path


def test_a_ledger_of_before_carries_the_most_that_any_row_can_have_spent(old):
    """25 answers at T = 10 were possible: said so in the chain, and nothing is left."""
    with begun(old / "people.parquet") as db:
        assert (db.budget.spent, db.budget.remaining) == (25, 0)
        assert set(by_region(db).values()) == {25}
        assert not ask(db, 1000, "west")
        assert not ask(db, 1001)
        assert [e.kind for e in db.entries()].count("carry") == 1
        assert db._ledger.verify()
    with begun(old / "people.parquet") as db:  # once is enough
        assert [e.kind for e in db.entries()].count("carry") == 1
        assert db.budget.remaining == 0


def test_control_release_1_would_have_answered_on(old):
    """The fixture is of that code: its tables are version 2 and say that the west has all of T."""
    with sqlite3.connect(old / "people.parquet.ledger") as file:
        assert file.execute("SELECT version FROM layout").fetchone() == (2,)
        assert file.execute("SELECT base, most FROM head").fetchone() == (0, 10 * 10**6)
        assert file.execute("SELECT spent FROM cells WHERE cell = 3").fetchone() == (0,)


def test_a_ledger_of_before_without_a_refresh_keeps_its_cells(old):
    """Nobody can have moved: three spent on the north are three on the north."""
    with begun(old / "calm.parquet") as db:
        assert by_region(db) == {"north": 3, "south": 0, "east": 0, "west": 0, None: 0}
        assert "carry" not in [e.kind for e in db.entries()]


def refresh_as_release_1(book):
    """Append a refresh that leaves spending with the cells and does not say so."""
    with book._writing() as page:
        page.append("refresh", {"terms": book.terms, "body": {}, "time": ""})
        page.head = replace(page.head, epoch=page.head.number)


@pytest.mark.parametrize("on_server", [False, True])
def test_ledgers_on_disk_and_on_a_server_carry_alike(tmp_path, monkeypatch, on_server):
    """Refreshed by the old rule, opened, refreshed by today's: the same spending on both."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))
    where = postgres.ledger() if on_server else str(tmp_path / "people.ledger")
    promise = {"epsilon": 1, "queries": 10}
    terms = {"terms": {"promise": promise, "schema": {}}, "cells": 3, "total": 10, "name": "people"}
    book = Ledger.open(where, **terms, seal=sealed(where))
    book.charge([Request("a", 6, (0,)), Request("b", 1, None)])
    refresh_as_release_1(book)
    with book._disk.writing() as connection:
        connection.execute(text("UPDATE layout SET version = 2"))
    book.close()
    book = Ledger.open(where, **terms, seal=sealed(where))
    assert list(book.spent_by_cell().values()) == [7, 7, 7]
    assert [e.kind for e in book.decisions()] == ["open", "refresh", "carry"]
    book.charge([Request("c", 2, (1,))])
    with pytest.raises(sulq.BudgetExceeded):
        book.charge([Request("d", 2, None)])
    other = Ledger.open(where, **terms, seal=sealed(where))
    other.renew(terms["terms"], {"reason": "moved"})
    assert (other.budget(), list(other.spent_by_cell().values())) == ((10, 9, 1), [9, 9, 9])
    with pytest.raises(sulq.SourceChanged):
        book.charge([Request("e", 1, (2,))])
    assert other.verify() == 7
    for each in (book, other):
        each.close()


def test_a_refresh_in_the_old_form_is_not_taken_from_a_new_ledger(path):
    """Who writes one into a chain of today, tables and all, is found out."""
    book = Ledger.reopen(f"{path}.ledger")
    refresh_as_release_1(book)
    book.close()
    with pytest.raises(sulq.LedgerDamaged, match="carry"):
        begun(path)
