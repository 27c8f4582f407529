"""Expressions of aggregates: SUM(a) / SUM(b), 100 * AVG(smoker), CASE WHEN COUNT(*) > 5 ...

Everything that can be refused is refused while compiling, before anything is paid. Conditions
are true, false or unknown, as in SQL: what has no value makes a comparison unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions import MAX_DEPTH, parse, predicate, shorten
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
from sulq.tree import NUMERIC

Bools = NDArray[np.bool_]
Numbers = Callable[["Context"], Noisy]


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
        self.divisors: list[Noisy] = []  # what was divided by, on the way

    def constant(self, value: float) -> Noisy:
        """The same number in every cell."""
        return Noisy(np.full(len(self.cells), float(value)), {})


@dataclass(frozen=True)
class Truth:
    """True, false or unknown, in every cell."""

    true: Bools
    known: Bools

    def number(self) -> Noisy:
        """1, 0 or missing."""
        return Noisy(np.where(self.known, self.true.astype(float), np.nan), {})


@dataclass(frozen=True)
class Formula:
    """A compiled expression. `kind` says what it reads: number, truth or label."""

    kind: str
    read: Callable[[Context], Any]


class Formulas:
    """Compiles the outputs of one statement, collecting the sums they need."""

    def __init__(self, schema: Schema, keys: tuple[str, ...], above_low: bool = False) -> None:
        self.schema = schema
        self.keys = keys
        self.moments = Moments(schema, above_low)
        self.quantiles: list[Quantile] = []
        self.people: list[str] = []  # conditions of COUNT(DISTINCT person)
        self._nodes = [parse(key, schema) for key in keys]
        self._places = {node.text: i for i, node in enumerate(self._nodes)}
        self._spelled: dict[str, str] = {}
        self._depth = 0

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
        """Does it ask for sums, not only for quantiles and people?"""
        return bool(self.moments.sums or self.moments.groups)

    @property
    def flat(self) -> int:
        """How many of its queries have one cell per group."""
        return int(self.asks) + len(self.people)

    def released(self, columns: list[Noisy], cells: list[tuple[Any, ...]]) -> Context:
        """Name the numbers that came back."""
        plain = len(self.moments.sums) + sum(1 + len(g.members) for g in self.moments.groups)
        after = plain + len(self.people)
        moments = self.moments.released(columns[:plain])
        return Context(moments, columns[plain:after], columns[after:], cells)

    def number(self, formula: Formula, context: Context) -> Noisy:
        """The value of an output in every cell; true and false count as 1 and 0."""
        found: Noisy | Truth = formula.read(context)
        return found.number() if isinstance(found, Truth) else found

    def test(self, formula: Formula, context: Context) -> Bools:
        """Where a HAVING holds; unknown is not true."""
        found = formula.read(context)
        assert isinstance(found, Truth)
        return found.true & found.known

    def ranks(self, by: Formula | int, context: Context) -> list[Any]:
        """What to sort by; None where it is missing."""
        if isinstance(by, int):
            return [c[by] for c in context.cells]
        return [None if np.isnan(v) else v for v in self.number(by, context).value.tolist()]

    def small(self, context: Context, stds: list[Any]) -> Bools:
        """Cells where what is divided by is within the noise: the quotient means little."""
        weak = np.zeros(len(context.cells), dtype=bool)
        counts = [context.moments.counts[i] for i, g in enumerate(self.moments.groups) if g.members]
        for divisor in [*counts, *context.divisors]:
            with np.errstate(all="ignore"):
                error = np.sqrt(divisor.variance(stds))
                weak |= (error > 0) & ~(np.abs(divisor.value) >= 4 * error)
        for count in counts:
            weak |= ~(count.value > 0)
        return weak

    # --- compiling ----------------------------------------------------------------------

    def count(self, condition: str) -> Formula:
        """COUNT(*)."""
        read = self.moments.count(condition)
        return Formula("number", lambda c: read(c.moments))

    def place(self, e: Any) -> int | None:
        """Which group key an expression is, however it is spelled."""
        if not self.keys or has_aggregate(e):
            return None
        try:
            return self._places.get(parse(sql_of(e), self.schema).text)
        except QueryNotAllowed:
            return None

    def compile(self, e: Any) -> Formula:
        """An expression of aggregates, group keys and constants."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise QueryNotAllowed("the statement is nested too deeply.")
        try:
            return self._compiled(e)
        finally:
            self._depth -= 1

    def _compiled(self, e: Any) -> Formula:
        kind = type(e).__name__
        if is_aggregate(e):
            return self._aggregate(e, "true")
        if kind == "Filter":
            if not is_aggregate(e.this):
                raise refuse(e.this)
            return self._aggregate(e.this, self.condition(sql_of(e.expression.this)))
        at = self.place(e)
        if at is not None:
            return self._key(at)
        builder = BUILDERS.get(kind)
        if builder is not None:
            return builder(self, e)
        if kind == "Column":
            raise QueryNotAllowed(
                f"{e.name!r} would return rows. Ask for a sum or a count, or add it to GROUP BY."
            )
        raise refuse(e)

    def _key(self, at: int) -> Formula:
        node = self._nodes[at]
        binned = node.op == "column" and self.schema[node.value].bins is not None
        if node.type == "boolean":
            return Formula("truth", lambda c: _truth_of([x[at] for x in c.cells]))
        if node.type not in NUMERIC or binned:
            return Formula("label", lambda c: [x[at] for x in c.cells])

        def read(c: Context) -> Noisy:
            labels = [x[at] for x in c.cells]
            return Noisy(np.array([np.nan if x is None else float(x) for x in labels]), {})

        return Formula("number", read)

    def _aggregate(self, e: Any, condition: str) -> Formula:
        kind = type(e).__name__
        if kind == "Anonymous":
            kind = ALIASES[str(e.this).lower()]
        return Formula("number", AGGREGATES[kind](self, e, condition))

    def spelled(self, text: str) -> str:
        """One spelling for all that mean the same, so that nothing is asked twice."""
        return self._spelled.setdefault(parse(text, self.schema).text, text)

    def condition(self, text: str) -> str:
        """The predicate of a FILTER, in one spelling."""
        predicate(text, self.schema)
        return self.spelled(text)

    def number_of(self, e: Any) -> Numbers:
        """Compile what must be a number; true and false count as 1 and 0."""
        return _numbers(self.compile(e), e)

    def truth_of(self, e: Any, what: str) -> Callable[[Context], Truth]:
        """Compile what must be true or false."""
        made = self.compile(e)
        if made.kind != "truth":
            raise QueryNotAllowed(f"{what} wants true or false: compare {shorten(sql_of(e))}.")
        return made.read


