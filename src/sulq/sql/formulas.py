"""Expressions of aggregates: SUM(a) / SUM(b), 100 * AVG(smoker), CASE WHEN COUNT(*) > 5 ..."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions import parse, shorten
from sulq.query import People, Query
from sulq.schema import Schema
from sulq.sql.moments import (
    Moments,
    Released,
    average,
    correlation,
    covariance,
    root,
    variance,
)
from sulq.sql.noisy import Noisy, where
from sulq.sql.quantiles import Quantile

Bools = NDArray[np.bool_]


class Context:
    """What a compiled formula reads from: released sums, quantiles, the cells' keys."""

    def __init__(
        self,
        moments: Released,
        people: list[Noisy],
        quantiles: list[Noisy],
        cells: list[tuple[Any, ...]],
    ) -> None:
        self.moments = moments
        self.people = people
        self.quantiles = quantiles
        self.cells = cells

    def constant(self, value: float) -> Noisy:
        """The same number in every cell."""
        return Noisy(np.full(len(self.cells), float(value)), {})


Formula = Callable[[Context], Any]  # a Noisy, or an array of true and false


class Formulas:
    """Compiles the outputs of one statement, collecting the sums they need."""

    def __init__(self, schema: Schema, keys: tuple[str, ...]) -> None:
        self.schema = schema
        self.keys = keys
        self.moments = Moments(schema)
        self.quantiles: list[Quantile] = []
        self.people: list[str] = []  # conditions of COUNT(DISTINCT person)

    # --- what the statement asks --------------------------------------------------------

    def queries(self, condition: str | None) -> tuple[tuple[Query, ...], tuple[Quantile, ...]]:
        """The statement's query, then those of its quantiles."""
        terms = self.moments.terms()
        by = self.keys or None
        found = [Query(terms, by=by, where=condition)] if terms.sums or terms.groups else []
        for extra in self.people:
            parts = [c for c in (condition, extra) if c not in (None, "true")]
            where = " AND ".join(f"({c})" for c in parts) or None
            found.append(Query(People(), by=by, where=where))
        for quantile in self.quantiles:
            found += quantile.queries(self.keys, condition)
        return tuple(found), tuple(self.quantiles)

    @property
    def asks(self) -> bool:
        """Are there sums?"""
        return bool(self.moments.sums or self.moments.groups)

    @property
    def flat(self) -> int:
        """How many queries have one cell per group: all but those of quantiles."""
        return int(self.asks) + len(self.people)

    def released(self, columns: list[Noisy], cells: list[tuple[Any, ...]]) -> Context:
        """Name the numbers that came back."""
        plain = len(self.moments.sums) + sum(1 + len(g.members) for g in self.moments.groups)
        after = plain + len(self.people)
        moments = self.moments.released(columns[:plain])
        return Context(moments, columns[plain:after], columns[after:], cells)

    def number(self, formula: Formula, context: Context, cells: int) -> Noisy:
        """The value of an output in every cell; true and false count as 1 and 0."""
        found = formula(context)
        if isinstance(found, Noisy):
            return found
        return Noisy(np.asarray(found, dtype=float), {})

    def test(self, formula: Formula, context: Context, cells: int) -> Bools:
        """Where a HAVING holds."""
        found = formula(context)
        if isinstance(found, Noisy):
            raise QueryNotAllowed("HAVING wants true or false: compare the aggregate.")
        return np.asarray(found, dtype=bool)

    def ranks(self, by: Formula | int, context: Context, cells: int) -> list[Any]:
        """What to sort by; 'other' and missing come last."""
        if isinstance(by, int):
            labels = [c[by] for c in context.cells]
            return [(x is None, "" if x is None else x) for x in labels]
        value = self.number(by, context, cells).value
        return [(bool(np.isnan(v)), v) for v in value]

    def small(
        self, context: Context, stds: list[Any], cells: list[tuple[Any, ...]], keep: list[int]
    ) -> list[str]:
        """Groups whose count is within the noise: what is divided by it means little."""
        weak: set[int] = set()
        for i, group in enumerate(self.moments.groups):
            if group.members:
                count = context.moments.counts[i]
                error = np.sqrt(count.variance(stds))
                weak |= set(np.flatnonzero(count.value < 4 * error).tolist())
        names = [", ".join(str(label_name(x)) for x in cells[i]) for i in keep if i in weak]
        return names if self.keys else (["all"] if weak else [])

    # --- compiling ----------------------------------------------------------------------

    def count(self, condition: str) -> Formula:
        """COUNT(*)."""
        read = self.moments.count(condition)
        return lambda c: read(c.moments)

    def compile(self, e: Any, names: dict[str, int]) -> Formula:
        """An expression of aggregates and constants."""
        kind = type(e).__name__
        if kind in AGGREGATES or (kind == "Anonymous" and str(e.this).lower() in ALIASES):
            return self._aggregate(e, "true")
        if kind == "Filter":
            condition = _sql(e.expression.this)
            parse(condition, self.schema)
            return self._aggregate(e.this, condition)
        text = _sql(e)
        if text in names:
            return self._key(names[text])
        builder = BUILDERS.get(kind)
        if builder is None:
            if kind == "Column":
                raise QueryNotAllowed(
                    f"{e.name!r} would return rows. Ask for a sum or a count, or add it to "
                    "GROUP BY."
                )
            raise QueryNotAllowed(
                f"{shorten(text)}: {kind.lower()} is not answered over aggregates. Aggregates: "
                f"{', '.join(sorted(set(SPELLED)))}."
            )
        return builder(self, e, names)

    def _key(self, at: int) -> Formula:
        def read(c: Context) -> Noisy:
            labels = [x[at] for x in c.cells]
            if any(isinstance(x, str | tuple | datetime.date) for x in labels):
                raise QueryNotAllowed("a group key inside a formula must be a number.")
            return Noisy(np.array([np.nan if x is None else float(x) for x in labels]), {})

        return read

    def _aggregate(self, e: Any, condition: str) -> Formula:
        kind = type(e).__name__
        if kind == "Anonymous":
            kind = ALIASES.get(str(e.this).lower(), kind)
        maker = AGGREGATES.get(kind)
        if maker is None:
            raise QueryNotAllowed(
                f"{shorten(_sql(e))}: not answered. Aggregates: {', '.join(sorted(set(SPELLED)))}."
            )
        return maker(self, e, condition)


