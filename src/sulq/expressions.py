"""SQL expression text -> a total row function with a known range.

sqlglot reads the text; only what stands in `READERS` becomes a node of our own tree, and SQL
for an engine is later written from that tree. The analyst's text itself goes nowhere.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.schema import Schema
from sulq.tree import PARTS, Node, call, column, literal

BRACKETS = re.compile(r"[()\[\]{}]")
MAX_TEXT = 10_000
SHORT = 300  # characters of an expression worth keeping
MAX_NESTING = 50
MAX_DEPTH = 100


def parse(text: str, schema: Schema) -> Node:
    """Read one scalar expression over the schema's columns, or refuse it."""
    short = isinstance(text, str) and len(text) <= SHORT
    return (_short if short else _parsed)(text, schema)


def _parsed(text: str, schema: Schema) -> Node:
    return _Reader(schema, text).read(syntax(text))


# Looking is free, so what is kept must stay small whatever an analyst looks at.
_short = lru_cache(maxsize=2048)(_parsed)


def predicate(text: str, schema: Schema) -> Node:
    """Read an expression that is true or false."""
    node = parse(text, schema)
    if node.type == "null":
        return call("and", node)
    if node.type != "boolean":
        raise QueryNotAllowed(
            f"where={shorten(text)!r} gives {node.type}, want true or false: compare it with "
            "something."
        )
    return node


def shorten(text: str) -> str:
    """Text short enough for a message."""
    return text if len(text) <= 80 else text[:77] + "..."


def syntax(text: str) -> Any:
    """sqlglot's reading of one expression, bounded in size before it is parsed."""
    check_size(text)
    from sqlglot.errors import SqlglotError

    from sulq.dialect import parse_sql

    try:
        found = parse_sql(text)
    except SqlglotError as error:
        at = re.search(r"Line \d+, Col: (\d+)", str(error))
        where = f" near character {at.group(1)}" if at else ""
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL expression{where}.") from None
    except RecursionError:
        raise QueryNotAllowed("the expression is nested too deeply.") from None
    except Exception:  # sqlglot trips over some nonsense with errors of Python's own
        raise QueryNotAllowed(f"{shorten(text)!r} is not a SQL expression.") from None
    if len(found) != 1:
        raise QueryNotAllowed(f"{shorten(text)!r}: give exactly one expression.")
    return found[0]


def check_size(text: Any, most: int = MAX_TEXT) -> None:
    """Refuse what is too long or too deep before a parser sees it."""
    if not isinstance(text, str) or not text.strip():
        raise QueryNotAllowed(f"{text!r}: want a SQL expression as text.")
    if len(text) > most:
        raise QueryNotAllowed(f"{len(text):,} characters of SQL, at most {most:,}.")
    try:
        whole = "\x00" not in text and bool(text.encode())
    except UnicodeEncodeError:
        whole = False
    if not whole:
        raise QueryNotAllowed("the text holds a NUL or half a character, which no row can hold.")
    depth = deepest = 0
    for bracket in BRACKETS.findall(text):
        depth += 1 if bracket in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_NESTING:
        raise QueryNotAllowed(f"brackets nested {deepest:,} deep, at most {MAX_NESTING}.")


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
                    f"{shorten(self.text)!r}: {kind.lower()} with {part!r} is not allowed in a "
                    "row function."
                )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise QueryNotAllowed("the expression is nested too deeply.")
        try:
            return reader(self, e)
        finally:
            self.depth -= 1

    def refuse(self, e: Any) -> QueryNotAllowed:
        name = e.this if type(e).__name__ == "Anonymous" else type(e).__name__
        hint = HINTS.get(str(name).lower(), HINTS.get(type(e).__name__.lower(), ""))
        return QueryNotAllowed(
            f"{shorten(self.text)!r}: {str(name).lower()} is not allowed in a row function."
            + (f" {hint}" if hint else " docs/reference/functions.md lists what is.")
        )


def _column(reader: _Reader, e: Any) -> Node:
    if e.args.get("table") is not None:
        raise QueryNotAllowed(f"{e.sql()!r}: name the column alone, without a table.")
    name, quoted = e.this.name, bool(e.this.args.get("quoted"))
    found = reader.schema.get(name, quoted=quoted)
    if found is None:
        names = ", ".join(reader.schema.names[:20])
        more = ", ..." if len(reader.schema.names) > 20 else ""
        raise QueryNotAllowed(f"there is no column {shorten(name)!r}. Declared: {names}{more}.")
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
        try:
            return call(name, *(reader.read(a) for a in _args(e)))
        except TypeError:
            raise QueryNotAllowed(f"{name}: wrong number of arguments.") from None

    return build


def _flipped(name: str) -> Callable[[_Reader, Any], Node]:
    """a > b is b < a."""
    return lambda reader, e: call(name, reader.read(e.expression), reader.read(e.this))


def _is(reader: _Reader, e: Any) -> Node:
    a, what = reader.read(e.this), reader.read(e.expression)
    if what.type == "null":
        return call("is_null", a)
    if what.op == "literal" and what.type == "boolean":
        return call("coalesce", call("eq", a, what), literal(False))
    raise QueryNotAllowed("IS takes NULL, TRUE or FALSE.")


def _between(reader: _Reader, e: Any) -> Node:
    a, low, high = (reader.read(x) for x in (e.this, e.args["low"], e.args["high"]))
    return call("and", call("le", low, a), call("le", a, high))


def _in(reader: _Reader, e: Any) -> Node:
    if e.args.get("query") is not None or e.args.get("unnest") is not None:
        raise QueryNotAllowed("IN takes a list of constants, not a subquery.")
    return call("in", reader.read(e.this), *(reader.read(x) for x in e.expressions))


