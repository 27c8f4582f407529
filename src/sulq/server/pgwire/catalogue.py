"""What clients see when they browse: PostgreSQL's catalogues, made from schemas alone.

Each holder of a key has a small DuckDB in memory with the tables of pg_catalog and
information_schema, filled with the datasets that the key may see. Nothing in it comes from rows,
so browsing is free. It can reach no file and no network, has one thread, little memory and little
time; statements come from catalogue_sql.py, which writes them anew from what it allows.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sulq.server.pgwire.result_types import (
    ARRAYS,
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    OID,
    SIZES,
    TEXT,
    TIMESTAMP,
    ResultColumn,
)
from sulq.server.pgwire.variables import DEFAULTS
from sulq.values.column import Column as Declared
from sulq.values.schema import Schema

DATABASE = "sulq"
FIRST_OID = 16_384  # of a dataset; PostgreSQL's own are below
PUBLIC, CATALOG, INFORMATION = 2200, 11, 13_000
ROLE, DATABASE_OID, TABLESPACE, HEAP, COLLATION = 10, 16_383, 1663, 2, 100
MAX_SECONDS = 5.0  # for one statement
MAX_ROWS = 20_000
KEYWORDS = ("analyze", "explain", "ilike", "limit", "offset", "returning")
CONFIG: dict[str, Any] = {"threads": 1, "memory_limit": "48MB", "enable_external_access": "false",
          "autoinstall_known_extensions": "false", "autoload_known_extensions": "false",
          "temp_directory": ""}  # fmt: skip
KINDS = {"o": "UINTEGER", "h": "SMALLINT", "i": "INTEGER", "l": "BIGINT", "b": "BOOLEAN",
         "e": "FLOAT", "d": "DOUBLE", "z": "TIMESTAMP", "T": "VARCHAR[]", "O": "UINTEGER[]",
         "H": "SMALLINT[]", "I": "INTEGER[]", "E": "FLOAT[]", "D": "DOUBLE[]"}  # fmt: skip
FOUND = {"BOOLEAN": BOOL, "TINYINT": INT2, "SMALLINT": INT2, "INTEGER": INT4, "BIGINT": INT8,
         "UINTEGER": OID, "HUGEINT": INT8, "UBIGINT": INT8, "FLOAT": FLOAT4, "DOUBLE": FLOAT8,
         "DATE": DATE, "TIMESTAMP": TIMESTAMP}  # fmt: skip
TYPES = {"integer": INT8, "number": FLOAT8, "boolean": BOOL, "date": DATE}  # others are text
WORDS = {BOOL: "boolean", INT8: "bigint", FLOAT8: "double precision", DATE: "date", TEXT: "text"}


class Unanswerable(Exception):
    """DuckDB does not run this statement, or not in time."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A dataset as a client sees it: a table."""

    name: str
    description: str
    schema: Schema | None  # None: it cannot be opened now


def type_of(column: Declared) -> int:
    """The type that a declared column has for clients."""
    if column.values and all(type(value) is int for value in column.values):
        return INT8
    return TYPES.get(column.type, TEXT)


@cache
def relations() -> dict[tuple[str, str], dict[str, str]]:
    """Every catalogue table: its columns and their kinds in DuckDB."""
    found = {}
    for line in _lines("p", "i"):
        kind, name, *columns = line
        parts = (column.partition(":") for column in columns)
        schema = "pg_catalog" if kind == "p" else "information_schema"
        found[schema, name] = {column: KINDS.get(k, "VARCHAR") for column, _, k in parts}
    return found


