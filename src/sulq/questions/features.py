"""Aggregates of all rows of one person -> one column of a row per person, with a declared range.

A count and a sum have the range that `max_rows` rows could give, or the one that the statement
says: least(greatest(sum(x), 0), 500). All rows of the person are added up, whatever `max_rows` is;
the result is clamped. The others have the range of what they are taken of. So however many rows a
person has and whatever they hold, the person is one row of declared columns.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import written
from sulq.expressions.functions import KERNEL_ONLY, call
from sulq.expressions.node import EPOCH, NUMERIC, Node, kind_of, literal, tree_of
from sulq.expressions.normal_form import exactly, split, truth
from sulq.expressions.parse import parse, predicate, shorten
from sulq.expressions.quoting import quote
from sulq.expressions.wording import sql_of
from sulq.questions.grid import Value, gridded
from sulq.questions.partitions import constant_texts
from sulq.questions.star_tables import one_table, tables_in
from sulq.values.column import LARGEST, Column
from sulq.values.schema import Schema

MAX_SIZE = 400  # nodes of what one aggregate is taken of
MAX_UNFOLDED = 2_000  # of these, as a database may write them out
MAX_NAME = 150
LISTED = (
    "count, count_if, sum, avg, min, max, bool_or, bool_and, count(distinct category), "
    "first(x order by t) and last(x order by t)"
)
RANGED = ("count", "sum")  # whose range is that of max_rows rows


@dataclass(frozen=True, slots=True)
class Feature:
    """One aggregate of each person's rows. `column` is how its result is read: clamped."""

    kind: str  # count, sum, avg, min, max, any, every, distinct, first, last, or same
    given: Node  # what it is taken of, missing on rows that do not count
    order: Node | None  # of first and last
    column: Column
    text: str  # the same as SQL
    limit: str = ""  # which values `max_rows` moves to an end of its range, for people to read

    @property
    def grid(self) -> Value:
        """What a sum adds up, on its grid."""
        return gridded(self.given)


