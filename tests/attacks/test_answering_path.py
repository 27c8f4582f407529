"""No unpaid answer, whatever breaks between the charge and the reply. No luck is involved."""

import json
import subprocess
import sys
import threading
from dataclasses import replace

import pyarrow.parquet as pq
import pytest
from attacks.children import (
    ask_once,
    at_once,
    die_after_drawing,
    die_while_scanning,
    in_threads,
    killed,
)
from attacks.harness import SCHEMA, opened, people

import sulq
from sulq import Query

T = 4
READ = """
import json, sqlite3, sys
rows = sqlite3.connect(sys.argv[1]).execute("SELECT body FROM entries WHERE kind = 'charge'")
print(json.dumps([json.loads(body)["query"] for (body,) in rows]))
"""


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "people.parquet"
    pq.write_table(people(), path)
    return path


def owned(source):
    return opened(source, ledger=None, queries=T)


class Spy:
    """An engine that looks, at the moment it is asked, at what another process can read."""

    def __init__(self, db, ledger):
        self._engine = db._pipeline.engine
        self.schema, self.rows = db._pipeline.engine.schema, db._pipeline.engine.rows
        self.ledger = ledger
        self.unpaid, self.calls = [], 0

    def sums(self, queries):
        self.calls += 1
        seen = subprocess.run(
            [sys.executable, "-c", READ, self.ledger], capture_output=True, check=True
        )
        paid = "\n".join(json.loads(seen.stdout))
        self.unpaid += [q.text for q in queries if q.text not in paid]
        return self._engine.sums(queries)

    def close(self):
        self._engine.close()


def watched(source):
    db = owned(source)
    db._pipeline.engine = Spy(db, f"{source}.ledger")
    return db


def test_when_a_row_is_read_its_charge_can_be_read_by_another_process(source):
    """Single questions, batches, tables, SQL and means, each seen paid before the scan."""
    db = watched(source)
    db.count("secret")
    db.ask([Query(where="secret"), Query(["income"])])
    db.mean("income", "secret", rows=sulq.Rows.where("id < 50"))
    db.histogram("region", where="secret")  # by a public column alone it would be free
    assert db._pipeline.engine.calls >= 4
    assert db._pipeline.engine.unpaid == []


def test_control_reading_before_paying_is_caught(source):
    """The same spy on a database that scans first."""
    db = watched(source)
    charge = db._pipeline._charge

    def scan_first(cases, found):
        db._pipeline.engine.sums([c for b in cases[0].bundles for c, _ in b.parts])
        return charge(cases, found)

    db._pipeline._charge = scan_first
    db.count("secret")
    assert len(db._pipeline.engine.unpaid) == 1


# ---- failures -------------------------------------------------------------------------------


class Failing:
    """Fails once, then works."""

    def __init__(self, db, error):
        self._sums, self._error = db._pipeline.engine.sums, error
        self.answered = 0

    def __call__(self, queries):
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        self.answered += 1
        return self._sums(queries)


@pytest.mark.parametrize(
    "error",
    [
        sulq.EngineFailed("no sum"),
        RuntimeError("Could not convert string 'joe@example.org' to INT64"),
        MemoryError(),
        sulq.QueryNotAllowed("too deeply nested"),
        KeyboardInterrupt(),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_failed_scan_stays_charged_and_a_retry_does_not_pay_again(source, error):
    """EngineFailed, without the engine's own words; no refund, and one answer in the end.

    What may depend on rows stops the database until its owner goes on; an interrupt does not.
    """
    db = owned(source)
    db._pipeline.engine.sums = failing = Failing(db, error)
    wanted = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else sulq.EngineFailed
    with pytest.raises(wanted) as caught:
        db.ask(Query(where="secret"), request_id="r")
    assert "joe@" not in str(caught.value)
    assert "nothing was charged" not in str(caught.value).lower()
    assert db.budget.spent == 1
    assert (db.frozen is None) == (wanted is KeyboardInterrupt)
    if db.frozen is not None:
        with pytest.raises(sulq.Frozen, match="Nothing was charged"):
            db.ask(Query(where="secret"), request_id="r")
        db.resume("seen")
    answers = [db.ask(Query(where="secret"), request_id=i).exact for i in ("r", None, "r", "s")]
    assert len(set(answers)) == 1
    assert (db.budget.spent, failing.answered) == (1, 1)


@pytest.mark.parametrize("die", [die_while_scanning, die_after_drawing])
@pytest.mark.parametrize("request_id", [None, "r"])
def test_killed_between_charge_and_answer_one_charge_and_one_answer(source, die, request_id):
    """kill -9 while rows are read, or with the noisy number in hand; then the retry."""
    arguments = (str(source), {"queries": T}, "secret", request_id)
    assert killed(die, *arguments) == -9
    db = owned(source)
    assert (db.budget.spent, len(db.history())) == (1, 1)
    assert killed(die, *arguments) == -9
    answers = [db.ask(Query(where="secret"), request_id=request_id).exact for _ in range(3)]
    assert len(set(answers)) == 1
    assert (db.budget.spent, len(db.history())) == (1, 1)


def test_the_same_request_id_at_once_is_one_charge_and_one_reply(source):
    """Four processes, and twelve threads, with one id."""
    terms = {"queries": T}
    found = at_once(ask_once, [(str(source), terms, "secret", "r")] * 4)
    db, start = owned(source), threading.Barrier(12)

    def ask(_):
        start.wait()
        answer = db.ask(Query(where="secret"), request_id="r")
        found.append((str(answer.exact[0][0]), str(answer.price.queries)))

    in_threads(ask, 12)
    assert len(found) == 16
    assert len(set(found)) == 1
    assert (db.budget.spent, len(db.history())) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (["secret"], ["not secret"]),
        (["secret", "age > 3"], ["secret", "age > 4"]),
        (["secret", "age > 3"], ["secret"]),
        (["secret"], ["secret", "age > 3"]),
        (["secret", "age > 3"], ["secret", "age > 3", "age > 4"]),
        (["secret", "age > 3"], ["age > 3", "secret"]),
    ],
)
def test_the_same_request_id_for_another_question_is_refused(first, second):
    """Other words, another list, a longer one, a shorter one, another order: nothing is paid."""
    db = opened(people(), queries=T)
    ask = lambda wheres: db.ask([Query(where=w) for w in wheres], request_id="r")  # noqa: E731
    answers = [a.exact for a in ask(first)]
    spent = db.budget.spent
    with pytest.raises(sulq.QueryNotAllowed, match="Nothing was charged"):
        ask(second)
    assert db.budget.spent == spent
    assert [a.exact for a in ask(first)] == answers


