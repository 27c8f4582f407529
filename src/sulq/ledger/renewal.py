"""Other rows, or more of them: what the chain says of it, and what new periods pay at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sulq.errors import SchemaError
from sulq.ledger.chain import Page, now
from sulq.ledger.open_periods import open_cells
from sulq.ledger.pay import normal
from sulq.ledger.replay import HIGHEST, KEPT
from sulq.ledger.streams import reserved
from sulq.ledger.types import Request


def check_same_cells(cells: int | None, known: int) -> None:
    """Refuse rows whose public values form other cells."""
    if cells is not None and cells != known:
        raise SchemaError(
            f"cells={cells} but the ledger has {known}: what each cell spent could not "
            "be carried over. Nothing was charged.\nKeep the public columns and their values."
        )


def renewed(
    page: Page, new: Mapping[str, Any], body: Mapping[str, Any], cells: int, same_rows: bool,
    new_periods: bool,
) -> Sequence[Request]:  # fmt: skip
    """Write the entry of a refresh or an append; the chain's epoch is its number.

    Gives what running totals that go on ask of the new periods.
    """
    going_on = reserved(page.connection, new) if new_periods else []
    spending = KEPT if same_rows else HIGHEST
    said = {"terms": new, "body": body, "spending": spending, "time": now()}
    epoch = page.append("append" if new_periods else "refresh", said)
    page.head = replace(page.head, epoch=epoch)
    if not same_rows:
        page.level()
    return [normal(request, cells, open_cells(new)) for request in going_on]
