"""Parts of T for analysts, kept with the charge; and writers who share a commit."""

import threading
from collections import Counter

import pytest

from sulq.errors import BudgetExceeded, EngineFailed, LedgerDamaged, QueryNotAllowed, Refused
from sulq.ledger import Allotment, Ledger, Request
from sulq.ledger.group_commit import Ticket, Together
from sulq.ledger.seal import Seal

SETTINGS = {"terms": {"promise": {}, "schema": {}}, "cells": 2, "total": 100, "name": "t"}


@pytest.fixture
def ledger(tmp_path):
    path = tmp_path / "ledger"
    made = Ledger.open(path, seal=Seal.open(path), **SETTINGS)
    yield made
    made.close()


def ask(ledger, name, price=1, analyst="bob", cells=None, id=None):
    return ledger.charge([Request(name, price, cells, id, analyst)])[0]


# ---- allotments -----------------------------------------------------------------------------


def test_an_allotment_caps_one_analyst_and_no_other(ledger):
    """Beyond it one is refused, another is not."""
    ledger.allot("bob", 5)
    assert ask(ledger, "a", 3).own == 2
    with pytest.raises(BudgetExceeded, match="allotment") as caught:
        ask(ledger, "b", 3)
    assert caught.value.remaining * 10**6 == 2
    assert ask(ledger, "b", 3, "eve").own is None
    assert ledger.allotments() == {"bob": Allotment(3, 5), "eve": Allotment(3, None)}
    assert ledger.allotment("nobody") == Allotment(0, None)


def test_what_another_paid_for_costs_nothing(ledger):
    """A stored answer is free for whoever has no allotment left."""
    ask(ledger, "a", 7, "eve")
    ledger.allot("bob", 0)
    assert ask(ledger, "a", 7, "bob", id="r").analyst == "eve"
    assert ledger.allotment("bob").spent == 0
    with pytest.raises(BudgetExceeded):
        ask(ledger, "b", 1, "bob")


def test_every_cell_counts_once_for_its_analyst(ledger):
    """A charge to one public cell is spent by its analyst in full."""
    ledger.allot("bob", 3)
    ask(ledger, "a", 2, cells=(0,))
    with pytest.raises(BudgetExceeded):
        ask(ledger, "b", 2, cells=(1,))


def test_the_whole_is_one_for_everybody(ledger):
    """Allotments may add up to more than T; T is kept."""
    ledger.allot("bob", 80)
    ledger.allot("eve", 80)
    ask(ledger, "a", 80)
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "b", 30, "eve")
    assert "allotment" not in str(caught.value)


def test_lowering_it_below_what_is_spent_stops_and_refunds_nothing(ledger):
    """Only what is free is answered then."""
    ask(ledger, "a", 10)
    ledger.allot("bob", 4)
    assert ledger.allotment("bob").left == -6
    with pytest.raises(BudgetExceeded) as caught:
        ask(ledger, "b", 1)
    assert caught.value.remaining == 0
    assert ask(ledger, "free", 0).price == 0
    ledger.allot("bob", None)
    assert ask(ledger, "b", 1).own is None


@pytest.mark.parametrize("amount", [-1, 101, 1.0, True, "5", 2**70])
def test_an_allotment_is_whole_micro_queries_within_t(ledger, amount):
    """Other amounts are refused."""
    with pytest.raises(Refused):
        ledger.allot("bob", amount)
    assert ledger.allotments() == {}


@pytest.mark.parametrize("name", ["", "x" * 201, 3, None])
def test_an_allotment_is_somebodys(ledger, name):
    """A name that is none is refused."""
    with pytest.raises(Refused):
        ledger.allot(name, 5)


def test_a_batch_is_paid_whole_or_not_at_all(ledger):
    """A batch beyond an allotment charges nothing."""
    ledger.allot("bob", 5)
    with pytest.raises(BudgetExceeded):
        ledger.charge([Request(f"q{i}", 2, None, None, "bob") for i in range(3)])
    assert ledger.allotment("bob").spent == 0
    assert ledger.budget()[1] == 0


