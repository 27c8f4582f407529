"""Which of several tables a question is about: the one it names, or whose columns it uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import vector_of
from sulq.expressions.dialect import written
from sulq.expressions.functions import call
from sulq.expressions.node import Node
from sulq.expressions.normal_form import split
from sulq.expressions.operations import Evaluator
from sulq.expressions.parse import predicate, syntax
from sulq.expressions.quoting import quote, text
from sulq.questions.projection import Projection
from sulq.values.per_person import PerPerson
from sulq.values.query import Query
from sulq.values.schema import Schema, Unit
from sulq.values.star import TABLE, Star, StarTable


@dataclass(frozen=True)
class TableView:
    """The rows of one of several tables: its own columns, and beside events those of people."""

    table: StarTable
    schema: Schema  # its own names
    formulas: Mapping[str, str]  # what the stack calls its columns, where that is something else

    @classmethod
    def of(cls, name: str, schema: Schema) -> TableView:
        """The view of the table of this name."""
        star = schema.star
        found = None if star is None or not isinstance(name, str) else star.table(name)
        if star is None or found is None:
            there = "one table only" if star is None else ", ".join(t.name for t in star.tables)
            raise QueryNotAllowed(f"table({name!r}): there is no such table here, but {there}.")
        names = star.named(found)
        columns = tuple(replace(schema[stacked], name=own) for own, stacked in names.items())
        key = star.stacked(found, found.key)
        columns = tuple(
            replace(c, key=True) if n == key and c.type in ("integer", "text") else c
            for c, n in zip(columns, names.values(), strict=True)
        )
        unit = Unit(found.person, found.most)
        formulas = {own: quote(stacked) for own, stacked in names.items() if own != stacked}
        return cls(found, Schema(columns, schema.where, unit), formulas)

    def written_out(self, query: Query) -> Query:
        """The same question in terms of the stack."""
        if not isinstance(query, Query):
            return query
        spelled = _Renamed(self.formulas, self.schema, frozenset()).written_out(query)
        people = spelled.per_person
        if people is None:
            return of_table(spelled, self.table)
        return replace(spelled, per_person=replace(people, where=_and(people.where, self.table)))

    def person_rows(self, asked: PerPerson) -> PerPerson:
        """One row for each person who has rows of the table."""
        found = self.written_out(Query(per_person=asked)).per_person
        assert found is not None
        return found


def is_of(table: StarTable) -> str:
    """A public condition: is a row of this table?"""
    return f"{quote(TABLE)} = {text(table.name)}"


def of_one_table(query: Query, schema: Schema) -> Query:
    """The question with the table it is about: that of people, unless it names another."""
    if schema.star is None or query.per_person is not None:
        return query
    used = {name for part in _texts(query) for name in _names(part, schema)}
    if TABLE in used:
        return query
    events = table_of(used, schema.star)
    if events is not None:
        raise QueryNotAllowed(
            f"it uses columns of {events.name!r}, and no table is named, which means "
            f"{schema.star.people.name!r}. Ask db.table({events.name!r}), or SQL: FROM "
            f"{events.name} JOIN {schema.star.people.name}."
        )
    return of_table(query, schema.star.people)


def of_table(query: Query, table: StarTable) -> Query:
    """The question about the rows of one table."""
    return replace(query, where=_and(query.where, table))


def _and(where: str | None, table: StarTable) -> str:
    return is_of(table) if where is None else f"({where}) AND {is_of(table)}"


def table_of(used: Collection[str], star: Star) -> StarTable | None:
    """The table of events whose columns these are; None: they are of people."""
    homes = {name: star.home(name) for name in used}
    events = {t.name: t for t in homes.values() if t is not None and t is not star.people}
    if len(events) > 1:
        raise QueryNotAllowed(
            f"columns of {' and '.join(sorted(events))} in one row: an event is of one table. Make "
            "one row for each person, with aggregates of each: docs/howto/people.md."
        )
    return next(iter(events.values()), None)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [found for v in value for found in _texts(v)]
    if is_dataclass(value) and not isinstance(value, type):
        return [found for f in fields(value) for found in _texts(getattr(value, f.name))]
    return []


@lru_cache(maxsize=1024)
def _names(said: str, schema: Schema) -> frozenset[str]:
    """The columns that a text names."""
    whole = schema.get(said)
    if whole is not None:
        return frozenset({whole.name})
    found = _parsed(said)
    columns = () if found is None else (c for c in found.walk() if type(c).__name__ == "Column")
    known = (schema.get(c.name, quoted=bool(c.this.args.get("quoted"))) for c in columns)
    return frozenset(c.name for c in known if c is not None)


def _parsed(said: str) -> Any:
    """sqlglot's reading of an expression; None: it is to be refused as it stands."""
    try:
        return syntax(said)
    except QueryNotAllowed:
        return None


