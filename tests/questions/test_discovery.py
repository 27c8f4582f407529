"""Values that nobody listed: which are named, what is paid, and that nothing else is told."""

import datetime
import json

import numpy as np
import pandas as pd
import pytest
from helpers import ENGINES, SilentNoise, opened
from scipy.stats import binom

import sulq
from sulq.policies import _noisy
from sulq.questions.describe import query_of, readable
from sulq.values.query import Discover, Query

SCHEMA = {
    "columns": {
        "id": {"key": True},
        "word": {"type": "text"},
        "short": {"type": "text", "max_length": 1},
        "region": {"values": ["north", "south"], "public": True},
        "age": {"type": "integer", "low": 0, "high": 100},
        "sex": {"values": ["f", "m"]},
    }
}
OFTEN = {"flu": 300, "cold": 200, "gout": 90, "": 60, "Grippe": 3, "rare": 1}


def table(often=OFTEN, missing=5):
    words = [w for w, count in often.items() for _ in range(count)] + [None] * missing
    n = len(words)
    return pd.DataFrame(
        {
            "id": range(n),
            "word": pd.array(words, dtype="string"),
            "short": pd.array(words, dtype="string"),
            "region": np.where(np.arange(n) % 2, "north", "south"),
            "age": np.arange(n) % 100,
            "sex": "f",
        }
    )


def named(db, *args, **more):
    found = db.discover(*args, **more)
    return dict(
        zip(found["word" if "word" in found.columns else "short"], found["count"], strict=True)
    )


@pytest.fixture
def db():
    with opened(table(), SCHEMA, discoveries=5, queries=10) as db:
        yield db


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_counts_the_same_values(engine):
    """With a predicate in SQL, one for the kernel, a sample, and texts cut short."""
    running = ENGINES[engine](table(), SCHEMA)
    planner = opened(table(), SCHEMA, discoveries=5)._planner
    wanted = [
        (Query(Discover("word")), dict(OFTEN)),
        (Query(Discover("short")), {"f": 300, "c": 200, "g": 90, "": 60, "G": 3, "r": 1}),
        (Query(Discover("word"), where="age < 0"), {}),
    ]
    for where in ("region = 'north' and age < 50", "exp(age / 100.0) < 1.6", "region = 'north'"):
        wanted.append((Query(Discover("word"), where=where), None))
    wanted.append((Query(Discover("word"), rows=sulq.Rows.keys(range(0, 500, 2))), None))
    checked = [planner.check(query) for query, _ in wanted]
    reference = ENGINES["reference"](table(), SCHEMA).sums(checked)
    found = running.sums([*checked, planner.check(Query(where="age < 50"))])
    assert len(found) == len(wanted) + 1  # beside a plain question
    for (_, exact), pairs, right in zip(wanted, found, reference, strict=False):
        assert sorted(map(tuple, pairs)) == sorted(map(tuple, right))
        assert exact is None or dict(pairs) == exact
    assert dict(map(tuple, found[3])) != dict(OFTEN)


def test_values_below_the_threshold_do_not_leave(db):
    """The most frequent first; with silent noise, exactly those that reach the threshold."""
    limit = db._planner.check(Query(Discover("word"))).measurement.threshold / 1024
    assert 60 < limit < 200  # so that some are named, and some not
    assert list(named(db, "word").items()) == [
        (w, c) for w, c in sorted(OFTEN.items(), key=lambda x: -x[1]) if c >= limit
    ]
    assert named(db, "word", where="age < 0") == {}
    assert f"about {int(limit) + 1}" in str(db.discover("word"))
    alone = db.ask(Query(Discover("word"), where="word = 'flu'"))
    assert (alone.cells, alone.to_json()["cells"]) == (("flu",), ["flu"])


def test_at_least_pays_for_the_noise_that_it_needs(db):
    """A lower threshold costs more; the price is known before, and is what is charged."""
    prices = [db.price(Query(Discover("word", most))).queries for most in (80, None, 1000)]
    assert prices[0] > prices[1] == 2 > prices[2]
    assert set(named(db, "word", at_least=80)) == {"flu", "cold", "gout"}
    assert db.budget.spent == prices[0]
    with pytest.raises(sulq.QueryNotAllowed, match="more than 1 rows"):
        db.discover("word", at_least=1)


def test_the_same_question_is_free_and_one_from_every_door(db):
    """Python, a query, and SQL in any spelling; the answer is the stored one."""
    first = db.discover("word", where="age > 40")
    spent = db.budget.spent
    db._pipeline.noise = None  # nothing is drawn again
    again = db.sql(
        'select count(*), word from frame where 40 < age group by "word"(discover => true)'
    )
    assert again["word"] == first["word"]
    assert again["count(*)"] == first["count"]
    assert db.ask(Query(Discover("WORD"), where="age > 40")).cells == tuple(first["word"])
    assert db.budget.spent == spent
    assert len(db.history()) == 1


