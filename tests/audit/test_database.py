"""The audited front door: opening, paying, the ledger's order, retries, reopening, reports."""

import json
import threading
import warnings
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attacks.children import at_once
from audit.harness import PRIORS, SCHEMA, asks, audited, duan, outcome, people
from scipy.stats import chi2

import sulq
from sulq.audit import classes
from sulq.audit.promise import AuditPromise, Nothing, dither_law
from sulq.audit.total import restore, total_of
from sulq.expressions.stored_tree import node_of
from sulq.ledger import Ledger, Request
from sulq.open_database import append, refresh
from sulq.report import markdown, report

TABLE = people(4000)
TERMS = {"epsilon": 1.0, "queries": 20, "mode": "audited", "independent_rows": True}


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


def opened(path, **terms):
    return audited(path, ledger=None, **terms)


# --- opening --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"independent_rows": False}, "independent_rows=True"),
        ({"independent_rows": "yes"}, "independent_rows=True"),
        ({"priors": None}, "no default"),
        ({"rule": "magic"}, "want one of classes, duan"),
        ({"dither": -1}, "want a standard deviation"),
        ({"dither": "2"}, "want a standard deviation"),
        ({"known": 1}, "want a share"),
        ({"known": True}, "want a share"),
        ({"queries": None}, "state the promise"),
        ({"epsilon": None}, "state the promise"),
        ({"delta": 0}, "between 0 and 1"),
        ({"noise": "laplace"}, "adds no noise"),
        ({"rule": "duan"}, "takes none"),
        ({"independent_columns": "yes"}, "want True or False"),
        ({"mode": "noisy"}, "want 'noise' or 'audited'"),
        ({"mode": "noise", "independent_rows": False}, "belongs to mode='audited'"),
    ],
)
def test_terms_that_cannot_be_are_refused(terms, said):
    """Each refusal says what is wrong with the terms."""
    given = TERMS | {"ledger": ":memory:", "priors": PRIORS} | terms
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(sulq.PromiseError, match=said):
            sulq.open(TABLE, SCHEMA, **given)


def test_duan_says_what_it_does_not_see():
    """Opening under that rule warns."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sulq.open(TABLE, SCHEMA, ledger=":memory:", rule="duan", **TERMS)
    assert any("does not see low-order digits" in str(w.message) for w in said)


def test_rows_of_one_person_are_not_independent():
    """A unit of several rows is refused."""
    schema = {"columns": SCHEMA, "unit": {"column": "id", "max_rows": 2}}
    with pytest.raises(sulq.PromiseError, match="not independent"):
        audited(TABLE, schema)


def test_the_promise_in_words():
    """It says what is proved, what is not, and the priors."""
    said = str(audited(TABLE, dither=2).promise)
    for words in ("exact up to a dither of 2", "50% of the rows", "independent", "is not proved",
                  "a: false 0.7, true 0.3", "73.1%", "Not hidden"):  # fmt: skip
        assert words in said
    assert "does not see low-order digits" in str(duan(TABLE).promise)


def test_terms_survive_json():
    """Terms read back from JSON are the same."""
    for db in (audited(TABLE, known=0.25, dither=1.5), duan(TABLE)):
        body = json.loads(json.dumps(db.promise.to_json()))
        assert AuditPromise.from_json(body) == db.promise


# --- one dataset, one promise -----------------------------------------------------------------


def test_noisy_and_audited_never_share_a_table(path):
    """The same rows are one or the other for good: the ledger knows which."""
    opened(path).close()
    with pytest.raises(sulq.PromiseError, match="mode=None but the ledger has mode='audited'"):
        sulq.open(path, SCHEMA, epsilon=1.0, queries=20)
    with pytest.raises(sulq.Refused, match="already have a ledger"):
        sulq.open(path, SCHEMA, epsilon=1.0, queries=20, ledger=path.with_name("b.ledger"))


def test_audited_after_noisy_is_refused(path):
    """A ledger has one mode for its life."""
    sulq.open(path, SCHEMA, epsilon=1.0, queries=20).close()
    with pytest.raises(sulq.PromiseError, match="mode='audited' but the ledger has mode=None"):
        opened(path)


@pytest.mark.parametrize(
    "other",
    [
        {"known": 0.1}, {"dither": 1}, {"queries": 21}, {"delta": 1e-5}, {"rule": "duan"},
        {"priors": {"a": 0.5}}, {"priors": PRIORS | {"c": 0.4}}, {"independent_columns": False},
    ],
)  # fmt: skip
def test_terms_never_change(path, other):
    """Opening with other terms than the ledger's is refused."""
    opened(path).close()
    with pytest.raises(sulq.PromiseError, match="but the ledger has"):
        opened(path, **other)


