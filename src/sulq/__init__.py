"""SuLQ: a statistical database that outsiders may query and no single row can be learned from.

The names below are what programs may rely on; the rest is ours to change. They load on first
use, so that `import sulq` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # each `as` itself: a name that is passed on
    from sulq.client import connect as connect
    from sulq.column_profile import Profile as Profile
    from sulq.data_check import DataCheck as DataCheck
    from sulq.data_check import check_data as check_data
    from sulq.database import Database as Database
    from sulq.drawing.picture import Picture as Picture
    from sulq.errors import AuditRefused as AuditRefused
    from sulq.errors import BudgetExceeded as BudgetExceeded
    from sulq.errors import EngineFailed as EngineFailed
    from sulq.errors import Frozen as Frozen
    from sulq.errors import KeyRefused as KeyRefused
    from sulq.errors import Late as Late
    from sulq.errors import LedgerDamaged as LedgerDamaged
    from sulq.errors import LimitReached as LimitReached
    from sulq.errors import MissingExtra as MissingExtra
    from sulq.errors import NotFound as NotFound
    from sulq.errors import NotKnown as NotKnown
    from sulq.errors import NotPermitted as NotPermitted
    from sulq.errors import PromiseError as PromiseError
    from sulq.errors import QueryNotAllowed as QueryNotAllowed
    from sulq.errors import Refused as Refused
    from sulq.errors import SchemaError as SchemaError
    from sulq.errors import ServerAway as ServerAway
    from sulq.errors import SourceChanged as SourceChanged
    from sulq.errors import SulqError as SulqError
    from sulq.expressions.program import Program as Program
    from sulq.expressions.row_function import RowFunction as RowFunction
    from sulq.expressions.row_function import expand as expand
    from sulq.expressions.row_function import row as row
    from sulq.expressions.row_function import row_functions as row_functions
    from sulq.ledger import Charge as Charge
    from sulq.open_database import encode as encode
    from sulq.open_database import open as open
    from sulq.privacy.promise import Promise as Promise
    from sulq.progress import Steps as Steps
    from sulq.queryable import Queryable as Queryable
    from sulq.questions.facts import KeyCounts as KeyCounts
    from sulq.rehearsal_database import rehearsal as rehearsal
    from sulq.values.answer import Answer as Answer
    from sulq.values.marginals import Marginals as Marginals
    from sulq.values.price import Budget as Budget
    from sulq.values.price import Price as Price
    from sulq.values.query import Bins as Bins
    from sulq.values.query import Blocks as Blocks
    from sulq.values.query import Discover as Discover
    from sulq.values.query import Leaf as Leaf
    from sulq.values.query import Mean as Mean
    from sulq.values.query import NearestCentre as NearestCentre
    from sulq.values.query import Products as Products
    from sulq.values.query import Query as Query
    from sulq.values.query import Rows as Rows
    from sulq.values.query import Side as Side
    from sulq.values.query import Strategy as Strategy
    from sulq.values.query import Sums as Sums
    from sulq.values.schema import Schema as Schema
    from sulq.values.table import Table as Table
    from sulq.values.uncertain import Uncertain as Uncertain

__version__ = "0.2.0"

_HOMES = {
    "values.answer": ("Answer",),
    "values.table": ("Table",),
    "values.uncertain": ("Uncertain",),
    "column_profile": ("Profile",),
    "data_check": ("DataCheck", "check_data"),
    "database": ("Database",),
    "errors": (
        "AuditRefused", "BudgetExceeded", "EngineFailed", "Frozen", "KeyRefused", "Late",
        "LedgerDamaged", "LimitReached", "MissingExtra", "NotFound", "NotKnown", "NotPermitted",
        "PromiseError", "QueryNotAllowed", "Refused", "SchemaError", "ServerAway", "SourceChanged",
        "SulqError",
    ),
    "questions.facts": ("KeyCounts",),
    "expressions.program": ("Program",),
    "expressions.row_function": ("RowFunction", "expand", "row", "row_functions"),
    "ledger": ("Charge",),
    "open_database": ("encode", "open"),
    "drawing.picture": ("Picture",),
    "values.marginals": ("Marginals",),
    "values.price": ("Budget", "Price"),
    "progress": ("Steps",),
    "privacy.promise": ("Promise",),
    "values.query": (
        "Bins", "Blocks", "Discover", "Leaf", "Mean", "NearestCentre", "Products", "Query", "Rows",
        "Side", "Strategy", "Sums",
    ),
    "queryable": ("Queryable",),
    "rehearsal_database": ("rehearsal",),
    "client": ("connect",),
    "values.schema": ("Schema",),
}  # fmt: skip
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


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
