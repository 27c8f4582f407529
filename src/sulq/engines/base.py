"""What every engine is: a CheckedQuery in, a matrix of Python integers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sulq.check import CheckedQuery
from sulq.errors import QueryNotAllowed
from sulq.schema import Schema

Matrix = list[list[int]]
Progress = Callable[[float], None]  # the share done, 0 to 1


class Engine(Protocol):
    """Where the private rows live. Gives exact sums and nothing else."""

    schema: Schema
    rows: int  # n, which is public

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""
        ...

    def close(self) -> None:
        """Let go of the source."""
        ...


def check_public(names: Sequence[str], schema: Schema) -> None:
    """Rows may be counted by these columns for nothing: raise unless each one is public."""
    for name in names:
        if not schema[name].public:
            raise QueryNotAllowed(f"{name!r} is not public, so rows are not counted by it.")