def _sql(e: Any) -> str:
    return str(e.sql(dialect="duckdb"))


def label_name(label: Any) -> Any:
    """A group key as a table shows it."""
    return "other" if label is None else label


# --- aggregates -----------------------------------------------------------------------------


def _argument(e: Any) -> str:
    arguments = e.expressions if type(e).__name__ == "Anonymous" else [e.this]
    if len(arguments) != 1 or arguments[0] is None:
        raise QueryNotAllowed(f"{shorten(_sql(e))}: want one argument.")
    if type(arguments[0]).__name__ == "Distinct":
        raise QueryNotAllowed(
            f"{shorten(_sql(e))}: DISTINCT is answered only as COUNT(DISTINCT person), for the "
            "column that [unit] declares."
        )
    return _sql(arguments[0])


def _count(f: Formulas, e: Any, condition: str) -> Formula:
    if type(e.this).__name__ == "Distinct":
        return _people(f, e, condition)
    star = type(e.this).__name__ == "Star" or e.this is None
    read = f.moments.count(condition, None if star else _argument(e))
    return lambda c: read(c.moments)


def _people(f: Formulas, e: Any, condition: str) -> Formula:
    names = e.this.expressions
    unit = f.schema.unit
    asked = f.schema.get(names[0].name) if type(names[0]).__name__ == "Column" else None
    if unit is None or len(names) != 1 or asked is None or asked.name != unit.column:
        raise QueryNotAllowed(
            f"{shorten(_sql(e))}: DISTINCT is answered only as COUNT(DISTINCT person), for the "
            "column that [unit] declares."
        )
    if condition not in f.people:
        f.people.append(condition)
    at = f.people.index(condition)
    return lambda c: c.people[at]


def _count_if(f: Formulas, e: Any, condition: str) -> Formula:
    test = _argument(e)
    both = test if condition == "true" else f"({condition}) AND ({test})"
    read = f.moments.count(both)
    return lambda c: read(c.moments)


def _one(make: Callable[..., Any]) -> Callable[[Formulas, Any, str], Formula]:
    def build(f: Formulas, e: Any, condition: str) -> Formula:
        read = make(f.moments, condition, _argument(e))
        return lambda c: read(c.moments)

    return build


