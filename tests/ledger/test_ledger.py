"""What the ledger promises to one caller in one process."""

import contextlib
import dataclasses
import os
import sqlite3
import stat
import threading

import postgres
import pytest

from sulq.errors import (
    BudgetExceeded,
    EngineFailed,
    LedgerDamaged,
    PromiseError,
    QueryNotAllowed,
    Refused,
    SchemaError,
    SourceChanged,
)
from sulq.ledger import Charge, Ledger, Request, canonical, link_hash
from sulq.ledger import sqlite as disk
from sulq.ledger.seal import Seal

ONE = 1_000_000
TERMS = {"promise": {"epsilon": 1.0, "queries": 10}, "schema": {"columns": {"age": {"high": 120}}}}


def opened(where, **changes):
    settings = {"terms": TERMS, "cells": 4, "total": 10 * ONE, "name": "clinic"}
    return Ledger.open(where, **(settings | changes))


@pytest.fixture(params=["file", "memory", *(["server"] if postgres.here() else [])])
def ledger(request, tmp_path):
    """The same in a file, in memory and on a server."""
    if request.param == "server":
        return opened(postgres.ledger())
    return opened(":memory:" if request.param == "memory" else tmp_path / "clinic.ledger")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "clinic.ledger"


def ask(ledger, query, price=ONE, cells=None, **more):
    return ledger.charge([Request(query, price, cells, **more)])[0]


# -- charging --


def test_a_charge_says_what_was_asked_and_what_is_left(ledger):
    """The charge carries number, query, price, remaining, request, time and analyst."""
    charge = ask(ledger, "count", 2 * ONE, id="r1", analyst="ann")
    assert dataclasses.replace(charge, time="") == Charge(
        1, "count", 2 * ONE, 8 * ONE, "r1", "", "ann"
    )
    assert charge.time.endswith("+00:00")
    assert ledger.budget() == (10 * ONE, 2 * ONE, 8 * ONE)
    assert ledger.history() == [charge]


def test_the_last_micro_query_can_be_spent_and_no_more(ledger):
    """The budget fills exactly; one micro-query beyond it is refused and nothing changes."""
    ask(ledger, "all but one", 10 * ONE - 1)
    with pytest.raises(BudgetExceeded, match=r"price=0.000002 queries but remaining=0.000001 q"):
        ask(ledger, "two", 2)
    ask(ledger, "one", 1)
    with pytest.raises(BudgetExceeded):
        ask(ledger, "another", 1)
    assert ledger.budget() == (10 * ONE, 10 * ONE, 0)
    assert len(ledger.history()) == 2


def test_a_free_question_is_charged_nothing_even_when_the_budget_is_spent(ledger):
    """Price 0 is an amount like any other."""
    ask(ledger, "everything", 10 * ONE)
    assert ask(ledger, "free", 0).remaining == 0


