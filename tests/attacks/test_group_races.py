"""Three datasets of a group with one T, eight processes that ask all of them, some of them killed.

Exactly T is spent over all, on files and on a server. No luck is involved: a process that dies does
so at a place of the test's choosing, and what it asked is asked again.
"""

import os
import signal
from multiprocessing import get_context

import postgres
import pytest
from soak import in_soak, some, times

from sulq.errors import BudgetExceeded
from sulq.ledger import Ledger, Request
from sulq.ledger.group_ledger import GroupLedger
from sulq.ledger.location import sealed
from sulq.sources.postgres import LEDGER, Address, with_word

PROCESS = get_context("fork")
PROCESSES, TOTAL = 8, 100
NAMES = ("people", "visits", "tests")
ASKED = times(40, 240)  # questions, each to all three datasets
TERMS = {"promise": {}, "unit": None}


def places(tmp_path, kind):
    """The group's ledger and those of its datasets: files of a folder, or schemas of a database."""
    if kind == "files":
        return [str(tmp_path / f"{name}.ledger") for name in ("group", *NAMES)]
    base = Address.read(postgres.ledger())
    named = (base.ledger, *(f"{base.ledger}.{name}" for name in NAMES))
    return [with_word(base.url, LEDGER, name) for name in named]


def members(where):
    """The three ledgers, each in the group, in this process."""
    books = []
    for name, place in zip(NAMES, where[1:], strict=True):
        book = Ledger.open(
            place, terms={"promise": {}, "schema": {}}, cells=2, total=TOTAL, name=name,
            seal=sealed(place),
        )  # fmt: skip
        group = GroupLedger.open(where[0], "patients", TERMS, TOTAL)
        book.join(group)
        group.close()
        books.append(book)
    return books


def request(number):
    """A question about everyone."""
    return Request(f"q{number}", 1, None, id=f"r{number}")


def ask_all(where, numbers, start, results, dies_at):
    """Ask each dataset each question; or die where the group has counted and the dataset not."""
    start.wait()
    books, paid = members(where), 0
    if dies_at is not None:
        spend, left = GroupLedger.spend, [dies_at]

        def then_die(self, *arguments):
            found = spend(self, *arguments)
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

        GroupLedger.spend = then_die  # in this process, which is not long for this world
    for number in numbers:
        for book in books:
            try:
                charge = book.charge([request(number)])[0]
                book.record([(charge.number, "answer")])
                paid += 1
            except BudgetExceeded:
                continue
    results.put(paid)


def race(where, deaths=()):
    """Eight processes at once, of which some die after so many charges, unless T ends before.

    Gives what each of the others paid, and how many died.
    """
    start, results = PROCESS.Barrier(PROCESSES), PROCESS.Queue()
    dying = dict(deaths)
    children = [
        PROCESS.Process(
            target=ask_all,
            args=(where, range(i, ASKED, PROCESSES), start, results, dying.get(i)),
        )
        for i in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join(300)
    codes = [child.exitcode for child in children]
    dead = codes.count(-signal.SIGKILL)
    assert codes.count(0) == PROCESSES - dead
    assert all(i in dying for i, code in enumerate(codes) if code)
    return [results.get(timeout=10) for _ in range(PROCESSES - dead)], dead


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """This machine's folder, of this test's own."""
    monkeypatch.setenv("SULQ_HOME", str(tmp_path))


def whole(where):
    """What each dataset was charged, as its own ledger has it; all chains are walked."""
    books = members(where)
    for book in books:
        book.verify()
    charged = [sum(c.price for c in book.history()) for book in books]
    standing = books[0].standing()
    for book in books:
        book.close()
    assert all(m.top >= own for m, own in zip(standing.members, charged, strict=True))
    return charged, standing


@pytest.mark.parametrize("kind", ["files", "server"])
def test_eight_processes_spend_exactly_the_total_of_a_group(tmp_path, kind):
    """120 questions and more to three datasets, T = 100: exactly 100 are paid over all."""
    where = places(tmp_path, kind)
    for book in members(where):
        book.close()
    paid, _ = race(where)
    charged, standing = whole(where)
    assert sum(paid) == sum(charged) == standing.spent == TOTAL


@pytest.mark.parametrize(
    ("kind", "after"), some([("files", 3), ("server", 2), ("files", 1), ("server", 5)], 1)
)
def test_killed_between_the_two_ledgers_nothing_is_given_and_nothing_paid_twice(
    tmp_path, kind, after
):
    """Four of eight die when the group has counted a charge that the dataset has not.

    What they asked is asked again: those charges are found, not paid twice, and exactly T is spent.
    """
    where = places(tmp_path, kind)
    for book in members(where):
        book.close()
    _, dead = race(where, [(i, after) for i in range(4)])
    charged, standing = whole(where)
    assert dead > 0
    assert sum(charged) == standing.spent - dead  # each death wasted its own charge
    race(where)
    charged, standing = whole(where)
    assert sum(charged) == standing.spent == TOTAL


def test_control_ledgers_apart_spend_more_than_the_total(tmp_path):
    """Without a group the same questions to three ledgers spend T three times over."""
    places_apart = places(tmp_path, "files")[1:]
    spent = 0
    for name, place in zip(NAMES, places_apart, strict=True):
        book = Ledger.open(
            place, terms={"promise": {}, "schema": {}}, cells=2, total=TOTAL, name=name,
            seal=sealed(place),
        )  # fmt: skip
        for number in range(TOTAL + 1):
            try:
                spent += book.charge([Request(f"q{number}", 1, None)])[0].price
            except BudgetExceeded:
                break
        book.close()
    assert spent == 3 * TOTAL


@in_soak
@pytest.mark.parametrize("kind", ["files", "server"])
def test_kills_at_every_count_of_charges(tmp_path, kind):
    """The whole of it: deaths after 1 to 12 charges, round after round on one group."""
    where = places(tmp_path, kind)
    for book in members(where):
        book.close()
    for after in range(1, 13):
        race(where, [(i, after) for i in range(0, PROCESSES, 2)])
    race(where)
    charged, standing = whole(where)
    assert sum(charged) == standing.spent == TOTAL
