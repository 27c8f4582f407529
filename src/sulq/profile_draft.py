"""A schema as TOML: what was declared, and what a profile found where nothing was."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sulq.values.price import Price
from sulq.values.schema import Column, Schema
from sulq.values.star import StarTable


@dataclass(frozen=True)
class Draft:
    """Declarations, and beside them what was found."""

    schema: Schema
    ends: Mapping[str, tuple[Any, Any]]  # of columns
    most: Mapping[str, tuple[Any, Any]]  # rows that three of four people have, and nearly all

    def text(self, price: Price) -> str:
        """The TOML."""
        star = self.schema.star
        blocks = [
            f"# What was declared, and ends that a profile found: noisy, and paid for by {price}.\n"
            "# A few rows may lie outside; they count as the nearer end."
        ]
        if star is None:
            blocks += [self._column("columns", c.name, c) for c in self.schema.columns]
        blocks += self._unit()
        for table in () if star is None else star.tables:
            blocks.append(self._table(table))
            at = f"tables.{table.name}.columns"
            named = [(star.stacked(table, c.name), c) for c in table.columns] if star else []
            blocks += [self._column(at, name, c) for name, c in named]
        for name, said in _others(self.schema).items():
            lines = [f"[{name}]", *(f"{k} = {_toml(v)}" for k, v in said.items())]
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks) + "\n"

    def _column(self, at: str, name: str, column: Column) -> str:
        """One column; `name` is what the profile calls it."""
        simple = re.fullmatch("[A-Za-z0-9_-]+", column.name)
        lines = [f"[{at}.{column.name if simple else json.dumps(column.name)}]"]
        for said, value in column.to_json().items():
            date = isinstance(value, str) and said in ("low", "high")
            lines.append(f"{said} = {value if date else _toml(value)}")
        if name in self.ends and not column.bounded:
            low, high = self.ends[name]
            lines.append(f"low = {_end(low)}  # found")
            lines.append(f"high = {_end(high)}  # found")
        return "\n".join(lines)

    def _unit(self) -> list[str]:
        """Whose rows are whose, as it was declared."""
        unit = self.schema.unit
        if unit is None:
            return []
        said = {"column": unit.column} | self.schema.to_json()["unit"]
        lines = [f"{k} = {_toml(v)}" for k, v in said.items() if k not in ("keys", "max_rows")]
        if self.schema.star is None:
            lines.append(self._most(unit.max_rows, ""))
        return ["\n".join(["[unit]", *lines])]

    def _table(self, table: StarTable) -> str:
        lines = [f"column = {_toml(table.person)}", f"source = {_toml(table.source)}"]
        if table.max_rows is not None:
            lines.append(self._most(table.max_rows, table.name))
        return "\n".join([f"[tables.{table.name}]", *lines])

    def _most(self, declared: int, table: str) -> str:
        """max_rows as it was declared, and beside it what people have."""
        if table not in self.most:
            return f"max_rows = {declared}"
        three, nearly = self.most[table]
        found = f"three of four people have at most {three}, nearly all at most {nearly}"
        return f"max_rows = {declared}  # found: {found}"


def _others(schema: Schema) -> dict[str, dict[str, Any]]:
    """What else was declared: how the file is written, periods, public tables."""
    body = schema.to_json()
    named = {name: body[name] for name in ("period", "file") if name in body}
    lookups = {f"lookups.{name}": said for name, said in body.get("lookups", {}).items()}
    return named | lookups


def _toml(value: Any) -> str:
    """A plain value as TOML has it, rows of a lookup table too."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        pairs = (f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False)


def _end(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
