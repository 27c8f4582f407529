"""A column of a public lookup table -> a row function of the column that it is joined on."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.functions import call
from sulq.expressions.node import Node, column, literal
from sulq.expressions.spelling import nearest
from sulq.values.lookup import Lookup
from sulq.values.schema import Schema


def lookup_node(table: str, name: str, schema: Schema) -> Node:
    """What `table.name` is for each row."""
    found = schema.lookup(table)
    if found is None:
        raise QueryNotAllowed(
            f"{f'{table}.{name}'[:80]!r}: name the column alone, without a table."
        )
    if name.lower() == found.key.lower():
        return _known(found, schema)
    place = found.column(name)
    if place is None:
        near = nearest(name, found.columns)
        hint = f" Did you mean {near!r}?" if near else ""
        raise QueryNotAllowed(
            f"lookup table {found.name!r} has no column {name[:80]!r}.{hint} It has "
            f"{', '.join((found.key, *found.columns)[:20])}."
        )
    return _mapped(found, place, schema)


def is_in_lookup(table: Lookup, schema: Schema) -> Node:
    """Has a row's key a row in the lookup table? What JOIN without LEFT keeps."""
    return _one_of(column(schema[table.on]), [k for k, _ in table.entries], table)


@lru_cache(maxsize=256)
def _mapped(table: Lookup, place: int, schema: Schema) -> Node:
    key = column(schema[table.on])
    by_value: dict[Any, list[Any]] = {}
    for k, row in table.entries:
        if row[place] is not None:
            by_value.setdefault(_same(row[place]), []).append(k)
    parts: list[Node] = []
    values = [v for _, v in by_value]
    wide = any(isinstance(v, float) for v in values)  # 1 and 2.5: all are numbers
    for (_, value), keys in sorted(by_value.items(), key=lambda pair: repr(pair[0])):
        shown = float(value) if wide and isinstance(value, int) else value
        parts += [_one_of(key, keys, table), literal(shown)]
    if not parts:
        return literal(None)
    return _small(table, lambda: call("case", *parts, literal(None)))


def _same(value: Any) -> tuple[str, Any]:
    """True and 1 are different values."""
    return type(value).__name__, value


def _known(table: Lookup, schema: Schema) -> Node:
    """The key itself, where the table has it."""
    key = column(schema[table.on])
    return call("case", is_in_lookup(table, schema), key, literal(None))


def _one_of(key: Node, keys: Iterable[Any], table: Lookup) -> Node:
    """Is the key one of these? Runs of whole numbers are ranges."""
    whole = sorted(k for k in keys if isinstance(k, int) and not isinstance(k, bool))
    others = [k for k in keys if isinstance(k, bool) or not isinstance(k, int)]
    parts, alone = [], [literal(k) for k in sorted(others, key=repr)]
    for first, last in _runs(whole):
        if last - first < 2:
            alone += [literal(k) for k in range(first, last + 1)]
        else:
            ends = call("le", literal(first), key), call("le", key, literal(last))
            parts.append(call("and", *ends))
    if alone:
        parts.append(call("in", key, *alone))
    return _small(table, lambda: parts[0] if len(parts) == 1 else call("or", *parts))


def _runs(whole: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for k in whole:
        if runs and k == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], k
        else:
            runs.append((k, k))
    return runs


def _small(table: Lookup, make: Any) -> Node:
    """A row function, unless the table is too large to be written into a question."""
    try:
        found: Node = make()
    except QueryNotAllowed as refusal:
        if "parts" not in str(refusal):
            raise
        raise QueryNotAllowed(
            f"lookup table {table.name!r} has {len(table.entries):,} rows, too many to be part of "
            "a question. Keys that follow one another and have one value count once; else join it "
            "before the data is opened, as a column of the table."
        ) from None
    return found
