"""Which rows of a person do not count: beyond max_rows, and in periods beyond max_periods."""

from __future__ import annotations

from sulq.engines.writer import Writer
from sulq.expressions.quoting import quote, text
from sulq.values.schema import Schema, Unit


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
    number = _period_number(writer, schema, unit)
    if number is not None:
        ranks.append(f"dense_rank() OVER (PARTITION BY {person} ORDER BY {number}) AS periods")
        beyond.append(f"periods > {unit.max_periods}")
        within = f"{person}, {number}"
    ranks.append(f"row_number() OVER (PARTITION BY {within} ORDER BY {order}) AS rank")
    beyond.append(f"rank > {unit.max_rows}")
    return (
        f"SELECT place FROM (SELECT {place} AS place, {', '.join(ranks)} FROM all_rows) "
        f"WHERE {' OR '.join(beyond)}"
    )


def left_out(writer: Writer, schema: Schema, unit: Unit, rows: str) -> str:
    """A SELECT of how many there are: people, those of them with more rows than count, the rows
    of everybody, and the rows that do not count. Exact, so for the owner alone.
    """
    number = _period_number(writer, schema, unit)
    person = quote(unit.column)
    beyond = f"greatest(n - {unit.max_rows}, 0)"
    if number is not None:
        beyond = f"CASE WHEN period > {unit.max_periods} THEN n ELSE {beyond} END"
    return (
        "SELECT count(*), count(*) FILTER (WHERE beyond > 0), coalesce(sum(n), 0), "
        f"coalesce(sum(beyond), 0) FROM (SELECT sum(n) AS n, sum({beyond}) AS beyond FROM ("
        "SELECT person, n, row_number() OVER (PARTITION BY person ORDER BY number) AS period FROM "
        f"(SELECT {person} AS person, {number or 0} AS number, count(*) AS n FROM {rows} "
        "GROUP BY 1, 2)) GROUP BY person)"
    )


def _period_number(writer: Writer, schema: Schema, unit: Unit) -> str | None:
    """The place of a row's period in the order of the schema; None where periods do not count."""
    if schema.period is None or unit.max_periods is None:
        return None
    column = schema[schema.period]
    listed = ", ".join(text(v) if isinstance(v, str) else str(v) for v in column.listed or ())
    return f"coalesce(list_position([{listed}], {writer.read(column)}), 0)"
