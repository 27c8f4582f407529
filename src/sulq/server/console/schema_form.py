"""A schema as one fills it in: fields -> declarations, and what a person can mend while typing.

What is wrong is said in the words of sulq.Schema, which decides. Nothing here knows a row: a
draft has names and stored types, and bounds are the owner's to say.
"""

from __future__ import annotations

import csv
import io
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sulq.errors import SchemaError
from sulq.server.console.forms import Form
from sulq.values.schema import MAX_CELLS, TYPES, Column, Schema

LEFT_OUT = "leave out"
MAX_COLUMNS = 1000  # that a form has room for
MANY_CELLS = 1000
LONG = 10_000  # from which on the thousands of a bound are set apart
FEW = 5  # columns with the same remark, each by itself
CARRIED = ("unit", "period", "lookups", "tables", "file")
RANGED = ("integer", "number", "date", "timestamp")
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
THOUSANDS = re.compile(r"-?[0-9]{1,3}(,[0-9]{3})+")


@dataclass(frozen=True, slots=True)
class Field:
    """One column as it is filled in: all of it text, whether it makes sense or not."""

    name: str
    type: str = ""
    low: str = ""
    high: str = ""
    values: str = ""
    public: bool = False
    key: bool = False
    full: bool = False  # nothing is missing
    stored: str = ""  # the type that fits how it is stored
    bins: str = ""  # carried along; changed as text only
    longest: str = ""  # letters of a text that are looked at
    guessed: bool = False  # the type is one, from the first rows


@dataclass(frozen=True, slots=True)
class Typed:
    """A whole schema as it is filled in."""

    fields: tuple[Field, ...]
    unit_column: str = ""
    unit_rows: str = ""
    more: str = ""  # what there are no fields for, as JSON: periods, lookups, tables

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of several tables; of one there is none."""
        return tuple(_more(self.more).get("tables", ()))


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to mend, or to know."""

    text: str
    column: int | None = None  # whose field it is about


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found."""

    schema: Schema | None  # None: not one yet
    wrong: list[Finding]
    remarks: list[Finding]
    left_out: int


# ---- filling in -----------------------------------------------------------------------------


def drafted(columns: Iterable[Mapping[str, Any]]) -> Typed:
    """Names and stored types, as a first draft has them."""
    made = []
    for c in columns:
        unusable = c["stored"] is not None and c["type"] is None
        kind = LEFT_OUT if unusable else c["type"] or ""
        stored = "" if c["guessed"] else c["type"] or ""
        made.append(Field(str(c["name"]), kind, stored=stored, guessed=c["guessed"]))
    return Typed(tuple(made))


def declared(body: Mapping[str, Any]) -> Typed:
    """The fields of a schema that is there already."""
    more, tables = {k: v for k, v in body.items() if k != "columns"}, body.get("tables")
    if isinstance(tables, Mapping):
        own = {str(t): x if isinstance(x, Mapping) else {} for t, x in tables.items()}
        made = tuple(
            _field(f"{table}.{name}", spec)
            for table, x in own.items() for name, spec in _columns(x).items()
        )  # fmt: skip
        more["tables"] = {t: {k: v for k, v in x.items() if k != "columns"} for t, x in own.items()}
        return Typed(made, more=json.dumps(more, default=str))
    unit = more.pop("unit", None) or {}
    if set(unit) - {"column", "max_rows"}:
        more["unit"] = unit
    made = tuple(_field(str(name), spec) for name, spec in _columns(body).items())
    carried = json.dumps(more, default=str) if more else ""
    return Typed(made, str(unit.get("column", "")), str(unit.get("max_rows", "")), carried)


def _columns(body: Mapping[str, Any]) -> Mapping[str, Any]:
    found = body.get("columns", {})
    return found if isinstance(found, Mapping) else {}


def _more(text: str) -> dict[str, Any]:
    """What is carried along; nothing, if somebody changed it into what it cannot be."""
    with suppress(ValueError, RecursionError):
        found = json.loads(text or "{}")
        if isinstance(found, dict) and all(isinstance(found.get(n, {}), dict) for n in CARRIED):
            return found
    return {}


def _field(name: str, spec: Any) -> Field:
    if not isinstance(spec, Mapping):
        raise SchemaError(f"column {name!r}: want a table of settings.")
    kind = str(spec.get("type", "category" if "values" in spec else ""))
    values = spec.get("values", ())
    listed = values if isinstance(values, list | tuple) else [values]
    bins = spec.get("bins", ())
    return Field(
        name, kind, _text(spec.get("low")), _text(spec.get("high")), _listed(listed),
        spec.get("public") is True, spec.get("key") is True, spec.get("nullable") is False,
        "integer" if listed and all(type(v) is int for v in listed) else kind,
        _listed(bins if isinstance(bins, list | tuple) else [bins]), _text(spec.get("max_length")),
    )  # fmt: skip


def of_text(text: str) -> Typed:
    """The fields of a schema written as TOML."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"this is not valid TOML: {str(error)[:200]}.") from None
    columns = found.get("columns") or found.get("tables")
    if not isinstance(columns, Mapping) or not columns:
        raise SchemaError("no columns: declare each one as [columns.NAME].")
    return declared(found)


