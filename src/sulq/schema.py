"""What the owner declares: columns, ranges, categories, what is public.

Bounds and categories come from the owner's knowledge, never from the data: a bound read
off the rows would itself be an answer nobody paid for.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sulq.errors import SchemaError

TYPES = ("integer", "number", "boolean", "category", "text", "date")
FIELDS = ("type", "low", "high", "values", "public", "key", "nullable", "bins")
LARGEST = 2**53  # integers up to here are exact on every engine
MAX_CELLS = 10_000  # of the ledger
MAX_COLUMNS = 10_000
MAX_NAME = 200

Scalar = bool | int | float | str | datetime.date


@dataclass(frozen=True, slots=True)
class Column:
    """One declared column. `public` columns hide nothing; a `key` is a public row number."""

    name: str
    type: str
    low: Any = None
    high: Any = None
    values: tuple[Any, ...] | None = None
    public: bool = False
    key: bool = False
    nullable: bool = True
    bins: tuple[Any, ...] | None = None

    @property
    def bounded(self) -> bool:
        """Are both ends of the range known?"""
        return self.low is not None and self.high is not None

    @property
    def is_cell(self) -> bool:
        """Does the ledger keep spending apart by this column's values?"""
        return self.public and self.listed is not None

    @property
    def listed(self) -> tuple[Any, ...] | None:
        """The values that name cells, if there are few and known."""
        return (False, True) if self.type == "boolean" else self.values

    def to_json(self) -> dict[str, Any]:
        """The declaration as plain values, defaults left out."""
        out: dict[str, Any] = {} if self.type == "key" else {"type": self.type}
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                out[name] = _plain(getattr(self, name))
        for name in ("values", "bins"):
            if getattr(self, name) is not None:
                out[name] = [_plain(v) for v in getattr(self, name)]
        if self.public and not self.key:
            out["public"] = True
        if self.key:
            out["key"] = True
        if not self.nullable:
            out["nullable"] = False
        return out


@dataclass(frozen=True, slots=True)
class Unit:
    """Whose rows are whose: `column` names the person, who counts with at most `max_rows`."""

    column: str
    max_rows: int


