"""What can be asked: a database here, one on a server, or a view of either.

Learning and mining across databases take anything of this shape, and use nothing else of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

if TYPE_CHECKING:
    from sulq.expressions.row_function import RowFunction
    from sulq.privacy.promise import Promise
    from sulq.questions.facts import KeyCounts
    from sulq.questions.question import Question
    from sulq.values.answer import Answer
    from sulq.values.marginals import Marginals
    from sulq.values.price import Budget, Price
    from sulq.values.query import Bins, Query, Rows
    from sulq.values.schema import Schema
    from sulq.values.table import Table


class Queryable(Protocol):
    """A private table that answers questions, each paid for before a row is read."""

    name: str
    schema: Schema
    promise: Promise
    pricing: str

    @property
    def rows(self) -> int:
        """n, which is public."""
        ...

    @property
    def budget(self) -> Budget:
        """T, spent and remaining, in queries."""
        ...

    @overload
    def ask(
        self, query: Query, *, request_id: str | None = None, combine: bool = False
    ) -> Answer: ...
    @overload
    def ask(
        self, query: Sequence[Query], *, request_id: str | None = None, share: bool = True,
        together: bool = False,
    ) -> list[Answer]: ...  # fmt: skip

    def histogram_axis(self, column: str, bins: int | Sequence[Any] | None) -> str | Bins:
        """The partition that a histogram of this column uses."""
        ...

    def marginals(
        self, columns: Sequence[str], width: int, *, where: str | None = None, budget: Any = None
    ) -> dict[tuple[str, ...], Table]:
        """Counts by every combination of `width` of the columns, asked together."""
        ...

    def price(self, query: Query | Sequence[Query] | Marginals | str) -> Price:
        """The price of a question. Nothing is spent, no row is read."""
        ...

    def project(self, model: Any, *, clip: float | None = None) -> Queryable:
        """The same table with a model's components in place of its columns."""
        ...

    def define(self, *functions: RowFunction, **expressions: str) -> Queryable:
        """The same table with functions of a row as columns beside its own."""
        ...

    def sizes(self, *rows: Rows) -> list[tuple[int, ...]]:
        """How many rows each public set has, or each of its blocks. Free."""
        ...

    def key_counts(self) -> KeyCounts:
        """Whether every row has a key of its own. Free."""
        ...


class Asked(Queryable, Protocol):
    """The same with the steps of asking, of which short questions and profiles are made."""

    def question(
        self, query: Query | Sequence[Query] | Marginals | str, *, share: bool = True,
        together: bool = False,
    ) -> Question:  # fmt: skip
        """Check and price a query, a list of them or a SELECT."""
        ...

    def answer(self, question: Question) -> Any:
        """Pay for a question and answer it."""
        ...

    def unpaid(self, question: Question) -> int:
        """What asking it now would charge, in micro-queries."""
        ...

    def rows_of(self, query: Query) -> int:
        """How many rows a query is about, by public columns alone."""
        ...
