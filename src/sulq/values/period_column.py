"""Periods: the public column by which rows arrive, as a schema declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulq.errors import SchemaError
from sulq.values.column import Column, Unit


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