def _numbers(made: Formula, e: Any) -> Numbers:
    if made.kind == "label":
        raise QueryNotAllowed(
            f"{shorten(sql_of(e))}: text and dates can be compared by =, <> and IN only. Choose "
            "rows by them in WHERE."
        )
    if made.kind == "truth":
        return lambda c: made.read(c).number()
    return made.read


def sql_of(e: Any) -> str:
    """An expression as text."""
    return str(e.sql(dialect="duckdb", comments=False))


def is_aggregate(e: Any) -> bool:
    """Is it one of AGGREGATES, under any of its names?"""
    kind = type(e).__name__
    return kind in AGGREGATES or (kind == "Anonymous" and str(e.this).lower() in ALIASES)


def has_aggregate(e: Any) -> bool:
    """Is there an aggregate anywhere inside?"""
    return any(is_aggregate(node) for node in e.walk())


def label_name(label: Any) -> Any:
    """A group key as a table shows it."""
    return "other" if label is None else label


def refuse(e: Any) -> QueryNotAllowed:
    """Why an expression is not answered, and the nearest thing that is."""
    if type(e).__name__ == "IgnoreNulls" and not is_aggregate(e.this):
        return refuse(e.this)  # how ANY_VALUE and its like are read
    name = str(e.this) if type(e).__name__ == "Anonymous" else type(e).__name__
    said = f"{shorten(sql_of(e))}: "
    if name.lower() in NEAREST:
        return QueryNotAllowed(said + NEAREST[name.lower()])
    return QueryNotAllowed(
        f"{said}{name.lower()} is not answered over aggregates. Aggregates: "
        f"{', '.join(sorted(set(SPELLED)))}; between them: + - * /, CASE, COALESCE, NULLIF, ROUND, "
        "ABS, SQRT, LN, EXP, LEAST, GREATEST."
    )


