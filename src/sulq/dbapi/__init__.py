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

from sulq.dbapi.cursor import Connection as Connection
from sulq.dbapi.cursor import Cursor as Cursor
from sulq.dbapi.cursor import connect as connect
from sulq.dbapi.pep249 import BINARY as BINARY
from sulq.dbapi.pep249 import DATETIME as DATETIME
from sulq.dbapi.pep249 import NUMBER as NUMBER
from sulq.dbapi.pep249 import ROWID as ROWID
from sulq.dbapi.pep249 import STRING as STRING
from sulq.dbapi.pep249 import DatabaseError as DatabaseError
from sulq.dbapi.pep249 import DataError as DataError
from sulq.dbapi.pep249 import Error as Error
from sulq.dbapi.pep249 import IntegrityError as IntegrityError
from sulq.dbapi.pep249 import InterfaceError as InterfaceError
from sulq.dbapi.pep249 import InternalError as InternalError
from sulq.dbapi.pep249 import NotSupportedError as NotSupportedError
from sulq.dbapi.pep249 import OperationalError as OperationalError
from sulq.dbapi.pep249 import ProgrammingError as ProgrammingError
from sulq.dbapi.pep249 import Warning as Warning

apilevel = "2.0"
threadsafety = 1  # threads may share the module, but not a connection
paramstyle = "qmark"
Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes
DateFromTicks = datetime.date.fromtimestamp  # of seconds since 1970, in local time
TimestampFromTicks = datetime.datetime.fromtimestamp


def TimeFromTicks(ticks: float) -> datetime.time:
    """The time of day of so many seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks).time()


_OTHERS = {"annotations", "cursor", "datetime", "pep249", "substitution"}  # modules
__all__ = sorted(name for name in globals().keys() - _OTHERS if not name.startswith("_"))