class FeatureReader:
    """Finds the aggregates of an expression, and gives each the name of a column."""

    def __init__(self, schema: Schema, gate: Node | None, rows: Node | None = None) -> None:
        assert schema.unit is not None
        self.schema = schema
        self.person = schema.unit.column
        self.most = schema.unit.max_rows * (schema.unit.max_periods or 1)
        self.gate = gate  # the private predicate on rows
        self.rows = rows  # the public one
        self.found: dict[str, Feature] = {}

    def presence(self) -> str:
        """A condition: has the person a row that the gate lets through?"""
        assert self.gate is not None
        return quote(self._add("any", literal(True), None, None))

    def formula(self, e: Any) -> str:
        """An expression of aggregates as SQL over columns of a row per person."""
        from sqlglot import exp

        def step(node: Any) -> Any:
            clamped = self._clamped(node)
            if clamped is not None:
                return clamped
            if is_feature(node):
                return exp.column(self._aggregate(node, None, None), quoted=True)
            if type(node).__name__ == "Column" and self._is_of_people(node):
                return exp.column(self._aggregate(exp.AnyValue(this=node), None, None), quoted=True)
            if type(node).__name__ == "Column":
                self._check_bare(node)
            return node

        return written(e.copy().transform(step))

    def _is_of_people(self, e: Any) -> bool:
        """Is it a column of the table of people, the same on all rows of a person?"""
        c = self.schema.get(e.name, quoted=bool(e.this.args.get("quoted")))
        star = self.schema.star
        return star is not None and c is not None and star.home(c.name) is star.people

    def _check_bare(self, e: Any) -> None:
        c = self.schema.get(e.name, quoted=bool(e.this.args.get("quoted")))
        if c is None or c.name != self.person:
            raise QueryNotAllowed(
                f"{shorten(written(e))} has a value on each row, and here each person is one row: "
                f"use max({e.name}), avg({e.name}), first({e.name} order by ...) or another "
                f"aggregate of it. {self.person!r} alone needs none."
            )

    # --- ranges -------------------------------------------------------------------------

    def _clamped(self, e: Any) -> Any:
        """LEAST and GREATEST with constants, right around an aggregate, say its range."""
        from sqlglot import exp

        ends: dict[str, list[Any]] = {"Least": [], "Greatest": []}
        inner = e
        while type(inner).__name__ in ends:
            parts = [p.unnest() for p in (inner.this, *inner.expressions)]
            constants = [_constant(p) for p in parts]
            others = [p for p, c in zip(parts, constants, strict=True) if c is None]
            if len(others) != 1:
                return None
            ends[type(inner).__name__] += [c for c in constants if c is not None]
            inner = others[0]
        if inner is e or not is_feature(inner):
            return None
        low = max(ends["Greatest"], default=None)
        high = min(ends["Least"], default=None)
        if low is not None and high is not None and not low < high:
            raise QueryNotAllowed(
                f"{shorten(written(e))}: the range from {low} to {high} is empty."
            )
        name = self._aggregate(inner, low, high)
        column = exp.column(name, quoted=True)
        if not self.found[name].column.nullable:
            return column
        # LEAST and GREATEST pass over what is missing, so they stay around what may be.
        return e.copy().transform(lambda node: column if node == inner else node)

    # --- aggregates ---------------------------------------------------------------------

    def _aggregate(self, e: Any, low: Any, high: Any) -> str:
        """The column that an aggregate is, within a range that was said or its own."""
        condition = None
        inner = e
        if type(inner).__name__ == "Filter":
            condition = self._condition(inner.expression.this)
            inner = inner.this
        if type(inner).__name__ == "IgnoreNulls" and type(inner.this).__name__ == "AnyValue":
            inner = inner.this  # how any_value is read
        kind = type(inner).__name__
        if kind == "Anonymous":
            kind = str(inner.this).lower()
        build = _BUILDERS.get(kind)
        if build is None:
            raise QueryNotAllowed(
                f"{shorten(written(inner))}: not answered of a person's rows. There are {LISTED}."
            )
        what, given, order, more = build(self, inner)
        terms = [t for t in (condition, more) if t is not None]
        return self._add(what, given, order, call("and", *terms) if terms else None, low, high)

    def _add(
        self, kind: str, given: Node, order: Node | None, condition: Node | None,
        low: Any = None, high: Any = None,
    ) -> str:  # fmt: skip
        """Note the feature, and give its column's name."""
        if given.moment:
            read = f"cast({sql_of(tree_of(given))} as date)"
            raise QueryNotAllowed(f"{kind} of a timestamp: take its date, {read}, or order by it.")
        gate = self.gate if kind != "same" else None  # whose value is that of any row
        terms = [t for t in (gate, condition) if t is not None]
        if self.schema.star is not None:
            used = [n for n in (given, order, condition) if n is not None]
            self.most, more = one_table(kind, used, [*terms, self.rows], self.schema)
            terms += more
        where = truth(call("and", *terms), self.schema) if terms else None
        given, plain = exactly(given, self.schema), given
        if kind == "sum" and where is None and given.op == "literal" and given.value == 1:
            kind = "count"  # of rows, of which there is one at least
        gated = given if where is None else call("case", where, given, literal(None))
        for node in (gated, order):
            check_in_sql(node)
        said = self._said(kind, given, order, where)
        made = self._column(kind, plain, gated, order, low, high)
        limit = ""
        if kind in RANGED and made.bounded and not self._one_each([*terms, self.rows]):
            own = made if low is high is None else self._range_of_rows(kind, plain, gated)
            limit = _limit(said, kind, gated, made, own)
        if (made.bounded and kind in RANGED) or low is not None or high is not None:
            said = f"least(greatest({said}, {made.low!r}), {made.high!r})"
        name = _named(said)
        self.found[name] = Feature(kind, gated, order, replace(made, name=name), said, limit)
        return name

    def _one_each(self, terms: Sequence[Node | None]) -> bool:
        """Are the rows those of the table of people, of which each person has one?"""
        star, known = self.schema.star, [t for t in terms if t is not None]
        if star is None or not known:
            return False
        return tables_in(star, split(call("and", *known), self.schema).rows) == (star.people.name,)

    def _range_of_rows(self, kind: str, plain: Node, gated: Node) -> Column | None:
        """The column within the ends that `max_rows` rows could give, if there are any."""
        if kind == "sum" and not gated.bounded:
            return None
        return self._column(kind, plain, gated, None, None, None)

    def _said(self, kind: str, given: Node, order: Node | None, where: Node | None) -> str:
        inside = sql_of(tree_of(given))
        said = {
            "count": "count(*)", "any": f"bool_or({inside})", "every": f"bool_and({inside})",
            "distinct": f"count(distinct {inside})", "same": f"any_value({inside})",
        }.get(kind, f"{kind}({inside})")  # fmt: skip
        if order is not None:
            said = f"{kind}({inside} order by {sql_of(tree_of(order))})"
        return said if where is None else f"{said} filter (where {sql_of(tree_of(where))})"

    def _column(
        self, kind: str, plain: Node, gated: Node, order: Node | None, low: Any, high: Any
    ) -> Column:
        """Type and range of an aggregate."""
        if kind in ("any", "every"):
            return Column("", "boolean", nullable=gated.nullable)
        if kind == "count":
            return _ranged("integer", (0, self.most), low, high, False)
        if kind == "distinct":
            return _ranged("integer", (0, self._values_of(plain)), low, high, False)
        missing = gated.nullable or (order is not None and order.nullable)
        chosen = kind in ("first", "last", "same")
        if chosen and plain.op == "column":
            c = self.schema[plain.value]
            if c.type in ("category", "text"):
                return Column("", c.type, values=c.values, max_length=c.max_length)
        if gated.type == "text":
            known = constant_texts(plain)
            if known:
                return Column("", "category", values=tuple(sorted(known)))
            return Column("", "text")
        if gated.type == "boolean" and chosen:
            return Column("", "boolean", nullable=missing)
        ends: Any = (gated.low, gated.high) if gated.bounded else None
        if gated.type == "date":
            days = None if ends is None else [EPOCH + datetime.timedelta(days=int(x)) for x in ends]
            if days is None or not days[0] < days[1]:
                return Column("", "date")
            return Column("", "date", days[0], days[1], nullable=missing)
        number = gated.type == "number" or kind == "avg"
        if kind == "sum":
            number = gridded(gated).node.type == "number"
            ends = (min(0, gated.low * self.most), max(0, gated.high * self.most))
        return _ranged("number" if number else "integer", ends, low, high, missing)

    def _values_of(self, node: Node) -> int:
        """How many values a declared category has."""
        c = self.schema[node.value] if node.op == "column" else None
        if c is None or c.listed is None:
            raise QueryNotAllowed(
                f"count(distinct {sql_of(tree_of(node))}): of a person's rows, different values of "
                "a declared category are counted. Declare its values, or use count(*)."
            )
        return len(c.listed)

    # --- arguments ----------------------------------------------------------------------

    def node(self, e: Any) -> Node:
        """A row function."""
        if e is None or any(is_feature(part) for part in e.walk()):
            raise QueryNotAllowed(
                "an aggregate of a person's rows is taken of a row function, not of an aggregate."
            )
        return parse(written(e), self.schema)

    def number(self, e: Any, name: str) -> Node:
        """A bounded number of each row."""
        node = self.node(e)
        if node.type not in NUMERIC:
            raise QueryNotAllowed(f"{name}({shorten(written(e))}): it is {kind_of(node)}.")
        if not node.bounded:
            raise QueryNotAllowed(
                f"{name}({shorten(written(e))}) has no range: declare low and high, or write "
                f"{name}(least(greatest({shorten(written(e))}, LOW), HIGH))."
            )
        return node

    def ordered(self, e: Any, name: str) -> Node:
        """What has a least and a greatest on every engine: a number or a date."""
        node = self.node(e)
        if node.type not in (*NUMERIC, "date"):
            raise QueryNotAllowed(
                f"{name} of {shorten(written(e))}: it is {kind_of(node)}, which databases order in "
                "different ways. Numbers and dates have a least and a greatest."
            )
        return node

    def _condition(self, e: Any) -> Node:
        self.node(e)
        return predicate(written(e), self.schema)

    def truth(self, e: Any) -> Node:
        """What is true or false of each row."""
        if e is None:
            raise QueryNotAllowed("bool_or and bool_and want a condition.")
        return self._condition(e.unnest())


