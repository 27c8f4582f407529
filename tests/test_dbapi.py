"""sulq.dbapi: PEP 249, good enough for pandas."""

from __future__ import annotations

import datetime
import decimal
import tomllib
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from helpers import opened
from hypothesis import given
from hypothesis import strategies as st

import sulq
from sulq import dbapi, errors
from sulq.cli import demo_data
from sulq.dbapi.pep249 import ERRORS
from sulq.dbapi.substitution import literal, substituted
from sulq.expressions.dialect import parse_sql

SCHEMA = tomllib.loads(demo_data.SCHEMA)
PEOPLE = demo_data.people(3000)
BY_REGION = "select region, count(*) as n from people group by region"
OF_SMOKERS = "select region, count(*) as n from people where smoker group by region"


@pytest.fixture
def db():
    return opened(PEOPLE, SCHEMA, name="people")


@pytest.fixture
def connection(db):
    return dbapi.connect(db)


@pytest.fixture
def cursor(connection):
    return connection.cursor()


# --- pandas -----------------------------------------------------------------------------


def read_sql(*given, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="pandas only supports SQLAlchemy")
        return pd.read_sql(*given, **options)


def test_pandas_reads_a_statement(connection, db):
    """The frame has the group, the number and its low and high, as db.sql gives them."""
    frame = read_sql(BY_REGION, connection)
    assert list(frame.columns) == ["region", "n", "n_low", "n_high"]
    assert frame["region"].tolist() == ["north", "south", "east", "west", "(other)"]
    assert frame["n"].dtype == float
    assert frame["n"].sum() == 3000
    assert frame.equals(db.sql(BY_REGION).to_pandas().drop(columns="note"))
    assert db.budget.spent == 0  # public


def test_pandas_hands_over_parameters(connection):
    """read_sql with params counts what they say."""
    asked = "select count(*) as n from people where age > ? and region = ?"
    frame = read_sql(asked, connection, params=(40, "north"))
    ages, regions = PEOPLE["age"].to_pylist(), PEOPLE["region"].to_pylist()
    pairs = zip(ages, regions, strict=True)
    assert frame["n"][0] == sum(a > 40 and r == "north" for a, r in pairs)


def test_pandas_passes_a_refusal_on(connection):
    """The message reaches the reader, and nothing is spent."""
    with pytest.raises((dbapi.DatabaseError, pd.errors.DatabaseError), match="would return rows"):
        read_sql("select age from people", connection)
    assert connection.db.budget.spent == 0


def test_pandas_reads_typed_groups():
    """Beside numbers, Booleans and dates 'other' is missing, so that a column has one type."""
    table = pa.table({"ok": [True, None], "grade": [1, 2], "day": [datetime.date(2020, 1, 5)] * 2})
    day = {"type": "date", "low": "2020-01-01", "high": "2020-03-31"}
    schema = {"ok": {"type": "boolean"}, "grade": {"values": [1, 2]}, "day": day}
    connection = dbapi.connect(opened(table, schema, name="t"))
    cursor = connection.cursor()
    asked = "select {} as label, count(*) as n from t group by 1"
    for key, code, labels in (
        ("ok", dbapi.NUMBER, [False, True, None]),
        ("grade", dbapi.NUMBER, [1, 2, None]),
        ("date_trunc('month', day)", dbapi.DATETIME,
         [datetime.date(2020, m, 1) for m in (1, 2, 3)] + [None]),
    ):  # fmt: skip
        rows = cursor.execute(asked.format(key)).fetchall()
        assert [row[0] for row in rows] == labels
        assert cursor.description[0][:2] == ("label", code)
        found = connection.db.sql(asked.format(key))
        assert found["label"][-1] == "(other)"
        assert found.to_arrow()["label"].to_pylist() == labels
        assert found.to_polars()["label"].to_list() == labels
        assert read_sql(asked.format(key), connection)["label"].isna().sum() == 1


# --- the module -------------------------------------------------------------------------


