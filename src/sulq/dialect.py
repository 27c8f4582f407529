"""How sqlglot should read our SQL: DuckDB's spelling, with XOR as an operator."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokens import TokenType  # type: ignore[attr-defined]


class Sulq(DuckDB):
    """DuckDB's dialect and `a xor b`."""

    class Tokenizer(DuckDB.Tokenizer):
        """Knows XOR as a word of its own."""

        KEYWORDS: ClassVar = {**DuckDB.Tokenizer.KEYWORDS, "XOR": TokenType.XOR}

    class Parser(DuckDB.Parser):  # type: ignore[misc, valid-type]
        """Reads XOR between AND and OR, and xor(a, b) as well."""

        CONJUNCTION: ClassVar = {**DuckDB.Parser.CONJUNCTION, TokenType.XOR: exp.Xor}
        FUNC_TOKENS: ClassVar = {*DuckDB.Parser.FUNC_TOKENS, TokenType.XOR}
