"""SuLQ: a statistical database that outsiders may query and no single row can be learned from.

The names below are what programs may rely on; the rest is ours to change. They load on first
use, so that `import sulq` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sulq.answer import Answer, Table
    from sulq.database import Budget, Database
    from sulq.errors import (
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
        ServerAway,
        SourceChanged,
        SulqError,
    )
    from sulq.keys import KeyCounts
    from sulq.ledger import Charge
    from sulq.opening import encode, open
    from sulq.plots import Picture
    from sulq.price import Price
    from sulq.progress import Steps
    from sulq.promise import Promise
    from sulq.query import (
        Bins,
        Blocks,
        Leaf,
        Mean,
        NearestCentre,
        Products,
        Query,
        Rows,
        Side,
        Sums,
    )
    from sulq.rehearsing import rehearsal
    from sulq.remote import connect
    from sulq.schema import Schema

__version__ = "0.1.0"

_HOMES = {
    "answer": ("Answer", "Table"),
    "database": ("Budget", "Database"),
    "errors": (
        "AuditRefused", "BudgetExceeded", "EngineFailed", "KeyRefused", "LedgerDamaged",
        "LimitReached", "MissingExtra", "NotFound", "NotPermitted", "PromiseError",
        "QueryNotAllowed", "Refused", "SchemaError", "ServerAway", "SourceChanged", "SulqError",
    ),
    "keys": ("KeyCounts",),
    "ledger": ("Charge",),
    "opening": ("encode", "open"),
    "plots": ("Picture",),
    "price": ("Price",),
    "progress": ("Steps",),
    "promise": ("Promise",),
    "query": (
        "Bins", "Blocks", "Leaf", "Mean", "NearestCentre", "Products", "Query", "Rows", "Side",
        "Sums",
    ),
    "rehearsing": ("rehearsal",),
    "remote": ("connect",),
    "schema": ("Schema",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "AuditRefused",
    "Bins",
    "Blocks",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "Database",
    "EngineFailed",
    "KeyCounts",
    "KeyRefused",
    "Leaf",
    "LedgerDamaged",
    "LimitReached",
    "Mean",
    "MissingExtra",
    "NearestCentre",
    "NotFound",
    "NotPermitted",
    "Picture",
    "Price",
    "Products",
    "Promise",
    "PromiseError",
    "Query",
    "QueryNotAllowed",
    "Refused",
    "Rows",
    "Schema",
    "SchemaError",
    "ServerAway",
    "Side",
    "SourceChanged",
    "Steps",
    "SulqError",
    "Sums",
    "Table",
    "connect",
    "encode",
    "open",
    "rehearsal",
]


def __getattr__(name: str) -> Any:
    if name in ("audit", "dbapi", "vertical"):  # modules of their own: sulq.dbapi.connect(...)
        return importlib.import_module(f"sulq.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'sulq' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"sulq.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
