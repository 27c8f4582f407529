"""What the owner declares: columns, ranges, categories, what is public.

Bounds and categories come from the owner's knowledge, never from the data: a bound read
off the rows would itself be an answer nobody paid for.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sulq.errors import SchemaError
from sulq.values.column import (
    LARGEST,
    MAX_CELLS,
    MAX_COLUMNS,
    MAX_NAME,
    OTHER,
    PLAIN,
    TYPES,
    Column,
    FileFormat,
    Unit,
    plain,
)
from sulq.values.declarations import Place, check_names, read_column, read_file_format, read_unit
from sulq.values.lookup import Lookup, read_lookups
from sulq.values.star import Star, StarTable, read_star
from sulq.values.text_file import read_text

__all__ = [
    "LARGEST",
    "MAX_CELLS",
    "MAX_NAME",
    "OTHER",
    "TYPES",
    "Column",
    "Schema",
    "Star",
    "StarTable",
    "Unit",
    "plain",
]


@dataclass(frozen=True)
class Schema:
    """The declared columns of one private table.

    Without a unit each row is a person of its own. With one, all rows of a person are
    protected together, and who owns which rows is public.
    """

    columns: tuple[Column, ...]
    where: str = field(default="", compare=False)  # the file, for messages
    unit: Unit | None = None
    file: FileFormat = PLAIN
    lookups: tuple[Lookup, ...] = ()  # public tables that rows may be joined to
    period: str | None = None  # the public column whose new values may appear later
    star: Star | None = None  # the tables that these rows are stacked from; None: there is one

    def __post_init__(self) -> None:
        check_names(self.columns, self.where)
        if self.unit is not None and self.unit.column not in {c.name for c in self.columns}:
            raise SchemaError(
                f"unit: column {self.unit.column!r} is not declared. Add [columns."
                f'{self.unit.column}] with type = "integer" or "text".'
            )
        check_period(self.period, self._by_name, self.unit)
        if self.key is not None and self.key.shards is not None and self.unit is not None:
            raise SchemaError(
                f"column {self.key.name!r}: shards part rows, and a person of [unit] may have rows "
                "in several. Leave one of them out."
            )
        for table in self.lookups:
            if table.on not in {c.name for c in self.columns}:
                raise SchemaError(f"lookups.{table.name}: on = {table.on!r} is not declared.")
        if self.cell_count > MAX_CELLS:
            names = ", ".join(c.name for c in self.cell_columns)
            raise SchemaError(
                f"public columns {names} form {self.cell_count:,} ledger cells, "
                f"at most {MAX_CELLS:,} are kept. Leave `values` out of one of them "
                "(it stays usable, charged to everyone), list fewer values, or declare fewer "
                "shards."
            )

    @classmethod
    def load(cls, source: Schema | str | Path | Mapping[str, Any]) -> Schema:
        """Read a schema from a TOML path or a dict; a Schema is returned as it is."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            return cls._from_mapping(source, "", "", Path())
        if not isinstance(source, str | Path):
            raise SchemaError(f"schema={source!r}: give a TOML path, a dict or a sulq.Schema.")
        path = Path(source)
        text = read_text(
            path,
            lambda why: SchemaError(
                f"schema={str(source)!r} cannot be read ({why}). Give a TOML path, a "
                "dict or a sulq.Schema; `sulq schema draft FILE` writes a first draft."
            ),
        )
        try:
            mapping = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{path.name}: not valid TOML: {error}.") from None
        return cls._from_mapping(mapping, text, path.name, path.parent)

    @classmethod
    def _from_mapping(
        cls, mapping: Mapping[str, Any], text: str, where: str, folder: Path
    ) -> Schema:
        star = read_star(mapping, text, where)
        if star is not None:
            public = read_lookups(mapping.get("lookups"), where, folder)
            form = read_file_format(mapping.get("file"), where)
            return cls(star.columns(), where, star.unit(), form, public, star=star)
        columns = mapping.get("columns", mapping if not text else None)
        if not isinstance(columns, Mapping) or not columns:
            raise SchemaError(
                f"{where or 'schema'}: no columns. Declare each one as [columns.NAME], for "
                'example [columns.age] with type = "integer", low = 0, high = 120.'
            )
        if len(columns) > MAX_COLUMNS:
            raise SchemaError(f"{len(columns):,} columns declared, at most {MAX_COLUMNS:,}.")
        made = tuple(
            read_column(str(name), spec, Place(text, where, str(name)))
            for name, spec in columns.items()
        )
        unit = read_unit(mapping.get("unit") if "columns" in mapping else None, where)
        if unit is not None:  # who owns which rows is public, by whole names
            named: dict[str, Any] = {"public": True, "max_length": None}
            made = tuple(replace(c, **named) if c.name == unit.column else c for c in made)
        check_names(made, where, text)
        said = mapping.get("file") if "columns" in mapping else None
        tables = mapping.get("lookups") if "columns" in mapping else None
        lookups = read_lookups(tables, where, folder)
        period = read_period(mapping.get("period") if "columns" in mapping else None, where)
        return cls(made, where, unit, read_file_format(said, where), lookups, period)

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

    def lookup(self, name: str) -> Lookup | None:
        """The public table of this name, as SQL finds it."""
        return next((t for t in self.lookups if t.name.lower() == name.lower()), None)

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
        if self.unit is not None:  # a person's rows may lie in several cells: all pay alike
            return () if self.period is None else (self[self.period],)
        shards = () if self.shards is None else (self.shards,)
        return (*(c for c in self.columns if c.is_cell), *shards)

    @cached_property
    def shards(self) -> Column | None:
        """The key, hashed: the last of the columns that form cells, and in no table."""
        if self.key is None or self.key.shards is None:
            return None
        values = tuple(range(self.key.shards))
        return Column(f"{self.key.name} shard", "integer", values=values, public=True)

    @property
    def cell_count(self) -> int:
        """How many cells the ledger keeps, the '(other)' of each column included."""
        return math.prod(len(c.listed or ()) + 1 for c in self.cell_columns)

    @cached_property
    def cells(self) -> tuple[tuple[Any, ...], ...]:
        """Every combination of public values; None stands for undeclared or missing."""
        return tuple(itertools.product(*((*(c.listed or ()), None) for c in self.cell_columns)))

    def cells_of(self, periods: Collection[Any]) -> tuple[int, ...]:
        """The ledger cells of these periods, and of rows that are in none that is declared."""
        at = [c.name for c in self.cell_columns].index(str(self.period))
        known = {*periods, None}
        return tuple(i for i, cell in enumerate(self.cells) if cell[at] in known)

    def in_order(self, names: Collection[str]) -> Schema:
        """The same with these columns in this order, in the places that they have together."""
        following = iter(names)
        columns = (self[next(following)] if c.name in names else c for c in self.columns)
        return replace(self, columns=tuple(columns))

    def with_types(self, types: Mapping[str, str]) -> Schema:
        """Fill in what only the source's metadata tells: whether a key is text or integer."""
        typed = (
            replace(c, type=types.get(c.name, "integer")) if c.type == "key" else c
            for c in self.columns
        )
        star = None if self.star is None else self.star.with_types(types)
        return replace(self, columns=tuple(typed), star=star)

    def to_json(self) -> dict[str, Any]:
        """The whole schema as plain values."""
        body: dict[str, Any] = {"columns": {c.name: c.to_json() for c in self.columns}}
        if self.star is not None:
            body = self.star.to_json()
        elif self.unit is not None:
            body["unit"] = self.unit.to_json()
        if self.period is not None:
            body["period"] = {"column": self.period}
        if self.file != PLAIN:
            body["file"] = self.file.to_json()
        if self.lookups:
            body["lookups"] = {table.name: table.to_json() for table in self.lookups}
        return body

    @cached_property
    def digest(self) -> str:
        """A short name for exactly these declarations."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# ---- the column of periods ------------------------------------------------------------------


def read_period(spec: Any, where: str) -> str | None:
    """The column of [period], if that is declared."""
    if spec is None:
        return None
    at = f"{where}: " if where else ""
    if not isinstance(spec, Mapping) or set(spec) != {"column"}:
        raise SchemaError(f'{at}period: want column = "month", and nothing else.')
    return str(spec["column"])


def check_period(name: str | None, columns: Mapping[str, Column], unit: Unit | None) -> None:
    """Refuse a period that forms no ledger cells, and people in nobody said how many of them."""
    if name is None:
        if unit is not None and unit.max_periods is not None:
            raise SchemaError("unit: max_periods is for rows that arrive by periods: add [period].")
        return
    column = columns.get(name)
    if column is None or not column.is_cell:
        raise SchemaError(
            f"period: column {name!r} must be declared with public = true and values = [...], all "
            "periods that are to come among them: each has its own spending."
        )
    if unit is not None and unit.max_periods is None:
        raise SchemaError(
            "period: with [unit] say in how many periods a person may count, max_periods = 12: "
            "what is spent on all of them is within T. Without [unit] the promise is about a row."
        )
