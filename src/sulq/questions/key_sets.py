"""Rows named by their keys, however many: a set that is joined with the table, never written out.

The question says the set's hash and size, so that equal sets are the same question; the ledger
keeps the set itself, once.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np

from sulq.errors import QueryNotAllowed
from sulq.expressions.columns import PRIME, key_numbers, vector_of
from sulq.questions.partitions import hash_numbers, need_key
from sulq.questions.shards import SEED
from sulq.values.query import Rows
from sulq.values.row_sets import checked_keys
from sulq.values.schema import Schema

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
