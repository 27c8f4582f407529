"""DB-API 2.0 (PEP 249), for tools that speak it: sulq.dbapi.connect(...) -> Connection.

Every `execute` is `db.sql`: paid before a row is read, free when it was asked before. There
are no transactions, because a charge is never taken back.

pep249.py        errors and types that PEP 249 names
substitution.py  parameters as literals
cursor.py        Connection and Cursor
"""

from __future__ import annotations

import datetime

from sulq.dbapi.cursor import Connection, Cursor, connect
from sulq.dbapi.pep249 import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)  # fmt: skip

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1  # threads may share the module, but not a connection
paramstyle = "qmark"
Date = datetime.date