@dataclass(frozen=True)
class _Renamed(Projection):
    """A projection whose formulas are other names of columns."""

    def _written(self, text: str) -> str:
        parsed = _parsed(text) if self.formulas else None
        if parsed is None:
            return text
        from sqlglot import exp

        def step(node: Any) -> Any:
            if type(node).__name__ != "Column" or node.args.get("table") is not None:
                return node
            own = self.schema.get(node.name, quoted=bool(node.this.args.get("quoted")))
            if own is None or own.name not in self.formulas:
                return node
            return exp.column(self.stacked[own.name], quoted=True)

        return written(parsed.transform(step))

    @property
    def stacked(self) -> dict[str, str]:
        """The bare names that the formulas quote."""
        return {own: said[1:-1].replace('""', '"') for own, said in self.formulas.items()}


def in_tables(schema: Schema, rows: Node | None) -> Schema:
    """The schema with as many rows of a person as count in the tables that rows are chosen of."""
    if schema.star is None:
        return schema
    return _limited(schema, tables_in(schema.star, rows))


def tables_in(star: Star, rows: Node | None) -> tuple[str, ...]:
    """The tables that a public predicate leaves, by those of its terms that name tables only."""
    names = tuple(t.name for t in star.tables)
    terms = () if rows is None else rows.args if rows.op == "and" else (rows,)
    usable = [t for t in terms if t.columns() == {TABLE}]
    if not usable:
        return names
    plain = Schema((star.columns()[0],))
    true = Evaluator({TABLE: vector_of(names)}, len(names), plain).true(call("and", *usable))
    return tuple(names[i] for i in np.flatnonzero(true))


def one_table(
    kind: str, used: Sequence[Node], terms: Sequence[Node | None], schema: Schema
) -> tuple[int, list[Node]]:
    """How many rows of a person an aggregate is of, and a condition that makes them one table's.

    It has none of its own where the tables are said already, or where all rows say the same.
    """
    star = schema.star
    assert star is not None
    known = [t for t in terms if t is not None]
    public = split(call("and", *known), schema).rows if known else None
    said = tables_in(star, public)
    if len(said) == 1 or kind == "same":
        return star.unit(said).max_rows, []
    names = {name for node in used for name in node.columns()}
    table = table_of(names, star)
    if table is None and (TABLE in names or (kind == "any" and not names)):
        return star.unit(said).max_rows, []  # has the person a row at all?
    if table is None and (kind in ("count", "sum") or not names):
        raise QueryNotAllowed(
            "an aggregate of a person's rows, of which table? Count a column that one of them has, "
            "such as its key, or say so: count(*) filter (where sulq_table = 'visits')."
        )
    table = table or star.people
    return table.most, [predicate(is_of(table), schema)]


@lru_cache(maxsize=256)
def _limited(schema: Schema, names: tuple[str, ...]) -> Schema:
    assert schema.star is not None
    return replace(schema, unit=schema.star.unit(names))
