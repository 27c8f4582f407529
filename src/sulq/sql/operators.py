"""What may stand between aggregates: arithmetic, comparisons, choices.

Conditions are true, false or unknown, as in SQL: what has no value makes a comparison unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions import shorten
from sulq.sql.formula import Context, Formula, Truth, numbers_of, sql_of, truth_of_labels
from sulq.sql.noisy import Noisy, where

if TYPE_CHECKING:
    from sulq.sql.formulas import Formulas

Builder = Callable[["Formulas", Any], Formula]


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
    return Formula("truth", lambda c: truth_of_labels([value] * len(c.cells)))


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
        left, right = numbers_of(a, e.this), numbers_of(b, e.expression)
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
    x = numbers_of(a, e.this)
    numbers = [numbers_of(i, part) for i, part in zip(items, e.expressions, strict=True)]

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
