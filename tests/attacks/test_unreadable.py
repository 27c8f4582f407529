"""Values that cannot be read: missing, or the source is refused before there is a question.

Were one found in the middle of a question, only for rows that pass its other conditions, then
whether the question fails would be an answer.
"""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from helpers import checked, duckdb_engine, opened, reference_engine

import sulq
from sulq.engines.duckdb import DuckDBEngine

SECRET = [i % 3 == 0 for i in range(12)]
SCHEMA = {
    "id": {"type": "integer", "key": True},
    "s": {"type": "boolean"},
    "t": {"type": "text"},
    "c": {"values": ["a", "b", "?"]},
}
NOT_UTF8 = b"nobody reads this \xff\xfe"
PROMISE = {"epsilon": 1.0, "queries": 100}


def texts(values, kind=None):
    """Text made from raw memory, as another program may have written it."""
    kind = kind or pa.string()
    if pa.types.is_dictionary(kind):
        own = texts(values, kind.value_type)
        return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), kind.index_type), own)
    if kind == pa.string_view():
        return pa.array(values, pa.binary_view()).view(kind)
    raw = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(raw), raw.buffers())


def table(bad="t", kind=None, row=7):
    """Twelve rows, one with bytes in column `bad` that are not UTF-8."""
    words = [b"a"] * 12
    columns = {"t": list(words), "c": list(words)}
    if bad:
        columns[bad][row] = NOT_UTF8
    made = {n: texts(v, kind if n == bad else None) for n, v in columns.items()}
    return pa.table({"id": list(range(12)), "s": SECRET} | made)


