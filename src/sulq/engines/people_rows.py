"""Rows of which each person has one, as a SELECT over the stored rows: integers and plain reads.

Every aggregate is exact on every engine: sums are of grid integers, an average is one division of
two whole numbers, a first or last row is the one that its order and then its key put first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sulq.engines.base import Matrix
from sulq.engines.writer import Writer
from sulq.expressions.node import column
from sulq.questions.check import CheckedQuery
from sulq.questions.features import Feature
from sulq.questions.people_view import PeopleRows
from sulq.values.per_person import MAX_FEATURES

Own = Callable[[Sequence[CheckedQuery]], list[Matrix]]
OfPeople = Callable[[PeopleRows, Sequence[CheckedQuery]], list[Matrix]]
Scan = tuple[PeopleRows, list[int]]  # what is read of each person, for the queries at these places


def each_of_its_rows(
    queries: Sequence[CheckedQuery], own: Own, people: OfPeople, most: int = MAX_FEATURES
) -> list[Matrix]:
    """The sums of queries about the table's rows, and of those about people, each in its way.

    What is asked about the same people is one scan, or several where one SELECT would have more
    columns than a database can have, or plans well: `most`, but for a question with more.
    """
    groups: dict[Any, list[int]] = {}
    for i, query in enumerate(queries):
        groups.setdefault(query.about, []).append(i)
    out: dict[int, Matrix] = {}
    for places in groups.values():
        if queries[places[0]].people is None:
            out |= zip(places, own([queries[i] for i in places]), strict=True)
            continue
        for rows, chosen in _scans(queries, places, most):
            out |= zip(chosen, people(rows, [queries[i] for i in chosen]), strict=True)
    return [out[i] for i in range(len(queries))]


def _scans(queries: Sequence[CheckedQuery], places: Sequence[int], most: int) -> list[Scan]:
    """The queries at these places, together as long as their features are few enough."""
    scans: list[Scan] = []
    for i in places:
        rows = queries[i].people
        assert rows is not None
        if scans:
            both = scans[-1][0].merged(rows)
            if len(both.features) <= most:
                scans[-1] = (both, [*scans[-1][1], i])
                continue
        scans.append((rows, [i]))
    return scans


def kinds_of(people: PeopleRows) -> dict[str, str]:
    """What is stored of each feature: integer, number, boolean, date or text."""
    return {f.column.name: column(f.column).type for f in people.features}


def people_select(
    writer: Writer, people: PeopleRows, source: str, called: Callable[[str], str],
    place: str | None = None, collated: str = "", wide: str = "",
) -> str:  # fmt: skip
    """The SELECT that gives each person one row, each column under the name it is `called`.

    `place` tells rows with equal keys apart, `collated` orders texts letter by letter, and a sum
    is added up in the type `wide`.
    """
    select = _Select(writer, people, called, wide)
    return select.sql(source, place, collated)


class _Select:
    """Below, what each feature is taken of, row by row; above, its aggregate."""

    def __init__(
        self, writer: Writer, people: PeopleRows, called: Callable[[str], str], wide: str
    ) -> None:
        self._writer = writer
        self._people = people
        self._called = called
        self._wide = wide

    def sql(self, source: str, place: str | None, collated: str) -> str:
        schema = self._people.base
        person = self._people.schema.columns[0]
        ordered = [i for i, f in enumerate(self._people.features) if f.order is not None]
        below = [f"{self._writer.person(schema[person.name])} AS p"]
        below += [f"{self._given(f)} AS a{i}" for i, f in enumerate(self._people.features)]
        ties = []
        if ordered:
            key = schema.key
            if key is not None and key.name != person.name:
                ties.append("k")
                read = self._writer.person(key)
                below.append(f"{read}{collated if key.type == 'text' else ''} AS k")
            if place is not None:
                ties.append("l")
                below.append(f"{place} AS l")
            for i in ordered:
                order = self._people.features[i].order
                assert order is not None
                below.append(f"{self._writer.node(order)} AS t{i}")
        members = (
            "" if self._people.rows is None else f" WHERE {self._writer.truth(self._people.rows)}"
        )
        rows = f"(SELECT {', '.join(below)} FROM {source}{members}) AS named"
        if ordered:
            ranks = [self._rank(i, ties) for i in ordered]
            rows = f"(SELECT named.*, {', '.join(ranks)} FROM {rows}) AS ranked"
        above = [f"p AS {self._called(person.name)}"]
        above += [
            f"{self._aggregate(f, i)} AS {self._called(f.column.name)}"
            for i, f in enumerate(self._people.features)
        ]
        return f"SELECT {', '.join(above)} FROM {rows} GROUP BY p"

    def _given(self, feature: Feature) -> str:
        """What a row brings to an aggregate; missing if nothing."""
        write = self._writer
        if feature.kind in ("sum", "avg"):
            written = write.value(feature.grid)
            return f"CAST({written} AS {self._wide})" if self._wide else written
        written = write.node(feature.given)
        if feature.order is not None and feature.order.nullable:
            return f"CASE WHEN {write.node(feature.order)} IS NOT NULL THEN {written} END"
        return written

    def _rank(self, i: int, ties: Sequence[str]) -> str:
        """The place of each row among the person's, those that bring nothing last."""
        last = self._people.features[i].kind == "last"
        way = "DESC NULLS FIRST" if last else "ASC NULLS LAST"
        order = ", ".join(f"{part} {way}" for part in (f"t{i}", *ties))
        known = f"CASE WHEN a{i} IS NULL THEN 1 ELSE 0 END"
        return f"row_number() OVER(PARTITION BY p ORDER BY {known}, {order}) AS r{i}"

    def _aggregate(self, feature: Feature, i: int) -> str:
        kind, a = feature.kind, f"a{i}"
        if kind == "count":
            return self._clamped(feature, f"count({a})")
        if kind == "distinct":
            return self._clamped(feature, f"count(DISTINCT {a})")
        if kind in ("any", "every"):
            return f"bool_{'or' if kind == 'any' else 'and'}({a})"
        if kind == "sum" and feature.column.type == "integer":
            return self._clamped(feature, f"sum({a})")
        number = self._writer.types["number"]
        if kind in ("sum", "avg"):
            step = self._writer.number(2.0**-feature.grid.scale)
            total = f"CAST(sum({a}) AS {number})"
            if kind == "sum":
                return f"{total} * {step}"
            return f"{total} / CAST(NULLIF(count({a}), 0) AS {number}) * {step}"
        if kind in ("min", "max"):
            return f"{kind}({a})"
        if kind == "same":
            return f"{'bool_or' if feature.given.type == 'boolean' else 'max'}({a})"
        chosen = f"CASE WHEN r{i} = 1 THEN {a} END"
        return f"{'bool_or' if feature.given.type == 'boolean' else 'max'}({chosen})"

    def _clamped(self, feature: Feature, sql: str) -> str:
        """A whole number within its range, so that it fits 64 bits."""
        c = feature.column
        return (
            f"CASE WHEN {sql} < {c.low} THEN CAST({c.low} AS BIGINT) WHEN {sql} > {c.high} "
            f"THEN CAST({c.high} AS BIGINT) ELSE CAST({sql} AS BIGINT) END"
        )