def test_the_module_says_what_pep_249_asks():
    """Level, thread safety, style and names are there."""
    assert (dbapi.apilevel, dbapi.threadsafety, dbapi.paramstyle) == ("2.0", 1, "qmark")
    assert sulq.dbapi is dbapi
    assert all(hasattr(dbapi, name) for name in dbapi.__all__)


def test_the_tree_of_errors():
    """As PEP 249 draws it; a connection carries it too."""
    assert issubclass(dbapi.Warning, Exception)
    assert issubclass(dbapi.InterfaceError, dbapi.Error)
    assert issubclass(dbapi.DatabaseError, dbapi.Error)
    for name in ("Data", "Operational", "Integrity", "Internal", "Programming", "NotSupported"):
        kind = getattr(dbapi, f"{name}Error")
        assert issubclass(kind, dbapi.DatabaseError)
        assert getattr(dbapi.Connection, f"{name}Error") is kind


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (errors.QueryNotAllowed("x"), dbapi.ProgrammingError),
        (errors.BudgetExceeded(2, 1), dbapi.OperationalError),
        (errors.SourceChanged("x"), dbapi.OperationalError),
        (errors.AuditRefused("x"), dbapi.OperationalError),
        (errors.SchemaError("x"), dbapi.ProgrammingError),
        (errors.PromiseError("x"), dbapi.ProgrammingError),
        (errors.Refused("x"), dbapi.ProgrammingError),
        (errors.EngineFailed("x"), dbapi.OperationalError),
        (errors.LedgerDamaged("x"), dbapi.InternalError),
        (errors.MissingExtra("x"), dbapi.NotSupportedError),
        (errors.SulqError("x"), dbapi.DatabaseError),
    ],
)
def test_each_error_has_its_counterpart(cursor, monkeypatch, raised, expected):
    """The words are sulq's own, and so is the cause."""

    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(cursor.connection.db, "sql", fail)
    with pytest.raises(expected) as caught:
        cursor.execute(BY_REGION)
    assert type(caught.value) is expected
    assert str(caught.value) == str(raised)
    assert caught.value.__cause__ is raised


def test_every_error_of_ours_is_translated():
    """Each has a class of PEP 249."""
    assert set(errors.__all__) >= {theirs.__name__ for theirs, _ in ERRORS}
    for name in errors.__all__:
        assert any(issubclass(getattr(errors, name), theirs) for theirs, _ in ERRORS)


# --- connections ------------------------------------------------------------------------


def test_connect_opens_what_sulq_open_opens(tmp_path):
    """A path with its promise; closing lets go of it."""
    import pyarrow.parquet as pq

    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    options = {"schema": SCHEMA, "epsilon": 1.0, "queries": 10}
    with dbapi.connect(tmp_path / "people.parquet", **options) as connection:
        connection.cursor().execute(OF_SMOKERS)
    with dbapi.connect(tmp_path / "people.parquet", **options) as connection:
        assert connection.db.budget.spent == 1


