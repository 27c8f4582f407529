"""JOIN: public lookup tables that the schema declares, and why other joins are not answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import shorten
from sulq.expressions.quoting import quote
from sulq.expressions.spelling import listed
from sulq.values.lookup import Lookup
from sulq.values.schema import Schema

NEVER = {
    "CROSS": "each row would stand beside every row of the other table, and count as often. Say "
    "which columns are equal: JOIN ... ON",
    "RIGHT": "rows of the other table without one here would appear. Use JOIN or LEFT JOIN",
    "FULL": "rows of the other table without one here would appear. Use JOIN or LEFT JOIN",
    "SEMI": "write a condition on the column into WHERE",
    "ANTI": "write a condition on the column into WHERE",
    "NATURAL": "say which columns are equal: JOIN ... ON",
    "ASOF": "which row is nearest depends on other rows",
}


@dataclass(frozen=True)
class Joined:
    """A public table beside the rows, under the name that a statement gives it."""

    table: Lookup
    alias: str
    keeps_all: bool  # LEFT JOIN: also rows whose key it has not

    @property
    def known(self) -> str:
        """A condition: has the lookup table the row's key?"""
        return f"{quote(self.table.name)}.{quote(self.table.key)} IS NOT NULL"

    def has(self, name: str) -> bool:
        """Is it one of its columns?"""
        return name.lower() == self.table.key.lower() or self.table.column(name) is not None

    def column(self, name: str) -> Any:
        """The column as questions name it."""
        from sqlglot import exp

        return exp.column(name, table=self.table.name, quoted=True)


@dataclass(frozen=True)
class Beside:
    """The rows that a table is joined to."""

    schema: Schema
    table: str
    has: Callable[[Any], bool]  # is it a column of theirs?
    expand: Callable[[Any], Any]  # what a column of theirs stands for
    called: Callable[[str], tuple[str, str]]  # how a statement may write a stored column


def read_join(join: Any, rows: Beside) -> Joined:
    """The lookup table that a JOIN names; refused unless it is joined on its declared key."""
    schema, table = rows.schema, rows.table
    said = shorten(written(join).lstrip(", "))
    source = join.this
    if type(source).__name__ != "Table" or source.args.get("catalog"):
        raise QueryNotAllowed(
            f"{said}: rows are joined to public lookup tables of the schema only. A subquery of "
            "the same rows needs no join: put its columns and conditions into one SELECT."
        )
    found = schema.lookup(source.name)
    if found is None:
        raise _no_such(said, source.name, schema, table)
    kind, alias = join_kind(join), (source.alias or source.name).lower()
    if kind == "NATURAL" and _is_natural(join, found, rows):
        return Joined(found, alias, str(join.args.get("side") or "").upper() == "LEFT")
    key = f"ON {'.'.join(rows.called(found.on))} = {alias}.{found.key}"
    if kind in NEVER:
        raise QueryNotAllowed(f"{said}: {NEVER[kind]}.\nHere: JOIN {source.sql()} {key}.")
    if not _on_key(join, found, alias, rows):
        raise QueryNotAllowed(
            f"{said}: {found.name!r} has one row for each {found.key!r}, and is joined on that: "
            f"{key}. Joined on anything else, a row could count several times. Write further "
            "conditions into WHERE."
        )
    return Joined(found, alias, kind == "LEFT")


def _is_natural(join: Any, found: Lookup, rows: Beside) -> bool:
    """Is its key the one column that has the same name here, and is that what it is joined on?"""
    from sqlglot import exp

    sides = {str(join.args.get(name) or "").upper() for name in ("side", "kind")}
    shared = [n for n in (found.key, *found.columns) if rows.has(exp.column(n))]
    if not sides <= {"", "INNER", "LEFT", "OUTER"} or shared != [found.key]:
        return False
    says_more = join.args.get("on") is not None or join.args.get("using")
    return not says_more and _is_on(exp.column(found.key), found, rows)


def _is_on(e: Any, found: Lookup, rows: Beside) -> bool:
    """Is it the stored column that the lookup table is about, by the name it has here?"""
    own = rows.expand(e)
    plain = type(own).__name__ == "Column" and not own.args.get("table")
    return bool(plain and own.name.lower() == found.on.lower())


def join_kind(join: Any) -> str:
    """INNER, LEFT, or what is not answered."""
    for name in ("method", "side", "kind"):
        said = str(join.args.get(name) or "").upper()
        if said in NEVER:
            return said
    if join.args.get("on") is None and not join.args.get("using"):
        return "CROSS"
    return "LEFT" if str(join.args.get("side") or "").upper() == "LEFT" else "INNER"


def _no_such(said: str, name: str, schema: Schema, table: str) -> QueryNotAllowed:
    """Why a table cannot be joined that is no lookup table."""
    known = [t.name for t in schema.lookups]
    if name.lower() == table.lower():
        why = (
            "one table is asked at a time: joined to itself it would set rows of several people "
            "side by side. What one person's rows say together is a sub-select grouped by the "
            "person"
        )
        hint = "" if schema.unit is not None else ", where [unit] declares whose rows are whose"
        return QueryNotAllowed(f"{said}: {why}{hint}: docs/howto/people.md.")
    there = f"Lookup tables here: {listed(known)}." if known else "None is declared here."
    return QueryNotAllowed(
        f"{said}: one table is asked at a time: a join would mix rows of several people. Join the "
        "tables before the data is opened, a private one of the same people with one row of it to "
        f"each row. Public tables may be joined that the schema declares under [lookups]. {there}"
    )


def _on_key(join: Any, found: Lookup, alias: str, rows: Beside) -> bool:
    from sqlglot import exp

    using = [str(u.name) for u in join.args.get("using") or ()]
    if using:
        here = exp.column(using[0])
        is_key = len(using) == 1 and using[0].lower() == found.key.lower()
        return is_key and rows.has(here) and _is_on(here, found, rows)
    on = join.args["on"].unnest()
    if type(on).__name__ != "EQ":
        return False
    sides = [on.this.unnest(), on.expression.unnest()]
    if any(type(s).__name__ != "Column" for s in sides):
        return False
    for here, there in (sides, sides[::-1]):
        named = there.args.get("table")
        if named is None or named.name.lower() != alias or there.name.lower() != found.key.lower():
            continue
        return _is_on(here, found, rows)
    return False
