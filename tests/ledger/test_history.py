"""Histories, timeline and report read by index: what they show, and nothing else. No luck."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

import sulq
from sulq.ledger import Ledger, Request, history, ledger, link_hash
from sulq.report import report
from sulq.server.services import histories

MANY = 3000
PROMISE = sulq.Promise(epsilon=1.0, delta=1e-6, queries=100, noise="gaussian", guarantee="beliefs")
SCHEMA = {"columns": {"a": {"type": "boolean"}}}
BATCH = '{"batch": ["x", "y"]}'


def terms():
    promise = PROMISE.to_json() | {"pricing": "geometry"}
    schema = sulq.Schema.load(SCHEMA).to_json()
    return {"promise": promise, "schema": schema, "rows": 10}


def question(number):
    """A stored count, one of many."""
    return (
        f'{{"by":[],"form":3,"kind":"list","values":[1],"where":["lt",{number},{{"column":"a"}}]}}'
    )


def filled(where, count=MANY):
    """A ledger of questions by three analysts, with a decision and a batch line among them."""
    book = Ledger.open(where, terms=terms(), cells=1, total=10**9, name="people")
    for start in range(0, count, 500):
        asked = range(start, min(start + 500, count))
        book.charge(
            [Request(question(i), 1, None, analyst=("bob", "eve", "dan")[i % 3]) for i in asked]
        )
    book.charge([Request(BATCH, 0, (), "night", "bob")])
    book.allot("bob", 5000)
    return book


@pytest.fixture(scope="module")
def book():
    book = filled(":memory:")
    yield book
    book.close()


@pytest.fixture
def db(book):
    return SimpleNamespace(_ledger=book, entries=book.entries)


@pytest.fixture
def read(monkeypatch):
    """The charges that are read, one by one; walking the chain fails."""
    seen = []
    as_charge = history.as_charge
    monkeypatch.setattr(history, "as_charge", lambda *row: seen.append(row) or as_charge(*row))

    def walked(*_):
        raise AssertionError("the whole chain was walked")

    monkeypatch.setattr(ledger, "audit", walked)
    monkeypatch.setattr(Ledger, "entries", walked)
    return seen


def test_a_timeline_reads_what_it_shows(db, read):
    """Of 3,000 charges a page of 50 lines reads one page of charges."""
    found = histories.timeline_of(db, None, 50, "", "", "")
    assert len(read) <= histories.PAGE
    assert found["entries"][0]["kind"] == "allot"
    assert [line["number"] for line in found["entries"][1:]] == list(range(MANY, MANY - 49, -1))
    assert len(found["curve"]) <= histories.POINTS + 1
    assert found["curve"][-1][1] == found["spent_micro"] == MANY
    assert found["people"] == ["bob", "dan", "eve"]


def test_a_timeline_is_paged_to_its_end(db):
    """Every charge and decision once, newest first, batch lines left out."""
    numbers, before = [], None
    while True:
        found = histories.timeline_of(db, before, 499, "", "", "")
        numbers += [line["number"] for line in found["entries"]]
        before = found["next"]
        if before is None:
            break
    assert numbers == [MANY + 2, *range(MANY, -1, -1)]


@pytest.mark.parametrize(
    ("text", "analyst", "kind", "count"),
    [
        ("", "bob", "", MANY // 3 + 1), ("", "", "allot", 1), ("", "eve", "charge", MANY // 3),
        ("a > 2999", "", "", 1), ("a > 2999", "bob", "", 0), ("", "nobody", "", 0),
        ("at most 0.005", "", "", 1),
    ],
)  # fmt: skip
def test_a_timeline_is_searched(db, text, analyst, kind, count):
    """By analyst, by kind and by the words that are shown."""
    found = histories.timeline_of(db, None, 5000, text, analyst, kind)
    assert len(found["entries"]) == count


def test_an_analyst_reads_their_own_questions(db, read):
    """A page is as long as asked for, passes over others, and continues behind its last one."""
    found = histories.page_of(db, "bob", -1, 5)
    assert [c["number"] for c in found["answers"]] == [1, 4, 7, 10, 13]
    assert (found["next"], len(read)) == (13, 11)  # one more charge than shown, and 5 answers
    last = histories.page_of(db, "bob", MANY - 3, 5)
    assert ([c["number"] for c in last["answers"]], last["next"]) == ([MANY - 2], None)
    newest = histories.newest_of(db, "bob", 2)
    assert [c["number"] for c in newest["answers"]] == [MANY - 2, MANY - 5]


def test_a_report_of_the_last_charges_reads_those(book, read):
    """Neither the chain nor the other charges; the decisions are all there."""
    found = report(book, last=10)
    assert [c["number"] for c in found["charges"]] == list(range(MANY - 8, MANY + 2))
    assert len(read) == 10
    assert [e["kind"] for e in found["events"]] == ["allot"]
    assert found["chain"]["entries"] == MANY + 3
    assert found["chain"]["verified"] == book.verified != ""


def test_a_whole_report_walks_the_chain(book, read):
    """What is printed as verified was."""
    with pytest.raises(AssertionError, match="walked"):
        report(book)


def test_a_report_of_the_last_charges_checks_what_is_new(tmp_path):
    """An entry that another program wrote since, and that does not add up, is found out."""
    path = tmp_path / "people.ledger"
    book = filled(path, 3)
    assert report(book, last=2)["chain"]["entries"] == 6
    with closing(sqlite3.connect(path)) as file:
        (number, last) = file.execute("SELECT number, hash FROM head").fetchone()
        hash = link_hash(last, number + 1, "note", "{}")
        row = (number + 1, "note", '{"changed":1}', last, hash)
        file.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
        file.execute("UPDATE head SET number = ?, hash = ?", (number + 1, hash))
        file.commit()
    with pytest.raises(sulq.LedgerDamaged, match="was changed"):
        report(book, last=2)
    book.close()
