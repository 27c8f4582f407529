"""What every engine is: a CheckedQuery in, a matrix of Python integers out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from sulq.errors import QueryNotAllowed
from sulq.questions.check import CheckedQuery
from sulq.values.schema import Schema

Matrix = list[list[int]]
Progress = Callable[[float], None]  # the share done, 0 to 1


class Engine(Protocol):
    """Where the private rows live. Gives exact sums and nothing else.

    What is written out here is so of rows in this process's memory.
    """

    schema: Schema
    rows: int  # n, which is public
    title: str  # what people call it

    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""
        ...

    def beside(self) -> Engine:
        """The same rows on a way of their own, where nothing waits for a scan of this one."""
        return self

    def hold(self, wanted: bool | None = None) -> bool:
        """Keep the rows in memory, where that is quicker to read: are they?

        None: if they are few, by what is public of them.
        """
        return False

    def probe(self) -> None:
        """Raise unless the engine is there: a fixed scan of public things succeeds."""
        return

    def interrupt(self) -> None:
        """Stop the scan that is under way, from another thread; one here runs to its end."""
        return

    def close(self) -> None:
        """Let go of the source, where anything is held."""
        return


def check_public(names: Sequence[str], schema: Schema) -> None:
    """Rows may be counted by these columns for nothing: raise unless each one is public."""
    for name in names:
        if not schema[name].public:
            raise QueryNotAllowed(f"{name!r} is not public, so rows are not counted by it.")
