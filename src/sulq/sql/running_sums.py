"""sum(count(*)) OVER (ORDER BY month): totals so far, for which each period pays once.

The SELECT is grouped by the column of [period] and has one such sum. It is the question that
db.running asks: conditions on the period say where the totals begin and for how many periods they
may go on, all others choose rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.operations import Evaluator
from sulq.expressions.parse import parse, predicate, syntax
from sulq.questions.running_rows import summed
from sulq.sql.aggregates import is_aggregate
from sulq.sql.clauses import limit_of, only_supported
from sulq.sql.table_rows import picked, sorted_by
from sulq.sql.views import View
from sulq.values.answer import Answer
from sulq.values.query import Query, Running
from sulq.values.schema import Schema
from sulq.values.table import Table

MAX_WHERE = 20_000


@dataclass(frozen=True)
class RunningSums:
    """Totals so far, and how they become a table."""

    query: Query
    periods: tuple[Any, ...]  # all that are declared
    names: tuple[str, ...]  # of the outputs, in order
    period: str  # the output that is the period; the other is the total
    order: tuple[tuple[str, bool, bool], ...]  # an output, descending, missing first
    limit: int | None

    @property
    def columns(self) -> dict[str, tuple[Any, ...] | None]:
        """The outputs: the labels of the period, None for the total."""
        return {name: self.periods if name == self.period else None for name in self.names}

    def tables(self, totals: Callable[..., Answer]) -> Callable[..., Table]:
        """A layout of totals as one of a table."""
        return lambda *found: self.table(totals(*found))

    def table(self, answer: Answer) -> Table:
        """A row for each period that has rows."""
        (total,) = (name for name in self.names if name != self.period)
        found = answer.table((self.period,), (total,))
        for name, descending, first in reversed(self.order):
            found = sorted_by(found, name, descending, first)
        if self.limit is not None:
            found = picked(found, range(len(found))[: self.limit])
        each = [(n,) if n == self.period else (n, f"{n}_low", f"{n}_high") for n in self.names]
        return replace(found, columns={name: found[name] for names in each for name in names})


def is_running(select: Any) -> bool:
    """Has it a sum of an aggregate over a window?"""
    return any(_is_total(e.unalias()) for e in select.expressions)


def _is_total(e: Any) -> bool:
    if type(e).__name__ != "Window" or type(e.this).__name__ != "Sum":
        return False
    inner = e.this.this
    return is_aggregate(inner.this if type(inner).__name__ == "Filter" else inner)


def running_sums(select: Any, schema: Schema, table: str) -> RunningSums:
    """The question for totals so far that a SELECT is, or a refusal."""
    only_supported(select)
    view = View.base(schema, table).source(select)
    period = schema.period
    if period is None or view.per_person is not None or view.sides:
        raise QueryNotAllowed(
            "sum(...) OVER (ORDER BY ...): totals so far are answered for one table whose schema "
            "declares the [period] by which its rows arrive. Nothing was charged."
        )
    if len(select.expressions) != 2 or select.args.get("having"):
        raise _wanted(f"{period} and one total, each total by itself, and no HAVING", period)
    made = _Reader(select, view, period)
    names, own = made.names()
    expression, kept = made.summed()
    start, horizon, tests = _stretch(view, schema)
    tests += [kept] if kept is not None else []
    where = " AND ".join(f"({t})" if len(tests) > 1 else t for t in tests) or None
    asked = Query(Running(expression, period, start, horizon), where=where)
    every = tuple(schema[period].listed or ())
    return RunningSums(asked, every, names, own, made.order(names), limit_of(select))


class _Reader:
    """Reads the parts of such a SELECT."""

    def __init__(self, select: Any, view: View, period: str) -> None:
        self.select, self.view, self.period = select, view, period
        totals = [e for e in select.expressions if _is_total(e.unalias())]
        if len(totals) != 1:
            raise _wanted(f"{period} and one total, each total by itself", period)
        self.total = totals[0]
        self.window = self.total.unalias()
        self._check_window()
        group = select.args.get("group")
        keys = list(group.expressions) if group is not None else []
        if len(keys) != 1 or not self._is_period(self._meant(keys[0])):
            raise _wanted(f"GROUP BY {period} alone", period)

    def _check_window(self) -> None:
        """ORDER BY the period, from the first one to the row's own."""
        window = self.window
        keys = window.args["order"].expressions if window.args.get("order") else []
        spec = window.args.get("spec")
        frame = {k: str(v).upper() for k, v in spec.args.items() if v} if spec is not None else {}
        whole = frame.get("start") == "UNBOUNDED" and frame.get("start_side") == "PRECEDING"
        usual = not frame or (
            whole and frame.get("end", "CURRENT ROW") == "CURRENT ROW" and not frame.get("exclude")
        )
        known = {"this", "order", "spec", "over"}
        alone = usual and not any(v for k, v in window.args.items() if k not in known)
        if not alone or len(keys) != 1 or keys[0].args.get("desc"):
            raise _wanted(f"OVER (ORDER BY {self.period}), and nothing else in it", self.period)
        if not self._is_period(keys[0].this):
            raise _wanted(f"OVER (ORDER BY {self.period}): rows arrive by that", self.period)

    def _is_period(self, e: Any) -> bool:
        if type(e).__name__ != "Column" or not self.view.has(e):
            return False
        found = self.view.expand(e)
        column = self.view.schema.get(found.name) if type(found).__name__ == "Column" else None
        return column is not None and column.name == self.period

    def _meant(self, e: Any) -> Any:
        """GROUP BY 1 and GROUP BY alias mean an output."""
        outputs = self.select.expressions
        if type(e).__name__ == "Literal" and not e.is_string and str(e.this) in ("1", "2"):
            return outputs[int(e.this) - 1].unalias()
        named = [o.unalias() for o in outputs if o.alias and o.alias.lower() == e.name.lower()]
        return named[0] if type(e).__name__ == "Column" and named else e

    def names(self) -> tuple[tuple[str, ...], str]:
        """What the outputs are called, and which of them is the period."""
        names = []
        for e in self.select.expressions:
            if e is not self.total and not self._is_period(e.unalias()):
                raise _wanted(f"{self.period} and one total, each total by itself", self.period)
            names.append(e.alias or ("total" if e is self.total else e.name))
        place = self.select.expressions.index(self.total)
        total, own = names[place], names[1 - place]
        if own.lower() in {f"{total}{end}".lower() for end in ("", "_low", "_high")}:
            raise QueryNotAllowed(f"two outputs are called {own!r}; rename one with AS.")
        return tuple(names), own

    def summed(self) -> tuple[str, str | None]:
        """What is added up row by row, and for which rows."""
        inner, kept = self.window.this.this, []
        if type(inner).__name__ == "Filter":
            kept.append(inner.expression.this)
            inner = inner.this
        kind = type(inner).__name__
        argument = inner.this
        if kind == "CountIf":
            kept.append(argument)
        elif kind not in ("Count", "Sum") or type(argument).__name__ == "Distinct":
            raise _wanted("sum(count(*)), sum(sum(x)) or sum(count_if(p)) OVER", self.period)
        star = kind == "CountIf" or argument is None or type(argument).__name__ == "Star"
        inside = "*" if star else self.view.text(argument)
        said = summed(f"sum({inside})" if kind == "Sum" else f"count({inside})")
        tests = [self.view.condition(test) for test in kept]
        return said, " AND ".join(f"({t})" for t in tests) or None

    def order(self, names: tuple[str, ...]) -> tuple[tuple[str, bool, bool], ...]:
        """The outputs that rows are sorted by."""
        clause, out = self.select.args.get("order"), []
        for o in clause.expressions if clause else ():
            found = self._meant(o.this)
            spelled = [e.unalias() for e in self.select.expressions]
            places = [i for i, e in enumerate(spelled) if e == found]
            if not places and type(found).__name__ == "Column":
                places = [i for i, name in enumerate(names) if name.lower() == found.name.lower()]
            if not places:
                raise QueryNotAllowed("ORDER BY beside totals so far: name an output or its place.")
            first = bool(o.args.get("nulls_first"))
            out.append((names[places[0]], bool(o.args.get("desc")), first))
        return tuple(out)