def typed(form: Form) -> Typed:
    """What a form says."""
    count = form.get("columns", "0")
    number = min(int(count), MAX_COLUMNS) if count.isdecimal() and count.isascii() else 0
    said = form.mapping()
    rest = _unpacked(form.raw("rest"))
    made = tuple(_typed(said, str(i), rest) for i in range(number))
    return Typed(made, form.raw("unit_column"), form.get("unit_rows"), form.raw("more"))


def _typed(said: Mapping[str, str], i: str, rest: Mapping[str, Field]) -> Field:
    if "n" + i not in said and i in rest:
        return rest[i]

    def get(letter: str) -> str:
        return said.get(letter + i, "").strip()

    return Field(
        said.get("n" + i, ""), get("t"), get("l"), get("h"), get("v"), "p" + i in said,
        "k" + i in said, "f" + i in said, get("s"), get("b"), get("m"),
    )  # fmt: skip


def packed(filled: Typed, shown: Iterable[int] = ()) -> str:
    """The columns that are not shown as fields, in one text that the form carries along."""
    out = io.StringIO()
    writer, skipped = csv.writer(out, lineterminator="\n"), set(shown)
    for i, f in enumerate(filled.fields):
        if i not in skipped:
            ticked = f"{'p' * f.public}{'k' * f.key}{'f' * f.full}"
            line = [i, f.name, f.type, f.low, f.high, f.values, ticked, f.stored, f.bins, f.longest]
            while line[-1] == "":
                line.pop()
            writer.writerow(line)
    return out.getvalue()


def _unpacked(text: str) -> dict[str, Field]:
    found: dict[str, Field] = {}
    with suppress(csv.Error):
        for line in csv.reader(io.StringIO(text)):
            i, name, kind, low, high, values, ticks, *more = [*line, *[""] * 10][:10]
            found[i] = Field(
                name, kind, low, high, values, "p" in ticks, "k" in ticks, "f" in ticks,
                stored=more[0], bins=more[1], longest=more[2],
            )  # fmt: skip
    return found


def _text(value: Any) -> str:
    """A bound as pages show it: 500,000 for 500000.0. Years stay 2026."""
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    shown = int(value) if whole else value
    if isinstance(shown, int) and abs(shown) >= LONG:
        return f"{shown:,}"
    return "" if shown is None else str(shown)


def _listed(values: Iterable[Any]) -> str:
    """Values in a line, quoted where a comma is part of one."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow([str(v) for v in values])
    return out.getvalue().replace(",", ", ") if '"' not in out.getvalue() else out.getvalue()


def _parts(line: str) -> list[str]:
    """The values of a line."""
    found = next(csv.reader([line], skipinitialspace=True), [])
    return [part.strip() for part in found if part.strip()]


# ---- declarations ---------------------------------------------------------------------------


def said(filled: Typed) -> dict[str, Any]:
    """The declarations as sulq.Schema takes them; whether it does is for it to say."""
    columns = {f.name: _spec(f) for f in filled.fields if f.type != LEFT_OUT}
    more = _more(filled.more)
    if filled.tables:
        for table, body in more["tables"].items():
            own = {n.partition(".")[2]: x for n, x in columns.items() if n.startswith(f"{table}.")}
            more["tables"][table] = {"columns": own} | (body if isinstance(body, dict) else {})
        return more
    unit = more.pop("unit", {})
    if filled.unit_column:
        rows = _number(filled.unit_rows, True)
        more["unit"] = unit | {"column": filled.unit_column, "max_rows": rows}
    return more | {"columns": columns}


def _spec(f: Field) -> dict[str, Any]:
    """One column's declaration, without what does not belong to its type."""
    spec: dict[str, Any] = {"type": f.type} if f.type else {}

    def end(text: str) -> Any:
        plain = f.type in ("date", "timestamp")
        return text if plain else _number(text, f.type == "integer")

    if f.type in RANGED:
        spec |= {name: end(said) for name, said in (("low", f.low), ("high", f.high)) if said}
        spec |= {"bins": [end(part) for part in _parts(f.bins)]} if f.bins else {}
    if f.type == "text" and f.longest and not f.key:
        spec["max_length"] = _number(f.longest, True)
    if f.values and f.type in ("", "category"):
        spec["values"] = _values(f)
    ticked = (("public", True, f.public), ("key", True, f.key), ("nullable", False, f.full))
    return spec | {name: value for name, value, there in ticked if there}