def check_in_sql(node: Node | None) -> None:
    """Every engine looks at a person's rows in SQL, so SQL must say it, in a few lines."""
    if node is None:
        return
    if node.size > MAX_SIZE:
        raise QueryNotAllowed(
            f"an aggregate of a person's rows and its conditions have at most {MAX_SIZE} parts, "
            f"not {node.size}. Split it into several aggregates."
        )
    if node.unfolded > MAX_UNFOLDED:
        raise QueryNotAllowed(
            "an aggregate of a person's rows divides by what divides by something, over and over: "
            "databases take long to plan that. Divide aggregates, outside."
        )
    outside = sorted({part.op for part in node.walk()} & KERNEL_ONLY)
    if outside:
        raise QueryNotAllowed(
            f"{outside[0]} inside an aggregate of a person's rows or its conditions: databases "
            "compute it differently. Use it on the aggregate, outside."
        )


def _limit(said: str, kind: str, gated: Node, made: Column, own: Column | None) -> str:
    """The ends of its range that are there because of `max_rows` alone, as a note.

    An end that the statement says is not among them: a plain database gives the same there.
    """
    if own is None:
        return ""
    low = kind == "sum" and gated.low < 0 and made.low == own.low
    high = (kind == "count" or gated.high > 0) and made.high == own.high
    if not (low or high):
        return ""
    ends = f"[{made.low:,.12g}, {made.high:,.12g}]"
    return f"{said} of a person: values outside {ends} are moved to the nearest end"


