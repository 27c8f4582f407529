"""What is public about the rows: how many a public set has, and whether keys name rows.

Who is in the table, its keys and its public columns are no secret, so nobody pays for these
counts. They read nothing else: a private column is refused here as it is in `rows=`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sulq.check import CheckedQuery
from sulq.errors import QueryNotAllowed
from sulq.schema import Schema
from sulq.values import Dense

MOST_COUNTS = 1_000_000  # in one answer


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """How many rows there are, how many have no key, and how many have a key seen before."""

    rows: int
    missing: int
    repeated: int


def check_size(counts: int) -> None:
    """Refuse more numbers than anybody needs: these are free."""
    if counts > MOST_COUNTS:
        raise QueryNotAllowed(
            f"sizes: {counts:,} numbers at once, at most {MOST_COUNTS:,}. Ask for fewer blocks."
        )


def different(everyone: CheckedQuery, schema: Schema) -> CheckedQuery:
    """How many different keys there are, from a query that counts everybody."""
    assert schema.key is not None
    return replace(everyone, values=Dense("people", (schema.key.name,), 0, None))


def missing_key(schema: Schema) -> str:
    """The public predicate that is true where a row has no key."""
    assert schema.key is not None
    return '"' + schema.key.name.replace('"', '""') + '" is null'


def in_rows(matrix: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """One count per cell."""
    return tuple(row[0] for row in matrix)
