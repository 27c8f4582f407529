"""Real clients against a running server: browsing costs nothing, a question its price, once."""

import asyncio

import pytest
from server.pgwire.wired import SMOKERS


def test_psql_browses_for_nothing(pg):
    r"""\d, \dt, \l, \dn, \du and others: what is there, and not a micro-query."""
    before = pg.spent()
    out, err = pg.psql(r"\dt", r"\d people", r"\d+ people", r"\l", r"\dn", r"\du", r"\df", r"\dv",
                       r"\di", r"\dT", r"\dp", r"\db", r"\dx", r"\d", r"\ds", r"\dd", r"\dC",
                       r"\des", r"\conninfo", r"\encoding")  # fmt: skip
    assert "ERROR" not in err
    assert "public|people|table|" in out
    for line in ("region|text|", "age|bigint|", "secret|boolean||not null|", "one of rome, oslo"):
        assert line in out
    assert pg.spent() == before


def test_psql_asks_copies_and_hears_why_not(pg):
    r"""A SELECT is refused with its price, then answered; \copy writes the rows."""
    text = "select region, count(*) as n from people where age > 71 group by region"
    before = pg.spent()
    out, err = pg.psql(text)
    assert out == ""
    assert "53400: price=1 query, and this connection may spend nothing yet" in err
    assert "HINT:  allow it first: set sulq.spend = 1" in err
    assert "DETAIL:  Nothing was charged." in err
    out, err = pg.psql("set sulq.spend = 1", text, rf"\copy ({text}) to stdout csv header")
    assert out.count("north") == 2
    assert "price 1 query" in err
    assert out.splitlines()[-4] == "region,n"
    assert pg.spent() == before + 1_000_000
    out, _ = pg.psql(f"explain {text}")
    assert "Price: 0 queries: asked before" in out


def test_asyncpg_asks_with_parameters_and_pools(pg):
    """Everything in binary; types of parameters are known from the schema."""
    import asyncpg

    async def ask():
        said = {"host": "127.0.0.1", "port": pg.port, "user": pg.user(), "database": "sulq",
                "password": pg.keys["bob"], "server_settings": {"sulq.spend": "3"}}  # fmt: skip
        async with asyncpg.create_pool(**said, min_size=1, max_size=2) as pool:
            before = pg.spent()
            async with pool.acquire() as one:
                tables = await one.fetch("select tablename from pg_tables where schemaname = $1",
                                         "public")  # fmt: skip
                assert pg.spent() == before
                found = await one.fetch(
                    "select region, count(*) as n from people where age > $1 and city = $2 and "
                    "secret = $3 group by region", 40, "rome", True,
                )  # fmt: skip
            async with pool.acquire() as one:
                return tables, found, await one.fetchval("show sulq.spent")

    tables, found, spent = asyncio.run(ask())
    assert [row["tablename"] for row in tables] == ["people"]
    assert [row["region"] for row in found] == ["north", "south", "(other)"]
    assert spent == "1"


def test_sqlalchemy_reflects_and_pandas_reads(pg):
    """Inspection is free; a table that was reflected is asked, and read again for nothing."""
    import pandas as pd
    import sqlalchemy as sa

    url = sa.URL.create(
        "postgresql+psycopg", pg.user(), pg.keys["bob"], "127.0.0.1", pg.port, "sulq",
        query={"options": "-c sulq.spend=3"},
    )  # fmt: skip
    before, engine = pg.spent(), sa.create_engine(url)
    seen = sa.inspect(engine)
    assert seen.get_table_names() == ["people"]
    assert "public" in seen.get_schema_names()
    assert (seen.get_pk_constraint("people")["constrained_columns"], seen.get_indexes("people"),
            seen.get_foreign_keys("people"), seen.get_view_names()) == ([], [], [], [])  # fmt: skip
    people = sa.Table("people", sa.MetaData(), autoload_with=engine)
    assert isinstance(people.c.age.type, sa.BIGINT)
    assert pg.spent() == before
    asked = sa.select(people.c.region, sa.func.count().label("n")).where(people.c.secret)
    with engine.connect() as connection:
        rows = connection.execute(asked.group_by(people.c.region)).all()
    frame = pd.read_sql(SMOKERS, engine)
    assert [tuple(row) for row in rows] == list(frame.itertuples(index=False, name=None))
    assert frame["n"].dtype.kind == "f"
    engine.dispose()


@pytest.mark.parametrize(
    "name", ["people", "PEOPLE", '"people"', "public.people", "sulq.public.people"]
)
def test_a_table_is_found_however_it_is_named(pg, name):
    """Unquoted names in any case, with the schema and the database before it."""
    with pg.connect() as connection:
        assert connection.execute(f"select count(*) from {name}").fetchone() == (200.0,)
