"""Rows that pay for themselves: shards, a fixed hash of the key, are cells of the ledger.

The hash is that of seeded blocks under one seed, which is public. A shard is a stretch of its
values, so that neighbouring shards are one comparison on every engine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import PRIME, key_numbers, vector_of
from sulq.questions.partitions import hash_numbers, need_key
from sulq.values.query import Rows
from sulq.values.row_sets import checked_keys
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


# ---- rows named by their keys: joined, never written out -------------------------------------
# The question says the set's hash and size, so that equal sets are the same question; the ledger
# keeps the set itself, once.

LARGEST = 2**63  # no key of a table is larger


class KeySet(tuple[Any, ...]):
    """A set of keys as a question says it, ("keys", hash, how many), with the keys themselves."""

    values: tuple[Any, ...]
    _array: Any

    @classmethod
    def of(cls, values: tuple[Any, ...]) -> KeySet:
        """The set of these keys, which are in order and once each."""
        made = cls(("keys", sha256(json.dumps(values).encode()).hexdigest(), len(values)))
        made.values, made._array = values, None
        return made

    def member(self, found: Any) -> Any:
        """Which of these keys of rows are in it."""
        if found.dtype == object:
            known = frozenset(self.values)
            return np.fromiter((x in known for x in found), dtype=bool, count=len(found))
        if self._array is None:
            self._array = np.array(self.values)
        return np.isin(found, self._array)


def key_set(rows: Rows | None, schema: Schema) -> KeySet | None:
    """The keys that a set of rows names, checked; None: it names none."""
    if rows is None or rows.named is None:
        return None
    others = (rows.predicate, rows.seed, rows.rate, rows.count, rows.shards)
    if others != (None,) * len(others):
        raise QueryNotAllowed("rows: keys, or another way to choose rows, not both.")
    need_key(schema, "a set of keys")
    assert schema.key is not None
    values: tuple[Any, ...] = checked_keys(rows.named)
    want: type = str if schema.key.type == "text" else int
    if type(values[0]) is not want:
        kind = "texts" if want is str else "whole numbers"
        raise QueryNotAllowed(
            f"Rows.keys: the key {schema.key.name!r} has {kind}. Nothing was charged."
        )
    first, last = values[0], values[-1]
    if isinstance(first, int) and not (first >= -LARGEST and last < LARGEST):
        raise QueryNotAllowed("Rows.keys: a key beyond 2^63. Nothing was charged.")
    return KeySet.of(values)


def shards_with(keys: KeySet, schema: Schema) -> frozenset[int] | None:
    """The shards that these keys are in; None: there are no shards, so anyone may be meant."""
    if schema.key is None or schema.key.shards is None:
        return None
    k = key_numbers(vector_of(list(keys.values)), schema.key)
    found = np.zeros(len(k), dtype=np.int64)
    for c in hash_numbers(SEED):
        found = (found * k + c) % PRIME
    return frozenset((found * schema.key.shards // PRIME).tolist())
