"""A publication file: what it says and its counts. It comes from outside: nothing is believed."""

from __future__ import annotations

import itertools
import json
import math
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import sulq
from sulq.vertical.blocks import MOST
from sulq.vertical.estimate import Array

KEY = b"sulq publication"
VERSION = 1
MAX_NUMBERS = 20_000_000  # in one file
MAX_BYTES = 2**30  # of a file
MAX_WORDS = 2**23  # of what it says of itself
COLUMNS = ("table", "block", "cell", "count")
BATCH = 2**16  # rows read at a time
LARGEST = 2.0**60  # count, far beyond any noise; the sums of products stay finite
WIDEST = 6  # attributes in one table
TYPES = {"table": "int32", "block": "int32", "cell": "int32", "count": "double"}


class Read(NamedTuple):
    """A file that fits together: what it says of itself, and its counts."""

    facts: dict[str, Any]
    counts: Array  # tables x blocks x cells


def read_publication(path: Path) -> Read:
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


def _read(path: Path) -> Read:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise sulq.Refused(f"there is no file {str(path)!r}.")
    if path.stat().st_size > MAX_BYTES:
        raise _damaged(path, f"it is larger than {MAX_BYTES:,} bytes")
    with pq.ParquetFile(
        path, thrift_string_size_limit=2 * MAX_WORDS, thrift_container_size_limit=10**6
    ) as file:
        facts = _facts(path, file)
        shape = _shape(path, facts)
        if file.metadata.num_rows != math.prod(shape):
            raise _damaged(path, "it holds another number of counts than it says")
        counts = _counts(path, file, shape)
    if facts.get("digest") != digest(facts, counts):
        raise _damaged(path, "its digest does not fit: it was changed after it was published")
    _check_numbers(path, facts, counts)
    return Read(facts, counts)


def _facts(path: Path, file: Any) -> dict[str, Any]:
    """What the file says of itself."""
    said = (file.schema_arrow.metadata or {}).get(KEY, b"")
    if not said:
        raise sulq.Refused(f"{path.name!r} is not a publication: `sulq publish` did not write it.")
    if len(said) > MAX_WORDS:
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
        and ("halves_of" not in facts or _whole(facts["halves_of"], max(sizes), 2**53))
    )
    if not good:
        raise _damaged(path, "what it says of itself does not fit together")
    assert isinstance(pairs, list)
    assert isinstance(width, int)
    assert isinstance(rule, dict)
    tables = math.comb(len(pairs), width)
    shape = (tables, rule["count"], 2**width)
    if math.prod(shape) > MAX_NUMBERS:
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


def _check_numbers(path: Path, facts: dict[str, Any], counts: Array) -> None:
    """Refuse noise, prices, names or a promise that cannot be."""
    variance, prices = facts.get("variance"), facts.get("prices_micro")
    good = isinstance(variance, float) and 0 <= variance < math.inf
    good = good and isinstance(prices, list) and len(prices) == len(counts)
    if not good or not all(_whole(p, 0, 2**63) for p in prices or ()):
        raise _damaged(path, "its noise or its prices are not numbers")
    names = dict(facts["attributes"])
    sulq.Schema.load({"columns": {name: {"type": "boolean"} for name in names}})
    sulq.Promise.from_json(facts["promise"])


def _whole(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _are(kind: type, values: list[Any]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _damaged(path: Path, why: str) -> sulq.Refused:
    return sulq.Refused(f"{path.name!r} cannot be used: {why}. Get it again from its publisher.")


def digest(facts: dict[str, Any], counts: Array) -> str:
    """What the file says and holds, in one number: a slip of the disk or an editor shows."""
    text = json.dumps({k: v for k, v in facts.items() if k != "digest"}, sort_keys=True)
    return sha256(text.encode() + np.ascontiguousarray(counts, dtype="<f8").tobytes()).hexdigest()