def test_a_batch_is_paid_whole_or_not_at_all(source):
    """One question too many: nothing is charged, no row is read, and what fits still goes."""
    db = owned(source)
    questions = [Query(where=f"secret and id <> {i}") for i in range(T + 1)]
    sums, calls = db._pipeline.engine.sums, []
    db._pipeline.engine.sums = lambda queries: calls.append(queries) or sums(queries)
    with pytest.raises(sulq.BudgetExceeded, match="Nothing was charged"):
        db.ask(questions, request_id="r")
    assert (db.budget.spent, db.history(), calls) == (0, [], [])
    assert len(db.ask(questions[:T], request_id="r")) == T
    assert (db.budget.remaining, len(calls)) == (0, 1)


def test_spent_out_a_stored_answer_is_still_given_and_nothing_new(source):
    """With nothing left, an old question is free and a new one refused, however small."""
    db = owned(source)
    questions = [Query(where=f"secret and id <> {i}") for i in range(T)]
    first = [a.exact for a in db.ask(questions)]
    assert [a.exact for a in db.ask(questions)] == first
    for question in (Query(where="secret"), replace(questions[0], error=10**6)):
        with pytest.raises(sulq.BudgetExceeded):
            db.ask(question)


# ---- what is declared -----------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_several_rows_per_person_are_protected_as_declared(guarantee):
    """Without [unit] the words and the price are of a row; with it, of a person and all theirs."""
    rows = opened(people(), guarantee=guarantee)
    columns = SCHEMA | {"owner": {"type": "integer"}}
    owners = people().append_column("owner", [[i // 5 for i in range(200)]])
    unit = {"column": "owner", "max_rows": 3}
    persons = opened(owners, {"columns": columns, "unit": unit}, guarantee=guarantee)
    assert "a row" in str(rows.promise)
    assert "a person" not in str(rows.promise)
    assert "a person" in str(persons.promise)
    question = Query(where="secret")
    assert persons.price(question).queries == 9 * rows.price(question).queries
    assert persons.rows == 120  # three rows of each of forty


def test_a_person_pays_for_rows_in_every_public_cell():
    """With [unit] no cell has a budget of its own: one person may have rows in several."""
    columns = SCHEMA | {"owner": {"type": "integer"}}
    owners = people().append_column("owner", [[i // 5 for i in range(200)]])
    unit = {"column": "owner", "max_rows": 1}
    db = opened(owners, {"columns": columns, "unit": unit}, queries=2)
    for region in ("north", "south"):
        db.count(f"secret and region = '{region}'")
    with pytest.raises(sulq.BudgetExceeded):
        db.count("secret and region = 'north' and age > 3")


@pytest.mark.parametrize("setting", ["person", "unit", "privacy_unit", "group"])
def test_a_setting_that_means_nothing_is_refused(setting):
    """Nobody can believe to have declared a protection that is not there."""
    with pytest.raises(sulq.SchemaError, match=f"{setting!r} is not a setting"):
        opened(people(), SCHEMA | {"id": {"key": True, setting: True}})
