"""One row for each person: the columns that a question about people may use, and where from.

The person's rows, however many and whatever they hold, become one row of declared columns. A
question about such rows is checked, priced, charged and answered like any other about a table with
one row per person. Who is there is public: whoever has a row that the public part of `where` is
true of. Everything else about a person's rows is private here, also how many they are.
docs/proofs/per-person.md says why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.functions import call
from sulq.expressions.node import Node, tree_of
from sulq.expressions.normal_form import split
from sulq.expressions.parse import parse, predicate, syntax
from sulq.expressions.wording import sql_of
from sulq.questions.features import Feature, FeatureReader, check_in_sql
from sulq.questions.projection import Projection
from sulq.values.per_person import MAX_FEATURES, PerPerson
from sulq.values.query import Discover, Query, Running
from sulq.values.schema import Column, Schema, Unit

HASHED = ("integer", "text")  # names of these kinds form samples and blocks, as keys do


@dataclass(frozen=True)
class PeopleRows:
    """Rows of which each person has one: features of the stored rows, as columns of their own."""

    base: Schema  # of the stored rows
    schema: Schema  # of the rows here: the person, and one column for each feature
    features: tuple[Feature, ...]
    rows: Node | None  # public: which stored rows are looked at, and so who is there

    def of(self, text: str) -> PeopleRows:
        """The same with those features alone that a question's text names."""
        used = tuple(f for f in self.features if json.dumps(f.column.name) in text)
        return _people(self.base, used, self.rows)

    def merged(self, other: PeopleRows) -> PeopleRows:
        """The features of both."""
        every = {f.column.name: f for f in (*self.features, *other.features)}
        return _people(self.base, tuple(every.values()), self.rows)

    def tree(self) -> dict[str, Any]:
        """What a stored question says of them."""
        found: dict[str, Any] = {"features": sorted(f.text for f in self.features)}
        return found if self.rows is None else found | {"rows": tree_of(self.rows)}


@dataclass(frozen=True)
class PeopleView:
    """What an analyst named: columns by their own names, over rows of which each person has one."""

    asked: PerPerson
    people: PeopleRows
    schema: Schema  # the analyst's names
    formulas: dict[str, str]  # what each stands for
    where: str | None  # who counts: has such rows at all, and what HAVING says

    @property
    def stored(self) -> Schema:
        """The columns that questions are written in."""
        return self.people.schema

    def written_out(self, query: Query) -> Query:
        """The same question, saying what it is about."""
        return replace(query, per_person=self.asked) if isinstance(query, Query) else query

    def spelled(self, query: Query) -> Query:
        """The same question in terms of features."""
        written = Projection(self.formulas, self.schema, frozenset()).written_out(
            replace(query, per_person=None)
        )
        terms = [t for t in (written.where, self.where) if t is not None]
        where = " AND ".join(f"({t})" for t in terms) or None
        # What is no sum of these columns is refused by the name it has.
        own = isinstance(query.values, Discover | Running)
        return replace(written, where=where, values=query.values if own else written.values)


@lru_cache(maxsize=256)
def people_view(asked: PerPerson, schema: Schema) -> PeopleView:
    """The rows that a PerPerson asks about, or why there are none such."""
    if schema.unit is None:
        raise QueryNotAllowed(
            "per_person: the schema declares no [unit], so each row is a person of its own. "
            "Declare whose rows are whose, or ask about rows."
        )
    rows, gate = None, None
    if asked.where is not None:
        found = split(call("and", predicate(asked.where, schema)), schema)
        rows, gate = found.rows, found.where
        check_in_sql(rows)
    reader = FeatureReader(schema, gate, rows)
    terms = [] if gate is None else [reader.presence()]
    formulas = {name: reader.formula(syntax(text, schema.names)) for name, text in asked.features}
    if asked.having is not None:
        terms.append(reader.formula(syntax(asked.having, schema.names)))
    if len(reader.found) > MAX_FEATURES:
        raise QueryNotAllowed(
            f"per_person: {len(reader.found):,} different aggregates of a person's rows, at most "
            f"{MAX_FEATURES}. Ask several questions."
        )
    people = _people(schema, tuple(reader.found.values()), rows)
    for term in terms:
        predicate(term, people.schema)
    taken = schema.unit.column.lower()
    if taken in (name.lower() for name in formulas):
        raise QueryNotAllowed(f"per_person: {schema.unit.column!r} is the person; choose another.")
    columns = [_column(name, parse(f, people.schema), people) for name, f in formulas.items()]
    shown = replace(people.schema, columns=(people.schema.columns[0], *columns))
    both = " AND ".join(f"({t})" for t in terms) if terms else None
    return PeopleView(asked, people, shown, {n: f"({f})" for n, f in formulas.items()}, both)


def _people(schema: Schema, features: tuple[Feature, ...], rows: Node | None) -> PeopleRows:
    unit = schema.unit
    assert unit is not None
    kind = _name_type(schema[unit.column])
    person = replace(
        schema[unit.column], public=True, key=kind in HASHED, shards=None, values=None, bins=None,
        type=kind,
    )  # fmt: skip
    features = tuple(sorted(features, key=lambda f: f.column.name))
    columns = (person, *(f.column for f in features))
    return PeopleRows(schema, Schema(columns, schema.where, Unit(unit.column, 1)), features, rows)


def _name_type(c: Column) -> str:
    """What a person's name is: a text or a whole number where its values are listed."""
    if c.type == "category":
        return "text" if isinstance((c.values or (0,))[0], str) else "integer"
    return c.type


def _column(name: str, node: Node, people: PeopleRows) -> Column:
    """What a formula of features is, as a column of its own."""
    if node.op == "column":
        return replace(people.schema[node.value], name=name, key=False)
    low, high = (node.low, node.high) if node.bounded else (None, None)
    if node.type in ("boolean", "text", "null"):
        kind = "boolean" if node.type == "null" else node.type
        return Column(name, kind, nullable=node.nullable)
    if node.type == "date" or low == high:
        return Column(name, node.type)
    if node.type == "number" and low is not None and high is not None:
        low, high = float(low), float(high)
    return Column(name, node.type, low, high, nullable=node.nullable)


def stored_person_rows(part: dict[str, Any]) -> PerPerson | None:
    """The PerPerson that a stored question is about, so that it can be asked again; None: rows."""
    found = part.get("per_person")
    if found is None:
        return None
    named = tuple((f"f{i}", text) for i, text in enumerate(found["features"]))
    return PerPerson(named, sql_of(found["rows"]) if "rows" in found else None)