@dataclass(frozen=True)
class Schema:
    """The declared columns of one private table.

    Without a unit each row is a person of its own. With one, all rows of a person are
    protected together, and who owns which rows is public.
    """

    columns: tuple[Column, ...]
    where: str = field(default="", compare=False)  # the file, for messages
    unit: Unit | None = None

    def __post_init__(self) -> None:
        _check_names(self.columns, self.where)
        if self.unit is not None and self.unit.column not in {c.name for c in self.columns}:
            raise SchemaError(
                f"unit: column {self.unit.column!r} is not declared. Add [columns."
                f'{self.unit.column}] with type = "integer" or "text".'
            )
        if self.cell_count > MAX_CELLS:
            names = ", ".join(c.name for c in self.cell_columns)
            raise SchemaError(
                f"public columns {names} form {self.cell_count:,} ledger cells, "
                f"at most {MAX_CELLS:,} are kept. Leave `values` out of one of them "
                "(it stays usable, charged to everyone) or list fewer values."
            )

    @classmethod
    def load(cls, source: Schema | str | Path | Mapping[str, Any]) -> Schema:
        """Read a schema from a TOML path or a dict; a Schema is returned as it is."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            return cls._from_mapping(source, "", "")
        if not isinstance(source, str | Path):
            raise SchemaError(f"schema={source!r}: give a TOML path, a dict or a sulq.Schema.")
        path = Path(source)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise SchemaError(
                f"schema={str(source)!r} cannot be read ({why}). Give a TOML path, a "
                "dict or a sulq.Schema; `sulq schema draft FILE` writes a first draft."
            ) from None
        try:
            mapping = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{path.name}: not valid TOML: {error}.") from None
        return cls._from_mapping(mapping, text, path.name)

    @classmethod
    def _from_mapping(cls, mapping: Mapping[str, Any], text: str, where: str) -> Schema:
        columns = mapping.get("columns", mapping if not text else None)
        if not isinstance(columns, Mapping) or not columns:
            raise SchemaError(
                f"{where or 'schema'}: no columns. Declare each one as [columns.NAME], for "
                'example [columns.age] with type = "integer", low = 0, high = 120.'
            )
        if len(columns) > MAX_COLUMNS:
            raise SchemaError(f"{len(columns):,} columns declared, at most {MAX_COLUMNS:,}.")
        made = tuple(
            _column(str(name), spec, _Place(text, where, str(name)))
            for name, spec in columns.items()
        )
        unit = _unit(mapping.get("unit") if "columns" in mapping else None, where)
        if unit is not None:  # who owns which rows is public
            made = tuple(replace(c, public=True) if c.name == unit.column else c for c in made)
        _check_names(made, where, text)
        return cls(made, where, unit)

    @classmethod
    def of_array(cls, count: int) -> Schema:
        """Columns x0, x1, ... in [0, 1]: what a bare array gets."""
        return cls(tuple(Column(f"x{i}", "number", 0.0, 1.0, nullable=False) for i in range(count)))

    def __hash__(self) -> int:
        return hash(self.digest)

    def __getitem__(self, name: str) -> Column:
        return self._by_name[name]

    def get(self, name: str, *, quoted: bool = False) -> Column | None:
        """Find a column as SQL does: exact, or in any case when not quoted."""
        if not isinstance(name, str):
            return None
        if name in self._by_name or quoted:
            return self._by_name.get(name)
        return self._by_folded.get(name.lower())

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {c.name: c for c in self.columns}

    @cached_property
    def _by_folded(self) -> dict[str, Column]:
        return {c.name.lower(): c for c in self.columns}

    @property
    def names(self) -> list[str]:
        """The declared names, in order."""
        return [c.name for c in self.columns]

    @cached_property
    def key(self) -> Column | None:
        """The public row number, if one is declared."""
        return next((c for c in self.columns if c.key), None)

    @cached_property
    def cell_columns(self) -> tuple[Column, ...]:
        """The public columns whose listed values form the ledger's cells."""
        if self.unit is not None:
            return ()  # a person's rows may lie in several cells, so all are charged alike
        return tuple(c for c in self.columns if c.is_cell)

    @property
    def cell_count(self) -> int:
        """How many cells the ledger keeps, the 'other' of each column included."""
        return math.prod(len(c.listed or ()) + 1 for c in self.cell_columns)

    @cached_property
    def cells(self) -> tuple[tuple[Any, ...], ...]:
        """Every combination of public values; None stands for undeclared or missing."""
        return tuple(itertools.product(*((*(c.listed or ()), None) for c in self.cell_columns)))

    def with_types(self, types: Mapping[str, str]) -> Schema:
        """Fill in what only the source's metadata tells: whether a key is text or integer."""
        return Schema(
            tuple(
                replace(c, type=types.get(c.name, "integer")) if c.type == "key" else c
                for c in self.columns
            ),
            self.where,
            self.unit,
        )

    def to_json(self) -> dict[str, Any]:
        """The whole schema as plain values."""
        body: dict[str, Any] = {"columns": {c.name: c.to_json() for c in self.columns}}
        if self.unit is not None:
            body["unit"] = {"column": self.unit.column, "max_rows": self.unit.max_rows}
        return body

    @cached_property
    def digest(self) -> str:
        """A short name for exactly these declarations."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a declaration stands, so that an error can name its line."""

    text: str
    where: str
    column: str

    def error(self, problem: str, field_name: str = "") -> SchemaError:
        """Name the place, then the problem and its fix."""
        return SchemaError(f"{self.at(field_name)}column {self.column!r}: {problem}")

    def at(self, field_name: str = "") -> str:
        """The file and line, as an error begins."""
        line = self._line(field_name)
        return f"{self.where}, line {line}: " if line else f"{self.where}: " if self.where else ""

    def _line(self, field_name: str) -> int | None:
        if not self.text:
            return None
        quoted = re.escape(self.column)
        name = rf"[\"']?{quoted}[\"']?\s*"  # as [columns.name], or name = {{ ... }} in [columns]
        header = re.compile(rf"^\s*(\[\s*columns\s*\.\s*{name}\]|(columns\s*\.\s*)?{name}[=.])")
        found = None
        for number, line in enumerate(self.text.splitlines(), 1):
            if found is None:
                found = number if header.match(line) else None
            elif line.lstrip().startswith("["):
                break
            elif field_name and re.match(rf"\s*{field_name}\s*=", line):
                return number
        return found


def _unit(spec: Any, where: str) -> Unit | None:
    if spec is None:
        return None
    at = f"{where}: " if where else ""
    if not isinstance(spec, Mapping) or set(spec) != {"column", "max_rows"}:
        raise SchemaError(f'{at}unit: want column = "person_id" and max_rows = 5, nothing else.')
    most = spec["max_rows"]
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= 1000:
        raise SchemaError(f"{at}unit: max_rows = {most!r}, want a whole number from 1 to 1000.")
    return Unit(str(spec["column"]), most)


def _column(name: str, spec: Any, place: _Place) -> Column:
    """Check one declaration and make it total: every default filled in."""
    if not isinstance(spec, Mapping):
        raise place.error(f'got {spec!r}, want a table such as {{ type = "boolean" }}.')
    for unknown in sorted(set(spec) - set(FIELDS), key=str):
        raise place.error(
            f"{unknown!r} is not a setting. Known: {', '.join(FIELDS)}.", str(unknown)
        )
    for flag in ("public", "key", "nullable"):
        if not isinstance(spec.get(flag, False), bool):
            raise place.error(f"{flag} = {spec[flag]!r}, want true or false.", flag)
    key = spec.get("key", False)
    kind = _kind(spec, key, place)
    values = _values(spec, kind, place)
    low, high = (_end(spec, end, kind, place) for end in ("low", "high"))
    if (low is None) != (high is None):
        missing = "high" if high is None else "low"
        raise place.error(f"{missing} is missing: declare both ends, or neither.")
    if low is not None and not low < high:
        raise place.error(f"low = {low} is not below high = {high}.", "low")
    bins = _bins(spec, kind, low, high, place)
    return Column(
        name, kind, low, high, values,
        public=spec.get("public", False) or key, key=key,
        nullable=spec.get("nullable", True), bins=bins,
    )  # fmt: skip


