"""Entry 0, and whether a ledger is opened as it was begun.

The promise covers answers already given, so epsilon, delta, T, noise and guarantee never
change. The schema may, but only by a refresh that is logged.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

from sulq.errors import PromiseError, SchemaError, in_queries
from sulq.ledger.chain import canonical, now
from sulq.ledger.open_periods import ORDER

ASSIGNMENT = "assignment"  # the digest of what decides a row's cell and person, among the terms
LARGEST = 2**63 - 1  # what a BIGINT holds

_WHY_FIXED = (
    " The promise covers answers already given; raising T or epsilon later would break it. "
    "Nothing was charged.\nOpen the ledger with the values it was opened with."
)

_HINTS = {
    "independent_columns": (
        "\nA ledger without independent_columns=False rests on priors that hold whatever a row's "
        "other private values are; earlier versions did not ask. If yours do, open with "
        "independent_columns=True. If not, its answers may tell single rows: stop using it."
    )
}


def plain(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as it is read back from JSON: tuples as lists, and nothing shared."""
    read: dict[str, Any] = json.loads(canonical(body))
    return read


def opening(terms: Mapping[str, Any], cells: int, total: int, name: str) -> dict[str, Any]:
    """The body of entry 0."""
    if type(total) is not int or not 0 <= total <= LARGEST:
        raise PromiseError(f"total={total!r}: a whole number of micro-queries, 0 to 2**63 - 1.")
    if type(cells) is not int or cells < 1:
        raise SchemaError(f"cells={cells!r}: a ledger has one cell or more.")
    body = {"terms": terms, "cells": cells, "total": total, "name": name, "time": now()}
    # A random id, so that two ledgers begun alike are never taken for each other.
    return plain(body | {"id": secrets.token_hex(16)})


def check_promise(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise unless both terms make the same promise."""
    different = differing(old.get("promise"), new.get("promise"))
    if different:
        more = [hint for name, hint in _HINTS.items() if any(d.startswith(name) for d in different)]
        raise PromiseError(f"{'; '.join(different)}.{_WHY_FIXED}{''.join(more)}")


def check_opening(
    new: Mapping[str, Any], *, terms: Mapping[str, Any], cells: int, total: int
) -> None:
    """Raise unless a ledger with these terms, cells and total may be opened with the new ones."""
    check_promise(terms, new["terms"])
    if new["total"] != total:
        raise PromiseError(
            f"total={in_queries(new['total'])} but the ledger was opened with "
            f"total={in_queries(total)}.{_WHY_FIXED}"
        )
    different = differing(terms.get("schema"), new["terms"].get("schema"))
    if new["cells"] != cells:
        different.append(f"cells={new['cells']} but the ledger has cells={cells}")
    if different:
        raise SchemaError(
            f"The schema is not the ledger's: {'; '.join(different)}. "
            "Nothing was charged.\nGo back to the old schema, or run `sulq refresh` to go on "
            "with the new one: it is logged, and spending goes on."
        )
    order = new["terms"].get(ORDER)
    if order != terms.get(ORDER, order):
        raise SchemaError(
            f"The schema lists public columns as {', '.join(order)}, but the ledger keeps what "
            f"they spent by {', '.join(terms[ORDER])}. Nothing was charged.\nList them in that "
            "order."
        )
    check_assignment(terms, new["terms"])


def check_assignment(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise if rows are put into cells otherwise than the ledger says, under the same schema."""
    if old.get(ASSIGNMENT) not in (None, new.get(ASSIGNMENT)):
        raise SchemaError(
            "This version reads keys, public columns or persons otherwise than the one that wrote "
            "the ledger, so rows may be in other cells. Nothing was charged.\nRun `sulq refresh`: "
            "it is logged, and what was spent stays spent."
        )


def differing(old: Any, new: Any, path: str = "") -> list[str]:
    """Name each value that differs: 'epsilon=2 but the ledger has epsilon=1'."""
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        dot = f"{path}." if path else ""
        keys = sorted(old.keys() | new.keys())
        return [line for k in keys for line in differing(old.get(k), new.get(k), f"{dot}{k}")]
    return [f"{path or 'it'}={new!r} but the ledger has {path or 'it'}={old!r}"]
