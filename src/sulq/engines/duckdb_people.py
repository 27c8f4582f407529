"""DuckDB: which rows of a person count, and people with their events in several tables as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import duckdb

from sulq.engines.duckdb_connection import check_view
from sulq.engines.first_rows import rows_beyond
from sulq.engines.sql_engine import most_of_each, repeated_keys, several_with_one_key
from sulq.engines.writer import Writer
from sulq.errors import SchemaError
from sulq.expressions.quoting import quote
from sulq.sources.source import TEXTS, Source
from sulq.sources.stacked_rows import Part, stack_sql, stacked_frames
from sulq.values.schema import Schema
from sulq.values.star import KEY, TABLE, Star

PLACE = "sulq_row_number"  # what tells rows of a frame and of a DuckDB file apart


def limit_rows(
    connection: duckdb.DuckDBPyConnection, source: Source, writer: Writer, view: bool
) -> tuple[str | None, str]:
    """Make `source` at most max_rows rows of each person, the first by key or by place.

    With [period] in each of the first max_periods that the person has rows in. Which ones does not
    depend on values, and who owns which rows is public. All of them are `all_rows` then. Gives
    the column that tells rows apart by place, and the WHERE of those left.
    """
    schema, run = writer.schema, connection.execute
    run("ALTER VIEW source RENAME TO all_rows")
    if schema.star is not None:
        place, rest = None, _beyond_in_star(connection, schema.star)
    else:
        place, rest = _beyond(connection, source, writer, view)
    run(f"CREATE VIEW source AS SELECT * FROM all_rows{rest}")
    return place, rest


def _beyond(
    connection: duckdb.DuckDBPyConnection, source: Source, writer: Writer, view: bool
) -> tuple[str | None, str]:
    schema = writer.schema
    assert schema.unit is not None
    # A file of texts, or a view, has nothing but its columns to tell its rows apart; nor have
    # many files.
    own = {"parquet": "file_row_number" if source.path and source.path.is_file() else None}
    own |= {"duckdb": None} if source.kind == "duckdb" and view else {}
    place = (own | dict.fromkeys(TEXTS)).get(source.kind, PLACE)
    keyed = schema.key is not None and schema.key.name != schema.unit.column
    if place is None and not keyed:
        raise SchemaError(
            f"unit: which rows of a person count is fixed by a key, and {source.kind} rows "
            "have no other order. Declare one with key = true, or use one Parquet file."
        )
    key = quote(schema.key.name) if keyed and schema.key is not None else None
    order = ", ".join(part for part in (key, place) if part)  # equal keys by their place
    run = connection.execute
    if place is None:
        several = run(f"SELECT count(*) > count(DISTINCT {key}) FROM all_rows").fetchall()
        if several[0][0]:
            raise SchemaError(
                f"unit: the key {key} is missing or repeated in some rows, so it does not say "
                "which rows of a person count. Give every row its own, or use Parquet."
            )
    known = place or key
    run(f"CREATE TABLE beyond AS {rows_beyond(writer, schema, known, order)}")
    few = run("SELECT count(*) FROM beyond").fetchall()[0][0] == 0
    return place, "" if few else f" WHERE {known} NOT IN (SELECT place FROM beyond)"


def _beyond_in_star(connection: duckdb.DuckDBPyConnection, star: Star) -> str:
    """The same for each of several tables: a row is known by its table and its key."""
    run = connection.execute
    table, key = quote(TABLE), quote(KEY)
    if run(repeated_keys("all_rows", table, key)).fetchall()[0][0]:
        raise several_with_one_key()
    rank = f"row_number() OVER (PARTITION BY {quote(star.person.name)}, {table} ORDER BY {key})"
    ranked = f"SELECT {table}, {key}, {rank} AS rank FROM all_rows"
    most = most_of_each(star, table)
    run(f"CREATE TABLE beyond AS SELECT {table}, {key} FROM ({ranked}) WHERE rank > {most}")
    few = run("SELECT count(*) FROM beyond").fetchall()[0][0] == 0
    return "" if few else f" WHERE ({table}, {key}) NOT IN (SELECT {table}, {key} FROM beyond)"


def show_star(
    source: Source, star: Star, connection: duckdb.DuckDBPyConnection, found: list[Any]
) -> duckdb.DuckDBPyConnection:
    """People and their events, tables or views of one file, as the view `source`."""
    parts = {}
    for table in star.tables:
        home = next((s for s, name, _ in found if name == table.source), None)
        if home is None:
            names = ", ".join(name for _, name, _ in found) or "no table"
            raise SchemaError(
                f"tables.{table.name}: the DuckDB file has {names}. Say which it is under "
                "[tables], with source = its name."
            )
        name = f"owner.{quote(home)}.{quote(table.source)}"
        check_view(source, name)
        described = connection.execute(f"DESCRIBE SELECT * FROM {name}").fetchall()
        parts[table.name] = Part(name, {row[0]: str(row[1]) for row in described})
    connection.execute(f"CREATE VIEW source AS {stack_sql(star, parts)}")
    return connection


def stacked_files(
    source: Source, schema: Schema | None, read: Callable[[Source, Schema], Any]
) -> Any:
    """The files of several tables, each read whole, as one Arrow table."""
    assert schema is not None
    assert schema.star is not None
    frames = {}
    for table in schema.star.tables:
        person = replace(schema.star.person, name=table.person)
        own = Schema((person, *table.columns), schema.where, file=schema.file)
        frames[table.source] = read(source.frame[table.source], own)
    return stacked_frames(frames, schema.star)
