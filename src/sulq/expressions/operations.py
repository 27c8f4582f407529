"""What each function of the tree does to whole columns: numpy, the same bits everywhere."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.expressions.columns import Array, Vector, constant, half_away, read
from sulq.expressions.node import HUGE, MAX_LENGTH, Node, days
from sulq.expressions.regular import matcher
from sulq.programs.driver import run
from sulq.values.schema import Schema

EPOCH = np.datetime64("1970-01-01", "D")
Operation = Callable[..., Vector]


def _strict(f: Callable[..., Array]) -> Operation:
    """Missing if any argument is."""

    def apply(node: Node, *args: Vector) -> Vector:
        return Vector(f(*(a.data for a in args)), reduce(np.logical_and, (a.valid for a in args)))

    return apply


def _partial(f: Callable[..., Array], defined: Callable[..., Array]) -> Operation:
    """Missing also where the function is not defined."""

    def apply(node: Node, *args: Vector) -> Vector:
        data = [a.data for a in args]
        there = reduce(np.logical_and, (a.valid for a in args)) & defined(*data)
        found = f(*data)
        return Vector(np.where(there, found, np.zeros((), found.dtype)), there)

    return apply


def _as(node: Node, data: Array) -> Array:
    """Whole numbers where the node is whole."""
    return np.asarray(data.astype(np.int64) if node.type == "integer" else data)


def _rounding(f: Callable[[Array], Array]) -> Operation:
    return lambda node, a: Vector(_as(node, f(a.data)), a.valid)


def _and(node: Node, *args: Vector) -> Vector:
    false = reduce(np.logical_or, (a.valid & ~a.data for a in args))
    valid = reduce(np.logical_and, (a.valid for a in args)) | false
    return Vector(valid & ~false, valid)


def _or(node: Node, *args: Vector) -> Vector:
    true = reduce(np.logical_or, (a.valid & a.data for a in args))
    return Vector(true, reduce(np.logical_and, (a.valid for a in args)) | true)


def _extreme(pick: Callable[[Array, Array], Array]) -> Operation:
    def apply(node: Node, *args: Vector) -> Vector:
        data, valid = args[0]
        for other in args[1:]:
            both = valid & other.valid
            data = np.where(both, pick(data, other.data), np.where(valid, data, other.data))
            valid = valid | other.valid
        return Vector(data, valid)

    return apply


def _case(node: Node, *args: Vector) -> Vector:
    data, valid = args[-1]
    for condition, result in reversed(list(zip(args[:-1:2], args[1:-1:2], strict=True))):
        here = condition.data & condition.valid
        data = np.where(here, result.data, data)
        valid = np.where(here, result.valid, valid)
    return Vector(data, valid)


def _coalesce(node: Node, *args: Vector) -> Vector:
    data, valid = args[-1]
    for a in reversed(args[:-1]):
        data = np.where(a.valid, a.data, data)
        valid = valid | a.valid
    return Vector(data, valid)


def _in(node: Node, a: Vector, *items: Vector) -> Vector:
    wanted = {i.value if not isinstance(i.value, datetime.date) else days(i.value)
              for i in node.args[1:]}  # fmt: skip
    if a.data.dtype == object:
        found = np.fromiter((x in wanted for x in a.data), dtype=bool, count=len(a.data))
    else:
        found = np.isin(a.data, np.array(sorted(wanted), dtype=a.data.dtype))
    return Vector(found, a.valid)


def _texts(f: Callable[[str], Any], kind: Any) -> Operation:
    def apply(node: Node, a: Vector, *rest: Vector) -> Vector:
        out = np.empty(len(a.data), dtype=kind)
        out[:] = [f(x) for x in a.data] if len(a.data) else []
        return Vector(out, a.valid)

    return apply


def _like(node: Node, a: Vector, pattern: Vector) -> Vector:
    match = like_pattern(node.args[1].value).fullmatch
    found = np.fromiter((match(x) is not None for x in a.data), dtype=bool, count=len(a.data))
    return Vector(found, a.valid)


@lru_cache(maxsize=256)
def like_pattern(pattern: str) -> re.Pattern[str]:
    """A LIKE pattern as a regular expression; runs of % are one, so matching stays cheap."""
    parts = re.sub("%+", "%", pattern)
    # Each % but the last is possessive-free yet atomic: the first match of what follows is
    # as good as any later one, so there is no backtracking across pieces.
    pieces = [re.escape(p).replace("_", ".") for p in parts.split("%")]
    if len(pieces) == 1:
        return re.compile(pieces[0], re.DOTALL)
    middle = "".join(f"(?>.*?{p})" for p in pieces[1:-1] if p)
    return re.compile(f"{pieces[0]}{middle}.*{pieces[-1]}", re.DOTALL)


def _values(node: Node) -> list[Any]:
    """The constants behind a function's first argument."""
    return [n.value for n in node.args[1:]]