_ROWS = "it would return what is in a row. GROUP BY declared values and COUNT(*) instead."
_OVER = "window functions give a number per row. Use GROUP BY, or FILTER (WHERE ...)."
NEAREST = {
    "max": "one row alone decides a maximum. Nearest: PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY "
    "x), or COUNT(*) by bins of x.",
    "min": "one row alone decides a minimum. Nearest: PERCENTILE_CONT(0.01) WITHIN GROUP (ORDER BY "
    "x), or COUNT(*) by bins of x.",
    "mode": "use GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1.",
    "window": _OVER,
    "subquery": "a subquery is not answered here. Name rows with WITH, or use FILTER (WHERE ...).",
    "exists": "a subquery is not answered here. Name rows with WITH, or use FILTER (WHERE ...).",
    "approxdistinct": "different values are not counted. COUNT(DISTINCT person) counts people, "
    "where [unit] declares them; GROUP BY gives every declared value.",
    "quantile": "use PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).",
    "approxquantile": "use PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).",
    "percentiledisc": "use PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).",
    "intdiv": "use FLOOR(a / b).",
    "dpipe": "text is compared, not built; give the output a name with AS.",
    "mod": "remainders are answered of rows, inside an aggregate, not of aggregates.",
    "ignorenulls": "IGNORE NULLS is what aggregates do anyway; leave it out.",
    "regrslope": "use COVAR_POP(y, x) / VAR_POP(x).",
    "product": "use EXP(SUM(LN(x))) for positive x with declared bounds.",
    "geomean": "use EXP(AVG(LN(x))) for positive x with declared bounds.",
    "logicaland": "one row alone decides it. COUNT_IF(p) and COUNT(*) say how many.",
    "logicalor": "one row alone decides it. COUNT_IF(p) and COUNT(*) say how many.",
    **dict.fromkeys(
        ("first", "last", "anyvalue", "any_value", "arbitrary", "groupconcat", "arrayagg", "list",
         "argmax", "argmin", "arg_max", "arg_min", "max_by", "min_by", "string_agg", "histogram"),
        _ROWS,
    ),
}  # fmt: skip


# --- aggregates -----------------------------------------------------------------------------

_DISTINCT = (
    "different values are not counted: one row alone can add one. COUNT(DISTINCT person) counts "
    "people, where [unit] declares their column; GROUP BY gives every declared value."
)


def _argument(f: Formulas, e: Any) -> str:
    """The one argument of an aggregate, in one spelling."""
    arguments = e.expressions if type(e).__name__ == "Anonymous" else [e.this, *e.expressions]
    if len(arguments) != 1 or arguments[0] is None:
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: want one argument.")
    return f.spelled(_of_rows(e, arguments[0]))


def _of_rows(e: Any, argument: Any) -> str:
    """An argument is a row function: no DISTINCT, no ORDER BY, no aggregate within."""
    kind = type(argument).__name__
    if kind == "Distinct":
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: {_DISTINCT}")
    if kind == "Order":
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: the order of rows changes nothing here.")
    if kind != "Star" and has_aggregate(argument):
        raise QueryNotAllowed(
            f"{shorten(sql_of(e))}: an aggregate of aggregates is not answered. Combine them by "
            "+ - * / and CASE."
        )
    return sql_of(argument)


def _count(f: Formulas, e: Any, condition: str) -> Numbers:
    if type(e.this).__name__ == "Distinct":
        return _people(f, e, condition)
    star = (type(e.this).__name__ == "Star" and not any(e.this.args.values())) or e.this is None
    read = f.moments.count(condition, None if star else _argument(f, e))
    return lambda c: read(c.moments)


def _people(f: Formulas, e: Any, condition: str) -> Numbers:
    names = e.this.expressions
    unit = f.schema.unit
    asked = f.schema.get(names[0].name) if type(names[0]).__name__ == "Column" else None
    if unit is None or len(names) != 1 or asked is None or asked.name != unit.column:
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: {_DISTINCT}")
    if condition not in f.people:
        f.people.append(condition)
    at = f.people.index(condition)
    return lambda c: c.people[at]


def _count_if(f: Formulas, e: Any, condition: str) -> Numbers:
    test = f.condition(_argument(f, e))
    both = test if condition == "true" else f.condition(f"({condition}) AND ({test})")
    read = f.moments.count(both)
    return lambda c: read(c.moments)


def _one(make: Callable[..., Any]) -> Callable[[Formulas, Any, str], Numbers]:
    def build(f: Formulas, e: Any, condition: str) -> Numbers:
        read = make(f.moments, condition, _argument(f, e))
        return lambda c: read(c.moments)

    return build


