"""The encoded store: the same integers as the rows it was made from, and the same ledger."""

from __future__ import annotations

import datetime
import os
import shutil
import stat

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest
from engines.test_contract import ONE_ROW, SCHEMA, _cases, _rows, _table
from helpers import LOCAL as ENGINES
from helpers import checked, opened

import sulq
from sulq.questions.check import check
from sulq.sources.source import open_source

DAY = datetime.date


@pytest.fixture
def place(tmp_path):
    """A folder with 300 rows full of edges."""
    pyarrow.parquet.write_table(_table(_rows()), tmp_path / "people.parquet")
    return tmp_path


def encoded(folder, schema=SCHEMA, source="people.parquet", out="people.sulq", **settings):
    return sulq.encode(folder / source, schema, folder / out, **settings)


def open_here(path, schema=None, **settings):
    return sulq.open(path, schema, **{"epsilon": 1.0, "queries": 100} | settings)


def made_with(engine, source, schema=None):
    """An engine over rows, or over a store with the schema that it has."""
    return ENGINES[engine](source, schema or open_source(source).facts["schema"])


# --- equal integers -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_row(tmp_path_factory):
    """The one row of expressions.sql, as it is and encoded."""
    folder = tmp_path_factory.mktemp("one")
    table = pa.table({n: pa.array([v], kind) for n, (_, kind, v) in ONE_ROW.items()})
    declared = {n: d for n, (d, _, _) in ONE_ROW.items()}
    pyarrow.parquet.write_table(table, folder / "one.parquet")
    made = sulq.encode(folder / "one.parquet", declared, folder / "one.sulq")
    return [ENGINES["reference"](table, declared), *(made_with(e, made) for e in ENGINES)]


def test_every_expression_is_worth_the_same(one_row):
    """All of expressions.sql: summed, as a condition, and whether it is missing."""
    asked = 0
    for expression, _ in _cases():
        queries = [sulq.Query([expression]), sulq.Query(where=f"({expression}) is null")]
        found = [e.sums(checked(queries, e)) for e in one_row]
        assert found[1:] == found[:1] * 2, expression
        asked += 1
    assert asked > 200


QUESTIONS = [
    sulq.Query(),
    sulq.Query(["age", "income", "height", "smoker", "level"]),
    *(sulq.Query(by=c) for c in ("region", "smoker", "member", "level", "age")),
    sulq.Query(["income"], by=("region", "smoker"), where="age > 17"),
    sulq.Query(by=sulq.Bins("age", [0, 18, 65, 120])),
    sulq.Query(by=sulq.Bins("income", [-50, 0, 0.1, 1000])),
    sulq.Query(by=sulq.Bins("born", [DAY(1930, 1, 1), DAY(1960, 2, 29), DAY(2020, 12, 31)])),
    sulq.Query(by=sulq.Blocks(3, 7)),
    sulq.Query(rows=sulq.Rows.sample(5, 0.3)),
    sulq.Query(by=sulq.Side(["age", "income"], [1.0, -2.0], 0.1)),
    sulq.Query(by=sulq.NearestCentre(["age", "height"], [[0.1, 0.2], [0.8, 0.9]])),
    sulq.Query(by=sulq.Leaf({"column": "region", "branches": [["north", None]], "other": None})),
    sulq.Query(sulq.Mean("income"), by="region"),
    sulq.Query(sulq.Sums(["age", "income", "smoker"], row_norm=0.5)),
    sulq.Query(sulq.Products(["age", "income"], mean_weight=1.0)),
    sulq.Query(["exp(least(height, 1)) + ln(age + 1)"]),
    sulq.Query(["income * height", "age * 2", "income / (age + 1)"], where="smoker or member"),
    sulq.Query(by="age % 7"),
    sulq.Query(by="date_trunc('year', born)"),
    sulq.Query(by="case when region = 'north' then 'n' else 'other' end"),
    # Words that the schema does not know, met with a column of known ones.
    sulq.Query(where="coalesce(region, 'atlantis') = 'atlantis'"),
    sulq.Query(where="coalesce(region, 'atlantis') in ('north', 'atlantis')"),
    sulq.Query(where="coalesce(region, 'nowhere') = 'nowhere'"),
    sulq.Query(where="lower(region) like '%th' and length(region) = 5"),
    sulq.Query(where="note = 'select' or note like '%b'"),
    sulq.Query(where="level = 1 or level is null"),
    sulq.Query(rows=sulq.Rows.where("id > 1005 or id is null")),
    sulq.Query(rows=sulq.Rows.where("region = 'north' and id < 0")),
]


