"""A publication file -> Publication. The file comes from outside, so nothing in it is believed."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

import sulq

from .blocks import MOST
from .estimate import Array
from .people import People
from .publication import (
    COLUMNS,
    KEY,
    MOST_BYTES,
    MOST_NUMBERS,
    MOST_WORDS,
    VERSION,
    Publication,
    digest,
)
from .publishing import WIDEST

BATCH = 2**16  # rows read at a time
LARGEST = 2.0**60  # count, far beyond any noise; the sums of products stay finite
TYPES = {"table": "int32", "block": "int32", "cell": "int32", "count": "double"}


def read_publication(path: Path) -> Publication:
    """Read and check everything before it is used."""
    try:
        return _read(path)
    except sulq.SulqError:
        raise
    except FileNotFoundError:
        raise sulq.Refused(f"there is no file {str(path)!r}.") from None
    except MemoryError:
        raise _damaged(path, "it is too large") from None
    except Exception:  # pyarrow raises many kinds, some with bytes of the file in them
        raise _damaged(path, "it is not Parquet, or cut off") from None


def _read(path: Path) -> Publication:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise sulq.Refused(f"there is no file {str(path)!r}.")
    if path.stat().st_size > MOST_BYTES:
        raise _damaged(path, f"it is larger than {MOST_BYTES:,} bytes")
    with pq.ParquetFile(
        path, thrift_string_size_limit=2 * MOST_WORDS, thrift_container_size_limit=10**6
    ) as file:
        facts = _facts(path, file)
        shape = _shape(path, facts)
        if file.metadata.num_rows != math.prod(shape):
            raise _damaged(path, "it holds another number of counts than it says")
        counts = _counts(path, file, shape)
    if facts.get("digest") != digest(facts, counts):
        raise _damaged(path, "its digest does not fit: it was changed after it was published")
    return _made(path, facts, counts)


def _facts(path: Path, file: Any) -> dict[str, Any]:
    """What the file says of itself."""
    said = (file.schema_arrow.metadata or {}).get(KEY, b"")
    if not said:
        raise sulq.Refused(f"{path.name!r} is not a publication: `sulq publish` did not write it.")
    if len(said) > MOST_WORDS:
        raise _damaged(path, "it says too much of itself")
    found = {f.name: str(f.type) for f in file.schema_arrow}
    if found != TYPES or tuple(found) != COLUMNS:
        raise _damaged(path, f"its columns are not {', '.join(COLUMNS)}")
    facts = json.loads(said.decode())
    if not isinstance(facts, dict):
        raise _damaged(path, "what it says of itself is no JSON object")
    if facts.get("version") != VERSION:
        raise sulq.Refused(f"{path.name!r} was written by another version of sulq.")
    return facts


def _shape(path: Path, facts: dict[str, Any]) -> tuple[int, int, int]:
    """Tables, blocks and cells, from what it says of itself, if that fits together."""
    pairs, width = facts.get("attributes"), facts.get("width")
    rule, sizes = facts.get("blocks"), facts.get("sizes")
    good = (
        isinstance(pairs, list)
        and all(isinstance(p, list) and len(p) == 2 and _are(str, p) for p in pairs)
        and len({p[0] for p in pairs}) == len(pairs)
        and _whole(width, 1, min(WIDEST, len(pairs)))
        and isinstance(rule, dict)
        and _whole(rule.get("seed"), -(2**63), 2**63)
        and _whole(rule.get("count"), 2, MOST)
        and isinstance(sizes, list)
        and len(sizes) == rule["count"]
        and all(_whole(x, 0, 2**53) for x in sizes)
        and sum(sizes) > 0
    )
    if not good:
        raise _damaged(path, "what it says of itself does not fit together")
    assert isinstance(pairs, list)
    assert isinstance(width, int)
    assert isinstance(rule, dict)
    tables = math.comb(len(pairs), width)
    shape = (tables, rule["count"], 2**width)
    if math.prod(shape) > MOST_NUMBERS:
        raise _damaged(path, f"it says it holds {math.prod(shape):,} counts")
    names = [p[0] for p in pairs]
    if facts.get("tables") != [list(t) for t in itertools.combinations(names, width)]:
        raise _damaged(path, "its tables are not those of its attributes")
    return shape


def _counts(path: Path, file: Any, shape: tuple[int, int, int]) -> Array:
    """The counts, which stand in the order of table, block and cell."""
    size, (_, blocks, cells) = math.prod(shape), shape
    out, done = np.empty(size), 0
    for batch in file.iter_batches(BATCH, columns=list(COLUMNS)):
        n = batch.num_rows
        if done + n > size or any(column.null_count for column in batch.columns):
            raise _damaged(path, "a count is missing, or there are too many")
        table, block, cell, count = (column.to_numpy() for column in batch.columns)
        at = np.arange(done, done + n)
        wanted = (at // (blocks * cells), at // cells % blocks, at % cells)
        if any((a != b).any() for a, b in zip((table, block, cell), wanted, strict=True)):
            raise _damaged(path, "its counts are not in order")
        out[done : done + n], done = count, done + n
    if done != size or not (np.abs(out) < LARGEST).all():
        raise _damaged(path, "a count is missing or no number")
    return out.reshape(shape)


def _made(path: Path, facts: dict[str, Any], counts: Array) -> Publication:
    variance, prices = facts.get("variance"), facts.get("prices_micro")
    good = isinstance(variance, float) and 0 <= variance < math.inf
    good = good and isinstance(prices, list) and len(prices) == len(counts)
    if not good or not all(_whole(p, 0, 2**63) for p in prices or ()):
        raise _damaged(path, "its noise or its prices are not numbers")
    assert isinstance(variance, float)
    assert isinstance(prices, list)
    people = People(np.array(facts["sizes"], dtype=np.float64))
    attributes = dict(facts["attributes"])
    sulq.Schema.load({"columns": {name: {"type": "boolean"} for name in attributes}})
    return Publication(
        str(facts.get("name", "")), attributes, facts["width"], facts["blocks"]["seed"], people,
        counts, variance, sulq.Promise.from_json(facts["promise"]),
        tuple(sulq.Price(p) for p in prices),
    )  # fmt: skip


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _are(kind: type, values: list[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _damaged(path: Path, why: str) -> sulq.Refused:
    return sulq.Refused(f"{path.name!r} cannot be used: {why}. Get it again from its publisher.")
