"""What every engine is: a CheckedQuery in, a matrix of Python integers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from sulq.errors import QueryNotAllowed, SchemaError
from sulq.questions.check import CheckedQuery
from sulq.values.schema import Schema

Matrix = list[list[int]]
Progress = Callable[[float], None]  # the share done, 0 to 1


class Engine(ABC):
    """Where the private rows live. Gives exact sums and nothing else.

    Everything is abstract, so that an engine that stands in for another has all of it:
    tests/engines/test_stand_ins.py holds every one to the contract.
    """

    schema: Schema
    rows: int  # n, which is public
    title: str  # what people call it
    table_name: str | None = None  # which table of a DuckDB file

    @abstractmethod
    def sums(self, queries: Sequence[CheckedQuery]) -> list[Matrix]:
        """The exact cells x values of every query, in one scan."""

    @abstractmethod
    def groups(self, names: Sequence[str]) -> Any:
        """Every combination of these public columns, and how many rows have it: an Arrow table.

        Public like n, so no one pays for it.
        """

    @abstractmethod
    def every_group(self, names: Sequence[str]) -> Any:
        """`groups` of all rows, also those that do not count."""

    @abstractmethod
    def contents_by(self, name: str) -> dict[Any, str]:
        """Numbers that every row of a period takes part in, by period; None: of no declared one.

        They say something of the rows, so they are not kept as they are.
        """

    @abstractmethod
    def read_through(self) -> tuple[str, ...]:
        """Read every value that a question may find unreadable: the columns that were read."""

    @abstractmethod
    def beside(self) -> Engine:
        """The same rows on a way of their own, where nothing waits for a scan of this one."""

    @abstractmethod
    def hold(self, wanted: bool | None = None) -> bool:
        """Keep the rows in memory, where that is quicker to read: are they?

        None: if they are few, by what is public of them.
        """

    @abstractmethod
    def probe(self) -> None:
        """Raise unless the engine is there: a fixed scan of public things succeeds."""

    @abstractmethod
    def interrupt(self) -> None:
        """Stop the scan that is under way, from another thread."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the source, where anything is held."""


class EngineInMemory(Engine):
    """The parts of an engine that need no more than rows in this process's memory."""

    def every_group(self, names: Sequence[str]) -> Any:
        """Every row counts."""
        return self.groups(names)

    def contents_by(self, name: str) -> dict[Any, str]:
        """Refuse, where nothing tells whether the rows of a period changed."""
        raise SchemaError(
            f"period: {self.title} does not tell the rows of one period from another's. Keep "
            "them in files or frames that DuckDB reads."
        )

    def read_through(self) -> tuple[str, ...]:
        """Every value is readable."""
        return ()

    def beside(self) -> Engine:
        """No scan makes another wait."""
        return self

    def hold(self, wanted: bool | None = None) -> bool:
        """Keep nothing more."""
        return False

    def probe(self) -> None:
        """It is there."""
        return

    def interrupt(self) -> None:
        """Let a scan run to its end."""
        return

    def close(self) -> None:
        """Hold nothing open."""
        return


def check_public(names: Sequence[str], schema: Schema) -> None:
    """Rows may be counted by these columns for nothing: raise unless each one is public."""
    for name in names:
        if not schema[name].public:
            raise QueryNotAllowed(f"{name!r} is not public, so rows are not counted by it.")
