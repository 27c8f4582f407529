"""SQL expression text -> a total row function with a known range.

sqlglot reads the text; only what stands in `READERS` becomes a node of our own tree, by one of the
`FUNCTIONS` in functions.py, and SQL for an engine is later written from that tree. The analyst's
text itself goes nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import parse_sql, spelled, written
from sulq.expressions.functions import PARTS, call, difference
from sulq.expressions.literals import check_equal, in_order
from sulq.expressions.lookup_node import lookup_node
from sulq.expressions.node import Node, column, kind_of, literal
from sulq.expressions.program_node import called
from sulq.expressions.syntax import no_column, unreadable
from sulq.expressions.timestamps import CLOCK, CONSTANTS, day_of
from sulq.values.schema import Schema

BRACKETS = re.compile(r"[()\[\]{}]")
MAX_TEXT = 10_000
SHORT = 300  # characters of an expression worth keeping
MAX_NESTING = 50
MAX_DEPTH = 100


def parse(text: str, schema: Schema) -> Node:
    """Read one scalar expression over the schema's columns, or refuse it."""
    short = isinstance(text, str) and len(text) <= SHORT
    return (_short if short else _long)(text, schema)


def _parsed(text: str, schema: Schema) -> Node:
    return _Reader(schema, text).read(syntax(text, schema.names))


# Looking is free, so what is kept must stay small whatever an analyst looks at.
_short = lru_cache(maxsize=2048)(_parsed)
# A learner asks about one long expression in many ways, one after the other.
_long = lru_cache(maxsize=8)(_parsed)


def predicate(text: str, schema: Schema) -> Node:
    """Read an expression that is true or false."""
    node = parse(text, schema)
    if node.type == "null":
        return call("and", node)
    if node.type != "boolean":
        raise QueryNotAllowed(
            f"where={shorten(text)!r} is {kind_of(node)}, not true or false: compare it with "
            "something."
        )
    return node


def shorten(text: str) -> str:
    """Text short enough for a message."""
    return text if len(text) <= 80 else text[:77] + "..."


def syntax(
    text: str, names: Sequence[str] = (), what: str = "expression", most: int = MAX_TEXT
) -> Any:
    """sqlglot's reading of one expression or statement, bounded in size before it is parsed."""
    check_size(text, most)
    from sqlglot.errors import SqlglotError

    try:
        found = parse_sql(text)
    except SqlglotError as error:
        raise unreadable(text, f"a SQL {what}", names, error) from None
    except RecursionError:
        raise QueryNotAllowed(f"the {what} is nested too deeply.") from None
    except QueryNotAllowed:
        raise
    except Exception:  # sqlglot trips over some nonsense with errors of Python's own
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL {what} this reads.") from None
    if len(found) != 1:
        raise QueryNotAllowed(f"{shorten(text)!r}: give exactly one {what}.")
    return found[0]


def check_size(text: Any, most: int = MAX_TEXT) -> None:
    """Refuse what is too long or too deep before a parser sees it."""
    if not isinstance(text, str) or not text.strip():
        raise QueryNotAllowed(f"{text!r}: want a SQL expression as text.")
    if len(text) > most:
        raise QueryNotAllowed(f"{len(text):,} characters of SQL, at most {most:,}.")
    check_whole(text)
    depth = deepest = 0
    for bracket in BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise QueryNotAllowed(f"brackets nested {deepest:,} deep, at most {MAX_NESTING}.")


def check_whole(text: str) -> None:
    """Refuse a text that no row can hold: an engine would fail at it."""
    try:
        whole = "\x00" not in text and text.encode() is not None
    except UnicodeEncodeError:
        whole = False
    if not whole:
        raise QueryNotAllowed("the text holds a NUL or half a character, which no row can hold.")


