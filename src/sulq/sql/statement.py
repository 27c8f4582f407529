"""A SELECT taken apart: where its rows come from, its groups, its outputs, their order.

Everything that touches rows becomes one query of the corridor (and two more per column whose
percentiles are asked for), priced and charged as one. HAVING, ORDER BY and LIMIT work on the
noisy result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sulq.answer import Answer, Table
from sulq.errors import QueryNotAllowed
from sulq.expressions import check_size, parse, shorten
from sulq.price import Price
from sulq.query import Query
from sulq.schema import Schema
from sulq.sql.aggregates import has_aggregate, refuse
from sulq.sql.formula import Context, Formula, label_name, sql_of
from sulq.sql.formulas import Formulas
from sulq.sql.noisy import Noisy
from sulq.sql.quantiles import Quantile
from sulq.sql.views import View, only_supported

MAX_STATEMENT = 20_000


@dataclass(frozen=True)
class Output:
    """One column of the result: a group key, or a number with its error."""

    name: str
    by: int | Formula


@dataclass(frozen=True)
class Ordering:
    """One part of ORDER BY; what is missing comes last unless said otherwise."""

    by: int | Formula
    descending: bool
    missing_first: bool

    def sorted(self, keep: list[int], ranks: list[Any]) -> list[int]:
        """The cells in order, equals as they were."""
        known = [i for i in keep if ranks[i] is not None]
        missing = [i for i in keep if ranks[i] is None]
        known.sort(key=lambda i: ranks[i], reverse=self.descending)
        return missing + known if self.missing_first else known + missing


@dataclass(frozen=True)
class Statement:
    """What a statement asks, and how its answers become a table."""

    queries: tuple[Query, ...]
    outputs: tuple[Output, ...]
    formulas: Formulas
    quantiles: tuple[Quantile, ...]
    having: Formula | None
    order: tuple[Ordering, ...]
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
        weak = np.zeros(len(cells), dtype=bool)
        for quantile, at in zip(self.quantiles, self._places(), strict=True):
            counts = quantile.counts(answers[at : at + quantile.levels], len(cells))
            weak |= counts.few()
            for found, std in quantile.read(counts):
                columns.append(Noisy.released(found, len(stds)))
                stds.append(std)
        released = self.formulas.released(columns, cells)
        keep = self._kept(released)
        out: dict[str, list[Any]] = {}
        reach = first.spread(0.95)
        for output in self.outputs:
            if isinstance(output.by, int):
                out[output.name] = [label_name(cells[i][output.by]) for i in keep]
                continue
            number = self.formulas.number(output.by, released)
            error = reach * np.sqrt(number.variance(stds))
            out[output.name] = [float(number.value[i]) for i in keep]
            out[f"{output.name}_low"] = [float((number.value - error)[i]) for i in keep]
            out[f"{output.name}_high"] = [float((number.value + error)[i]) for i in keep]
        weak |= self.formulas.small(released, stds)
        keys = tuple(o.name for o in self.outputs if isinstance(o.by, int))
        price = sum((a.price for a in answers), Price(0))
        note = self._note([cells[i] for i in keep if weak[i]])
        return Table(out, keys, price, min(a.remaining for a in answers), note)

    def _note(self, weak: list[tuple[Any, ...]]) -> str:
        if not weak:
            return ""
        names = [", ".join(str(label_name(x)) for x in cell) for cell in weak]
        return "too few rows for the noise" + (
            ": " + "; ".join(names) if self.formulas.keys else ""
        )

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

    def _kept(self, released: Context) -> list[int]:
        keep = list(range(len(released.cells)))
        if self.having is not None:
            test = self.formulas.test(self.having, released)
            keep = [i for i in keep if test[i]]
        for ordering in reversed(self.order):
            keep = ordering.sorted(keep, self.formulas.ranks(ordering.by, released))
        return keep if self.limit is None else keep[: self.limit]


def compile_statement(text: str, schema: Schema, table: str, noise: str = "gaussian") -> Statement:
    """Read one SELECT over the private table, or refuse it and say what is nearest."""
    try:
        return _Compiler(text, schema, table, noise).statement()
    except RecursionError:
        raise QueryNotAllowed("the statement is nested too deeply.") from None


def _parsed(text: str) -> Any:
    check_size(text, MAX_STATEMENT)
    from sqlglot.errors import SqlglotError

    from sulq.dialect import parse_sql

    try:
        found = parse_sql(text)
    except RecursionError:
        raise
    except SqlglotError:
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL statement this reads.") from None
    except Exception:  # sqlglot trips over some nonsense with errors of Python's own
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL statement this reads.") from None
    if len(found) != 1:
        raise QueryNotAllowed("give exactly one statement.")
    kind = type(found[0]).__name__
    if kind in ("Union", "Intersect", "Except"):
        raise QueryNotAllowed(
            f"{kind.upper()}: ask each SELECT by itself; groups of one table are one SELECT with "
            "GROUP BY."
        )
    if kind != "Select":
        raise QueryNotAllowed(
            f"{kind.lower()}: only SELECT is answered, such as select region, count(*) from people "
            "group by region."
        )
    return found[0]


class _Compiler:
    """Takes one SELECT apart."""

    def __init__(self, text: str, schema: Schema, table: str, noise: str) -> None:
        select = _parsed(text)
        only_supported(select)
        self.text = text
        self.select = select
        self.schema = schema
        self.view = View.base(schema, table).source(select)
        above_low = noise in ("binomial", "stitched")
        self.formulas = Formulas(schema, self._keys(), above_low)

    def statement(self) -> Statement:
        """The queries to ask and what becomes of their answers."""
        outputs = tuple(self._output(e) for e in self.select.expressions)
        _unique(outputs)
        having = self.select.args.get("having")
        test = self._having(having.this) if having is not None else None
        clause = self.select.args.get("order")
        order = tuple(self._ordering(o, outputs) for o in (clause.expressions if clause else ()))
        if all(isinstance(o.by, int) for o in outputs) and not self.formulas.moments.counted:
            self.formulas.count("true")  # SELECT region GROUP BY region: the groups are known
        where = " AND ".join(f"({w})" for w in self.view.where) or None
        queries, quantiles = self.formulas.queries(where)
        if not queries:
            raise QueryNotAllowed("nothing is asked of the rows: name aggregates such as COUNT(*).")
        limit = _limit(self.select)
        return Statement(queries, outputs, self.formulas, quantiles, test, order, limit)

    # --- groups -------------------------------------------------------------------------

    def _keys(self) -> tuple[str, ...]:
        """The group keys as SQL, each once however it is spelled."""
        group = self.select.args.get("group")
        if group is None:
            return ()
        items = list(group.expressions)
        if group.args.get("all"):
            items = [e.unalias() for e in self.select.expressions if not has_aggregate(e)]
        keys: dict[str, str] = {}
        for e in items:
            found = self._resolved(e)
            if has_aggregate(found):
                raise QueryNotAllowed(
                    f"GROUP BY {shorten(sql_of(e))}: an aggregate is no group. Group by a column "
                    "or an expression of columns."
                )
            text = self.view.text(found)
            keys.setdefault(parse(text, self.schema).text, text)
        return tuple(keys.values())

    def _resolved(self, e: Any) -> Any:
        """GROUP BY 1 and GROUP BY alias mean the expression in the SELECT list."""
        outputs = self.select.expressions
        if type(e).__name__ == "Literal" and not e.is_string:
            at = _place(e)
            if not 0 <= at < len(outputs):
                raise QueryNotAllowed(f"GROUP BY {e.this}: there is no such output.")
            return outputs[at].unalias()
        return self._alias(e) or e

    def _alias(self, e: Any) -> Any:
        """What a name in the SELECT list stands for, if it is one."""
        if type(e).__name__ != "Column" or e.args.get("table"):
            return None
        for output in self.select.expressions:
            if type(output).__name__ == "Alias" and output.alias.lower() == e.name.lower():
                return output.this
        return None

    # --- outputs ------------------------------------------------------------------------

    def _output(self, e: Any) -> Output:
        inner = e.unalias()
        kind = type(inner).__name__
        if inner.is_star and kind in ("Star", "Column"):
            raise QueryNotAllowed(
                "* would return rows. Ask for a sum or a count, such as COUNT(*)."
            )
        self._check_windows(inner)
        expanded = self.view.expand(inner)
        name = e.alias if type(e).__name__ == "Alias" else (inner.name if kind == "Column" else "")
        at = self.formulas.place(expanded)
        if at is not None:
            return Output(name or sql_of(inner).lower().replace('"', ""), at)
        if kind == "Column":
            raise QueryNotAllowed(
                f"{name!r} would return rows. Ask for a sum or a count, or add it to GROUP BY."
            )
        made = self.formulas.compile(expanded)
        if made.kind == "label":
            raise QueryNotAllowed(f"{shorten(sql_of(inner))}: an output is a number or a group.")
        return Output(name or self._plain_name(inner), made)

    def _plain_name(self, e: Any) -> str:
        """count(*), avg(income): the expression itself is its name."""
        kinds: dict[str, list[Any]] = {}
        for n in e.walk():
            kinds.setdefault(type(n).__name__, []).append(n.meta)
        text = str(e.sql(comments=False)) if "WithinGroup" in kinds else sql_of(e)
        name = text.lower().replace('"', "").replace(" nulls last", "")
        places = [self.text[m.get("start", 0) :][:8] for m in kinds.get("Variance", ())]
        if places and all(p.lower() == "var_samp" for p in places):  # as it was typed
            name = name.replace("variance(", "var_samp(")
        return name

    def _check_windows(self, e: Any) -> None:
        for node in e.walk():
            if type(node).__name__ in ("Window", "Subquery", "Exists"):
                raise refuse(node)

    # --- HAVING, ORDER BY, LIMIT --------------------------------------------------------

    def _having(self, e: Any) -> Formula:
        def step(node: Any) -> Any:  # a column comes before an alias, as in DuckDB
            if type(node).__name__ != "Column" or self._is_grouped(node):
                return node
            return self._alias(node) or node

        self._check_windows(e)
        made = self.formulas.compile(self.view.expand(e.copy().transform(step)))
        if made.kind != "truth":
            raise QueryNotAllowed(
                f"HAVING {shorten(sql_of(e))} wants true or false: compare the aggregate."
            )
        return made

    def _is_grouped(self, column: Any) -> bool:
        return self.view.has(column) and self.formulas.place(self.view.expand(column)) is not None

    def _ordering(self, o: Any, outputs: tuple[Output, ...]) -> Ordering:
        if o.args.get("with_fill"):
            raise QueryNotAllowed("ORDER BY ... WITH FILL is not supported; every group is there.")
        first = bool(o.args.get("nulls_first"))
        return Ordering(self._sorted_by(o.this, outputs), bool(o.args.get("desc")), first)

    def _sorted_by(self, e: Any, outputs: tuple[Output, ...]) -> int | Formula:
        if type(e).__name__ == "Literal" and not e.is_string:
            at = _place(e)
            if not 0 <= at < len(outputs):
                raise QueryNotAllowed(f"ORDER BY {e.this}: there is no such output.")
            return outputs[at].by
        for output in outputs:  # the name of an output comes before a column
            named = type(e).__name__ == "Column" and not e.args.get("table")
            if named and output.name.lower() == e.name.lower():
                return output.by

        def step(node: Any) -> Any:
            if type(node).__name__ != "Column" or self._is_grouped(node):
                return node
            return self._alias(node) or node

        self._check_windows(e)
        expanded = self.view.expand(e.copy().transform(step))
        key = self.formulas.place(expanded)
        if key is not None:
            return key
        made = self.formulas.compile(expanded)
        if made.kind == "label":
            raise QueryNotAllowed(f"ORDER BY {shorten(sql_of(e))}: want a number or a group.")
        return made


def _place(e: Any) -> int:
    """A place in the SELECT list, counted from 0; -1 for what is no small whole number."""
    return int(e.this) - 1 if e.this.isdecimal() and len(e.this) < 10 else -1


def _unique(outputs: tuple[Output, ...]) -> None:
    seen: set[str] = set()
    for output in outputs:
        ends = () if isinstance(output.by, int) else ("_low", "_high")
        for name in (output.name, *(output.name + end for end in ends)):
            if name.lower() in seen:
                raise QueryNotAllowed(f"two outputs are called {name!r}; rename one with AS.")
            seen.add(name.lower())


def _limit(select: Any) -> int | None:
    limit = select.args.get("limit")
    if limit is None:
        return None
    e = limit.args.get("expression") or limit.args.get("count")
    options = limit.args.get("limit_options")
    extra = any(limit.args.get(n) for n in ("offset", "expressions"))
    extra = extra or (
        options is not None and any(options.args.get(n) for n in ("percent", "with_ties"))
    )
    if extra or type(e).__name__ != "Literal" or e.is_string or not e.this.isdecimal():
        raise QueryNotAllowed("LIMIT wants a whole number.")
    return int(e.this[:18])
