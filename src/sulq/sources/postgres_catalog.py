"""What PostgreSQL's catalogs say of a table: its columns, its rights, whether it moved.

Only names, types, rules of views, and which transactions are over, are looked at here. Catalogs
are readable by every role, so a role with SELECT on one table is enough.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sulq.errors import SchemaError
from sulq.expressions.quoting import quote, text
from sulq.sources.postgres import OLDEST, first_look, reach
from sulq.sources.stacked_rows import Part, stack_sql, stack_types
from sulq.values.star import Star, StarTable

if TYPE_CHECKING:
    import psycopg

MAX_DIGITS = 300  # of a numeric that every float can be near to
DEFAULT_COLLATIONS = (0, 100, 950)  # none, the database's own, "C": equal means equal bytes

# A stored type, and the DuckDB type that means the same to a declaration; numeric(p, 0) is HUGEINT.
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
# The table, the partitions below it, the tables and views that a view reads.
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
SELECT c.oid::bigint, c.relkind, c.relam::bigint, EXISTS (
    SELECT FROM pg_class e WHERE e.relnamespace = c.relnamespace AND e.relname = 'entries')
FROM parts JOIN pg_class c ON c.oid = parts.oid WHERE c.relkind NOT IN ('i', 'I', 'c', 't')
"""
# Does a view read a clock, chance, or whatever a function of somebody's own does? pg_depend does
# not name PostgreSQL's own functions, so these are taken from the tree of the view's rule.
READS_MORE = r"""
WITH rule AS MATERIALIZED (
  SELECT oid, ev_action::text AS tree FROM pg_rewrite WHERE ev_class = $1
)
SELECT
  EXISTS (SELECT FROM rule WHERE tree ~ '\{(SQLVALUEFUNCTION|TABLESAMPLECLAUSE|TABLEFUNC|JSONEXPR)')
  OR EXISTS (SELECT FROM rule CROSS JOIN LATERAL
      regexp_matches(tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') AS named(id)
    JOIN pg_proc p ON p.oid = named.id[1]::oid WHERE p.provolatile <> 'i')
  OR EXISTS (SELECT FROM rule CROSS JOIN LATERAL -- a text such as 'today' read as a date
      regexp_matches(tree, ':resulttype (\d+)', 'g') AS named(id)
    JOIN pg_type t ON t.oid = named.id[1]::oid JOIN pg_proc p ON p.oid = t.typinput
    WHERE p.provolatile <> 'i' AND tree ~ '\{COERCEVIAIO')
  OR EXISTS (SELECT FROM rule CROSS JOIN LATERAL -- catalogs: VACUUM writes there without a number
      regexp_matches(tree, ':relid (\d+)', 'g') AS named(id)
    WHERE named.id[1]::bigint BETWEEN 1 AND 16383)
  OR EXISTS (SELECT FROM rule
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = rule.oid
    WHERE d.refclassid
      NOT IN ('pg_class'::regclass, 'pg_collation'::regclass, 'pg_constraint'::regclass))
"""
BEYOND = "pg_snapshot_xmax(pg_current_snapshot())::text"  # no transaction from here on is over
MEANWHILE = 100  # transactions while rows are counted, or one for so many rows; if more come,
ROWS_EACH = 5_000  # rows are hashed. A short list of them is quicker to look through
FORCED = 2  # the number of rows that pg_surgery brought back
HEAP = (0, 2)  # PostgreSQL's own way to store rows
# Which transactions are over, in which life of the server: a crash ends with a checkpoint, and
# a standby replays. Two equal snapshots see the same rows.
STATE = """
SELECT pg_current_snapshot()::text, checkpoint_lsn::text,
  extract(epoch FROM pg_postmaster_start_time())::text, pg_last_wal_replay_lsn()::text
FROM pg_control_checkpoint()
"""