class _Reader:
    """Turns sqlglot's tree into ours, one allowed kind at a time."""

    def __init__(self, schema: Schema, text: str) -> None:
        self.schema = schema
        self.text = text
        self.depth = 0

    def read(self, e: Any) -> Node:
        kind = type(e).__name__
        reader = READERS.get(kind)
        if reader is None:
            raise self.refuse(e)
        for part in e.args.keys() - SPECIAL_PARTS.get(kind, READ_PARTS):
            if e.args[part]:  # never read past what changes the meaning
                raise QueryNotAllowed(
                    f"{shorten(self.text)!r}: {spelled(e)} is read in its plain form only. "
                    "docs/reference/functions.md lists what it takes."
                )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise QueryNotAllowed(
                f"the expression is nested too deeply: more than {MAX_DEPTH} operations within one "
                "another. A sum of many parts nests once for each: add up parts of it, as in "
                "(a + b) + (c + d). Nothing was charged."
            )
        try:
            return reader(self, e)
        finally:
            self.depth -= 1

    def refuse(self, e: Any) -> QueryNotAllowed:
        kind = type(e).__name__
        name = str(e.this) if kind == "Anonymous" else kind
        hint = HINTS.get(name.lower(), HINTS.get(kind.lower(), ""))
        return QueryNotAllowed(
            f"{shorten(self.text)!r}: {spelled(e)} is not allowed in a row function."
            + (f" {hint}" if hint else " docs/reference/functions.md lists what is.")
        )


def _column(reader: _Reader, e: Any) -> Node:
    if e.args.get("table") is not None:
        return lookup_node(e.args["table"].name, e.this.name, reader.schema)
    name, quoted = e.this.name, bool(e.this.args.get("quoted"))
    found = reader.schema.get(name, quoted=quoted)
    if found is None:
        raise no_column(name, reader.schema, quoted=quoted)
    return column(found)


def _literal(reader: _Reader, e: Any) -> Node:
    if e.is_string:
        return literal(e.this)
    text = e.this
    try:
        return literal(int(text) if re.fullmatch(r"\d+", text) else float(text))
    except ValueError:
        raise QueryNotAllowed(f"{shorten(text)!r} is not a number.") from None


def _args(e: Any) -> list[Any]:
    """The arguments of a call, in order."""
    first = [e.this] if e.args.get("this") is not None else []
    second = [e.expression] if e.args.get("expression") is not None else []
    return first + second + list(e.expressions)


def _plain(name: str) -> Callable[[_Reader, Any], Node]:
    """A function whose arguments are just expressions."""

    def build(reader: _Reader, e: Any) -> Node:
        return call(name, *(reader.read(a) for a in _args(e)))

    return build


def _equal(name: str) -> Callable[[_Reader, Any], Node]:
    """a = b or a <> b, with a constant that the other side can be."""

    def build(reader: _Reader, e: Any) -> Node:
        a, b = reader.read(e.this), reader.read(e.expression)
        found = call(name, a, b)
        check_equal(a, b, reader.schema)
        return found

    return build


def _ordered(name: str, *ends: str) -> Callable[[_Reader, Any], Node]:
    """a < b or a <= b; a > b is b < a."""
    return lambda reader, e: in_order(name, [reader.read(e.args[x]) for x in ends], reader.schema)


def _is(reader: _Reader, e: Any) -> Node:
    a, what = reader.read(e.this), reader.read(e.expression)
    if what.type == "null":
        return call("is_null", a)
    if what.op == "literal" and what.type == "boolean":
        return call("coalesce", call("eq", a, what), literal(False))
    raise QueryNotAllowed("IS takes NULL, TRUE or FALSE.")


def _between(reader: _Reader, e: Any) -> Node:
    a, low, high = (reader.read(x) for x in (e.this, e.args["low"], e.args["high"]))
    return call("and", *(in_order("le", p, reader.schema) for p in ([low, a], [a, high])))


def _in(reader: _Reader, e: Any) -> Node:
    if e.args.get("query") is not None or e.args.get("unnest") is not None:
        raise QueryNotAllowed("IN takes a list of constants, not a subquery.")
    a, items = reader.read(e.this), [reader.read(x) for x in e.expressions]
    found = call("in", a, *items)
    for item in items:
        check_equal(a, item, reader.schema)
    return found


def _like(reader: _Reader, e: Any) -> Node:
    found = call("like", reader.read(e.this), reader.read(e.expression))
    return call("not", found) if e.args.get("negate") else found


def _case(reader: _Reader, e: Any) -> Node:
    subject = reader.read(e.this) if e.args.get("this") is not None else None
    parts: list[Node] = []
    for branch in e.args["ifs"]:
        test = reader.read(branch.this)
        if subject is not None:
            check_equal(subject, test, reader.schema)
            test = call("eq", subject, test)
        parts.append(test)
        parts.append(reader.read(branch.args["true"]))
    return call("case", *parts, _last(reader, e.args.get("default")))