def _ranged(kind: str, ends: Any, low: Any, high: Any, nullable: bool) -> Column:
    """A number's column within its own ends, or those that were said."""
    own = (None, None) if ends is None else ends
    low, high = (own[0] if low is None else low), (own[1] if high is None else high)
    if low is None or high is None:
        if (low, high) != (None, None):
            raise QueryNotAllowed("say both ends of its range: least(greatest(..., LOW), HIGH).")
        return Column("", kind)
    if kind == "integer":
        if not all(float(x).is_integer() for x in (low, high)):
            raise QueryNotAllowed(f"its range is from {low} to {high}: want whole numbers.")
        low, high = max(int(low), -LARGEST), min(int(high), LARGEST)
    else:
        low, high = float(low), float(high)
    if low == high:  # a constant; a range needs two ends
        high += 1
    if not low < high:
        raise QueryNotAllowed(f"its range from {low} to {high} is empty: say both ends.")
    return Column("", kind, low, high, nullable=nullable)


def _named(said: str) -> str:
    """A column's name, one for each text also where case does not count."""
    if said == said.lower() and len(said) <= MAX_NAME and said.isprintable():
        return said
    short = "".join(c if c.isprintable() else "?" for c in said.lower()[:MAX_NAME])
    return f"{short} #{hashlib.sha256(said.encode()).hexdigest()[:32]}"


def _constant(e: Any) -> int | float | None:
    """The number that a literal is."""
    sign = 1
    if type(e).__name__ == "Neg":
        e, sign = e.this.unnest(), -1
    if type(e).__name__ != "Literal" or e.is_string:
        return None
    text = str(e.this)
    return sign * (int(text) if text.isdecimal() else float(text))


