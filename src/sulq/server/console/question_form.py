"""A form's fields -> a question: one SELECT, or a guided count, mean, sum, median, histogram or
crosstab.

The same fields come back from the page with the price, so that what is paid for is what was
priced. They are kept beside the answer, so that it can be asked again.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from keyword import iskeyword
from typing import Any

from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.expressions.quoting import quote, text
from sulq.expressions.timestamps import moment_in
from sulq.server.console.definitions import EXAMPLE, written_out
from sulq.server.console.forms import Form
from sulq.server.console.titles import title_of
from sulq.values.query import Query
from sulq.values.schema import Column, Schema
from sulq.values.star import Star

KINDS = ("sql", "count", "mean", "sum", "median", "histogram", "crosstab")
LABELS = {
    "count": "How many", "mean": "Mean", "sum": "Sum", "median": "Median",
    "histogram": "Histogram", "crosstab": "Table of two columns",
}  # fmt: skip
OF_NUMBERS = {"mean": "avg", "sum": "sum", "median": "median"}  # as SQL calls them
CONDITIONS = 3
TESTS = {
    "eq": "is", "ne": "is not", "ge": "is at least", "le": "is at most", "gt": "is more than",
    "lt": "is less than", "known": "is known", "missing": "is missing",
}  # fmt: skip
SIGNS = {"eq": "=", "ne": "<>", "ge": ">=", "le": "<=", "gt": ">", "lt": "<"}
TRUTHS = {"yes": True, "true": True, "t": True, "1": True,
          "no": False, "false": False, "f": False, "0": False}  # fmt: skip
LONGEST = 20_000  # letters of a field
MAX_OFFERED, MAX_VALUES, LONGEST_LIST = 60, 800, 60  # columns and values that are offered
WORDS = (  # of SQL, offered while one types
    "select", "from", "where", "group by", "having", "order by", "limit", "and", "or", "not",
    "between", "is null", "is not null", "in", "like", "as", "case when", "then", "else", "end",
    "count(*)", "count(", "sum(", "avg(", "median(", "stddev(", "variance(", "corr(", "covar_pop(",
    "percentile_cont(", "filter (where", "abs(", "floor(", "ceil(", "round(", "sqrt(", "ln(",
    "exp(", "power(", "least(", "greatest(", "width_bucket(", "coalesce(", "nullif(", "cast(",
    "length(", "lower(", "upper(", "extract(", "true", "false", "date '",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FilledForm:
    """What someone filled in, field by field."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, form: Form) -> FilledForm:
        """The fields of a form that make a question; others are left out."""
        kind = form.get("kind", "sql")
        if kind not in KINDS:
            raise QueryNotAllowed(f"kind={kind[:60]!r}: want one of {', '.join(KINDS)}.")
        names = {"sql": ("sql",), "count": ("error",),
                 "histogram": ("column", "bins", "error"), "crosstab": ("column", "other", "error"),
                 }.get(kind, ("column", "group"))  # fmt: skip
        found = [("kind", kind), *((n, form.raw(n).strip()) for n in names)]
        if kind == "sql" and form.raw("define").strip():
            found.append(("define", form.raw("define").rstrip()))  # lines keep their numbers
        if kind != "sql":
            for i in range(CONDITIONS):
                found += [(f"{part}{i}", form.get(f"{part}{i}")) for part in "cov"]
        if any(len(value) > LONGEST for _, value in found):
            raise QueryNotAllowed(f"a field has more than {LONGEST:,} letters. Write it shorter.")
        return cls(tuple((name, value) for name, value in found if value))

    @classmethod
    def from_json(cls, text: str) -> FilledForm:
        """The inverse of to_json."""
        return cls(tuple((name, value) for name, value in json.loads(text)))

    def to_json(self) -> str:
        """As it is kept beside its answer."""
        return json.dumps(self.fields)

    def get(self, name: str) -> str:
        """One field; "" if it was left empty."""
        return dict(self.fields).get(name, "")

    @property
    def kind(self) -> str:
        """One of KINDS."""
        return self.get("kind")

    # ---- as a question --------------------------------------------------------------------

    def question(self, db: Database) -> str | Query:
        """What to ask of a database; nothing is asked yet."""
        if self.kind == "sql":
            if not self.get("sql"):
                raise QueryNotAllowed("write a SELECT first, or take one of the examples.")
            return written_out(self.get("sql"), self.get("define"))
        where = self.where(db.schema)
        if self.kind in OF_NUMBERS:
            return self._of_numbers(db.name, db.schema)
        error = self._error()
        if self.kind == "count":
            return Query(where=where, error=error)
        names = [self._column(db.schema, "column").name]
        if self.kind == "crosstab":
            names.append(self._column(db.schema, "other").name)
        bins = self._bins() if self.kind == "histogram" else None
        axes = [db.histogram_axis(name, bins) for name in names]
        by = axes[0] if len(axes) == 1 else tuple(axes)
        return Query(by=by, where=where, error=error)

    def _of_numbers(self, table: str, schema: Schema) -> str:
        """A mean, sum or median, of all rows or of each group, as SQL."""
        column, where = self._column(schema, "column"), self.where(schema)
        number = f"{OF_NUMBERS[self.kind]}({quote(column.name)}) as {quote(self.kind)}"
        said = f" where {where}" if where else ""
        if not self.get("group"):
            return f"select {number} from {quote(table)}{said}"
        group = quote(self._column(schema, "group").name)
        return f"select {group}, {number} from {quote(table)}{said} group by {group}"

    def where(self, schema: Schema) -> str | None:
        """The conditions as SQL, each value written as its column's type wants it."""
        terms = []
        for i in range(CONDITIONS):
            name, test, value = (self.get(f"{part}{i}") for part in "cov")
            if not name:
                if value:  # a slip that would ask about every row
                    raise QueryNotAllowed(
                        f"{value[:60]!r} is compared with no column. Choose the column it belongs "
                        f"to instead of {'nothing more' if i else 'any row'!r}, or empty the field."
                    )
                continue
            column = known(schema, name)
            if test in ("known", "missing"):
                terms.append(f"{quote(name)} is {'not ' if test == 'known' else ''}null")
                continue
            sign = SIGNS.get(test or "eq")
            if sign is None:
                raise QueryNotAllowed(f"{test[:60]!r} is no way to compare here.")
            terms.append(f"{quote(name)} {sign} {written(column, value)}")
        return " and ".join(terms) or None

    def _column(self, schema: Schema, field: str) -> Column:
        name = self.get(field)
        if not name:
            raise QueryNotAllowed("choose a column first.")
        return known(schema, name)

    def _error(self) -> Fraction | None:
        text = self.get("error")
        if not text:
            return None
        try:
            return Query(error=Fraction(text.replace(",", ""))).error
        except (ValueError, ZeroDivisionError):
            raise QueryNotAllowed(f"{text[:60]!r} is no number to be within.") from None

    def _bins(self) -> int | None:
        text = self.get("bins")
        if not text:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 6:
            raise QueryNotAllowed(f"bins={text[:60]!r}: want a whole number such as 12.")
        return int(text)

    # ---- in words -------------------------------------------------------------------------

    def words(self) -> str:
        """A line for a list."""
        if self.kind == "sql":
            return " ".join(self.get("sql").split())
        names = [self.get(n) for n in ("column", "other") if self.get(n)]
        kind, between = ("table", " and ") if self.kind == "crosstab" else (self.kind, " by ")
        said = f"{kind} of {between.join(names)}" if names else kind
        said += f" for each {self.get('group')}" if self.get("group") else ""
        tests = []
        for i in range(CONDITIONS):
            name, test, value = (self.get(f"{part}{i}") for part in "cov")
            if name:
                tests.append(f"{name} {TESTS.get(test or 'eq', test)} {value}".strip())
        return said + (f" where {' and '.join(tests)}" if tests else "")

    def title(self) -> str:
        """The same where there is little room: "avg(income) by region", "Mean of income"."""
        said = title_of(self.get("sql")) if self.kind == "sql" else self.words()
        return said if self.kind == "sql" else said[:1].upper() + said[1:]

    def python(self, url: str, name: str, schema: Schema) -> str:
        """The same question as a program."""
        lines = ["import sulq", "", f"db = sulq.connect({url!r}, key=..., name={name!r})"]
        if self.get("define"):
            lines.append(f"functions = sulq.row_functions({literal(self.get('define'))})")
        return "\n".join([*lines, f"print({self._call(name, schema)})", ""])

    def _call(self, name: str, schema: Schema) -> str:
        where, error = "" if self.kind == "sql" else self.where(schema), self.get("error")
        more = [f"where={where!r}"] if where else []
        more += [f"error={error.replace(',', '')}"] if error else []
        if self.kind == "sql":
            more += ["define=functions.values()"] if self.get("define") else []
            return f"db.sql({', '.join([literal(self.get('sql')), *more])})"
        if self.kind in OF_NUMBERS:
            return f"db.sql({literal(self._of_numbers(name, schema))})"
        if self.kind == "count":
            return f"db.count({', '.join(more)})"
        if self.kind == "crosstab":
            first = repr([self.get("column"), self.get("other")])
        else:
            first = repr(self.get("column"))
        bins = [f"bins={self._bins()}"] if self.get("bins") else []
        return f"db.{self.kind}({', '.join([first, *bins, *more])})"


