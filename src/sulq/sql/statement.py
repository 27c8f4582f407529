"""A SELECT taken apart: where its rows come from, its groups, its outputs, their order.

Everything that touches rows becomes one query of the pipeline (and two more per column whose
percentiles are asked for), priced and charged as one. HAVING, ORDER BY and LIMIT work on the
noisy result.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.normal_form import split, truth
from sulq.expressions.parse import parse, predicate, shorten, syntax
from sulq.expressions.syntax import no_column, not_a_statement
from sulq.sql.aggregates import has_aggregate, is_aggregate, refuse
from sulq.sql.clauses import limit_of, only_supported
from sulq.sql.formula import Bools, Context, Formula
from sulq.sql.formulas import Formulas
from sulq.sql.noisy import Noisy, released
from sulq.sql.quantiles import LEVEL, Located, groups_of
from sulq.sql.views import View
from sulq.values.answer import Answer
from sulq.values.per_person import PerPerson
from sulq.values.price import Price
from sulq.values.query import Query
from sulq.values.schema import OTHER, Schema
from sulq.values.table import Table

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
    having: Formula | None
    order: tuple[Ordering, ...]
    limit: int | None
    per_person: PerPerson | None = None  # whose rows the queries are about

    def table(self, answers: list[Answer]) -> Table:
        """Lay out the answers: every declared group, its numbers, a low and high beside each."""
        first = answers[0]
        cells = self._cells(first)
        columns: list[Noisy] = []
        stds: list[Any] = []
        for answer in answers[: self.formulas.flat]:
            more, errors = released(answer, len(stds))
            columns += more
            stds += errors
        located, weak = self._located(answers, len(cells))
        context = self.formulas.released(columns, located, cells)
        keep = self._kept(context, _ruled_out(first, len(cells)))
        out: dict[str, list[Any]] = {}
        numbers: dict[str, tuple[Formula, Any]] = {}
        reach = max(a.spread(LEVEL) for a in answers)  # what is public has none
        for output in self.outputs:
            if isinstance(output.by, int):
                out[output.name] = [_label(cells[i][output.by]) for i in keep]
                continue
            ends = self.formulas.interval(output.by, context, stds, reach)
            for name, found in zip(("", "_low", "_high"), ends, strict=True):
                out[output.name + name] = [float(found[i]) for i in keep]
            numbers[output.name] = (output.by, ends)
        weak |= self.formulas.small(context, stds)
        vague = {n: _vague(by, weak, *ends)[keep].tolist() for n, (by, ends) in numbers.items()}
        keys = tuple(o.name for o in self.outputs if isinstance(o.by, int))
        price = sum((a.price for a in answers), Price(0))
        note = self._note([cells[i] for i in keep if weak[i]])
        few = tuple(bool(weak[i]) for i in keep)
        left = min(a.remaining for a in answers)
        sure = (n for n, (by, _) in numbers.items() if self.formulas.is_exact(by, context, stds))
        exact = frozenset(sure)
        return Table(out, keys, price, left, note, too_few=few, too_noisy=vague, exact=exact)

    def _located(self, answers: list[Answer], groups: int) -> tuple[list[Located], Bools]:
        """Every quantile in every group, and the groups that are too small for one."""
        located: list[Located] = []
        weak = np.zeros(groups, dtype=bool)
        at = self.formulas.flat
        for source, quantile in enumerate(self.formulas.quantiles):
            found, few = quantile.located(answers[at : at + quantile.levels], groups, source)
            at += quantile.levels
            weak |= few
            located += found
        return located, weak

    def _note(self, weak: list[tuple[Any, ...]]) -> str:
        if not weak:
            return ""
        names = [", ".join(str(_label(x)) for x in cell) for cell in weak]
        return "too few rows for the noise" + (
            ": " + "; ".join(names) if self.formulas.keys else ""
        )

    def _cells(self, answer: Answer) -> list[tuple[Any, ...]]:
        depth = len(self.formulas.keys)
        if not self.formulas.flat:
            return groups_of(answer, depth)
        return [c if depth > 1 else (c,) for c in answer.cells]

    def _kept(self, released: Context, without: set[int]) -> list[int]:
        keep = [i for i in range(len(released.cells)) if i not in without]
        if self.having is not None:
            test = self.formulas.test(self.having, released)
            keep = [i for i in keep if test[i]]
        for ordering in reversed(self.order):
            keep = ordering.sorted(keep, self.formulas.ranks(ordering.by, released))
        return keep if self.limit is None else keep[: self.limit]


def compile_select(
    select: Any, text: str, schema: Schema, table: str, noise: str, older: bool
) -> Statement:
    """One SELECT with one grouping, read from this text."""
    return _Compiler(select, text, schema, table, noise, older).statement()


def parsed(text: str, schema: Schema, table: str) -> Any:
    """The SELECT that a text is, or a refusal."""
    found = syntax(text, (*schema.names, table), "statement", MAX_STATEMENT)
    kind = type(found).__name__
    if kind in ("Union", "Intersect", "Except"):
        raise QueryNotAllowed(
            f"{kind.upper()}: ask each SELECT by itself; groups of one table are one SELECT with "
            "GROUP BY."
        )
    if kind != "Select":
        raise not_a_statement(text, found, table)
    return found


class _Compiler:
    """Takes one SELECT apart."""

    def __init__(
        self, select: Any, text: str, schema: Schema, table: str, noise: str, older: bool
    ) -> None:
        only_supported(select)
        self.text = text
        self.select = select
        self.view = View.base(schema, table).source(select)
        self.schema = schema = self.view.schema
        everywhere = None if older else self._filter_of_all()
        if everywhere is not None:
            self.view = replace(self.view, where=(*self.view.where, everywhere))
        above_low, keys = noise in ("binomial", "stitched"), self._keys()
        public = not older and self._is_public(keys)
        combined = noise == "gaussian" and not older
        chooses = not above_low and not older
        self.formulas = Formulas(
            schema, keys, above_low, public, everywhere is not None, combined, chooses
        )

    def statement(self) -> Statement:
        """The queries to ask and what becomes of their answers."""
        outputs = tuple(self._output(e) for e in self.select.expressions)
        _unique(outputs)
        having = self.select.args.get("having")
        test = self._having(having.this) if having is not None else None
        clause = self.select.args.get("order")
        order = tuple(self._ordering(o, outputs) for o in (clause.expressions if clause else ()))
        if all(isinstance(o.by, int) for o in outputs) and not self.formulas.moments.counted:
            # SELECT region GROUP BY region: the groups are known.
            self.formulas.moments.count("true")
        queries = self.formulas.queries(self._where())
        if not queries:
            raise QueryNotAllowed("nothing is asked of the rows: name aggregates such as COUNT(*).")
        limit = limit_of(self.select)
        return Statement(queries, outputs, self.formulas, test, order, limit, self.view.per_person)

    def _where(self) -> str | None:
        tests = self.view.where  # a lone one as it was read before
        return " AND ".join(f"({w})" if len(tests) > 1 else w for w in tests) or None

    def _filter_of_all(self) -> str | None:
        """A FILTER that stands on every aggregate is a WHERE: every group is there either way."""
        parts = [self.select.args.get(name) for name in ("having", "order")]
        roots = [*self.select.expressions, *(p for p in parts if p is not None)]
        found = [
            node.parent for root in roots for node in root.walk()
            if is_aggregate(node) and not is_aggregate(node.parent)
        ]  # fmt: skip
        if not found or any(type(f).__name__ != "Filter" for f in found):
            return None
        tests = [self.view.condition(f.expression.this) for f in found]
        forms = {truth(predicate(t, self.schema), self.schema).text for t in tests}
        return tests[0] if len(forms) == 1 else None

    def _is_public(self, keys: tuple[str, ...]) -> bool:
        """Is it public which rows are asked about, and which group each is in?"""
        where = self._where()
        names = [name for key in keys for name in parse(key, self.schema).columns()]
        if where is not None:
            private = split(predicate(where, self.schema), self.schema).where
            names += private.columns() if private is not None else ()
        return all(self.schema[name].public for name in names)

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
                    f"GROUP BY {shorten(written(e))}: an aggregate is no group. Group by a column "
                    "or an expression of columns."
                )
            text = self.view.text(found)
            keys.setdefault(parse(text, self.schema).text, text)
        return tuple(keys.values())

    def _resolved(self, e: Any) -> Any:
        """GROUP BY 1 and GROUP BY alias mean the expression in the SELECT list."""
        at = self._place(e, "GROUP BY")
        return self._alias(e) or e if at is None else self.select.expressions[at].unalias()

    def _place(self, e: Any, clause: str) -> int | None:
        """The place in the SELECT list that a number stands for, counted from 0."""
        if type(e).__name__ != "Literal" or e.is_string:
            return None
        if not (e.this.isdecimal() and 1 <= int(e.this[:9]) <= len(self.select.expressions)):
            raise QueryNotAllowed(f"{clause} {e.this}: there is no such output.")
        return int(e.this) - 1

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
            return Output(name or written(inner).lower().replace('"', ""), at)
        if kind == "Column":
            if not self.view.has(inner):
                raise no_column(inner.name, self.schema)
            raise QueryNotAllowed(
                f"{name!r} would return rows. Ask for a sum or a count, or add it to GROUP BY."
            )
        made = self.formulas.compile(expanded)
        if made.kind == "label":
            raise QueryNotAllowed(f"{shorten(written(inner))}: an output is a number or a group.")
        return Output(name or self._plain_name(inner), made)

    def _plain_name(self, e: Any) -> str:
        """count(*), avg(income): the expression itself is its name."""
        kinds: dict[str, list[Any]] = {}
        for n in e.walk():
            kinds.setdefault(type(n).__name__, []).append(n.meta)
        text = written(e, None) if "WithinGroup" in kinds else written(e)
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
        made = self.formulas.compile(self._of_outputs(e))
        if made.kind != "truth":
            raise QueryNotAllowed(
                f"HAVING {shorten(written(e))} wants true or false: compare the aggregate."
            )
        return made

    def _of_outputs(self, e: Any) -> Any:
        """An expression that may use the names of outputs, over the table's own columns."""

        def step(node: Any) -> Any:  # a group comes before an alias, as in DuckDB
            if type(node).__name__ != "Column":
                return node
            if self.view.has(node) and self.formulas.place(self.view.expand(node)) is not None:
                return node
            return self._alias(node) or node

        self._check_windows(e)
        return self.view.expand(e.transform(step))

    def _ordering(self, o: Any, outputs: tuple[Output, ...]) -> Ordering:
        if o.args.get("with_fill"):
            raise QueryNotAllowed("ORDER BY ... WITH FILL is not supported; every group is there.")
        first = bool(o.args.get("nulls_first"))
        return Ordering(self._sorted_by(o.this, outputs), bool(o.args.get("desc")), first)

    def _sorted_by(self, e: Any, outputs: tuple[Output, ...]) -> int | Formula:
        at = self._place(e, "ORDER BY")
        if at is not None:
            return outputs[at].by
        for output in outputs:  # the name of an output comes before a column
            named = type(e).__name__ == "Column" and not e.args.get("table")
            if named and output.name.lower() == e.name.lower():
                return output.by
        expanded = self._of_outputs(e)
        key = self.formulas.place(expanded)
        if key is not None:
            return key
        made = self.formulas.compile(expanded)
        if made.kind == "label":
            raise QueryNotAllowed(f"ORDER BY {shorten(written(e))}: want a number or a group.")
        return made


