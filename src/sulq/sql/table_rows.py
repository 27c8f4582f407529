"""Rows of a table of answers: some of them, and in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sulq.values.table import Table

ALL = "(all)"  # the label of rows that are not grouped by a key


def picked(table: Table, rows: Sequence[int]) -> Table:
    """Some rows of a table, in this order."""
    return replace(
        table,
        columns={n: [c[i] for i in rows] for n, c in table.columns.items()},
        too_few=tuple(table.too_few[i] for i in rows) if table.too_few else (),
        too_noisy={n: [v[i] for i in rows] for n, v in table.too_noisy.items()},
    )


def sorted_by(table: Table, name: str, descending: bool, missing_first: bool) -> Table:
    """Sorted by an output: numbers by size, groups as declared, '(all)' and NULL at an end."""
    column = table.columns[name]
    if name in table.by:
        places = {x: i for i, x in enumerate(dict.fromkeys(x for x in column if x != ALL))}
        ranks = [places.get(x) for x in column]
    else:
        ranks = [None if x != x else x for x in column]
    known = [i for i, r in enumerate(ranks) if r is not None]
    missing = [i for i, r in enumerate(ranks) if r is None]
    known.sort(key=lambda i: ranks[i], reverse=descending)  # type: ignore[arg-type,return-value]
    return picked(table, missing + known if missing_first else known + missing)