def test_sql_orders_and_filters_what_was_found(db):
    """HAVING, ORDER BY and LIMIT see noisy numbers alone."""
    found = db.sql(
        "select word as w, count(*) as n from frame "
        "group by word(discover => true, at_least => 70) "
        "having count(*) < 250 order by n limit 1"
    )
    assert found["w"] == ["gout"]
    assert found["n"] == [90]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("select word, avg(age) from frame group by word(discover => true)", "COUNT"),
        ("select count(*) from frame group by word(discover => true), sex", "alone"),
        ("select word, count(*) from frame group by word(discover => false)", "want GROUP BY"),
        ("select word, count(*) from frame group by word(find => true)", "want GROUP BY"),
        ("select sex, count(*) from frame group by sex(discover => true)", "declared"),
        ("select age, count(*) from frame group by age(discover => true)", "only texts"),
        ("select no, count(*) from frame group by no(discover => true)", "no"),
    ],
)
def test_sql_refuses_what_cannot_be_discovered(db, text, why):
    """Each with the reason, and nothing charged."""
    with pytest.raises(sulq.QueryNotAllowed, match=why):
        db.sql(text)
    assert db.history() == []


def test_refusals(db):
    """Keys, declared values, and what has no meaning beside it."""
    for column in ("id", "sex", "region", "age", "nobody"):
        with pytest.raises(sulq.QueryNotAllowed):
            db.discover(column)
    for query in (Query(Discover("word"), by="sex"), Query(Discover("word"), error=5)):
        with pytest.raises(sulq.QueryNotAllowed, match="leave by="):
            db.ask(query)
    for bad in (0, 1.5, True, "many"):
        with pytest.raises(sulq.QueryNotAllowed):
            Discover("word", bad)
    paper = opened(table(), SCHEMA, discoveries=1, pricing="paper")
    with pytest.raises(sulq.QueryNotAllowed, match="paper"):
        paper.discover("word")


def test_a_ledger_without_a_share_says_how_to_mend_it():
    """Delta was promised whole, so nothing of it can be set aside later."""
    with opened(table(), SCHEMA) as plain:
        with pytest.raises(sulq.QueryNotAllowed, match=r"(?s)begun without.*discoveries=10"):
            plain.discover("word")
        with pytest.raises(sulq.QueryNotAllowed, match="discover => true"):
            plain.sql("select word, count(*) from frame group by word")
        assert plain.history() == []


def test_a_share_is_fixed_with_the_promise(tmp_path):
    """Reopened it is known; another is refused; discoveries are counted across refreshes."""
    rows, ledger = tmp_path / "t.parquet", tmp_path / "t.ledger"
    table().to_parquet(rows)
    terms = {"ledger": ledger, "epsilon": 1.0, "queries": 30}
    with sulq.open(rows, SCHEMA, discoveries=2, **terms) as db:
        db.discover("word")
    with pytest.raises(sulq.PromiseError, match="discoveries"):
        sulq.open(rows, SCHEMA, discoveries=3, **terms)
    table(OFTEN | {"more": 400}).to_parquet(rows)
    from sulq.open_database import refresh

    with refresh(rows, ledger=ledger, reason="more rows") as db:
        assert "more" in named(db, "word")
    with sulq.open(rows, SCHEMA, ledger=ledger) as db:
        assert db.promise.discoveries == 2
        assert "more" in named(db, "word")  # what is stored stays free
        with pytest.raises(sulq.QueryNotAllowed, match="2 of 2 discoveries"):
            db.discover("word", where="age > 3")
        with pytest.raises(sulq.QueryNotAllowed, match="2 of 2 discoveries"):
            db.ask([Query(where="age > 1"), Query(Discover("short"))], together=True)
        assert len(db.history()) == 2
        assert [e.kind for e in db.entries()].count("discover") == 2
        assert db.verify()


def test_a_list_counts_each_discovery():
    """Two in one list are two of the share, as one question or as two."""
    db = opened(table(), SCHEMA, discoveries=5, queries=20)
    found = db.ask([Query(Discover("word")), Query(where="age > 1"), Query(Discover("short"))])
    assert [len(a.cells) for a in found] == [2, 1, 2], found
    db.ask([Query(Discover("word"), where="age > 1"), Query(Discover("short"), where="age > 1")],
           together=True)  # fmt: skip
    with pytest.raises(sulq.QueryNotAllowed, match="4 of 5"):
        db.ask([Query(Discover("word"), where="age > 2"), Query(Discover("word"), where="age > 4")])
    assert db.discover("word", where="age > 2")


