"""Every way to be refused, as one tree.

SulqError
├── Refused               nothing was charged
│   ├── QueryNotAllowed   the question itself, whatever the data
│   ├── BudgetExceeded    the price is more than what is left
│   ├── AuditRefused      the auditor said no (counts as one of the m queries)
│   ├── SchemaError       the owner's declarations do not fit together, or not the source
│   ├── PromiseError      epsilon, delta, queries, noise or guarantee out of range
│   ├── SourceChanged     the rows are not those the ledger began with
│   ├── KeyRefused        a server does not know the key, or no longer
│   ├── NotPermitted      the key is good, but not for this
│   ├── NotFound          a server has nothing of that name for this key
│   └── LimitReached      too large, too many or too often for a server
├── EngineFailed          charged; no sum came back
├── LedgerDamaged         stop; history cannot be trusted
├── ServerAway            no reply came; asking again does not pay again
└── MissingExtra          an optional part of sulq is not installed

A message says what was asked, what is allowed, how to mend it and whether a charge was
made. It depends on the query, the schema and the ledger, never on the rows.
"""

from __future__ import annotations

from fractions import Fraction

__all__ = [
    "AuditRefused",
    "BudgetExceeded",
    "EngineFailed",
    "KeyRefused",
    "LedgerDamaged",
    "LimitReached",
    "MissingExtra",
    "NotFound",
    "NotPermitted",
    "PromiseError",
    "QueryNotAllowed",
    "Refused",
    "SchemaError",
    "ServerAway",
    "SourceChanged",
    "SulqError",
]

MICRO = 1_000_000  # micro-queries in one query


class SulqError(Exception):
    """Anything sulq raises on purpose."""


class Refused(SulqError):
    """The call was refused. Nothing was charged and no row was read."""


class QueryNotAllowed(Refused):
    """The question is outside what may be asked, whatever the data."""


class SchemaError(Refused):
    """The schema contradicts itself, or does not fit the source's columns."""


class PromiseError(Refused):
    """Epsilon, delta, queries, noise or guarantee is missing, out of range or changed."""


class SourceChanged(Refused):
    """The rows are not those the ledger began with."""


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