def _kind(spec: Mapping[str, Any], key: bool, place: _Place) -> str:
    kind = spec.get("type")
    if kind is None:
        if "values" in spec:
            return "category"
        if key:
            return "key"  # text or integer: the source's metadata decides
        raise place.error(f"type is missing. Give one of {', '.join(TYPES)}, or list its values.")
    if kind not in TYPES:
        raise place.error(f"type = {kind!r}, want one of {', '.join(TYPES)}.", "type")
    if key and kind not in ("integer", "text"):
        raise place.error(f"a key is integer or text, not {kind}.", "type")
    if kind == "category" and "values" not in spec:
        raise place.error(
            "values is missing. List the categories you know can occur, for example "
            'values = ["north", "south"]; anything else is counted as \'other\'.'
        )
    return str(kind)


def _values(spec: Mapping[str, Any], kind: str, place: _Place) -> tuple[Any, ...] | None:
    if "values" not in spec:
        return None
    if kind != "category":
        raise place.error(f"values belong to a category, not to type = {kind!r}.", "values")
    values = spec["values"]
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise place.error(f"values = {values!r}, want a list with at least one value.", "values")
    if not (
        all(isinstance(v, str) for v in values)
        or all(isinstance(v, int) and not isinstance(v, bool) for v in values)
    ):
        raise place.error("values must all be strings or all be integers.", "values")
    if len(set(values)) != len(values):
        twice = sorted({str(v) for v in values if list(values).count(v) > 1})
        raise place.error(f"values listed twice: {', '.join(twice)}.", "values")
    if len(values) > MAX_CELLS:
        raise place.error(f"{len(values):,} values, at most {MAX_CELLS:,}.", "values")
    if any(isinstance(v, int) and abs(v) > LARGEST for v in values):
        raise place.error("integer values must lie within +-2**53.", "values")
    return tuple(values)


def _end(spec: Mapping[str, Any], end: str, kind: str, place: _Place) -> Any:
    if end not in spec:
        return None
    if kind not in ("integer", "number", "date", "key"):
        raise place.error(f"{end} does not apply to type = {kind!r}.", end)
    return _point(spec[end], kind, place, end)


def _point(value: Any, kind: str, place: _Place, field_name: str) -> Any:
    """A bound or bin edge, in the column's own type."""
    if kind == "date":
        try:
            return _date(value)
        except (TypeError, ValueError):
            raise place.error(
                f"{field_name} = {value!r}, want a date such as 2020-01-31.", field_name
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.error(f"{field_name} = {value!r}, want a number.", field_name)
    if not math.isfinite(value) or abs(value) > 1e300:
        raise place.error(f"{field_name} = {value!r}, want a finite number.", field_name)
    if kind == "number":
        return float(value)
    if value != int(value) or abs(value) > LARGEST:
        raise place.error(
            f"{field_name} = {value!r}, want a whole number within +-2**53.", field_name
        )
    return int(value)


def _bins(
    spec: Mapping[str, Any], kind: str, low: Any, high: Any, place: _Place
) -> tuple[Any, ...] | None:
    if "bins" not in spec:
        return None
    if kind not in ("integer", "number", "date"):
        raise place.error(f"bins do not apply to type = {kind!r}.", "bins")
    edges = spec["bins"]
    if isinstance(edges, str) or not isinstance(edges, Sequence) or len(edges) < 2:
        raise place.error(f"bins = {edges!r}, want a list of at least two edges.", "bins")
    points = tuple(_point(e, "number" if kind == "integer" else kind, place, "bins") for e in edges)
    if any(a >= b for a, b in itertools.pairwise(points)):
        raise place.error("bins must rise from edge to edge.", "bins")
    if low is not None and (points[0] > high or points[-1] < low):
        raise place.error(f"bins lie outside low = {low}, high = {high}.", "bins")
    return points


def _date(value: Any) -> datetime.date:
    if isinstance(value, datetime.datetime):
        return value.date()
    if isinstance(value, datetime.date):
        return value
    return datetime.date.fromisoformat(value)


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime.date) else value


def _check_names(columns: tuple[Column, ...], where: str, text: str = "") -> None:
    seen: dict[str, str] = {}
    for column in columns:
        name = column.name
        at = _Place(text, where, name).at()
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise SchemaError(
                f"{at}column name {name[:40]!r} is empty, unprintable or longer than {MAX_NAME}."
            )
        if name.lower() in seen:
            raise SchemaError(
                f"{at}columns {seen[name.lower()]!r} and {name!r} differ only in case; SQL "
                "cannot tell them apart. Rename one in the source."
            )
        seen[name.lower()] = name
    keys = [c.name for c in columns if c.key]
    if len(keys) > 1:
        at = _Place(text, where, keys[1]).at("key")
        raise SchemaError(f"{at}columns {', '.join(keys)} are all keys; declare one.")
