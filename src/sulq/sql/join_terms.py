"""Where a SELECT says how its tables belong together: behind ON, in WHERE, in IN and EXISTS.

FROM a, b WHERE a.x = b.x is a JOIN with that ON; what an inner JOIN says behind ON beside the keys
belongs to WHERE; and x IN (SELECT ...) or EXISTS (SELECT ...) is a condition on the person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import shorten
from sulq.sql.joins import join_kind

Owner = Callable[[Any], str | None]  # the alias of the table that a column is of; None: not known


@dataclass(frozen=True)
class Member:
    """A condition: is the person, or are they not, among those of a sub-select?"""

    select: Any
    column: Any  # of IN; None: EXISTS
    negated: bool


def terms_of(e: Any) -> list[Any]:
    """The parts of a condition that all must hold."""
    if e is None:
        return []
    e = e.unnest()
    if type(e).__name__ == "And":
        return [*terms_of(e.this), *terms_of(e.expression)]
    return [e]


def sorted_terms(joins: Sequence[Any], where: Any, owner: Owner) -> tuple[list[Any], list[Any]]:
    """JOINs with their keys behind ON, and the terms of WHERE with all else."""
    terms = terms_of(None if where is None else where.this)
    made = []
    for join in joins:
        bare = not any(join.args.get(name) for name in ("on", "using", "method", "side"))
        if bare and type(join.this).__name__ == "Table":
            join, terms = _with_key(join, terms, owner)
        elif join.args.get("on") is not None and join_kind(join) == "INNER":
            keys, others = _keys(terms_of(join.args["on"]))
            if keys is not None and others:
                join = join.copy()
                join.set("on", keys.copy())
                terms = [*terms, *others]
        made.append(join)
    return made, terms


def _with_key(join: Any, terms: list[Any], owner: Owner) -> tuple[Any, list[Any]]:
    """FROM a, b: the first term that sets a column of b equal to one of another table."""
    alias = (join.this.alias or join.this.name).lower()
    for i, term in enumerate(terms):
        ends = _columns(term)
        if ends is None:
            continue
        owners = [owner(e) for e in ends]
        if alias in owners and owners[0] != owners[1] and None not in owners:
            made = join.copy()
            made.set("kind", None)
            made.set("on", term.copy())
            return made, terms[:i] + terms[i + 1 :]
    return join, terms


def _keys(terms: list[Any]) -> tuple[Any, list[Any]]:
    """The first equality of two columns, and the other terms."""
    for i, term in enumerate(terms):
        if _columns(term) is not None:
            return term, terms[:i] + terms[i + 1 :]
    return None, terms


def _columns(term: Any) -> list[Any] | None:
    """The two columns that a term sets equal."""
    if type(term).__name__ != "EQ":
        return None
    ends = [term.this.unnest(), term.expression.unnest()]
    return ends if all(type(e).__name__ == "Column" for e in ends) else None


def member(term: Any) -> Member | None:
    """The term as a condition on the person, if it asks for a sub-select."""
    negated = False
    while type(term).__name__ == "Not":
        term, negated = term.this.unnest(), not negated
    if type(term).__name__ == "In" and term.args.get("query") is not None:
        return Member(term.args["query"].this, term.this.unnest(), negated)
    if type(term).__name__ == "Exists" and type(term.this).__name__ == "Select":
        return Member(term.this, None, negated)
    return None


def where_of(terms: Sequence[Any]) -> Any:
    """The terms as a WHERE; None of none."""
    from sqlglot import exp

    return exp.Where(this=exp.and_(*(t.copy() for t in terms))) if terms else None


def no_member(said: str) -> QueryNotAllowed:
    """Why IN and EXISTS are not answered that are not about the person."""
    return QueryNotAllowed(
        f"{shorten(said)}: a sub-select in WHERE is answered where it asks whether the person is "
        "in it: person IN (SELECT person FROM events WHERE ...), or EXISTS with the person of both "
        "set equal, of people or of rows of which each person has one. Write another condition "
        "into WHERE, or a list of constants after IN."
    )


def linked(select: Any, is_inside: Callable[[Any], bool]) -> tuple[Any, Any, list[Any]] | None:
    """Of EXISTS: the column inside and the one outside that are equal, and the other terms."""
    terms = terms_of(None if select.args.get("where") is None else select.args["where"].this)
    for i, term in enumerate(terms):
        ends = _columns(term)
        if ends is None or [is_inside(e) for e in ends].count(True) != 1:
            continue
        inner, outer = ends if is_inside(ends[0]) else ends[::-1]
        return inner, outer, terms[:i] + terms[i + 1 :]
    return None