def test_it_is_in_the_chain_and_read_back_from_it(tmp_path):
    """Allotments and spending survive a new start."""
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, seal=Seal.open(path), **SETTINGS)
    ledger.allot("bob", 5)
    ask(ledger, "a", 2)
    ledger.allot("bob", 9)
    ask(ledger, "b", 4)
    ledger.close()
    again = Ledger.reopen(path, seal=Seal.open(path))
    assert again.allotments() == {"bob": Allotment(6, 9)}
    assert [e.kind for e in again.decisions()] == ["open", "allot", "allot"]
    assert again.verify() == 5
    again.close()


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE analysts SET spent = 0",
        "UPDATE analysts SET allotted = 90",
        "UPDATE analysts SET allotted = NULL",
        "DELETE FROM analysts",
        "INSERT INTO analysts VALUES ('eve', 0, 50)",
    ],
)
def test_an_edited_allotment_is_noticed_at_start(tmp_path, edit):
    """Tables that the chain does not say are refused."""
    import sqlite3

    path = tmp_path / "ledger"
    ledger = Ledger.open(path, **SETTINGS)
    ledger.allot("bob", 5)
    ask(ledger, "a", 2)
    ledger.close()
    with sqlite3.connect(path) as connection:
        connection.execute(edit)
    connection.close()
    with pytest.raises(LedgerDamaged, match="analysts"):
        Ledger.reopen(path)


def test_a_charge_beyond_an_allotment_is_noticed_in_the_chain(tmp_path, monkeypatch):
    """A ledger written by a program that does not check is not believed."""
    from sulq.ledger.allotments import Allotments

    monkeypatch.setattr(Allotments, "check", lambda *_: None)
    path = tmp_path / "ledger"
    ledger = Ledger.open(path, **SETTINGS)
    ledger.allot("bob", 1)
    ask(ledger, "a", 5)
    ledger.close()
    with pytest.raises(LedgerDamaged, match="allotment"):
        Ledger.reopen(path)