def _two(make: Callable[..., Any]) -> Callable[[Formulas, Any, str], Numbers]:
    def build(f: Formulas, e: Any, condition: str) -> Numbers:
        x, y = (f.spelled(_of_rows(e, part)) for part in (e.this, e.expression))
        read = make(f.moments, condition, x, y)
        return lambda c: read(c.moments)

    return build


def _quantile(f: Formulas, e: Any, condition: str) -> Numbers:
    kind = type(e).__name__
    share: Any = 0.5
    if kind == "WithinGroup":
        inner, order = e.this, e.expression.expressions
        if type(inner).__name__ not in ("PercentileCont", "PercentileDisc") or len(order) != 1:
            raise QueryNotAllowed("WITHIN GROUP: want PERCENTILE_CONT(p) ... (ORDER BY x).")
        argument, share = order[0].this, _share(inner.this)
        if order[0].args.get("desc"):
            share = 1 - share
    elif kind == "Median":
        argument = e.this
    else:
        if e.args.get("expression") is None:
            raise QueryNotAllowed("PERCENTILE_CONT(p) needs WITHIN GROUP (ORDER BY x).")
        argument, share = e.this, _share(e.expression)
    x = f.spelled(_of_rows(e, argument))
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
        raise QueryNotAllowed(f"PERCENTILE_CONT({sql_of(e)}): want a constant between 0 and 1.")
    return share


