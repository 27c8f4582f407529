"""A constant that no row can have is a slip: refused, the nearest value named, nothing charged."""

from __future__ import annotations

import pyarrow as pa
import pytest
from helpers import opened

import sulq

SCHEMA = {
    "region": {"values": ["north", "south", "east", "west"], "public": True},
    "sex": {"values": ["female", "male"]},
    "level": {"values": [1, 2, 8]},
    "smoker": {"type": "boolean"},
    "age": {"type": "integer", "low": 0, "high": 120},
    "income": {"type": "number", "low": 0, "high": 500000},
    "born": {"type": "date", "low": "1950-01-01", "high": "1990-12-31"},
    "note": {"type": "text"},
}
ROW = {
    "region": "north", "sex": "male", "level": 1, "smoker": True, "age": 40, "income": 1.0,
    "born": None, "note": "x",
}  # fmt: skip
NORTH = "'North' is not a declared value of region; did you mean 'north'? It can be north, south"


@pytest.fixture(scope="module")
def db():
    return opened(pa.Table.from_pylist([ROW], pa.schema([
        ("region", pa.string()), ("sex", pa.string()), ("level", pa.int64()),
        ("smoker", pa.bool_()), ("age", pa.int64()), ("income", pa.float64()),
        ("born", pa.date32()), ("note", pa.string()),
    ])), SCHEMA, name="people")  # fmt: skip


SLIPS = [
    ("region = 'North'", NORTH),
    ("'North' = region", NORTH),
    ("region <> 'North'", NORTH),
    ("region in ('south', 'North')", NORTH),
    ("case region when 'North' then smoker end", NORTH),
    ("nullif(region, 'North') is null", NORTH),
    ("age > 40 and (smoker or region = 'North')", NORTH),
    ("sex = 'femal'", "'femal' is not a declared value of sex; did you mean 'female'?"),
    ("sex = 'unicorn'", "'unicorn' is not a declared value of sex. It can be female, male."),
    ("upper(sex) = 'male'", "'male' is not a value of upper(sex); did you mean 'MALE'?"),
    ("level = 7", "7 is not a declared value of level; did you mean 8? It can be 1, 2, 8."),
    ("smoker = 2", "smoker is true or false, never 2."),
    ("age = 500", "age is declared from 0 to 120, so it is never 500; did you mean 120?"),
    ("age in (40, -1)", "age is declared from 0 to 120, so it is never -1; did you mean 0?"),
    ("income = 5000000", "income is declared from 0 to 500,000, so it is never 5,000,000"),
    ("born = '2020-01-01'", "born is declared from 1950-01-01 to 1990-12-31, so it is never 2020"),
]


@pytest.mark.parametrize(("where", "said"), SLIPS)
def test_a_constant_that_no_row_can_have_is_refused(db, where, said):
    """In a where, as rows, in SQL and its FILTER; nothing is charged."""
    before = db.budget.spent
    for ask in (
        lambda: db.count(where),
        lambda: db.price(sulq.Query(where=where)),
        lambda: db.sql(f"select count(*) from people where {where}"),
        lambda: db.sql(f"select count(*) filter (where {where}) from people"),
    ):
        with pytest.raises(sulq.QueryNotAllowed) as refused:
            ask()
        assert said in str(refused.value)
    assert db.budget.spent == before


@pytest.mark.parametrize(
    "text",
    [
        "select region, count(*) from people group by region having region = 'North'",
        "select region, count(*) from people group by region having region in ('North', 'east')",
        "select region, count(*) from people group by region order by case when region <> 'North' "
        "then 1 else 0 end",
        "select count(*) from (select region as r from people) where r = 'North'",
    ],
)
def test_a_group_is_compared_with_values_it_can_have(db, text):
    """HAVING, ORDER BY and names of a subquery are held to it too."""
    with pytest.raises(
        sulq.QueryNotAllowed, match="'North' is not a declared value of region; did"
    ):
        db.price(text)


def test_a_leaf_has_branches_for_values_that_can_be(db):
    """A partition by a tree as well."""
    tree = {"column": "region", "branches": [["North", None]], "other": None}
    with pytest.raises(sulq.QueryNotAllowed, match="did you mean 'north'"):
        db.price(sulq.Query(by=sulq.Leaf(tree)))


@pytest.mark.parametrize(
    "where",
    ["age >= 0", "age <= 200", "age between 0 and 1000", "born < '2020-01-01'",
     "note = 'anything'", "level in (1, 8)", "smoker = 1", "age = 120", "lower(note) = 'A'"],
)  # fmt: skip
def test_ranges_and_free_text_may_be_asked(db, where):
    """An inequality beyond the range says what it means; text without listed values is any."""
    assert db.price(sulq.Query(where=where)).micro == 1_000_000


@pytest.mark.parametrize(
    "where",
    ["age > 500", "region = 'north'", "coalesce(region, 'nowhere') = 'nowhere'",
     "region like 'N%'"],
)  # fmt: skip
def test_what_declarations_and_public_columns_decide_is_free(db, where):
    """No age is above its declared range; regions are public here."""
    assert db.price(sulq.Query(where=where)).micro == 0


@pytest.mark.parametrize(
    ("where", "values"),
    [
        ("region >= 'north'", ["north", "south", "west"]),
        ("region > 'north'", ["south", "west"]),
        ("'north' > region", ["east"]),
        ("region <= 'm'", ["east"]),
        ("region between 'f' and 't'", ["north", "south"]),
        ("not region > 'z'", ["east", "north", "south", "west"]),
    ],
)
def test_listed_texts_have_an_order(db, where, values):
    """That of their code points, whatever an engine's collation; it is one question with IN."""
    listed = ", ".join(f"'{v}'" for v in values)
    alike = [f"({where}) and smoker", f"region in ({listed}) and smoker"]
    first, second = (db.question(sulq.Query(where=w)).bundles[0].text for w in alike)
    assert first == second
    with pytest.raises(sulq.QueryNotAllowed, match="a column with listed values"):
        db.count("note > 'a'")
