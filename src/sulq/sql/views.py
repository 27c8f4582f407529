"""Where a SELECT's rows come from: the private table, a subquery of rows or a WITH.

A view is names over the table's own columns, and the conditions its rows satisfy. What a
statement says of a view's names becomes an expression over the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.node import kind_of
from sulq.expressions.parse import parse, shorten
from sulq.expressions.syntax import no_column
from sulq.questions.people_view import people_view
from sulq.questions.star_tables import is_of
from sulq.sql.aggregates import has_aggregate, is_aggregate
from sulq.sql.clauses import nothing_else, only_supported
from sulq.sql.grouped_rows import read_people
from sulq.sql.join_terms import (
    Member,
    linked,
    member,
    no_member,
    sorted_terms,
    where_of,
)
from sulq.sql.joins import Beside, Joined, read_join
from sulq.sql.star_joins import Given, Side, own_columns, put_together
from sulq.values.per_person import PerPerson
from sulq.values.schema import Schema
from sulq.values.star import StarTable


@dataclass(frozen=True)
class View:
    """Named columns over the private rows."""

    schema: Schema
    table: str
    columns: dict[str, Any] | None  # small name -> expression; None: the table's own
    where: tuple[str, ...]
    known: dict[str, View]  # what WITH named
    names: frozenset[str]  # what may stand before a dot
    joined: tuple[Joined, ...] = ()  # public lookup tables
    per_person: PerPerson | None = None  # whose rows these are: one for each person
    sides: tuple[Side, ...] = ()  # people and events, where there are several tables
    of: StarTable | None = None  # the one whose rows these are
    left: bool = False  # people with events and without

    @classmethod
    def base(cls, schema: Schema, table: str) -> View:
        """The private table itself."""
        return cls(schema, table, None, (), {}, frozenset({table.lower()}))

    def source(self, select: Any, grouped: bool = False) -> View:
        """What a SELECT reads from, its WHERE included."""
        known = self._named_by_with(select)
        clause = select.args.get("from_")
        if clause is None:
            raise QueryNotAllowed(f"FROM is missing: the table here is {self.table!r}.")
        given = select.args.get("joins") or []
        sources = [clause.this, *(join.this for join in given)]
        joins, terms = sorted_terms(given, select.args.get("where"), self._owner(sources, known))
        if self.schema.star is not None:
            members = [found for term in terms if (found := member(term)) is not None]
            terms = [term for term in terms if member(term) is None]
            view = self._of_star(select, clause.this, joins, known, members, grouped)
            joins = [join for join in joins if self._is_lookup(join, known)]
        else:
            view = self._from(clause.this, known)
        for join in joins:
            view = view._with_lookup(join)
        if not terms:
            return view
        if view.left:
            view.check_people(terms)
        whole = select.args.get("where")
        if not given and len(terms) > 1:  # as it was written
            return replace(view, where=(*view.where, view.condition(whole.this)))
        return replace(view, where=(*view.where, *map(view.condition, terms)))

    def check_people(self, terms: list[Any]) -> None:
        """Behind LEFT JOIN, a condition on events would leave people out who have none."""
        star = self.schema.star
        columns = {c for t in terms for c in parse(self.text(t), self.schema).columns()}
        if star is not None and any(star.home(c) not in (None, star.people) for c in columns):
            raise QueryNotAllowed(
                "WHERE on events behind LEFT JOIN would leave out people without them: use JOIN, "
                "or FILTER (WHERE ...) beside the aggregates."
            )

    def _owner(self, sources: list[Any], known: dict[str, View]) -> Callable[[Any], str | None]:
        """Which of the tables behind FROM and JOIN a column is of."""
        names: dict[str, set[str]] = {}
        for source in sources:
            if type(source).__name__ != "Table":
                continue
            lookup, star = self.schema.lookup(source.name), self.schema.star
            table = None if star is None else star.table(source.name)
            if source.name.lower() in known:
                columns = set(known[source.name.lower()].columns or ())
            elif table is not None and star is not None:
                columns = set(own_columns(table, star))
            elif lookup is not None:
                columns = {n.lower() for n in (lookup.key, *lookup.columns)}
            else:
                columns = {n.lower() for n in self.schema.names}
            names[(source.alias or source.name).lower()] = columns

        def owner(column: Any) -> str | None:
            table = column.args.get("table")
            if table is not None:
                return str(table.name).lower()
            having = [a for a, columns in names.items() if column.name.lower() in columns]
            return having[0] if len(having) == 1 else None

        return owner

    def _named_by_with(self, select: Any) -> dict[str, View]:
        known = dict(self.known)
        clause = select.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise QueryNotAllowed("WITH RECURSIVE is not supported; WITH names rows once.")
        for cte in clause.expressions:
            nothing_else(cte, "this", "alias", "materialized")
            inner = replace(View.base(self.schema, self.table), known=dict(known))
            known[cte.alias.lower()] = inner.projected(cte.this)
        return known

    def _from(self, source: Any, known: dict[str, View]) -> View:
        kind = type(source).__name__
        if kind == "Subquery":
            nothing_else(source, "this", "alias")
            inner = replace(View.base(self.schema, self.table), known=known)
            return inner.projected(source.this).named(source.alias)
        if kind != "Table" or type(source.this).__name__ != "Identifier":
            raise QueryNotAllowed(
                f"FROM {shorten(written(source))}: only the table {self.table!r} is here."
            )
        name = source.name
        if source.args.get("catalog"):
            raise QueryNotAllowed(f"FROM {shorten(written(source))}: name the table alone.")
        nothing_else(source, "this", "alias", "db")  # a schema changes nothing: one table is here
        if name.lower() in known and not source.args.get("db"):
            return known[name.lower()].named(source.alias or name)
        if name.lower() != self.table.lower():
            raise QueryNotAllowed(
                f"there is no table {shorten(name)!r} here; the private table is {self.table!r}."
            )
        base = View.base(self.schema, self.table)
        return replace(base, known=known, names=frozenset({(source.alias or name).lower()}))

    def _of_star(
        self, select: Any, first: Any, joins: list[Any], known: dict[str, View],
        members: list[Member], grouped: bool,
    ) -> View:  # fmt: skip
        """People and tables of their events, joined or alone."""
        star = self.schema.star
        assert star is not None
        private = [join for join in joins if not self._is_lookup(join, known)]
        given = [self._given(first, None, known)]
        given += [self._given(join.this, join, known) for join in private]
        words = {c.name.lower() for c in select.walk() if type(c).__name__ == "Column"}
        words |= {"*"} if any(e.is_star for e in select.expressions) else set()
        among = [self._among(m, given, known) for m in members]
        found = put_together(given, self.schema, frozenset(words), among, grouped)
        schema = self.schema
        if found.per_person is not None:
            schema = people_view(found.per_person, self.schema).schema
        return replace(
            View.base(schema, self.table), known=known, sides=found.sides, where=found.where,
            per_person=found.per_person, of=found.table, left=found.left,
            names=frozenset(side.alias for side in found.sides),
        )  # fmt: skip

    def _is_lookup(self, join: Any, known: dict[str, View]) -> bool:
        source = join.this
        if type(source).__name__ != "Table" or source.name.lower() in known:
            return False
        star = self.schema.star
        return star is None or star.table(source.name) is None

    def _given(self, source: Any, join: Any, known: dict[str, View]) -> Given:
        """One of the things that FROM and JOIN name."""
        star, kind = self.schema.star, type(source).__name__
        assert star is not None
        if kind == "Subquery":
            nothing_else(source, "this", "alias")
            inner = replace(View.base(self.schema, self.table), known=known)
            view, alias = inner.projected(source.this), source.alias or "(...)"
        elif kind == "Table" and type(source.this).__name__ == "Identifier":
            nothing_else(source, "this", "alias", "db")
            alias = source.alias or source.name
            if source.name.lower() not in known:
                table = star.table(source.name)
                if table is None:
                    names = ", ".join(t.name for t in star.tables)
                    raise QueryNotAllowed(
                        f"there is no table {shorten(source.name)!r} here; there are {names}."
                    )
                columns = own_columns(table, star)
                return Given(alias.lower(), columns, table, (is_of(table),), None, join)
            view = known[source.name.lower()]
        else:
            raise QueryNotAllowed(f"FROM {shorten(written(source))}: name a table.")
        return Given(
            alias.lower(), view.columns or {}, view.of, view.where, view.per_person, join
        )  # fmt: skip

    def _among(self, asked: Member, outer: list[Given], known: dict[str, View]) -> Given:
        """The people of IN (SELECT ...) or EXISTS (SELECT ...)."""
        star = self.schema.star
        assert star is not None
        select, column = asked.select, asked.column
        inner = replace(View.base(self.schema, self.table), known=known)
        if column is None:
            bare = select.copy()
            bare.set("where", None)
            inside = {s.alias: s.columns for s in inner.source(bare).sides}

            def is_inside(e: Any) -> bool:
                table = e.args.get("table")
                if table is not None:
                    return table.name.lower() in inside
                return any(e.name.lower() in columns for columns in inside.values())

            found = linked(select, is_inside)
            if found is None:
                raise no_member(written(select))
            own, column, rest = found
            select = select.copy()
            select.set("where", where_of(rest))
            select.set("expressions", [own.copy()])
        view = inner.projected(select)
        chosen = list((view.columns or {}).values())
        ends = [c for g in outer for c in [g.columns.get(column.name.lower())] if c is not None]
        person = star.person.name
        if len(chosen) != 1 or chosen[0].name != person or not ends or ends[0].name != person:
            raise no_member(written(select))
        where, people = view.where, view.per_person
        return Given("", view.columns or {}, view.of, where, people, None, asked.negated)

    def _side(self, column: Any) -> Any:
        """What a name behind an alias, or alone, stands for; None: nothing."""
        table, name = column.args.get("table"), column.name.lower()
        sides = [s for s in self.sides if table is None or table.name.lower() == s.alias]
        found = [s.columns[name] for s in sides if name in s.columns]
        if len({f.sql() for f in found}) > 1:
            raise QueryNotAllowed(
                f"{column.name!r} is in several tables; write {sides[0].alias}.{column.name}."
            )
        if not found and table is None and self.of is not None and self.schema.star is not None:
            found = [own_columns(self.schema.star.people, self.schema.star).get(name)]
        return found[0] if found else None

    def _with_lookup(self, join: Any) -> View:
        """The same rows, beside each what a public table says of one of its columns."""
        found = read_join(join, Beside(self.schema, self.table, self.has, self.expand, self.called))
        if found.alias in self.names | {j.alias for j in self.joined}:
            raise QueryNotAllowed(f"two tables are called {found.alias!r}; name one with AS.")
        where = self.where if found.keeps_all else (*self.where, found.known)
        return replace(self, joined=(*self.joined, found), where=where)

    def called(self, name: str) -> tuple[str, str]:
        """How a statement may write a stored column: an alias, and its own name."""
        pairs = [
            (s.alias, own) for s in self.sides for own, c in s.columns.items() if c.name == name
        ]
        return pairs[0] if pairs else (next(iter(self.names), self.table), name)

    def named(self, alias: str | None) -> View:
        """The same rows under another name."""
        return replace(self, names=frozenset({alias.lower()} if alias else ()))

    def projected(self, select: Any) -> View:
        """A row-by-row SELECT inside FROM or WITH: its columns and conditions."""
        if type(select).__name__ != "Select":
            raise QueryNotAllowed(
                "inside FROM and WITH only a plain SELECT of rows is read, such as (select age, "
                "income / 1000 as k from people where age > 17)."
            )
        only_supported(select)
        if self.schema.unit is not None and select.args.get("group"):
            return self._of_people(select)
        for clause in ("group", "having", "order", "limit"):
            if select.args.get(clause):
                raise QueryNotAllowed(
                    f"{clause.upper()} inside WITH or FROM: aggregates of aggregates are not "
                    "answered. Use GROUP BY, HAVING, ORDER BY and LIMIT on the outer SELECT."
                )
        view = self.source(select)
        columns: dict[str, Any] = {}
        for e in select.expressions:
            columns |= view._projected(e)
        return replace(view, columns=columns, sides=())

    def _of_people(self, select: Any) -> View:
        """A SELECT inside FROM or WITH that is grouped by the person: one row for each."""
        rows = self.source(select, grouped=True)
        if rows.per_person is not None:
            raise QueryNotAllowed(
                "GROUP BY inside WITH or FROM: the rows inside are one for each person already."
            )
        found = read_people(select, rows)
        schema = people_view(found.asked, self.schema).schema
        return replace(
            View.base(schema, self.table), columns=found.columns, known=rows.known,
            per_person=found.asked,
        )  # fmt: skip

    def _projected(self, e: Any) -> dict[str, Any]:
        """One item of an inner SELECT list: its name and expression, or all of them for *."""
        if e.is_star:
            star = e.this if type(e).__name__ == "Column" else e
            if any(star.args.values()):
                raise QueryNotAllowed(
                    "* EXCLUDE and * REPLACE are not read; name the columns one by one."
                )
            if type(e).__name__ == "Column":
                self._check_table(e)
            if self.sides:
                return self._every_side(e)
            if self.columns is not None:
                return dict(self.columns)
            from sqlglot import exp

            return {n.lower(): exp.column(n, quoted=True) for n in self.schema.names}
        if has_aggregate(e):
            raise QueryNotAllowed(
                f"{shorten(written(e))} inside WITH or FROM: aggregates of aggregates are not "
                "answered. Put aggregates into the outer SELECT."
            )
        name = e.alias_or_name
        if not name:
            raise QueryNotAllowed(f"{shorten(written(e))}: give it a name with AS.")
        expanded = self.expand(e.unalias())
        parse(written(expanded), self.schema)  # a row function, or refused
        return {name.lower(): expanded}

    def _every_side(self, e: Any) -> dict[str, Any]:
        """All columns of all tables, or of one."""
        table = e.args.get("table") if type(e).__name__ == "Column" else None
        chosen = [s for s in self.sides if table is None or table.name.lower() == s.alias]
        found: dict[str, Any] = {}
        for side in chosen:
            for name, column in side.columns.items():
                if found.setdefault(name, column).sql() != column.sql():
                    raise QueryNotAllowed(f"*: {name!r} is in several tables; name the columns.")
        return found

    def has(self, column: Any) -> bool:
        """Does a name in the statement mean a column of these rows?"""
        if self._looked_up(column) is not None:
            return True
        if self.sides:
            return self._side(column) is not None
        if self.columns is not None:
            return column.name.lower() in self.columns
        quoted = bool(column.this.args.get("quoted"))
        return self.schema.get(column.name, quoted=quoted) is not None

    def _looked_up(self, column: Any) -> Any:
        """A column of a lookup table, by the name that a question gives it; None: it is none."""
        table = column.args.get("table")
        found = [j for j in self.joined if table is None or table.name.lower() == j.alias]
        having = [j for j in found if j.has(column.name)]
        if table is None:
            quoted = bool(column.this.args.get("quoted"))
            own = self.schema.get(column.name, quoted=quoted) if self.columns is None else None
            own = own or (self.columns or {}).get(column.name.lower())
            if self.sides:
                own = self._side(column)
            if own is not None or not having:
                return None
            if len(having) > 1:
                raise QueryNotAllowed(
                    f"{column.name!r} is in several tables; write {having[0].alias}.{column.name}."
                )
            found = having
        return found[0].column(column.name) if found else None

    def _check_table(self, column: Any) -> None:
        table = column.args.get("table")
        if table is not None and table.name.lower() not in self.names:
            raise QueryNotAllowed(f"there is no table {shorten(table.name)!r} here.")
        if column.args.get("catalog"):
            raise QueryNotAllowed(f"{shorten(written(column))}: name the column alone.")

    def expand(self, e: Any) -> Any:
        """Replace the view's names by what they stand for."""

        def step(node: Any) -> Any:
            if type(node).__name__ != "Column":
                return node
            found = self._looked_up(node)
            if found is not None:
                return found
            self._check_table(node)
            if self.sides:
                side = self._side(node)
                if side is None:
                    words = [name for s in self.sides for name in s.columns]
                    raise no_column(node.name, self.schema, words)
                return side.copy()
            if self.columns is None:
                for part in ("table", "db"):
                    if node.args.get(part) is not None:
                        node.set(part, None)
                return node
            found = self.columns.get(node.name.lower())
            if found is None:
                raise no_column(node.name, self.schema, list(self.columns))
            from sqlglot import exp

            return exp.paren(found.copy()) if not isinstance(found, exp.Column) else found.copy()

        return e.transform(step)  # a copy

    def text(self, e: Any) -> str:
        """The expression as SQL over the table's own columns."""
        return written(self.expand(e), copy=False)

    def condition(self, e: Any) -> str:
        """A WHERE as SQL over the table's own columns."""
        parts = list(e.walk())
        if any(type(p).__name__ in ("Subquery", "Select", "Exists") for p in parts):
            raise QueryNotAllowed(
                f"WHERE {shorten(written(e))}: a subquery is not answered here. Write its "
                "condition into WHERE, or a list of constants after IN. A number such as (SELECT "
                "avg(x) ...): ask for it by itself, and write what it is into WHERE."
            )
        if any(is_aggregate(p) for p in parts):
            raise QueryNotAllowed(
                f"WHERE {shorten(written(e))}: WHERE chooses rows. Use HAVING for aggregates."
            )
        text = self.text(e)
        node = parse(text, self.schema)
        if node.type not in ("boolean", "null"):
            raise QueryNotAllowed(
                f"WHERE {shorten(text)} is {kind_of(node)}, not true or false: compare it with "
                "something."
            )
        return text
