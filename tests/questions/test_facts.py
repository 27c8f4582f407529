"""What is public is exact and free, alone or beside private numbers, through every door."""

import pyarrow as pa
import pytest
from attacks.harness import opened, people
from server.instance import made

import sulq
from sulq import Query, Rows, Sums
from sulq.learn import PCA

TABLE = people(300)
NORTH = TABLE["region"].to_pylist().count("north")


@pytest.fixture(params=["geometry", "paper"])
def db(request):
    return opened(TABLE, name="people", pricing=request.param)


PUBLIC = {
    "everybody": lambda db: db.count(),
    "a region": lambda db: db.count("region = 'north'"),
    "rows": lambda db: db.count(rows=Rows.where("region = 'north'")),
    "a sample": lambda db: db.count(rows=Rows.sample(1, 0.5)),
    "blocks": lambda db: db.count(rows=Rows.blocks(1, 7)),
    "a histogram": lambda db: db.histogram("region"),
    "a crosstab": lambda db: db.crosstab(["region"]),
    "always true": lambda db: db.count("age >= 0 or age is null"),
    "never true": lambda db: db.count("age > 100"),
    "keys": lambda db: db.count("id < 17"),
    "SQL": lambda db: db.sql("select count(*) from people"),
    "SQL by region": lambda db: db.sql("select region, count(*) from people group by region"),
    "a list": lambda db: db.ask([Query(), Query(by="region")])[1],
    "error": lambda db: db.count(error=50),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_is_exact_and_free(db, name):
    """No charge, no entry in the ledger, no interval, with every kind of pricing."""
    found = PUBLIC[name](db)
    table = found if isinstance(found, sulq.Table) else found.table()
    for column in table.numbers:
        assert table[column] == table[f"{column}_low"] == table[f"{column}_high"]
    assert found.price.micro == 0
    assert db.history() == []
    assert PUBLIC[name](db).to_json() == found.to_json()


def test_the_numbers_are_right(db):
    """n, a region's size, and the sizes of blocks, which add up to n."""
    assert db.count().value == 300
    assert db.count("region = 'north'").value == NORTH
    assert str(db.count("region = 'north'")) == (
        f"{NORTH} (public, exact), price 0 queries, 100 left"
    )
    assert db.count(rows=Rows.blocks(1, 7)).values.sum() == 300
    assert db.count("age > 100").value == 0


def test_beside_private_numbers_they_cost_nothing():
    """The price is that of the private part, and that is one question however it is asked."""
    db = opened(TABLE, name="people")
    asked = "select region, count(*), avg(income), sum(income) from people group by region"
    assert db.price(asked).queries == 1
    table = db.sql(asked)
    assert table["count(*)"] == table["count(*)_low"]
    assert table["count(*)"][0] == NORTH
    assert [c.price for c in db.history()] == [10**6]
    both = db.ask(Query(["1", "income"], by="region"))
    assert both.exact[0][0] == NORTH
    assert float(both.exact[0][1]) == pytest.approx(table["sum(income)"][0])
    assert both.stds[0][0] == 0 < both.stds[0][1]
    assert db.budget.spent == 1


def test_a_mean_of_nobody_is_refused_for_nothing():
    """Whether a public set is empty is public too, so it is said before the charge."""
    db = opened(TABLE, name="people")
    with pytest.raises(sulq.QueryNotAllowed, match="Nothing was charged"):
        db.mean("income", "id < 0")
    assert db.history() == []


@pytest.mark.parametrize(
    "query",
    [Query(where="secret"), Query(by="city"), Query(["age"]), Query(Sums(["age"])),
     Query(where="region = 'north' and secret"), Query(by=["region", "secret"])],
    ids=lambda q: str(q)[:40],
)  # fmt: skip
def test_what_reads_a_private_column_is_not_public(query):
    """Control: one private column anywhere, and it is paid for and noisy."""
    db = opened(TABLE, name="people")
    answer = db.ask(query)
    assert answer.price.micro > 0
    assert len(db.history()) == 1
    assert all(std > 0 for row in answer.stds for std in row)


def test_over_http_and_by_the_client(tmp_path):
    """The same through JSON, SQL and sulq.connect; nothing is charged."""
    with made(tmp_path / "instance").serving() as instance:
        there = sulq.connect(instance.url, key=instance.keys["bob"], name="people")
        n = there.rows
        reply = instance.call("POST", "/v1/datasets/people/ask", {"query": {}}).json["answer"]
        assert (reply["value"], reply["std"], reply["price_micro"]) == (n, 0, 0)
        sql = {"sql": "select region, count(*) as n from people group by region"}
        table = instance.call("POST", "/v1/datasets/people/sql", sql).json["table"]
        assert sum(row["n"] for row in table["rows"]) == n
        assert all(row["n_low"] == row["n"] == row["n_high"] for row in table["rows"])
        assert there.count().exact == ((n,),)
        assert there.sql(sql["sql"])["n"] == [row["n"] for row in table["rows"]]
        assert there.budget.spent == 0
        mixed = "select region, count(*) as n, avg(income) as m from people group by region"
        assert there.sql(mixed)["n"] == [row["n"] for row in table["rows"]]
        assert there.budget.spent == there.price(mixed).queries > 0


WHERE = {  # of a private column, with the public part that may be counted
    "secret": 300,
    "not secret": 300,
    "secret and region = 'north'": NORTH,
    "secret or region = 'north'": 300,
    "age > 50 and income < 10 and region = 'north'": NORTH,
    "region = 'north'": NORTH,
    "id < 17 and city = 'rome'": 17,
}


@pytest.mark.parametrize("where", WHERE)
def test_rows_are_counted_by_their_public_part_alone(db, where):
    """`rows_of` is free, so nothing private may be in it; twins hear the same."""
    assert db.rows_of(Query(where=where)) == WHERE[where]
    assert db.rows_of(Query(["income"], by="secret", where=where)) == WHERE[where]
    assert db.rows_of(Query(where=where, rows=Rows.blocks(1, 7))) == WHERE[where]
    twin = opened(people(300, secret=[True] * 300, income=[0.0] * 300), name="people")
    assert twin.rows_of(Query(where=where)) == WHERE[where]
    assert db.history() == twin.history() == []


@pytest.mark.parametrize(
    "query", [Query(where="secret"), Query(by="secret"), Query(["income"]), Query(Sums(["age"]))]
)
def test_nothing_private_goes_through_the_door_of_free_counts(db, query):
    """Whoever comes there by mistake is refused before a row is read."""
    with pytest.raises(sulq.QueryNotAllowed, match="only public columns"):
        db._pipeline.public([db._planner.check(query)])


def test_a_server_counts_the_public_part_alone(tmp_path):
    """/sizes over HTTP, and the same from Python: exact for what is public, and nothing paid."""
    with made(tmp_path / "instance", TABLE).serving() as instance:
        for where, rows in WHERE.items():
            body = {"queries": [{"where": where}, {"where": where, "by": "secret"}]}
            reply = instance.call("POST", "/v1/datasets/people/sizes", body)
            assert reply.json == {"sizes": [[rows], [rows]]}
        remote = sulq.connect(instance.url, key=instance.keys["bob"], name="people")
        assert [remote.rows_of(Query(where=where)) for where in WHERE] == list(WHERE.values())
        assert remote.budget.spent == 0
        remote.close()


def test_a_noisy_number_is_never_called_exact():
    """A quantile whose interval is one whole number, a truth, a choice: 95%, beside an exact n."""
    rows = pa.table({"age": [2] * 5000, "region": ["north"] * 5000})
    columns = {"age": {"type": "integer", "low": 0, "high": 5},
               "region": {"values": ["north"], "public": True, "nullable": False}}  # fmt: skip
    db = sulq.open(rows, {"columns": columns}, name="t", epsilon=20, queries=20, ledger=":memory:")
    found = db.sql(
        "select count(*), median(age) as m, count(*) > count_if(age > 3) as b, "
        "case when count_if(age > 3) > 9 then count(*) else 0 end as c from t"
    )
    for name in ("m", "b", "c"):  # what an interval of no width used to be read from
        assert found[f"{name}_low"] == found[f"{name}_high"] == found[name]
    head = str(found).splitlines()[0].split("  ")
    assert [h.strip() for h in head if h] == ["count(*) (exact)", "m (95%)", "b (95%)", "c (95%)"]
    public = db.sql("select region, count(*), count(*) * 2 as d from t group by region")
    assert str(public).splitlines()[0].split() == ["region", "count(*)", "(exact)", "d", "(exact)"]
    assert "(exact)" in str(db.histogram("region"))
    assert "(exact)" not in str(db.histogram("age"))


def test_a_projection_of_public_columns_is_public():
    """A view counts what its components are made of, though it does not name these columns."""
    columns = {name: {"type": "number", "low": 0, "high": 1, "public": True} for name in "ab"}
    halves = {"a": [i / 300 for i in range(300)], "b": [0.75, 0.25] * 150}
    table = pa.table({"id": range(300)} | halves)
    db = opened(table, {"columns": {"id": {"key": True}} | columns}, name="people")
    view = db.project(PCA(n_components=1).fit(db, columns=["a", "b"]))
    assert view.count("pc1 < 1000").value == 300
    assert view.sql("select count(*) as n, count(pc1) as k from people")["k"] == [300]
    assert view.sum("pc1").price.micro == 0
    assert db.history() == []