def _lines(*kinds: str) -> list[list[str]]:
    text = files("sulq.server.pgwire").joinpath("catalogue.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line.split(" ")[0] in kinds]


class Catalogue:
    """The catalogues of one holder of a key, as tables that can be asked."""

    def __init__(self, database: str, role: str, offered: Sequence[Offered]) -> None:
        import duckdb

        self._db = duckdb.connect(":memory:", config=CONFIG)
        self._lock = threading.Lock()
        self._begin()
        self._fill(database, role, offered)
        self._db.execute("SET lock_configuration = true")

    def run(self, sql: str) -> tuple[list[ResultColumn], list[tuple[Any, ...]]]:
        """The columns and rows of a statement that catalogue_sql wrote."""
        with self._lock:
            timer = threading.Timer(MAX_SECONDS, self._db.interrupt)
            timer.start()
            try:
                done = self._db.execute(sql)
                columns = [ResultColumn(str(d[0]), oid_of(str(d[1]))) for d in done.description]
                rows = done.fetchmany(MAX_ROWS)
                self._db.execute("SELECT 1")  # it would keep the result until it is asked again
                return columns, rows
            except Exception:  # whatever DuckDB says, nobody else should hear
                raise Unanswerable from None
            finally:
                timer.cancel()

    def close(self) -> None:
        """Let go of its memory."""
        with self._lock:
            self._db.close()

    def _begin(self) -> None:
        ours = ["CREATE SCHEMA pg", "CREATE SCHEMA info"]
        for (schema, name), columns in relations().items():
            listed = ", ".join(f'"{column}" {kind}' for column, kind in columns.items())
            ours.append(f'CREATE TABLE {SCHEMAS[schema]}."{name}" ({listed})')
        self._db.execute(";".join([*ours, *MACROS]))

    def _add(self, schema: str, table: str, *rows: dict[str, Any]) -> None:
        if not rows:
            return
        names = ", ".join(f'"{name}"' for name in rows[0])
        marks = ", ".join("?" * len(rows[0]))
        self._db.executemany(
            f"INSERT INTO {schema}.{table} ({names}) VALUES ({marks})",
            [list(row.values()) for row in rows],
        )

    def _fill(self, database: str, role: str, offered: Sequence[Offered]) -> None:
        self._add("pg", "pg_type", *map(_type, _lines("t")))
        own = {"nspowner": ROLE, "nspacl": None}
        names = (("pg_catalog", CATALOG), ("public", PUBLIC), ("information_schema", INFORMATION))
        self._add("pg", "pg_namespace", *({"oid": o, "nspname": n} | own for n, o in names))
        self._add("pg", "pg_database", _database(database))
        self._add("pg", "pg_roles", _role(role))
        self._add("pg", "pg_user", {"usename": role, "usesysid": ROLE, "usecreatedb": False,
                                    "usesuper": False})  # fmt: skip
        self._add("pg", "pg_am", {"oid": HEAP, "amname": "heap", "amtype": "t"})
        self._add("pg", "pg_tablespace", {"oid": TABLESPACE, "spcname": "pg_default",
                                          "spcowner": ROLE})  # fmt: skip
        collation = {"oid": COLLATION, "collname": "default", "collnamespace": CATALOG}
        self._add("pg", "pg_collation", collation | {"collprovider": "d"})
        self._add("info", "schemata", *({"catalog_name": database, "schema_name": n,
                                         "schema_owner": role} for n, _ in names))  # fmt: skip
        self._add("pg", "pg_operator", *OPERATORS)
        self._add("pg", "pg_proc", *AGGREGATES)
        self._add("pg", "pg_get_keywords", *({"word": word, "catcode": "R"} for word in KEYWORDS))
        self._add("pg", "pg_settings", *(
            {"name": name, "setting": value, "context": "user", "vartype": "string",
             "source": "default", "boot_val": value, "reset_val": value, "pending_restart": False}
            for name, value in DEFAULTS.items()
        ))  # fmt: skip
        self._add("info", "information_schema_catalog_name", {"catalog_name": database})
        for number, table in enumerate(offered, FIRST_OID):
            self._offer(database, role, number, table)

    def _offer(self, database: str, role: str, number: int, table: Offered) -> None:
        columns = () if table.schema is None else table.schema.columns
        said = f"{table.description} (private: sums and counts only)".strip()
        self._add("pg", "pg_class", _class(number, table.name, len(columns)))
        self._add("pg", "pg_tables", {"schemaname": "public", "tablename": table.name,
                                      "tableowner": role, "hasindexes": False, "hasrules": False,
                                      "hastriggers": False, "rowsecurity": False})  # fmt: skip
        self._add("pg", "pg_description", *(
            {"objoid": number, "classoid": 1259, "objsubid": i, "description": text}
            for i, text in enumerate([said, *map(about, columns)])
        ))  # fmt: skip
        self._add("info", "tables", {"table_catalog": database, "table_schema": "public",
                                     "table_name": table.name, "table_type": "BASE TABLE",
                                     "is_insertable_into": "NO", "is_typed": "NO"})  # fmt: skip
        places = list(enumerate(columns, 1))
        self._add("pg", "pg_attribute", *(_attribute(number, i, c) for i, c in places))
        where = {"table_catalog": database, "table_schema": "public", "table_name": table.name}
        self._add("info", "columns", *(where | _column(i, c) for i, c in places))


def about(column: Declared) -> str:
    """What a column's declaration says of it."""
    if column.values is not None:
        shown = ", ".join(str(v) for v in column.values[:20])
        known = f"one of {shown}" + (", ..." if len(column.values) > 20 else "")
    elif column.bounded:
        known = f"{column.low} to {column.high}"
    else:
        known = column.type
    return f"{known}; {'key, public' if column.key else 'public' if column.public else 'private'}"


def oid_of(kind: str) -> int:
    """PostgreSQL's type for one of DuckDB's."""
    if kind.endswith("[]"):
        return ARRAYS.get(oid_of(kind[:-2]), ARRAYS[TEXT])
    if kind.startswith("DECIMAL"):
        return NUMERIC
    return FOUND.get(kind, TIMESTAMP if kind.startswith("TIMESTAMP") else TEXT)


def _type(line: list[str]) -> dict[str, Any]:
    _, oid, name, length, by_value, kind, category, delimiter, relation, element, array = line
    return {
        "oid": int(oid), "typname": name, "typnamespace": CATALOG, "typowner": ROLE,
        "typlen": int(length), "typbyval": by_value == "true", "typtype": kind,
        "typcategory": category, "typispreferred": False, "typisdefined": True,
        "typdelim": delimiter, "typrelid": int(relation), "typelem": int(element),
        "typarray": int(array), "typinput": f"{name}_in" if element == "0" else "array_in",
        "typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typcollation":
        COLLATION if category == "S" else 0, "typalign": "i", "typstorage": "p", "typsubscript":
        "-" if element == "0" else "array_subscript_handler",
    }  # fmt: skip


def _database(name: str) -> dict[str, Any]:
    return {
        "oid": DATABASE_OID, "datname": name, "datdba": ROLE, "encoding": 6, "datlocprovider": "c",
        "datistemplate": False, "datallowconn": True, "datconnlimit": -1, "dattablespace":
        TABLESPACE, "datcollate": "C.UTF-8", "datctype": "C.UTF-8",
    }  # fmt: skip


def _role(name: str) -> dict[str, Any]:
    off = ("rolsuper", "rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls")
    on = ("rolinherit", "rolcanlogin")
    flags = dict.fromkeys(off, False) | dict.fromkeys(on, True)
    return {"oid": ROLE, "rolname": name, "rolconnlimit": -1, "rolpassword": "********"} | flags


def _class(number: int, name: str, columns: int) -> dict[str, Any]:
    no = ("relhasindex", "relisshared", "relhasrules", "relhastriggers", "relhassubclass",
          "relrowsecurity", "relforcerowsecurity", "relispartition")  # fmt: skip
    return {
        "oid": number, "relname": name, "relnamespace": PUBLIC, "reltype": 0, "reloftype": 0,
        "relowner": ROLE, "relam": HEAP, "relfilenode": 0, "reltablespace": 0, "relpages": 0,
        "reltuples": -1.0, "relallvisible": 0, "reltoastrelid": 0, "relpersistence": "p",
        "relkind": "r", "relnatts": columns, "relchecks": 0, "relispopulated": True,
        "relreplident": "d", "relrewrite": 0, "relfrozenxid": 0, "relminmxid": 0,
    } | dict.fromkeys(no, False)  # fmt: skip


def _attribute(table: int, place: int, column: Declared) -> dict[str, Any]:
    oid = type_of(column)
    no = ("atthasdef", "atthasmissing", "attisdropped")
    return {
        "attrelid": table, "attname": column.name, "atttypid": oid, "attlen": SIZES.get(oid, -1),
        "attnum": place, "attcacheoff": -1, "atttypmod": -1, "attndims": 0, "attbyval": oid != TEXT,
        "attalign": "d", "attstorage": "p", "attcompression": "", "attnotnull": not column.nullable,
        "attidentity": "", "attgenerated": "", "attislocal": True, "attinhcount": 0,
        "attstattarget": -1, "attcollation": COLLATION if oid == TEXT else 0,
    } | dict.fromkeys(no, False)  # fmt: skip


def _column(place: int, column: Declared) -> dict[str, Any]:
    oid = type_of(column)
    names = {BOOL: "bool", INT8: "int8", FLOAT8: "float8", DATE: "date", TEXT: "text"}
    return {
        "column_name": column.name, "ordinal_position": place, "data_type": WORDS[oid],
        "is_nullable": "YES" if column.nullable else "NO", "udt_schema": "pg_catalog",
        "udt_name": names[oid], "is_identity": "NO", "is_generated": "NEVER", "is_updatable": "NO",
        "numeric_precision": {INT8: 64, FLOAT8: 53}.get(oid), "dtd_identifier": str(place),
        "numeric_scale": 0 if oid == INT8 else None,
        "numeric_precision_radix": 2 if oid in (INT8, FLOAT8) else None,
        "datetime_precision": 0 if oid == DATE else None,
    }  # fmt: skip


OPERATORS = [
    {"oid": 400 + 20 * i + j, "oprname": sign, "oprnamespace": CATALOG, "oprowner": ROLE,
     "oprkind": "b", "oprleft": oid, "oprright": oid,
     "oprresult": BOOL if sign in ("=", "<>", "<", "<=", ">", ">=") else oid}
    for i, oid in enumerate((INT8, FLOAT8, TEXT, DATE))
    for j, sign in enumerate(("=", "<>", "<", "<=", ">", ">=", "+", "-", "*"))
    if j < 6 or i < 2
]  # fmt: skip
AGGREGATES = [
    {"oid": 2100 + i, "proname": name, "pronamespace": CATALOG, "proowner": ROLE, "prokind": "a",
     "proretset": False, "prorettype": FLOAT8, "pronargs": len(given), "proargtypes": given,
     "provolatile": "i", "proisstrict": False}
    for i, (name, given) in enumerate(
        (("count", []), ("count", [INT8]), ("sum", [INT8]), ("sum", [FLOAT8]), ("avg", [INT8]),
         ("avg", [FLOAT8]), ("stddev", [FLOAT8]), ("variance", [FLOAT8])))
]  # fmt: skip
SCHEMAS = {"pg_catalog": "pg", "information_schema": "info"}
_NAMED = {16: "boolean", 17: "bytea", 18: '"char"', 20: "bigint", 21: "smallint", 23: "integer",
          700: "real", 701: "double precision", 1042: "character", 1043: "character varying",
          1083: "time without time zone", 1114: "timestamp without time zone",
          1184: "timestamp with time zone", 1266: "time with time zone"}  # fmt: skip
SYSTEM = {"pg_class": 1259, "pg_attribute": 1249, "pg_type": 1247, "pg_proc": 1255,
          "pg_namespace": 2615, "pg_constraint": 2606, "pg_database": 1262}  # fmt: skip
MACROS = (
    "CREATE MACRO sulq_format_type(t) AS CASE t "
    + " ".join(f"WHEN {oid} THEN '{name}'" for oid, name in _NAMED.items())
    + " ELSE (SELECT first(CASE WHEN ty.typelem > 0 AND ty.typlen = -1 THEN el.typname || '[]' "
    "ELSE ty.typname END) FROM pg.pg_type ty LEFT JOIN pg.pg_type el ON el.oid = ty.typelem "
    "WHERE ty.oid = t) END",
    "CREATE MACRO sulq_cut(x) AS CASE WHEN length(x) > 10000 THEN NULL ELSE x END",
    "CREATE MACRO sulq_described(o, n) AS (SELECT first(description) FROM pg.pg_description "
    "WHERE objoid = o AND objsubid = n)",
    "CREATE MACRO sulq_relation(x) AS CASE replace(CAST(x AS VARCHAR), 'pg_catalog.', '') "
    + " ".join(f"WHEN '{name}' THEN {oid}::UINTEGER" for name, oid in SYSTEM.items())
    + " ELSE (SELECT first(oid) FROM pg.pg_class WHERE relname = "
    "replace(regexp_replace(CAST(x AS VARCHAR), '^\"?public\"?[.]', ''), '\"', '') "
    "OR CAST(oid AS VARCHAR) = CAST(x AS VARCHAR)) END",
    "CREATE MACRO sulq_relation_name(x) AS coalesce((SELECT first(relname) FROM pg.pg_class WHERE "
    "CAST(oid AS VARCHAR) = CAST(x AS VARCHAR)), CAST(x AS VARCHAR))",
    "CREATE MACRO sulq_type(x) AS (SELECT first(oid) FROM pg.pg_type WHERE typname = "
    "replace(CAST(x AS VARCHAR), 'pg_catalog.', '') OR CAST(oid AS VARCHAR) = CAST(x AS VARCHAR))",
    "CREATE MACRO sulq_namespace(x) AS (SELECT first(oid) FROM pg.pg_namespace WHERE nspname = "
    "CAST(x AS VARCHAR) OR CAST(oid AS VARCHAR) = CAST(x AS VARCHAR))",
)


class Catalogues:
    """Those that were asked for of late."""

    def __init__(self, most: int = 16) -> None:
        self._most = most
        self._kept: OrderedDict[str, Catalogue] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, database: str, role: str, offered: Sequence[Offered]) -> Catalogue:
        """The catalogues of this holder; made if need be, in a thread."""
        said = repr([(o.name, o.description, o.schema and o.schema.digest) for o in offered])
        key = hashlib.sha256(f"{database}\0{role}\0{said}".encode()).hexdigest()
        with self._lock:
            found = self._kept.pop(key, None) or Catalogue(database, role, offered)
            self._kept[key] = found
            old = [self._kept.popitem(last=False)[1] for _ in range(len(self._kept) - self._most)]
        for one in old:
            one.close()
        return found

    def close(self) -> None:
        """Let go of them all."""
        with self._lock:
            kept, self._kept = list(self._kept.values()), OrderedDict()
        for one in kept:
            one.close()