def test_hundred_charges_of_a_tenth_fill_exactly_ten(ledger):
    """Integers add without drift."""
    for i in range(100):
        ask(ledger, f"q{i}", ONE // 10)
    assert ledger.budget()[2] == 0
    with pytest.raises(BudgetExceeded):
        ask(ledger, "one more", 1)


@pytest.mark.parametrize(
    "price", [-1, True, False, 1.0, float("nan"), float("inf"), 1e400, "1_000", "1", None]
)
def test_a_price_is_a_whole_number(price):
    """Anything but a non-negative int is refused before the ledger sees it."""
    with pytest.raises(QueryNotAllowed, match="Nothing was charged"):
        Request("q", price, None)


@pytest.mark.parametrize("total", [-1, True, 1.0, float("nan"), "1_000", 2**63])
def test_a_total_is_a_whole_number(total):
    """The same holds for the budget itself."""
    with pytest.raises(PromiseError):
        opened(":memory:", total=total)


def test_a_price_beyond_every_integer_column_is_just_too_expensive(ledger):
    """Adding happens in Python, so nothing overflows."""
    with pytest.raises(BudgetExceeded):
        ask(ledger, "q", 10**30)


def test_the_same_question_pays_once(ledger):
    """A canonical query already charged gives that charge again."""
    first = ask(ledger, "count")
    assert ask(ledger, "count") == first
    assert ask(ledger, "count", id="r2", analyst="bob") == first
    assert ledger.budget()[1] == ONE


def test_odd_texts_are_kept_exactly(ledger):
    """Quotes, newlines, NUL and lone surrogates are only text."""
    for query in ["a'b\"c", "line\nline", "nul\0", "\ud800", "é", "e\u0301", ""]:
        assert ask(ledger, query, 1, id=query).query == query
        assert ledger.find(query)[0].query == query
    assert ledger.verify() == 8


def test_a_request_id_belongs_to_one_question(ledger):
    """The same id with the same question is free; with another it is refused."""
    first = ask(ledger, "count", id="r1")
    assert ask(ledger, "count", id="r1") == first
    with pytest.raises(QueryNotAllowed, match="'r1' was used for another question"):
        ask(ledger, "sum", id="r1")
    with pytest.raises(QueryNotAllowed):
        ledger.charge([Request("a", 1, None, "x"), Request("b", 1, None, "x")])
    assert ledger.budget()[1] == ONE


def test_a_later_id_is_bound_to_the_charge_too(ledger):
    """An id that got an earlier charge for free cannot be used for another question."""
    ask(ledger, "count")
    ask(ledger, "count", id="late")
    with pytest.raises(QueryNotAllowed):
        ask(ledger, "sum", id="late")


def test_ids_of_two_analysts_do_not_meet(ledger):
    """One analyst cannot block, or learn of, another's request ids."""
    ask(ledger, "count", id="1", analyst="ann")
    assert ask(ledger, "sum", id="1", analyst="bob").query == "sum"


def test_a_batch_is_paid_in_full_or_not_at_all(ledger):
    """Nothing of a batch that does not fit is charged; the message has the whole price."""
    with pytest.raises(BudgetExceeded, match="price=11 queries but remaining=10 queries"):
        ledger.charge([Request(f"q{i}", ONE, None) for i in range(11)])
    assert ledger.history() == []
    charges = ledger.charge([Request(f"q{i}", ONE, None) for i in range(10)])
    assert [charge.remaining for charge in charges] == [i * ONE for i in reversed(range(10))]


def test_duplicates_inside_a_batch_pay_once(ledger):
    """Two of the same question in one batch are one charge, each with its id."""
    a, b, c = ledger.charge(
        [Request("q", ONE, None, "1"), Request("q", ONE, None, "2"), Request("q", ONE, None)]
    )
    assert a == b == c
    assert ledger.budget()[1] == ONE
    assert ask(ledger, "q", id="2") == a


def test_an_empty_batch_is_nothing(ledger):
    """Neither a charge nor an entry comes of it."""
    assert ledger.charge([]) == []
    assert ledger.record([]) == []
    assert ledger.verify() == 1


# -- cells --


def test_rows_outside_the_selection_pay_nothing(ledger):
    """A charge to cells leaves the others alone; remaining is the smallest."""
    ask(ledger, "north", 4 * ONE, (0,))
    charge = ask(ledger, "north and south", 3 * ONE, (1, 0, 1))
    assert charge.remaining == 3 * ONE
    ask(ledger, "everybody", ONE)
    assert ledger.spent_by_cell() == {0: 8 * ONE, 1: 4 * ONE, 2: ONE, 3: ONE}
    assert ledger.budget() == (10 * ONE, 8 * ONE, 2 * ONE)


def test_each_cell_has_the_whole_budget(ledger):
    """A full cell refuses; the others go on; everybody is refused with it."""
    ask(ledger, "north", 10 * ONE, (0,))
    with pytest.raises(BudgetExceeded, match="remaining=0 queries"):
        ask(ledger, "north again", 1, (0, 1))
    with pytest.raises(BudgetExceeded, match="remaining=0 queries"):
        ask(ledger, "everybody", 1)
    ask(ledger, "south", 10 * ONE, (1,))
    assert ledger.spent_by_cell() == {0: 10 * ONE, 1: 10 * ONE, 2: 0, 3: 0}


def test_all_cells_are_everybody(ledger):
    """Naming every cell is the same as naming none."""
    ask(ledger, "all", ONE, (3, 2, 1, 0))
    assert set(ledger.spent_by_cell().values()) == {ONE}
    assert ledger.verify() == 2


def test_a_batch_adds_up_within_each_cell(ledger):
    """Everybody's and one cell's charges in one batch meet in that cell."""
    ask(ledger, "east", 2 * ONE, (2,))
    batch = [Request("everybody", 5 * ONE, None), Request("east again", 4 * ONE, (2,))]
    with pytest.raises(BudgetExceeded, match="price=9 queries but remaining=8 queries"):
        ledger.charge(batch)
    ledger.charge([batch[0], Request("north", 4 * ONE, (0,))])
    assert ledger.spent_by_cell() == {0: 9 * ONE, 1: 5 * ONE, 2: 7 * ONE, 3: 5 * ONE}


@pytest.mark.parametrize("cells", [(4,), (-1,), (True,), (0.0,)])
def test_cells_must_exist(ledger, cells):
    """A charge against a cell that is none is refused."""
    with pytest.raises(QueryNotAllowed, match="cells 0 to 3"):
        ask(ledger, "q", 1, cells)


def test_ten_thousand_cells(tmp_path):
    """The most cells a ledger has, half of them charged at once."""
    ledger = opened(tmp_path / "many", cells=10_000)
    ask(ledger, "half", ONE, tuple(range(5_000)))
    assert sum(ledger.spent_by_cell().values()) == 5_000 * ONE
    assert ledger.verify() == 2


# -- answers --


def test_the_first_answer_wins(ledger):
    """A second answer to the same charge is dropped and the stored one returned."""
    charge = ask(ledger, "count")
    assert ledger.find("count") == (charge, None)
    assert ledger.find("sum") is None
    assert ledger.record([(charge.number, '{"value": 7}')]) == ['{"value": 7}']
    assert ledger.record([(charge.number, '{"value": 8}')]) == ['{"value": 7}']
    assert ledger.find("count") == (charge, '{"value": 7}')


def test_answers_are_stored_together(ledger):
    """One call, one transaction, in the order given, the first of two for one charge."""
    a, b = ledger.charge([Request("a", 1, None), Request("b", 1, None)])
    assert ledger.record([(b.number, "1"), (a.number, "2"), (b.number, "3")]) == ["1", "2", "1"]


def test_no_answer_without_a_charge(ledger):
    """An answer to a charge the ledger does not have stops everything, and stores nothing."""
    charge = ask(ledger, "a")
    with pytest.raises(LedgerDamaged, match="Charge 99"):
        ledger.record([(charge.number, "1"), (99, "2")])
    assert ledger.find("a") == (charge, None)


def test_nothing_is_written_when_nothing_is_new(path, monkeypatch):
    """Repeats, lookups and budgets open no write transaction."""
    ledger = opened(path)
    charge = ask(ledger, "count", id="r")
    ledger.record([(charge.number, "1")])
    monkeypatch.setattr(ledger, "_writing", None)
    assert ask(ledger, "count", id="r") == ask(ledger, "count") == charge
    assert ledger.find("count") == (charge, "1")
    ledger.budget(), ledger.history(), ledger.spent_by_cell(), ledger.verify()


# -- opening again --


def test_reopening_goes_on_where_it_was(path):
    """Charges, answers, ids and cells are there after a restart."""
    first = opened(path)
    charge = ask(first, "count", 3 * ONE, (1,), id="r")
    first.record([(charge.number, "5")])
    first.close()
    again = opened(path)
    assert again.budget() == (10 * ONE, 3 * ONE, 7 * ONE)
    assert again.find("count") == (charge, "5")
    assert ask(again, "count", id="r") == charge
    assert again.verify() == 3


@pytest.mark.parametrize(("key", "value"), [("epsilon", 2.0), ("queries", 20), ("noise", "x")])
def test_the_promise_never_changes(path, key, value):
    """Another epsilon or T is refused, naming the value and why."""
    opened(path)
    terms = {**TERMS, "promise": {**TERMS["promise"], key: value}}
    with pytest.raises(PromiseError, match=f"{key}={value!r} but the ledger has") as error:
        opened(path, terms=terms)
    assert "would break it" in str(error.value)
    with pytest.raises(PromiseError, match="total=20 queries"):
        opened(path, total=20 * ONE)


def test_another_schema_needs_a_refresh(path):
    """A changed range or public column is refused and `sulq refresh` suggested."""
    opened(path)
    terms = {**TERMS, "schema": {"columns": {"age": {"high": 130}}}}
    with pytest.raises(SchemaError, match=r"columns.age.high=130 .*high=120") as error:
        opened(path, terms=terms)
    assert "sulq refresh" in str(error.value)
    with pytest.raises(SchemaError, match="cells=5"):
        opened(path, cells=5)


def test_terms_are_compared_as_json(path):
    """A tuple and a list, an int and the same int, are one value."""
    opened(path, terms={"promise": {}, "schema": {"values": ("a", "b")}})
    opened(path, terms={"promise": {}, "schema": {"values": ["a", "b"]}})


def test_reopen_needs_no_terms(path):
    """A ledger can be looked at with what is recorded in it."""
    ask(opened(path), "count")
    ledger = Ledger.reopen(path)
    assert (ledger.name, ledger.cells, ledger.total, ledger.terms) == ("clinic", 4, 10 * ONE, TERMS)
    with pytest.raises(Refused, match="does not exist"):
        Ledger.reopen(path.with_name("none"))


def test_files_are_for_the_owner_only(path):
    """The ledger and SQLite's files beside it have mode 0600, whatever the umask."""
    before = os.umask(0)
    try:
        ledger = opened(path)
        ask(ledger, "count")
    finally:
        os.umask(before)
    files = list(path.parent.iterdir())
    assert {f.name for f in files} == {path.name + end for end in ("", "-wal", "-shm")}
    assert {stat.S_IMODE(f.stat().st_mode) for f in files} == {0o600}


def test_two_ledgers_begun_alike_are_not_the_same(tmp_path):
    """Entry 0 holds a random id."""
    a, b = (next(opened(tmp_path / name).entries()) for name in "ab")
    assert a.hash != b.hash


def test_a_ledger_in_a_missing_folder_is_refused(tmp_path):
    """No folder is made for it."""
    with pytest.raises(Refused, match="cannot be created"):
        opened(tmp_path / "none" / "ledger")


def test_names_with_odd_characters_work(tmp_path):
    """A path is a path, not a URL."""
    path = tmp_path / "a b?mode=ro#%41&é"
    ask(opened(path), "count")
    assert path.exists()
    assert opened(path).budget()[1] == ONE


# -- refresh and notes --


def test_a_refresh_keeps_spending_and_drops_answers(ledger):
    """After a refresh old charges stay spent but pay for nothing."""
    answered, open_charge = ask(ledger, "count", id="r"), ask(ledger, "sum", id="s")
    ledger.record([(answered.number, "5")])
    terms = {**TERMS, "schema": {"columns": {}}}
    ledger.renew(terms, {"rows": 11})
    assert ledger.find("count") is None
    assert ledger.find("sum") is None
    assert ledger.budget()[1] == 2 * ONE
    new = ask(ledger, "count")
    assert new.number > answered.number
    assert ledger.budget()[1] == 3 * ONE
    assert ledger.history() == [answered, open_charge, new]
    assert ledger.terms == terms
    assert ledger.verify() == 6


def test_a_request_id_does_not_cross_a_refresh(ledger):
    """It would pay twice or mix rows, so it is refused and says why."""
    ask(ledger, "count", id="r")
    ledger.renew(TERMS, {})
    with pytest.raises(QueryNotAllowed, match="before the rows were refreshed"):
        ask(ledger, "count", id="r")


def test_an_answer_to_a_charge_from_before_a_refresh_is_kept_but_not_found(ledger):
    """Who was computing during the refresh gets the answer paid for; nobody else does."""
    charge = ask(ledger, "count")
    ledger.renew(TERMS, {})
    assert ledger.record([(charge.number, "5")]) == ["5"]
    assert ledger.find("count") is None
    ledger.verify()


def test_a_refresh_keeps_the_promise_and_the_cells(ledger):
    """Other terms or cells are refused, and nothing is written."""
    with pytest.raises(PromiseError, match="epsilon=9"):
        ledger.renew({"promise": {"epsilon": 9, "queries": 10}, "schema": {}}, {})
    with pytest.raises(SchemaError, match="cells=5"):
        ledger.renew(TERMS, {}, cells=5)
    assert ledger.verify() == 1


def test_a_process_that_missed_a_refresh_must_open_again(path):
    """It holds the old rows, so it may not charge for answers about the new ones."""
    old, other = opened(path), opened(path)
    other.renew(TERMS, {})
    with pytest.raises(SourceChanged, match="refreshed by another process"):
        ask(old, "count")
    assert other.budget()[1] == 0
    charge = ask(other, "count")
    with pytest.raises(EngineFailed, match="the old rows is not kept"):
        old.record([(charge.number, "old")])
    assert other.record([(charge.number, "new")]) == ["new"]
    assert old.record([(charge.number, "old")]) == ["new"]


def test_reopening_after_a_refresh_uses_the_new_schema(path):
    """The old one is refused from then on."""
    terms = {**TERMS, "schema": {"columns": {"age": {"high": 99}}}}
    opened(path).renew(terms, {"rows": 3})
    opened(path, terms=terms)
    with pytest.raises(SchemaError):
        opened(path)


def test_a_note_is_an_entry_like_any_other(ledger):
    """Kinds that the ledger writes itself are refused."""
    number = ledger.note("override", {"reason": "copy lost"})
    entry = list(ledger.entries())[number]
    assert (entry.kind, entry.body["reason"]) == ("override", "copy lost")
    for kind in ("charge", "answer", "open", "refresh", "", "a b", "x" * 17):
        with pytest.raises(ValueError, match="kind="):
            ledger.note(kind, {})


def test_the_chain_can_be_recomputed_by_anyone(ledger):
    """hash = SHA-256 of the previous hash, number, kind and canonical body."""
    charge = ask(ledger, "count")
    ledger.record([(charge.number, "5")])
    previous = "0" * 64
    for number, entry in enumerate(ledger.entries()):
        text = canonical(entry.body)
        assert (entry.number, entry.previous) == (number, previous)
        assert entry.hash == link_hash(previous, number, entry.kind, text)
        previous = entry.hash
    assert number == 2


def test_many_entries_are_walked_in_pages(ledger):
    """Nothing is lost between pages."""
    ledger.charge([Request(f"q{i}", 1, None) for i in range(2500)])
    assert [entry.number for entry in ledger.entries()] == list(range(2501))
    assert ledger.verify() == 2501


# -- threads, processes, forks --


def test_threads_share_one_ledger(ledger):
    """Forty threads, a budget for ten: exactly ten charges."""
    results = []

    def one(i):
        with contextlib.suppress(BudgetExceeded):
            results.append(ask(ledger, f"q{i}"))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(charge.remaining for charge in results) == [i * ONE for i in range(10)]
    ledger.verify()


def test_two_openings_see_each_other(path):
    """What one charges, the other has charged."""
    a, b = opened(path), opened(path)
    charge = ask(a, "count")
    assert ask(b, "count") == charge
    b.record([(charge.number, "5")])
    assert a.record([(charge.number, "6")]) == ["5"]
    ask(a, "sum")
    assert b.budget()[1] == 2 * ONE


def in_child(function):
    """Run in a forked child and give True if it returned True."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if function() is True else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_reconnects(path):
    """Parent and child go on with the same ledger, each with its own connection."""
    ledger = opened(path)
    ask(ledger, "before")

    def child():
        ask(ledger, "in the child")
        return ledger.budget()[1] == 2 * ONE

    assert in_child(child)
    ask(ledger, "after")
    assert ledger.budget()[1] == 3 * ONE
    assert ledger.verify() == 4


def test_a_fork_leaves_no_connection_open(path):
    """The child inherits no file of the ledger: SQLite's locks do not survive a fork."""
    ledger = opened(path)
    ask(ledger, "before")

    def child():
        names = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
        return not any(name.startswith(str(path)) for name in names)

    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("needs /proc")
    assert in_child(child)


def test_a_memory_ledger_stops_in_a_forked_child():
    """Each copy would spend the whole budget."""
    ledger = opened(":memory:")

    def child():
        try:
            ask(ledger, "count")
        except LedgerDamaged as error:
            return "forked" in str(error)

    assert in_child(child)
    assert ask(ledger, "count")


# -- failures that are not damage --


def test_a_locked_ledger_refuses_and_charges_nothing(path, monkeypatch):
    """Another process in a long write: the caller is told, and may try again."""
    monkeypatch.setattr(disk, "BUSY_SECONDS", 0.01)
    ledger = opened(path)
    paid = ask(ledger, "paid")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Refused, match="Nothing was charged"):
        ask(ledger, "count")
    with pytest.raises(EngineFailed, match="asking again does not pay again"):
        ledger.record([(paid.number, "1")])
    other.execute("ROLLBACK")
    other.close()
    ask(ledger, "count")
    assert ledger.record([(paid.number, "2")]) == ["2"]
    assert ledger.budget()[1] == 2 * ONE