def _values(f: Field) -> list[Any]:
    """Categories: numbers where the column holds numbers, texts where it holds texts."""
    parts = _parts(f.values)
    numbers = f.stored in ("", "integer") and all(WHOLE.fullmatch(p) for p in parts)
    return [int(p) for p in parts] if numbers else parts


def _number(text: str, whole: bool) -> Any:
    """A number, or the text as it is for the schema to refuse."""
    plain = text.replace(",", "") if THOUSANDS.fullmatch(text) else text
    for kind in (int, float) if whole or WHOLE.fullmatch(plain) else (float,):
        with suppress(ValueError):
            return kind(plain)
    return text


# ---- checking -------------------------------------------------------------------------------


def check(filled: Typed) -> Checked:
    """What stands in the way, what to know, and the schema if it is one."""
    wrong = list(_wrong(filled))
    left_out = sum(f.type == LEFT_OUT for f in filled.fields)
    if wrong:
        return Checked(None, wrong, [], left_out)
    try:
        schema = Schema.load(said(filled))
    except SchemaError as error:
        return Checked(None, [Finding(str(error))], [], left_out)
    return Checked(schema, [], list(_remarks(filled, schema)), left_out)


def _wrong(filled: Typed) -> Iterator[Finding]:
    """Each column by itself, so that every one of them is named."""
    if not any(f.type != LEFT_OUT for f in filled.fields):
        yield Finding("no column is declared: choose a type for at least one.")
    for i, f in enumerate(filled.fields):
        if f.type == LEFT_OUT:
            continue
        if f.type not in ("", *TYPES):
            yield Finding(f"column {f.name!r}: choose a type.", i)
            continue
        if not f.type and not f.values and not f.key:
            yield Finding(f"column {f.name!r}: choose a type, or leave the column out.", i)
            continue
        name = f.name.partition(".")[2] if filled.tables else f.name
        try:
            Schema.load({"columns": {name: _spec(f)}})
        except SchemaError as error:
            yield Finding(str(error), i)


def _remarks(filled: Typed, schema: Schema) -> Iterator[Finding]:
    """What the declarations mean for questions."""
    cells, by = schema.cell_count, ", ".join(c.name for c in schema.cell_columns)
    if by:
        yield Finding(f"Spending is kept apart in {cells:,} cells, by {by}.")
    else:
        yield Finding("No public column lists its values, so every question is paid by everyone.")
    if cells > MANY_CELLS:
        yield Finding(
            f"{cells:,} cells are many (at most {MAX_CELLS:,}): the ledger keeps each by itself, "
            "and pages that show them are long."
        )
    if schema.key is None:
        yield Finding("No key: samples and blocks of rows cannot be asked for.")
    alike: dict[str, list[tuple[int, str]]] = {}
    for i, f in enumerate(filled.fields):
        column = None if f.type == LEFT_OUT else _stored(f.name, schema)
        meaning = None if column is None else _meaning(column)
        if meaning is not None:
            alike.setdefault(meaning, []).append((i, f.name))
    for meaning, found in alike.items():
        if len(found) <= FEW:
            yield from (Finding(f"{name}: {meaning}", i) for i, name in found)
        else:
            names = ", ".join(name for _, name in found[:FEW])
            yield Finding(f"{names} and {len(found) - FEW} more: {meaning}", found[0][0])


def _stored(name: str, schema: Schema) -> Column | None:
    """The column that a field is of."""
    if schema.star is None:
        return schema.get(name, quoted=True)
    table, _, own = name.partition(".")
    found = schema.star.table(table)
    return None if found is None else next((c for c in found.columns if c.name == own), None)


def _meaning(column: Column) -> str | None:
    """What a column cannot be asked for as it is declared."""
    if column.key:
        return None
    if column.type in RANGED and not column.bounded:
        return (
            "no low and high, so it can be compared but not summed, averaged or drawn. Say what "
            "you know of the world, never what you see in the rows."
        )
    if column.type == "text":
        return "a text can be compared, not grouped by. List its values to make it a category."
    if column.public and not column.is_cell:
        return "public without listed values; rows chosen by it are paid by everyone."
    return None