def known(schema: Schema, name: str) -> Column:
    """A declared column, or a refusal."""
    column = schema.get(name)
    if column is None:
        raise QueryNotAllowed(f"there is no column {name[:60]!r}.")
    return column


def written(column: Column, value: str) -> str:
    """A value as SQL writes it, by its column's type."""
    kind = column.type
    if kind == "boolean":
        if value.lower() not in TRUTHS:
            raise QueryNotAllowed(f"{column.name}: want yes or no, not {value[:60]!r}.")
        return "true" if TRUTHS[value.lower()] else "false"
    numbers = column.values is None or not all(isinstance(v, str) for v in column.values)
    if kind in ("integer", "number") or (kind == "key" and _is_number(value)):
        if not _is_number(value):
            raise QueryNotAllowed(f"{column.name}: want a number, not {value[:60]!r}.")
        return value.replace(",", "").lstrip("+")
    if kind == "date":
        try:
            return f"date '{datetime.date.fromisoformat(value).isoformat()}'"
        except ValueError:
            raise QueryNotAllowed(
                f"{column.name}: want a date such as 2026-01-31, not {value[:60]!r}."
            ) from None
    if kind == "timestamp":
        return f"timestamp '{moment_in(value).isoformat(' ')}'"
    if kind == "category" and column.values is not None and numbers and _is_number(value):
        return value
    return text(value)