def _if(reader: _Reader, e: Any) -> Node:
    then, last = reader.read(e.args["true"]), _last(reader, e.args.get("false"))
    return call("case", reader.read(e.this), then, last)


def _last(reader: _Reader, e: Any) -> Node:
    """What stands behind ELSE; missing without one."""
    return literal(None) if e is None else reader.read(e)


def _nullif(reader: _Reader, e: Any) -> Node:
    a, b = reader.read(e.this), reader.read(e.expression)
    check_equal(a, b, reader.schema)
    return call("case", call("eq", a, b), literal(None), a)


CASTS = {
    "to_integer": "tinyint smallint int bigint int128 utinyint usmallint uint ubigint",
    "to_number": "float double decimal real",
    "to_boolean": "boolean",
}  # fmt: skip
CAST_TO = {name: cast for cast, names in CASTS.items() for name in names.split()}


def _cast(reader: _Reader, e: Any) -> Node:
    target = e.to.this.name.lower() if hasattr(e.to.this, "name") else str(e.to.this).lower()
    if target in CONSTANTS and e.this.__class__.__name__ == "Literal" and e.this.is_string:
        return CONSTANTS[target](e.this.this)
    if e.to.expressions:
        raise QueryNotAllowed(f"{shorten(written(e))}: write round(x, digits) to keep digits.")
    a = reader.read(e.this)
    if target == "date" and (a.type == "date" or a.moment):
        return day_of(a) if a.moment else a
    if target in ("text", "varchar") and a.type == "text":
        return a
    if target not in CAST_TO or a.type in ("text", "date"):
        raise QueryNotAllowed(
            f"a cast from {a.type} to {target} is not allowed. Casts go between numbers and "
            "Booleans; declare the column's type in the schema for anything else."
        )
    return call(CAST_TO[target], a)


def _round(reader: _Reader, e: Any) -> Node:
    digits = e.args.get("decimals")
    more = (reader.read(digits),) if digits is not None else ()
    return call("round", reader.read(e.this), *more)


def _part_name(name: str) -> str:
    return {"dow": "dayofweek", "doy": "dayofyear"}.get(name.lower(), name.lower())


def _extract(reader: _Reader, e: Any) -> Node:
    return call("part", reader.read(e.expression), literal(_part_name(e.this.name)))


def _part(name: str) -> Callable[[_Reader, Any], Node]:
    return lambda reader, e: call("part", reader.read(e.this), literal(name))


def _trunc(reader: _Reader, e: Any) -> Node:
    unit = e.args.get("unit")
    name = unit.name.lower() if unit is not None else "day"
    return call("trunc", reader.read(e.this), literal(name))


def _parts(name: str, *names: str) -> Callable[[_Reader, Any], Node]:
    """A function whose arguments sqlglot has names for."""

    def build(reader: _Reader, e: Any) -> Node:
        parts = (e.args.get(n) for n in names)
        return call(name, *(reader.read(p) for p in parts if p is not None))

    return build


def _date_diff(reader: _Reader, e: Any) -> Node:
    unit = e.args.get("unit")
    if unit is None:
        raise QueryNotAllowed("date_diff wants its unit: date_diff('day', a, b) or b - a.")
    later, earlier = reader.read(e.this), reader.read(e.expression)
    return difference(unit.name.lower().removesuffix("s"), later, earlier)


def _anonymous(reader: _Reader, e: Any) -> Node:
    """Functions sqlglot has no class for."""
    name, args = str(e.this).lower(), e.expressions
    if name in ("date_part", "datepart") and len(args) == 2:
        return call("part", reader.read(args[1]), literal(_part_name(args[0].name)))
    if name == "xor" and len(args) == 2:
        return call("xor", *(reader.read(a) for a in args))
    if name == "program":
        return called([reader.read(a) for a in args], reader.schema)
    raise reader.refuse(e)


PLAIN = (
    "Neg", "Add", "Sub", "Mul", "Div", "Mod", "Abs", "Sign", "Floor", "Ceil", "Sqrt", "Ln", "Exp",
    "Least", "Greatest", "And", "Or", "Not", "Xor", "Coalesce", "Length", "Lower", "Upper",
)  # fmt: skip

