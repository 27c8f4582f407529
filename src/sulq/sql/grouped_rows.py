"""A SELECT inside FROM that is grouped by the person: the features of a row per person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import shorten
from sulq.values.per_person import PerPerson
from sulq.values.schema import Schema


class Rows(Protocol):
    """Where the rows come from that are grouped."""

    @property
    def schema(self) -> Schema:
        """The table's columns."""
        ...

    @property
    def where(self) -> tuple[str, ...]:
        """The conditions that they satisfy."""
        ...

    def expand(self, e: Any) -> Any:
        """An expression over the table's columns."""
        ...

    def called(self, name: str) -> tuple[str, str]:
        """How a statement may write a stored column: an alias, and its own name."""
        ...


@dataclass(frozen=True)
class Grouped:
    """What is asked of each person, and what the outer SELECT may name."""

    asked: PerPerson
    columns: dict[str, Any]  # small name -> a column of a row per person


def read_people(select: Any, rows: Rows) -> Grouped:
    """The features that a grouped SELECT names; refused unless it is grouped by the person."""
    from sqlglot import exp

    unit = rows.schema.unit
    assert unit is not None
    for clause in ("order", "limit"):
        if select.args.get(clause):
            raise QueryNotAllowed(
                f"{clause.upper()} inside WITH or FROM: use it on the outer SELECT."
            )
    _check_keys(select, rows, rows.called(unit.column)[1])
    columns: dict[str, Any] = {}
    features: dict[str, str] = {}
    for e in select.expressions:
        if e.is_star:
            raise QueryNotAllowed(
                f"* of rows that are grouped by {unit.column!r}: name aggregates such as count(*)."
            )
        expanded = rows.expand(e.unalias())
        person = _is_person(expanded, rows.schema)
        plain = type(e).__name__ in ("Alias", "Column")
        name = (e.alias_or_name if plain else "") or (unit.column if person else "")
        if not name:
            raise QueryNotAllowed(f"{shorten(written(e))}: give it a name with AS.")
        if name.lower() in columns:
            raise QueryNotAllowed(f"two columns are called {name!r}; rename one with AS.")
        if person:
            columns[name.lower()] = exp.column(unit.column, quoted=True)
            continue
        usable = name.isidentifier() and name.lower() != unit.column.lower()
        own = name if usable else f"column_{len(columns) + 1}"
        features[own] = written(expanded)
        columns[name.lower()] = exp.column(own, quoted=True)
    where = " AND ".join(f"({w})" for w in rows.where) or None
    having = select.args.get("having")
    said = None if having is None else written(_of_outputs(having.this, select, rows))
    return Grouped(PerPerson(tuple(features.items()), where, said), columns)


def _check_keys(select: Any, rows: Rows, person: str) -> None:
    group = select.args["group"]
    keys = list(group.expressions)
    if group.args.get("all"):
        keys = [e for e in select.expressions if not _has_aggregate(e)]
    found = [rows.expand(_resolved(key, select).unalias()) for key in keys]
    people = [f for f in found if _is_person(f, rows.schema)]
    others = [f for f in found if f not in people and not _is_of_people(f, rows.schema)]
    if not others and people:
        return
    shown = shorten(written((others or found)[0])) if found else "nothing"
    raise QueryNotAllowed(
        f"GROUP BY {shown} inside WITH or FROM: aggregates of aggregates are answered for people, "
        f"one row for each, grouped by {person!r} alone. A person may be in several groups of "
        "anything else: ask it of the outer SELECT, as max(...) or first(... order by ...) of the "
        "person, or with GROUP BY over the table itself."
    )


def _resolved(e: Any, select: Any) -> Any:
    """GROUP BY 1 and GROUP BY alias mean the expression in the SELECT list."""
    if type(e).__name__ == "Literal" and not e.is_string:
        if not (e.this.isdecimal() and 1 <= int(e.this[:9]) <= len(select.expressions)):
            raise QueryNotAllowed(f"GROUP BY {e.this}: there is no such output.")
        return select.expressions[int(e.this) - 1]
    return _named(e, select) or e


def _named(e: Any, select: Any) -> Any:
    """What a name of the SELECT list stands for."""
    if type(e).__name__ != "Column" or e.args.get("table"):
        return None
    for output in select.expressions:
        if type(output).__name__ == "Alias" and output.alias.lower() == e.name.lower():
            return output.this
    return None


def _of_outputs(e: Any, select: Any, rows: Rows) -> Any:
    """HAVING, in which names of the SELECT list may stand, over the table's columns."""

    def step(node: Any) -> Any:
        return _named(node, select) or node

    return rows.expand(e.copy().transform(step))


def _is_person(e: Any, schema: Schema) -> bool:
    e = e.unnest()
    if type(e).__name__ != "Column":
        return False
    found = schema.get(e.name, quoted=bool(e.this.args.get("quoted")))
    return found is not None and schema.unit is not None and found.name == schema.unit.column


def _is_of_people(e: Any, schema: Schema) -> bool:
    """Is it a column of the table of people? A person is in one group of it."""
    e = e.unnest()
    if type(e).__name__ != "Column" or schema.star is None:
        return False
    found = schema.get(e.name, quoted=bool(e.this.args.get("quoted")))
    return found is not None and schema.star.home(found.name) is schema.star.people


def _has_aggregate(e: Any) -> bool:
    from sqlglot import exp

    return any(isinstance(part, exp.AggFunc | exp.Any) for part in e.walk())
