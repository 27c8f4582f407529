"""What is paid for a question, and what there is to spend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from sulq.errors import MICRO, Refused, SulqError, in_queries
from sulq.values.plain_values import EXACT


@dataclass(frozen=True, slots=True)
class Price:
    """What is paid for a question, known before it is asked."""

    micro: int
    half_widths: tuple[float, ...] = ()  # 95%, of each released number, in its own units
    _look: Callable[[], Any] | None = field(default=None, repr=False, compare=False)

    @property
    def queries(self) -> Fraction:
        """The price in queries, exactly."""
        return Fraction(self.micro, MICRO)

    def __add__(self, other: Price) -> Price:
        return Price(self.micro + other.micro, self.half_widths + other.half_widths)

    def __float__(self) -> float:
        return float(self.queries)

    @property
    def estimate(self) -> Any:
        """What stored answers say about the question already, free; None if they do not tell."""
        try:
            return None if self._look is None else self._look()
        except SulqError:
            return None

    def __str__(self) -> str:
        known = self.estimate
        price = in_queries(self.micro)
        said = getattr(known, "said_shortly", None)
        if self.micro == 0 and said:
            return f"{price}: known already, {said}"
        return price if known is None else f"{price}; {known_already(known)}"


def known_already(found: Any) -> str:
    """What is said of an estimate beside a price."""
    said = getattr(found, "said_shortly", None)
    return f"you already know this: {said}, free" if said else "you already know this, free"


@dataclass(frozen=True, slots=True)
class Budget:
    """T, what is spent of it and what is left, in queries, for the rows that spent most.

    In a group of datasets about the same people all three are the group's, and `elsewhere` is what
    anyone can have spent in its other datasets. Where people count in several periods, `each` is
    the highest price that a question about all of them may still have, if that is another number.
    """

    total: Fraction
    spent: Fraction
    remaining: Fraction
    group: str = ""
    elsewhere: Fraction = Fraction(0)
    each: Fraction | None = None

    @classmethod
    def of(
        cls, total: int, spent: int, left: int, group: str = "", elsewhere: int = 0,
        each: int | None = None,
    ) -> Budget:  # fmt: skip
        """The budget of these amounts in micro-queries."""
        whole, used, rest, there = (Fraction(x, MICRO) for x in (total, spent, left, elsewhere))
        several = None if each is None else Fraction(each, MICRO)
        return cls(whole, used, rest, group, there, several)

    @property
    def of_all(self) -> Fraction:
        """The highest price that a question about all rows may still have."""
        return self.remaining if self.each is None else self.each

    def __str__(self) -> str:
        total, spent, left = (
            in_queries(int(x * MICRO)) for x in (self.total, self.spent, self.remaining)
        )
        there = in_queries(int(self.elsewhere * MICRO)).split()[0]
        group = f" in the group {self.group!r} ({there} in other datasets)" if self.group else ""
        said = f"{spent.split()[0]} of {total} spent{group}, {left.split()[0]} left"
        if self.each is None:
            return said
        each = in_queries(int(self.each * MICRO)).split()[0]
        return f"{said}; {each} left for a question about all periods"


def micro_of(queries: Any) -> int:
    """Queries as whole micro-queries, rounded down."""
    try:
        text = isinstance(queries, str)
        if isinstance(queries, bool) or (text and not EXACT.fullmatch(queries.strip())):
            raise ValueError
        exact = Fraction(queries) * MICRO
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise Refused(f"queries={queries!r}, want a number of queries, 0 or more.") from None
    return math.floor(exact)