def _two(make: Callable[..., Any]) -> Callable[[Formulas, Any, str], Formula]:
    def build(f: Formulas, e: Any, condition: str) -> Formula:
        read = make(f.moments, condition, _sql(e.this), _sql(e.expression))
        return lambda c: read(c.moments)

    return build


def _quantile(f: Formulas, e: Any, condition: str) -> Formula:
    kind = type(e).__name__
    share: Any = 0.5
    if kind == "WithinGroup":
        inner, order = e.this, e.expression.expressions
        if type(inner).__name__ not in ("PercentileCont", "PercentileDisc") or len(order) != 1:
            raise QueryNotAllowed("WITHIN GROUP: want PERCENTILE_CONT(p) ... (ORDER BY x).")
        x, share = _sql(order[0].this), _share(inner.this)
        if order[0].args.get("desc"):
            share = 1 - share
    elif kind == "Median":
        x = _sql(e.this)
    else:
        if e.args.get("expression") is None:
            raise QueryNotAllowed("PERCENTILE_CONT(p) needs WITHIN GROUP (ORDER BY x).")
        x, share = _sql(e.this), _share(e.expression)
    made = next((q for q in f.quantiles if (q.x, q.condition) == (x, condition)), None)
    if made is None:
        made = Quantile(x, condition, f.schema)
        f.quantiles.append(made)
    at = made.add(share)

    def read(c: Context) -> Noisy:
        before = 0
        for quantile in f.quantiles:
            if quantile is made:
                return c.quantiles[before + at]
            before += len(quantile.shares)
        raise AssertionError

    return read


def _share(e: Any) -> float:
    try:
        share = float(e.this)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share < 1:
        raise QueryNotAllowed(f"PERCENTILE_CONT({_sql(e)}): want a constant between 0 and 1.")
    return share


AGGREGATES: dict[str, Callable[[Formulas, Any, str], Formula]] = {
    "Count": _count,
    "CountIf": _count_if,
    "Sum": _one(Moments.sum),
    "Avg": _one(average),
    "VariancePop": _one(lambda m, c, x: variance(m, c, x, sample=False)),
    "Variance": _one(lambda m, c, x: variance(m, c, x, sample=True)),
    "StddevPop": _one(lambda m, c, x: root(variance(m, c, x, sample=False))),
    "StddevSamp": _one(lambda m, c, x: root(variance(m, c, x, sample=True))),
    "Stddev": _one(lambda m, c, x: root(variance(m, c, x, sample=True))),
    "CovarPop": _two(lambda m, c, x, y: covariance(m, c, x, y, sample=False)),
    "CovarSamp": _two(lambda m, c, x, y: covariance(m, c, x, y, sample=True)),
    "Corr": _two(correlation),
    "Median": _quantile,
    "PercentileCont": _quantile,
    "WithinGroup": _quantile,
}
ALIASES = {"mean": "Avg"}
SPELLED = (
    "COUNT", "COUNT_IF", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP",
    "COVAR_POP", "COVAR_SAMP", "CORR", "MEDIAN", "PERCENTILE_CONT",
)  # fmt: skip


# --- formulas over them ---------------------------------------------------------------------

Builder = Callable[[Formulas, Any, dict[str, int]], Formula]


