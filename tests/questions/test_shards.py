"""Rows that pay for themselves: shards of the key are cells of the ledger.

No luck is involved.
"""

from fractions import Fraction

import pandas as pd
import pyarrow as pa
import pytest
from helpers import ENGINES, checked, opened

import sulq
from sulq.errors import BudgetExceeded, QueryNotAllowed, SchemaError
from sulq.expressions.columns import PRIME
from sulq.open_database import refresh
from sulq.questions.describe import readable
from sulq.questions.partitions import hash_numbers
from sulq.questions.shards import SEED
from sulq.values.query import Query, Rows
from sulq.values.schema import Schema

SHARDS = 16


def schema(**more):
    return {
        "columns": {
            "id": {"key": True, "shards": SHARDS},
            "region": {"values": ["north", "south"], "public": True},
            "worth": {"type": "integer", "low": 0, "high": 9, "nullable": False},
        }
    } | more


def shard_by_hand(key):
    """As docs/reference/schema.md says it, one row at a time."""
    k, found = (0 if key is None else key % PRIME), 0
    for c in hash_numbers(SEED):
        found = (found * k + c) % PRIME
    return next(i for i in range(SHARDS) if found * SHARDS < (i + 1) * PRIME)


KEYS = [*range(200), 2**31 - 1, 2**40 + 3, -5, 10**12]
TABLE = pa.table(
    {
        "id": pa.array(KEYS, pa.int64()),
        "region": ["north", "south", None] * (len(KEYS) // 3),
        "worth": [k % 10 for k in KEYS],
    }
)
SETS = [range(16), range(1), range(3, 9), [0, 5, 6, 15], [15], range(8, 16)]


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("named", ["integer", "text"])
def test_every_engine_puts_every_key_into_its_shard(make, named):
    """Sums over shards, single, in stretches and scattered, are those of rows hashed by hand."""
    table = TABLE
    if named == "text":
        table = table.set_column(0, "id", pa.array([f"k{k}" for k in KEYS]))
    engine = make(table, Schema.load(schema()))
    queries = [Query(("1", "worth"), rows=Rows.shard(which)) for which in SETS]
    found = engine.sums(checked(queries, engine))
    everyone = engine.sums(checked([Query(("1", "worth"))], engine))[0][0]
    each = engine.sums(checked([Query(("1",), rows=Rows.shard(i)) for i in range(16)], engine))
    assert sum(matrix[0][0] for matrix in each) == len(KEYS)  # each row in one shard
    assert found[0][0] == everyone
    if named == "integer":
        for which, matrix in zip(SETS, found, strict=True):
            rows = [k for k in KEYS if shard_by_hand(k) in which]
            assert matrix[0][0] == len(rows)
    engine.close()


def test_only_the_rows_of_the_shards_pay():
    """Sixteen questions to sixteen shards spend one query of everybody's, not sixteen."""
    db = opened(TABLE, schema(), queries=2)
    for i in range(SHARDS):
        db.count("worth > 4", rows=Rows.shard(i))
    assert db.budget.spent == 1
    db.count("worth > 5 and region = 'north'", rows=Rows.shard(range(4)))
    spent = {(c["region"], c["id shard"]): c["spent"] for c in db.budget_by_cell()}
    assert spent["north", 3] == 2
    assert spent["north", 4] == spent["south", 3] == 1
    with pytest.raises(BudgetExceeded):
        db.count("worth > 6 and region = 'north'", rows=Rows.shard([3, 9]))
    db.count("worth > 6", rows=Rows.shard(range(4, 16)))
    assert db.budget_by_cell()[0]["remaining"] == 0
    with pytest.raises(BudgetExceeded):  # a seeded sample is no shard: everyone pays
        db.count("worth > 7", rows=Rows.sample(1, Fraction(1, 16)))


def test_the_same_shards_are_the_same_question():
    """However they are named; all of them are everybody."""
    db = opened(TABLE, schema())
    db.count("worth > 4", rows=Rows.shard([3, 1, 2, 2]))
    db.count("worth > 4", rows=Rows.shard(range(1, 4)))
    assert len(db.history()) == 1
    db.count("worth > 4", rows=Rows.shard(range(SHARDS)))
    db.count("worth > 4")
    assert len(db.history()) == 2
    asked = Query(("1",), where="worth > 4", rows=Rows.shard([1, 2, 3]))
    assert Query.from_json(asked.to_json()) == asked
    assert db.ask(Query.from_json(asked.to_json())).value == db.ask(asked).value
    assert "over shards" in readable(db.history()[0].query)


def test_a_mean_over_shards_divides_by_their_rows():
    """n of a public set is public and free."""
    db = opened(TABLE, schema())
    rows = [k for k in KEYS if shard_by_hand(k) < 4]
    assert db.sizes(Rows.shard(range(4))) == [(len(rows),)]
    mean = db.mean("worth", rows=Rows.shard(range(4)))
    assert mean.value == pytest.approx(sum(k % 10 for k in rows) / len(rows), abs=1e-3)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"id": {"key": True, "shards": 1}}, "want a whole number from 2"),
        ({"id": {"key": True, "shards": True}}, "want a whole number from 2"),
        ({"id": {"key": True}, "x": {"type": "boolean", "shards": 5}}, "applies to key = true"),
        ({"id": {"key": True, "shards": 5000}, "x": {"type": "boolean", "public": True}},
         "15,003 ledger cells"),
    ],
)  # fmt: skip
def test_declarations_that_cannot_be_kept_are_refused(declared, said):
    """Shards and other public columns together are at most 10,000 cells."""
    with pytest.raises(SchemaError, match=said):
        Schema.load({"columns": declared})
    with pytest.raises(SchemaError, match="may have rows in several"):
        Schema.load(schema(unit={"column": "id", "max_rows": 2}))