AGGREGATES: dict[str, Callable[[Formulas, Any, str], Numbers]] = {
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

Builder = Callable[[Formulas, Any], Formula]


def _truth_of(labels: list[Any]) -> Truth:
    known = np.array([x is not None for x in labels])
    return Truth(np.array([bool(x) for x in labels]), known)


def _literal(f: Formulas, e: Any) -> Formula:
    text = str(e.this)
    if e.is_string:
        return Formula("label", lambda c: [text] * len(c.cells))
    try:
        value = float(text)
    except ValueError:
        value = np.inf
    if not abs(value) < 1e300:
        raise QueryNotAllowed(f"{shorten(text)!r} is not a number up to 1e300.")
    return Formula("number", lambda c: c.constant(value))


def _boolean(f: Formulas, e: Any) -> Formula:
    value = bool(e.this)
    return Formula("truth", lambda c: _truth_of([value] * len(c.cells)))


def _null(f: Formulas, e: Any) -> Formula:
    return Formula("number", lambda c: c.constant(np.nan))


def _binary(apply: Callable[[Noisy, Noisy], Noisy]) -> Builder:
    def build(f: Formulas, e: Any) -> Formula:
        a, b = f.number_of(e.this), f.number_of(e.expression)
        return Formula("number", lambda c: apply(a(c), b(c)))

    return build


def _divide(f: Formulas, e: Any) -> Formula:
    a, b = f.number_of(e.this), f.number_of(e.expression)

    def read(c: Context) -> Noisy:
        divisor = b(c)
        if divisor.slopes:
            c.divisors.append(divisor)
        return a(c) / divisor

    return Formula("number", read)


def _power(f: Formulas, e: Any) -> Formula:
    a = f.number_of(e.this)
    by = e.expression
    if type(by).__name__ != "Literal" or by.is_string or by.this not in ("2", "3", "4"):
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: the power is 2, 3 or 4.")
    n = int(by.this)
    return Formula("number", lambda c: a(c).through(lambda v: v**n, lambda v: n * v ** (n - 1)))


def _compare(test: Callable[[Any, Any], Any], *, ordered: bool = True) -> Builder:
    def build(f: Formulas, e: Any) -> Formula:
        a, b = f.compile(e.this), f.compile(e.expression)
        if not ordered and (a.kind, b.kind) == ("label", "label"):
            return Formula("truth", lambda c: _matched(test, a.read(c), b.read(c)))
        left, right = _numbers(a, e.this), _numbers(b, e.expression)
        return Formula("truth", lambda c: _compared(test, left(c), right(c)))

    return build


def _compared(test: Callable[[Any, Any], Any], a: Noisy, b: Noisy) -> Truth:
    known = ~(np.isnan(a.value) | np.isnan(b.value))
    return Truth(np.asarray(test(a.value, b.value), dtype=bool), known)


def _matched(test: Callable[[Any, Any], Any], a: list[Any], b: list[Any]) -> Truth:
    """Texts and dates, one by one: region = 'north'."""
    pairs = list(zip(a, b, strict=True))
    known = np.array([None not in pair for pair in pairs])
    return Truth(np.array([bool(test(str(x), str(y))) for x, y in pairs]), known)


def _in(f: Formulas, e: Any) -> Formula:
    if e.args.get("query") is not None or not e.expressions:
        raise QueryNotAllowed("IN takes a list of constants, not a subquery.")
    a, items = f.compile(e.this), [f.compile(x) for x in e.expressions]
    if {a.kind, *(i.kind for i in items)} == {"label"}:

        def listed(c: Context) -> Truth:
            found = a.read(c)
            return _any([_matched(np.equal, found, i.read(c)) for i in items])

        return Formula("truth", listed)
    x = _numbers(a, e.this)
    numbers = [_numbers(i, part) for i, part in zip(items, e.expressions, strict=True)]

    def read(c: Context) -> Truth:
        found = x(c)
        return _any([_compared(np.equal, found, n(c)) for n in numbers])

    return Formula("truth", read)


def _all(parts: list[Truth]) -> Truth:
    false = np.logical_or.reduce([p.known & ~p.true for p in parts])
    known = np.logical_and.reduce([p.known for p in parts]) | false
    return Truth(known & ~false, known)


def _any(parts: list[Truth]) -> Truth:
    true = np.logical_or.reduce([p.known & p.true for p in parts])
    return Truth(true, np.logical_and.reduce([p.known for p in parts]) | true)


def _logic(join: Callable[[list[Truth]], Truth], word: str) -> Builder:
    def build(f: Formulas, e: Any) -> Formula:
        a, b = f.truth_of(e.this, word), f.truth_of(e.expression, word)
        return Formula("truth", lambda c: join([a(c), b(c)]))

    return build


def _not(f: Formulas, e: Any) -> Formula:
    a = f.truth_of(e.this, "NOT")

    def read(c: Context) -> Truth:
        found = a(c)
        return Truth(~found.true, found.known)

    return Formula("truth", read)


def _is(f: Formulas, e: Any) -> Formula:
    what = type(e.expression).__name__
    made = f.compile(e.this)
    if what == "Boolean" and made.kind == "truth":
        wanted = bool(e.expression.this)

        def matches(c: Context) -> Truth:
            found = made.read(c)
            return Truth(found.known & (found.true == wanted), np.ones_like(found.known))

        return Formula("truth", matches)
    if what != "Null":
        raise QueryNotAllowed(f"{shorten(sql_of(e))}: IS takes NULL, TRUE or FALSE.")

    def missing(c: Context) -> Truth:
        found = made.read(c)
        if isinstance(found, list):
            none = np.array([x is None for x in found])
        else:
            none = np.isnan((found.number() if isinstance(found, Truth) else found).value)
        return Truth(none, np.ones_like(none))

    return Formula("truth", missing)


def _between(f: Formulas, e: Any) -> Formula:
    a, low, high = (f.number_of(x) for x in (e.this, e.args["low"], e.args["high"]))

    def read(c: Context) -> Truth:
        x = a(c)
        return _all([
            _compared(np.greater_equal, x, low(c)), _compared(np.less_equal, x, high(c))
        ])  # fmt: skip

    return Formula("truth", read)


def _unary(f_: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Builder:
    def build(f: Formulas, e: Any) -> Formula:
        a = f.number_of(e.this)

        def read(c: Context) -> Noisy:
            with np.errstate(all="ignore"):
                return a(c).through(f_, slope)

        return Formula("number", read)

    return build


def _half_away(v: Any, digits: int = 0) -> Any:
    scale = 10.0**digits
    return np.copysign(np.floor(np.abs(v) * scale + 0.5), v) / scale


DIGITS = tuple("0123456789")


def _round(f: Formulas, e: Any) -> Formula:
    a = f.number_of(e.this)
    wanted = e.args.get("decimals")
    if wanted is not None and (
        type(wanted).__name__ != "Literal" or wanted.this not in list("0123456789")
    ):
        raise QueryNotAllowed("round: the number of digits is a constant from 0 to 9.")
    digits = int(wanted.this) if wanted is not None else 0
    return Formula("number", lambda c: a(c).through(lambda v: _half_away(v, digits), np.ones_like))


def _cast(f: Formulas, e: Any) -> Formula:
    target = str(e.to.this.name).lower()
    if target in ("float", "double", "decimal", "real"):
        return Formula("number", f.number_of(e.this))
    if target in ("tinyint", "smallint", "int", "bigint", "int128"):
        a = f.number_of(e.this)
        return Formula("number", lambda c: a(c).through(_half_away, np.ones_like))
    raise QueryNotAllowed(
        f"{shorten(sql_of(e))}: aggregates are numbers; cast to INTEGER or DOUBLE."
    )


def _case(f: Formulas, e: Any) -> Formula:
    if e.args.get("this") is not None:
        raise QueryNotAllowed("CASE x WHEN ...: write CASE WHEN x = ... instead.")
    branches = [
        (f.truth_of(b.this, "CASE WHEN"), f.number_of(b.args["true"])) for b in e.args["ifs"]
    ]
    return _chosen(f, branches, e.args.get("default"))


def _if(f: Formulas, e: Any) -> Formula:
    branch = (f.truth_of(e.this, "IF"), f.number_of(e.args["true"]))
    return _chosen(f, [branch], e.args.get("false"))


def _chosen(f: Formulas, branches: list[Any], last: Any) -> Formula:
    final = f.number_of(last) if last is not None else lambda c: c.constant(np.nan)

    def read(c: Context) -> Noisy:
        out = final(c)
        for test, result in reversed(branches):
            found = test(c)
            out = where(found.true & found.known, result(c), out)
        return out

    return Formula("number", read)


def _coalesce(f: Formulas, e: Any) -> Formula:
    parts = [f.number_of(x) for x in (e.this, *e.expressions)]

    def read(c: Context) -> Noisy:
        out = parts[-1](c)
        for part in reversed(parts[:-1]):
            found = part(c)
            out = where(~np.isnan(found.value), found, out)
        return out

    return Formula("number", read)


def _extreme(pick: Callable[[Any, Any], Any]) -> Builder:
    def build(f: Formulas, e: Any) -> Formula:
        parts = [f.number_of(x) for x in (e.this, *e.expressions)]

        def read(c: Context) -> Noisy:
            out = parts[0](c)
            for part in parts[1:]:  # missing ones are skipped
                found = part(c)
                keep = np.isnan(found.value) | pick(out.value, found.value)
                out = where(keep & ~np.isnan(out.value), out, found)
            return out

        return Formula("number", read)

    return build


def _nullif(f: Formulas, e: Any) -> Formula:
    a, b = f.number_of(e.this), f.number_of(e.expression)

    def read(c: Context) -> Noisy:
        found = a(c)
        return where(found.value == b(c).value, c.constant(np.nan), found)

    return Formula("number", read)


BUILDERS: dict[str, Builder] = {
    "Literal": _literal,
    "Boolean": _boolean,
    "Null": _null,
    "Paren": lambda f, e: f.compile(e.this),
    "Cast": _cast,
    "Neg": _unary(lambda v: -v, lambda v: -np.ones_like(v)),
    "Add": _binary(lambda a, b: a + b),
    "Sub": _binary(lambda a, b: a - b),
    "Mul": _binary(lambda a, b: a * b),
    "Div": _divide,
    "Pow": _power,
    "Abs": _unary(np.abs, np.sign),
    "Sqrt": _unary(lambda v: np.sqrt(np.maximum(v, 0)), lambda v: 0.5 / np.sqrt(np.maximum(v, 0))),
    "Ln": _unary(np.log, lambda v: 1 / v),
    "Exp": _unary(np.exp, np.exp),
    "Floor": _unary(np.floor, np.ones_like),
    "Ceil": _unary(np.ceil, np.ones_like),
    "Round": _round,
    "EQ": _compare(np.equal, ordered=False),
    "NEQ": _compare(np.not_equal, ordered=False),
    "LT": _compare(np.less),
    "LTE": _compare(np.less_equal),
    "GT": _compare(np.greater),
    "GTE": _compare(np.greater_equal),
    "Between": _between,
    "In": _in,
    "Is": _is,
    "And": _logic(_all, "AND"),
    "Or": _logic(_any, "OR"),
    "Not": _not,
    "Case": _case,
    "If": _if,
    "Coalesce": _coalesce,
    "Nullif": _nullif,
    "Least": _extreme(np.less_equal),
    "Greatest": _extreme(np.greater_equal),
}