def test_connect_takes_a_config(tmp_path):
    """A sulq.toml opens what it names."""
    import pyarrow.parquet as pq

    pq.write_table(PEOPLE, tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(demo_data.SCHEMA)
    config = 'source = "people.parquet"\nschema = "people.toml"\nepsilon = 1.0\nqueries = 10\n'
    (tmp_path / "sulq.toml").write_text(config)
    with dbapi.connect(tmp_path / "sulq.toml") as connection:
        assert connection.db.name == "people"
        assert connection.db.promise.queries == 10


def test_connect_refuses_in_its_own_errors():
    """A promise that is missing is a ProgrammingError."""
    with pytest.raises(dbapi.ProgrammingError, match="state the promise"):
        dbapi.connect(PEOPLE, schema=SCHEMA)


def test_an_open_database_takes_no_options(db):
    """Its terms are set already."""
    with pytest.raises(dbapi.InterfaceError, match="epsilon"):
        dbapi.connect(db, epsilon=2.0)


def test_closing_leaves_a_database_of_the_callers_open(db):
    """The connection is closed, the database is not."""
    connection = dbapi.connect(db)
    connection.close()
    connection.close()
    assert db.count().value == 3000
    for use in (connection.cursor, connection.commit, connection.rollback):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use()


def test_commit_and_rollback_change_nothing(connection):
    """What was spent stays spent, and the connection goes on."""
    connection.cursor().execute(OF_SMOKERS)
    connection.rollback()
    connection.commit()
    assert connection.db.budget.spent == 1
    assert connection.autocommit is True


# --- cursors ----------------------------------------------------------------------------


def test_rows_come_one_by_one_in_lots_and_all_at_once(cursor):
    """fetchone, fetchmany and fetchall go on where the last ended."""
    assert cursor.execute(BY_REGION) is cursor
    assert cursor.rowcount == 5
    assert cursor.fetchone()[0] == "north"
    assert [row[0] for row in cursor.fetchmany()] == ["south"]  # arraysize is 1
    cursor.arraysize = 2
    assert [row[0] for row in cursor.fetchmany()] == ["east", "west"]
    assert [row[0] for row in cursor.fetchall()] == ["(other)"]
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == []
    assert cursor.fetchall() == []
    assert [row[0] for row in cursor.execute(BY_REGION)][-1] == "(other)"


def test_description_and_price(cursor):
    """Seven fields a column; the price is that of the statement, asked before or not."""
    assert cursor.description is None
    assert cursor.rowcount == -1
    assert cursor.price is None
    for _ in range(2):
        cursor.execute(OF_SMOKERS)
        assert cursor.price.queries == 1
    assert cursor.connection.db.budget.spent == 1
    assert [d[0] for d in cursor.description] == ["region", "n", "n_low", "n_high"]
    assert [d[1] for d in cursor.description] == [dbapi.STRING, *[dbapi.NUMBER] * 3]
    assert all(len(d) == 7 for d in cursor.description)
    assert cursor.table.remaining == 999_000_000


def test_executemany_asks_for_each_and_pays_for_none_if_one_is_refused(cursor):
    """A list of parameters is one batch."""
    asked = "select count(*) as n from people where smoker and region = ?"
    rows = cursor.executemany(asked, [("north",), ("south",)]).fetchall()
    people = list(zip(PEOPLE["region"].to_pylist(), PEOPLE["smoker"].to_pylist(), strict=True))
    assert [row[0] for row in rows] == [people.count((r, True)) for r in ("north", "south")]
    assert cursor.price.queries == 2
    before = cursor.connection.db.history()
    with pytest.raises(dbapi.ProgrammingError):
        cursor.executemany("select count(*) from people where age > ?", [(1,), ("x",)])
    assert cursor.connection.db.history() == before
    assert cursor.description is None  # nothing of the statement before is left
    assert cursor.executemany(asked, []).rowcount == -1


def test_a_cursor_out_of_order(cursor):
    """Fetching before asking, and any use after closing, are refused."""
    with pytest.raises(dbapi.InterfaceError, match="nothing was asked"):
        cursor.fetchall()
    cursor.execute(BY_REGION)
    cursor.close()
    for use in (cursor.fetchone, lambda: cursor.execute(BY_REGION), cursor.nextset):
        with pytest.raises(dbapi.InterfaceError, match="closed"):
            use()


def test_the_rest_of_pep_249(cursor):
    """Sizes are ignored; procedures are not supported."""
    with cursor as same:
        assert same is cursor
        cursor.setinputsizes([1])
        cursor.setoutputsize(1)
        assert cursor.nextset() is None
        with pytest.raises(dbapi.NotSupportedError):
            cursor.callproc("x")


def test_a_rehearsal_works_too():
    """A cursor over made-up rows says what they are."""
    cursor = dbapi.connect(sulq.rehearsal(SCHEMA, name="people")).cursor()
    cursor.execute(BY_REGION)
    assert "rehearsal" in cursor.table.note


# --- parameters -------------------------------------------------------------------------


def parsed(value):
    """What the parser reads in the place of a parameter."""

    (found,) = parse_sql(substituted("select ?", [value]))
    (only,) = found.expressions
    return only.unnest()


@given(st.text())
def test_any_text_is_read_back_as_one_string(value):
    """No quote, comment or backslash in a parameter ends its literal."""
    found = parsed(value)
    assert found.is_string
    assert found.this == value


@given(st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False)))
def test_any_number_is_read_back_as_itself(value):
    """A parameter's literal has every digit."""
    found = parsed(value)
    assert type(value)(found.sql().replace("(", "").replace(")", "")) == value


