"""Sets of rows as people name them: shards by number, rows by key."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

from sulq.errors import QueryNotAllowed

MAX_KEYS = 1_000_000  # of one set


def stretches(which: Any) -> tuple[int, ...]:
    """Numbers of shards as stretches: the first, and one behind the last, of each, in order."""
    try:
        given = [which] if hasattr(which, "__index__") else which
        numbers = sorted({operator.index(number) for number in given})
    except TypeError:
        numbers = []
    if not numbers or numbers[0] < 0:
        raise QueryNotAllowed(f"Rows.shard({which!r}): want a number, or range(0, 100).")
    ends: list[int] = []
    for number in numbers:
        if ends and ends[-1] == number:
            ends[-1] += 1
        else:
            ends += [number, number + 1]
    return tuple(ends)


def keys_in(given: Any) -> tuple[Any, ...]:
    """The keys of a list, an array or a file, once each and in order."""
    found = _file(Path(given)) if isinstance(given, str | Path) else given
    return checked_keys(found.tolist() if hasattr(found, "tolist") else found)


def checked_keys(given: Any) -> tuple[Any, ...]:
    """Whole numbers or texts, once each and in order; refused if they are anything else."""
    try:
        found = set(given)
    except TypeError:
        found = set()
    kinds = {type(key) for key in found}
    if kinds not in ({int}, {str}):
        raise QueryNotAllowed(
            "Rows.keys: want a list of keys, all whole numbers or all texts, or a file with one on "
            "each line. Nothing was charged."
        )
    if len(found) > MAX_KEYS:
        raise QueryNotAllowed(
            f"Rows.keys: {len(found):,} keys, at most {MAX_KEYS:,}. Nothing was charged.\nChoose "
            "rows by a public column, or by shards."
        )
    if kinds == {str} and not all(_is_text(key) for key in found):
        raise QueryNotAllowed(
            "Rows.keys: half a surrogate pair is no text, and no key of a row. Nothing was charged."
        )
    return tuple(sorted(found))


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _file(path: Path) -> list[Any]:
    """A Parquet file's first column, or a text file with a key on each line."""
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            column: list[Any] = pq.read_table(path).column(0).drop_null().to_pylist()
            return column
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError, IndexError) as error:
        why = getattr(error, "strerror", None) or "no list of keys"
        raise QueryNotAllowed(f"Rows.keys({str(path)!r}) cannot be read: {why}.") from None
    keys = [line for line in lines if line]
    whole = all(key.removeprefix("-").isdecimal() and key.isascii() for key in keys)
    return [int(key) for key in keys] if whole else keys
