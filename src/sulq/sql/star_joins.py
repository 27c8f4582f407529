"""FROM and JOIN where there are people and tables of their events: which rows that is about.

An event joined to its person stays one row, so `events join people` is a question about events. A
sub-select that is grouped by the person has one row for each, so people joined to several of these
are a question about people. Rows of two tables of events would multiply, and are not joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import shorten, syntax
from sulq.expressions.quoting import quote, text
from sulq.questions.features import is_feature
from sulq.questions.star_tables import is_of
from sulq.sql.joins import NEVER, join_kind
from sulq.values.per_person import PerPerson
from sulq.values.schema import Schema
from sulq.values.star import TABLE, Star, StarTable


@dataclass(frozen=True)
class Given:
    """One of the things that FROM and JOIN name, before they are put together."""

    alias: str
    columns: Mapping[str, Any]  # small name -> a column of the stack, or of a row per person
    table: StarTable | None  # whose rows these are; None: one for each person
    where: tuple[str, ...]  # the conditions that they satisfy
    per_person: PerPerson | None = None
    join: Any = None  # how it is joined; None: it stands behind FROM
    negated: bool = False  # of IN and EXISTS: the people who are not in it

    @property
    def said(self) -> str:
        """How it was written."""
        return self.alias if self.join is None else shorten(written(self.join).lstrip(", "))


@dataclass(frozen=True)
class Side:
    """What may stand behind an alias and a dot."""

    alias: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class StarRows:
    """The rows that FROM and JOIN come to."""

    sides: tuple[Side, ...]
    where: tuple[str, ...]
    table: StarTable | None = None
    per_person: PerPerson | None = None
    left: bool = False  # people with and without events, to be grouped by the person


def own_columns(table: StarTable, star: Star) -> dict[str, Any]:
    """The columns of a table as the stack has them, by their own names in small letters."""
    from sqlglot import exp

    names = [table.person, *(c.name for c in table.columns)]
    return {n.lower(): exp.column(star.stacked(table, n), quoted=True) for n in names}


def put_together(
    given: Sequence[Given], schema: Schema, named: frozenset[str], among: Sequence[Given],
    grouped: bool,
) -> StarRows:  # fmt: skip
    """The rows of all that FROM and JOIN name; `named` are the columns that a SELECT speaks of.

    `among` are the people of IN and EXISTS. Where rows are `grouped` by the person, people may be
    there who have none.
    """
    star = schema.star
    assert star is not None
    for i, each in enumerate(given):
        if each.alias in {g.alias for g in given[:i]}:
            raise QueryNotAllowed(f"two tables are called {each.alias!r}; name one with AS.")
        if each.join is not None:
            _check_join(each, given[:i], star)
    if among and any(g.per_person is None and g.table is not star.people for g in given):
        raise QueryNotAllowed(
            f"IN or EXISTS of people, where rows are of {given[0].alias!r}, of which a person has "
            f"several. Group them by {star.person.name!r} inside FROM, or ask about people."
        )
    if len(given) == 1 and not among:
        (only,) = given
        side = Side(only.alias, only.columns)
        return StarRows((side,), only.where, only.table, only.per_person)
    if among or any(each.per_person is not None for each in given):
        return _of_people(given, schema, named, among)
    return _of_rows(given, star, grouped)


def _check_join(each: Given, before: Sequence[Given], star: Star) -> None:
    kind = join_kind(each.join)
    if kind in NEVER:
        key = f"ON {_person(before[0], star)} = {_person(each, star)}"
        raise QueryNotAllowed(f"{each.said}: {NEVER[kind]}.\nHere: JOIN {each.alias} {key}.")
    if not _on_person(each, before, star):
        raise QueryNotAllowed(
            f"{each.said}: private tables are joined on the person, and nothing else: ON "
            f"{_person(before[0], star)} = {_person(each, star)}. Joined on anything else, rows of "
            "several people would stand side by side. Write further conditions into WHERE."
        )


def _person(each: Given, star: Star) -> str:
    """What it calls the person, with its alias."""
    named = [name for name, c in each.columns.items() if c.name == star.person.name]
    return f"{each.alias}.{named[0] if named else star.person.name}"


def _on_person(each: Given, before: Sequence[Given], star: Star) -> bool:
    """Is it joined on the person of both sides?"""

    def person(columns: Mapping[str, Any], name: str) -> bool:
        found = columns.get(name.lower())
        return found is not None and found.name == star.person.name

    using = [str(u.name) for u in each.join.args.get("using") or ()]
    if using:
        sides = [b.columns for b in before if using[0].lower() in b.columns]
        return len(using) == 1 and all(person(s, using[0]) for s in (each.columns, *sides[:1]))
    on = each.join.args["on"].unnest()
    if type(on).__name__ != "EQ":
        return False
    ends = [on.this.unnest(), on.expression.unnest()]
    if any(type(e).__name__ != "Column" for e in ends):
        return False
    columns = {g.alias: g.columns for g in (*before, each)}
    names = [_alias_of(e, columns) for e in ends]
    if each.alias not in names or names[0] == names[1] or not set(names) <= columns.keys():
        return False
    return all(person(columns[a], e.name) for a, e in zip(names, ends, strict=True))


def _alias_of(column: Any, columns: Mapping[str, Mapping[str, Any]]) -> str:
    """The table that a column is of; empty if that is not clear."""
    table = column.args.get("table")
    if table is not None:
        return str(table.name).lower()
    having = [alias for alias, own in columns.items() if column.name.lower() in own]
    return having[0] if len(having) == 1 else ""


# --- rows of one table ----------------------------------------------------------------------


def _of_rows(given: Sequence[Given], star: Star, grouped: bool) -> StarRows:
    tables = [g.table for g in given]
    events = [t for t in tables if t is not None and t is not star.people]
    if len(events) > 1 or len(given) > 2 or (len(given) == 2 and not events):
        raise _side_by_side(given, star)
    table = events[0] if events else star.people
    for each in given[1:]:
        if join_kind(each.join) != "LEFT":
            continue
        if each.table is not star.people and grouped and len(each.where) == 1:
            both = f"{quote(TABLE)} IN ({text(star.people.name)}, {text(table.name)})"
            sides = tuple(Side(g.alias, g.columns) for g in given)
            people = [w for w in given[0].where if w not in _tables(star)]
            return StarRows(sides, (both, *people), left=True)
        if each.table is not star.people:
            raise QueryNotAllowed(
                f"{each.said}: people without {table.name} would be rows of their own. Use JOIN, "
                f"or LEFT JOIN (SELECT {star.person.name}, count(*) AS n FROM {table.name} GROUP "
                f"BY {star.person.name}) AS t, which has one row for each person."
            )
        if len(each.where) > 1:
            raise QueryNotAllowed(
                f"{each.said}: LEFT JOIN of chosen people. Use JOIN, or write the condition into "
                "CASE."
            )
    own = is_of(table)
    where = dict.fromkeys([own, *(w for g in given for w in g.where if w not in _tables(star))])
    every = tuple(Side(g.alias, g.columns) for g in given)
    return StarRows(every, tuple(where), table)


def _side_by_side(given: Sequence[Given], star: Star) -> QueryNotAllowed:
    """Why rows of two tables, or of one twice, are not joined, and what is near."""
    names = list(dict.fromkeys(g.table.name for g in given if g.table is not None))
    what = f"{names[0]}, joined to itself," if len(names) == 1 else f"{' and '.join(names)}"
    last = given[-1].table or star.people
    one = f"FROM {last.name} GROUP BY {last.person}"
    if len(names) == 1:
        near = (
            f"Ask what a person's rows say together: FROM (SELECT {last.person}, bool_or(...) AS "
            f"a, bool_or(...) AS b, count(*) AS n {one}) AS t WHERE a AND b"
        )
    else:
        near = (
            f"Group each by the person, and join these: JOIN (SELECT {last.person}, count(*) AS n "
            f"{one}) AS t"
        )
    return QueryNotAllowed(
        f"{given[-1].said}: rows of {what} would stand side by side, each as often as a person has "
        f"others. {near}."
    )


def _tables(star: Star) -> set[str]:
    return {is_of(t) for t in star.tables}


# --- one row for each person ----------------------------------------------------------------


def _of_people(
    given: Sequence[Given], schema: Schema, named: frozenset[str], among: Sequence[Given]
) -> StarRows:
    from sqlglot import exp

    star = schema.star
    assert star is not None
    features: dict[str, str] = {}
    having = [_is_among(each, schema) for each in among]
    sides = []
    alone = _alone(given)  # then the rows of all people are its own, and who is there is public
    for each in given:
        if each.per_person is None and each.table is not star.people:
            name = each.alias if each.table is None else each.table.name
            raise QueryNotAllowed(
                f"{each.said}: {name!r} has several rows of a person, beside rows of which each "
                f"person has one. Group it by {star.person.name!r} inside FROM or JOIN."
            )
        texts, present = _features(each, schema, each is alone)
        kept = each.join is None or join_kind(each.join) != "LEFT"
        having += [present] if kept and present else []
        if present and not kept:  # as in SQL, nothing is known of people who are not in it
            texts = {n: f"CASE WHEN {present} THEN {t} END" for n, t in texts.items()}
        columns: dict[str, Any] = {}
        for name, e in each.columns.items():
            if e.name == star.person.name:
                columns[name] = e
            elif name in named or "*" in named:
                own = f"column_{len(features) + 1}"
                features[own] = texts[name]
                columns[name] = exp.column(own, quoted=True)
        sides.append(Side(each.alias, columns))
    said = " AND ".join(f"({h})" for h in having) or None
    where = alone.per_person.where if alone is not None and alone.per_person else None
    return StarRows(tuple(sides), (), None, PerPerson(tuple(features.items()), where, said))


def _is_among(each: Given, schema: Schema) -> str:
    """A condition on a person: are they one of the people of IN or EXISTS, or are they not?"""
    if each.per_person is None:
        both = " AND ".join(f"({w})" for w in each.where)
        found = f"COALESCE(bool_or({both}), FALSE)"
    else:
        found = f"COALESCE({_features(each, schema, False)[1] or 'TRUE'}, FALSE)"
    return f"NOT {found}" if each.negated else found


def _alone(given: Sequence[Given]) -> Given | None:
    """The only sub-select that is grouped by the person, if everybody is in it who is kept."""
    grouped = [g for g in given if g.per_person is not None]
    kept = len(grouped) == 1 and (grouped[0].join is None or join_kind(grouped[0].join) != "LEFT")
    return grouped[0] if kept else None


def _features(each: Given, schema: Schema, alone: bool) -> tuple[dict[str, str], str]:
    """Each column as an expression of aggregates of a person's rows; and: is the person in it?"""
    star = schema.star
    assert star is not None
    asked = each.per_person
    if asked is None:  # the table of people, or some of them
        terms = [w for w in each.where if w not in _tables(star)]
        texts = {n: written(e) for n, e in each.columns.items()}
        return texts, " AND ".join(f"({t})" for t in terms)
    own = dict(asked.features)
    person, where = quote(star.person.name), None if alone else asked.where
    texts = {
        n: _filtered(own[e.name], where, schema) if e.name in own else person
        for n, e in each.columns.items()
    }
    present = [] if where is None else [f"bool_or({where})"]
    present += [] if asked.having is None else [_filtered(asked.having, where, schema)]
    return texts, " AND ".join(f"({p})" for p in present)


def _filtered(said: str, where: str | None, schema: Schema) -> str:
    """An expression of aggregates, each of the rows that a condition holds of."""
    from sqlglot import exp

    if where is None:
        return said
    condition = syntax(where, schema.names)

    def step(node: Any) -> Any:
        if type(node).__name__ == "Filter":
            both = exp.and_(node.expression.this.copy(), condition.copy())
            return exp.Filter(this=node.this.copy(), expression=exp.Where(this=both))
        if not is_feature(node):
            return node
        return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))

    return written(_replaced(syntax(said, schema.names), step))


def _replaced(e: Any, step: Any) -> Any:
    """The same expression with each outermost aggregate put through `step`."""
    found = step(e)
    if found is not e:
        return found
    for child in list(e.iter_expressions()):
        made = _replaced(child, step)
        if made is not child:
            child.replace(made)
    return e