def test_a_full_disk_refuses_and_charges_nothing(path):
    """Disk full is no damage: nothing was charged, and it goes on when there is room."""
    ledger = opened(path)
    paid = ask(ledger, "paid")
    with ledger._reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}").all()
    long = "q" * 20_000
    with pytest.raises(Refused, match=r"the disk is full. Nothing was charged") as full:
        ask(ledger, long)
    assert full.value.names_place  # so that a server tells the file's name to its owner only
    with pytest.raises(EngineFailed, match="The charge stands"):
        ledger.record([(paid.number, long)])
    assert ledger.budget()[1] == ONE
    with ledger._reading() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=100000").all()
    ask(ledger, long)
    assert ledger.verify() == 3


def test_a_file_replaced_while_in_use_stops_the_ledger(path):
    """Charges to a file nobody will open again are worth nothing."""
    ledger = opened(path)
    ask(ledger, "count")
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(LedgerDamaged, match="moved or replaced"):
        ask(ledger, "sum")
    with pytest.raises(LedgerDamaged, match="-wal is still there"):
        opened(path)


# -- the seal --


def test_the_ledger_marks_each_entry_outside(path):
    """After each commit the seal has the newest entry."""
    seal = Seal.open(path)
    ledger = opened(path, seal=seal)
    charge = ask(ledger, "count")
    assert seal.marked().number == 1
    ledger.record([(charge.number, "5")])
    assert seal.marked().hash == list(ledger.entries())[-1].hash


def test_a_deleted_ledger_is_not_begun_again(path):
    """Its mark remains; forgetting it is the owner's decision, and logged."""
    seal = Seal.open(path)
    ledger = opened(path, seal=seal)
    ask(ledger, "count")
    ledger.close()
    path.unlink()
    with pytest.raises(LedgerDamaged, match="sulq override"):
        opened(path, seal=Seal.open(path))
    body = seal.forget("the disk died")
    new = opened(path, seal=Seal.open(path))
    new.note("override", body)
    assert list(new.entries())[1].body["number"] == 1
