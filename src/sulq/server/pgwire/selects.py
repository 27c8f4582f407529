"""A SELECT of a client, read: about the catalogues, or about one dataset, with its parameters.

Everything here follows from the text and the schema. It is run in metered threads.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.expressions import dialect
from sulq.server.pgwire.catalogue import type_of
from sulq.server.pgwire.catalogue_sql import NotSql, column_name, parsed, tables_of
from sulq.server.pgwire.problems import Problem
from sulq.server.pgwire.result_types import (
    ARRAYS,
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INT8,
    OID,
    TEXT,
    ResultColumn,
)
from sulq.server.pgwire.statement_kinds import parameters, substituted, tokens_of
from sulq.values.schema import OTHER, Schema

SCHEMA = "public"
MAX_PARAMETERS = 1000
CASTS = {"int": INT4, "bigint": INT8, "smallint": INT4, "double": FLOAT8, "decimal": FLOAT8,
         "float": FLOAT8, "boolean": BOOL, "date": DATE, "oid": OID, "uint": OID}  # fmt: skip
CONSTANTS = {exp.Boolean: BOOL, exp.Literal: TEXT, exp.Null: TEXT}
DUMMIES = {INT8: "0", FLOAT8: "0", BOOL: "true", DATE: "date '2000-01-01'"}


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT about catalogues (`table` is None) or about the dataset of a name."""

    text: str
    table: str | None
    tree: Any  # of sqlglot
    count: int  # of parameters

    def with_values(self, literals: Sequence[str]) -> Select:
        """The same with its parameters filled in."""
        if not self.count:
            return self
        if len(literals) < self.count:
            raise Problem("08P01", f"{len(literals)} values for {self.count} parameters")
        tokens = tokens_of(self.text) if self.table is None else dialect.tokens_of(self.text)
        text = substituted(self.text, tokens, list(literals))
        try:
            tree = parsed(text) if self.table is None else self.tree
        except NotSql:
            raise unreadable() from None
        return Select(text, self.table, tree, 0)


def unreadable() -> Problem:
    """What is said of a text that is no SQL."""
    return Problem("42601", "this is no statement that can be read")


def read(text: str, database: str) -> Select:
    """What a SELECT is about."""
    try:
        tree = _tree(text)
        tables = tables_of(tree)
    except NotSql:
        raise unreadable() from None
    names = dict.fromkeys(name for _, name in tables.others)
    for schema, name in tables.others:
        if schema not in ("", SCHEMA):
            raise Problem("42P01", f'relation "{schema[:60]}.{name[:60]}" does not exist')
    if names and tables.catalogue:
        raise Problem(
            "0A000", "catalogues and datasets are not asked in one statement",
            "ask each in a statement of its own",
        )  # fmt: skip
    table = next(iter(names), None)
    if table is not None:
        text = _plain(text, database)
    try:
        tokens = tokens_of(text) if table is None else dialect.tokens_of(text)
    except SqlglotError:
        raise unreadable() from None
    count = max((number for number, _, _ in parameters(tokens)), default=0)
    if count > MAX_PARAMETERS:
        raise Problem("54023", f"more than {MAX_PARAMETERS} parameters")
    return Select(text, table, tree, count)


def _tree(text: str) -> Any:
    """The statement as PostgreSQL reads it, or else as sulq does."""
    try:
        tree = parsed(text)
    except NotSql:
        try:
            found = dialect.parse_sql(text)
        except (SqlglotError, QueryNotAllowed, RecursionError, ValueError):
            raise NotSql from None
        if len(found) != 1:
            raise NotSql from None
        tree = found[0]
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Values | exp.Subquery):
        raise NotSql
    return tree


def _plain(text: str, database: str) -> str:
    """Without the names of the schema and the database before a name."""
    try:
        tokens = dialect.tokens_of(text)
    except SqlglotError:
        return text
    gone: list[tuple[int, int]] = []
    for i, token in enumerate(tokens[:-2]):
        word = token.text.lower() if token.token_type != TokenType.IDENTIFIER else token.text
        dotted = tokens[i + 1].token_type == TokenType.DOT
        follows = tokens[i + 2].text.lower() == SCHEMA
        first = i == 0 or tokens[i - 1].token_type != TokenType.DOT
        named = token.token_type not in (TokenType.STRING, TokenType.NUMBER)
        if not (dotted and named):
            continue
        if (word == SCHEMA and (first or gone[-1:] == [(tokens[i - 2].start, token.start)])) or (
            word == database.lower() and first and follows
        ):
            gone.append((token.start, tokens[i + 2].start))
    for start, end in reversed(gone):
        text = text[:start] + text[end:]
    return text


# ---- parameters -----------------------------------------------------------------------------


def parameter_types(select: Select, schema: Schema | None, said: Sequence[int]) -> list[int]:
    """The type of each parameter: as the client said, else by what it is compared with."""
    found: dict[int, int] = {}
    for node in select.tree.find_all(exp.Parameter, exp.Placeholder):
        text = str(node.this.this if isinstance(node.this, exp.Literal) else node.this)
        if text.isdecimal():
            found.setdefault(int(text), _type_beside(node, schema))
    known = [said[i] if i < len(said) and said[i] else 0 for i in range(select.count)]
    return [oid or found.get(i, TEXT) for i, oid in enumerate(known, 1)]


