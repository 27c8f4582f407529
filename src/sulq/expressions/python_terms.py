"""SQL text that is being put together: each piece knows how tightly it binds.

A parameter of a row function stands in the text as a mark, and is replaced by a column, a constant
or a longer expression when the function is used.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.quoting import quote
from sulq.expressions.quoting import text as quoted_text
from sulq.expressions.timestamps import whole_moment

MAX_TERM = 10_000  # characters of one term
OR, AND, NOT, COMPARISON, SUM, PRODUCT, NEGATIVE, ATOM = range(8)
_MARK = re.compile("\x00(\\d+)\x00")


@dataclass(frozen=True, slots=True)
class Term:
    """A piece of SQL, and the rank of what joins it: the higher, the tighter."""

    text: str
    rank: int = ATOM
    added: tuple[Term, str, Term] | None = field(default=None, compare=False)  # a + b or a - b

    def within(self, rank: int) -> str:
        """The text as an operand of something of this rank."""
        return self.text if self.rank >= rank else f"({self.text})"


def mark(place: int) -> Term:
    """The parameter at this place."""
    return Term(f"\x00{place}\x00")


def filled(body: Term, given: Sequence[Term]) -> Term:
    """The body with what its parameters stand for."""
    fits([body, *[given[int(place)] for place in _MARK.findall(body.text)]])
    return Term(_MARK.sub(lambda m: given[int(m[1])].within(ATOM), body.text), body.rank)


def fits(terms: Sequence[Term]) -> None:
    """Refuse to put terms together that are too long, before it is done."""
    if sum(len(t.text) for t in terms) > MAX_TERM:
        raise QueryNotAllowed(f"written out, this has more than {MAX_TERM:,} characters of SQL.")


def constant(value: Any) -> Term:
    """A value of Python's as SQL writes it."""
    if value is None:
        return Term("null")
    if isinstance(value, bool):
        return Term("true" if value else "false")
    if isinstance(value, int | float):
        if isinstance(value, float) and not math.isfinite(value):
            raise QueryNotAllowed(f"{value} is not a number that rows can be compared with.")
        return Term(f"-{-value!r}", NEGATIVE) if value < 0 else Term(repr(abs(value)))
    if isinstance(value, str):
        if "\x00" in value:  # the mark of a parameter
            raise QueryNotAllowed("a text with a NUL, which no row can hold.")
        return Term(quoted_text(value))
    if isinstance(value, datetime.datetime):
        return Term(f"timestamp '{_moment(value)}'")
    if isinstance(value, datetime.date):
        return Term(f"date '{value.isoformat()}'")
    raise QueryNotAllowed(f"a {type(value).__name__} is no constant of a row function.")


def _moment(value: datetime.datetime) -> str:
    try:
        return whole_moment(value).isoformat(" ")
    except ValueError:
        raise QueryNotAllowed(f"{value}: moments are whole seconds here.") from None


def column(name: str) -> Term:
    """A column by its name."""
    return Term(name if re.fullmatch(r"[a-z_][a-z0-9_]*", name) else quote(name))


# ---- what terms are joined by -------------------------------------------------------------


def called(name: str, *args: Term) -> Term:
    """A function of SQL applied to terms."""
    return Term(f"{name}({', '.join(a.text for a in args)})")


def joined(word: str, rank: int, terms: Sequence[Term]) -> Term:
    """Terms with `and` or `or` between them."""
    if len(terms) == 1:
        return terms[0]
    return Term(f" {word} ".join(t.within(rank) for t in terms), rank)


def both(a: Term, word: str, b: Term, rank: int) -> Term:
    """a word b, where what stands right must bind more tightly."""
    added = (a, word, b) if rank == SUM else None
    return Term(f"{a.within(rank)} {word} {b.within(rank + 1)}", rank, added)


def compared(a: Term, word: str, b: Term) -> Term:
    """A comparison; neither side may be one."""
    return Term(f"{a.within(SUM)} {word} {b.within(SUM)}", COMPARISON)


def negation(a: Term) -> Term:
    """Not a."""
    return Term(f"not {a.within(NOT + 1)}", NOT)


def negative(a: Term) -> Term:
    """Minus a."""
    return Term(f"-{a.within(ATOM)}", NEGATIVE)


def choice(condition: Term, then: Term, last: Term) -> Term:
    """One term or another; a chain of choices stays one CASE."""
    if then.text == last.text:
        return then
    if then.added is not None and then.added[0] == last:  # if p: total += k
        _, word, more = then.added
        return both(last, word, choice(condition, more, constant(0)), SUM)
    head = f"case when {condition.text} then {then.text}"
    if last.text.startswith("case when ") and last.rank == ATOM:
        return Term(f"{head} {last.text.removeprefix('case ')}")
    tail = "" if last.text == "null" else f" else {last.text}"
    return Term(f"{head}{tail} end")
