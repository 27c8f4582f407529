"""What a file says of its own columns is not believed: no clamp is dropped because of it."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import duckdb_engine, reference_engine, sums

from sulq import Query

SCHEMA = {"x": {"type": "number", "low": 0, "high": 1000, "nullable": False}}
QUERIES = [
    Query(["x"]),
    Query(["1", "x"], by="x > 500"),
    Query(["x"], where="x <= 1000"),
    Query(["x"], where="not (x > 1000)"),
    Query(["1"], where="x is null"),
]


def written(path, column):
    pq.write_table(pa.table({"x": column}), path)
    return path


def far_out(path):
    """A column whose largest value is far outside, and whose footer says that it is not."""
    column = np.random.default_rng(2).random(300) * 1000
    column[17] = 123456.789
    written(path, column)
    data, true = path.read_bytes(), struct.pack("<d", 123456.789)
    first = data.index(true) + 8  # the value itself stays
    assert data.count(true, first) >= 1
    path.write_bytes(data[:first] + data[first:].replace(true, struct.pack("<d", 999.5)))
    return path


def not_a_number(path):
    column = np.random.default_rng(1).random(300) * 1000
    column[17] = np.nan
    return written(path, column)


@pytest.mark.parametrize("made", [not_a_number, far_out])
def test_a_row_outside_what_the_file_says_of_itself_is_clamped(tmp_path, made):
    """The sums are those of the reference, which reads values only."""
    path = made(tmp_path / "x.parquet")
    wanted = sums(reference_engine(path, SCHEMA), *QUERIES)
    assert sums(duckdb_engine(path, SCHEMA), *QUERIES) == wanted


def test_control_the_file_does_mislead_an_engine_that_believes_it(tmp_path):
    """Otherwise the test above would prove nothing."""
    import duckdb

    for made in (not_a_number, far_out):
        path = made(tmp_path / f"{made.__name__}.parquet")
        clamp = "CASE WHEN x BETWEEN 0.0::DOUBLE AND 1000.0::DOUBLE THEN x ELSE 0.0::DOUBLE END"
        ((found,),) = duckdb.execute(f"SELECT max({clamp}) FROM '{path}'").fetchall()
        assert not found <= 1000
