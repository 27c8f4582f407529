"""One grouping or several: CUBE, ROLLUP and GROUPING SETS are as many SELECTs, asked together.

Each set of keys is compiled as a SELECT of its own. The rows of all of them make one table, in
which a key that a row is not grouped by is '(all)'.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import parse
from sulq.sql.discover_groups import discovering, plainly
from sulq.sql.running_sums import RunningSums, is_running, running_sums
from sulq.sql.statement import Output, Statement, compile_select, parsed
from sulq.sql.table_rows import ALL, picked, sorted_by
from sulq.values.answer import Answer
from sulq.values.per_person import PerPerson
from sulq.values.price import Price
from sulq.values.query import Query
from sulq.values.schema import Schema
from sulq.values.table import Table

SEVERAL = ("Cube", "Rollup", "GroupingSets")
MAX_SETS = 256

Keys = tuple[Any, ...]


@dataclass(frozen=True)
class Groupings:
    """Several groupings of the same rows, and how their answers become one table."""

    statements: tuple[Statement, ...]
    outputs: tuple[Output, ...]  # as if grouped by all keys
    order: tuple[tuple[int, bool, bool], ...]  # an output's place, descending, missing first
    limit: int | None

    @property
    def queries(self) -> tuple[Query, ...]:
        """Those of all groupings."""
        return tuple(q for s in self.statements for q in s.queries)

    @property
    def per_person(self) -> PerPerson | None:
        """Whose rows the queries are about."""
        return self.statements[0].per_person

    def table(self, answers: list[Answer]) -> Table:
        """The rows of every grouping below each other."""
        left, tables = iter(answers), []
        for statement in self.statements:
            tables.append(statement.table([next(left) for _ in statement.queries]))
        keys = tuple(o.name for o in self.outputs if isinstance(o.by, int))
        merged = _below(tables, keys, [o.name for o in self.outputs])
        for place, descending, first in reversed(self.order):
            merged = sorted_by(merged, self.outputs[place].name, descending, first)
        return merged if self.limit is None else picked(merged, range(len(merged))[: self.limit])


def compile_statement(
    text: str, schema: Schema, table: str, noise: str = "gaussian", older: bool = False
) -> Statement | Groupings | RunningSums:
    """Read one SELECT over the private table, or refuse it and say what is nearest.

    `older` asks every count with noise, as it was when such a statement may have been paid for.
    """

    def compiled(select: Any) -> Statement:
        return compile_select(select, text, schema, table, noise, older)

    try:
        select = parsed(text, schema, table)
        if is_running(select):
            return running_sums(select, schema, table)
        sought = plainly(select)
        if sought is not None:
            return discovering(compiled(select), sought, schema)
        sets = _grouping_sets(select)
        if sets is None:
            return compiled(select)
        return _groupings(select, sets, compiled)
    except RecursionError:
        raise QueryNotAllowed("the statement is nested too deeply.") from None


def _grouping_sets(select: Any) -> list[Keys] | None:
    """The sets of keys that a statement groups by, each once; None if that is one GROUP BY."""
    group = select.args.get("group")
    if group is None or not any(type(e).__name__ in SEVERAL for e in group.expressions):
        return None
    each = [_sets(e, select.expressions) for e in group.expressions]
    size = 1
    for found in each:
        size *= len(found)
        if size > MAX_SETS:
            raise QueryNotAllowed(f"GROUP BY: more than {MAX_SETS} groupings. Name fewer keys.")
    chosen = (sum(sets, ()) for sets in itertools.product(*each))
    return list({frozenset(e.sql().lower() for e in keys): keys for keys in chosen}.values())


def _sets(e: Any, outputs: Sequence[Any]) -> list[Keys]:
    """What one part of GROUP BY stands for."""
    kind = type(e).__name__
    if kind == "GroupingSets":
        return [keys for part in e.expressions for keys in _sets(part, outputs)]
    if kind not in SEVERAL:
        return [_keys(e, outputs)]
    parts = [_keys(part, outputs) for part in e.expressions]
    count = len(parts)
    if kind == "Rollup":
        return [sum(parts[:k], ()) for k in range(count, -1, -1)]
    if 2**count > MAX_SETS:
        raise QueryNotAllowed(f"CUBE of {count} keys: at most {MAX_SETS} groupings.")
    return [
        sum(found, ()) for k in range(count, -1, -1) for found in itertools.combinations(parts, k)
    ]


def _keys(e: Any, outputs: Sequence[Any]) -> Keys:
    """A key, or several in brackets; a number or a name may mean an output."""
    kind = type(e).__name__
    if kind == "Tuple":
        return tuple(key for part in e.expressions for key in _keys(part, outputs))
    if kind == "Paren":
        return _keys(e.this, outputs)
    if kind == "Literal" and not e.is_string:
        if not e.this.isdecimal() or not 1 <= int(e.this[:9]) <= len(outputs):
            raise QueryNotAllowed(f"GROUP BY {e.this}: there is no such output.")
        return (outputs[int(e.this[:9]) - 1].unalias(),)
    if kind == "Column" and not e.args.get("table"):
        named = [o.this for o in outputs if type(o).__name__ == "Alias"]
        alike = [o for o in named if o.parent.alias.lower() == e.name.lower()]
        return (alike[0] if alike else e,)
    return (e,)


def _groupings(select: Any, sets: list[Keys], compiled: Callable[[Any], Statement]) -> Groupings:
    """Every set of keys compiled by itself, and the outputs of all of them."""
    _order_by_place(select)
    union = list({e.sql().lower(): e for keys in sets for e in keys}.values())
    whole = compiled(_grouped(select, union))
    _check_labels(whole)
    names = whole.formulas.keys
    numbers = [i for i, o in enumerate(whole.outputs) if not isinstance(o.by, int)]
    if not numbers:
        raise QueryNotAllowed("GROUP BY: name an aggregate beside the groups, such as COUNT(*).")
    statements = []
    for keys in sets:
        found = compiled(_grouped(select, keys, [select.expressions[i] for i in numbers]))
        inside, made = found.formulas.keys, iter(found.outputs)
        outputs = []
        for output in whole.outputs:
            if not isinstance(output.by, int):
                outputs.append(next(made))
            elif names[output.by] in inside:
                outputs.append(Output(output.name, inside.index(names[output.by])))
        statements.append(replace(found, outputs=tuple(outputs)))
    return Groupings(tuple(statements), whole.outputs, _order(whole), whole.limit)


def _grouped(select: Any, keys: Sequence[Any], outputs: Sequence[Any] | None = None) -> Any:
    """The same SELECT with one plain GROUP BY; with outputs, those alone and no order."""
    from sqlglot import exp

    made = select.copy()
    made.set("group", exp.Group(expressions=[k.copy() for k in keys]) if keys else None)
    if outputs is not None:
        made.set("expressions", [e.copy() for e in outputs])
        made.set("order", None)
        made.set("limit", None)
    return made


def _order_by_place(select: Any) -> None:
    """ORDER BY an output's own expression means that output."""
    from sqlglot import exp

    clause = select.args.get("order")
    for o in clause.expressions if clause else ():
        for i, output in enumerate(select.expressions):
            if o.this.sql().lower() == output.unalias().sql().lower():
                o.set("this", exp.Literal.number(i + 1))
                break