def test_sets_of_shards_that_mean_nothing_are_refused():
    """By their numbers alone, before anything is charged; from JSON too."""
    db = opened(TABLE, schema())
    for which in (-1, [], "ab", 1.5, [1.5]):
        with pytest.raises(QueryNotAllowed, match=r"Rows\.shard"):
            Rows.shard(which)
    with pytest.raises(QueryNotAllowed, match="numbered 0 to 15"):
        db.count(rows=Rows.shard(16))
    for ends in ((3,), (3, 3), (5, 2), ("a", "b"), (0, 5, 5, 6), (True, 2)):
        with pytest.raises(QueryNotAllowed, match="by number"):
            db.ask(Query(rows=Rows(shards=ends)))
    with pytest.raises(QueryNotAllowed, match="not both"):
        db.ask(Query(rows=Rows(shards=(0, 1), predicate="region = 'north'")))
    plain = {"columns": {"id": {"key": True}, "worth": schema()["columns"]["worth"]}}
    with pytest.raises(QueryNotAllowed, match="declares no shards"):
        opened(TABLE, plain).count(rows=Rows.shard(1))
    assert db.history() == []


def test_after_a_refresh_every_shard_carries_the_highest_spending(tmp_path):
    """Rows may have been numbered anew, so no row may leave behind what was spent on it."""
    path = tmp_path / "rows.parquet"
    pd.DataFrame(TABLE.to_pandas()).to_parquet(path)
    db = sulq.open(path, schema(), epsilon=1.0, queries=10)
    db.count("worth > 4", rows=Rows.shard(1))
    db.count("worth > 5", rows=Rows.shard(1))
    db.close()
    TABLE.to_pandas().iloc[:-1].to_parquet(path)
    again = refresh(path, schema(), reason="one row less")
    assert {cell["spent"] for cell in again.budget_by_cell()} == {2}
    other = schema()
    other["columns"]["id"]["shards"] = 8
    with pytest.raises(SchemaError, match="public columns"):
        refresh(path, other, reason="other shards")
