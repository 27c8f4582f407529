"""What a row function may call: some of Python's functions and methods, as SQL of ours.

Each means what Python means by it, on the values a row can have. Where Python would raise an
error, the result is missing.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from sulq.expressions import python_texts as texts
from sulq.expressions.python_terms import (
    AND,
    COMPARISON,
    OR,
    PRODUCT,
    SUM,
    Term,
    both,
    called,
    choice,
    compared,
    constant,
    fits,
    joined,
    negation,
)
from sulq.expressions.python_texts import Match, Unlisted
from sulq.values.schema import LARGEST

MAX_POWER = 8  # a constant exponent up to this is written as a product, exact for whole numbers


# ---- operators ----------------------------------------------------------------------------


def floor_divided(a: Term, b: Term) -> Term:
    """a // b."""
    return called("floor", both(a, "/", b, PRODUCT))


def modulo(a: Term, b: Term) -> Term:
    """a % b with the sign of b, as Python has it; SQL's has that of a."""
    rest = both(a, "%", b, PRODUCT)
    return both(both(rest, "+", b, SUM), "%", b, PRODUCT)


def power(a: Term, b: Any) -> Term:
    """a ** b."""
    if isinstance(b, int) and not isinstance(b, bool) and 0 <= b <= MAX_POWER:
        return _folded("*", PRODUCT, [a] * b) if b else constant(1)
    return called("power", a, b if isinstance(b, Term) else constant(b))


def _folded(word: str, rank: int, terms: Sequence[Term]) -> Term:
    """Terms joined from left to right, as Python does it."""
    return reduce(lambda a, b: both(a, word, b, rank), terms)


# ---- functions ----------------------------------------------------------------------------


def _whole(a: Term) -> Term:
    """int(a): towards zero."""
    return both(called("sign", a), "*", called("floor", called("abs", a)), PRODUCT)


def _rounded(a: Term) -> Term:
    """round(a): halves to the even neighbour."""
    below = called("floor", a)
    rest = both(a, "-", below, SUM)
    odd = called("abs", both(below, "%", constant(2), PRODUCT))
    half = constant(0.5)
    up = both(below, "+", constant(1), SUM)
    even = both(below, "+", odd, SUM)
    return choice(compared(rest, "<", half), below, choice(compared(rest, ">", half), up, even))


def _truth(a: Term) -> Term:
    return Term(f"cast({a.text} as boolean)")


def _double(a: Term) -> Term:
    return Term(f"cast({a.text} as double)")


def _one(name: str) -> Callable[[Term], Term]:
    return lambda a: called(name, a)


def least(*terms: Term) -> Term:
    """min of several."""
    return called("least", *terms)


def greatest(*terms: Term) -> Term:
    """max of several."""
    return called("greatest", *terms)


def total(*terms: Term) -> Term:
    """sum of several."""
    return _folded("+", SUM, [constant(0), *terms])


def every(*terms: Term) -> Term:
    """all of several."""
    return joined("and", AND, terms) if terms else constant(True)


def some(*terms: Term) -> Term:
    """any of several."""
    return joined("or", OR, terms) if terms else constant(False)


FUNCTIONS: dict[Any, Callable[..., Term]] = {
    abs: _one("abs"),
    bool: _truth,
    float: _double,
    int: _whole,
    len: _one("length"),
    round: _rounded,
    math.ceil: _one("ceil"),
    math.exp: _one("exp"),
    math.fabs: _one("abs"),
    math.floor: _one("floor"),
    math.log: _one("ln"),
    math.pow: lambda a, b: called("power", a, b),
    math.sqrt: _one("sqrt"),
    math.trunc: _whole,
}
SEVERAL: dict[Any, Callable[..., Term]] = {
    all: every,
    any: some,
    max: greatest,
    min: least,
    sum: total,
}
CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
HINTS = {
    "log2": "Write math.log(x) / math.log(2).",
    "log10": "Write math.log(x) / math.log(10).",
    "str": "Text is compared, not built.",
    "isnan": "A NaN is read as missing: write x is None.",
    "print": "A row function gives a value and does nothing else.",
    "divmod": "Write a // b and a % b.",
    "sorted": "Write min and max of the values.",
    "strip": "Write contains, startswith, endswith or re.search.",
    "timedelta": "Compare (d - e).days or (t - u).total_seconds() with a number.",
    "hypot": "Write math.sqrt(a * a + b * b).",
}


# ---- methods and attributes ---------------------------------------------------------------


def _sought(name: str) -> Callable[[Term, Any], Term]:
    def build(a: Term, part: Any) -> Term:
        if not isinstance(part, str):
            raise Unlisted("It takes a constant text.")
        return called(name, a, constant(part)) if part else negation(is_missing(a))

    return build


contains = _sought("contains")


def _weekday(a: Term) -> Term:
    """Monday 0, where SQL has Sunday 0."""
    day = both(called("dayofweek", a), "+", constant(6), SUM)
    return both(day, "%", constant(7), PRODUCT)


METHODS: dict[str, Callable[..., Term | texts.Parts]] = {
    "lower": _one("lower"),
    "upper": _one("upper"),
    "startswith": _sought("starts_with"),
    "endswith": _sought("ends_with"),
    "split": texts.split,
    "weekday": _weekday,
    "isoweekday": lambda a: both(_weekday(a), "+", constant(1), SUM),
    "date": lambda a: Term(f"cast({a.text} as date)"),
    "total_seconds": texts.total_seconds,
}
ATTRIBUTES: dict[str, Callable[[Term], Term]] = {
    "year": _one("year"),
    "month": _one("month"),
    "day": _one("day"),
    "hour": _one("hour"),
    "minute": _one("minute"),
    "second": _one("second"),
    "days": texts.full_days,
}


# ---- comparisons --------------------------------------------------------------------------


def is_missing(a: Term) -> Term:
    """a is None."""
    if isinstance(a, Match):
        return texts.no_match(a)
    return Term(f"{a.within(SUM)} is null", COMPARISON)


def one_of(a: Term, items: Sequence[Any]) -> Term:
    """a in (1, 2, 3)."""
    if not items:
        return constant(False)
    return Term(f"{a.within(SUM)} in ({', '.join(constant(i).text for i in items)})", COMPARISON)


def looked_up(key: Term, known: dict[Any, Any], default: Term) -> Term:
    """The value that a dict has for a key."""
    fits([key] * len(known) + [v for v in known.values() if isinstance(v, Term)])
    found = default
    for name, value in reversed(known.items()):
        there = is_missing(key) if name is None else compared(key, "=", constant(name))
        found = choice(there, value if isinstance(value, Term) else constant(value), found)
    return found


def is_constant(value: Any) -> bool:
    """Is it a value that SQL can write?"""
    return value is None or isinstance(value, bool | int | float | str | datetime.date)


# ---- constants ----------------------------------------------------------------------------


def number(value: Any) -> Any:
    """A constant that can be calculated with."""
    if not isinstance(value, bool | int | float):
        raise TypeError(f"{value!r} is not a number")
    return value


def constant_power(a: Any, b: Any) -> Any:
    """a ** b of constants, neither of them large."""
    if abs(b) > 64 or abs(a) > LARGEST:
        raise ValueError("the power is too large")
    return a**b


def small(value: Any) -> Any:
    """A result of constants, if it is one that rows can have."""
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError("whole numbers go up to 2**53 here")
    if isinstance(value, complex):
        raise ValueError("this is no real number")
    return value