def _order(whole: Statement) -> tuple[tuple[int, bool, bool], ...]:
    out = []
    for ordering in whole.order:
        found = ordering.by  # a key's number, or a formula
        places = [
            i for i, o in enumerate(whole.outputs)
            if o.by is found or (isinstance(found, int) and o.by == found)
        ]  # fmt: skip
        if not places:
            raise QueryNotAllowed("ORDER BY with several groupings: name an output, or its place.")
        out.append((places[0], ordering.descending, ordering.missing_first))
    return tuple(out)


def _check_labels(whole: Statement) -> None:
    """'(all)' must not be a value: it is how a row that is not grouped by a key is shown."""
    schema = whole.formulas.schema
    names = {n for key in whole.formulas.keys for n in parse(key, schema).columns()}
    for name in sorted(names):
        if ALL in (schema[name].values or ()):
            raise QueryNotAllowed(
                f"{name!r}: {ALL!r} means all values; give that one another name."
            )


# ---- tables -----------------------------------------------------------------------------------


def _below(tables: Sequence[Table], keys: tuple[str, ...], names: Sequence[str]) -> Table:
    """One table of the rows of all; a key that a table has not is '(all)' in its rows."""
    columns: dict[str, list[Any]] = {}
    for name in names:
        for column in (name,) if name in keys else (name, f"{name}_low", f"{name}_high"):
            columns[column] = [x for t in tables for x in (t.columns.get(column) or [ALL] * len(t))]
    numbers = [n for n in names if n not in keys]
    vague = {n: [t.is_vague(i, n) for t in tables for i in range(len(t))] for n in numbers}
    few = tuple(x for t in tables for x in (t.too_few or (False,) * len(t)))
    notes = list(dict.fromkeys(t.note for t in tables if t.note))
    return Table(
        columns, keys, sum((t.price for t in tables), Price(0)),
        min(t.remaining for t in tables), "; ".join(notes), too_few=few, too_noisy=vague,
        exact=frozenset.intersection(*(t.exact for t in tables)),
    )  # fmt: skip


def with_subtotals(answers: Sequence[Answer], column: str) -> Table:
    """Histograms of one column below each other, and beside each bin how many its histogram has."""
    beside = "bins" if column != "bins" else "of"
    tables = []
    for answer in answers:
        found = answer.table((column,), ("count",))
        known = len(answer.cells) - (None in answer.cells)
        columns = {column: found[column], beside: [known] * len(found)} | found.columns
        tables.append(replace(found, columns=columns, by=(column, beside)))
    return _below(tables, (column, beside), [column, beside, "count"])
