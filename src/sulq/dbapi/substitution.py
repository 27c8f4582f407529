"""Parameters -> literals in the place of each `?`."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sulq.dbapi.pep249 import DataError, ProgrammingError


def literal(value: Any) -> str:
    """Write one parameter as a SQL literal of its own type."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape:
        value = value.item()
    try:
        return _literal(value)
    except (ValueError, ArithmeticError):  # digits without end, a signalling NaN
        raise DataError("a parameter is no number that SQL can hold.") from None


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():  # before int, of which it is a kind
            return "true" if value else "false"
        case int():
            return _number(repr(int(value)))
        case float() | Decimal() if not math.isfinite(value):
            raise DataError(f"parameter {value!r}: want a finite number.")
        case float() | Decimal():
            return _number(repr(float(value)) if isinstance(value, float) else f"{value:f}")
        case str():
            return "'" + str(value).replace("'", "''") + "'"
        case datetime.date() if not isinstance(value, datetime.datetime):
            return f"date '{value.isoformat()}'"
    raise DataError(
        f"parameter of type {type(value).__name__}: want text, a number, true or false, a date "
        "or None."
    )


def _number(digits: str) -> str:
    """In brackets below zero, so that 3-? never becomes a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def substituted(operation: str, parameters: Sequence[Any]) -> str:
    """Put a literal in the place of each `?`.

    The places are found by the tokenizer that reads the statement afterwards, so a question
    mark in a string, a quoted name or a comment is left alone, and a literal stays one token.
    """
    if not isinstance(operation, str):
        raise ProgrammingError(f"operation of type {type(operation).__name__}: want SQL as text.")
    if isinstance(parameters, Mapping | str) or not isinstance(parameters, Sequence):
        raise ProgrammingError("parameters: want a list or tuple, one value for each '?'.")
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    from sulq.expressions.dialect import tokens_of

    try:
        tokens = tokens_of(operation)
    except SqlglotError:
        raise ProgrammingError("this is not a SQL statement: a quote is left open.") from None
    places = [t.start for t in tokens if t.token_type == TokenType.PLACEHOLDER]
    if len(places) != len(parameters):
        raise ProgrammingError(
            f"{len(places)} '?' in the statement but {len(parameters)} parameters. Nothing was "
            "charged."
        )
    parts, at = [], 0
    for place, value in zip(places, parameters, strict=True):
        parts += [operation[at:place], f" {literal(value)} "]
        at = place + 1
    return "".join([*parts, operation[at:]])