def test_every_partition_holds_the_same(place):
    """Categories, bins, blocks, samples, centres, leaves, dates, products: bit for bit, asked
    alone and together, on both engines; out-of-range and undeclared values included."""
    table = _table(_rows())
    made = encoded(place)
    reference = ENGINES["reference"](table, SCHEMA)
    wanted = reference.sums(checked(QUESTIONS, reference))
    for name in ENGINES:
        engine = made_with(name, made)
        queries = checked(QUESTIONS, engine)
        assert engine.sums(queries) == wanted
        assert [engine.sums([q])[0] for q in queries] == wanted
        assert engine.sums(queries[2:7]) == wanted[2:7]  # one cube
        assert engine.rows == reference.rows


@pytest.mark.parametrize("noise", ["gaussian", "laplace", "binomial", "stitched"])
def test_prices_and_texts_are_the_same(place, noise):
    """A store changes nothing that is public: its canonical questions are those of the rows."""
    store = made_with("duckdb", encoded(place))
    original = ENGINES["duckdb"](place / "people.parquet", SCHEMA)
    assert store.schema.to_json() == original.schema.to_json()
    for query in (sulq.Query(), sulq.Query(by="region"), sulq.Query(where="smoker")):
        texts = [check(query, e.schema, noise, "beliefs").text for e in (store, original)]
        assert texts[0] == texts[1]


ODD = {
    "a b": {"type": "number", "low": 0, "high": 1},
    'a"b': {"type": "integer", "low": 0, "high": 9},
    "select": {"values": ["x'y", 'x"y', "", "日本"]},
    "x": {"type": "number", "low": -1, "high": 1},
    "x#grid": {"type": "number", "low": 0, "high": 5},
    "X#grid#": {"type": "integer", "low": 0, "high": 5},
    "rows": {"type": "boolean"},
    "sulq": {"type": "boolean", "nullable": False},
    "type of select": {"values": ["p", "q"]},
    "Ünï": {"values": [1, 2]},
    "file_row_number": {"type": "integer", "low": 0, "high": 9},
}


def test_odd_names_and_colliding_ones(tmp_path):
    """Names with quotes, spaces, SQL words, and those the store itself would choose."""
    table = pa.table(
        {
            "a b": [0.25, None], 'a"b': [3, 99], "select": ["x'y", "日本"], "x": [0.5, -7.0],
            "x#grid": [4.0, 5.5], "X#grid#": [2, None], "rows": [True, None],
            "sulq": [True, None], "type of select": ["q", "z"], "Ünï": [2, 3],
            "file_row_number": [1, 2],
        }
    )  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    made = encoded(tmp_path, ODD)
    names = ['"' + n.replace('"', '""') + '"' for n in ODD]
    numbers = [n for n, d in zip(names, ODD.values(), strict=True) if "values" not in d]
    queries = [sulq.Query(numbers), *(sulq.Query(by=n) for n in names if "x" not in n.lower()[:3])]
    queries = [queries[0], *(q for q in queries[1:] if q.by not in ('"a b"',))]
    found = []
    for source, schema in ((table, ODD), (made, None)):
        for name in ENGINES:
            engine = made_with(name, source, schema)
            found.append(engine.sums(checked(queries, engine)))
    assert found == found[:1] * 4


def test_columns_are_as_narrow_as_their_range(tmp_path):
    """Whole numbers take as many bytes as they need, numbers their grid beside them."""
    declared = {
        "tiny": {"type": "integer", "low": -128, "high": 127},
        "small": {"type": "integer", "low": -129, "high": 5},
        "plain": {"type": "integer", "low": 0, "high": 2**31 - 1},
        "big": {"type": "integer", "low": 0, "high": 2**31},
        "number": {"type": "number", "low": 0, "high": 1},
        "words": {"values": ["a", "b"]},
        "flag": {"type": "boolean"},
        "day": {"type": "date", "low": DAY(2000, 1, 1), "high": DAY(2001, 1, 1)},
    }
    table = pa.table(
        {
            "tiny": [1], "small": [1], "plain": [1], "big": [1], "number": [0.5], "words": ["a"],
            "flag": [True], "day": [DAY(2000, 5, 5)],
        }
    )  # fmt: skip
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    made = encoded(tmp_path, declared)
    with duckdb.connect(str(made), read_only=True) as connection:
        types = dict(r[:2] for r in connection.execute("describe rows").fetchall())
    assert {n: t.split("(")[0] for n, t in types.items()} == {
        "tiny": "TINYINT", "small": "SMALLINT", "plain": "INTEGER", "big": "BIGINT",
        "number": "DOUBLE", "number#grid": "INTEGER", "words": "ENUM", "flag": "BOOLEAN",
        "day": "DATE",
    }  # fmt: skip


