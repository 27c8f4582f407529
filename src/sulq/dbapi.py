"""DB-API 2.0 (PEP 249), for tools that speak it: sulq.dbapi.connect(...) -> Connection.

Every `execute` is `db.sql`: paid before a row is read, free when it was asked before. There
are no transactions, because a charge is never taken back.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq import errors
from sulq.stepwise import in_steps

if TYPE_CHECKING:
    from sulq.database import Database
    from sulq.values.answer import Table
    from sulq.values.price import Price

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

# --- errors -------------------------------------------------------------------------------


class Warning(Exception):  # PEP 249 names it so
    """PEP 249's; never raised here."""


class Error(Exception):
    """Anything this module raises. Its cause is sulq's own error, where there is one.

    `charged`: was a charge made? None: that is not known.
    """

    charged: bool | None = None


class InterfaceError(Error):
    """The connection or cursor is closed, or used in the wrong order."""


class DatabaseError(Error):
    """Something about the database."""


class DataError(DatabaseError):
    """A parameter that cannot be written as SQL."""


class OperationalError(DatabaseError):
    """No budget left, the source changed, or the engine failed."""


class IntegrityError(DatabaseError):
    """PEP 249's; never raised here."""


class InternalError(DatabaseError):
    """The ledger is damaged: nothing more is answered."""


class ProgrammingError(DatabaseError):
    """The statement may not be asked. Nothing was charged."""


class NotSupportedError(DatabaseError):
    """An optional part of sulq is not installed."""


# The first that fits.
ERRORS: tuple[tuple[type[errors.SulqError], type[Error]], ...] = (
    (errors.BudgetExceeded, OperationalError),
    (errors.SourceChanged, OperationalError),
    (errors.AuditRefused, OperationalError),
    (errors.Refused, ProgrammingError),
    (errors.EngineFailed, OperationalError),
    (errors.LedgerDamaged, InternalError),
    (errors.MissingExtra, NotSupportedError),
    (errors.SulqError, DatabaseError),
)


@contextmanager
def _translated() -> Iterator[None]:
    """Raise sulq's errors as PEP 249's, with the same words."""
    try:
        yield
    except errors.SulqError as error:
        kind = next(ours for theirs, ours in ERRORS if isinstance(error, theirs))
        raised = kind(str(error))
        raised.charged = error.charged
        raise raised from error


# --- types --------------------------------------------------------------------------------


class TypeCode(str):
    """What a column holds, for comparing with `description`."""


STRING = TypeCode("STRING")
BINARY = TypeCode("BINARY")
NUMBER = TypeCode("NUMBER")
DATETIME = TypeCode("DATETIME")
ROWID = TypeCode("ROWID")


def _code(values: Sequence[Any]) -> TypeCode:
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, datetime.date) for v in known):
        return DATETIME
    if all(isinstance(v, int | float) for v in known):
        return NUMBER
    return STRING


# --- parameters ---------------------------------------------------------------------------


