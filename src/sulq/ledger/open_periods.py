"""Which periods have rows, and so which cells a question can be charged to.

A period that has not opened has no rows: nothing is spent on it, whatever is asked of all rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sulq.errors import Refused, SchemaError
from sulq.values.schema import Schema


def open_cells(terms: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The cells of periods that have rows; None where rows do not arrive by periods."""
    periods = terms.get("periods")
    if periods is None:
        return None
    return schema_of(terms).cells_of(periods)


def cells_each(terms: Mapping[str, Any]) -> int:
    """In how many cells the rows of one person may count: max_periods, else 1."""
    unit = (terms.get("schema") or {}).get("unit") or {}
    return int(unit.get("max_periods") or 1)


def check_alone(in_group: bool) -> None:
    """Refuse new periods where a charge counts for rows of other datasets too."""
    if in_group:
        raise Refused("append: a dataset of a group takes no new periods. Nothing was charged.")


def check_opened(
    old: Mapping[str, Any], new: Mapping[str, Any], *, in_group: bool, ordered: bool
) -> None:
    """Refuse an append that is anything but new periods of the same table."""
    check_alone(in_group)
    if old["schema"] != new["schema"]:
        raise SchemaError(
            "append: the schema is not the ledger's. Nothing was charged.\nGo back to it, or run "
            "`sulq refresh` with the new one."
        )
    if not set(old.get("periods") or ()) <= set(new.get("periods") or ()):
        raise Refused("append: a period that had rows has none. Run `sulq refresh`.")
    check_in_order(schema_of(new), old["periods"], new["periods"], ordered)


def check_in_order(
    schema: Schema, opened: Collection[Any], new: Collection[Any], ordered: bool
) -> None:
    """Refuse a period that comes before an open one, where earlier ones decide about later ones.

    Running totals have said what there was up to the last; and of a person's periods the first
    ones count, so that one more before them would take the place of one that has counted.
    """
    listed = list(schema[str(schema.period)].listed or ())
    last = max((listed.index(p) for p in opened), default=-1)
    late = [str(p) for p in listed[: last + 1] if p in set(new) - set(opened)]
    if ordered and late:
        raise Refused(
            f"append: {', '.join(late)} would open behind {listed[last]}, which has rows. Nothing "
            "was written or charged.\nWith running totals, or [unit] max_periods, periods open in "
            "the order in which the schema lists them. Run `sulq refresh` if they must come in."
        )


def is_append(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Does the chain go on from the one to the other by new periods alone?"""
    before, after = old.get("periods"), new.get("periods")
    same = (old["promise"], old["schema"]) == (new["promise"], new["schema"])
    return same and before is not None and after is not None and set(before) <= set(after)


# ---- how cells are numbered -----------------------------------------------------------------
# The keys of an entry are sorted, so that order is written down beside the schema. Whoever read the
# schema without it would take one cell for another, and let rows off that have to pay.

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
