"""sulq:// in SQLAlchemy: looking is free, asking stays within a limit, pandas gives no warning."""

import tomllib
import warnings
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from server.instance import made

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = """
[columns.id]
key = true
type = "integer"
[columns.age]
type = "integer"
low = 0
high = 120
[columns.region]
values = ["north", "south"]
public = true
[columns.smoker]
type = "boolean"
[columns.born]
type = "date"
[columns.grade]
values = [1, 2, 3]
"""
COUNT = "select region, avg(age) as age from people group by region"


@pytest.fixture(scope="module", autouse=True)
def registered():
    """As the entry point does, which an older installation may lack."""
    sa.dialects.registry.register("sulq", "sulq.sqlalchemy_dialect", "SulqDialect")


@pytest.fixture
def settings(tmp_path):
    """A settings file with its data."""
    n = 400
    table = pa.table(
        {
            "id": list(range(n)),
            "age": [i % 90 for i in range(n)],
            "region": ["north", "south"] * (n // 2),
            "smoker": [i % 3 == 0 for i in range(n)],
            "born": pa.array(["2000-01-02"] * n).cast(pa.date32()),
            "grade": [1 + i % 3 for i in range(n)],
        }
    )
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "sulq.toml").write_text(
        'source = "people.parquet"\nschema = "people.toml"\nepsilon = 3.0\nqueries = 100\n'
    )
    return f"sulq:///{tmp_path}/sulq.toml"


@pytest.fixture
def engine(settings):
    found = _engine(f"{settings}?spend=10")
    yield found
    found.dispose()


def _engine(url):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="queries=.*one count is off by")
        found = sa.create_engine(url)
        with found.connect():  # opened here, where the promise may warn
            return found


def spent(engine):
    with engine.connect() as connection:
        return connection.connection.dbapi_connection.db.budget.spent


def test_the_entry_point_names_the_dialect():
    """An installed sulq is found by its address alone."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = project["entry-points"]["sqlalchemy.dialects"]["sulq"]
    module, name = said.split(":")
    assert hasattr(__import__(module, fromlist=[name]), name)


def test_looking_is_free(engine):
    """Names, types, the key and what is declared come from the schema."""
    found = sa.inspect(engine)
    assert found.get_table_names() == found.get_table_names("main") == ["people"]
    assert found.get_table_names("other") == []
    assert found.has_table("people")
    assert not found.has_table("select 1")
    types = {c["name"]: type(c["type"]) for c in found.get_columns("people")}
    assert types == {
        "id": sa.Integer, "age": sa.Integer, "region": sa.String, "smoker": sa.Boolean,
        "born": sa.Date, "grade": sa.Integer,
    }  # fmt: skip
    assert found.get_pk_constraint("people")["constrained_columns"] == ["id"]
    assert "400 private rows" in found.get_table_comment("people")["text"]
    assert found.get_foreign_keys("people") == found.get_indexes("people") == []
    with pytest.raises(sa.exc.NoSuchTableError):
        found.get_columns("nothing")
    table = sa.Table("people", sa.MetaData(), autoload_with=engine)
    assert "0 to 120" in table.c.age.comment
    assert spent(engine) == 0


def test_pandas_reads_without_a_warning(engine):
    """A statement, with values for it too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = pd.read_sql(COUNT, engine)
        other = pd.read_sql("select count(*) from people where age > ?", engine, params=(30,))
    assert list(frame.columns) == ["region", "age", "age_low", "age_high"]
    assert len(other) == 1
    before = spent(engine)
    pd.read_sql(COUNT, engine)
    assert spent(engine) == before


def test_statements_that_sqlalchemy_writes_are_answered(engine):
    """Selected columns, conditions with values, order, limit: by name and in order."""
    t = sa.Table("people", sa.MetaData(), autoload_with=engine)
    asked = (
        sa.select(t.c.region, sa.func.avg(t.c.age).label("age"))
        .where(t.c.smoker, t.c.age.between(10, 80), t.c.grade.in_([1, 2]))
        .group_by(t.c.region).order_by(sa.desc("age")).limit(2)
    )  # fmt: skip
    with engine.connect() as connection:
        rows = connection.execute(asked).all()
        assert len(rows) == 2
        ages = [row.age for row in rows if row.age is not None]  # NULL: too noisy to say
        assert ages == sorted(ages, reverse=True)
        assert all(row.age is None or row.age_low <= row.age <= row.age_high for row in rows)
        one = sa.select(sa.func.count()).select_from(t).where(t.c.smoker.is_(True))
        assert isinstance(connection.execute(one).scalar(), float)
        connection.commit()
        connection.rollback()


