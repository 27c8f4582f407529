"""How much may be spent from one place: a limit that a person set before anything was asked.

Tools that write questions themselves (a dashboard, a notebook, an agent) pay within such a limit or
not at all. What was paid before is free and takes nothing of it. The database's own budget holds
besides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sulq.errors import MICRO, BudgetExceeded, Refused, SulqError, in_queries
from sulq.values.price import micro_of

if TYPE_CHECKING:
    from sulq.database import Database
    from sulq.questions.question import Question


class SpendingLimit:
    """A limit in queries, shared by all that ask from one place; safe among threads."""

    def __init__(self, queries: Any, how: str) -> None:
        """`queries` is None where nobody set a limit; `how` says how somebody may."""
        self.most = None if queries is None else micro_of(queries)
        if self.most is not None and self.most < 0:
            raise Refused(f"spend={queries!r}, want a number of queries, 0 or more.")
        self.how = how
        self.spent = 0
        self._lock = threading.Lock()

    @property
    def left(self) -> Fraction:
        """Queries that may still be spent."""
        return Fraction(max((self.most or 0) - self.spent, 0), MICRO)

    def take(self, price: int) -> None:
        """Take a price, in micro-queries, from the limit; refused if it is more than is left."""
        with self._lock:
            if price == 0:
                return
            if self.most is None:
                raise Refused(
                    f"price={in_queries(price)}, and nothing may be spent from here yet. Nothing "
                    f"was charged.\n{self.how}"
                )
            if self.spent + price > self.most:
                said = f" of the {in_queries(self.most)} that may be spent from here"
                error = BudgetExceeded(price, max(self.most - self.spent, 0), whose=said)
                error.args = (f"{str(error).splitlines()[0]}\n{self.how}",)
                raise error
            self.spent += price

    def give_back(self, price: int) -> None:
        """Put back what was taken for a question that was refused."""
        with self._lock:
            self.spent = max(self.spent - price, 0)

    @contextmanager
    def paying(self, db: Database, question: Question) -> Iterator[int]:
        """What is unpaid of a question is taken, and put back if it is refused.

        Gives the micro-queries that were taken: the most that may be charged for it.
        """
        price = db.unpaid(question)
        self.take(price)
        try:
            yield price
        except SulqError as error:
            if error.charged is False:
                self.give_back(price)
            raise