def test_a_ledger_of_before_the_question_says_what_it_rested_on(path):
    """Its terms do not speak of columns: it goes on for who declares it, and says so to others."""
    with opened(path, independent_columns=True) as db:
        assert "independent_columns" not in db.promise.to_json()  # as earlier versions wrote it
        assert "none of them makes a value rarer" in str(db.promise)
    with pytest.raises(sulq.PromiseError, match=r"open with independent_columns=True\. If not"):
        opened(path, independent_columns=False)
    opened(path, independent_columns=True).close()


def test_one_prior_needs_no_declaration(path):
    """A single private column goes with nothing: an old ledger of it opens as it was begun."""
    for declared in (False, True, False):
        with opened(path, priors={"a": 0.3}, independent_columns=declared) as db:
            assert outcome(db, "a") != "refused"
            assert "whatever" not in str(db.promise)


def test_another_sample_is_refused(path):
    """The simulated rows belong to the terms."""
    opened(path, rule="duan", simulate=people(300, seed=2)).close()
    opened(path, rule="duan", simulate=lambda n: people(300, seed=2)).close()
    with pytest.raises(sulq.PromiseError, match="sample"):
        opened(path, rule="duan", simulate=people(300, seed=3))
    with pytest.raises(sulq.PromiseError, match="sample"):
        opened(path, rule="duan")


def test_changed_rows_are_refused(path):
    """Exact sums before and after a change would tell the change."""
    with opened(path) as db:
        assert outcome(db, "a") != "refused"
        pq.write_table(people(4001), path)
        with pytest.raises(sulq.SourceChanged):
            db.count("b")
    with pytest.raises(sulq.Refused, match="sums before and after"):
        refresh(path, SCHEMA, reason="one more row")


def test_an_append_is_refused_before_rows_are_written(path):
    """Exact counts of everybody before and after would tell the row that came."""
    declared = {
        "columns": {
            "month": {"values": ["jan", "feb"], "public": True},
            "sick": {"type": "boolean"},
        },
        "period": {"column": "month"},
    }
    old = pa.table({"month": ["jan"] * 600, "sick": [True, False] * 300})
    pq.write_table(old, path)
    terms = TERMS | {"priors": {"sick": (0.4, 0.6)}, "independent_columns": True}
    with sulq.open(path, declared, **terms) as db:
        db.count("sick")
    with pytest.raises(sulq.Refused, match="audited answers are exact"):
        append(path, pa.table({"month": ["feb"], "sick": [True]}))
    assert pq.read_table(path).num_rows == 600
    with sulq.open(path, declared, **terms) as db:
        assert db.rows == 600


# --- paying ---------------------------------------------------------------------------------


def test_every_question_is_one_of_m():
    """Answered or refused, about everybody or about one region: one query each, then no more."""
    db = audited(TABLE, queries=4)
    query = sulq.Query(where="a and region = 'north'")
    assert db.price(query).queries == 1
    assert db.price([query, sulq.Query(where="b"), query]).queries == 2
    assert [outcome(db, w) == "refused" for w in ("a", "a and id < 3", "b")] == [0, 1, 0]
    db.ask(query)
    db.ask(sulq.Query(where="region = 'north'"))  # public: exact, and none of the 4
    assert [c.price for c in db.history()] == [1_000_000] * 4
    assert {cell["spent"] for cell in db.budget_by_cell()} == {4}  # whichever region it was about
    assert db.budget.remaining == 0
    with pytest.raises(sulq.BudgetExceeded, match="no question is left of the 4 of 'frame'"):
        db.count("a and b")
    assert outcome(db, "a") != "refused"  # stored
    assert outcome(db, "a and id < 3") == "refused"


