"""DB-API 2.0 (PEP 249), for tools that speak it: sulq.dbapi.connect(...) -> Connection.

Every `execute` is `db.sql`: paid before a row is read, free when it was asked before, within the
limit of the connection (`spend=`; a dataset of a server is not spent on without one). There are no
transactions, because a charge is never taken back.

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
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
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
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """The day of so many seconds since 1970, in local time, as PEP 249 wants it."""
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day of so many seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """The moment of so many seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks)