@pytest.mark.parametrize("bad", ["t", "c"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_parquet_file_with_text_that_is_not_utf8_is_refused(tmp_path, bad, dictionary):
    """Its column is named, no value of it is; nothing was begun, and the rest can be opened."""
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(table(bad), path, use_dictionary=dictionary)
    for ledger in (":memory:", tmp_path / "people.ledger"):
        with pytest.raises(sulq.SchemaError, match=f"column '{bad}'.*not UTF-8") as refused:
            opened(path, SCHEMA, ledger=ledger)
        assert "nobody" not in str(refused.value)
        assert refused.value.__context__ is None or refused.value.__suppress_context__
    assert not (tmp_path / "people.ledger").exists()
    with pytest.raises(sulq.SchemaError, match=f"column '{bad}'"):
        sulq.encode(path, SCHEMA, tmp_path / "people.sulq")
    with pytest.raises(sulq.SchemaError, match=f"column '{bad}'"):
        opened(path, SCHEMA, engine="reference")
    rest = {n: d for n, d in SCHEMA.items() if n != bad}
    assert float(opened(path, rest).count("s")) == 4


def test_no_question_about_such_a_file_tells_a_bit(tmp_path):
    """Without the look at opening every question fails alike: conditions are values, not filters.

    Before they were, the failures were the secret, 12 of 12.
    """
    told = []
    for row in range(12):
        path = tmp_path / f"{row}.parquet"
        pa.parquet.write_table(table("t", row=row), path, use_dictionary=False)
        engine = duckdb_engine(path, SCHEMA)  # opened as release 1 did
        question = checked([sulq.Query(where=f"id = {row} and s and t = 'a'")], engine)
        try:
            engine.sums(question)
            told.append(False)
        except sulq.EngineFailed:
            told.append(True)
        with pytest.raises(sulq.SchemaError):
            opened(path, SCHEMA)
    assert told == [True] * 12 != SECRET


@pytest.mark.parametrize("unit", [False, True])
def test_a_key_or_a_person_that_is_not_utf8_is_refused(tmp_path, unit):
    """Also where rows are ranked by it before they are read."""
    path = tmp_path / "people.parquet"
    pa.parquet.write_table(table("t"), path)
    schema = {n: dict(d) for n, d in SCHEMA.items()}
    if unit:
        schema = {"columns": schema, "unit": {"column": "t", "max_rows": 2}}
    else:
        schema["id"], schema["t"] = {"type": "integer"}, {"key": True}
    with pytest.raises(sulq.SchemaError, match="UTF-8"):
        opened(path, schema)


KINDS = [
    pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string()),
    pa.dictionary(pa.int32(), pa.large_string()),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_frame_with_text_that_is_not_utf8_is_refused(kind):
    """Arrays made from raw memory are looked at when they are opened; good ones are answered."""
    with pytest.raises(sulq.SchemaError, match=r"column 't'.*not UTF-8"):
        opened(table("t", kind), SCHEMA)
    good = table(None).set_column(2, "t", texts([b"a"] * 12, kind))
    assert float(opened(good, SCHEMA).count("s and t = 'a'")) == 4


def test_a_view_that_fails_on_some_rows_is_refused(tmp_path):
    """The expressions of a DuckDB file's view are evaluated for all rows when it is opened."""
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE raw AS SELECT i AS id, i % 3 = 0 AS s, "
            "CASE WHEN i = 7 THEN 'x' ELSE '1' END AS a FROM range(12) AS r(i)"
        )
        connection.execute("CREATE VIEW people AS SELECT id, s, CAST(a AS INTEGER) AS a FROM raw")
    schema = {n: SCHEMA[n] for n in ("id", "s")} | {"a": {"type": "integer", "low": 0, "high": 9}}
    with pytest.raises(sulq.SchemaError, match="column 'a'"):
        opened(path, schema, table="people")
    del schema["a"]
    assert float(opened(path, schema, table="people").count("s")) == 4


def test_a_file_is_read_through_once(tmp_path, monkeypatch):
    """The same bytes are not read through again; others, or another column, are."""
    path, seen = tmp_path / "people.parquet", []
    read_through = DuckDBEngine.read_through

    def noted(engine):
        seen.append(sorted(engine.schema.names))
        return read_through(engine)

    monkeypatch.setattr(DuckDBEngine, "read_through", noted)
    pa.parquet.write_table(table(None), path)
    fewer = {n: d for n, d in SCHEMA.items() if n != "t"}
    for schema in (fewer, fewer):
        opened(path, schema, ledger=tmp_path / "people.ledger").close()
    assert seen == [["c", "id", "s"]]
    with pytest.raises(sulq.SulqError):  # a ledger has one schema
        opened(path, SCHEMA, ledger=tmp_path / "people.ledger")
    assert len(seen) == 2


# --- moments ------------------------------------------------------------------------------

END = 2**63 - 1
MOMENTS = [
    0, END, -END, -END - 1, END - 1, 10**13, -(10**13), 9 * 10**15, 9 * 10**18, -1, 86_399,
    9_223_372_036_854, 9_223_372_036_855, 9_223_372_036_854_775, 9_223_372_036_854_776,
    -9_223_372_036_854, -9_223_372_036_855, 253_402_300_799, -62_135_596_800,
]  # fmt: skip
DATES = {
    "id": {"type": "integer", "key": True},
    "d": {"type": "date", "low": "1950-01-01", "high": "2049-12-31"},
    "e": {"type": "date"},
}
ASKED = [
    *(sulq.Query(where=w) for w in (
        "d is null", "e is null", "d = date '2049-12-31'", "d = date '1950-01-01'",
        "year(e) = 1970", "e < date '1960-01-01'", "e = date '9999-12-31'",
        "id in (1, 4, 6, 8) and d > date '2000-01-01'",
    )),
    sulq.Query(["year(d)", "d - date '2000-01-01'"], by=sulq.Blocks(0, 3)),
    sulq.Query(["exp(day(d))"], by=sulq.Bins("d", ["1960-01-01", "1980-01-01", "2030-01-01"])),
]  # fmt: skip


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_moments_at_the_ends_of_their_range(unit, zone, tmp_path):
    """None fails a question; what no date can hold is missing; alone and together, all engines."""
    raw = pa.array(MOMENTS, pa.int64()).view(pa.timestamp(unit, zone))
    rows = pa.table({"id": list(range(len(MOMENTS))), "d": raw, "e": raw})
    reference = reference_engine(rows, DATES)
    engine = duckdb_engine(rows, DATES)
    queries = checked(ASKED, engine)
    wanted = reference.sums(queries)
    assert engine.sums(queries) == wanted
    assert [engine.sums([q])[0] for q in queries] == wanted
    mult = {"s": 10**6, "ms": 1000}.get(unit, 1)
    lost = sum(abs(x) * mult > END and abs(x) != END for x in MOMENTS)
    if unit in ("s", "ms"):
        assert wanted[0] == [[lost]]
        assert lost > 3
    db = opened(rows, DATES)
    for row in range(len(MOMENTS)):
        assert float(db.count(f"id = {row} and (d is null or d is not null)")) == 1


def test_moments_of_a_duckdb_file(tmp_path):
    """TIMESTAMP_S and TIMESTAMP_MS hold more than a date can; the rest of it is missing."""
    path = tmp_path / "far.duckdb"
    raw = pa.array(MOMENTS, pa.int64())
    rows = pa.table({"id": list(range(len(MOMENTS))), "d": raw.view(pa.timestamp("s")),
                     "e": raw.view(pa.timestamp("ms"))})  # fmt: skip
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE far AS SELECT * FROM rows")
    engine = duckdb_engine(path, DATES)
    queries = checked(ASKED, engine)
    assert engine.sums(queries) == reference_engine(rows, DATES).sums(queries)
    sulq.encode(path, DATES, tmp_path / "far.sulq")
    store = duckdb_engine(tmp_path / "far.sulq", DATES)
    assert store.sums(checked(ASKED, store)) == engine.sums(queries)


def test_a_parquet_file_with_moments_beyond_all_dates_is_refused(tmp_path):
    """Milliseconds that microseconds cannot hold fail DuckDB's reader, so they are looked for."""
    path = tmp_path / "far.parquet"
    raw = pa.array([0, 10**17], pa.int64()).view(pa.timestamp("ms"))
    rows = pa.table({"id": [0, 1], "d": raw, "e": raw})
    pa.parquet.write_table(rows, path, write_statistics=False)
    with pytest.raises(sulq.SchemaError, match=r"column 'd'.*290,000 years"):
        opened(path, DATES)
    pa.parquet.write_table(rows, path)  # here its statistics tell it at once
    with pytest.raises(sulq.SchemaError, match="could not be opened"):
        opened(path, DATES)


def test_days_kept_as_milliseconds_that_are_no_whole_days():
    """A date64 of any value is read as the day it falls on."""
    raw = pa.array([0, 1, 86_400_000 * 366 + 5, END, -1, 10**17], pa.int64()).view(pa.date64())
    engine = duckdb_engine(pa.table({"id": list(range(6)), "d": raw, "e": raw}), DATES)
    asked = [sulq.Query(where=w) for w in ("year(e) = 1970", "e is null", "e < date '1970-01-01'")]
    assert engine.sums(checked(asked, engine)) == [[[2]], [[2]], [[1]]]


def test_half_floats_are_numbers():
    """A frame's half floats are read as any float."""
    values = np.array([0.5, np.inf, -np.inf, np.nan, 6e-8, 65504], dtype=np.float16)
    schema = {"x": {"type": "number", "low": 0, "high": 2}}
    engine = duckdb_engine(pa.table({"x": values}), schema)
    asked = [sulq.Query(["x"]), sulq.Query(sulq.Sums(["x"])), sulq.Query(where="x is null")]
    found = engine.sums(checked(asked, engine))
    assert found == reference_engine(pa.table({"x": values}), schema).sums(checked(asked, engine))
    assert found[2] == [[1]]
