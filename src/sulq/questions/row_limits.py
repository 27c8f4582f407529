"""Which of a person's rows and values count, as a note beside every number about them.

What is left out, or moved to the end of a range, makes a number differ from what a plain database
would give. The note says so by public facts, from the schema and the question alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.star_tables import tables_in
from sulq.values.schema import Schema


def limits_of(queries: Iterable[CheckedQuery], schema: Schema) -> list[str]:
    """The limits that these queries meet, each once."""
    return list(dict.fromkeys(limit for query in queries for limit in _limits(query, schema)))


def _limits(query: CheckedQuery, schema: Schema) -> Iterator[str]:
    if query.people is not None:  # of all rows, whatever max_rows is
        yield from (f.limit for f in query.people.features if f.limit)
        return
    unit, star = schema.unit, schema.star
    if unit is None or _of_everybody(query):
        return
    if star is not None:
        names = tables_in(star, query.rows)
        for table in star.tables:
            if table.max_rows is not None and table.name in names:
                yield f"each person counts with at most {_rows(table.max_rows)} of {table.name}"
        return
    periods = unit.max_periods
    each = "" if periods is None else f" a period, in their first {periods:,} periods"
    yield f"each person counts with at most {_rows(unit.max_rows)}{each}"


def _of_everybody(query: CheckedQuery) -> bool:
    """Is it the number of all people? Each has a row that counts, whatever the limit."""
    values = query.values
    chosen = (query.rows, query.where, query.sample)
    people = isinstance(values, Dense) and values.kind == "people"
    return people and not query.axes and all(part is None for part in chosen)


def _rows(count: int) -> str:
    return f"{count:,} row" + ("" if count == 1 else "s")


def with_limits(lay_out: Callable[..., Any], limits: list[str]) -> Callable[..., Any]:
    """The same layout, whose answers say these limits."""
    if not limits:
        return lay_out
    return lambda *given: _noted(lay_out(*given), limits)


def _noted(found: Any, limits: list[str]) -> Any:
    if isinstance(found, list):
        return [_noted(each, limits) for each in found]
    if isinstance(found, dict):
        return {name: _noted(each, limits) for name, each in found.items()}
    notes = [found.note] if found.note else []
    return replace(found, note="; ".join([*notes, *limits]))
