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
        LedgerDamaged,
        MissingExtra,
        PromiseError,
        QueryNotAllowed,
        Refused,
        SchemaError,
        SourceChanged,
        SulqError,
    )
    from sulq.ledger import Charge
    from sulq.opening import encode, open
    from sulq.price import Price
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
    from sulq.schema import Schema

__version__ = "0.1.0"

_HOMES = {
    "answer": ("Answer", "Table"),
    "database": ("Budget", "Database"),
    "errors": (
        "AuditRefused", "BudgetExceeded", "EngineFailed", "LedgerDamaged", "MissingExtra",
        "PromiseError", "QueryNotAllowed", "Refused", "SchemaError", "SourceChanged", "SulqError",
    ),
    "ledger": ("Charge",),
    "opening": ("encode", "open"),
    "price": ("Price",),
    "promise": ("Promise",),
    "query": (
        "Bins", "Blocks", "Leaf", "Mean", "NearestCentre", "Products", "Query", "Rows", "Side",
        "Sums",
    ),
    "rehearsing": ("rehearsal",),
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
    "Leaf",
    "LedgerDamaged",
    "Mean",
    "MissingExtra",
    "NearestCentre",
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
    "Side",
    "SourceChanged",
    "SulqError",
    "Sums",
    "Table",
    "encode",
    "open",
    "rehearsal",
]


def __getattr__(name: str) -> Any:
    if name == "dbapi":  # a module of its own: sulq.dbapi.connect(...)
        return importlib.import_module("sulq.dbapi")
    if name not in _HOME:
        raise AttributeError(f"module 'sulq' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"sulq.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
