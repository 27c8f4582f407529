"""A SELECT taken apart: where its rows come from, its groups, its outputs, their order.

Everything that touches rows becomes one query of the corridor (and one more per column whose
percentiles are asked for), priced and charged as one. HAVING, ORDER BY and LIMIT work on the
noisy result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sulq.answer import Answer, Table
from sulq.errors import QueryNotAllowed
from sulq.expressions import check_size, parse, shorten
from sulq.query import Query
from sulq.schema import Schema
from sulq.sql.formulas import Formulas, label_name
from sulq.sql.noisy import Noisy
from sulq.sql.quantiles import Quantile

MAX_STATEMENT = 20_000
REFUSED = {
    "joins": "one table is asked at a time; a join would mix rows of several people",
    "distinct": "SELECT DISTINCT would return rows; use GROUP BY and COUNT(*)",
    "windows": "window functions return a number per row",
    "qualify": "QUALIFY works on rows; use HAVING",
    "laterals": "LATERAL works on rows",
    "pivots": "PIVOT is not supported; use GROUP BY and FILTER",
    "sample": "sample rows with rows=sulq.Rows.sample(seed, rate)",
    "connect": "CONNECT BY is not supported",
    "into": "SELECT INTO would write",
    "locks": "there is nothing to lock",
    "offset": "OFFSET is not supported; use LIMIT",
}


@dataclass(frozen=True)
class Output:
    """One column of the result: a group key, or a number with its error."""

    name: str
    key: int | None  # which group key
    read: Any = None  # from released numbers to a Noisy


@dataclass(frozen=True)
class Statement:
    """What a statement asks, and how its answers become a table."""

    queries: tuple[Query, ...]
    outputs: tuple[Output, ...]
    formulas: Formulas
    quantiles: tuple[Quantile, ...]
    having: Any
    order: tuple[tuple[Any, bool], ...]  # reader or key, descending
    limit: int | None

    def table(self, answers: list[Answer]) -> Table:
        """Lay out the answers: every declared group, its numbers, a low and high beside each."""
        first = answers[0]
        cells = self._cells(first)
        columns: list[Noisy] = []
        stds: list[Any] = []
        for answer in answers[: self.formulas.flat]:
            values = answer.values
            for j in range(values.shape[1]):
                columns.append(Noisy.released(values[:, j], len(stds)))
                stds.append(np.array([row[j] for row in answer.stds]))
        for quantile, at in zip(self.quantiles, self._places(), strict=True):
            for found, std in quantile.read(answers[at : at + quantile.levels], len(cells)):
                columns.append(Noisy.released(found, len(stds)))
                stds.append(std)
        released = self.formulas.released(columns, cells)
        keep = self._kept(released, len(cells))
        out: dict[str, list[Any]] = {}
        reach = first.spread(0.95)
        for output in self.outputs:
            if output.key is not None:
                out[output.name] = [label_name(cells[i][output.key]) for i in keep]
                continue
            number = self.formulas.number(output.read, released, len(cells))
            error = reach * np.sqrt(number.variance(stds))
            out[output.name] = [float(number.value[i]) for i in keep]
            out[f"{output.name}_low"] = [float((number.value - error)[i]) for i in keep]
            out[f"{output.name}_high"] = [float((number.value + error)[i]) for i in keep]
        weak = self.formulas.small(released, stds, cells, keep)
        keys = tuple(o.name for o in self.outputs if o.key is not None)
        price = first.price
        for answer in answers[1:]:
            price = price + answer.price
        note = "too few rows for the noise: " + ", ".join(weak) if weak else ""
        return Table(out, keys, price, min(a.remaining for a in answers), note)

    def _cells(self, answer: Answer) -> list[tuple[Any, ...]]:
        depth = len(self.formulas.keys)
        if not self.formulas.flat and self.quantiles:
            return self.quantiles[0].cells(answer, depth)
        return [c if depth > 1 else (c,) for c in answer.cells]

    def _places(self) -> list[int]:
        places, at = [], self.formulas.flat
        for quantile in self.quantiles:
            places.append(at)
            at += quantile.levels
        return places

    def _kept(self, released: Any, cells: int) -> list[int]:
        keep = list(range(cells))
        if self.having is not None:
            test = self.formulas.test(self.having, released, cells)
            keep = [i for i in keep if test[i]]
        for by, descending in reversed(self.order):
            ranks = self.formulas.ranks(by, released, cells)
            keep.sort(key=lambda i: ranks[i], reverse=descending)
        return keep if self.limit is None else keep[: self.limit]


def compile_statement(text: str, schema: Schema, table: str) -> Statement:
    """Read one SELECT over the private table, or refuse it and say what is nearest."""
    select = _parsed(text)
    view = _View.base(schema, table).source(select)
    _only_supported(select)
    keys, names = _keys(select, view)
    formulas = Formulas(schema, keys)
    outputs = tuple(_output(e, i, view, formulas, names) for i, e in enumerate(select.expressions))
    _unique(outputs)
    aliases = {o.name.lower(): o for o in outputs}
    having = select.args.get("having")
    test = formulas.compile(view.expand(having.this, aliases), names) if having else None
    clause = select.args.get("order")
    order = tuple(
        _ordering(o, outputs, aliases, view, formulas, names)
        for o in (clause.expressions if clause is not None else ())
    )
    if not any(o.key is None for o in outputs):
        formulas.count("true")  # SELECT region GROUP BY region: the groups are known anyway
    where = " AND ".join(f"({w})" for w in view.where) or None
    queries, quantiles = formulas.queries(where)
    return Statement(queries, outputs, formulas, quantiles, test, order, _limit(select))


def _parsed(text: str) -> Any:
    check_size(text, MAX_STATEMENT)
    import sqlglot

    from sulq.dialect import Sulq

    try:
        found = [e for e in sqlglot.parse(text, read=Sulq) if e is not None]
    except RecursionError:
        raise QueryNotAllowed("the statement is nested too deeply.") from None
    except Exception:  # sqlglot's own errors, and Python's where it trips over nonsense
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL statement this reads.") from None
    if len(found) != 1:
        raise QueryNotAllowed("give exactly one statement.")
    if type(found[0]).__name__ != "Select":
        raise QueryNotAllowed(
            f"{type(found[0]).__name__.lower()}: only SELECT is answered, such as "
            "select region, count(*) from people group by region."
        )
    return found[0]


def _only_supported(select: Any) -> None:
    for name, why in REFUSED.items():
        if select.args.get(name):
            raise QueryNotAllowed(f"{why}.")
    group = select.args.get("group")
    if group is not None:
        for name in ("grouping_sets", "cube", "rollup", "totals"):
            if group.args.get(name):
                raise QueryNotAllowed(f"{name.replace('_', ' ')}: ask one GROUP BY at a time.")
    if not select.expressions:
        raise QueryNotAllowed("SELECT what? Name aggregates such as COUNT(*).")


class _View:
    """Named columns over the private rows: the table itself, a subquery or a WITH."""

    def __init__(self, columns: dict[str, Any] | None, where: list[str], schema: Schema,
                 table: str, known: dict[str, _View], names: set[str]) -> None:  # fmt: skip
        self.columns = columns  # None: the table's own
        self.where = where
        self.schema = schema
        self.table = table
        self.known = known
        self.names = names  # what may stand before a dot

    @classmethod
    def base(cls, schema: Schema, table: str) -> _View:
        return cls(None, [], schema, table, {}, {table.lower()})

    def source(self, select: Any) -> _View:
        """What a SELECT reads from, its WHERE included."""
        view = self
        known = dict(self.known)
        for cte in select.args["with_"].expressions if select.args.get("with_") else ():
            inner = _View(None, [], self.schema, self.table, known, self.names)
            known[cte.alias.lower()] = inner.projected(cte.this)
        clause = select.args.get("from_") or select.args.get("from")
        if clause is None:
            raise QueryNotAllowed(f"FROM is missing: the table here is {self.table!r}.")
        view = self._from(clause.this, known)
        where = select.args.get("where")
        if where is not None:
            text = view.text(where.this)
            node = parse(text, self.schema)
            if node.type not in ("boolean", "null"):
                raise QueryNotAllowed(f"WHERE gives {node.type}, want true or false.")
            view = _View(view.columns, [*view.where, text], self.schema, self.table, known,
                         view.names)  # fmt: skip
        return view

    def _from(self, source: Any, known: dict[str, _View]) -> _View:
        kind = type(source).__name__
        if kind == "Subquery":
            inner = _View(None, [], self.schema, self.table, known, self.names)
            view = inner.projected(source.this)
            return view.named(source.alias)
        if kind != "Table":
            raise QueryNotAllowed(f"FROM {kind.lower()}: the table here is {self.table!r}.")
        name = source.name
        if source.args.get("db") or source.args.get("catalog"):
            raise QueryNotAllowed(f"FROM {shorten(source.sql())}: name the table alone.")
        if name.lower() in known:
            return known[name.lower()].named(source.alias or name)
        if name.lower() != self.table.lower():
            raise QueryNotAllowed(
                f"there is no table {shorten(name)!r} here; the private table is {self.table!r}."
            )
        return _View(None, [], self.schema, self.table, known,
                     {(source.alias or name).lower()})  # fmt: skip

    def named(self, alias: str | None) -> _View:
        names = {alias.lower()} if alias else self.names
        return _View(self.columns, self.where, self.schema, self.table, self.known, names)

    def projected(self, select: Any) -> _View:
        """A row-by-row SELECT inside FROM or WITH: its columns and conditions."""
        if type(select).__name__ != "Select":
            raise QueryNotAllowed("inside FROM and WITH only a plain SELECT of rows is read.")
        _only_supported(select)
        for clause in ("group", "having", "order", "limit"):
            if select.args.get(clause):
                raise QueryNotAllowed(
                    f"{clause.upper()} inside WITH or FROM: aggregates of aggregates are not "
                    "answered. Use HAVING, ORDER BY and LIMIT on the outer SELECT."
                )
        view = self.source(select)
        columns: dict[str, Any] = {}
        for e in select.expressions:
            if type(e).__name__ == "Star":
                columns |= view._all()
                continue
            name = e.alias_or_name
            if not name:
                raise QueryNotAllowed(f"{shorten(e.sql())}: give it a name with AS.")
            expanded = view.expand(e.unalias())
            parse(expanded.sql(dialect="duckdb"), self.schema)  # a row function, or refused
            columns[name.lower()] = expanded
        return _View(columns, view.where, self.schema, self.table, view.known, view.names)

    def _all(self) -> dict[str, Any]:
        if self.columns is not None:
            return dict(self.columns)
        from sqlglot import exp

        return {n.lower(): exp.column(n, quoted=True) for n in self.schema.names}

    def expand(self, e: Any, aliases: dict[str, Output] | None = None) -> Any:
        """Replace the view's names by what they stand for."""

        def step(node: Any) -> Any:
            if type(node).__name__ != "Column":
                return node
            table = node.args.get("table")
            if table is not None and table.name.lower() not in self.names:
                raise QueryNotAllowed(f"there is no table {shorten(table.name)!r} here.")
            if self.columns is None:
                bare = node.copy()
                bare.set("table", None)
                return bare
            found = self.columns.get(node.name.lower())
            if found is None:
                if aliases and node.name.lower() in aliases:
                    return node
                names = ", ".join(list(self.columns)[:20])
                raise QueryNotAllowed(f"there is no column {shorten(node.name)!r}: {names}.")
            from sqlglot import exp

            return exp.paren(found.copy()) if not isinstance(found, exp.Column) else found.copy()

        return e.copy().transform(step)

    def text(self, e: Any) -> str:
        """The expression as SQL over the table's own columns."""
        return str(self.expand(e).sql(dialect="duckdb"))


