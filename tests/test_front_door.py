"""What a user meets: the public names, plain answers, how they print, help when it goes wrong."""

from __future__ import annotations

import datetime
import inspect
import json
import math
import pkgutil
import subprocess
import sys
import warnings
from pathlib import Path

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers import SilentNoise, opened

import sulq

SCHEMA = {
    "id": {"type": "integer", "key": True},
    "region": {"values": ["north", "south"], "public": True},
    "smoker": {"type": "boolean", "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "income": {"type": "number", "low": 0, "high": 1024},
    "born": {"type": "date", "low": "1950-01-01", "high": "1990-12-31"},
}
ROWS = [
    {
        "id": i,
        "region": "north" if i % 3 else "south",
        "smoker": i % 4 == 0,
        "age": 20 + i,
        "income": None if i % 5 == 0 else i * 0.5,
        "born": datetime.date(1950 + i, 1, 1),
    }
    for i in range(40)
]
TABLE = pa.Table.from_pylist(ROWS)


def _source(kind, folder):
    path = folder / f"people.{kind}"
    if kind == "parquet":
        pyarrow.parquet.write_table(TABLE, path)
    elif kind == "csv":
        TABLE.to_pandas().to_csv(path, index=False)
    elif kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.register("frame", TABLE)
            connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    else:
        return {"arrow": TABLE, "pandas": TABLE.to_pandas(), "polars": polars.from_arrow(TABLE)}[
            kind
        ]
    return path


@pytest.fixture
def db():
    return opened(TABLE, SCHEMA)


# --- the names ---------------------------------------------------------------------------


def test_all_names_are_there_and_nothing_else():
    """__all__ is what the module exposes, every name has a docstring, dir() lists it."""
    fresh = "import sulq, json; print(json.dumps([sorted(dir(sulq)), sorted(sulq.__all__)]))"
    shown, listed = json.loads(subprocess.check_output([sys.executable, "-c", fresh]))
    assert [n for n in shown if not n.startswith("_")] == listed == sorted(sulq.__all__)
    assert len(set(sulq.__all__)) == len(sulq.__all__)
    for name in sulq.__all__:
        assert inspect.getdoc(getattr(sulq, name)), name
    with pytest.raises(AttributeError, match="nothing"):
        _ = sulq.nothing


def test_every_error_is_exported_and_one_tree():
    """All errors of errors.py are public and descend from SulqError."""
    from sulq import errors

    assert set(errors.__all__) <= set(sulq.__all__)
    for name in errors.__all__:
        assert issubclass(getattr(sulq, name), sulq.SulqError)
        assert name in errors.__doc__


@pytest.mark.parametrize(
    ("code", "allowed"), [("import sulq", set()), ("from sulq import *", {"numpy"})]
)
def test_importing_is_light(code, allowed):
    """`import sulq` loads no library, and every public name together numpy alone."""
    shown = "import sys, json; print(json.dumps(sorted({m.split('.')[0] for m in sys.modules})))"
    before, after = (
        set(json.loads(subprocess.check_output([sys.executable, "-c", f"{first}; {shown}"])))
        for first in ("pass", code)
    )
    installed = {m.name for m in pkgutil.iter_modules() if not m.name.startswith("_")}
    loaded = (after - before) & installed - set(sys.stdlib_module_names)
    assert loaded == allowed | {"sulq"}


# --- plain truth -------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
@pytest.mark.parametrize("kind", ["parquet", "csv", "duckdb", "arrow", "pandas", "polars"])
def test_answers_are_the_truth_plus_noise(kind, engine, tmp_path):
    """With silent noise every call gives what plain Python gives."""
    db = opened(_source(kind, tmp_path), SCHEMA, engine=engine)
    known = [r for r in ROWS if r["income"] is not None]
    assert db.rows == 40
    assert db.count().value == 40
    assert db.count("smoker").value == 10
    assert db.count("income is null").value == 8
    assert db.count("smoker", rows=sulq.Rows.where("region = 'north'")).value == sum(
        r["smoker"] and r["region"] == "north" for r in ROWS
    )
    assert db.sum("age").value == sum(r["age"] for r in ROWS)
    assert db.sum("income").value == sum(r["income"] for r in known)
    assert db.sum("age * 2 + 1", "smoker").value == sum(
        r["age"] * 2 + 1 for r in ROWS if r["smoker"]
    )
    assert db.mean("age").value == sum(r["age"] for r in ROWS) / 40
    assert db.mean("age", rows=sulq.Rows.where("region = 'south'")).value == pytest.approx(
        np.mean([r["age"] for r in ROWS if r["region"] == "south"])
    )
    assert db.mean("income").value == pytest.approx(np.mean([r["income"] for r in known]), abs=1e-6)
    assert db.mean("income", "smoker").value == pytest.approx(
        np.mean([r["income"] for r in known if r["smoker"]]), abs=1e-6
    )
    assert db.histogram("region")["count"] == [26, 14, 0]
    assert db.histogram("smoker")["count"] == [30, 10]
    assert db.histogram("age", bins=[20, 30, 60])["count"] == [10, 30, 0]
    assert sum(db.histogram("income")["count"]) == 40
    assert sum(db.histogram("born", bins=4)["count"]) == 40
    cross = {(r["region"], r["smoker"]): r["count"] for r in db.crosstab(["region", "smoker"])}
    assert cross["north", "true"] == sum(r["smoker"] and r["region"] == "north" for r in ROWS)
    assert sum(cross.values()) == 40


def test_an_array_needs_no_schema():
    """A bare 2-D array has columns x0, x1, ... in [0, 1]."""
    db = opened(np.array([[0.25, 1.0], [0.5, 2.0]]))
    assert db.columns == ["x0", "x1"]
    assert db.sum("x0").value == 0.75
    assert db.mean("x1").value == 1.0


def test_a_mean_of_too_few_rows_says_so(db):
    """A private mean keeps to the column's range and notes when noise drowns it."""
    answer = db.mean("income", "age > 119")
    assert 0 <= answer.value <= 1024
    assert "too few rows" in str(answer)


def test_a_mean_of_rows_that_cannot_be_is_refused(db):
    """The middle of the range would be a wrong number, said to be exact."""
    spent = db.budget.spent
    with pytest.raises(sulq.QueryNotAllowed, match=r"no row can be among these.*Nothing was"):
        db.mean("income", "age > 500")
    assert db.budget.spent == spent


def test_noise_is_added():
    """Control: with the product's own noise the answer is not the truth."""
    assert opened(TABLE, SCHEMA, quiet=False).count("smoker").value != 10


# --- answers and tables -------------------------------------------------------------------


def test_an_answer_prints_its_error_and_price(db):
    """12,345 +/- 105 (95%), price 1 query, 999 left."""
    answer = db.count("smoker")
    half = 1.959964 * answer.std
    assert str(answer) == repr(answer)
    assert str(answer).startswith(f"10 +/- {half:.0f} (95%), price 1 query, 999 left")
    assert float(answer) == answer.value == 10
    assert answer.values.tolist() == [[10.0]]
    assert answer.cells == ("all",)


@pytest.mark.parametrize(
    ("level", "width"), [(0.5, 0.6745), (0.9, 1.6449), (0.95, 1.96), (0.999, 3.2905)]
)
def test_intervals_have_their_level(db, level, width):
    """Half-widths are normal quantiles of the noise."""
    answer = db.count("smoker")
    assert answer.std > 0
    low, high = answer.interval(level)
    assert (high - low) / 2 == pytest.approx(width * answer.std, rel=1e-3)
    assert (high + low) / 2 == answer.value


@pytest.mark.parametrize("level", [0, 1, -1, 95, math.nan, True])
def test_levels_out_of_range_are_refused(db, level):
    """A level is between 0 and 1."""
    with pytest.raises(sulq.Refused, match="between 0 and 1"):
        db.count().interval(level)


def test_a_vector_has_no_single_value(db):
    """.value of many numbers says to use .values."""
    answer = db.ask(sulq.Query(["age", "income"], by="region"))
    assert answer.values.shape == (3, 2)
    low, high = answer.interval()
    assert low.shape == high.shape == (3, 2)
    for get in (lambda: answer.value, lambda: answer.std, lambda: float(answer)):
        with pytest.raises(sulq.Refused, match=r"3 cells x 2 values; use \.values"):
            get()
    assert "region" in str(answer)
    assert "north" in str(answer)


@pytest.mark.parametrize(
    "by",
    [
        "region",
        ["region", "smoker"],
        sulq.Bins("age", [0, 50, 120]),
        [sulq.Bins("born", ["1950-01-01", "1970-01-01"]), "smoker"],
        sulq.Blocks(1, 3),
        sulq.Side(["age"], [1]),
        sulq.Leaf({"column": "age", "threshold": 30}),
        "age % 3",
    ],
    ids=str,
)
def test_every_partition_prints_and_converts(db, by):
    """Any answer prints, has JSON and becomes a frame."""
    answer = db.ask(sulq.Query(["1", "age"], by=by))
    assert str(answer) == repr(answer)
    assert "<table>" in answer._repr_html_()
    body = json.loads(json.dumps(answer.to_json()))
    assert len(body["cells"]) == len(answer.cells) == len(body["exact"])
    table = answer.table()
    assert len(table) == len(answer.cells) - len(answer.ruled_out)
    assert (
        table.to_arrow().num_rows == len(table) == len(table.to_pandas()) == len(table.to_polars())
    )
    assert json.dumps(table.to_json())


def test_tables_convert_whole(db):
    """Names, order and numbers are the same in Arrow, pandas, Polars, JSON and as rows."""
    table = db.crosstab(["region", "smoker"])
    names = ["region", "smoker", "count", "count_low", "count_high", "note"]
    assert (
        table.to_arrow().column_names
        == list(table.to_pandas())
        == table.to_polars().columns
        == names
    )
    assert isinstance(table.to_pandas(), pandas.DataFrame)
    assert isinstance(table.to_polars(), polars.DataFrame)
    assert table.to_pandas()["count"].tolist() == table["count"]
    assert [r["count"] for r in table] == table["count"]
    assert table.numbers == ["count"]
    for row in table:
        assert row["count_low"] < row["count"] < row["count_high"]
    lines = str(table).splitlines()
    assert lines[0].split() == ["region", "smoker", "count", "(95%)"]
    assert lines[-1].startswith("price 2 queries, 998 left")


def test_a_column_named_like_a_number_keeps_its_labels():
    """histogram('count'): labels and counts are both there."""
    table = pa.table({"count": ["a", "b", "a"], "count_low": [True, False, True]})
    db = opened(table, {"count": {"values": ["a", "b"]}, "count_low": {"type": "boolean"}})
    rows = list(db.histogram("count"))
    assert [r["count"] for r in rows] == ["a", "b", "(other)"]
    assert sorted(v for k, v in rows[0].items() if not isinstance(v, str))[1] == 2.0
    assert len(db.crosstab(["count_low", "count"]).to_arrow().column_names) == 6


def test_long_tables_are_cut_in_print_only(db):
    """A hundred cells print as forty lines; nothing is lost."""
    table = db.ask(sulq.Query(by="age")).table()
    assert len(table) == 121
    assert "..." in str(table)
    assert len(str(table).splitlines()) < 50


MARKUP = "<script>alert('x')</script>&\"<b>"


def test_markup_is_escaped():
    """Names and categories are text, in a notebook too."""
    table = pa.table({MARKUP: [MARKUP, "plain"]})
    db = opened(table, {MARKUP: {"values": [MARKUP, "plain"]}})
    for shown in (db.histogram(MARKUP)._repr_html_(), db.ask(sulq.Query(by=MARKUP))._repr_html_()):
        assert "<script" not in shown
        assert "<b>" not in shown.replace("<b>2", "")
        assert "&lt;script&gt;" in shown
    quoted = '"' + MARKUP.replace('"', '""') + '"'
    answer = db.count(f"{quoted} = 'plain'")
    assert "<script" not in answer._repr_html_()


def test_the_database_says_what_it_is(db):
    """repr, budget and history in words, without a row."""
    assert repr(db) == "<sulq.Database 'frame': 40 rows, 0 of 1,000 queries spent, 1,000 left>"
    db.count("smoker")
    assert str(db.budget) == "1 of 1,000 queries spent, 999 left"
    (charge,) = db.history()
    assert (charge.number, charge.price) == (1, 1_000_000)
    assert db.columns == list(SCHEMA)
    assert "epsilon" in str(db.promise) or "sure" in str(db.promise)


# --- how to mend it -----------------------------------------------------------------------


def _open(**changes):
    settings = {
        "source": TABLE,
        "schema": SCHEMA,
        "epsilon": 1.0,
        "queries": 10,
        "ledger": ":memory:",
    } | changes
    return sulq.open(settings.pop("source"), settings.pop("schema"), **settings)


WRONG = [
    (lambda db: _open(epsilon=None), "state the promise"),
    (lambda db: _open(queries=None), "state the promise"),
    (lambda db: _open(epsilon=0), "epsilon"),
    (lambda db: _open(epsilon="1"), "epsilon"),
    (lambda db: _open(delta=2), "delta"),
    (lambda db: _open(queries=0), "queries"),
    (lambda db: _open(queries=1.5), "queries"),
    (lambda db: _open(noise="uniform"), "gaussian"),
    (lambda db: _open(guarantee="trust"), "beliefs"),
    (lambda db: _open(pricing="free"), "geometry, paper"),
    (lambda db: _open(engine="oracle"), "'duckdb', 'reference' or 'spark'"),
    (lambda db: _open(schema=None), "declare the columns"),
    (lambda db: _open(schema="nowhere.toml"), "cannot be read"),
    (lambda db: _open(schema=5), "a TOML path, a dict or a sulq.Schema"),
    (lambda db: _open(source="nowhere.parquet"), "does not exist"),
    (lambda db: _open(source=Path(__file__).parent / "fixtures"), "no Parquet file"),
    (lambda db: _open(source="s3://bucket/x.parquet"), "not supported"),
    (lambda db: _open(source=__file__), "the ending is not known"),
    (lambda db: _open(source=5), "int is not known"),
    (lambda db: _open(source=[1, 2]), "list is not known"),
    (lambda db: _open(source=None), "NoneType is not known"),
    (lambda db: _open(source=np.zeros(3)), "1 dimensions, want 2"),
    (lambda db: _open(source=np.array([["a"]])), "want numbers"),
    (lambda db: _open(source=pandas.DataFrame({"id": [1, "x"]})), "mixes types|type of its own"),
    (lambda db: _open(source=pandas.DataFrame([[1, 2]], columns=["a", "a"])), "name"),
    (lambda db: _open(ledger="/nowhere/at/all/x.ledger"), "does not exist"),
    (lambda db: db.count(True), "SQL predicate as text"),
    (lambda db: db.count(5), "SQL predicate as text"),
    (lambda db: db.count("age"), "compare it"),
    (
        lambda db: db.count("agee > 3"),
        "there is no column 'agee'; did you mean 'age'\\? Declared: id, region",
    ),
    (lambda db: db.count("people.age > 3"), "name the column alone"),
    (lambda db: db.count(rows="x"), r"sulq\.Rows\.where"),
    (lambda db: db.count(error=0), "positive number"),
    (lambda db: db.sum(5), "SQL expression as text"),
    (lambda db: db.sum("region"), "only numbers can be summed"),
    (lambda db: db.sum("id"), "Declare low and high"),
    (lambda db: db.sum("age / income"), "clamp it"),
    (lambda db: db.sum("sum(age)"), "Aggregates belong"),
    (lambda db: db.sum("log(age)"), "Write ln"),
    (lambda db: db.sum("age // 2"), r"Write floor\(a / b\)"),
    (lambda db: db.count("region ilike 'N%'"), "Write lower"),
    (lambda db: db.count("born + interval '1' day > born"), "whole days"),
    (lambda db: db.mean(None), "SQL expression as text"),
    (lambda db: db.mean("5"), "same value"),
    (lambda db: db.mean("income", error=5), "Leave error out"),
    (lambda db: db.mean("age", rows=sulq.Rows.blocks(1, 3)), "a mean is one number"),
    (lambda db: db.histogram("income", bins=0), "1 to 10,000"),
    (lambda db: db.histogram("income", bins=True), "bins=True"),
    (lambda db: db.histogram("income", bins="ten"), "a number of bins or a list of edges"),
    (lambda db: db.histogram("id", bins=5), "Give edges"),
    (lambda db: db.histogram("id"), r"sulq\.Bins"),
    (lambda db: db.histogram(5), "column"),
    (lambda db: db.crosstab("region"), r"\['sex', 'region'\]"),
    (lambda db: db.crosstab([]), "want a list"),
    (lambda db: db.crosstab(5), "want a list"),
    (lambda db: db.ask("count"), r"sulq\.Query"),
    (lambda db: db.ask(5), r"sulq\.Query"),
    (lambda db: db.ask([5]), r"sulq\.Query"),
    (lambda db: db.ask(None), r"sulq\.Query"),
    (lambda db: db.price(5), r"sulq\.Query"),
    (lambda db: db.price(None), r"sulq\.Query"),
    (
        lambda db: db.ask(
            [sulq.Query([f"age > {i}"]) for i in range(110)] * 10 + [sulq.Query(["age"] * 1000)]
        ),
        "remaining=",
    ),
]


@pytest.mark.parametrize(
    ("call", "words"), WRONG, ids=lambda x: x[:40] if isinstance(x, str) else ""
)
def test_wrong_arguments_say_how_to_mend_them(db, call, words):
    """A Refused with words that help; nothing charged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(sulq.Refused, match=words):
            call(db)
    assert db.budget.spent == 0


def test_a_ledger_in_memory_warns():
    """No lifetime promise without a file, and the product says so."""
    with pytest.warns(UserWarning, match="no lifetime promise"):
        sulq.open(TABLE, SCHEMA, epsilon=1.0, queries=10).close()


def test_a_file_keeps_its_ledger_beside_it(tmp_path):
    """Spending survives closing; the stored answer comes back unchanged."""
    path = _source("parquet", tmp_path)
    with sulq.open(path, SCHEMA, epsilon=1.0, queries=10) as db:
        first = db.count("smoker")
    with sulq.open(path, SCHEMA, epsilon=1.0, queries=10) as db:
        assert db.budget.spent == 1
        assert db.count("smoker").exact == first.exact
        assert db.budget.spent == 1
    assert (tmp_path / "people.parquet.ledger").exists()


def test_silent_noise_is_only_for_tests():
    """The product offers no way to draw nothing, and no seed."""
    assert "noise_source" not in inspect.signature(sulq.open).parameters
    assert not {"seed", "random_state"} & set(inspect.signature(sulq.open).parameters)
    assert SilentNoise().draw(None, 3) == [0, 0, 0]


@pytest.mark.parametrize("name", ["", None, 3, "\ud800", "anna\udfff"])
def test_what_is_no_name_of_an_analyst_is_refused(name):
    """In words, before anything is written: half a character has no bytes."""
    with sulq.rehearsal({"a": {"type": "boolean"}}, rows=10, epsilon=1.0, queries=10) as db:
        for named in (db.as_analyst, lambda name: db.allot(name, 1)):
            with pytest.raises(sulq.Refused) as refused:
                named(name)
            str(refused.value).encode()
