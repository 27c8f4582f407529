"""What may stand between aggregates: arithmetic, comparisons, choices.

Conditions are true, false or unknown, as in SQL: what has no value makes a comparison unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.parse import shorten
from sulq.sql.formula import Context, Formula, Numbers, Truth, numbers_of, truth_of_labels
from sulq.sql.noisy import Noisy, where


class Compiler:
    """What an operator asks of the statement: its operands, compiled."""

    def compile(self, e: Any) -> Formula:
        """An expression of aggregates, group keys and constants."""
        raise NotImplementedError

    def check_equal(self, *sides: Any) -> None:
        """Refuse a group key compared with a value that it cannot have."""
        raise NotImplementedError

    def number_of(self, e: Any) -> Numbers:
        """Compile what must be a number; true and false count as 1 and 0."""
        return numbers_of(self.compile(e), e)

    def truth_of(self, e: Any, what: str) -> Callable[[Context], Truth]:
        """Compile what must be true or false."""
        made = self.compile(e)
        if made.kind != "truth":
            raise QueryNotAllowed(f"{what} wants true or false: compare {shorten(written(e))}.")
        return made.read


DIGITS = tuple("0123456789")
Builder = Callable[[Compiler, Any], Formula]


def _literal(f: Compiler, e: Any) -> Formula:
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


def _boolean(f: Compiler, e: Any) -> Formula:
    value = bool(e.this)
    return Formula("truth", lambda c: truth_of_labels([value] * len(c.cells)))


def _null(f: Compiler, e: Any) -> Formula:
    return Formula("number", lambda c: c.constant(np.nan))


def _binary(apply: Callable[[Context, Noisy, Noisy], Noisy]) -> Builder:
    def build(f: Compiler, e: Any) -> Formula:
        a, b = f.number_of(e.this), f.number_of(e.expression)
        return Formula("number", lambda c: apply(c, a(c), b(c)))

    return build


def _quotient(f: Compiler, e: Any) -> Formula:
    over, by = f.number_of(e.this), f.number_of(e.expression)

    def read(c: Context) -> Noisy:
        a, b = over(c), by(c)
        if b.slopes:
            c.divisors.append(b)
        return a / b

    return Formula("number", read, quotient=lambda c: (over(c), by(c)))


def _power(f: Compiler, e: Any) -> Formula:
    a = f.number_of(e.this)
    by = e.expression
    if type(by).__name__ != "Literal" or by.is_string or by.this not in ("2", "3", "4"):
        raise QueryNotAllowed(f"{shorten(written(e))}: the power is 2, 3 or 4.")
    n = int(by.this)
    return Formula("number", lambda c: a(c).through(lambda v: v**n, lambda v: n * v ** (n - 1)))


def _compare(test: Callable[[Any, Any], Any], *, ordered: bool = True) -> Builder:
    def build(f: Compiler, e: Any) -> Formula:
        a, b = f.compile(e.this), f.compile(e.expression)
        if not ordered:
            f.check_equal(e.this, e.expression)
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


def _in(f: Compiler, e: Any) -> Formula:
    if e.args.get("query") is not None or not e.expressions:
        raise QueryNotAllowed("IN takes a list of constants, not a subquery.")
    a, items = f.compile(e.this), [f.compile(x) for x in e.expressions]
    for part in e.expressions:
        f.check_equal(e.this, part)
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
    def build(f: Compiler, e: Any) -> Formula:
        a, b = f.truth_of(e.this, word), f.truth_of(e.expression, word)
        return Formula("truth", lambda c: join([a(c), b(c)]))

    return build


def _not(f: Compiler, e: Any) -> Formula:
    a = f.truth_of(e.this, "NOT")

    def read(c: Context) -> Truth:
        found = a(c)
        return Truth(~found.true, found.known)

    return Formula("truth", read)


def _is(f: Compiler, e: Any) -> Formula:
    what = type(e.expression).__name__
    made = f.compile(e.this)
    if what == "Boolean" and made.kind == "truth":
        wanted = bool(e.expression.this)

        def matches(c: Context) -> Truth:
            found = made.read(c)
            return Truth(found.known & (found.true == wanted), np.ones_like(found.known))

        return Formula("truth", matches)
    if what != "Null":
        raise QueryNotAllowed(f"{shorten(written(e))}: IS takes NULL, TRUE or FALSE.")

    def missing(c: Context) -> Truth:
        if made.kind == "label":
            none = np.array([x is None for x in made.read(c)])
        else:
            none = np.isnan(made.number(c).value)
        return Truth(none, np.ones_like(none))

    return Formula("truth", missing)


def _between(f: Compiler, e: Any) -> Formula:
    a, low, high = (f.number_of(x) for x in (e.this, e.args["low"], e.args["high"]))

    def read(c: Context) -> Truth:
        x = a(c)
        return _all([
            _compared(np.greater_equal, x, low(c)), _compared(np.less_equal, x, high(c))
        ])  # fmt: skip

    return Formula("truth", read)


def _unary(f_: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Builder:
    def build(f: Compiler, e: Any) -> Formula:
        a = f.number_of(e.this)
        return Formula("number", lambda c: a(c).through(f_, slope))

    return build


def _half_away(v: Any, digits: int = 0) -> Any:
    scale = 10.0**digits
    return np.copysign(np.floor(np.abs(v) * scale + 0.5), v) / scale


def _round(f: Compiler, e: Any) -> Formula:
    a = f.number_of(e.this)
    wanted = e.args.get("decimals")
    if wanted is not None and (type(wanted).__name__ != "Literal" or wanted.this not in DIGITS):
        raise QueryNotAllowed("round: the number of digits is a constant from 0 to 9.")
    digits = int(wanted.this) if wanted is not None else 0
    return Formula("number", lambda c: a(c).through(lambda v: _half_away(v, digits), np.ones_like))


def _cast(f: Compiler, e: Any) -> Formula:
    target = str(e.to.this.name).lower()
    if target in ("float", "double", "decimal", "real"):
        return Formula("number", f.number_of(e.this))
    if target in ("tinyint", "smallint", "int", "bigint", "int128"):
        a = f.number_of(e.this)
        return Formula("number", lambda c: a(c).through(_half_away, np.ones_like))
    raise QueryNotAllowed(
        f"{shorten(written(e))}: aggregates are numbers; cast to INTEGER or DOUBLE."
    )


def _case(f: Compiler, e: Any) -> Formula:
    if e.args.get("this") is not None:
        raise QueryNotAllowed("CASE x WHEN ...: write CASE WHEN x = ... instead.")
    return _chosen(f, "CASE WHEN", e.args["ifs"], e.args.get("default"))


def _chosen(f: Compiler, word: str, ifs: list[Any], last: Any) -> Formula:
    branches = [(f.truth_of(b.this, word), f.number_of(b.args["true"])) for b in ifs]
    final = f.number_of(last) if last is not None else lambda c: c.constant(np.nan)

    def read(c: Context) -> Noisy:
        out = final(c)
        for test, result in reversed(branches):
            found = test(c)
            out = where(found.true & found.known, result(c), out)
        return out

    return Formula("number", read)


def _coalesce(f: Compiler, e: Any) -> Formula:
    parts = [f.number_of(x) for x in (e.this, *e.expressions)]

    def read(c: Context) -> Noisy:
        out = parts[-1](c)
        for part in reversed(parts[:-1]):
            found = part(c)
            out = where(~np.isnan(found.value), found, out)
        return out

    return Formula("number", read)


def _extreme(pick: Callable[[Any, Any], Any]) -> Builder:
    def build(f: Compiler, e: Any) -> Formula:
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


BUILDERS: dict[str, Builder] = {
    "Literal": _literal,
    "Boolean": _boolean,
    "Null": _null,
    "Paren": lambda f, e: f.compile(e.this),
    "Cast": _cast,
    "Neg": _unary(lambda v: -v, lambda v: -np.ones_like(v)),
    "Add": _binary(lambda c, a, b: a + b),
    "Sub": _binary(lambda c, a, b: a - b),
    "Mul": _binary(lambda c, a, b: a * b),
    "Div": _quotient,
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
    "If": lambda f, e: _chosen(f, "IF", [e], e.args.get("false")),
    "Coalesce": _coalesce,
    "Nullif": _binary(lambda c, a, b: where(a.value == b.value, c.constant(np.nan), a)),
    "Least": _extreme(np.less_equal),
    "Greatest": _extreme(np.greater_equal),
}
