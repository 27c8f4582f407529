"""What PEP 249 names: its errors, in which ours are raised, and its types of columns."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sulq import errors


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


class Errors:
    """All of them, as attributes: what catches an error need not know whose connection it is."""

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
def translated() -> Iterator[None]:
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


def code_of(values: Sequence[Any]) -> TypeCode:
    """What these values are."""
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, datetime.date) for v in known):
        return DATETIME
    if all(isinstance(v, int | float) for v in known):
        return NUMBER
    return STRING
