"""How sqlglot should read our SQL: DuckDB's spelling, with XOR as an operator.

Spellings of other databases that mean something answerable are read too: VAR, STDEVP, PI(),
SELECT TOP 5.

DuckDB's tokenizer knows the word, its grammar does not. sqlglot's compiled parser cannot be
subclassed, so its table of conjunctions gets the one entry that MySQL's has.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from sulq.errors import QueryNotAllowed

LISTED = "Nothing was charged.\ndocs/reference/functions.md lists what each function takes."


def parse_sql(text: str) -> list[Any]:
    """sqlglot's reading of a text, statement by statement; raises SqlglotError."""
    with _silence():
        tokens, top = _without_top(tokens_of(text))
        found = [e for e in _dialect().parser().parse(tokens, text) if e is not None]
    foreign = [_looked_over(e) for e in found]
    if top is not None and len(found) == 1:
        found = [_limited(found[0], top)]
    return [
        e.transform(_native, copy=False) if other else e
        for e, other in zip(found, foreign, strict=True)
    ]


def _without_top(tokens: list[Any]) -> tuple[list[Any], str | None]:
    """SELECT TOP 5 is SELECT with LIMIT 5."""
    words = [t.text.lower() for t in tokens[:5]]
    if words[:2] != ["select", "top"]:
        return tokens, None
    if words[2:3] == ["("] and words[4:5] == [")"]:
        return [tokens[0], *tokens[5:]], words[3]
    if len(words) > 3 and words[2].isdecimal() and words[3] not in (",", "from"):
        return [tokens[0], *tokens[3:]], words[2]
    return tokens, None


def _limited(e: Any, top: str) -> Any:
    if type(e).__name__ != "Select" or e.args.get("limit") or not top.isdecimal():
        raise QueryNotAllowed("TOP wants a whole number, and no LIMIT beside it.")
    return e.limit(int(top[:18]), copy=False)


def _native(e: Any) -> Any:
    """A function under the name that it has here."""
    from sqlglot import exp

    if isinstance(e, exp.Pi):
        return exp.Literal.number("3.141592653589793")
    if type(e) is not exp.Anonymous:
        return e
    name, given = str(e.this).lower(), e.expressions
    if name == "count_big" and len(given) == 1:
        return exp.Count(this=given[0])
    if name == "isnull" and len(given) == 2:
        return exp.Coalesce(this=given[0], expressions=given[1:])
    made = {"var": exp.Variance, "vars": exp.Variance, "varp": exp.VariancePop,
            "stdevp": exp.StddevPop, "stdevs": exp.StddevSamp}.get(name)  # fmt: skip
    return made(this=given[0]) if made is not None and len(given) == 1 else e


@contextmanager
def _silence() -> Iterator[None]:
    """Keep sqlglot's own warnings about a text, which we read or refuse, to ourselves."""
    token = _READING.set(True)
    try:
        yield
    finally:
        _READING.reset(token)


_READING: ContextVar[bool] = ContextVar("reading", default=False)
logging.getLogger("sqlglot").addFilter(lambda record: not _READING.get())


def _looked_over(e: Any) -> bool:
    """Has it functions that `_native` may know? Whatever it has is made ready to be copied.

    A function without an argument that it must have is refused: sqlglot reads FLOOR() too.
    """
    from sqlglot import exp

    foreign = False
    for node in e.walk():
        if type(node) is not exp.Variance:  # of which `sql` asks how it was spelled
            node._meta = None  # where it stood in the text: two thirds of the time of a copy
        if not isinstance(node, exp.Func):
            continue
        foreign = foreign or isinstance(node, exp.Pi | exp.Anonymous)
        for name, needed in node.arg_types.items():
            if needed and node.args.get(name) is None:
                raise QueryNotAllowed(f"{_name(node)}: an argument is missing. {LISTED}")
    return foreign


def _name(e: Any) -> str:
    return spelled(e).lower()


def spelled(e: Any) -> str:
    """What people call a node: a function's name, an operator's sign, or the SQL itself."""
    from sqlglot import exp

    if isinstance(e, exp.Anonymous):
        return str(e.this).upper()
    if isinstance(e, exp.Binary):
        pair = type(e)(this=exp.column("a"), expression=exp.column("b"))
        found = re.fullmatch(r"a (.*) b", pair.sql(dialect="duckdb"))
        if found:
            return found[1]
    if isinstance(e, exp.Func):
        return SIGNS.get(type(e).__name__, e.sql_name())
    return WORDS.get(type(e).__name__, type(e).__name__.upper())


SIGNS = {"ArrayOverlaps": "&&", "Log": "LOG"}
WORDS = {"Star": "*", "Subquery": "a subquery", "Select": "a SELECT inside", "Alias": "AS",
         "BitwiseNot": "~", "Placeholder": "?", "Bracket": "[ ]"}  # fmt: skip


def tokens_of(text: str) -> list[Any]:
    """The words of a text as the parser will see them; raises SqlglotError."""
    return list(_dialect().tokenize(text))


def written(e: Any, dialect: str | None = "duckdb", *, copy: bool = True) -> str:
    """An expression as text, or a refusal: sqlglot reads more than it can write.

    sqlglot changes what it writes: without a copy only what nobody reads afterwards.
    """
    known = _dialect() if dialect else None
    try:
        with _silence():
            return str(e.sql(dialect=known, comments=False, copy=copy))
    except Exception:  # of any kind: arguments that are missing, too many, or of another kind
        raise QueryNotAllowed(
            f"{_name(e)}: the number or kind of its arguments is not read here. {LISTED}"
        ) from None


def load() -> None:
    """Load the parser, so that the first question need not wait for it."""
    _dialect()


@cache
def _dialect() -> Any:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    dialect = DuckDB()
    dialect.parser().CONJUNCTION.setdefault(TokenType.XOR, exp.Xor)
    return dialect