def _type_beside(node: Any, schema: Schema | None) -> int:
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        parent = parent.parent
    if isinstance(parent, exp.Cast):
        kind = parent.to
        if kind.args.get("nested") and kind.expressions:
            return ARRAYS.get(_cast_type(kind.expressions[0]), ARRAYS[TEXT])
        return _cast_type(kind)
    if isinstance(parent, exp.Limit | exp.Fetch | exp.Offset):
        return INT8
    if not isinstance(parent, exp.Predicate | exp.Binary):
        return TEXT
    for column in parent.find_all(exp.Column):
        if schema is None:
            return OID if column.name.lower().endswith(("oid", "relid", "typid")) else TEXT
        declared = schema.get(column.name)
        if declared is not None:
            return type_of(declared)
    return TEXT


def _cast_type(kind: Any) -> int:
    text = str(kind.args.get("kind") or getattr(kind.this, "value", kind.this)).lower()
    return CASTS.get(text.rpartition(".")[2], TEXT)


# ---- columns --------------------------------------------------------------------------------


def shape(select: Select, types: Sequence[int]) -> str:
    """A statement with the same columns: the condition and the order do not change them."""
    if not select.count:
        return select.text
    dummies = [DUMMIES.get(oid, "''") for oid in types]
    (tree,) = dialect.parse_sql(substituted(select.text, dialect.tokens_of(select.text), dummies))
    if isinstance(tree, exp.Select):
        for clause in ("where", "having", "order", "limit"):
            tree.set(clause, None)
    return dialect.written(tree)


def columns_of(db: Database, text: str) -> list[ResultColumn]:
    """The columns of a dataset's answer, without their intervals."""
    outputs = db.outputs(text)
    (tree,) = dialect.parse_sql(text)
    names = [column_name(e) for e in tree.expressions]
    named = names if len(names) == len(outputs) else list(outputs)
    return [
        ResultColumn(name, FLOAT8 if labels is None else label_type(labels))
        for name, labels in zip(named, outputs.values(), strict=True)
    ]


def label_type(labels: Sequence[Any]) -> int:
    """The type that holds the labels of a group; '(other)' is missing beside numbers and dates."""
    kinds = {type(label) for label in labels if label is not None}
    if kinds == {bool}:
        return BOOL
    if kinds == {int}:
        return INT8
    if kinds and kinds <= {int, float}:
        return FLOAT8
    return DATE if kinds == {datetime.date} else TEXT


def laid_out(
    body: dict[str, Any], columns: Sequence[ResultColumn], intervals: bool
) -> tuple[list[ResultColumn], list[tuple[Any, ...]]]:
    """The columns and rows of a reply's table."""
    table = body["table"]
    names = _names(table["columns"], table["by"])
    numbers = [intervals and name not in table["by"] for name in names]
    stored = [ResultColumn(name, c.oid) for name, c in zip(names, columns, strict=True)]
    keys = with_intervals(stored, numbers)
    rows = [tuple(_value(row[key.name], key.oid) for key in keys) for row in table["rows"]]
    return with_intervals(columns, numbers), rows


def with_intervals(columns: Sequence[ResultColumn], numbers: Sequence[bool]) -> list[ResultColumn]:
    """The same columns, each number followed by its ends."""
    return [
        ResultColumn(column.name + end, column.oid)
        for column, number in zip(columns, numbers, strict=True)
        for end in (("", "_low", "_high") if number else ("",))
    ]


def _names(columns: Sequence[str], by: Sequence[str]) -> list[str]:
    """The outputs of a table: behind each number stand the two ends of its interval."""
    out, at = [], 0
    while at < len(columns):
        out.append(columns[at])
        at += 1 if columns[at] in by else 3
    return out


def _value(value: Any, oid: int) -> Any:
    if value is None or (value == OTHER and oid != TEXT):
        return None
    if oid == DATE:
        return datetime.date.fromisoformat(value)
    if oid == TEXT:
        if isinstance(value, list):
            return " to ".join(map(str, value))
        return str(value).lower() if isinstance(value, bool) else str(value)
    return value


def empty_columns(select: Select, schema: Schema) -> list[ResultColumn] | None:
    """The columns of a SELECT that asks for no row, only for what there is; None if it is none.

    Tools look at a table so: LIMIT 0, or a condition that is never true.
    """
    tree = select.tree
    if not isinstance(tree, exp.Select) or not _is_empty(tree):
        return None
    out: list[ResultColumn] = []
    for e in tree.expressions:
        inner = e.unalias()
        if isinstance(inner, exp.Star) or (isinstance(inner, exp.Column) and inner.is_star):
            out += [ResultColumn(c.name, type_of(c)) for c in schema.columns]
            continue
        declared = schema.get(inner.name) if isinstance(inner, exp.Column) else None
        constant = next((oid for kind, oid in CONSTANTS.items() if isinstance(inner, kind)), None)
        oid = type_of(declared) if declared is not None else constant
        if oid is None:
            return None
        out.append(ResultColumn(column_name(e), oid))
    return out


def _is_empty(tree: Any) -> bool:
    limit, where = tree.args.get("limit"), tree.args.get("where")
    if limit is not None and isinstance(limit.expression, exp.Literal):
        return bool(limit.expression.name == "0")
    if where is None:
        return False
    condition = where.this.unnest()
    if isinstance(condition, exp.Boolean):
        return not condition.this
    if not isinstance(condition, exp.EQ):
        return False
    left, right = condition.left, condition.right
    literals = isinstance(left, exp.Literal) and isinstance(right, exp.Literal)
    return literals and bool(left.name != right.name)
