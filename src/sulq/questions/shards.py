"""Rows that pay for themselves: shards, a fixed hash of the key, are cells of the ledger.

The hash is that of seeded blocks under one seed, which is public. A shard is a stretch of its
values, so that neighbouring shards are one comparison on every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import PRIME
from sulq.questions.partitions import hash_numbers
from sulq.values.query import Rows
from sulq.values.schema import Schema

MAX_STRETCHES = 200  # of neighbouring shards in one question
SEED = 0  # of the hash: fixed for good, since ledgers keep spending by it


def shards_of(rows: Rows | None, schema: Schema) -> tuple[int, ...] | None:
    """The stretches of shards that a set of rows names, checked; None: it names none."""
    if rows is None or rows.shards is None:
        return None
    if (rows.predicate, rows.seed, rows.rate, rows.count) != (None,) * 4:
        raise QueryNotAllowed("rows: shards, or another way to choose rows, not both.")
    key = schema.key
    if key is None or key.shards is None:
        raise QueryNotAllowed(
            "Rows.shard: the schema declares no shards. Its owner writes shards = 1000 below the "
            "key, before the ledger begins. Nothing was charged."
        )
    ends = rows.shards
    fits = ends and len(ends) % 2 == 0 and all(type(end) is int for end in ends)
    if not fits or not all(a < b for a, b in pairwise(ends)) or ends[0] < 0:
        raise QueryNotAllowed("Rows.shard: give shards by number, such as range(0, 100).")
    if len(ends) > 2 * MAX_STRETCHES:
        raise QueryNotAllowed(
            f"Rows.shard: {len(ends) // 2:,} stretches of shards, at most {MAX_STRETCHES}. Choose "
            "neighbours: any part of the shards is as good a sample as another."
        )
    if ends[-1] > key.shards:
        raise QueryNotAllowed(
            f"Rows.shard: shard {ends[-1] - 1:,}, but they are numbered 0 to {key.shards - 1:,}. "
            "Nothing was charged."
        )
    return None if ends == (0, key.shards) else ends  # all of them are everybody


def shard_ranges(shards: tuple[int, ...], schema: Schema) -> tuple[int, ...]:
    """The numbers of the hash, and both ends of each stretch of its values."""
    assert schema.key is not None
    assert schema.key.shards is not None
    count = schema.key.shards
    return (*hash_numbers(SEED), *(-(-end * PRIME // count) for end in shards))


def numbers_in(shards: tuple[int, ...]) -> frozenset[int]:
    """The shards of these stretches, by number."""
    pairs = zip(shards[::2], shards[1::2], strict=True)
    return frozenset(number for first, end in pairs for number in range(first, end))


def in_shards(cells: Sequence[int], wanted: frozenset[int], schema: Schema) -> list[int]:
    """Those of the ledger's cells that are in these shards: the last of what forms cells."""
    assert schema.shards is not None
    count = len(schema.shards.listed or ()) + 1
    return [cell for cell in cells if cell % count in wanted]
