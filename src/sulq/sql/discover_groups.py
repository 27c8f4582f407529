"""GROUP BY diagnosis(discover => true): groups that nobody listed, named if enough rows have them.

The statement is compiled as if the column's values were known, and its one query becomes a
discovery. HAVING, ORDER BY and LIMIT work on what was found, as elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.sql.statement import Statement
from sulq.values.query import Discover, Query, Terms
from sulq.values.schema import Schema

HOW = "GROUP BY diagnosis(discover => true), with at_least => 200 beside it if you like"


def plainly(select: Any) -> Discover | None:
    """What GROUP BY wants discovered, if anything; the SELECT then groups by the plain column."""
    from sqlglot import exp

    group = select.args.get("group")
    found = [e for e in group.expressions if _is_call(e)] if group is not None else []
    if not found:
        return None
    if len(group.expressions) > 1:
        raise QueryNotAllowed(
            "discover => true: alone in its GROUP BY, since groups of several columns would be "
            "smaller than what can be named. Choose rows of the others with WHERE."
        )
    (call,) = found
    said = {str(k.this).lower(): k.expression for k in call.expressions}
    most = said.pop("at_least", None)
    if set(said) != {"discover"} or not _is(said["discover"], "Boolean", True):
        raise QueryNotAllowed(f"{call.sql()}: want {HOW}.")
    if most is not None and not (_is(most, "Literal") and str(most.this).isdecimal()):
        raise QueryNotAllowed("at_least => wants a whole number of rows.")
    said_name = str(getattr(call.this, "name", call.this))
    quoted = said_name.startswith('"')
    name = said_name[1:-1].replace('""', '"') if quoted else said_name
    call.replace(exp.column(exp.to_identifier(name, quoted=quoted)))
    return Discover(name, None if most is None else int(str(most.this)[:18]))


def discovering(statement: Statement, asked: Discover, schema: Schema) -> Statement:
    """The same statement, its one count by that column as a discovery."""
    column = schema.get(asked.column)
    name = asked.column if column is None else column.name
    plain = len(statement.queries) == 1 and statement.queries[0].values == Terms(("1",))
    if not plain or statement.formulas.quantiles:
        raise QueryNotAllowed(
            f"discover => true: groups that are found have COUNT(*) and nothing else. Ask for "
            f"these first, then for more about those you choose: WHERE {name} = '...'."
        )
    (query,) = statement.queries
    found = Query(Discover(name, asked.at_least), where=query.where, rows=query.rows)
    return replace(statement, queries=(found,))


def _is_call(e: Any) -> bool:
    """Is it column(name => value, ...)?"""
    given = getattr(e, "expressions", ())
    return _is(e, "Anonymous") and bool(given) and all(_is(x, "Kwarg") for x in given)


def _is(e: Any, kind: str, value: Any = None) -> bool:
    return type(e).__name__ == kind and (value is None or e.this == value)
