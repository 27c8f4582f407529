"""Text that is no SQL -> what is probably wrong with it, and where.

Nothing here decides anything: the text was refused already. The words come from the text and
the schema alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.dialect import tokens_of
from sulq.expressions.spelling import listed, nearest
from sulq.values.schema import Schema

KEYWORDS = (
    "select", "from", "where", "group", "by", "having", "order", "limit", "and", "or", "not",
    "in", "is", "null", "like", "between", "case", "when", "then", "else", "end", "as", "with",
    "filter", "distinct", "desc", "asc",
)  # fmt: skip


def unreadable(text: str, what: str, names: Iterable[str], error: Exception) -> QueryNotAllowed:
    """The refusal of a text that the parser could not read."""
    said = text if len(text) <= 80 else text[:77] + "..."
    known = {n.lower() for n in names}
    hint = _unclosed(text) or _slip(text, known) or _near(text, error)
    return QueryNotAllowed(f"{said!r} is not {what} this reads{hint}")


def _unclosed(text: str) -> str:
    for quote in "'\"":
        if text.count(quote) % 2:
            return f": a quote {quote} is not closed."
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    if plain.count("(") != plain.count(")"):
        more = "(" if plain.count("(") > plain.count(")") else ")"
        return f": there is a {more} without its partner."
    return ""


def _slip(text: str, known: set[str]) -> str:
    """A keyword with a letter wrong, or a name that must be quoted."""
    words = _words(text)
    for word, at, plain in words:
        if plain and word.lower() not in known and word.lower() not in KEYWORDS:
            meant = _keyword(word.lower())
            if meant is not None:
                return f": '{word}' at character {at} looks like {meant.upper()}."
    for word, at, plain in words:
        if not plain and word.lower() in known and (word.lower(), at) != ("select", 1):
            return (
                f": '{word}' at character {at} is a word of SQL. Write the column in double "
                f'quotes: "{word}".'
            )
    return ""


def _words(text: str) -> list[tuple[str, int, bool]]:
    """Each word that is not quoted, where it begins, and whether it is no keyword."""
    try:
        tokens = tokens_of(text)
    except Exception:  # what cannot even be cut into words has no slip to name
        return []
    named = [(t, str(getattr(t.token_type, "name", t.token_type))) for t in tokens]
    return [
        (t.text, t.start + 1, kind == "VAR")
        for t, kind in named
        if re.fullmatch(r"[A-Za-z_]\w*", t.text) and text[t.start : t.end + 1] == t.text
    ]


def _keyword(word: str) -> str | None:
    """The keyword that is a slip of the fingers away."""
    most = 1 if len(word) <= 4 else 2
    near = [(k, _slips(word, k)) for k in KEYWORDS]
    best = min(near, key=lambda pair: pair[1])
    return best[0] if best[1] <= most and len(best[0]) > 2 else None


def _slips(a: str, b: str) -> int:
    """Letters to add, drop, change or swap with their neighbour to make a into b."""
    if abs(len(a) - len(b)) > 2:
        return 3
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            steps = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y))
            if i > 1 and j > 1 and (x, a[i - 2]) == (b[j - 2], y):
                steps = min(steps, rows[-2][j - 2] + 1)
            row.append(steps)
        rows.append(row)
    return rows[-1][-1]


def _near(text: str, error: Exception) -> str:
    """Where the parser stopped."""
    found: list[Any] = getattr(error, "errors", None) or []
    place = found[0] if found else {}
    word = str(place.get("highlight") or "")
    if not word or "\x1b" in word:
        return "."
    before = len(place.get("start_context") or "") if place.get("line") == 1 else 0
    at = f" at character {before + 1}" if 0 < before < 99 or text.startswith(word) else ""
    if not str(place.get("end_context") or "").strip() and "missing" in str(place):
        return f": something is missing behind '{word[:40]}'{at}."
    return f": it makes no sense from '{word[:40]}'{at} on."


def no_column(
    name: str, schema: Schema, names: list[str] | None = None, *, quoted: bool = False
) -> QueryNotAllowed:
    """There is no such column: the nearest one, or what else it may be."""
    known = schema.names if names is None else names
    owner = next((c for c in schema.columns if c.values is not None and name in c.values), None)
    found = nearest(name, known)
    if owner is not None:
        hint = f". Text stands in single quotes: {owner.name} = '{name}'."
    elif found is not None:
        hint = f"; did you mean {found!r}?"
    else:
        hint = f". Text stands in single quotes: '{name[:80]}'." if quoted else "."
    return QueryNotAllowed(f"there is no column {name[:80]!r}{hint} Declared: {listed(known)}.")


def not_a_statement(text: str, found: Any, table: str) -> QueryNotAllowed:
    """Only SELECT is answered; a predicate is part of a question."""
    from sqlglot import exp

    said = text.strip() if len(text) <= 80 else text[:77] + "..."
    if isinstance(found, exp.Condition):
        return QueryNotAllowed(
            f"{said!r} is not a question yet: only SELECT is answered as text. Ask select count(*) "
            f"from {table} where {said}; in Python db.count({said!r}), and its price is "
            f"db.price(sulq.Query(where={said!r}))."
        )
    first = said.split()[0].upper() if said.split() else ""
    return QueryNotAllowed(
        f"{first}: only SELECT is answered, such as select region, count(*) from {table} group by "
        "region."
    )