def test_the_charge_is_durable_before_anything_is_decided(path):
    """The ledger on disk has each charge when the auditor judges."""
    db = opened(path)

    class Spy:
        seen = ()

        def __init__(self, auditor):
            self._auditor = auditor

        def judge(self, total):
            ledger = Ledger.reopen(path.with_name("people.parquet.ledger"))
            Spy.seen = (*Spy.seen, len(ledger.history()))
            ledger.close()
            return self._auditor.judge(total)

        def __getattr__(self, name):
            return getattr(self._auditor, name)

    db._pipeline.policy._verdicts.auditor = Spy(db._pipeline.policy._verdicts.auditor)
    outcome(db, "a")
    outcome(db, "a and id < 3")
    assert Spy.seen == (1, 2)


def test_a_list_is_asked_in_order_up_to_the_first_refusal():
    """What stands before it is answered, what stands behind it is not asked."""
    db = audited(TABLE)
    queries = [sulq.Query(where=w) for w in ("a", "b")]
    assert len(db.ask(queries)) == 2
    with pytest.raises(sulq.AuditRefused):
        db.ask(
            [sulq.Query(where="c"), sulq.Query(where="a or id = 1"), sulq.Query(where="a and b")]
        )
    assert db.budget.spent == 4


def test_request_ids():
    """A repeated id gets the same reply; another question under it is refused."""
    for db in (audited(TABLE, dither=2), duan(TABLE, dither=2, queries=2, epsilon=3.0)):
        query = sulq.Query(where="c")
        first = db.ask(query, request_id="r")
        assert db.ask(query, request_id="r").exact == first.exact
        with pytest.raises(sulq.QueryNotAllowed, match="another question"):
            db.ask(sulq.Query(where="b"), request_id="r")
        assert db.budget.spent == 1


def test_duan_refuses_the_same_again_for_nothing():
    """A repeated question is refused without a charge."""
    db = duan(TABLE, queries=2, epsilon=3.0)
    assert outcome(db, "c") != "refused"
    with pytest.raises(sulq.AuditRefused, match="Nothing was charged") as refusal:
        db.count("c")
    assert not refusal.value.charged
    assert db.budget.spent == 1


def test_analysts_share_one_auditor():
    """Two names, one history: what one was told counts for the other."""
    db = audited(TABLE)
    one, two = db.as_analyst("ann"), db.as_analyst("bob")
    assert outcome(one, "a") != "refused"
    assert outcome(two, "a and id <> 5") == "refused"
    assert [c.analyst for c in db.history()] == ["ann", "bob"]


# --- the ledger's order -----------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_an_auditor_opened_again_knows_what_was_answered(path, rule):
    """What its answers would tell is refused after a new start too."""
    terms = {"rule": rule, "epsilon": 4.0, "queries": 6}
    with opened(path, **terms) as db:
        first = [outcome(db, w) for w in ("c", "b", "c and id <> 9")]
    with opened(path, **terms) as db:
        assert outcome(db, "c or id = 9") == "refused"
        assert outcome(db, "c and id <> 9") == "refused"
        assert outcome(db, "b") == (first[1] if rule == "classes" else "refused")
        assert db.budget.spent == 4


def test_a_question_in_flight_counts_as_answered(path, monkeypatch):
    """Charged, then interrupted: what conflicts with it is refused; it may be asked again."""

    def interrupted(checked, until=None):
        raise KeyboardInterrupt

    with opened(path) as db:
        monkeypatch.setattr(db._pipeline, "sums", interrupted)
        with pytest.raises(KeyboardInterrupt):
            db.count("a")
    with opened(path) as db:
        assert outcome(db, "a and id <> 7") == "refused"
        assert outcome(db, "a") != "refused"
        assert db.budget.spent == 2