def _stretch(view: View, schema: Schema) -> tuple[Any, int | None, list[str]]:
    """Where totals begin and for how many periods, by the terms about periods; the other terms."""
    import pyarrow as pa

    period = schema[str(schema.period)]
    every = list(period.listed or ())
    kept, others = np.ones(len(every), dtype=bool), []
    for text in view.where:
        found = syntax(text, schema.names, "expression", MAX_WHERE)
        for term in found.flatten() if type(found).__name__ == "And" else (found,):
            said = written(term.unnest())
            if parse(said, schema).columns() != {period.name}:
                others.append(said)
                continue
            rows = Evaluator({period.name: pa.array(every)}, len(every), schema)
            kept &= rows.true(predicate(said, schema))
    places = np.flatnonzero(kept)
    if len(places) == len(every):
        return None, None, others
    if not len(places) or places[-1] - places[0] + 1 != len(places):
        raise QueryNotAllowed(
            f"totals so far go over {period.name!r} without a gap, in the order of the schema: "
            f"WHERE {period.name} >= ... AND {period.name} <= .... Nothing was charged."
        )
    return every[places[0]], len(places), others


def _wanted(what: str, period: str) -> QueryNotAllowed:
    return QueryNotAllowed(
        f"totals so far: want {what}. Nothing was charged.\nSELECT {period}, sum(count(*)) OVER "
        f"(ORDER BY {period}) AS total FROM ... WHERE ... GROUP BY {period} ORDER BY {period}"
    )