# Is it still the table of this name, and may this role read which transaction wrote a row? Views
# have no such number, and a role that may read some columns has no right to it by these.
NUMBERED = """
to_regclass($2)::oid = $1 AND (SELECT has_column_privilege($1, attnum, 'SELECT')
  FROM pg_attribute WHERE attrelid = $1 AND attname = 'xmin')
"""
# How a table and its partitions are stored, and what each column is; NULL unless a row can only
# change by being written: another label of an enum, a default of a column that rows lack, another
# file or another table of this name is no write of any row. Asked behind the statement that read
# the rows: whoever would change this waits, and that table was read which this session now holds.
LAYOUT = f"""
WITH plain AS ({PARTS}), columns AS (
  SELECT a.*, t.typname FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
  WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid IN (SELECT oid FROM plain)
)
SELECT CASE WHEN {NUMBERED}
  AND EXISTS (SELECT FROM pg_locks WHERE relation = $1 AND pid = pg_backend_pid())
  AND (SELECT bool_and(relkind IN ('r', 'p')) FROM plain)
  AND (SELECT bool_and(atttypid < 16384 AND typname !~ '^reg' AND attgenerated <> 'v') FROM columns)
THEN jsonb_build_array(
  (SELECT jsonb_agg(jsonb_build_array(oid, relfilenode, pg_relation_filenode(reltoastrelid))
    ORDER BY oid)
    FROM pg_class WHERE oid IN (SELECT oid FROM plain)),
  (SELECT jsonb_agg(jsonb_build_array(attrelid, attnum, attname, atttypid, atttypmod, attcollation,
    atthasmissing, attmissingval::text) ORDER BY attrelid, attnum) FROM columns)
)::text END
"""


@dataclass(frozen=True, slots=True)
class Look:
    """A table when all its rows were hashed: how many there were, and how they are stored."""

    rows: int
    layout: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One column as it is stored: what a declaration calls its type, and the SQL to read it."""

    kind: str
    sql: str
    scale: int | None = None  # digits after the point of a numeric, where declared


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, a view or a partitioned table that this role may read."""

    oids: tuple[int, ...]  # one, or those of several tables that are read as one
    names: tuple[str, ...]  # of these, for SQL
    name: str  # for SQL
    shown: str  # for people
    places: tuple[str, ...]
    writable: bool
    columns: dict[str, Stored]

    @property
    def types(self) -> dict[str, str]:
        """Each readable column's type, in the words that declarations are compared with."""
        return {name: c.kind for name, c in self.columns.items()}


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
    name = f"{quote(namespace)}.{quote(relation)}"
    return Relation(
        (oid,), (name,), name, f"{namespace}.{relation}",
        (f"postgresql {server} {database} {oid}",), bool(writable), columns,
    )  # fmt: skip


def find_relations(
    connection: psycopg.Connection[Any], table: str | None, star: Star | None
) -> Relation:
    """The table of this name, or all tables of a star as one."""
    if star is None:
        return find_relation(connection, table)
    found = {t.name: find_relation(connection, t.source) for t in star.tables}
    parts = {
        name: Part(r.name, r.types, lambda column, r=r: r.columns[column].sql)  # type: ignore[misc]
        for name, r in found.items()
    }

    def nothing(table: StarTable, name: str) -> str:
        """A missing value of the type that the column has; no row is read for it."""
        r = found[table.name]
        return f"(SELECT {r.columns[name].sql} FROM {r.name} LIMIT 0)"

    sql = stack_sql(star, parts, "TEXT", nothing)
    columns = {n: Stored(kind, quote(n)) for n, kind in stack_types(star, parts).items()}
    for t in star.tables:  # a numeric keeps its digits
        own = found[t.name].columns
        columns |= {
            (n := star.stacked(t, c.name)): replace(own[c.name], sql=quote(n)) for c in t.columns
        }
    every = list(found.values())
    return Relation(
        tuple(o for r in every for o in r.oids), tuple(r.name for r in every), f"({sql}) AS stack",
        ", ".join(r.shown for r in every), tuple(p for r in every for p in r.places),
        any(r.writable for r in every), columns,
    )  # fmt: skip


def server_types(url: str, table: str | None) -> dict[str, str]:
    """Each readable column's stored type, in the words that declarations are compared with."""
    with reach(url) as connection, first_look(url, table, connection):
        return find_relation(connection, table).types


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
    if digits > MAX_DIGITS or not 0 <= scale <= MAX_DIGITS:
        return Stored("DECIMAL", sql)
    return Stored("DECIMAL", sql, scale) if scale else Stored("HUGEINT", sql)


def version_of(connection: psycopg.Connection[Any], relation: Relation) -> str | None:
    """Moves when rows may have changed; None if nothing would tell.

    It says which transactions are over. Rows, views, functions and rights change with these and
    in no other way, so they are the same as long as none has ended, anywhere on the server. The
    server's counters of rows written would be no proof: a session may keep its own back for as
    long as it likes, and a crash forgets them. A last word stands where rows are in a ledger's
    own schema, so that nothing is taken to leave them alone. Of what else has a table's name
    by now, a view perhaps, nothing is known.
    """
    beside = False
    named = ", ".join(f"to_regclass({text(name)})::oid" for name in relation.names)
    if _rows(connection, f"SELECT {named}")[0] != relation.oids:
        return None
    parts = [part for oid in relation.oids for part in _rows(connection, PARTS, oid)]
    for oid, kind, stored, ledger in parts:
        beside |= ledger
        if kind == "v":
            if _rows(connection, READS_MORE, oid)[0][0]:
                return None
        elif kind not in ("r", "p", "m") or stored not in HEAP:
            return None
    state = " ".join(map(str, _rows(connection, STATE)[0]))
    return f"{state} beside a ledger" if beside else state


