"""Results and errors -> the one shape in which they leave.

An answer carries its numbers three ways: as floats for a look, as exact fractions for a
program, and with the ends of an interval. An error is always {"error": {"type", "message",
"charged"}}; what went wrong inside is never in it.
"""

from __future__ import annotations

import json
import math
from typing import Any

from sulq import errors
from sulq.errors import MICRO, Refused, SulqError, public_kind
from sulq.server.services.registry_server import Away
from sulq.server.services.uploads import TooLarge
from sulq.values.answer import Answer
from sulq.values.number_text import finite
from sulq.values.price import Price
from sulq.values.table import Table

JSON = "application/json"

# The first class that fits decides.
STATUS: tuple[tuple[type[SulqError], int], ...] = (
    (Away, 503),
    (TooLarge, 413),
    (errors.KeyRefused, 401),
    (errors.BudgetExceeded, 402),
    (errors.NotPermitted, 403),
    (errors.AuditRefused, 403),
    (errors.NotFound, 404),
    (errors.SourceChanged, 409),
    (errors.QueryNotAllowed, 422),
    (errors.SchemaError, 422),
    (errors.PromiseError, 422),
    (errors.LimitReached, 429),
    (Refused, 409),
    (errors.Late, 503),
    (errors.EngineFailed, 500),
    (errors.MissingExtra, 501),
    (errors.LedgerDamaged, 503),
    (SulqError, 500),
)
UNEXPECTED = (
    "the server failed. Whether a charge was made is in your answers; asking the same again does "
    "not pay again."
)
BLOCKED = (
    "this dataset is blocked until its owner has looked at it. If a charge was made, asking again "
    "does not pay again."
)

CLOSED = (
    "this dataset cannot be used until its owner, or whoever runs the server, has looked at it. "
    "Nothing was charged."
)
FAILED = (
    "no sum came back, or it could not be kept. The charge stands; asking the same question again "
    "does not pay again."
)
OWNERS_SIDE = (errors.SchemaError, errors.PromiseError, errors.SourceChanged)


def status_of(error: SulqError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in STATUS if isinstance(error, kind))


def error_body(error: SulqError) -> dict[str, Any]:
    """The one shape of an error."""
    kind = public_kind(error)
    body: dict[str, Any] = {"type": kind, "message": str(error), "charged": error.charged}
    if isinstance(error, errors.BudgetExceeded):
        body["price_micro"] = int(error.price * MICRO)
        body["remaining_micro"] = int(error.remaining * MICRO)
    if isinstance(error, errors.LimitReached) and error.retry_after is not None:
        body["retry_after_seconds"] = max(1, math.ceil(error.retry_after))
    if isinstance(error, errors.Late) and error.retry_after is not None:
        body["retry_after_seconds"] = error.retry_after
    return {"error": body}


def wait_header(error: SulqError) -> str | None:
    """Whole seconds to wait before asking again, as a header says it; None if that is no help."""
    wait = getattr(error, "retry_after", None)
    return None if wait is None else str(max(1, math.ceil(wait)))


def told(error: SulqError, is_owner: bool) -> SulqError:
    """What a principal hears. Places, damage and changed rows are for owners to hear of.

    Whatever is not about a question is about the owner's side, so it is not context on either.
    """
    places = isinstance(error, OWNERS_SIDE) or error.names_place
    if is_owner or (not places and isinstance(error, Refused | errors.EngineFailed)):
        return error
    if isinstance(error, errors.LedgerDamaged | errors.SourceChanged):
        return type(error)(BLOCKED)
    if isinstance(error, errors.EngineFailed):
        return errors.EngineFailed(FAILED)
    if isinstance(error, Refused | errors.MissingExtra):
        return Refused(CLOSED)
    return SulqError(UNEXPECTED)


def dumped(body: Any) -> bytes:
    """JSON as bytes; NaN and infinities, which JSON has not, as null."""
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return json.dumps(finite(body), allow_nan=False, separators=(",", ":")).encode()


def answer_body(found: Answer | list[Answer] | Table) -> dict[str, Any]:
    """An answer, several, or a table, by its name."""
    if isinstance(found, Table):
        return {"table": {"columns": list(found.columns), "by": list(found.by)} | found.to_json()}
    if isinstance(found, list):
        return {"answers": [_one(answer) for answer in found]}
    return {"answer": _one(found)}


def _one(answer: Answer) -> dict[str, Any]:
    return answer.to_json() | {"names": list(answer.names), "axes": list(answer.axes)}


def price_body(price: Price, seconds: float | None, unpaid: int, left: int) -> dict[str, Any]:
    """A price, and when the reply to the question would leave."""
    return {
        "price_micro": price.micro,
        "price": str(price),
        "half_widths_95": list(price.half_widths),
        "deadline_seconds": seconds,
        "unpaid_micro": unpaid,
        "left_micro": left,
    }
