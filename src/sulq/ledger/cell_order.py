"""How a ledger numbers its cells: by the public columns, in the order in which they are declared.

The keys of an entry are sorted, so that order is written down beside the schema. Whoever read the
schema without it would take one cell for another, and let rows off that have to pay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulq.values.schema import Schema

ORDER = "cell_columns"  # its name among the terms, where there are several such columns


def cell_order(schema: Schema) -> list[str]:
    """The columns that form cells, as they are declared. Shards come behind them, always."""
    return [c.name for c in schema.cell_columns if c is not schema.shards]


def schema_of(terms: Mapping[str, Any]) -> Schema:
    """The schema of a ledger, with its cells numbered as they were when they paid.

    The keys of an entry are sorted, so the order of columns is kept beside them.
    """
    schema = Schema.load(terms["schema"])
    return schema.in_order(terms[ORDER]) if ORDER in terms else schema


def is_order_known(terms: Mapping[str, Any]) -> bool:
    """Does the ledger say how its cells are numbered? Older ones with several columns do not."""
    return ORDER in terms or len(cell_order(Schema.load(terms["schema"]))) < 2
