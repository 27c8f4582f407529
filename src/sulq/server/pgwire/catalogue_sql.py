"""A client's question about the catalogues -> the statement that DuckDB runs on them.

The text is parsed, and a statement is written anew from the tree: SELECTs over known tables, with
functions from a list. Functions of PostgreSQL that DuckDB has not become constants or macros of
catalogue.py; what a session knows (its user, its settings) becomes a literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sulq.server.pgwire.catalogue import MAX_ROWS, SCHEMAS, relations
from sulq.server.pgwire.catalogue_words import (
    ALLOWED,
    CASTS,
    CONSTANTS,
    MACROS,
    NODES,
    NUMBERS,
    OPERATORS,
    OWN,
    REGISTERED,
    TEXTS,
)

MAX_TEXT = 50_000  # letters of a statement
MAX_SERIES = 10_000  # the last number of a series
ARRAYS = re.compile(r"::\s*(?:pg_catalog\.)?(?:oid|regtype|regclass|xid)\[\]", re.IGNORECASE)
# Names that PostgreSQL takes behind AS and sqlglot does not; Metabase has such.
RESERVED = re.compile(r"\bas (select|update|insert|delete|table)\b(?=,| from\b)", re.IGNORECASE)
Expression = Any  # sqlglot ships no types that mypy takes


class NotSql(Exception):
    """The text cannot be read."""


class NoSuch(Exception):
    """A table or a function that is not there: its kind ('relation', 'function') and its name."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.name = kind, name
        super().__init__(kind, name)


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables a statement names."""

    catalogue: frozenset[str] = frozenset()
    others: tuple[tuple[str, str], ...] = ()  # schema and name


@dataclass(slots=True)
class SessionFacts:
    """What functions of the session give."""

    user: str
    database: str
    number: int  # of the connection
    version: str
    setting: Callable[[str], str | None]
    set: Callable[[str, str], str]
    values: Mapping[str, Any] = field(default_factory=dict)


def parsed(text: str) -> Expression:
    """The one statement that a text is."""
    if len(text) > MAX_TEXT:
        raise NotSql
    text = ARRAYS.sub("::uint[]", text)
    found = _parsed(text) or _parsed(RESERVED.sub(r'as "\1"', text))
    if found is None or len(found) != 1:
        raise NotSql
    return found[0]


def _parsed(text: str) -> list[Expression] | None:
    """The statements of a text; None if sqlglot cannot read it."""
    try:
        return [e for e in sqlglot.parse(text, dialect="postgres") if e is not None]
    except (SqlglotError, RecursionError, ValueError):
        return None


def tables_of(tree: Expression) -> Tables:
    """The tables of a statement: catalogues, and what is none."""
    named = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    catalogue: set[str] = set()
    others: dict[tuple[str, str], None] = {}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue  # a function
        schema, name = table.db.lower(), table.name
        if not schema and name.lower() in named:
            continue
        known = _known(schema, name.lower())
        if known is None:
            others[schema, name] = None
        else:
            catalogue.add(".".join(known))
    return Tables(frozenset(catalogue), tuple(others))


def _known(schema: str, name: str) -> tuple[str, str] | None:
    """Which catalogue table this is; pg_catalog is always looked at first."""
    known = relations()
    if (schema, name) in known:
        return schema, name
    return ("pg_catalog", name) if not schema and ("pg_catalog", name) in known else None


def written(tree: Expression, facts: SessionFacts) -> str:
    """The same statement for DuckDB."""
    try:
        if not isinstance(tree, exp.Query | exp.Values):
            raise NotSql
        made = tree.copy()
        for node in list(made.walk()):
            _check(node)
        made = _Writer(facts, {cte.alias.lower() for cte in made.find_all(exp.CTE)}).write(made)
        return str(_bounded(made).sql(dialect="duckdb", comments=False))
    except (SqlglotError, RecursionError, ValueError):
        raise NotSql from None


def _bounded(tree: Expression) -> Expression:
    """The same, with no more rows than are given: DuckDB would keep them all."""
    if isinstance(tree, exp.Values):
        return tree
    limit = tree.args.get("limit")
    said = limit.expression if isinstance(limit, exp.Limit) else None
    small = isinstance(said, exp.Literal) and said.name.isdecimal() and int(said.name) <= MAX_ROWS
    return tree if small else tree.limit(MAX_ROWS, copy=False)


def only_reads(tree: Expression) -> bool:
    """Is it a SELECT, and nothing in it that would write?"""
    written = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock)
    inside = any(node is not tree and isinstance(node, written) and not isinstance(node, exp.Query)
                 for node in tree.walk())  # fmt: skip
    return isinstance(tree, exp.Query | exp.Values) and not inside


def names_of(tree: Expression) -> list[str] | None:
    """What PostgreSQL calls the columns of a result; None where a * stands."""
    select = tree
    while isinstance(select, exp.SetOperation | exp.Subquery):
        select = select.this
    if isinstance(select, exp.Values):
        rows = select.expressions
        return [f"column{i}" for i in range(1, len(rows[0].expressions) + 1)] if rows else []
    if not isinstance(select, exp.Select):
        return None
    if any(e.is_star for e in select.expressions):
        return None
    return [column_name(e) for e in select.expressions]


def column_name(e: Expression) -> str:
    """The name of one output, as PostgreSQL chooses it."""
    if isinstance(e, exp.Alias):
        return str(e.alias)
    if isinstance(e, exp.Column):
        return str(e.name)
    if isinstance(e, exp.Dot):
        return column_name(e.expression)
    if isinstance(e, exp.Identifier):
        return str(e.name)
    if isinstance(e, exp.Paren | exp.Bracket | exp.Filter | exp.WithinGroup | exp.Collate):
        return column_name(e.this)
    if isinstance(e, exp.Cast):
        inner = column_name(e.this)
        return _type_name(e.to) if inner == "?column?" else inner
    if isinstance(e, exp.Subquery):
        found = names_of(e.this)
        return found[0] if found else "?column?"
    if isinstance(e, exp.Anonymous):
        return str(e.name).lower()
    if isinstance(e, exp.Case):
        return "case"
    if isinstance(e, exp.Boolean):
        return "bool"
    if isinstance(e, exp.Func) and not isinstance(e, exp.Binary | exp.Connector):
        return OWN_NAMES.get(type(e).__name__, e.sql_name().lower())
    return "?column?"


OWN_NAMES = {"CurrentVersion": "version", "GroupConcat": "string_agg", "CurrentUser":
             "current_user", "ArrayToString": "array_to_string", "Exists": "exists",
             "StrPosition": "strpos", "CurrentTimestamp": "now"}  # fmt: skip


def _type_name(kind: Expression) -> str:
    """A type as PostgreSQL names it, short and small."""
    found = kind.args.get("kind") or kind.this
    if isinstance(found, exp.Dot):
        found = found.expression
    text = found.name if isinstance(found, exp.Identifier) else str(getattr(found, "name", found))
    return SHORT.get(text.lower(), text.lower())


SHORT = {"integer": "int4", "int": "int4", "bigint": "int8", "smallint": "int2", "boolean": "bool",
         "double": "float8"}  # fmt: skip

# ---- writing it anew -------------------------------------------------------------------------


def _check(node: Expression) -> None:
    """Refuse whatever is not on the lists."""
    if not isinstance(node, exp.Func | exp.Binary) and type(node).__name__ not in NODES:
        raise NotSql
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
        known = name in ALLOWED or name in CONSTANTS or name in MACROS or name in OWN
        if not known and ("pg_catalog", name) not in relations():
            raise NoSuch("function", f"{name[:60]}()")


class _Writer:
    """Writes one tree anew, from the leaves to the root."""

    def __init__(self, facts: SessionFacts, named: set[str]) -> None:
        self._facts = facts
        self._named = named

    def write(self, tree: Expression) -> Expression:
        """The whole tree."""
        for node in reversed(list(tree.walk())):
            made = self._one(node)
            if made is not node:
                if node is tree:
                    tree = made
                else:
                    node.replace(made)
        return tree

    def _one(self, node: Expression) -> Expression:
        if isinstance(node, exp.Table):
            return self._table(node)
        if isinstance(node, exp.Column):
            node.set("db", None)
            node.set("catalog", None)
            user = node.name.lower() == "user" and not node.table and not node.this.quoted
            return _text(self._facts.user) if user else node
        if isinstance(node, exp.Dot) and isinstance(node.this, exp.Identifier | exp.Column):
            return node.expression if node.this.name.lower() in SCHEMAS else node
        if isinstance(node, exp.Collate):
            return node.this
        if isinstance(node, exp.ByteString | exp.RawString):
            return _text(node.this)
        if isinstance(node, exp.Operator):
            return _cut(_operator(node))
        if isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs):
            return _cut(node)
        if isinstance(node, exp.GenerateSeries | exp.ExplodingGenerateSeries):
            return _series(node)
        if isinstance(node, exp.Cast):
            return _cast(node)
        if isinstance(node, exp.Func):
            return self._function(node)
        return node

    def _table(self, node: Expression) -> Expression:
        if isinstance(node.this, exp.Func | exp.Literal):
            name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else ""
            known = _known("", name)
            if known is None:
                return _set_returning(node)
        else:
            schema, name = node.db.lower(), node.name.lower()
            if not schema and name in self._named:
                return node
            known = _known(schema, name)
        if known is None:
            raise NoSuch("relation", node.name[:60])
        node.set("this", exp.to_identifier(known[1], quoted=True))
        node.set("db", exp.to_identifier(SCHEMAS[known[0]]))
        node.set("catalog", None)
        if not node.alias:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(known[1])))
        return node

    def _function(self, node: Expression) -> Expression:
        named = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        name, given = named.lower(), list(node.expressions)
        facts = self._facts
        said = {
            "current_user": facts.user, "session_user": facts.user, "current_role": facts.user,
            "pg_get_userbyid": facts.user, "current_catalog": facts.database,
            "current_database": facts.database, "version": facts.version,
            "current_version": facts.version, "current_schema": "public",
        }  # fmt: skip
        if name in said:
            return _text(said[name])
        if name == "pg_backend_pid":
            return _read(str(facts.number))
        if name in ("current_setting", "set_config"):
            return self._setting(name, given)
        if name in CONSTANTS:
            return _read(CONSTANTS[name])
        if name in MACROS:
            macro, count = MACROS[name]
            return exp.Anonymous(this=macro, expressions=given[:count])
        if name == "obj_description":
            zero = exp.Literal.number(0)
            return exp.Anonymous(this="sulq_described", expressions=[*given[:1], zero])
        if name in ("quote_ident", "quote_literal") and given:
            return given[0]
        if name == "array_upper" and given:
            return exp.Anonymous(this="len", expressions=given[:1])
        if name == "array_lower":
            return exp.Literal.number(1)
        return node

    def _setting(self, name: str, given: list[Expression]) -> Expression:
        if not given or not all(isinstance(g, exp.Literal) for g in given[:2]):
            return _read("CAST(NULL AS VARCHAR)")
        if name == "set_config" and len(given) >= 2:
            return _text(self._facts.set(given[0].name, given[1].name))
        found = self._facts.setting(given[0].name)
        missing_ok = len(given) > 1
        if found is None and not missing_ok:
            raise NoSuch("setting", given[0].name[:60])
        return _read("CAST(NULL AS VARCHAR)") if found is None else _text(found)


def _cut(node: Expression) -> Expression:
    """What is put together and too long is missing: doubled often, it would fill the memory."""
    if not isinstance(node, exp.DPipe | exp.Concat | exp.ConcatWs):
        return node
    if isinstance(node.parent, exp.DPipe):  # the outermost of a||b||c is cut
        return node
    return exp.Anonymous(this="sulq_cut", expressions=[node.copy()])


def _series(node: Expression) -> Expression:
    """A series has few numbers: DuckDB would make a list of them all, in no limit of memory."""
    for name, function in (("start", exp.Greatest), ("end", exp.Least)):
        most = exp.Literal.number(MAX_SERIES) if name == "end" else _read(f"-{MAX_SERIES}")
        node.set(name, function(this=node.args[name].copy(), expressions=[most]))
    return node


def _set_returning(node: Expression) -> Expression:
    """A function in place of a table; its alias names its one column, too."""
    node.set("db", None)
    node.set("catalog", None)
    alias = node.args.get("alias")
    if alias is not None and alias.this is not None and not alias.args.get("columns"):
        alias.set("columns", [alias.this.copy()])
    return node


def _operator(node: Expression) -> Expression:
    sign = str(node.args["operator"]).rpartition(".")[2]
    negated = sign.startswith("!")
    made = OPERATORS.get(sign.removeprefix("!"))
    if made is None:
        raise NotSql
    found = made(this=node.this, expression=node.expression)
    return exp.Not(this=found) if negated else found


def _cast(node: Expression) -> Expression:
    name = _type_name(node.to)
    if name in REGISTERED:
        if name == "regclass" and _is_shown(node):
            return exp.Anonymous(this="sulq_relation_name", expressions=[node.this])
        if name == "regtype" and _is_shown(node):
            return exp.Anonymous(this="sulq_format_type", expressions=[node.this])
        return exp.Anonymous(this=REGISTERED[name], expressions=[node.this])
    if name == "array":
        inner = node.to.expressions[0] if node.to.expressions else None
        literal = node.this if isinstance(node.this, exp.Literal) else None
        if literal is not None and literal.name.startswith("{"):
            words = [_text(w.strip('"')) for w in literal.name[1:-1].split(",") if w]
            node.set("this", exp.Array(expressions=words))
        if inner is not None and _type_name(inner) in (*NUMBERS, *TEXTS):
            return node.this
        name = "" if inner is None else _type_name(inner)
    if name in NUMBERS[:3]:
        return exp.cast(node.this, "UINT", dialect="duckdb")
    if name in TEXTS or name in NUMBERS:
        return exp.cast(node.this, "VARCHAR", dialect="duckdb")
    if name not in CASTS:
        raise NotSql
    return node


def _is_shown(node: Expression) -> bool:
    """Is a name wanted, not a number: an output, or text?"""
    parent = node.parent
    if isinstance(parent, exp.Paren):
        parent = parent.parent
    text = isinstance(parent, exp.Cast) and _type_name(parent.to) in TEXTS
    return text or isinstance(parent, exp.Select | exp.Alias | exp.DPipe | exp.Concat | exp.If)


def _text(value: str) -> Expression:
    return exp.Literal.string(value)


def _read(sql: str) -> Expression:
    return sqlglot.parse_one(sql, dialect="duckdb")