def _keys(select: Any, view: _View) -> tuple[tuple[str, ...], dict[str, int]]:
    """The group keys as SQL, and where each stands."""
    group = select.args.get("group")
    if group is None:
        return (), {}
    items = list(group.expressions)
    if group.args.get("all"):
        items = [e.unalias() for e in select.expressions if not _has_aggregate(e)]
    keys: list[str] = []
    for e in items:
        text = view.text(_resolved(e, select))
        if text not in keys:
            keys.append(text)
    return tuple(keys), {k: i for i, k in enumerate(keys)}


def _resolved(e: Any, select: Any) -> Any:
    """GROUP BY 1 and GROUP BY alias mean the expression in the SELECT list."""
    if type(e).__name__ == "Literal" and not e.is_string:
        at = int(e.this) - 1
        if not 0 <= at < len(select.expressions):
            raise QueryNotAllowed(f"GROUP BY {e.this}: there is no such output.")
        return select.expressions[at].unalias()
    if type(e).__name__ == "Column" and not e.args.get("table"):
        for output in select.expressions:
            if type(output).__name__ == "Alias" and output.alias.lower() == e.name.lower():
                return output.this
    return e


def _has_aggregate(e: Any) -> bool:
    from sulq.sql.formulas import AGGREGATES

    return any(type(n).__name__ in AGGREGATES for n in e.walk())


