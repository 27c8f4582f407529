"""How sqlglot should read our SQL: DuckDB's spelling, with XOR as an operator.

DuckDB's tokenizer knows the word, its grammar does not. sqlglot's compiled parser cannot be
subclassed, so its table of conjunctions gets the one entry that MySQL's has.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def parse_sql(text: str) -> list[Any]:
    """sqlglot's reading of a text, statement by statement; raises SqlglotError."""
    return [e for e in _dialect().parse(text) if e is not None]


def tokens_of(text: str) -> list[Any]:
    """The words of a text as the parser will see them; raises SqlglotError."""
    return list(_dialect().tokenize(text))


@cache
def _dialect() -> Any:
    from sqlglot import exp
    from sqlglot.dialects.duckdb import DuckDB
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    dialect = DuckDB()
    dialect.parser().CONJUNCTION.setdefault(TokenType.XOR, exp.Xor)
    return dialect