def test_eight_threads_spend_exactly_their_allotments(ledger):
    """Analysts with 5 of a T of 100 each, and one with none: 5 each, 65 for that one."""
    for k in range(7):
        ledger.allot(f"a{k}", 5)
    paid = Counter()

    def spend(k):
        who = f"a{k}" if k < 7 else "rich"
        for i in range(70):
            try:
                ask(ledger, f"{k}.{i}", 1, who)
                paid[who] += 1
            except BudgetExceeded:
                continue

    threads = [threading.Thread(target=spend, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paid == {f"a{k}": 5 for k in range(7)} | {"rich": 65}
    assert ledger.budget() == (100, 100, 0)
    assert {n: a.spent for n, a in ledger.allotments().items()} == dict(paid)
    ledger.verify()


# ---- writers who share a commit -------------------------------------------------------------


def waiting(ledger, questions):
    """Several threads that are all waiting when the first may write; what each got."""
    outcomes = {}

    def one(name, requests):
        try:
            outcomes[name] = ledger.charge(requests, new=True)
        except Exception as error:
            outcomes[name] = error

    threads = [threading.Thread(target=one, args=pair) for pair in questions.items()]
    with ledger._disk.lock:
        for thread in threads:
            thread.start()
        while len(ledger._bills._waiting) < len(threads):
            pass
    for thread in threads:
        thread.join()
    return outcomes


def commits(ledger, monkeypatch):
    """Counts the transactions."""
    seen, honest = [], ledger._disk.writing

    def writing(*a, **k):
        seen.append(1)
        return honest(*a, **k)

    monkeypatch.setattr(ledger._disk, "writing", writing)
    return seen


def test_those_who_wait_go_together_in_one_commit(ledger, monkeypatch):
    """Charges that gather are one transaction."""
    seen = commits(ledger, monkeypatch)
    found = waiting(ledger, {k: [Request(f"q{k}", 2, None)] for k in range(10)})
    assert len(seen) == 1
    assert {c.query for charges in found.values() for c in charges} == {f"q{k}" for k in range(10)}
    assert ledger.budget()[1] == 20
    ledger.verify()


def test_one_that_is_refused_does_not_hold_the_others_up(ledger, monkeypatch):
    """Too dear, or an id used for another question: its own error, the others are paid."""
    ledger.charge([Request("first", 1, None, "id")])
    seen = commits(ledger, monkeypatch)
    found = waiting(
        ledger,
        {
            "a": [Request("a", 2, None)],
            "dear": [Request("dear", 200, None)],
            "id": [Request("other", 1, None, "id")],
            "b": [Request("b", 3, (0,))],
            "pair": [Request("p1", 1, None), Request("p2", 500, None)],
        },
    )
    assert len(seen) == 1
    assert isinstance(found["dear"], BudgetExceeded)
    assert isinstance(found["id"], QueryNotAllowed)
    assert isinstance(found["pair"], BudgetExceeded)
    assert [c.price for c in found["a"] + found["b"]] == [2, 3]
    assert {c.query for c in ledger.history()} == {"first", "a", "b"}
    ledger.verify()


def test_together_they_never_exceed_the_total(ledger):
    """Ten at once of 15 each, of 100: six are paid, four refused."""
    found = waiting(ledger, {k: [Request(f"q{k}", 15, None)] for k in range(10)})
    refused = [x for x in found.values() if isinstance(x, BudgetExceeded)]
    assert len(refused) == 4
    assert ledger.budget()[1] == 90
    ledger.verify()


def test_equal_questions_together_are_one_charge(ledger):
    """Whoever was first pays, the others get the same charge."""
    found = waiting(ledger, {k: [Request("same", 5, None, f"id{k}", f"a{k}")] for k in range(5)})
    assert len({charges[0].number for charges in found.values()}) == 1
    assert ledger.budget()[1] == 5
    assert sum(a.spent for a in ledger.allotments().values()) == 5
    ledger.verify()


def test_nobody_is_told_of_a_commit_that_failed(ledger, monkeypatch):
    """Disk full: all who went together are refused, and nothing was charged."""
    import sqlite3

    honest = ledger._disk._connected().connection.driver_connection

    class Full:
        in_transaction = False

        def execute(self, sql, *values):
            if sql == "COMMIT":
                honest.rollback()
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return honest.execute(sql, *values)

        def __getattr__(self, name):
            return getattr(honest, name)

    from sulq.ledger import sqlite as disk

    monkeypatch.setattr(disk, "driver_of", lambda _: Full())
    found = waiting(ledger, {k: [Request(f"q{k}", 1, None)] for k in range(4)})
    monkeypatch.undo()
    assert all(isinstance(x, Refused) for x in found.values())
    assert ledger.history() == []
    ledger.verify()


def test_an_interrupted_writer_leaves_the_others_to_write_for_themselves():
    """Ctrl-C in the thread that writes for all: nobody believes it was written."""
    lock, turns = threading.RLock(), []

    def write(tickets):
        turns.append(len(tickets))
        if len(turns) == 1:
            raise KeyboardInterrupt
        for ticket in tickets:
            ticket.set_result(ticket.asked)

    together = Together(lock, write)
    lost = Ticket("lost")
    together._waiting.append(lost)
    with pytest.raises(KeyboardInterrupt):
        together.through("first")
    assert not lost.done()
    assert together.through("second") == "second"
    together._waiting.append(lost)
    assert together.through("third") == "third"
    assert lost.result() == "lost"


def test_tickets_of_a_parent_process_are_not_written_by_its_fork():
    """A child writes its own charges only."""
    together = Together(threading.RLock(), lambda tickets: [t.set_result(t.asked) for t in tickets])
    other = Ticket("parent's")
    other.process += 1
    together._waiting.append(other)
    assert together.through("own") == "own"
    assert not other.done()


def test_an_answer_that_cannot_be_kept_is_not_given(ledger, monkeypatch):
    """A failed record leaves the charge without an answer."""
    charge = ask(ledger, "a")

    def broken(*_):
        raise EngineFailed("the charge stands")

    monkeypatch.setattr(ledger, "_stored", broken)
    with pytest.raises(EngineFailed):
        ledger.record([(charge.number, "[]")])
    monkeypatch.undo()
    assert ledger.find("a")[1] is None
    assert ledger.record([(charge.number, "[1]")]) == ["[1]"]
    assert ledger.record([(charge.number, "[2]")]) == ["[1]"]
