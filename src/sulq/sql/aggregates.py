"""The aggregates that are answered, and why the others are not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.node import NUMERIC, Node
from sulq.expressions.parse import parse, shorten
from sulq.sql.formula import Context, Formula, Numbers, Sums
from sulq.sql.moments import (
    Moments,
    Read,
    average,
    correlation,
    covariance,
    intercept,
    regression,
    root,
    variance,
)
from sulq.sql.noisy import Noisy
from sulq.sql.quantiles import ChosenPercentile, Quantile

_DISTINCT = (
    "different values are not counted: one row alone can add one. COUNT(DISTINCT person) counts "
    "people, where [unit] declares their column; GROUP BY gives every declared value."
)


Build = Callable[[Sums, Any, str], Formula]
Width = Callable[..., float]  # of an aggregate's range, from the widths of its arguments


def _formula(f: Sums, read: Numbers, width: Width | None = None, *texts: str) -> Formula:
    """A number, and how wide its range is: infinite where the declared ends do not give it."""
    spans = [_span(parse(text, f.schema)) for text in texts]
    known = all(map(math.isfinite, spans))
    return Formula("number", read, width(*spans) if width and known else math.inf)


def _span(node: Node) -> float:
    if node.type == "boolean":
        return 1.0
    known = node.type in NUMERIC and node.bounded
    return float(node.high) - float(node.low) if known else math.inf


def _argument(f: Sums, e: Any) -> str:
    """The one argument of an aggregate, in one spelling."""
    arguments = e.expressions if type(e).__name__ == "Anonymous" else [e.this, *e.expressions]
    if len(arguments) != 1 or arguments[0] is None:
        raise QueryNotAllowed(f"{shorten(written(e))}: want one argument.")
    return f.spelled(_of_rows(e, arguments[0]))


def _of_rows(e: Any, argument: Any) -> str:
    """An argument is a row function: no DISTINCT, no ORDER BY, no aggregate within."""
    kind = type(argument).__name__
    if kind == "Distinct":
        raise QueryNotAllowed(f"{shorten(written(e))}: {_DISTINCT}")
    if kind == "Order":
        raise QueryNotAllowed(f"{shorten(written(e))}: the order of rows changes nothing here.")
    if kind != "Star" and has_aggregate(argument):
        raise QueryNotAllowed(
            f"{shorten(written(e))}: an aggregate of aggregates is not answered. Combine them by "
            "+ - * / and CASE."
        )
    return written(argument)


def _count(f: Sums, e: Any, condition: str) -> Formula:
    if type(e.this).__name__ == "Distinct":
        return _people(f, e, condition)
    star = (type(e.this).__name__ == "Star" and not any(e.this.args.values())) or e.this is None
    read = f.moments.count(condition, None if star else _argument(f, e))
    return _formula(f, lambda c: read(c.moments))


def _people(f: Sums, e: Any, condition: str) -> Formula:
    names = e.this.expressions
    unit = f.schema.unit
    asked = f.schema.get(names[0].name) if type(names[0]).__name__ == "Column" else None
    if unit is None or len(names) != 1 or asked is None or asked.name != unit.column:
        raise QueryNotAllowed(f"{shorten(written(e))}: {_DISTINCT}")
    if condition not in f.people:
        f.people.append(condition)
    at = f.people.index(condition)
    return _formula(f, lambda c: c.people[at])


def _count_if(f: Sums, e: Any, condition: str) -> Formula:
    test = f.condition(_argument(f, e))
    both = test if condition == "true" else f.condition(f"({condition}) AND ({test})")
    read = f.moments.count(both)
    return _formula(f, lambda c: read(c.moments))


def _one(make: Callable[..., Any], width: Width | None = None) -> Build:
    def build(f: Sums, e: Any, condition: str) -> Formula:
        x = _argument(f, e)
        read = make(f.moments, condition, x)
        return _formula(f, lambda c: read(c.moments), width, x)

    return build


def _arguments(f: Sums, e: Any) -> tuple[str, str]:
    """The two arguments of an aggregate, each in one spelling."""
    if e.this is None or e.expression is None:
        raise QueryNotAllowed(f"{shorten(written(e))}: want two arguments.")
    return f.spelled(_of_rows(e, e.this)), f.spelled(_of_rows(e, e.expression))


def _two(make: Callable[..., Any], width: Width) -> Build:
    def build(f: Sums, e: Any, condition: str) -> Formula:
        x, y = _arguments(f, e)
        read = make(f.moments, condition, x, y)
        return _formula(f, lambda c: read(c.moments), width, x, y)

    return build


def _line(make: Callable[..., tuple[Read, Read]]) -> Build:
    """A number of the line through the rows where both are known: a quotient."""

    def build(f: Sums, e: Any, condition: str) -> Formula:
        y, x = _arguments(f, e)
        over, by = make(f.moments, condition, y, x)

        def read(c: Context) -> Noisy:
            a, b = over(c.moments), by(c.moments)
            c.divisors.append(b)
            return (a / b).where(b.value > 0)

        return Formula("number", read, quotient=lambda c: (over(c.moments), by(c.moments)))

    return build


def _quantile(f: Sums, e: Any, condition: str) -> Formula:
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
    chosen = kind == "WithinGroup" and type(inner).__name__ == "PercentileDisc" and f.chooses
    made, at = _chosen(f, x, condition, share) if chosen else _read_off(f, x, condition, share)

    def read(c: Context) -> Noisy:
        before = f.quantiles[: f.quantiles.index(made)]
        return c.quantiles[sum(len(q.asked) for q in before) + at]

    return _formula(f, read, lambda width: width, x)


def _read_off(f: Sums, x: str, condition: str, share: float) -> tuple[Quantile, int]:
    """A quantile of a distribution function that all quantiles of x share, and its place there."""
    for q in f.quantiles:
        if isinstance(q, Quantile) and (q.x, q.condition) == (x, condition):
            return q, q.add(share)
    made = Quantile(x, condition, f.schema, f.combined, f.moments.is_counted(condition))
    f.quantiles.append(made)
    return made, made.add(share)


def _chosen(f: Sums, x: str, condition: str, share: float) -> tuple[ChosenPercentile, int]:
    """A percentile that is chosen by itself."""
    for q in f.quantiles:
        alike = isinstance(q, ChosenPercentile) and (q.x, q.condition) == (x, condition)
        if isinstance(q, ChosenPercentile) and alike and q.asked == [share]:
            return q, 0
    made = ChosenPercentile(x, condition, share, f.schema, f.keys)
    f.quantiles.append(made)
    return made, 0


def _share(e: Any) -> float:
    try:
        share = float(e.this)
    except (TypeError, ValueError):
        share = -1.0
    if not 0 < share < 1:
        raise QueryNotAllowed(f"PERCENTILE_CONT({written(e)}): want a constant between 0 and 1.")
    return share


AGGREGATES: dict[str, Build] = {
    "Count": _count,
    "CountIf": _count_if,
    "Sum": _one(Moments.sum),
    "Avg": _one(average, lambda x: x),
    "VariancePop": _one(lambda m, c, x: variance(m, c, x, sample=False), lambda x: x * x / 4),
    "Variance": _one(lambda m, c, x: variance(m, c, x, sample=True), lambda x: x * x / 2),
    "StddevPop": _one(lambda m, c, x: root(variance(m, c, x, sample=False)), lambda x: x / 2),
    "StddevSamp": _one(
        lambda m, c, x: root(variance(m, c, x, sample=True)), lambda x: x / math.sqrt(2)
    ),
    "CovarPop": _two(
        lambda m, c, x, y: covariance(m, c, x, y, sample=False), lambda x, y: x * y / 2
    ),
    "CovarSamp": _two(lambda m, c, x, y: covariance(m, c, x, y, sample=True), lambda x, y: x * y),
    "Corr": _two(correlation, lambda x, y: 2.0),
    "RegrSlope": _line(regression),
    "RegrIntercept": _line(intercept),
    "Median": _quantile,
    "PercentileCont": _quantile,
    "WithinGroup": _quantile,
}
AGGREGATES["Stddev"] = AGGREGATES["StddevSamp"]
ALIASES = {"mean": "Avg"}
SPELLED = (
    "COUNT", "COUNT_IF", "SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP",
    "COVAR_POP", "COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "MEDIAN",
    "PERCENTILE_CONT", "PERCENTILE_DISC",
)  # fmt: skip


# --- what is one, and what is not ----------------------------------------------------------


def aggregate(f: Sums, e: Any, condition: str) -> Formula:
    """An aggregate over the rows of a condition; `f` collects the sums it needs."""
    kind = type(e).__name__
    if kind == "Anonymous":
        kind = ALIASES[str(e.this).lower()]
    return AGGREGATES[kind](f, e, condition)


def is_aggregate(e: Any) -> bool:
    """Is it one of AGGREGATES, under any of its names?"""
    kind = type(e).__name__
    return kind in AGGREGATES or (kind == "Anonymous" and str(e.this).lower() in ALIASES)


def has_aggregate(e: Any) -> bool:
    """Is there an aggregate anywhere inside?"""
    return any(is_aggregate(node) for node in e.walk())


def refuse(e: Any) -> QueryNotAllowed:
    """Why an expression is not answered, and the nearest thing that is."""
    if type(e).__name__ == "IgnoreNulls" and not is_aggregate(e.this):
        return refuse(e.this)  # how ANY_VALUE and its like are read
    name = str(e.this) if type(e).__name__ == "Anonymous" else type(e).__name__
    said = f"{shorten(written(e))}: "
    if name.lower() in NEAREST:
        return QueryNotAllowed(said + NEAREST[name.lower()])
    return QueryNotAllowed(
        f"{said}this is not answered. Aggregates: "
        f"{', '.join(sorted(set(SPELLED)))}; between them: + - * /, CASE, COALESCE, NULLIF, ROUND, "
        "ABS, SQRT, LN, EXP, LEAST, GREATEST."
    )


_ROWS = "it would return what is in a row. GROUP BY declared values and COUNT(*) instead."
NEAREST = {
    "max": "one row alone decides a maximum. Nearest: PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY "
    "x), or COUNT(*) by bins of x.",
    "min": "one row alone decides a minimum. Nearest: PERCENTILE_CONT(0.01) WITHIN GROUP (ORDER BY "
    "x), or COUNT(*) by bins of x.",
    "mode": "use GROUP BY x ORDER BY COUNT(*) DESC LIMIT 1.",
    "window": "window functions give a number per row. Use GROUP BY, or FILTER (WHERE ...).",
    "subquery": "a subquery is not answered here. Name rows with WITH, or use FILTER (WHERE ...).",
    "exists": "a subquery is not answered here. Name rows with WITH, or use FILTER (WHERE ...).",
    "approxdistinct": _DISTINCT,
    "quantile": "use PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).",
    "approxquantile": "use PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x).",
    "percentiledisc": "PERCENTILE_DISC(p) needs WITHIN GROUP (ORDER BY x).",
    "intdiv": "use FLOOR(a / b).",
    "dpipe": "text is compared, not built; give the output a name with AS.",
    "mod": "remainders are answered of rows, inside an aggregate, not of aggregates.",
    "ignorenulls": "IGNORE NULLS is what aggregates do anyway; leave it out.",
    # Near 0 the square of a noisy number has an interval that is too narrow.
    "regrr2": "use CORR(y, x), and square it and the ends of its interval.",
    "regrcount": "use COUNT(*) FILTER (WHERE x IS NOT NULL AND y IS NOT NULL).",
    **dict.fromkeys(("regravgx", "regravgy"), "use AVG(x) FILTER (WHERE y IS NOT NULL)."),
    **dict.fromkeys(
        ("regrsxx", "regrsyy", "regrsxy"), "use COVAR_POP(y, x) and COUNT(*), times each other."
    ),
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