def test_too_many_combinations_stop_no_one_else(path, monkeypatch):
    """Opened again, it learns what was answered after the charge: then the verdict refuses.

    It once tried to tell them all apart, ran out of memory, and nothing was answered ever after.
    """
    monkeypatch.setattr(classes, "MAX_VALUES", 3)
    with opened(path) as db:
        assert outcome(db, "a") != "refused"
    with opened(path) as db:
        with pytest.raises(sulq.AuditRefused, match="4 combinations of private values"):
            db.count("b")
        assert outcome(db, "not a") != "refused"
        assert db.budget.spent == 3


def test_two_open_databases_are_one_auditor(path):
    """Whichever asks first, the pair that tells Joe is never answered."""
    one, two = opened(path), opened(path)
    assert outcome(one, "a and id <> 11") != "refused"
    assert outcome(two, "a") == "refused"
    assert outcome(one, "a and id <> 12") == "refused"
    assert outcome(one, "a or id = 11") != "refused"  # one more than the first, as anyone knows
    assert outcome(two, "b and id <> 11 and id < 2000") != "refused"
    assert outcome(one, "b and id <> 11 and id < 2001") == "refused"
    one.close()
    two.close()


def test_threads_that_ask_at_once_never_get_both(path):
    """Pairs that differ in one row, asked by 8 threads at once: no pair is answered in full."""
    db = opened(path, queries=40)
    halves = [f"a and id < {1000 + i}" for i in range(16)]
    got = {}

    def ask(some):
        for where in some:
            got[where] = outcome(db, where)

    threads = [threading.Thread(target=ask, args=(halves[i::8],)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum(v != "refused" for v in got.values()) == 1
    assert db.budget.spent == 16


def test_processes_that_ask_at_once_never_get_both(path):
    """Three questions of which any two tell Joe, from three processes: one is answered."""
    opened(path).close()
    ways = ["a", "a and id <> 3", "a and id <> 4"]
    got = at_once(asks, [(path, where) for where in ways])
    assert got.count("refused") == 2
    with opened(path) as db:
        assert [outcome(db, where) for where in ways] == got
        assert db.budget.spent == 3


# --- what the ledger keeps ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "where",
    [
        "a", "not a or b", "a xor (id = 5)", "city in ('rome', 'lima')", "city like 'r%'",
        "coalesce(a, b)", "case when a then b else c end", "a is not null", "nullif(city, 'rome') "
        "is null", "id between 3 and 9 and a", "cast(a as integer) + cast(b as integer) = 1",
        "age > 40 and x * 2 < 1.5", "width_bucket(x, 0, 1, 10) = 3", "region like 'o''b%'",
        "null", "a and null", "x >= 1e-7", "-age < -3",
    ],
)  # fmt: skip
def test_questions_are_read_back_exactly(where):
    """What is rebuilt from the ledger's text is the question, to the last node."""
    schema = sulq.Schema.load(SCHEMA)
    total, checked = total_of(sulq.Query(where=where), schema)
    assert restore(checked.text, schema) == total
    assert (total.unit, total.step) == (1, 1)


@pytest.mark.parametrize(
    "value", ["x", "age", "x * age - 3", "floor(x * 10) / 10", "case when a then x else 0 end"]
)
@pytest.mark.parametrize("where", [None, "b", "id < 9"])
def test_sums_are_read_back_with_their_grid(value, where):
    """A stored question restores to the same total, unit and step."""
    schema = sulq.Schema.load(SCHEMA)
    total, checked = total_of(sulq.Query((value,), where=where), schema)
    assert restore(checked.text, schema) == total
    (release,) = checked.releases
    assert (total.unit, total.step) == (release.unit, release.step)


def test_what_cannot_be_read_back_is_refused(monkeypatch):
    """A question that history could not restore is not charged."""
    db = audited(TABLE)
    monkeypatch.setattr("sulq.audit.total.restore", lambda text, schema: None)
    with pytest.raises(sulq.QueryNotAllowed, match="could not read back"):
        db.count("a")
    assert db.budget.spent == 0


A, B = {"column": "a"}, {"column": "b"}


@pytest.mark.parametrize(
    "tree",
    [
        ["and", B, A], ["nonsense", A], [A, B], ["part", "year", A], ["not"], [], {}, {"row": "a"},
        {"column": "nobody"}, {"column": ["a"]}, ["eq", A, True], ["add", 1, 1.0], {"date": "x"},
        A | B | {"null": "x"},
    ],
)  # fmt: skip
def test_json_that_no_question_has_is_refused(tree):
    """Only the canonical JSON of a row function is read back."""
    with pytest.raises(ValueError, match=r"."):
        node_of(tree, sulq.Schema.load(SCHEMA))


def test_a_ledger_text_of_another_schema_is_refused():
    """A stored question about a column that is not declared is no question here."""
    with pytest.raises(sulq.QueryNotAllowed, match="not a question of this schema"):
        restore('{"values":[{"column":"nobody"}]}', sulq.Schema.load(SCHEMA))


def test_a_ledger_that_cannot_be_read_back_answers_nothing_more():
    """An entry the auditor does not understand may have told anything."""
    db = audited(TABLE)
    db._ledger.charge([Request("something else", 0, None)])
    with pytest.raises(sulq.LedgerDamaged, match="is no question that this auditor can read"):
        db.count("a")


def test_report_and_history(path):
    """The owner's page shows terms, answers and refusals; nothing about rows beyond answers."""
    with opened(path, dither=0) as db:
        wanted = outcome(db, "a")
        outcome(db, "a and id < 3")
        page = markdown(report(db._ledger, answers=True))
    assert f"{wanted:,} +/- 0" in page
    assert "refused: this would single out 3 rows by id" in page
    assert "count where a" in page
    assert "rows are independent, as the owner declared" in page
    assert "dither" in page


# --- the dither ---------------------------------------------------------------------------------


def test_the_dither_has_the_declared_standard_deviation():
    """1,500 draws fit a standard deviation of 2 and no 1.6 or 2.4. False alarm: 1e-9."""
    draws = np.array(dither_law(Fraction(2), Fraction(1)).draw(1500))

    def fits(std):
        sum2 = (draws**2).sum() / std**2
        return chi2.ppf(5e-10, len(draws)) < sum2 < chi2.isf(5e-10, len(draws))

    assert fits(2.0)
    assert not fits(1.6)
    assert not fits(2.4)
    assert {int(x) % 2 for x in draws} == {0, 1}  # parity is no longer the sum's


def test_the_dither_is_drawn_once_and_kept(path):
    """One draw of the declared law for each new question, none for an old one."""

    class Counting:
        laws = ()

        def draw(self, law, count):
            Counting.laws = (*Counting.laws, (law, count))
            return [7] * count

    for _ in range(2):
        with opened(path, dither=2) as db:
            db._pipeline.noise = Counting()
            for name in ("a", "b", "c"):
                answer = db.count(name)
                assert answer.value == np.sum(TABLE.column(name).to_pylist()) + 7
                assert answer.std == 2
                assert answer.interval() == (answer.value - 4, answer.value + 4)
    assert Counting.laws == ((dither_law(Fraction(2), Fraction(1)), 1),) * 3


def test_no_dither_is_no_noise():
    """The law of an exact answer draws 0 and says so."""
    law = Nothing()
    assert (law.std, law.half_width(0.95), law.draw(3)) == (0.0, 0.0, [0, 0, 0])
    assert (law.pmf(0), law.pmf(1)) == (1.0, 0.0)
    assert str(audited(TABLE).count("a")).endswith("+/- 0 (95%), price 1 query, 19 left")
