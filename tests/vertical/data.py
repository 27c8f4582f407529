"""Small made-up people for the tests of mining across databases, and databases that hold them."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
from helpers import opened

from sulq.questions.partitions import PRIME, hash_numbers
from sulq.vertical.blocks import BlockSums
from sulq.vertical.common_people import People

BOOLEAN = {"type": "boolean", "nullable": False}
NUMBER = {"type": "number", "low": 0.0, "high": 1.0, "nullable": False}


def properties(n, p_a=0.3, p_b=0.4, delta=0.05, seed=0):
    """Two Booleans with P[b|a] = P[b] + delta."""
    rng = np.random.default_rng(seed)
    a = rng.random(n) < p_a
    return a, rng.random(n) < np.where(a, p_b + delta, p_b - delta * p_a / (1 - p_a))


def database(columns, declared=BOOLEAN, keys=None, name="one", quiet=True, **settings):
    """A database of these columns; every declaration alike, or one each."""
    n = len(next(iter(columns.values())))
    each = declared if set(columns) <= set(declared) else dict.fromkeys(columns, declared)
    schema = {"columns": {"id": {"key": True}, **each}}
    table = pa.table({"id": np.arange(n) if keys is None else keys, **columns})
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="epsilon=.* says little")
        return opened(table, schema, name=name, quiet=quiet, **settings)


def two(n, seed=0, quiet=True, delta=0.05, **settings):
    """A hospital that knows a and an insurer that knows b."""
    a, b = properties(n, seed=seed, delta=delta)
    hospital = database({"a": a}, name="hospital", quiet=quiet, **settings)
    return hospital, database({"b": b}, name="insurer", quiet=quiet, **settings), a, b


def hashed(keys, seed):
    """The block arithmetic, in numpy."""
    out = np.zeros(len(keys), dtype=np.int64)
    for c in hash_numbers(seed):
        out = (out * keys + c) % PRIME
    return out


def people_apart(n, blocks):
    """A seed that puts everybody into a block of their own: sums over blocks are then exact."""
    return next(s for s in range(1000) if len(set(hashed(np.arange(n), s) % blocks)) == n)


def sums_of(values, blocks, seed, noise=0.0, rng=None, keys=None):
    """What a database would answer about sums by block, with normal noise of this variance."""
    keys = np.arange(len(values)) if keys is None else keys
    cell = hashed(keys, seed) % blocks
    found = np.bincount(cell, weights=values, minlength=blocks)
    if noise:
        found = found + rng.normal(size=blocks) * np.sqrt(noise)
    sizes = np.bincount(cell, minlength=blocks).astype(float)
    return BlockSums(found[:, None], np.array([noise]), People(sizes))
