"""Periods: the public column by which rows arrive, as a schema declares it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulq.errors import SchemaError
from sulq.values.column import Column


def read_period(spec: Any, where: str) -> str | None:
    """The column of [period], if that is declared."""
    if spec is None:
        return None
    at = f"{where}: " if where else ""
    if not isinstance(spec, Mapping) or set(spec) != {"column"}:
        raise SchemaError(f'{at}period: want column = "month", and nothing else.')
    return str(spec["column"])


def check_period(name: str | None, columns: Mapping[str, Column], unit: bool) -> None:
    """Refuse a period that forms no ledger cells of its own."""
    if name is None:
        return
    column = columns.get(name)
    if column is None or not column.is_cell:
        raise SchemaError(
            f"period: column {name!r} must be declared with public = true and values = [...], all "
            "periods that are to come among them: each has its own spending."
        )
    if unit:
        raise SchemaError(
            "period: with [unit] all rows of a person are charged alike, in whatever period they "
            "are. Leave one of the two out; without [unit] the promise is about a row."
        )