def contents_of(
    connection: psycopg.Connection[Any], relation: Relation, names: list[str]
) -> tuple[str, ...]:
    """All columns that can be read, and these: each with n and the sum of the hashes of all rows.

    Equal for equal rows, in whatever order they lie. First as older ledgers have them.
    """
    every, names = sorted(relation.columns), sorted(names)
    asked = [(some, mix) for mix in (False, True) for some in (every, names)]
    sums = list(dict.fromkeys(_sum_of_hashes(relation, *each) for each in asked))
    n, *hashes = _rows(connection, f"SELECT count(*), {', '.join(sums)} FROM {relation.name}")[0]
    found = dict(zip(sums, hashes, strict=True))
    return tuple(json.dumps([*c, n, found[_sum_of_hashes(relation, c, mix)]]) for c, mix in asked)


def declared_contents_of(
    connection: psycopg.Connection[Any], relation: Relation, names: list[str]
) -> tuple[str, Look | None]:
    """The last of `contents_of` alone, and what `untouched` compares a table with later."""
    names = sorted(names)
    hashed = _sum_of_hashes(relation, names, mix=True)
    n, found = _rows(connection, f"SELECT count(*), {hashed} FROM {relation.name}")[0]
    layout = _layout(connection, relation)
    return json.dumps([*names, n, found]), None if layout is None else Look(n, layout)


def untouched(
    connection: psycopg.Connection[Any], relation: Relation, look: Look, numbers: range
) -> bool:
    """Are the rows those of `look`, if no transaction but these, and later ones, has ended since?

    A row that is new or another bears the number of the transaction that wrote it. Without such a
    one, as many rows as there were are the rows that there were.
    """
    ready, first = _rows(connection, _about(relation, f"SELECT {NUMBERED}, {BEYOND}"))[0]
    if not ready:
        return False
    # Each statement sees the rows of its own moment, so numbers that come meanwhile are there too.
    meanwhile = MEANWHILE and max(MEANWHILE, look.rows // ROWS_EACH)
    every = range(numbers.start, max(numbers.stop, int(first) + meanwhile))
    written = ",".join(str(number % 2**32) for number in every)
    new = f"count(*) FILTER (WHERE xmin = ANY ('{{{FORCED},{written}}}'::xid[]))"
    found = _rows(connection, f"SELECT count(*), {new} FROM {relation.name}")[0]
    last = int(_rows(connection, f"SELECT {BEYOND}")[0][0])
    alike = found == (look.rows, 0) and last <= every.stop
    return alike and _layout(connection, relation) == look.layout


def _layout(connection: psycopg.Connection[Any], relation: Relation) -> str | None:
    if len(relation.oids) > 1:  # several tables: a row of the stack bears no number of its own
        return None
    found: str | None = _rows(connection, _about(relation, LAYOUT))[0][0]
    return found


def _about(relation: Relation, sql: str) -> str:
    """A statement about one table, by its number and its name, in which anything may stand."""
    return _numbered(sql, relation.oids[0]).replace("$2", text(relation.name))


def _sum_of_hashes(relation: Relation, names: list[str], mix: bool) -> str:
    """The sum of a hash of every row.

    PostgreSQL's hash of a record adds up those of its values, so a sum of it stays the same when
    two rows swap a value. Hashed once more it does not. Older ledgers have the plain sum.
    """
    known = set(PLAIN.values()) | {"DECIMAL", "HUGEINT"}
    stored = ((n, relation.columns[n]) for n in names)
    parts = [c.sql if c.kind in known else f"CAST({quote(n)} AS TEXT)" for n, c in stored]
    hashed = f"hash_record_extended(ROW({', '.join(parts)}), 0)"
    if mix:
        hashed = f"hash_numeric_extended(CAST({hashed} AS NUMERIC), 0)"
    return f"sum({hashed})::text"


def _rows(
    connection: psycopg.Connection[Any], sql: str, oid: int | None = None
) -> list[tuple[Any, ...]]:
    """The catalogs' own number of a table is all that is ever put into these statements."""
    return connection.execute((sql if oid is None else _numbered(sql, oid)).encode()).fetchall()


def _numbered(sql: str, oid: int) -> str:
    return sql.replace("$1", f"CAST({int(oid)} AS oid)")