@given(st.dates())
def test_any_date_is_read_back_as_itself(value):
    """A parameter's literal is the same day."""
    assert parsed(value).this.this == value.isoformat()


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "null"), (True, "true"), (False, "false"), (3, "3"), (-3, "(-3)"), (2.5, "2.5"),
        (-1e-9, "(-1e-09)"), ("it's", "'it''s'"), (datetime.date(2020, 1, 31), "date '2020-01-31'"),
        (decimal.Decimal("1E+3"), "1000"), (np.int64(3), "3"), (np.float64(0.5), "0.5"),
        (np.bool_(True), "true"), (np.datetime64("2020-01-31"), "date '2020-01-31'"),
        (np.str_("a"), "'a'"),
    ],
)  # fmt: skip
def test_a_literal_has_the_type_of_its_value(value, written):
    """Each type of Python has its spelling."""
    assert literal(value) == written


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), decimal.Decimal("NaN"), b"x", [1], {"a": 1}, object(),
     datetime.datetime(2020, 1, 1, 12), np.array([1])],
)  # fmt: skip
def test_what_cannot_be_written_is_refused(value):
    """Other types are a DataError."""
    with pytest.raises(dbapi.DataError, match="parameter"):
        literal(value)


def test_question_marks_elsewhere_are_left_alone():
    """In strings, quoted names and comments; also after letters of several bytes."""
    text = "select 'é?', \"?\" /* ? */ from t -- ?\n where a - ? > ?"
    assert substituted(text, [-1, "?"]) == (
        "select 'é?', \"?\" /* ? */ from t -- ?\n where a -  (-1)  >  '?' "
    )


@pytest.mark.parametrize("parameters", [(), (1,), (1, 2, 3), {"a": 1}, "ab", 5])
def test_as_many_parameters_as_question_marks(cursor, parameters):
    """Fewer and more are refused."""
    with pytest.raises(dbapi.ProgrammingError, match="parameters"):
        cursor.execute("select count(*) from people where age > ? and age < ?", parameters)


@pytest.mark.parametrize("operation", ["select 'a", None, 3, b"select 1"])
def test_an_operation_is_a_statement(cursor, operation):
    """What is no text, or no SELECT, is refused."""
    with pytest.raises(dbapi.ProgrammingError):
        cursor.execute(operation)


def test_a_dataset_of_a_server_is_not_spent_on_without_a_limit(tmp_path):
    """Somebody else chose its promise: a new statement is refused with its price, then allowed."""
    from server.instance import made

    with made(tmp_path / "instance").serving() as instance:
        db = sulq.connect(instance.url, instance.keys["bob"], "people")
        text = "select count(*) from people where secret"
        with pytest.raises(dbapi.ProgrammingError, match=r"(?s)price=1 query.*spend=5"):
            dbapi.connect(db).cursor().execute(text)
        assert dbapi.connect(db).cursor().execute("select count(*) from people").fetchone()
        assert db.budget.spent == 0
        first = dbapi.connect(db, spend=1).cursor().execute(text).fetchall()
        assert dbapi.connect(db).cursor().execute(text).fetchall() == first
        assert db.budget.spent == 1


def test_a_free_connection_never_spends(db):
    """Statements are estimated from stored answers, or refused."""
    db.sql("select smoker, count(*) from people group by smoker")
    spent = db.budget
    with sulq.dbapi.connect(db, free=True) as connection:
        cursor = connection.cursor()
        cursor.execute("select count(*) as c from people where smoker")
        ((count, low, high),) = cursor.fetchall()
        assert low < count < high
        with pytest.raises(sulq.dbapi.Error, match="do not tell"):
            cursor.execute("select count(*) from people where smoker and age > 33")
    assert db.budget == spent
