"""Values that nobody listed, named because enough rows have them: the one exception to that rule.

Engines give the values that at least `least` rows have, each with its count. Noise is added to all
of them, and only those leave that reach the threshold, the most frequent first. How much noise is
drawn is public: as many numbers as there can be values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.syntax import no_column
from sulq.privacy.geometry import Geometry
from sulq.questions.measurements import Measurement
from sulq.values.query import Discover, Query
from sulq.values.schema import Schema

LONGEST = 1000  # letters of a value; the rest is not looked at


@dataclass(frozen=True)
class Discovery(Measurement):
    """What is looked for, and from which count on it is named."""

    column: str  # declared
    letters: int  # of a value, of which the rest is not looked at
    at_least: int | None = None
    least: int = 1  # rows, for a value to leave the engine
    drawn: int = 0  # as many values as there can be
    threshold: int = 0  # in steps of the noise's grid

    labels = ()

    @property
    def said(self) -> Any:
        """As JSON."""
        most = {} if self.at_least is None else {"at_least": self.at_least}
        return {"discover": self.column, **most}

    @property
    def axes(self) -> tuple[str, ...]:
        """What is named."""
        return (self.column,)

    @property
    def numbers(self) -> int:
        """How many may be named at most."""
        return self.drawn

    @property
    def geometry(self) -> Geometry:
        """A row counts for one value; two values of it are two counts."""
        one = Fraction(1)
        return Geometry(one, 2 * one, one, 2 * one, 1, whole=True)

    def named(self, found: list[list[Any]], multiple: int, noise: Iterator[int]) -> list[list[Any]]:
        """The values whose noisy counts reach the threshold, the most frequent first."""
        noisy = [[value, count * multiple + next(noise)] for value, count in found]
        above = [pair for pair in noisy if pair[1] >= self.threshold]
        return sorted(above, key=lambda pair: (-pair[1], pair[0]))


def discovery(query: Query, schema: Schema, noise: str, axes: tuple[Any, ...]) -> Discovery:
    """What is to be found, or a refusal."""
    asked = query.values
    assert isinstance(asked, Discover)
    column = schema.get(asked.column)
    if column is None:
        raise no_column(asked.column, schema)
    if column.key or (schema.unit is not None and schema.unit.column == column.name):
        raise QueryNotAllowed(f"discover: {column.name!r} names rows or people, one by one.")
    if column.listed is not None:
        raise QueryNotAllowed(
            f"discover: the values of {column.name!r} are declared. Ask for its histogram, or "
            "GROUP BY it. Nothing was charged."
        )
    if column.type != "text":
        raise QueryNotAllowed(
            f"discover: {column.name!r} is declared {column.type}; only texts are discovered. Ask "
            "for a histogram with bins. Nothing was charged."
        )
    if axes or query.weights is not None or query.error is not None:
        raise QueryNotAllowed(
            "discover: leave by=, weights= and error= out, and say at_least= for less noise. "
            "Nothing was charged."
        )
    if noise not in ("gaussian", "laplace"):
        raise QueryNotAllowed(
            f"discover: it needs gaussian or laplace noise, this database has {noise}."
        )
    letters = min(column.max_length or LONGEST, LONGEST)
    return Discovery(column.name, letters, asked.at_least)