def _output(e: Any, i: int, view: _View, formulas: Formulas, names: dict[str, int]) -> Output:
    inner = e.unalias()
    kind = type(inner).__name__
    if kind == "Star":
        raise QueryNotAllowed("* would return rows. Ask for a sum or a count, such as COUNT(*).")
    text = view.text(inner)
    name = e.alias if type(e).__name__ == "Alias" else (inner.name if kind == "Column" else "")
    if text in names:
        return Output(name or text.lower(), names[text])
    if kind == "Column":
        raise QueryNotAllowed(
            f"{name!r} would return rows. Ask for a sum or a count, or add it to GROUP BY."
        )
    expanded = view.expand(inner)
    return Output(name or _plain_name(inner), None, formulas.compile(expanded, names))


def _plain_name(e: Any) -> str:
    """count(*), avg(income): the expression itself is its name."""
    return str(e.sql(dialect="duckdb")).lower().replace('"', "")


def _unique(outputs: tuple[Output, ...]) -> None:
    seen: set[str] = set()
    for output in outputs:
        for name in (output.name, f"{output.name}_low", f"{output.name}_high"):
            if name.lower() in seen:
                raise QueryNotAllowed(f"two outputs are called {name!r}; rename one with AS.")
            seen.add(name.lower())


def _ordering(
    o: Any, outputs: tuple[Output, ...], aliases: dict[str, Output], view: _View,
    formulas: Formulas, names: dict[str, int],
) -> tuple[Any, bool]:  # fmt: skip
    descending = bool(o.args.get("desc"))
    e = o.this
    if type(e).__name__ == "Literal" and not e.is_string:
        at = int(e.this) - 1
        if not 0 <= at < len(outputs):
            raise QueryNotAllowed(f"ORDER BY {e.this}: there is no such output.")
        return _by(outputs[at]), descending
    if type(e).__name__ == "Column" and e.name.lower() in aliases:
        return _by(aliases[e.name.lower()]), descending
    text = view.text(e)
    if text in names:
        return names[text], descending
    return formulas.compile(view.expand(e), names), descending


def _by(output: Output) -> Any:
    return output.key if output.key is not None else output.read


def _limit(select: Any) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    e = limit.expression if hasattr(limit, "expression") else None
    if e is None or type(e).__name__ != "Literal" or e.is_string or not e.this.isdigit():
        raise QueryNotAllowed("LIMIT wants a whole number.")
    return int(e.this)


Reader = Callable[[Any], Noisy]