def _is_number(text: str) -> bool:
    plain = text.replace(",", "")
    try:
        return bool(plain) and plain.isascii() and abs(float(plain)) < 1e300 and "_" not in plain
    except ValueError:
        return False


def literal(text: str) -> str:
    """A text as Python writes it, line by line."""
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return repr(text)
    return "(\n" + "".join(f"    {line!r}\n" for line in lines) + ")"


def tables(name: str, schema: Schema) -> list[tuple[str, str, Sequence[Column]]]:
    """The tables that SQL may name: what each is called, what its rows are, its columns."""
    if schema.star is None:
        return [(name, "", schema.columns)]
    person = schema.star.person
    return [
        (
            table.name,
            "a row for each person" if table.max_rows is None else
            f"at most {table.max_rows} rows of a person",
            [replace(person, name=table.person), *table.columns],
        )
        for table in schema.star.tables
    ]  # fmt: skip


def examples(name: str, schema: Schema) -> list[tuple[str, str, str]]:
    """Questions that this table can answer, from its declarations alone: words, SQL, functions."""
    if schema.star is not None:
        return _of_tables(schema.star)
    table = plain_name(name)
    groups = [plain_name(c.name) for c in schema.columns if c.listed is not None and not c.key]
    flags = [plain_name(c.name) for c in listed(schema) if c.type == "boolean"]
    numbers = [plain_name(c.name) for c in countable(schema)]
    out = []
    if flags:
        out.append(("How many", f"select count(*)\nfrom {table}\nwhere {flags[0]}", ""))
    if groups:
        asked = f"select {groups[0]}, count(*)\nfrom {table}\ngroup by {groups[0]}"
        out.append(("How many of each", asked, ""))
    if numbers:
        out.append(("A mean", f"select avg({numbers[-1]})\nfrom {table}", ""))
    if numbers and groups:
        asked = f"select {groups[-1]}, avg({numbers[-1]})\nfrom {table}\ngroup by {groups[-1]}"
        out.append(("A mean of each", asked, ""))
    if numbers:
        out.append(("A median", f"select median({numbers[0]})\nfrom {table}", ""))
    made = _of_a_function(table, schema)
    return [*out, *made] or [("How many rows", f"select count(*)\nfrom {table}", "")]


