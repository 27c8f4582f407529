"""Rows named by their keys: any number of them, joined with the table on every engine.

No luck is involved.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import ENGINES, checked, opened
from questions.test_shards import KEYS, TABLE, schema, shard_by_hand

import sulq
from sulq.errors import BudgetExceeded, QueryNotAllowed
from sulq.questions.describe import readable
from sulq.values.query import Query, Rows
from sulq.values.row_sets import MAX_KEYS
from sulq.values.schema import Schema

MANY = 50_000  # far above what could be written into SQL
PLAIN = {"columns": schema()["columns"] | {"id": {"key": True}}}


@pytest.mark.parametrize("make", ENGINES.values(), ids=ENGINES)
@pytest.mark.parametrize("named", ["integer", "text"])
def test_every_engine_finds_the_same_rows(make, named):
    """Sums over sets of keys, also of many that no row has, are those of rows looked up by hand."""
    name = (lambda k: k) if named == "integer" else (lambda k: f"k'{k}")
    table = TABLE.set_column(0, "id", pa.array([name(k) for k in KEYS]))
    engine = make(table, Schema.load(PLAIN))
    sets = [[name(k) for k in KEYS[::2]], [name(k) for k in range(MANY)], [name(10**12)]]
    queries = [Query(("1", "worth"), rows=Rows.keys(keys)) for keys in sets]
    queries += [Query(("1",), by="region", rows=Rows.keys(sets[0])), Query(("1", "worth"))]
    found = engine.sums(checked(queries, engine))
    for keys, matrix in zip(sets, found, strict=False):
        rows = [k for k in KEYS if name(k) in set(keys)]
        assert matrix[0][0] == len(rows) > 0
    regions = TABLE.column("region").to_pylist()[::2]
    assert [row[0] for row in found[3]] == [regions.count(r) for r in ("north", "south", None)]
    assert found[4][0][0] == len(KEYS)
    engine.close()


def test_equal_sets_are_the_same_question(tmp_path):
    """A list in any order, twice, an array, a text file, a Parquet file: one charge, one answer."""
    keys = [5, 3, 10, 7]
    (tmp_path / "keys.txt").write_text("7\n3\n\n5\n10\n")
    pq.write_table(pa.table({"id": [10, 7, None, 5, 3]}), tmp_path / "keys.parquet")
    db = opened(TABLE, PLAIN)
    first = db.count("worth > 4", rows=Rows.keys(keys))
    same = [keys * 2, np.array(keys), set(keys), tmp_path / "keys.txt", tmp_path / "keys.parquet"]
    for given in same:
        assert db.count("worth > 4", rows=Rows.keys(given)).value == first.value
    db.count("worth > 4", rows=Rows.keys([5, 3, 10]))
    assert len(db.history()) == 2
    asked = Query(("1",), where="worth > 4", rows=Rows.keys(keys))
    body = json.loads(json.dumps(asked.to_json()))
    body["rows"]["named"].reverse()
    assert db.ask(Query.from_json(body)).value == first.value
    assert "over the rows with 4 named keys" in readable(db.history()[0].query)
    assert db.sizes(Rows.keys(keys)) == [(4,)]


def test_the_ledger_keeps_each_set_once(tmp_path):
    """So that the owner can read whom a question was about; found again when it is opened again."""
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    with sulq.open(tmp_path / "rows.parquet", PLAIN, epsilon=1.0, queries=10) as db:
        first = db.count("worth > 4", rows=Rows.keys([5, 3]))
        db.count("worth > 5", rows=Rows.keys([3, 5]))
        kinds = [entry.kind for entry in db.entries()]
        assert kinds.count("keys") == 1
        assert kinds.index("keys") < kinds.index("charge")
        assert [entry.kind for entry in db.decisions()] == ["open"]
    with sulq.open(tmp_path / "rows.parquet", PLAIN, epsilon=1.0, queries=10) as db:
        assert db.count("worth > 4", rows=Rows.keys([5, 3])).value == first.value
        (kept,) = (entry.body for entry in db.entries() if entry.kind == "keys")
        assert kept["hash"] == json.loads(db.history()[0].query)["sample"][1]
        assert kept["keys"] == [3, 5]
        db.verify()


def test_everyone_pays_or_the_shards_that_the_keys_are_in():
    """Without shards a set of keys is charged to all; with them to those that could be meant."""
    plain = opened(TABLE, PLAIN)
    plain.count("worth > 4", rows=Rows.keys([5, 3]))
    assert {cell["spent"] for cell in plain.budget_by_cell()} == {1}
    db = opened(TABLE, schema(), queries=1)
    keys = [k for k in KEYS if shard_by_hand(k) in (2, 9)][:6]
    touched = {shard_by_hand(k) for k in keys}
    db.count("worth > 4", rows=Rows.keys(keys))
    spent = {cell["id shard"] for cell in db.budget_by_cell() if cell["spent"]}
    assert spent == touched
    other = [k for k in KEYS if shard_by_hand(k) == 5]
    db.count("worth > 4", rows=Rows.keys(other))
    with pytest.raises(BudgetExceeded):
        db.count("worth > 5", rows=Rows.keys([*other, keys[0]]))


def test_what_is_no_set_of_keys_is_refused(tmp_path):
    """By the set alone, before anything is charged; from JSON too."""
    (tmp_path / "no.txt").write_bytes(b"\xff\xfe")
    for given in ([], [1, "a"], [1.5], [True, 2], 7, [None], [[1]], tmp_path / "gone", [b"x"],
                  ["a\ud800"]):  # fmt: skip
        with pytest.raises(QueryNotAllowed, match=r"Rows\.keys"):
            Rows.keys(given)
    with pytest.raises(QueryNotAllowed, match="cannot be read"):
        Rows.keys(tmp_path / "no.txt")
    with pytest.raises(QueryNotAllowed, match="at most 1,000,000"):
        Rows.keys(range(MAX_KEYS + 1))
    db = opened(TABLE, PLAIN)
    for rows, said in [
        (Rows.keys(["a"]), "has whole numbers"),
        (Rows.keys([2**63]), "beyond 2"),
        (Rows(named=(1, "a")), "Rows.keys"),
        (Rows(named=(1,), predicate="region = 'north'"), "not both"),
    ]:
        with pytest.raises(QueryNotAllowed, match=said):
            db.ask(Query(rows=rows))
    nobody = {"columns": {"worth": schema()["columns"]["worth"]}}
    with pytest.raises(QueryNotAllowed, match="declares none"):
        opened(TABLE, nobody).count(rows=Rows.keys([1]))
    assert db.history() == []