def is_feature(e: Any) -> bool:
    """Is it an aggregate, answered or not?"""
    from sqlglot import exp

    if isinstance(e, exp.Filter | exp.AggFunc | exp.Any | exp.IgnoreNulls):
        return True
    return type(e).__name__ == "Anonymous" and str(e.this).lower() in _BUILDERS


# --- one builder for each: what it is, of what, in which order, on which rows ------------------

Built = tuple[str, Node, Node | None, Node | None]
Builder = Callable[[FeatureReader, Any], Built]


def _one(e: Any) -> Any:
    """The one argument of a call."""
    given = e.expressions if type(e).__name__ == "Anonymous" else [e.this, *e.expressions]
    if len(given) != 1 or given[0] is None:
        raise QueryNotAllowed(f"{shorten(written(e))}: want one argument.")
    return given[0]


def _count(r: FeatureReader, e: Any) -> Built:
    if e.this is None or type(e.this).__name__ == "Star":
        return "count", literal(1), None, None
    if type(e.this).__name__ == "Distinct":
        if len(e.this.expressions) != 1:
            raise QueryNotAllowed(f"{shorten(written(e))}: want one column.")
        return "distinct", r.node(e.this.expressions[0]), None, None
    node = r.node(_one(e))
    known = call("not", call("is_null", node)) if node.nullable else None
    return "count", literal(1), None, known


def _count_if(r: FeatureReader, e: Any) -> Built:
    return "count", literal(1), None, r.truth(_one(e))


def _sum(r: FeatureReader, e: Any) -> Built:
    return "sum", r.number(_one(e), "sum"), None, None


def _avg(r: FeatureReader, e: Any) -> Built:
    return "avg", r.number(_one(e), "avg"), None, None


def _end(name: str) -> Builder:
    def build(r: FeatureReader, e: Any) -> Built:
        node = r.ordered(_one(e), name)
        if node.type == "boolean":
            return {"min": "every", "max": "any"}[name], node, None, None
        return name, node, None, None

    return build


def _bool(kind: str) -> Builder:
    return lambda r, e: (kind, r.truth(_one(e)), None, None)


def _first(kind: str) -> Builder:
    """first(x order by t), first(x, t); rows without x or t are passed over."""

    def build(r: FeatureReader, e: Any) -> Built:
        given, by = e.this, e.args.get("expression")
        if type(given).__name__ == "Order":
            (ordered, *more), given = given.expressions, given.this
            if more or ordered.args.get("desc"):
                raise QueryNotAllowed(f"{shorten(written(e))}: order by one thing, ascending.")
            by = ordered.this
        if by is None:
            raise QueryNotAllowed(
                f"{shorten(written(e))}: rows have no order of their own. Write "
                f"{kind}({shorten(written(given))} order by ...), a date or a number."
            )
        return kind, r.node(given), r.ordered(by, kind), None

    return build


def _same(r: FeatureReader, e: Any) -> Built:
    """any_value(x) of columns of the table of people."""
    node, star = r.node(_one(e)), r.schema.star
    if star is None or any(star.home(n) is not star.people for n in node.columns()):
        raise QueryNotAllowed(
            f"{shorten(written(e))}: which of a person's rows it is of is not said. Use max, min "
            "or first(... order by ...); columns of a table of people need none of them."
        )
    return "same", node, None, None


_BUILDERS: dict[str, Builder] = {
    "AnyValue": _same, "Count": _count, "CountIf": _count_if, "Sum": _sum, "Avg": _avg,
    "mean": _avg, "Min": _end("min"), "Max": _end("max"), "LogicalOr": _bool("any"),
    "Any": _bool("any"), "LogicalAnd": _bool("every"), "every": _bool("every"),
    "First": _first("first"), "Last": _first("last"), "ArgMin": _first("first"),
    "ArgMax": _first("last"),
}  # fmt: skip
