"""The values of a text that enough rows have, with their exact counts: for a Discovery alone.

What fewer rows have does not leave the engine. Which values there are may be private, so rows that
a private predicate leaves out are grouped like the others, and only counted differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sulq.engines.base import Matrix
from sulq.engines.select import needs_kernel, private
from sulq.engines.writer import TooLong, Writer
from sulq.questions.check import CheckedQuery
from sulq.questions.discovery import Discovery

Sums = Callable[[Sequence[CheckedQuery]], list[Matrix]]
Found = Iterable[Sequence[Any]]  # values and counts


def apart(
    queries: Sequence[CheckedQuery], sums: Sums, values: Callable[..., Found]
) -> list[Matrix]:
    """Sums as ever, and values with their counts for those that are discoveries."""
    plain = [q for q in queries if not isinstance(q.measurement, Discovery)]
    found = iter(sums(plain) if plain else [])
    return [
        _enough(values(q, q.measurement), q.measurement)
        if isinstance(q.measurement, Discovery)
        else next(found)
        for q in queries
    ]


def statement(writer: Writer, query: CheckedQuery, sought: Discovery, source: str) -> str | None:
    """The SELECT of values and counts; None where the kernel has to read the rows."""
    if needs_kernel(query):
        return None
    try:
        public, gate = writer.public(query), private(writer, query)
        value = f"left({writer.read(writer.schema[sought.column])}, {sought.letters})"
    except TooLong:
        return None
    rows = f"{source} WHERE {public}" if public else source
    count = writer.count_of("g0" if gate else "")
    return (
        f"SELECT v0, {count} AS s0 FROM (SELECT {value} AS v0, {gate or 'TRUE'} AS g0 FROM {rows}) "
        f"AS named GROUP BY v0 HAVING {count} >= {sought.least}"
    )


def _enough(found: Found, sought: Discovery) -> Matrix:
    """Values that are there, with counts that are high enough."""
    pairs: Any = [[v, int(c)] for v, c in found if v is not None and int(c) >= sought.least]
    return list(pairs)