def test_an_engine_without_a_limit_spends_nothing(settings):
    """It is told the price and how to allow it; EXPLAIN shows it; the stored answer is free."""
    engine = _engine(settings)
    with pytest.raises(Exception, match="price=1 query, and nothing may be spent from here yet"):
        pd.read_sql(COUNT, engine)
    explained = pd.read_sql(f"explain {COUNT}", engine)
    assert explained.to_dict("records")[0] | {"error_95": None} == {
        "price": 1.0, "to_pay": 1.0, "error_95": None, "remaining": 100.0,
    }  # fmt: skip
    assert spent(engine) == 0
    engine.dispose()
    paying = _engine(f"{settings}?spend=1")
    pd.read_sql(COUNT, paying)
    paying.dispose()
    again = _engine(settings)
    assert len(pd.read_sql(COUNT, again)) == 3
    assert pd.read_sql(f"explain {COUNT}", again)["to_pay"][0] == 0
    again.dispose()


def test_a_limit_holds_over_all_connections(settings):
    """An engine's connections share it."""
    engine = _engine(f"{settings}?spend=1.5")
    with engine.connect() as first, engine.connect() as second:
        first.execute(sa.text("select avg(age) from people")).all()
        with pytest.raises(sa.exc.OperationalError, match="may be spent from here"):
            second.execute(sa.text("select avg(age) from people where smoker"))
        second.execute(sa.text("select avg(age) from people")).all()
    assert spent(engine) == 1
    engine.dispose()


def test_tools_may_ask_whether_it_is_there(engine):
    """`select 1` and a ping cost nothing."""
    with engine.connect() as connection:
        assert connection.execute(sa.text("select 1")).scalar() == 1
        assert engine.dialect.do_ping(connection.connection.dbapi_connection)
    assert spent(engine) == 0


def test_what_would_return_rows_or_write_is_refused(engine):
    """As everywhere; nothing is charged."""
    t = sa.Table("people", sa.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        for asked in (sa.select(t.c.age), t.insert().values(age=1), t.delete(), sa.text("drop x")):
            with pytest.raises(sa.exc.ProgrammingError):
                connection.execute(asked)
    assert spent(engine) == 0


def test_intervals_may_be_left_out_and_options_are_checked(settings):
    """intervals=off gives one column for each number; what is unknown is refused."""
    engine = _engine(f"{settings}?spend=5&intervals=off")
    assert list(pd.read_sql(COUNT, engine).columns) == ["region", "age"]
    engine.dispose()
    for wrong in ("spent=5", "intervals=perhaps"):
        with pytest.raises(sa.exc.ArgumentError):
            sa.create_engine(f"{settings}?{wrong}").connect()
    with pytest.raises(Exception, match="want a number of queries"):
        sa.create_engine(f"{settings}?spend=-1").connect()
    with pytest.raises(sa.exc.ArgumentError, match=r"sulq\.toml"):
        sa.create_engine("sulq:///people.parquet").connect()


def test_free_engines_only_estimate(settings):
    """From stored answers alone."""
    engine = _engine(f"{settings}?free=on")
    with pytest.raises(Exception, match="do not tell"):
        pd.read_sql(COUNT, engine)
    assert spent(engine) == 0
    engine.dispose()


def test_the_database_is_closed_with_the_last_connection(settings):
    """And opened again when it is wanted, under the same limit."""
    engine = _engine(f"{settings}?spend=1")
    pd.read_sql("select avg(age) from people", engine)
    engine.dispose()
    assert engine.dialect._shared._db is None
    with pytest.raises(Exception, match="may be spent from here"):
        pd.read_sql("select avg(age) from people where smoker", engine)
    engine.dispose()


def test_a_server_is_asked_with_a_key(tmp_path):
    """By its address: the key hidden as a password is, the limit held here, rights there."""
    with made(tmp_path / "instance").serving() as served:
        key, place = served.keys["bob"], served.url.removeprefix("http://")
        engine = sa.create_engine(f"sulq://bob:{key}@{place}/people?spend=1")
        assert key not in repr(engine.url)
        assert sa.inspect(engine).get_table_names() == ["people"]
        asked = "select avg(income) from people"
        assert len(pd.read_sql(asked, engine)) == 1
        with pytest.raises(Exception, match="may be spent from here"):
            pd.read_sql("select avg(income) from people where secret", engine)
        pd.read_sql(asked, engine)
        engine.dispose()
        bare = sa.create_engine(f"sulq://{key}@{place}/people")
        assert pd.read_sql(f"explain {asked}", bare)["to_pay"][0] == 0
        bare.dispose()
        with pytest.raises(Exception, match="no dataset"):
            sa.create_engine(f"sulq://bob:{key}@{place}/secrets").connect()