@pytest.mark.real_noise
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_a_single_value_is_named_no_more_often_than_the_share_through_the_product(noise):
    """1,000 values of one row each, 30 times: at most 1e-3 of them. False alarm: 1e-6.

    With half the threshold far more are named, so the test would see it.
    """
    often = {f"only {i}": 1 for i in range(1000)} | {"all": 500}
    terms = {"discoveries": 1, "share": 1e-3, "delta": 2e-3, "queries": 1, "quiet": False}
    terms["noise"] = noise
    with opened(table(often), SCHEMA, **terms) as db:
        bundle = db._planner.priced([Query(Discover("word"))])
        ((checked, tariff),) = bundle.parts
        broken = _half(bundle, checked, tariff)
        counts = {}
        for name, asked in (("sound", bundle), ("broken", broken)):
            found = [
                value
                for _ in range(30)
                for value, _ in json.loads(_noisy(db._pipeline, [asked], None)[asked.text])[0]
            ]
            assert found.count("all") == 30
            counts[name] = len(found) - 30
    most = binom.ppf(1 - 1e-6, 30_000, 1e-3)
    assert counts["sound"] <= most < counts["broken"]


def _half(bundle, checked, tariff):
    """The same with half the threshold."""
    from dataclasses import replace

    sought = checked.measurement
    lower = replace(checked, measurement=replace(sought, threshold=sought.threshold // 2))
    return replace(bundle, parts=((lower, tariff),))


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_laplace_noise_names_what_enough_rows_have(guarantee):
    """The price is that of L1, 1 or 2, and m times that for m rows; at_least buys less noise."""
    terms = {"noise": "laplace", "guarantee": guarantee, "queries": 20, "discoveries": 2}
    often = {"many": 3000, "few": 3}
    whole = 1 if guarantee == "dp" else 2
    with opened(table(often), SCHEMA, **terms) as db:
        assert db.price(Query(Discover("word"))).queries == whole
        assert named(db, "word") == {"many": 3000}
        assert 1 < db.price(Query(Discover("word", 150))).queries / whole < 3
        assert named(db, "word", at_least=150) == {"many": 3000}
    with opened(table(often), SCHEMA, noise="laplace") as db:
        with pytest.raises(sulq.QueryNotAllowed, match="begun without"):
            db.discover("word")
        assert db.promise.delta == 0


def test_a_person_with_several_rows_needs_more_of_others():
    """With [unit] the price is that of m rows and the threshold is higher."""
    schema = json.loads(json.dumps(SCHEMA)) | {"unit": {"column": "who", "max_rows": 4}}
    schema["columns"]["who"] = {"type": "integer"}
    rows = table(OFTEN | {"mine": 900})
    rows["who"] = np.where(rows["word"].eq("mine").fillna(False), -1, rows["id"])
    with opened(rows, schema, discoveries=1, queries=100) as db:
        assert db.price(Query(Discover("word"))).queries == 2 * 16
        assert "mine" not in named(db, "word", at_least=250)
        view = db.per_person({"rows": "least(count(*), 4)"})
        with pytest.raises(sulq.QueryNotAllowed):
            view.discover("word")
        with pytest.raises(sulq.QueryNotAllowed):
            view.discover("rows")


def test_twins_see_the_same():
    """A value in one row more or less changes no price, text, refusal or number of draws."""
    seen = []
    for often in (OFTEN, OFTEN | {"rare": 0, "other": 1}):
        drawn = []

        class Counting(SilentNoise):
            def draw(self, law, count, drawn=drawn):
                drawn.append((law, count))
                return super().draw(law, count)

        with opened(table(often), SCHEMA, discoveries=2, queries=10) as db:
            db._pipeline.noise = Counting()
            found = db.discover("word")
            entries = [(e.kind, {**e.body, "time": 0, "id": 0}) for e in db.entries()]
            price = db.price(Query(Discover("word", 70), where="age > 3"))
            seen.append((str(found), drawn, entries, price, db.budget))
    assert seen[0] == seen[1]
    assert seen[0][1][0][1] == len(table())  # as many draws as there can be values


def test_it_is_said_in_words_and_read_back(db):
    """A history says what was asked, and a stored question is a query again."""
    db.discover("word", 100, where="age > 40")
    (charge,) = db.history()
    assert readable(charge.query) == "values of word that enough rows have where age > 40"
    assert query_of(json.loads(charge.query)) == Query(Discover("word", 100), where="age > 40")
    with pytest.raises(sulq.NotKnown):
        db.estimate(Query(Discover("word")))
    query = Query(Discover("word", 3), where="x")
    assert Query.from_json(json.loads(json.dumps(query.to_json()))) == query
    assert isinstance(datetime.datetime.fromisoformat(charge.time), datetime.datetime)


def test_an_empty_table_and_nothing_found():
    """No rows, no value that is there: an empty table, as any other answer."""
    for rows in (table({"a": 1}), table({}, missing=0), table({}, 3)):
        with opened(rows, SCHEMA, discoveries=2, queries=2) as db:
            found = db.discover("word")
            assert len(found) == 0
            assert str(found)
            assert (
                db.sql("select word, count(*) from frame group by word(discover => true)")["word"]
                == []
            )
