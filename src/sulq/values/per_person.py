"""One row for each person, in place of the rows that they have: what a question is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.values.plain_values import Plain

MAX_FEATURES = 200


@dataclass(frozen=True)
class PerPerson(Plain):
    """Features of each person of `[unit]`: names, and aggregates of all rows that the person has.

    `where` says which rows the aggregates are of. People without such a row are left out, as GROUP
    BY does; whether somebody has one is private if `where` is. `having` keeps the people for whom
    a condition on aggregates holds.
    """

    kind = "per_person"
    features: tuple[tuple[str, str], ...]
    where: str | None = None
    having: str | None = None

    def __post_init__(self) -> None:
        given: Any = self.features
        pairs = list(given.items()) if isinstance(given, Mapping) else given
        if not isinstance(pairs, Sequence) or isinstance(pairs, str) or len(pairs) > MAX_FEATURES:
            raise _wanted(given)
        made = []
        for pair in pairs:
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise _wanted(given)
            name, text = pair
            if not isinstance(name, str) or not name.isidentifier() or len(name) > 60:
                raise QueryNotAllowed(
                    f"per_person: {str(name)[:60]!r} is no name for a column; use letters, digits "
                    "and _."
                )
            if not isinstance(text, str):
                raise _wanted(given)
            made.append((name, text))
        folded = [name.lower() for name, _ in made]
        for name in folded:
            if folded.count(name) > 1:
                raise QueryNotAllowed(f"per_person: two features are called {name!r}.")
        for said, name in ((self.where, "where"), (self.having, "having")):
            if not isinstance(said, str | None):
                raise QueryNotAllowed(f"{name}={said!r}: give a SQL predicate as text.")
        object.__setattr__(self, "features", tuple(made))


def _wanted(given: Any) -> QueryNotAllowed:
    return QueryNotAllowed(
        f"per_person({str(given)[:60]}): want names and aggregates, at most {MAX_FEATURES}, such "
        'as {"visits": "count(*)", "worst": "max(severity)"}.'
    )