def _sought(f: Callable[[str, str], bool]) -> Operation:
    """Whether a constant text is found in a text."""

    def apply(node: Node, a: Vector, *rest: Vector) -> Vector:
        (part,) = _values(node)
        return _texts(lambda x: f(x, part), bool)(node, a)

    return apply


def _matches(node: Node, a: Vector, *rest: Vector) -> Vector:
    (pattern,) = _values(node)
    # What stands where a value is missing is not looked at.
    texts = [x if known else "" for x, known in zip(a.data, a.valid, strict=True)]
    return Vector(matcher(pattern)(texts), a.valid)


def _part_of(start: int, length: int) -> Callable[[str], str]:
    return lambda x: x[start - 1 : start - 1 + length]


def _split(separator: str, k: int) -> Callable[[str], str]:
    return lambda x: (*x.split(separator, k)[:k], *[""] * k)[k - 1]


_SMALL = str.maketrans(ascii_uppercase, ascii_lowercase)
_CAPITAL = str.maketrans(ascii_lowercase, ascii_uppercase)


def _part(node: Node, a: Vector) -> Vector:
    dates = EPOCH + a.data.astype("timedelta64[D]")
    years = dates.astype("datetime64[Y]")
    months = dates.astype("datetime64[M]")
    month = months.astype(np.int64) % 12
    parts: dict[str, Callable[[], Array]] = {
        "year": lambda: years.astype(np.int64) + 1970,
        "quarter": lambda: month // 3 + 1,
        "month": lambda: month + 1,
        "day": lambda: (dates - months.astype("datetime64[D]")).astype(np.int64) + 1,
        "dayofweek": lambda: (a.data + 4) % 7,
        "week": lambda: _iso_week(a.data),
        "dayofyear": lambda: (dates - years.astype("datetime64[D]")).astype(np.int64) + 1,
    }
    found = parts[node.value]()
    return Vector(np.clip(found, int(node.low), int(node.high)), a.valid)


def _iso_week(day: Array) -> Array:
    """Weeks begin on Monday, and belong to the year of their Thursday."""
    thursday = day - (day + 3) % 7 + 3
    years = (EPOCH + thursday.astype("timedelta64[D]")).astype("datetime64[Y]")
    first = (years.astype("datetime64[D]") - EPOCH).astype(np.int64)
    return np.asarray((thursday - first) // 7 + 1)


def _trunc(node: Node, a: Vector) -> Vector:
    dates = EPOCH + a.data.astype("timedelta64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    by: dict[str, Callable[[], Array]] = {
        "day": lambda: a.data,
        "week": lambda: a.data - (a.data + 3) % 7,
        "month": lambda: _first_day(months),
        "quarter": lambda: _first_day(months - months % 3),
        "year": lambda: _first_day(months - months % 12),
    }
    return Vector(np.maximum(by[node.value](), int(node.low)), a.valid)


def _first_day(months: Array) -> Array:
    return np.asarray(months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64))


def _program(node: Node, *args: Vector) -> Vector:
    columns = [
        _place_of(a.data, words) if words else a.data
        for a, words in zip(args, node.value.words, strict=True)
    ]
    found = run(node.value.spec, columns)
    valid = reduce(np.logical_and, (a.valid for a in args))
    return Vector(found == 1 if node.type == "boolean" else found, valid)


def _place_of(data: Array, words: tuple[Any, ...]) -> Array:
    """The place of each word in a list; 0 for what is not in it, which is missing."""
    place = {word: i for i, word in enumerate(words)}
    return np.fromiter((place.get(word, 0) for word in data), np.int64, len(data))


def _power_defined(a: Array, b: Array) -> Array:
    return np.asarray(~(((a < 0) & (b != np.floor(b))) | ((a == 0) & (b < 0))))


