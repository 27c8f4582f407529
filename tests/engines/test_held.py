"""Rows that a server keeps in memory: the same sums, decided by what is public."""

import math

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from sulq import Query
from sulq.engines.duckdb import HELD_BYTES, DuckDBEngine, row_bytes
from sulq.questions.check import check
from sulq.sources.source import Source
from sulq.values.schema import Schema

COLUMNS = {
    "id": {"key": True},
    "age": {"type": "integer", "low": 0, "high": 120},
    "smoker": {"type": "boolean"},
    "city": {"values": ["a", "b"], "public": True},
}
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4], "age": [7, None, 300, 40], "smoker": [True, None, False, True],
        "city": ["a", "b", None, "c"], "more": [1, 2, 3, 4],
    }
)  # fmt: skip
QUERIES = [Query(["age", "1"]), Query(by="city"), Query(where="smoker"), Query(where="age > 30")]


def opened(folder, kind, schema):
    path = folder / f"rows.{kind}"
    pq.write_table(TABLE, path) if kind == "parquet" else pyarrow.csv.write_csv(TABLE, path)
    return path, DuckDBEngine(Source(kind, "rows", path=path), schema)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_held_rows_have_the_same_sums_on_every_way_to_them(tmp_path, kind):
    """On the way itself and beside it; the file is not read any more."""
    schema = Schema.load(COLUMNS)
    path, engine = opened(tmp_path, kind, schema)
    asked = [check(q, schema, "laplace", "dp") for q in QUERIES]
    before, beside = engine.sums(asked), engine.beside()
    assert engine.hold()
    path.unlink()
    fresh = engine.beside()
    for one in (engine, beside, fresh):
        one.probe()
        one._cubes._kept.clear()
        assert one.sums(asked) == before
    assert engine.sums([asked[3]]) == [[[2]]]
    assert not engine.hold()  # once is enough


def test_whether_rows_are_held_is_decided_by_what_is_public(tmp_path):
    """n and the declared columns: a text that may be endless is not held, a short one is."""
    schema = Schema.load(COLUMNS)
    _, engine = opened(tmp_path, "parquet", schema)
    assert row_bytes(schema) == 8 + 8 + 8 + 16
    engine.rows = HELD_BYTES // 40 + 1
    assert not engine.hold()
    assert not engine.hold(False)
    assert engine.hold(True)  # as made-up rows are, if the dataset's are
    text = COLUMNS | {"note": {"type": "text"}}
    assert row_bytes(Schema.load(text)) == math.inf
    assert row_bytes(Schema.load(text | {"note": {"type": "text", "max_length": 20}})) == 76