def test_keys_are_kept_as_they_were(tmp_path):
    """A key beyond its declared range, or beyond 2^53, forms the same blocks and samples."""
    declared = {"id": {"type": "integer", "key": True, "low": 0, "high": 10}}
    table = pa.table({"id": pa.array([5, 11, -3, 2**62, None], pa.int64())})
    pyarrow.parquet.write_table(table, tmp_path / "people.parquet")
    made = encoded(tmp_path, declared)
    queries = [
        sulq.Query(by=sulq.Blocks(1, 5)), sulq.Query(rows=sulq.Rows.sample(2, 0.5)),
        sulq.Query(["id"]), sulq.Query(rows=sulq.Rows.where("id = 10")),
    ]  # fmt: skip
    found = [
        engine.sums(checked(queries, engine))
        for source, schema in ((table, declared), (made, None))
        for engine in (made_with(name, source, schema) for name in ENGINES)
    ]
    assert found == found[:1] * 4


@pytest.mark.parametrize("kind", ["csv", "duckdb", "arrow", "store"])
def test_rows_of_every_source_can_be_encoded(place, kind):
    """Parquet, CSV, a DuckDB file, a frame, and a store itself."""
    table = _table(_rows()).drop_columns(["note", "income", "height", "id"])
    declared = {n: d for n, d in SCHEMA.items() if n in table.column_names}
    settings = {"ledger": place / "own.ledger"} if kind == "arrow" else {}
    source = place / f"rows.{kind}"
    if kind == "csv":
        table.to_pandas().to_csv(source, index=False)
    elif kind == "duckdb":
        with duckdb.connect(str(source)) as connection:
            connection.register("given", table)
            connection.execute("create table given_rows as select * from given")
    elif kind == "store":
        pyarrow.parquet.write_table(table, place / "some.parquet")
        source = sulq.encode(place / "some.parquet", declared, place / "first.sulq")
        declared = None
    else:
        source = table
    made = sulq.encode(source, declared, place / "made.sulq", **settings)
    queries = [sulq.Query(by=c) for c in ("region", "smoker", "level", "age")]
    engine, other = made_with("duckdb", made), made_with("reference", source, declared)
    assert engine.sums(checked(queries, engine)) == other.sums(checked(queries, other))


# --- one ledger ---------------------------------------------------------------------------


def test_a_store_goes_on_with_the_ledger_of_its_rows(place):
    """What was spent stays spent, and answers are shared, from either side."""
    with open_here(place / "people.parquet", SCHEMA) as db:
        first = db.count("smoker")
    made = encoded(place)
    with open_here(made) as store:
        assert store.budget.spent == 1
        assert store.count("smoker").exact == first.exact  # stored, free
        assert store.budget.spent == 1
        second = store.sum("age", "smoker")
        assert store.name == "people"
        asked = "select region, count(*) from people where smoker group by region"
        assert len(store.sql(asked)) == 5
    with open_here(place / "people.parquet", SCHEMA) as db:
        assert db.sum("age", "smoker").exact == second.exact
        assert len(db.history()) == 3
    assert not (place / "people.sulq.ledger").exists()


def test_a_store_may_come_first(place):
    """The ledger begins with the first question, whichever of the two it is asked of."""
    made = encoded(place)
    with open_here(made) as store:
        store.count("smoker")
    with open_here(place / "people.parquet", SCHEMA) as db:
        assert db.budget.spent == 1
    with pytest.raises(sulq.PromiseError):
        open_here(made, epsilon=2.0)


def test_the_rows_may_be_gone(place):
    """A store is enough by itself."""
    made = encoded(place)
    (place / "people.parquet").unlink()
    with open_here(made) as store:
        assert store.rows == 300


def test_both_cannot_have_ledgers_of_their_own(place):
    """The same rows in one folder are one spending, also under another ledger's name."""
    made = encoded(place)
    with open_here(made) as store:
        store.count("smoker")
    with pytest.raises(sulq.Refused, match="already have a ledger"):
        open_here(place / "people.parquet", SCHEMA, ledger=place / "other.ledger")
    with pytest.raises(sulq.SulqError):
        open_here(made, ledger=place / "other.ledger")


# --- changed and foreign files ------------------------------------------------------------


def _edit_rows(made):
    with duckdb.connect(str(made)) as connection:
        connection.execute("update rows set smoker = not smoker")


def _edit_facts(made):
    with duckdb.connect(str(made)) as connection:
        connection.execute("update sulq set facts = replace(facts, '.ledger', '.other')")