OPERATIONS: dict[str, Operation] = {
    "add": _strict(np.add),
    "sub": _strict(np.subtract),
    "mul": _strict(np.multiply),
    "div": _partial(lambda a, b: a / np.where(b == 0, 1.0, b), lambda a, b: b != 0),
    "mod": _partial(lambda a, b: np.fmod(a, np.where(b == 0, 1, b)), lambda a, b: b != 0),
    "neg": _strict(np.negative),
    "abs": _strict(np.abs),
    "sign": _strict(lambda a: np.sign(a).astype(np.int64)),
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "round": _rounding(half_away),
    "sqrt": _partial(lambda a: np.sqrt(np.maximum(a, 0.0)), lambda a: a >= 0),
    "ln": _partial(lambda a: np.log(np.where(a > 0, a, 1.0)), lambda a: a > 0),
    "exp": _strict(lambda a: np.minimum(np.exp(a), HUGE)),
    "power": _partial(
        lambda a, b: np.clip(np.power(np.where(_power_defined(a, b), a, 1.0), b), -HUGE, HUGE),
        _power_defined,
    ),
    "least": _extreme(np.minimum),
    "greatest": _extreme(np.maximum),
    "to_integer": _strict(lambda a: a.astype(np.int64)),
    "to_number": _strict(lambda a: a.astype(np.float64)),
    "eq": _strict(lambda a, b: np.asarray(a == b, dtype=bool)),
    "ne": _strict(lambda a, b: np.asarray(a != b, dtype=bool)),
    "lt": _strict(np.less),
    "le": _strict(np.less_equal),
    "is_null": lambda node, a: Vector(~a.valid, np.ones(len(a.data), dtype=bool)),
    "and": _and,
    "or": _or,
    "not": _strict(np.logical_not),
    "xor": _strict(np.not_equal),
    "in": _in,
    "like": _like,
    "case": _case,
    "coalesce": _coalesce,
    "length": _texts(lambda x: min(len(x), MAX_LENGTH), np.int64),
    "starts_with": _sought(lambda x, part: x.startswith(part)),
    "ends_with": _sought(lambda x, part: x.endswith(part)),
    "contains": _sought(lambda x, part: part in x),
    "regexp_matches": _matches,
    "substr": lambda node, a, *_: _texts(_part_of(*_values(node)), object)(node, a),
    "split_part": lambda node, a, *_: _texts(_split(*_values(node)), object)(node, a),
    "lower": _texts(lambda x: x.translate(_SMALL), object),
    "upper": _texts(lambda x: x.translate(_CAPITAL), object),
    "part": _part,
    "trunc": _trunc,
    "program": _program,
    "days": _strict(np.subtract),
    "shift": _strict(np.add),
}


# ---- a row function over a batch of rows ---------------------------------------------------


class Evaluator:
    """Some rows: raw columns by name, read on demand as the schema declares them."""

    def __init__(
        self,
        columns: Mapping[str, Any],
        rows: int,
        schema: Schema,
        known: Mapping[str, Vector] | None = None,
    ) -> None:
        self.raw = columns
        self.rows = rows
        self.schema = schema
        self._read: dict[str, Vector] = {}
        self._known = dict(known or {})  # by the text of an expression

    def column(self, name: str) -> Vector:
        """A declared column: clamped, undeclared and NaN missing."""
        if name not in self._read:
            self._read[name] = read(self.raw[name], self.schema[name])
        return self._read[name]

    def evaluate(self, node: Node) -> Vector:
        """The value of a row function on every row; equal parts are computed once."""
        with np.errstate(all="ignore"):
            return self._evaluate(node)

    def _evaluate(self, node: Node) -> Vector:
        if node.op == "literal":
            return constant(node, self.rows)
        found = self._known.get(node.text)
        if found is None:
            if node.op == "column":
                found = self.column(node.value)
            else:
                found = OPERATIONS[node.op](node, *[self._evaluate(a) for a in node.args])
            self._known[node.text] = found
        return found

    def true(self, node: Node | None) -> NDArray[np.bool_]:
        """Where a predicate holds; missing is not true."""
        if node is None:
            return np.ones(self.rows, dtype=bool)
        found = self.evaluate(node)
        return found.data.astype(bool) & found.valid
