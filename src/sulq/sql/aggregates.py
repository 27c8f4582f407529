"""The aggregates that are answered, and why the others are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sulq.errors import QueryNotAllowed
from sulq.expressions import shorten
from sulq.sql.formula import Context, Numbers, sql_of
from sulq.sql.moments import Moments, average, correlation, covariance, root, variance
from sulq.sql.noisy import Noisy
from sulq.sql.quantiles import Quantile

if TYPE_CHECKING:
    from sulq.sql.formulas import Formulas

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


# --- what is one, and what is not ----------------------------------------------------------


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