READERS: dict[str, Callable[[_Reader, Any], Node]] = {
    **{name: _plain(name.lower()) for name in PLAIN},
    "Column": _column,
    "Literal": _literal,
    "Boolean": lambda reader, e: literal(bool(e.this)),
    "Null": lambda reader, e: literal(None),
    "Paren": lambda reader, e: reader.read(e.this),
    "Round": _round,
    "Pow": _plain("power"),
    "EQ": _equal("eq"),
    "NEQ": _equal("ne"),
    "LT": _ordered("lt", "this", "expression"),
    "LTE": _ordered("le", "this", "expression"),
    "GT": _ordered("lt", "expression", "this"),
    "GTE": _ordered("le", "expression", "this"),
    "Is": _is,
    "Between": _between,
    "In": _in,
    "Like": _like,
    "StartsWith": _plain("starts_with"),
    "EndsWith": _plain("ends_with"),
    "Contains": _plain("contains"),
    "RegexpLike": _plain("regexp_matches"),
    "Substring": _parts("substr", "this", "start", "length"),
    "SplitPart": _parts("split_part", "this", "delimiter", "part_index"),
    "Left": lambda reader, e: call(
        "substr", reader.read(e.this), literal(1), reader.read(e.expression)
    ),
    "BitwiseXor": _plain("xor"),
    "Case": _case,
    "If": _if,
    "Nullif": _nullif,
    "Cast": _cast,
    "TryCast": _cast,
    "Extract": _extract,
    "DateDiff": _date_diff,
    "TimestampTrunc": _trunc,
    "DateTrunc": _trunc,
    "WidthBucket": _parts("width_bucket", "this", "min_value", "max_value", "num_buckets"),
    "Anonymous": _anonymous,
    "DayOfWeek": _part("dayofweek"),
    "DayOfYear": _part("dayofyear"),
    **{name.capitalize(): _part(name) for name in (*PARTS, *CLOCK) if name[:5] != "dayof"},
}

# The parts of sqlglot's nodes that a reader looks at, or that say nothing more.
READ_PARTS = {"this", "expression", "expressions"}
SPECIAL_PARTS = {
    "Between": {"low", "high"},
    "Case": {"ifs", "default"},
    "Cast": {"to"},
    "Coalesce": {"is_nvl", "is_null"},
    "Column": {"table", "db", "catalog"},
    "DateDiff": {"unit", "big_int", "date_part_boundary"},
    "DateTrunc": {"unit", "input_type_preserved"},
    "Div": {"typed", "safe"},
    "Greatest": {"ignore_nulls"},
    "If": {"true", "false"},
    "In": {"query", "unnest"},
    "Least": {"ignore_nulls"},
    "Like": {"negate"},
    "Literal": {"is_string"},
    "Round": {"decimals"},
    "SplitPart": {"delimiter", "part_index"},
    "Substring": {"start", "length"},
    "TimestampTrunc": {"unit", "input_type_preserved"},
    "TryCast": {"to", "safe"},
    "WidthBucket": {"min_value", "max_value", "num_buckets"},
}
SPECIAL_PARTS = {kind: READ_PARTS | parts for kind, parts in SPECIAL_PARTS.items()}

HINTS = {
    "count": "Aggregates belong in db.count, db.sum, db.mean or a query's values.",
    "sum": "Aggregates belong in db.count, db.sum, db.mean or a query's values.",
    "avg": "Aggregates belong in db.count, db.sum, db.mean or a query's values.",
    "subquery": "A question speaks of one row at a time.",
    "select": "A question speaks of one row at a time.",
    "intdiv": "Write floor(a / b).",
    "log": "Write ln(x), or ln(x) / ln(10).",
    "ilike": "Write lower(x) like 'pattern'.",
    "dpipe": "Text is compared, not built.",
    "interval": "A date moves by whole days: d + 7.",
    "isnan": "A NaN is read as NULL: write x is null.",
    "nullsafeeq": "Write coalesce(a = b, false).",
    "star": "Name the columns.",
    "alias": "Leave the name out.",
    "placeholder": "Write the value itself.",
    "parameter": "Write the value itself.",
    "regexpilike": "Write regexp_matches(lower(t), 'pattern').",
    "right": "Write ends_with(t, 'x').",
    "bitwiseand": "Write AND between conditions.",
    "arrayoverlaps": "Write AND between conditions.",
    "bitwiseor": "Write OR between conditions.",
    "max": "One row alone decides a maximum; ask for a percentile in SQL.",
    "min": "One row alone decides a minimum; ask for a percentile in SQL.",
    "trycast": "Write CAST: a cast that fails is NULL here.",
}