def _flip_a_byte(made):
    with made.open("r+b") as file:
        file.seek(made.stat().st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("edit", [_edit_rows, _edit_facts, _flip_a_byte])
def test_a_changed_store_is_refused(place, edit):
    """Rows, facts or any byte: a store is as `sulq encode` made it, or is not answered from."""
    made = encoded(place)
    with open_here(made) as store:
        store.count("smoker")
    edit(made)
    with pytest.raises((sulq.SourceChanged, sulq.SchemaError)):
        open_here(made)


def test_a_store_that_changes_while_open_is_noticed(place):
    """A store whose times moved is not asked."""
    made = encoded(place)
    with open_here(made) as store:
        store.count("smoker")
        os.utime(made, (1, 1))
        with pytest.raises(sulq.SourceChanged):
            store.count("not smoker")


def test_a_foreign_store_is_refused(place, tmp_path_factory):
    """Moved to another folder, or put in the place of another: there is no fresh budget."""
    made = encoded(place)
    other = tmp_path_factory.mktemp("other")
    shutil.copy(made, other / "people.sulq")
    with pytest.raises(sulq.SourceChanged, match="is not as `sulq encode` made it"):
        open_here(other / "people.sulq")
    pyarrow.parquet.write_table(_table(_rows(seed=9)), other / "people.parquet")
    made.unlink()
    shutil.copy(encoded(other, out="own.sulq"), made)
    with pytest.raises(sulq.SourceChanged):
        open_here(made)


def test_a_folder_may_move_as_a_whole(place):
    """Store, ledger and .sulq together: the spending comes along, and only one of two goes on."""
    with open_here(encoded(place)) as store:
        store.count("smoker")
    moved = place.with_name("moved")
    shutil.copytree(place, moved)
    with pytest.raises(sulq.LedgerDamaged, match="is a copy"):
        open_here(moved / "people.sulq")
    shutil.rmtree(place)
    with open_here(moved / "people.sulq") as store:
        assert store.budget.spent == 1


# --- the file -----------------------------------------------------------------------------


def test_only_the_owner_can_read_it(place):
    """Mode 0600, whatever the umask, and nothing is left beside it."""
    before = os.umask(0)
    try:
        made = encoded(place)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert {p.name for p in place.iterdir()} == {"people.parquet", "people.sulq", ".sulq"}


def test_nothing_is_ever_overwritten(place):
    """A file of that name is kept as it is, a store or not."""
    made = encoded(place)
    before = made.read_bytes()
    with pytest.raises(sulq.SchemaError, match=r"'people.sulq' exists. Remove it"):
        encoded(place)
    assert made.read_bytes() == before
    (place / "note.sulq").write_text("mine")
    with pytest.raises(sulq.SchemaError, match="exists"):
        encoded(place, out="note.sulq")
    assert (place / "note.sulq").read_text() == "mine"


def test_a_failed_encoding_leaves_nothing(place):
    """A schema that does not fit is refused before anything is written."""
    with pytest.raises(sulq.SchemaError):
        encoded(place, SCHEMA | {"weight": {"type": "boolean"}})
    assert {p.name for p in place.iterdir()} <= {"people.parquet", ".sulq"}


def test_another_schema_is_refused(place):
    """A store has the schema it was made with; the same one may be given."""
    made = encoded(place)
    with open_here(made, SCHEMA) as store:
        assert store.columns == list(SCHEMA)
    wider = SCHEMA | {"age": {"type": "integer", "low": 0, "high": 200}}
    with pytest.raises(sulq.SchemaError, match="encoded with another schema"):
        open_here(made, wider)


def test_what_is_no_store_is_refused(place):
    """Any other file called .sulq, a DuckDB file, a store of another version."""
    (place / "text.sulq").write_text("hello")
    with duckdb.connect(str(place / "plain.duckdb")) as connection:
        connection.execute("create table rows (x int)")
    shutil.copy(place / "plain.duckdb", place / "plain.sulq")
    with duckdb.connect(str(place / "plain.duckdb")) as connection:
        connection.execute("create table sulq as select '{\"version\": 99}' as facts")
    shutil.copy(place / "plain.duckdb", place / "newer.sulq")
    for name, message in (
        ("text", "is not a store"),
        ("plain", "is not a store"),
        ("newer", "another version of sulq"),
    ):
        with pytest.raises(sulq.SchemaError, match=message):
            open_here(place / f"{name}.sulq")


def test_where_a_store_may_go(place):
    """Its name ends in .sulq, its folder exists, and its spending needs a ledger file."""
    with pytest.raises(sulq.SchemaError, match=r"ends in \.sulq"):
        encoded(place, out="people.duckdb")
    with pytest.raises(sulq.SchemaError, match="does not exist"):
        encoded(place, out="nowhere/people.sulq")
    with pytest.raises(sulq.Refused, match="name the ledger file"):
        sulq.encode(_table(_rows()), SCHEMA, place / "frame.sulq")
    with pytest.raises(sulq.SchemaError, match="declare the columns"):
        encoded(place, None)


def test_a_store_answers_in_memory_too(place):
    """A trial with a ledger in memory, exact with silent noise."""
    db, original = (
        opened(source, schema, name="people")
        for source, schema in ((encoded(place), None), (place / "people.parquet", SCHEMA))
    )
    asked = "select region, count(*), avg(income), median(age) from people group by region"
    assert repr(db.sql(asked).columns) == repr(original.sql(asked).columns)
