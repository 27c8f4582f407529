"""A form's fields -> a question: one SELECT, or a guided count, mean, histogram or crosstab.

The same fields come back from the page with the price, so that what is paid for is what was
priced. They are kept beside the answer, so that it can be asked again.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.console.forms import Form
from sulq.database import Database
from sulq.errors import QueryNotAllowed
from sulq.query import Query
from sulq.schema import Column, Schema

KINDS = ("sql", "count", "mean", "histogram", "crosstab")
CONDITIONS = 3
TESTS = {
    "eq": "is", "ne": "is not", "ge": "is at least", "le": "is at most", "gt": "is more than",
    "lt": "is less than", "known": "is known", "missing": "is missing",
}  # fmt: skip
SIGNS = {"eq": "=", "ne": "<>", "ge": ">=", "le": "<=", "gt": ">", "lt": "<"}
LONGEST = 20_000  # letters of a field


@dataclass(frozen=True, slots=True)
class Asked:
    """What someone filled in, field by field."""

    fields: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, form: Form) -> Asked:
        """The fields of a form that make a question; others are left out."""
        kind = form.get("kind", "sql")
        if kind not in KINDS:
            raise QueryNotAllowed(f"kind={kind[:60]!r}: want one of {', '.join(KINDS)}.")
        names = {"sql": ("sql",), "count": ("error",), "mean": ("column",),
                 "histogram": ("column", "bins", "error"), "crosstab": ("column", "other", "error"),
                 }[kind]  # fmt: skip
        found = [("kind", kind), *((n, form.raw(n).strip()) for n in names)]
        if kind != "sql":
            for i in range(CONDITIONS):
                found += [(f"{part}{i}", form.get(f"{part}{i}")) for part in "cov"]
        if any(len(value) > LONGEST for _, value in found):
            raise QueryNotAllowed(f"a field has more than {LONGEST:,} letters. Write it shorter.")
        return cls(tuple((name, value) for name, value in found if value))

    @classmethod
    def from_json(cls, text: str) -> Asked:
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
        """sql, count, mean, histogram or crosstab."""
        return self.get("kind")

    # ---- as a question --------------------------------------------------------------------

    def question(self, db: Database) -> str | Query:
        """What to ask of a database; nothing is asked yet."""
        if self.kind == "sql":
            if not self.get("sql"):
                raise QueryNotAllowed("write a SELECT first, or take one of the examples.")
            return self.get("sql")
        where = self.where(db.schema)
        if self.kind == "mean":
            return self._mean(db.name, db.schema)
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

    def _mean(self, table: str, schema: Schema) -> str:
        column, where = self._column(schema, "column"), self.where(schema)
        said = f" where {where}" if where else ""
        return f"select avg({quoted(column.name)}) as mean from {quoted(table)}{said}"

    def where(self, schema: Schema) -> str | None:
        """The conditions as SQL, each value written as its column's type wants it."""
        terms = []
        for i in range(CONDITIONS):
            name, test, value = (self.get(f"{part}{i}") for part in "cov")
            if not name:
                continue
            column = known(schema, name)
            if test in ("known", "missing"):
                terms.append(f"{quoted(name)} is {'not ' if test == 'known' else ''}null")
                continue
            sign = SIGNS.get(test or "eq")
            if sign is None:
                raise QueryNotAllowed(f"{test[:60]!r} is no way to compare here.")
            terms.append(f"{quoted(name)} {sign} {written(column, value)}")
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
        said = f"{self.kind} of {' by '.join(names)}" if names else self.kind
        tests = []
        for i in range(CONDITIONS):
            name, test, value = (self.get(f"{part}{i}") for part in "cov")
            if name:
                tests.append(f"{name} {TESTS.get(test or 'eq', test)} {value}".strip())
        return said + (f" where {' and '.join(tests)}" if tests else "")

    def python(self, url: str, name: str, schema: Schema) -> str:
        """The same question as a program."""
        lines = ["import sulq", "", f"db = sulq.connect({url!r}, key=..., name={name!r})"]
        return "\n".join([*lines, f"print({self._call(name, schema)})", ""])

    def _call(self, name: str, schema: Schema) -> str:
        where, error = "" if self.kind == "sql" else self.where(schema), self.get("error")
        more = [f"where={where!r}"] if where else []
        more += [f"error={error.replace(',', '')}"] if error else []
        if self.kind == "sql":
            return f"db.sql({literal(self.get('sql'))})"
        if self.kind == "mean":
            return f"db.sql({literal(self._mean(name, schema))})"
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


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def written(column: Column, value: str) -> str:
    """A value as SQL writes it, by its column's type."""
    kind = column.type
    if kind == "boolean":
        said = {"yes": "true", "true": "true", "1": "true", "no": "false", "false": "false",
                "0": "false"}.get(value.lower())  # fmt: skip
        if said is None:
            raise QueryNotAllowed(f"{column.name}: want yes or no, not {value[:60]!r}.")
        return said
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
    if kind == "category" and column.values is not None and numbers and _is_number(value):
        return value
    return "'" + value.replace("'", "''") + "'"


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


def examples(name: str, schema: Schema) -> list[tuple[str, str]]:
    """Questions that this table can answer, from its declarations alone."""
    table = plain_name(name)
    groups = [c for c in schema.columns if c.listed is not None and not c.key]
    numbers = [
        c for c in schema.columns if c.type in ("integer", "number") and c.bounded and not c.key
    ]
    flags = [c for c in groups if c.type == "boolean"]
    out = []
    if flags:
        flag = plain_name(flags[0].name)
        out.append(("How many", f"select count(*)\nfrom {table}\nwhere {flag}"))
    if groups:
        group = plain_name(groups[0].name)
        out.append(
            ("How many of each", f"select {group}, count(*)\nfrom {table}\ngroup by {group}")
        )
    if numbers:
        number = plain_name(numbers[-1].name)
        out.append(("A mean", f"select avg({number})\nfrom {table}"))
    if numbers and groups:
        group, number = plain_name(groups[-1].name), plain_name(numbers[-1].name)
        out.append(
            ("A mean of each",
             f"select {group}, count(*), avg({number})\nfrom {table}\ngroup by {group}")
        )  # fmt: skip
    if numbers:
        number = plain_name(numbers[0].name)
        out.append(("A median", f"select median({number})\nfrom {table}"))
    return out or [("How many rows", f"select count(*)\nfrom {table}")]


def plain_name(name: str) -> str:
    """A name as people write it in SQL: quoted only where it must be."""
    return name if name.isidentifier() and name.isascii() and name == name.lower() else quoted(name)


def groupable(schema: Schema) -> Sequence[Column]:
    """Columns that a histogram can be of."""
    return [
        c for c in schema.columns if not c.key and (c.listed is not None or c.bounded or c.bins)
    ]


def countable(schema: Schema) -> Sequence[Column]:
    """Columns that have a mean."""
    return [
        c for c in schema.columns if c.bounded and c.type in ("integer", "number") and not c.key
    ]


def plain(value: Any) -> str:
    """A bound or a category as a page writes it."""
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
