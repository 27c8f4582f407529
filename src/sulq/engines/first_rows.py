"""Which rows of a person do not count: beyond max_rows, and in periods beyond max_periods."""

from __future__ import annotations

from sulq.engines.writer import Writer
from sulq.expressions.quoting import quote, text
from sulq.values.schema import Schema


def rows_beyond(writer: Writer, schema: Schema, place: str | None, order: str) -> str:
    """A SELECT of the places of those rows. It does not depend on what is private of any row.

    Of a person's periods the first count, in the order of the schema, so that none that has counted
    stops when a later one opens. Rows in no declared period come first: none can come later.
    """
    unit = schema.unit
    assert unit is not None
    person = quote(unit.column)
    ranks, beyond = [], []
    within = person
    if schema.period is not None and unit.max_periods is not None:
        column = schema[schema.period]
        listed = ", ".join(text(v) if isinstance(v, str) else str(v) for v in column.listed or ())
        number = f"coalesce(list_position([{listed}], {writer.read(column)}), 0)"
        ranks.append(f"dense_rank() OVER (PARTITION BY {person} ORDER BY {number}) AS periods")
        beyond.append(f"periods > {unit.max_periods}")
        within = f"{person}, {number}"
    ranks.append(f"row_number() OVER (PARTITION BY {within} ORDER BY {order}) AS rank")
    beyond.append(f"rank > {unit.max_rows}")
    return (
        f"SELECT place FROM (SELECT {place} AS place, {', '.join(ranks)} FROM all_rows) "
        f"WHERE {' OR '.join(beyond)}"
    )