def _like(reader: _Reader, e: Any) -> Node:
    found = call("like", reader.read(e.this), reader.read(e.expression))
    return call("not", found) if e.args.get("negate") else found


def _case(reader: _Reader, e: Any) -> Node:
    subject = reader.read(e.this) if e.args.get("this") is not None else None
    parts: list[Node] = []
    for branch in e.args["ifs"]:
        test = reader.read(branch.this)
        parts.append(call("eq", subject, test) if subject is not None else test)
        parts.append(reader.read(branch.args["true"]))
    last = e.args.get("default")
    return call("case", *parts, reader.read(last) if last is not None else literal(None))


def _if(reader: _Reader, e: Any) -> Node:
    last = e.args.get("false")
    return call(
        "case", reader.read(e.this), reader.read(e.args["true"]),
        reader.read(last) if last is not None else literal(None),
    )  # fmt: skip


def _nullif(reader: _Reader, e: Any) -> Node:
    a, b = reader.read(e.this), reader.read(e.expression)
    return call("case", call("eq", a, b), literal(None), a)


def _xor(reader: _Reader, e: Any) -> Node:
    return call("xor", reader.read(e.this), reader.read(e.expression))


CASTS = {
    "to_integer": "tinyint smallint int bigint int128 utinyint usmallint uint ubigint",
    "to_number": "float double decimal real",
    "to_boolean": "boolean",
}  # fmt: skip
CAST_TO = {name: cast for cast, names in CASTS.items() for name in names.split()}


def _cast(reader: _Reader, e: Any) -> Node:
    target = e.to.this.name.lower() if hasattr(e.to.this, "name") else str(e.to.this).lower()
    if target == "date" and e.this.__class__.__name__ == "Literal" and e.this.is_string:
        try:
            return literal(datetime.date.fromisoformat(e.this.this))
        except ValueError:
            raise QueryNotAllowed(
                f"{shorten(e.this.this)!r} is not a date such as '2020-01-31'."
            ) from None
    if e.to.expressions:
        raise QueryNotAllowed(f"{shorten(e.sql())}: write round(x, digits) to keep digits.")
    a = reader.read(e.this)
    if target == "date" and a.type == "date":
        return a
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


def _width_bucket(reader: _Reader, e: Any) -> Node:
    parts = (e.args.get(n) for n in ("this", "min_value", "max_value", "num_buckets"))
    return call("width_bucket", *(reader.read(p) for p in parts if p is not None))


def _date_diff(reader: _Reader, e: Any) -> Node:
    unit = e.args.get("unit")
    if unit is None or unit.name.lower() not in ("day", "days"):
        raise QueryNotAllowed("date_diff counts days: date_diff('day', a, b) or b - a.")
    return call("sub", reader.read(e.this), reader.read(e.expression))


def _anonymous(reader: _Reader, e: Any) -> Node:
    """Functions sqlglot has no class for."""
    name, args = str(e.this).lower(), e.expressions
    if name in ("date_part", "datepart") and len(args) == 2:
        return call("part", reader.read(args[1]), literal(_part_name(args[0].name)))
    if name == "xor" and len(args) == 2:
        return call("xor", *(reader.read(a) for a in args))
    raise reader.refuse(e)


READERS: dict[str, Callable[[_Reader, Any], Node]] = {
    "Column": _column,
    "Literal": _literal,
    "Boolean": lambda reader, e: literal(bool(e.this)),
    "Null": lambda reader, e: literal(None),
    "Paren": lambda reader, e: reader.read(e.this),
    "Neg": _plain("neg"),
    "Add": _plain("add"),
    "Sub": _plain("sub"),
    "Mul": _plain("mul"),
    "Div": _plain("div"),
    "Mod": _plain("mod"),
    "Abs": _plain("abs"),
    "Sign": _plain("sign"),
    "Floor": _plain("floor"),
    "Ceil": _plain("ceil"),
    "Round": _round,
    "Sqrt": _plain("sqrt"),
    "Ln": _plain("ln"),
    "Exp": _plain("exp"),
    "Pow": _plain("power"),
    "Least": _plain("least"),
    "Greatest": _plain("greatest"),
    "EQ": _plain("eq"),
    "NEQ": _plain("ne"),
    "LT": _plain("lt"),
    "LTE": _plain("le"),
    "GT": _flipped("lt"),
    "GTE": _flipped("le"),
    "Is": _is,
    "Between": _between,
    "In": _in,
    "Like": _like,
    "And": _plain("and"),
    "Or": _plain("or"),
    "Not": _plain("not"),
    "Xor": _xor,
    "BitwiseXor": _xor,
    "Case": _case,
    "If": _if,
    "Coalesce": _plain("coalesce"),
    "Nullif": _nullif,
    "Cast": _cast,
    "TryCast": _cast,
    "Length": _plain("length"),
    "Lower": _plain("lower"),
    "Upper": _plain("upper"),
    "Extract": _extract,
    "DateDiff": _date_diff,
    "TimestampTrunc": _trunc,
    "DateTrunc": _trunc,
    "WidthBucket": _width_bucket,
    "Anonymous": _anonymous,
    "DayOfWeek": _part("dayofweek"),
    "DayOfYear": _part("dayofyear"),
    **{name.capitalize(): _part(name) for name in PARTS if not name.startswith("dayof")},
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
    "regexplike": "Use LIKE.",
    "trycast": "Write CAST: a cast that fails is NULL here.",
}