def _of_tables(star: Star) -> list[tuple[str, str, str]]:
    """Questions about people, about their events, and about people by their events."""
    people, *events = star.tables
    who, out = plain_name(people.name), []
    groups = [plain_name(c.name) for c in people.columns if c.listed is not None]
    out.append(("How many people", f"select count(*)\nfrom {who}", ""))
    if groups:
        asked = f"select {groups[0]}, count(*)\nfrom {who}\ngroup by {groups[0]}"
        out.append(("How many of each", asked, ""))
    for table in events[:2]:
        what, theirs = plain_name(table.name), plain_name(table.person)
        on = f"p.{plain_name(people.person)} = e.{theirs}"
        within = f"select {theirs}, count(*) as many\n  from {what} group by {theirs}"
        asked = f"select avg(many)\nfrom ({within}) as each"
        out.append((f"How many {table.name} a person has", asked, ""))
        for column in [c for c in table.columns if c.bounded and not c.public][:1]:
            mean = f"avg(e.{plain_name(column.name)})"
            asked = f"select {mean}\nfrom {who} p join {what} e on {on}"
            out.append((f"A mean over {table.name}", asked, ""))
    return out


def _of_a_function(table: str, schema: Schema) -> list[tuple[str, str, str]]:
    """A count of rows for which a function of one's own holds, where a column has a plain name."""
    for column in countable(schema):
        if column.name.isidentifier() and column.name.isascii() and not iskeyword(column.name):
            value = plain(round((column.low + column.high) / 2))
            define = EXAMPLE.format(name="is_high", column=column.name, value=value)
            asked = f"select count(*)\nfrom {table}\nwhere is_high({plain_name(column.name)})"
            return [("With a function", asked, define)]
    return []


def plain_name(name: str) -> str:
    """A name as people write it in SQL: quoted only where it must be."""
    return name if name.isidentifier() and name.isascii() and name == name.lower() else quote(name)


def groupable(schema: Schema) -> Sequence[Column]:
    """Columns that a histogram can be of."""
    return [
        c for c in schema.columns if not c.key and (c.listed is not None or c.bounded or c.bins)
    ]


def listed(schema: Schema) -> Sequence[Column]:
    """Columns whose values are declared, so that there is a group for each."""
    return [c for c in schema.columns if c.listed is not None and not c.key]


def groups(schema: Schema) -> list[tuple[str, str]]:
    """What a mean may be of: all rows, or each group of a column."""
    return [("", "all rows together"), *((c.name, f"each {c.name}") for c in listed(schema))]


def offered(schema: Schema) -> dict[str, list[str]]:
    """The values of each column that a condition may name, as one writes them in a form."""
    out: dict[str, list[str]] = {}
    room = MAX_VALUES
    for column in listed(schema)[:MAX_OFFERED]:
        truths = column.type == "boolean"
        values = [("yes" if v else "no") if truths else plain(v) for v in column.listed or ()]
        out[column.name] = values[: min(room, LONGEST_LIST)]
        room -= len(out[column.name])
    return out


def ranges(schema: Schema) -> dict[str, str]:
    """From where to where the numbers and dates of a column go, in words."""
    kept = [c for c in schema.columns if c.bounded and not c.key][:MAX_OFFERED]
    return {c.name: f"{plain(c.low)} to {plain(c.high)}" for c in kept}


def countable(schema: Schema) -> Sequence[Column]:
    """Columns that have a mean."""
    return [
        c for c in schema.columns if c.bounded and c.type in ("integer", "number") and not c.key
    ]


def plain(value: Any) -> str:
    """A bound or a category as a page writes it."""
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
