"""The four ways a bare singular-value test fails, as programs. The reason for the default rule.

Each asks an open database about one row, `who`, and gives that row's secret bit, or raises what
the database raised. They take the rows of `crowd` below and use the front door alone.
docs/howto/audited.md walks through them; the tests run them against both rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sulq.audit.duan import threshold2
from sulq.errors import AuditRefused

if TYPE_CHECKING:
    from sulq.audit.database import AuditedDatabase

PAYLOAD = 2.0**-9  # far below the eighths that `amount` comes in


def crowd(rows: int, secrets: Any, kinds: Any, amounts: Any) -> tuple[Any, dict[str, Any]]:
    """A table with a public row number and three private columns, and its schema."""
    import pyarrow as pa

    table = pa.table({"id": range(rows), "secret": secrets, "kind": kinds, "amount": amounts})
    schema = {
        "id": {"key": True, "type": "integer", "low": 0, "high": rows - 1},
        "secret": {"type": "boolean", "nullable": False},
        "kind": {"values": sorted({int(k) for k in kinds})},
        "amount": {"type": "number", "low": 0, "high": 1, "nullable": False},
    }
    return table, schema


def residues(db: AuditedDatabase, who: int, modulus: int = 2) -> bool:
    """Every other row adds a multiple of `modulus` to the sum of all answers, or nothing.

    `kind` has values 0 to modulus + 1. A row of the last kind counts in no question, one of kind
    j in all but the j-th; and the last question counts `who` by its secret. For modulus 2 this is
    g1, g2 and g1 xor g2, flipped on one row.
    """
    total = 0
    for j in range(modulus):
        total += _count(db, f"id <> {who} and kind not in ({j}, {modulus + 1})")
    last = f"kind not in ({modulus}, {modulus + 1})"
    total += _count(db, f"case when id = {who} then secret else {last} end")
    return total % modulus == 1


def low_digits(db: AuditedDatabase, who: int) -> bool:
    """Amounts rounded to eighths vary enough; the secret is written below them."""
    written = f"case when id = {who} and secret then {PAYLOAD} else 0 end"
    answer = db.sum(f"floor(amount * 8) / 8 + {written}")
    return answer.exact[0][0] * 8 % 1 != 0


def public_variation(db: AuditedDatabase, who: int) -> bool:
    """Every second id varies enough, and everyone knows how many there are."""
    others = (who + 1) % 2
    known = len(range(others, db.rows, 2))
    return _count(db, f"id % 2 = {others} or (id = {who} and secret)") > known


def refusal(db: AuditedDatabase, who: int) -> bool:
    """A question that is answered exactly if the secret tips it over the threshold.

    k ones among n rows have the squared norm k (n - k) / n when centred.
    """
    n, least = db.rows, threshold2(db.promise)
    k = math.ceil(n * (1 - math.sqrt(1 - 4 * least / n)) / 2) + 1
    while k * (n - k) > least * n:
        k -= 1
    ones = f"id < {k}" if who >= k else f"id >= {n - k}"
    try:
        db.count(f"{ones} or (id = {who} and secret)")
    except AuditRefused:
        return False
    return True


def _count(db: AuditedDatabase, where: str) -> int:
    return round(db.count(where).value)


ATTACKS: Mapping[str, Callable[[Any, int], bool]] = {
    "residue mod 2": residues,
    "residue mod 3": lambda db, who: residues(db, who, 3),
    "residue mod 5": lambda db, who: residues(db, who, 5),
    "low-order digits": low_digits,
    "public variation": public_variation,
    "a refusal": refusal,
}