def _vague(formula: Formula, weak: Bools, value: Any, low: Any, high: Any) -> Any:
    """Where the noise leaves nothing to say: the interval has all that is possible in it.

    What is possible of a formula is not known; there it is more noise than number, from rows
    that are too few.
    """
    with np.errstate(all="ignore"):
        if formula.width is None:
            wide = weak & (high - low > 2 * np.abs(value))
        else:
            wide = (high > low) & (high - low >= formula.width * (1 - 1e-9))
        return wide | ~(np.isfinite(value) & np.isfinite(low) & np.isfinite(high))


def _ruled_out(answer: Answer, groups: int) -> set[int]:
    """Groups that no row can be in, as the schema has it; one with bins has several cells."""
    each = len(answer.cells) // max(groups, 1)  # of a discovery that found nothing there is none
    return {i for i in range(groups) if all(i * each + j in answer.ruled_out for j in range(each))}


def _label(label: Any) -> Any:
    """A group key as a table shows it."""
    return OTHER if label is None else label


def _unique(outputs: tuple[Output, ...]) -> None:
    seen: set[str] = set()
    for output in outputs:
        ends = () if isinstance(output.by, int) else ("_low", "_high")
        for name in (output.name, *(output.name + end for end in ends)):
            if name.lower() in seen:
                raise QueryNotAllowed(f"two outputs are called {name!r}; rename one with AS.")
            seen.add(name.lower())
