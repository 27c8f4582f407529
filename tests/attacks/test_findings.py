"""What a stranger's attack once found: each stays closed."""

import time
import warnings
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import opened

import sulq
from sulq import Bins, Blocks, Leaf, Products, Query, Rows
from sulq.kernel.sums import rows_at_most
from sulq.ledger.known_answers import KnownAnswers
from sulq.open_database import refresh
from sulq.values.query import Terms

TABLE = pa.table(
    {
        "id": np.arange(100),
        "age": np.arange(100),
        "x": np.arange(100) / 100,
        "name": ["a"] * 100,
        "smoker": np.arange(100) % 2 == 0,
    }
)
SCHEMA = {
    "columns": {
        "id": {"key": True},
        "age": {"type": "integer", "low": 0, "high": 120},
        "x": {"type": "number", "low": 0, "high": 1},
        "name": {"type": "text"},
        "smoker": {"type": "boolean"},
    }
}


def database(**more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sulq.open(TABLE, SCHEMA, **({"epsilon": 1.0, "queries": 50} | more))


def nested(text, times, start="x"):
    for _ in range(times):
        start = text.format(start)
    return start


def deep(times):
    out = [1]
    for _ in range(times):
        out = [out]
    return out


def wide_tree(levels, branches):
    tree = None
    for _ in range(levels):
        tree = {"column": "age", "branches": [[i, None] for i in range(branches)], "other": tree}
    return tree


REFUSED = {
    "a root that underflows": lambda d: database(noise="laplace").price(
        Query(("x*1e300",), error=1)
    ),
    "an error far too small": lambda d: database(noise="laplace").price(
        Query(("age",), error=1e-15)
    ),
    "an error far too wide": lambda d: d.price(Query(("x*1e-300",), error=50)),
    "a tree that doubles": lambda d: d.price(Query((nested("nullif({},1)", 40),))),
    "betweens in betweens": lambda d: d.price(Query(where=nested("({} between 0 and 1)", 40))),
    "buckets in buckets": lambda d: d.price(
        Query(("width_bucket(width_bucket(x,0,1,400),0,1,400)",))
    ),
    "a very wide tree": lambda d: d.price(Query(by=Leaf(wide_tree(28, 300)))),
    "sixty medians by age": lambda d: d.price(
        f"select age, {', '.join(f'median(x*{i})' for i in range(1, 60))} from frame group by age"
    ),
    "an empty group": lambda d: Terms(groups=[[]]),
    "groups of nothing": lambda d: Terms(groups=5),
    "sums as one text": lambda d: Terms(sums="age"),
    "a weight in words": lambda d: d.price(Query(Products(["x"], mean_weight="a"))),
    "a tiny weight": lambda d: d.price(Query(Products(["x"], mean_weight=1e-300))),
    "tiny weights": lambda d: d.price(Query(("x",), weights=(1e-20,))),
    "a list in by": lambda d: d.price(Query(by=(["a"],))),
    "a list in a batch": lambda d: d.ask([[1]]),
    "a list as a seed": lambda d: d.price(Query(by=Blocks([1], 2))),
    "a set of edges": lambda d: d.price(Query(by=Bins("age", {1, 2}))),
    "a list as a predicate": lambda d: d.price(Query(rows=Rows(predicate=["a"]))),
    "a list as a column": lambda d: d.histogram(["age"]),
    "no column": lambda d: d.histogram(None),
    "JSON that is no object": lambda d: Query.from_json(5),
    "deep JSON": lambda d: Query.from_json({"by": deep(3000)}),
    "deep edges": lambda d: Bins("age", deep(3000)),
    "a seed of 5,000 digits": lambda d: d.price(Query(by=Blocks(10**5000, 3))),
    "a level in words": lambda d: d.count().interval("a"),
    "half a character": lambda d: d.count("name = '\ud800'"),
    "digits that a cast would drop": lambda d: d.sum("cast(x as decimal(10,0))"),
    "sample and blocks": lambda d: d.price(
        Query.from_json({"rows": {"kind": "rows", "seed": 1, "rate": "1/2", "count": 3}})
    ),
    "an id that is no text": lambda d: d.ask(Query(), request_id=0),
    "an id of bytes": lambda d: d.ask(Query(), request_id=b""),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_at_once(what):
    """A clear refusal, nothing charged, no hang: once these crashed, hung or ate memory."""
    db, start = database(), time.process_time()
    with pytest.raises(sulq.Refused):
        REFUSED[what](db)
    assert time.process_time() - start < 5  # minutes before
    assert len(db.history()) <= 1


def test_an_id_that_is_no_text_leaves_the_ledger_whole(tmp_path):
    """Zero as a request id was written as 0 and looked up as nothing."""
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path)
    with sulq.open(path, SCHEMA, epsilon=1.0, queries=10) as db:
        for wrong in (0, False, 0.0, [], b""):
            with pytest.raises(sulq.QueryNotAllowed):
                db.ask(Query(), request_id=wrong)
        db.ask(Query(), request_id="")
    with sulq.open(path, SCHEMA, epsilon=1.0, queries=10) as db:
        assert db.verify() > 0


VISITS = pa.table({"who": [1] * 9 + [2], "visit": range(10), "b": [True] * 10, "x": [1.0] * 10})
COLUMNS = {
    "who": {"type": "integer"},
    "visit": {"key": True},
    "b": {"type": "boolean"},
    "x": {"type": "number", "low": 0, "high": 1, "nullable": False},
}


@pytest.mark.parametrize("unit", [{"column": "visit", "max_rows": 1}, None])
def test_a_refresh_cannot_change_who_a_person_is(tmp_path, unit):
    """Another unit would charge 1 for what moves a promised person's nine rows."""
    path = tmp_path / "v.parquet"
    pq.write_table(VISITS, path)
    before = {"columns": COLUMNS, "unit": {"column": "who", "max_rows": 9}}
    sulq.open(path, before, epsilon=1.0, queries=1000).close()
    after = {"columns": COLUMNS} | ({"unit": unit} if unit else {})
    with pytest.raises(sulq.SchemaError, match="unit"):
        refresh(path, after, reason="x")
    fewer = {"columns": COLUMNS, "unit": {"column": "who", "max_rows": 3}}
    assert refresh(path, fewer, reason="x").price(Query(where="b")).queries == 9


def test_the_advice_to_continue_a_ledger_names_its_place(tmp_path, monkeypatch):
    """Followed to the letter from another folder, it must not begin a new one."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(TABLE, home / name)
    sulq.open(home / "a.parquet", SCHEMA, epsilon=1.0, queries=10).close()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sulq.Refused, match="already have a ledger") as refusal:
        sulq.open("home/b.parquet", SCHEMA, epsilon=1.0, queries=10)
    assert str(home / "a.parquet.ledger") in str(refusal.value)


def test_rows_beyond_max_rows_are_not_counted_in_n(tmp_path):
    """In a CSV n once counted the rows that were cut off, and means were too small."""
    path = tmp_path / "v.csv"
    VISITS.to_pandas().to_csv(path, index=False)
    schema = {"columns": COLUMNS, "unit": {"column": "who", "max_rows": 1}}
    with sulq.open(path, schema, epsilon=1.0, queries=100) as db:
        assert db.rows == 2


def test_nothing_of_another_type_has_the_same_canonical_text():
    """NULL as a whole number and as a fraction have other grids, so they are other questions."""
    db = database()
    texts = {
        db._planner.check(Query((e,))).text for e in ("null + age", "cast(null as double) + age")
    }
    assert len(texts) == 2


def test_looking_at_large_questions_keeps_nothing():
    """Prices are free: what they leave behind must stay small, or memory is for the taking."""
    from sulq import planner
    from sulq.expressions import parse as expressions

    planner._small.cache_clear()  # one that is full after other tests would hide what is kept
    expressions._short.cache_clear()
    db = database_with_key()
    kept = planner._small.cache_info().currsize, expressions._short.cache_info().currsize
    for seed in range(3):
        db.price(Query(by=Blocks(seed, 50_000)))
        db.price(Query(rows=Rows.blocks(seed, 50_000)))
        db.price(Query(where=f"age in ({', '.join(str(i) for i in range(seed, seed + 110))})"))
    assert (planner._small.cache_info().currsize, expressions._short.cache_info().currsize) == kept
    db.price(Query(where="age > 41 and smoker"))  # control: a small one is kept
    assert planner._small.cache_info().currsize == kept[0] + 1


def database_with_key():
    db = database()
    db.price(Query(where="age > 40"))  # what every price reads is read
    return db


LISTS = {  # of more numbers than fit: public ones, and rough ones at a millionth of a query each
    "free": [Query(by=Blocks(seed, 100_000)) for seed in range(11)],
    "paid": [Query(where="smoker", by=Blocks(seed, 100_000), error=3e7) for seed in range(11)],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_as_many_numbers_as_fit(name):
    """Running out of memory stops a database for everybody, and this costs nearly nothing."""
    db = database()
    for ask in (db.price, db.ask, lambda queries: db.ask(queries, together=True)):
        with pytest.raises(sulq.QueryNotAllowed, match="numbers, at most"):
            ask(LISTS[name])
    assert db.history() == []
    assert db.frozen is None
    assert len(db.ask(LISTS["free"][:1])[0].values) == 100_000  # control: one of them is answered


def test_wide_questions_read_few_rows_at_a_time():
    """A row takes part in as many vectors as a question has parts: together they fit."""
    assert all(rows_at_most(width) * width <= 2**26 for width in (1, 100, 2**14, 10**5, 10**6))
    assert rows_at_most(10**8) == 1


def test_what_is_kept_of_public_counts_stays_small(monkeypatch):
    """They are free, so whatever is asked, no more is kept than is worth it."""
    monkeypatch.setattr("sulq.pipeline.MAX_KEPT", 1_000)
    db = database()
    for seed in range(5):
        db.ask([Query(by=Blocks(seed, 400)), Query(by=Blocks(seed, 401))])
        assert sum(map(len, db._pipeline.known.values())) <= 1_000
    db.ask([Query(by=Blocks(seed, 600)) for seed in (1, 2)])
    assert sum(map(len, db._pipeline.known.values())) <= 1_000


def test_no_estimate_looks_at_more_public_counts_than_are_quickly_read(monkeypatch):
    """They are free, so one analyst could make those of all others take as long as they liked."""
    monkeypatch.setattr("sulq.pipeline.MAX_KEPT_TEXTS", 10)
    db = database()
    for k in range(30):
        assert db.sizes(*(Rows.where(f"id < {100 * k + i}") for i in range(1, 8)))[0] == (
            min(100 * k + 1, db.rows),
        )
        assert len(db._pipeline.known) <= 10
    assert len(db.sizes(*(Rows.where(f"id < {i}") for i in range(1, 20)))) == 19
    assert not db._pipeline.known
    monkeypatch.setattr("sulq.estimator.MOST_PUBLIC", 5)
    looked, form = [], KnownAnswers.form
    monkeypatch.setattr(
        KnownAnswers, "form", lambda self, part: looked.append(part) or form(self, part)
    )
    db.sizes(*(Rows.where(f"id < {i}") for i in range(1, 10)))
    with suppress(sulq.NotKnown):
        db.estimate(Query(where="smoker"))
    assert len(looked) == 5
    monkeypatch.setattr("sulq.pipeline.MAX_KEPT_LETTERS", 2_000)
    for k in range(30):
        db.sizes(Rows.where(f"id < {k}"))
        assert sum(map(len, db._pipeline.known)) <= 2_000


def test_estimates_are_there_although_keys_were_counted():
    """Both are free, for everybody; one kept a text that the other could not read."""
    db = database()
    db.count("smoker")
    before = db.estimate(Query(where="smoker"))
    db.key_counts()
    assert db.estimate(Query(where="smoker")) == before


def test_public_counts_survive_that_others_forget_them(monkeypatch):
    """What a thread knows is not lost while it reads rows and another makes room."""
    db = database()
    first = db.count("id < 10")
    read = db._pipeline.public

    def forgetting(counting, until=None):
        db._pipeline.known.clear()
        return read(counting, until)

    monkeypatch.setattr(db._pipeline, "public", forgetting)
    both = db.ask([Query(where="id < 10"), Query(where="id < 20")])
    assert [a.exact for a in both] == [first.exact, ((20,),)]


def test_a_list_of_many_constants_is_a_question():
    """What is too long to be written in its one form is asked as it stands, public parts apart."""
    db = opened(TABLE, SCHEMA, queries=1000)
    many = ", ".join(str(i) for i in range(1, 2000, 2))
    assert db.count(f"id in ({many})").value == 50
    assert db.history() == []
    assert db.count(f"id in ({many}) and smoker is false").value == 50
    assert db.count(f"not id in ({many}) and smoker").value == 50


@pytest.mark.parametrize("collation", ["NOCASE", "NOACCENT", "NFC"])
def test_texts_of_an_owners_table_are_compared_as_they_are_stored(tmp_path, collation):
    """What a collation calls equal is counted apart, by every way a row is read."""
    import duckdb

    path = str(tmp_path / "rows.duckdb")
    words = ["north", "NORTH", "n\u00f3rth", "no\u0301rth"]
    with duckdb.connect(path) as made:
        kind = f"VARCHAR COLLATE {collation}"
        made.execute(f"CREATE TABLE people (id {kind}, region {kind}, word {kind}, s BOOLEAN)")
        made.executemany("INSERT INTO people VALUES (?, ?, ?, TRUE)", [[w, w, w] for w in words])
    schema = {
        "id": {"key": True, "shards": 5}, "region": {"values": ["north", "south"], "public": True},
        "word": {"type": "text"}, "s": {"type": "boolean", "nullable": False},
    }  # fmt: skip
    db = opened(path, schema, table="people", queries=100)
    for where in ("s and region = 'north'", "s and word = 'north'", "s and word like 'north'",
                  "s and region in ('north', 'south')", "s and word = 'north' and exp(1) > 2",
                  "s and region = 'north' and regexp_matches(word, 'n')"):  # fmt: skip
        assert db.count(where).value == 1, where
    assert db.histogram("region", where="s")["count"] == [1, 0, 3]
    assert [db.count("s", rows=Rows.keys([w])).value for w in words] == [1, 1, 1, 1]
