"""Results and errors -> the one shape in which they leave.

An answer carries its numbers three ways: as floats for a look, as exact fractions for a
program, and with the ends of an interval. An error is always {"error": {"type", "message",
"charged"}}; what went wrong inside is never in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from sulq.answer import Answer, Table
from sulq.errors import (
    MICRO,
    AuditRefused,
    BudgetExceeded,
    EngineFailed,
    KeyRefused,
    LedgerDamaged,
    LimitReached,
    MissingExtra,
    NotFound,
    NotPermitted,
    PromiseError,
    QueryNotAllowed,
    Refused,
    SchemaError,
    SourceChanged,
    SulqError,
)
from sulq.price import Price

JSON = "application/json"

# The first class that fits decides.
STATUS: tuple[tuple[type[SulqError], int], ...] = (
    (KeyRefused, 401),
    (BudgetExceeded, 402),
    (NotPermitted, 403),
    (AuditRefused, 403),
    (NotFound, 404),
    (SourceChanged, 409),
    (QueryNotAllowed, 422),
    (SchemaError, 422),
    (PromiseError, 422),
    (LimitReached, 429),
    (Refused, 409),
    (EngineFailed, 500),
    (MissingExtra, 501),
    (LedgerDamaged, 503),
    (SulqError, 500),
)
UNEXPECTED = (
    "the server failed. Whether a charge was made is in your answers; asking the same again does "
    "not pay again."
)
STOPPED = (
    "this dataset is stopped until its owner has looked at it. If a charge was made, asking again "
    "does not pay again."
)


def status_of(error: SulqError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def charged_by(error: SulqError) -> bool | None:
    """Was a charge made? None: that cannot be told here."""
    if isinstance(error, EngineFailed):
        return True
    if isinstance(error, AuditRefused):
        return error.charged
    return False if isinstance(error, Refused) else None


def error_body(error: SulqError) -> dict[str, Any]:
    """The one shape of an error."""
    kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == "sulq.errors")
    body: dict[str, Any] = {
        "type": kind,
        "message": str(error),
        "charged": charged_by(error),
    }
    if isinstance(error, BudgetExceeded):
        body["price_micro"] = int(error.price * MICRO)
        body["remaining_micro"] = int(error.remaining * MICRO)
    if isinstance(error, LimitReached) and error.retry_after is not None:
        body["retry_after_seconds"] = max(1, math.ceil(error.retry_after))
    return {"error": body}


def told(error: SulqError, is_owner: bool) -> SulqError:
    """What a visitor hears: of a damaged ledger or changed rows, only owners hear the details."""
    if is_owner or not isinstance(error, LedgerDamaged | SourceChanged):
        return error
    return type(error)(STOPPED)


def dumped(body: Any) -> bytes:
    """JSON as bytes; NaN and infinities, which JSON has not, as null."""
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return json.dumps(_finite(body), allow_nan=False, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


def answer_body(found: Answer | list[Answer] | Table) -> dict[str, Any]:
    """An answer, several, or a table, by its name."""
    if isinstance(found, Table):
        return {"table": {"columns": list(found.columns), "by": list(found.by)} | found.to_json()}
    if isinstance(found, list):
        return {"answers": [_one(answer) for answer in found]}
    return {"answer": _one(found)}


def _one(answer: Answer) -> dict[str, Any]:
    return answer.to_json() | {"names": list(answer.names), "axes": list(answer.axes)}


def price_body(price: Price, seconds: float | None) -> dict[str, Any]:
    """A price, and when the reply to the question would leave."""
    return {
        "price_micro": price.micro,
        "price": str(price),
        "half_widths_95": list(price.half_widths),
        "deadline_seconds": seconds,
    }