def _literal(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    if e.is_string:
        raise QueryNotAllowed(f"{_sql(e)}: text has no place in a formula of aggregates.")
    value = float(e.this)
    return lambda c: c.constant(value)


def _boolean(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    return lambda c: np.full(len(c.cells), bool(e.this))


def _number(f: Formulas, e: Any, names: dict[str, int]) -> Callable[[Context], Noisy]:
    made = f.compile(e, names)

    def read(c: Context) -> Noisy:
        found = made(c)
        return found if isinstance(found, Noisy) else Noisy(np.asarray(found, dtype=float), {})

    return read


def _binary(apply: Callable[[Noisy, Noisy], Any]) -> Builder:
    def build(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
        a, b = _number(f, e.this, names), _number(f, e.expression, names)
        return lambda c: apply(a(c), b(c))

    return build


def _compare(test: Callable[[Any, Any], Any]) -> Builder:
    return _binary(lambda a, b: np.asarray(test(a.value, b.value), dtype=bool))


def _logic(test: Callable[[Any, Any], Any]) -> Builder:
    def build(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
        a, b = f.compile(e.this, names), f.compile(e.expression, names)
        return lambda c: test(_truth(a(c)), _truth(b(c)))

    return build


def _truth(found: Any) -> Bools:
    if isinstance(found, Noisy):
        raise QueryNotAllowed("AND, OR and NOT want true or false: compare the aggregates.")
    return np.asarray(found, dtype=bool)


def _unary(f_: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Builder:
    def build(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
        a = _number(f, e.this, names)

        def read(c: Context) -> Noisy:
            with np.errstate(all="ignore"):
                return a(c).through(f_, slope)

        return read

    return build


def _round(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    a = _number(f, e.this, names)
    digits = int(e.args["decimals"].this) if e.args.get("decimals") is not None else 0
    return lambda c: a(c).through(lambda v: np.round(v, digits), np.ones_like)


def _between(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    a, low, high = (_number(f, x, names) for x in (e.this, e.args["low"], e.args["high"]))
    return lambda c: (a(c).value >= low(c).value) & (a(c).value <= high(c).value)


def _case(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    if e.args.get("this") is not None:
        raise QueryNotAllowed("CASE x WHEN ...: write CASE WHEN x = ... instead.")
    branches = [
        (f.compile(b.this, names), _number(f, b.args["true"], names)) for b in e.args["ifs"]
    ]
    last = e.args.get("default")
    final = _number(f, last, names) if last is not None else lambda c: c.constant(np.nan)

    def read(c: Context) -> Noisy:
        out = final(c)
        for test, result in reversed(branches):
            out = where(_truth(test(c)), result(c), out)
        return out

    return read


def _coalesce(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    parts = [_number(f, x, names) for x in (e.this, *e.expressions)]

    def read(c: Context) -> Noisy:
        out = parts[-1](c)
        for part in reversed(parts[:-1]):
            found = part(c)
            out = where(~np.isnan(found.value), found, out)
        return out

    return read


def _extreme(pick: Callable[[Any, Any], Any]) -> Builder:
    def build(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
        parts = [_number(f, x, names) for x in (e.this, *e.expressions)]

        def read(c: Context) -> Noisy:
            out = parts[0](c)
            for part in parts[1:]:
                found = part(c)
                out = where(pick(out.value, found.value), out, found)
            return out

        return read

    return build


def _nullif(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    a, b = _number(f, e.this, names), _number(f, e.expression, names)
    return lambda c: where(a(c).value == b(c).value, c.constant(np.nan), a(c))


def _inner(f: Formulas, e: Any, names: dict[str, int]) -> Formula:
    return f.compile(e.this, names)


BUILDERS: dict[str, Builder] = {
    "Literal": _literal,
    "Boolean": _boolean,
    "Null": lambda f, e, names: lambda c: c.constant(np.nan),
    "Paren": _inner,
    "Cast": _inner,
    "Neg": _unary(lambda v: -v, lambda v: -np.ones_like(v)),
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Mul": _binary(lambda a, b: a * b),
    "Div": _binary(lambda a, b: a / b),
    "Abs": _unary(np.abs, np.sign),
    "Sqrt": _unary(lambda v: np.sqrt(np.maximum(v, 0)), lambda v: 0.5 / np.sqrt(np.maximum(v, 0))),
    "Ln": _unary(np.log, lambda v: 1 / v),
    "Exp": _unary(np.exp, np.exp),
    "Floor": _unary(np.floor, np.ones_like),
    "Ceil": _unary(np.ceil, np.ones_like),
    "Round": _round,
    "EQ": _compare(np.equal),
    "NEQ": _compare(np.not_equal),
    "LT": _compare(np.less),
    "LTE": _compare(np.less_equal),
    "GT": _compare(np.greater),
    "GTE": _compare(np.greater_equal),
    "Between": _between,
    "And": _logic(np.logical_and),
    "Or": _logic(np.logical_or),
    "Not": lambda f, e, names: (lambda made: lambda c: ~_truth(made(c)))(f.compile(e.this, names)),
    "Case": _case,
    "Coalesce": _coalesce,
    "Nullif": _nullif,
    "Least": _extreme(np.less_equal),
    "Greatest": _extreme(np.greater_equal),
}
