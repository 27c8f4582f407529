"""Questions of several people worked on at once: each gets what it would get alone."""

from dataclasses import replace

import pytest
from attacks.harness import SCHEMA, Silent, opened, people

import sulq
from sulq import Query
from sulq.pipeline import Order


@pytest.fixture
def db():
    made = opened(people(), SCHEMA, queries=20)
    made._pipeline.noise = Silent()
    return made


def orders(db, *asked):
    """(who, what, request id) as orders."""
    return [Order(db.question(what), id, who) for who, what, id in asked]


def count(where):
    return Query(where=where)


def test_each_gets_what_it_would_get_alone(db):
    """Queries, lists and statements, of two people, in one go."""
    asked = [
        ("bob", count("secret"), "1"),
        ("eve", [count("age > 30"), Query(by="region")], "2"),
        ("bob", "select region, avg(income) from frame group by region", None),
        ("eve", Query(["income"], by="city"), None),
    ]
    found = db.answer_all(orders(db, *asked))
    alone = opened(people(), SCHEMA, queries=20)
    alone._pipeline.noise = Silent()
    for (who, what, id), together in zip(asked, found, strict=True):
        view = alone.as_analyst(who)
        by_itself = view.answer(view.question(what), request_id=id)
        assert str(together).split(", price")[0] == str(by_itself).split(", price")[0]
    assert db.budget == alone.budget
    assert {n: a.spent for n, a in db.allotments().items()} == {
        n: a.spent for n, a in alone.allotments().items()
    }
    db.verify()


def test_one_commit_for_charges_and_one_for_answers(db, monkeypatch):
    """Six orders at once write twice."""
    seen, honest = [], db._ledger._writing

    def writing(*a, **k):
        seen.append(1)
        return honest(*a, **k)

    monkeypatch.setattr(db._ledger, "_writing", writing)
    db.answer_all(orders(db, *(("bob", count(f"age > {i}"), str(i)) for i in range(6))))
    assert len(seen) == 2
    assert db.budget.spent == 6


def test_equal_questions_are_paid_and_scanned_once(db, monkeypatch):
    """All who ask get the one answer."""
    scans = []
    honest = db._pipeline.engine.sums
    monkeypatch.setattr(db._pipeline.engine, "sums", lambda q: scans.append(len(q)) or honest(q))
    found = db.answer_all(orders(db, *((f"a{i}", count("secret"), f"r{i}") for i in range(5))))
    assert len({a.exact for a in found}) == 1
    assert scans == [1]
    assert db.budget.spent == 1


def test_what_is_stored_is_not_scanned(db, monkeypatch):
    """No row is read for it."""
    first = db.count("secret")
    monkeypatch.setattr(db._pipeline.engine, "sums", None)
    (again,) = db.answer_all(orders(db, ("bob", count("secret"), None)))
    assert again.exact == first.exact
    (bound,) = db.answer_all(orders(db, ("bob", count("secret"), "id")))
    assert bound.exact == first.exact


def test_a_refusal_is_ones_own(db):
    """Too dear, beyond an allotment, an id used before: the others are answered."""
    db.allot("poor", 1)
    db.as_analyst("bob").ask(count("secret"), request_id="used")
    found = db.answer_all(
        orders(
            db,
            ("bob", count("age > 1"), "a"),
            ("bob", Query(where="secret", error=1), "b"),
            ("poor", Query(by="city"), "c"),
            ("bob", count("age > 2"), "used"),
            ("poor", count("age > 3"), "d"),
        )
    )
    kinds = [type(x).__name__ for x in found]
    assert kinds == ["Answer", "BudgetExceeded", "BudgetExceeded", "QueryNotAllowed", "Answer"]
    assert db.budget.spent == 3
    db.verify()


def test_together_they_stop_at_t(db):
    """Those beyond T are refused, the others answered."""
    found = db.answer_all(orders(db, *(("bob", count(f"age > {i}"), None) for i in range(30))))
    answered = [x for x in found if isinstance(x, sulq.Answer)]
    assert len(answered) == 20
    assert all(isinstance(x, sulq.BudgetExceeded) for x in found if x not in answered)


