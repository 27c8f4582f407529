"""Every way to be refused, as one tree.

SulqError
├── Refused               nothing was charged
│   ├── QueryNotAllowed   the question itself, whatever the data
│   ├── BudgetExceeded    the price is more than what is left
│   ├── AuditRefused      the auditor said no (counts as one of the m queries)
│   ├── SchemaError       the owner's declarations do not fit together, or not the source
│   ├── PromiseError      epsilon, delta, queries, noise or guarantee out of range
│   ├── SourceChanged     the rows are not those the ledger began with
│   ├── Frozen            a scan failed; nothing new is answered until the owner goes on
│   ├── NotKnown          the stored answers do not tell it: there is no estimate
│   ├── KeyRefused        a server does not know the key, or no longer
│   ├── NotPermitted      the key is good, but not for this
│   ├── NotFound          a server has nothing of that name for this key
│   └── LimitReached      too large, too many or too often for a server
├── EngineFailed          charged; no sum came back
│   └── Late              charged; the answer is not there yet, asking again is free
├── LedgerDamaged         stop; history cannot be trusted
├── ServerAway            no reply came; asking again does not pay again
└── MissingExtra          an optional part of sulq is not installed

A message says what was asked, what is allowed, how to mend it and whether a charge was
made. It depends on the query, the schema and the ledger, never on the rows. The attribute
`charged` says the last to a program: true, false, or None where it is not known.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TypeVar

MICRO = 1_000_000  # micro-queries in one query
Raised = TypeVar("Raised", bound="SulqError")


class SulqError(Exception):
    """Anything sulq raises on purpose. `charged`: was a charge made? None: that is not known.

    `names_place`: the message names a path, host or user of the owner's, so that a server tells
    it to owners only.
    """

    charged: bool | None = None
    names_place: bool = False


def placed(error: Raised) -> Raised:
    """The same error, known to name a place of the owner's."""
    error.names_place = True
    return error


def public_kind(error: SulqError) -> str:
    """What an error is called in the tree above, also where a part of sulq has its own kind."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == __name__)


class Refused(SulqError):
    """The call was refused. Nothing was charged and no row was read."""

    charged: bool | None = False


class QueryNotAllowed(Refused):
    """The question is outside what may be asked, whatever the data."""


class SchemaError(Refused):
    """The schema contradicts itself, or does not fit the source's columns."""


class PromiseError(Refused):
    """Epsilon, delta, queries, noise or guarantee is missing, out of range or changed."""


class SourceChanged(Refused):
    """The rows are not those the ledger began with."""


class Frozen(Refused):
    """A scan failed although its engine was there. Nothing new is answered until the owner goes on.

    Whether a scan fails may depend on rows, so one failure may tell one bit: once, not every time.
    """


class AuditRefused(Refused):
    """The auditor refused. It counts as one of the m queries, unless it was counted before."""

    def __init__(self, message: str, *, charged: bool = True) -> None:
        self.charged = charged
        super().__init__(message)


class BudgetExceeded(Refused):
    """The price is more than what is left in the ledger."""

    def __init__(self, price: int, remaining: int, name: str = "", whose: str = "") -> None:
        self.price = Fraction(price, MICRO)
        self.remaining = Fraction(remaining, MICRO)
        where = f" in {name!r}" if name else ""
        super().__init__(
            f"price={in_queries(price)} but remaining={in_queries(remaining)}{whose}{where}. "
            "Nothing was charged.\n"
            "Ask for a wider error (error=...) or fewer values; db.price(...) shows the price "
            "first."
        )


class NotKnown(Refused):
    """What was paid for so far does not tell the answer, so there is no estimate of it."""


class KeyRefused(Refused):
    """The key is missing, malformed, unknown, expired or revoked."""


class NotPermitted(Refused):
    """The key is good, but its person may not do this."""


class NotFound(Refused):
    """There is nothing of that name, or not for this key: the two look alike."""


class LimitReached(Refused):
    """A request is too large, or there are too many. `retry_after` seconds, if waiting helps."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class EngineFailed(SulqError):
    """The charge was made, but the engine gave no sum. Asking again does not pay again."""

    charged = True


class Late(EngineFailed):
    """The rows were not read by the end of the slot. The answer is stored when it is there.

    `retry_after` seconds, one slot, until asking again may help; it is free. Whoever asks
    hears of the answer when 1, then 2, then 4, ... more slots are over, never when it is done.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class LedgerDamaged(SulqError):
    """The ledger's history cannot be trusted, so nothing more is answered."""


class ServerAway(SulqError):
    """No reply came from the server. Asking the same again does not pay again."""


class MissingExtra(SulqError, ImportError):
    """An optional part of sulq is not installed."""


def in_queries(micro: int) -> str:
    """Write micro-queries as queries, exactly: 2500000 -> '2.5 queries'."""
    sign, micro = ("-", -micro) if micro < 0 else ("", micro)
    whole, part = divmod(micro, MICRO)
    digits = f"{whole:,}" + (f".{part:06d}".rstrip("0") if part else "")
    return f"{sign}{digits} {'query' if digits == '1' else 'queries'}"


__all__ = sorted(
    name
    for name, made in globals().items()
    if isinstance(made, type) and issubclass(made, SulqError)
)
