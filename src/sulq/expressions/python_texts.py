"""Texts and dates in row functions: slices, parts, patterns, and what is cut off a date.

Each is a term of SQL. Places are constants, as they are in SQL here.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sulq.expressions.python_terms import Term, called, choice, constant, negation


class Unlisted(Exception):
    """Not of this language; what to write instead, if there is something."""


@dataclass(frozen=True, slots=True)
class Match(Term):
    """What re.search gives: true where it found something, and None where it did not."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What text.split gives: one of them is taken by its place."""

    text: Term
    separator: str


# ---- texts --------------------------------------------------------------------------------


def split(text: Term, separator: Any = None) -> Parts:
    """text.split("-")."""
    if not isinstance(separator, str) or not separator:
        raise Unlisted("split takes a constant text, as in text.split('-')[0].")
    return Parts(text, separator)


def part(found: Parts, place: Any) -> Term:
    """text.split("-")[2]; '' where there are fewer parts."""
    if not _is_place(place):
        raise Unlisted("A part is taken by its place from the first on, as in text.split('-')[0].")
    return called("split_part", found.text, constant(found.separator), constant(place + 1))


def letter(text: Term, place: Any) -> Term:
    """text[2]; '' beyond its end."""
    if not _is_place(place):
        raise Unlisted(
            "Of a text, want constant places from the first on, as in text[0] or text[2:5]."
        )
    return sliced(text, place, place + 1, None)


def sliced(text: Term, first: Any, end: Any, step: Any) -> Term:
    """text[2:5]."""
    first = 0 if first is None else first
    if step not in (None, 1) or not _is_place(first) or not (end is None or _is_place(end)):
        raise Unlisted(
            "A slice has constant places from the first on, as in text[2:5]; for the end of a text "
            "there is endswith."
        )
    if end is None:
        return called("substr", text, constant(first + 1))
    return called("substr", text, constant(first + 1), constant(max(end - first, 0)))


def _is_place(value: Any) -> bool:
    return type(value) is int and value >= 0


# ---- patterns -----------------------------------------------------------------------------


def _pattern(before: str, after: str) -> Callable[..., Term]:
    def build(pattern: Any, text: Any, *flags: Any) -> Term:
        if flags:
            raise Unlisted("Flags are not read; write lower(), or a class such as [Aa].")
        if not isinstance(pattern, str) or not isinstance(text, Term):
            raise Unlisted("It takes a constant pattern and then a text of the row.")
        return Match(called("regexp_matches", text, constant(f"{before}{pattern}{after}")).text)

    return build


PATTERNS: Mapping[Any, Callable[..., Term]] = {
    re.search: _pattern("", ""),
    re.match: _pattern("^(", ")"),
    re.fullmatch: _pattern("^(", ")$"),
}


def no_match(found: Match) -> Term:
    """re.search(...) is None."""
    return negation(Term(found.text, found.rank))


def chosen_match(test: Term, a: Any, b: Any) -> Match | None:
    """One match or another, where None is a match that was not found; None: one is no match."""
    sides = [constant(False) if side is None else side for side in (a, b)]
    if not all(isinstance(side, Match) or side == constant(False) for side in sides):
        return None
    found = choice(test, *sides)
    return Match(found.text, found.rank)


# ---- dates --------------------------------------------------------------------------------

STARTS = {  # what replace sets, and the unit that is left
    ("day",): (1, "month"),
    ("day", "month"): (1, "year"),
    ("second",): (0, "minute"),
    ("minute", "second"): (0, "hour"),
    ("hour", "minute", "second"): (0, "day"),
}


def replaced(date: Term, said: Mapping[str, Any]) -> Term:
    """d.replace(day=1): the first day of its month."""
    first, unit = STARTS.get(tuple(sorted(said)), (None, ""))
    if first is None or any(value is not first and value != first for value in said.values()):
        raise Unlisted(
            "Of replace, these are read: (day=1), (month=1, day=1), (second=0), (minute=0, "
            "second=0), (hour=0, minute=0, second=0)."
        )
    return called("date_trunc", constant(unit), date)


def full_days(a: Term) -> Term:
    """(d - e).days, down as Python has it."""
    return _between("full_day", a, "(d - e).days")


def total_seconds(a: Term) -> Term:
    """(t - u).total_seconds()."""
    return _between("second", a, "(t - u).total_seconds()")


def _between(unit: str, a: Term, example: str) -> Term:
    if a.added is None or a.added[1] != "-":
        raise Unlisted(f"It is asked of a difference, as in {example}.")
    later, _, earlier = a.added
    return called("date_diff", constant(unit), earlier, later)


def of_constants(make: Callable[..., Any], args: list[Any]) -> Any:
    """range(...), a date or a moment, of constant whole numbers."""
    if not all(isinstance(a, int) for a in args):
        raise TypeError(f"{make.__name__}(...) wants constant whole numbers here")
    found = make(*args)
    if isinstance(found, range):
        len(found)  # an OverflowError, if it is longer than can be said
    return found


MADE = (range, datetime.date, datetime.datetime)