def test_a_scan_that_fails_for_one_is_tried_for_each(db, monkeypatch):
    """One question trips the engine: all who had paid hear the same, and go on after a resume.

    If it was only too much at once, each is answered by itself.
    """
    honest = db._pipeline.engine.sums

    def sums(queries):
        if any("age" in q.text for q in queries):
            raise RuntimeError("row 17: Joe")
        return honest(queries)

    monkeypatch.setattr(db._pipeline.engine, "sums", sums)
    bad, good = db.answer_all(
        orders(db, ("bob", count("age > 3"), "1"), ("eve", count("secret"), "2"))
    )
    assert isinstance(bad, sulq.EngineFailed)
    assert "Joe" not in str(bad)
    assert str(good) == str(bad)
    assert db.budget.spent == 2
    monkeypatch.setattr(db._pipeline.engine, "sums", lambda q: honest(q) if len(q) == 1 else 1 / 0)
    asked = orders(db, ("bob", count("age > 3"), "1"), ("eve", count("secret"), "2"))
    assert {type(x) for x in db.answer_all(asked)} == {sulq.Frozen}
    db.resume("mended")
    asked = orders(db, ("bob", count("age > 3"), "1"), ("eve", count("secret"), "2"))
    assert {type(x) for x in db.answer_all(asked)} == {sulq.Answer}
    assert db.budget.spent == 2


def test_nothing_is_scanned_that_is_not_paid(db, monkeypatch):
    """The charge is on the ledger when the engine is asked."""
    seen, honest = [], db._pipeline.engine.sums

    def sums(queries):
        seen.append({c.query for c in db.history()} >= {q.text for q in queries})
        return honest(queries)

    monkeypatch.setattr(db._pipeline.engine, "sums", sums)
    db.answer_all(orders(db, *(("bob", count(f"age > {i}"), None) for i in range(4))))
    assert seen == [True]


def test_changed_rows_stop_all_of_them(db, monkeypatch):
    """Every order hears of it, and none is charged."""

    def changed():
        raise sulq.SourceChanged("other rows")

    monkeypatch.setattr(db._pipeline.guard, "check", changed)
    found = db.answer_all(
        orders(db, ("bob", count("secret"), None), ("eve", count("age > 1"), None))
    )
    assert [type(x) for x in found] == [sulq.SourceChanged] * 2
    assert db.answer_all([]) == []


def test_a_layout_that_fails_is_ones_own(db):
    """The other order has its answer."""
    broken, fine = orders(db, ("bob", count("secret"), None), ("eve", count("age > 1"), None))

    def lay_out(*_):
        raise ValueError("no such cell")

    broken = replace(broken, question=replace(broken.question, lay_out=lay_out))
    found = db.answer_all([broken, fine])
    assert isinstance(found[0], ValueError)
    assert isinstance(found[1], sulq.Answer)


def test_what_is_public_is_counted_once(db, monkeypatch):
    """Sizes and keys are free, so that who asks for them all the time takes no scan of others."""
    scans = []
    sums = type(db._pipeline.engine).sums
    monkeypatch.setattr(
        type(db._pipeline.engine), "sums", lambda self, q: scans.append(len(q)) or sums(self, q)
    )
    north, everyone = sulq.Rows.where("region = 'north'"), sulq.Rows.where("1 = 1")
    first = db.sizes(north), db.key_counts()
    assert len(scans) == 2
    assert (db.sizes(north), db.key_counts()) == first
    assert len(scans) == 2
    assert first[1] == sulq.KeyCounts(db.rows, 0, 0)  # keys, and not rows once more
    assert db.sizes(everyone) == [(db.rows,)]

    def changed():
        raise sulq.SourceChanged("other rows")

    monkeypatch.setattr(db._pipeline.guard, "check", changed)
    with pytest.raises(sulq.SourceChanged):  # what is known is known of the rows as they were
        db.sizes(north)