def literal(value: Any) -> str:
    """Write one parameter as a SQL literal of its own type."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape:
        value = value.item()
    try:
        return _literal(value)
    except (ValueError, ArithmeticError):  # digits without end, a signalling NaN
        raise DataError("a parameter is no number that SQL can hold.") from None


def _literal(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():  # before int, of which it is a kind
            return "true" if value else "false"
        case int():
            return _number(repr(int(value)))
        case float() | Decimal() if not math.isfinite(value):
            raise DataError(f"parameter {value!r}: want a finite number.")
        case float() | Decimal():
            return _number(repr(float(value)) if isinstance(value, float) else f"{value:f}")
        case str():
            return "'" + str(value).replace("'", "''") + "'"
        case datetime.date() if not isinstance(value, datetime.datetime):
            return f"date '{value.isoformat()}'"
    raise DataError(
        f"parameter of type {type(value).__name__}: want text, a number, true or false, a date "
        "or None."
    )


def _number(digits: str) -> str:
    """In brackets below zero, so that 3-? never becomes a comment."""
    return f"({digits})" if digits.startswith("-") else digits


def substituted(operation: str, parameters: Sequence[Any]) -> str:
    """Put a literal in the place of each `?`.

    The places are found by the tokenizer that reads the statement afterwards, so a question
    mark in a string, a quoted name or a comment is left alone, and a literal stays one token.
    """
    if not isinstance(operation, str):
        raise ProgrammingError(f"operation of type {type(operation).__name__}: want SQL as text.")
    if isinstance(parameters, Mapping | str) or not isinstance(parameters, Sequence):
        raise ProgrammingError("parameters: want a list or tuple, one value for each '?'.")
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    from sulq.expressions.dialect import tokens_of

    try:
        tokens = tokens_of(operation)
    except SqlglotError:
        raise ProgrammingError("this is not a SQL statement: a quote is left open.") from None
    places = [t.start for t in tokens if t.token_type == TokenType.PLACEHOLDER]
    if len(places) != len(parameters):
        raise ProgrammingError(
            f"{len(places)} '?' in the statement but {len(parameters)} parameters. Nothing was "
            "charged."
        )
    parts, at = [], 0
    for place, value in zip(places, parameters, strict=True):
        parts += [operation[at:place], f" {literal(value)} "]
        at = place + 1
    return "".join([*parts, operation[at:]])


# --- connections --------------------------------------------------------------------------


def connect(source: Any, *, free: bool = False, **options: Any) -> Connection:
    """Connect to a Database, or to what `sulq.open` opens, with its options.

    A path that ends in .toml is a sulq.toml. A Database that was open before stays open when
    the connection is closed. free=True spends nothing: statements are estimated from stored
    answers alone.
    """
    from sulq.database import Database
    from sulq.open_database import open

    if isinstance(source, Database):
        if options:
            names = ", ".join(options)
            raise InterfaceError(f"{names}: this database is open already; its promise stands.")
        return Connection(source, owned=False, free=free)
    with _translated():
        if isinstance(source, str | Path) and str(source).endswith(".toml"):
            from sulq.settings_file import Settings

            made = open(**Settings.load(source).arguments | options)
            return Connection(made, owned=True, free=free)
        return Connection(open(source, **options), owned=True, free=free)


class Connection:
    """One database, as PEP 249 sees it."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError
    autocommit = True  # each answer stands by itself

    def __init__(self, db: Database, *, owned: bool, free: bool = False) -> None:
        self._db: Database | None = db
        self._owned = owned
        self.free = free  # are statements estimated from stored answers, and never paid?

    @property
    def db(self) -> Database:
        """The database, with its budget, prices and history."""
        return self._check()

    def _check(self) -> Database:
        if self._db is None:
            raise InterfaceError("the connection is closed.")
        return self._db

    def cursor(self) -> Cursor:
        """A place to ask from."""
        self._check()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: every charge is durable before its answer comes back."""
        self._check()

    def rollback(self) -> None:
        """Do nothing: what was spent stays spent."""
        self._check()

    def close(self) -> None:
        """Let go of the database, if it was opened here."""
        db, self._db = self._db, None
        if db is not None and self._owned:
            db.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """Asks statements and hands out the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid = None
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.price: Price | None = None  # what the statement costs; asked again it is free
        self.table: Table | None = None  # the last result, with .remaining and .note
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def _check(self) -> Database:
        if self._closed:
            raise InterfaceError("the cursor is closed.")
        return self.connection.db

    # --- asking -----------------------------------------------------------------------

    def execute(self, operation: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Ask one SELECT, with a value for each `?`; it is paid now, unless asked before."""
        return self.executemany(operation, [() if parameters is None else parameters])

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Cursor:
        """Ask the statement once for each list of parameters; the rows follow each other."""
        db = self._check()
        self._forget()
        statements = [substituted(operation, p) for p in seq_of_parameters]
        with _translated():
            if len(statements) > 1:
                for statement in statements:  # refused before the first is paid, or not at all
                    db.price(statement)
            free = self.connection.free
            with in_steps(db):
                tables = [db.sql(statement, free=free) for statement in statements]
        if not tables:
            return self
        found = [table.typed() for table in tables]
        self.table = tables[-1]
        self.price = sum((t.price for t in tables[1:]), tables[0].price)
        self.description = [
            (name, _code([v for columns in found for v in columns[name]]), *[None] * 5)
            for name in found[-1]
        ]
        rows = [row for columns in found for row in zip(*columns.values(), strict=True)]
        self.rowcount, self._rows = len(rows), iter(rows)
        return self

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> None:
        """Not supported."""
        raise NotSupportedError("there are no stored procedures.")

    def nextset(self) -> None:
        """There is never a second set."""
        self._check()

    # --- fetching ---------------------------------------------------------------------

    def _asked(self) -> Iterator[tuple[Any, ...]]:
        self._check()
        if self.description is None:
            raise InterfaceError("nothing was asked yet: execute a SELECT first.")
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        return next(self._asked(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them unless a size is given."""
        rows = self._asked()
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(range(wanted), rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return list(self._asked())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._asked())

    # --- the rest of PEP 249 ----------------------------------------------------------

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Drop the rows."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
