"""What PostgreSQL's catalogs say of a table: its columns, its rights, whether it moved.

Only names, types and counters are looked at here. Catalogs are readable by every role, so a
role with SELECT on one table is enough.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sulq.engines.postgres_sql import WHOLE_NUMERIC, PostgresWriter, name_of
from sulq.engines.sql import quote
from sulq.errors import SchemaError
from sulq.postgres import OLDEST
from sulq.schema import Schema

if TYPE_CHECKING:
    import psycopg

MOST_DIGITS = 300  # of a numeric that every float can be near to
DEFAULT_COLLATIONS = (0, 100, 950)  # none, the database's own, "C": equal means equal bytes

# A stored type, and the DuckDB type that means the same to a declaration.
PLAIN = {
    "bool": "BOOLEAN", "int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT",
    "float4": "FLOAT", "float8": "DOUBLE", "text": "VARCHAR", "varchar": "VARCHAR",
    "date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
AS_TEXT = ("bpchar", "name", "uuid", "citext")

FIND = """
SELECT c.oid, n.nspname, c.relname
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_'
  AND n.nspname <> 'information_schema' AND has_any_column_privilege(c.oid, 'SELECT')
  AND has_schema_privilege(n.oid, 'USAGE')
ORDER BY n.nspname, c.relname
"""
COLUMNS = """
WITH RECURSIVE base AS (
  SELECT attnum, attname, atttypid AS type, atttypmod AS mod, attcollation
  FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
    AND has_column_privilege($1, attnum, 'SELECT')
  UNION ALL
  SELECT attnum, attname, typbasetype, CASE WHEN mod = -1 THEN typtypmod ELSE mod END, attcollation
  FROM base JOIN pg_type ON pg_type.oid = type WHERE typtype = 'd'
)
SELECT attname, typname, typtype, mod, attcollation::bigint
FROM base JOIN pg_type ON pg_type.oid = type WHERE typtype <> 'd' ORDER BY attnum
"""
FACTS = """
SELECT current_setting('server_version_num')::int, system_identifier::text,
  (SELECT oid::bigint FROM pg_database WHERE datname = current_database()),
  (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
  OR has_table_privilege($1, 'INSERT, UPDATE, DELETE, TRUNCATE')
FROM pg_control_system()
"""
# The table, the partitions below it, the tables a view reads: each with what moves on a change.
PARTS = """
WITH RECURSIVE parts(oid) AS (
  SELECT $1::oid
  UNION
  SELECT found.oid FROM parts CROSS JOIN LATERAL (
    SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = parts.oid
    UNION ALL
    SELECT d.refobjid FROM pg_rewrite r
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
    JOIN pg_class v ON v.oid = r.ev_class AND v.relkind = 'v'
    WHERE r.ev_class = parts.oid AND d.refclassid = 'pg_class'::regclass
      AND d.refobjid <> r.ev_class
  ) AS found
)
SELECT c.oid::bigint, c.relkind, pg_relation_filenode(c.oid)::bigint, pg_relation_size(c.oid),
  pg_stat_get_tuples_inserted(c.oid), pg_stat_get_tuples_updated(c.oid),
  pg_stat_get_tuples_deleted(c.oid)
FROM parts JOIN pg_class c ON c.oid = parts.oid
WHERE c.relkind NOT IN ('S', 'i', 'I', 'c', 't') ORDER BY c.oid
"""
CLOCK = """
SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()::text, pg_postmaster_start_time()::text,
  current_setting('track_counts')
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """One column as it is stored: what a declaration calls its type, and the SQL to read it."""

    kind: str
    sql: str
    scale: int | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a view or a partitioned table that this role may read."""

    oid: int
    name: str  # for SQL
    shown: str  # for people
    place: str
    writable: bool
    columns: dict[str, Stored]

    @property
    def types(self) -> dict[str, str]:
        """Each readable column's type, in the words that declarations are compared with."""
        return {name: c.kind for name, c in self.columns.items()}

    def writer(self, schema: Schema) -> PostgresWriter:
        """Who writes SQL over it, for these declarations."""
        chosen = {c.name: self.columns[c.name] for c in schema.columns}
        return PostgresWriter(
            schema,
            {n: c.kind for n, c in chosen.items()},
            {n: c.sql for n, c in chosen.items()},
            {n: c.scale for n, c in chosen.items() if c.scale is not None},
        )


def find_relation(connection: psycopg.Connection[Any], table: str | None) -> Relation:
    """The table of this name; its schema may stand before it, with a dot."""
    found = _rows(connection, FIND)
    same = [f for f in found if table in (None, f[2], f"{f[1]}.{f[2]}")]
    if len(same) > 1:
        same = [f for f in same if f[1] == "public"] or same
    if len(same) != 1:
        names = [f"{f[1]}.{f[2]}" for f in (same or found)[:20]]
        what = "names several" if same else "is not there, or this role may not read it"
        raise SchemaError(
            f"table={table!r} {what}. This role may read: {', '.join(names) or 'nothing'}. Name "
            "one with table='schema.name'."
        )
    oid, namespace, relation = same[0]
    version, server, database, writable = _rows(connection, FACTS, oid)[0]
    if version < OLDEST:
        raise SchemaError(
            f"source: PostgreSQL {version // 10_000} is too old, want {OLDEST // 10_000} or newer."
        )
    columns = {row[0]: _stored(*row) for row in _rows(connection, COLUMNS, oid)}
    return Relation(
        oid, name_of(namespace, relation), f"{namespace}.{relation}",
        f"postgresql {server} {database} {oid}", bool(writable), columns,
    )  # fmt: skip


def _stored(name: str, type_: str, kind: str, mod: int, collation: int) -> Stored:
    sql = quote(name)
    plain = 'COLLATE "C"' if collation not in DEFAULT_COLLATIONS else ""
    if type_ == "float4":
        return Stored("FLOAT", f"CAST({sql} AS DOUBLE PRECISION)")
    if type_ == "oid":
        return Stored("BIGINT", f"CAST({sql} AS BIGINT)")
    if type_ == "numeric":
        return _numeric(sql, mod)
    if kind == "e" or type_ in AS_TEXT:
        return Stored(
            "VARCHAR", f"(CAST({sql} AS TEXT) {plain})" if plain else f"CAST({sql} AS TEXT)"
        )
    if PLAIN.get(type_) == "VARCHAR":
        return Stored("VARCHAR", f"({sql} {plain})" if plain else sql)
    return Stored(PLAIN.get(type_, type_.upper()), sql)


def _numeric(sql: str, mod: int) -> Stored:
    """Whole if it was declared without digits after the point; else a decimal."""
    if mod < 4:
        return Stored("DECIMAL", sql)
    digits, scale = (mod - 4) >> 16 & 0xFFFF, ((mod - 4) & 0x7FF ^ 1024) - 1024
    if digits > MOST_DIGITS or not 0 <= scale <= MOST_DIGITS:
        return Stored("DECIMAL", sql)
    return Stored("DECIMAL", sql, scale) if scale else Stored(WHOLE_NUMERIC, sql)


def version_of(connection: psycopg.Connection[Any], relation: Relation) -> str | None:
    """Moves when rows may have changed; None if nothing would tell.

    On a primary: the server's counters of rows written, each file and its size, when the server
    was started. They may lag behind by seconds, and always catch up. On a standby: how far it
    has come, which moves with every change anywhere.
    """
    standby, position, started, counting = _rows(connection, CLOCK)[0]
    parts = _rows(connection, PARTS, relation.oid)
    readable = all(row[1] in ("r", "p", "v", "m") for row in parts)
    if standby:
        return f"standby {position}"
    return f"{started} {parts}" if counting == "on" and readable else None


def contents_of(
    connection: psycopg.Connection[Any], relation: Relation, names: list[str]
) -> tuple[str, str]:
    """All columns that can be read, and these: each with n and the sum of the hashes of all rows.

    Equal for equal rows, in whatever order they lie.
    """
    known = set(PLAIN.values()) | {"DECIMAL", WHOLE_NUMERIC}
    every, names = sorted(relation.columns), sorted(names)
    sums = []
    for some in (every, names):
        stored = ((n, relation.columns[n]) for n in some)
        parts = [c.sql if c.kind in known else f"CAST({quote(n)} AS TEXT)" for n, c in stored]
        sums.append(f"sum(hash_record_extended(ROW({', '.join(parts)}), 0))::text")
    found = _rows(connection, f"SELECT count(*), {', '.join(sums)} FROM {relation.name}")[0]
    all_columns, declared = (
        json.dumps([*n, found[0], h]) for n, h in zip((every, names), found[1:], strict=True)
    )
    return all_columns, declared


def _rows(connection: psycopg.Connection[Any], sql: str, oid: int = 0) -> list[tuple[Any, ...]]:
    """The catalogs' own number of a table is all that is ever put into these statements."""
    return connection.execute(sql.replace("$1", f"CAST({int(oid)} AS oid)").encode()).fetchall()
