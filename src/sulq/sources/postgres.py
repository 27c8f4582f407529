"""Talking to PostgreSQL: addresses, connections, sessions with nothing left to chance.

The table's engine and the ledger's server both come through here. psycopg is imported only
when an address is used, and no password is ever shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from sulq.errors import MissingExtra, Refused, SchemaError

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgresql://", "postgres://")
OLDEST = 140_000  # the first version whose rows can be hashed as a whole
LEDGER = "ledger"  # our own word in an address: which schema of the database holds the ledger
DEFAULT_LEDGER = "sulq"
PASSWORD = "password"  # libpq's own word in an address
CONNECT = {
    "connect_timeout": "10",  # seconds
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "application_name": "sulq",
}

# What a session of the engine is held to. The text is what the server must then say of itself.
PINNED = {
    "search_path": "pg_catalog, pg_temp",  # no function or operator but PostgreSQL's own
    "default_transaction_read_only": "on",
    "row_security": "off",  # rows hidden by a policy are an error, not silently left out
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "error",
    "statement_timeout": "1h",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "10min",
}
ONE_STATE = "repeatable read"  # one snapshot for the whole question
EACH_ITS_OWN = "read committed"  # a statement sees all that ended before it
BEGUN = {
    "transaction_read_only": "on",
    "server_encoding": "UTF8",  # so that lengths, patterns and hashes of text are those of UTF-8
}


def is_address(where: Any) -> bool:
    """Is it the address of a PostgreSQL server?"""
    return isinstance(where, str) and where.startswith(SCHEMES)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and which of its schemas holds the ledger, or the registry."""

    url: str = field(repr=False)  # may hold a password
    ledger: str
    shown: str  # without the password

    @classmethod
    def read(cls, text: str, word: str = LEDGER, default: str = DEFAULT_LEDGER) -> Address:
        """Take our own word out of an address; the rest is libpq's."""
        parts = urlsplit(text)
        words = parse_qsl(parts.query, keep_blank_values=True)
        named = [value for name, value in words if name == word]
        if len(named) > 1 or "" in named or any(len(n.encode()) > 63 for n in named):
            raise Refused(f"{word}= in an address names one schema, of at most 63 bytes.")
        rest = urlencode([(n, v) for n, v in words if n != word])
        url = urlunsplit(parts._replace(query=rest))
        user, at, host = parts.netloc.rpartition("@")
        place = f"{user.split(':')[0]}{at}{host}{parts.path}"
        socket = next((v for n, v in words if n == "host"), "")
        hidden = f"postgresql://{place}" + (f"?host={socket}" if socket else "")
        return cls(url, named[0] if named else default, hidden)


def without_password(address: str) -> tuple[str, str | None]:
    """An address without its password, and the password, if it has one."""
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, secret = user.partition(":")
    words = parse_qsl(parts.query, keep_blank_values=True)
    said = [value for word, value in words if word == PASSWORD]
    if not colon and not said:
        return address, None
    rest = urlencode([(word, value) for word, value in words if word != PASSWORD])
    bare = urlunsplit(parts._replace(netloc=f"{name}{at}{host}", query=rest))
    return bare, said[-1] if said else unquote(secret)


def with_word(address: str, word: str, value: str) -> str:
    """An address with one word more among its options."""
    parts = urlsplit(address)
    words = [*parse_qsl(parts.query, keep_blank_values=True), (word, value)]
    return urlunsplit(parts._replace(query=urlencode(words)))


def driver() -> Any:
    """psycopg, or how to get it."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("PostgreSQL needs: pip install 'sulq[postgres]'") from None
    return psycopg


def connect(address: Address) -> psycopg.Connection[Any]:
    """A connection that begins transactions only when told to; raises psycopg's own error."""
    found = driver().conninfo.conninfo_to_dict(address.url)
    settings: Mapping[str, Any] = {**CONNECT, **{k: v for k, v in found.items() if v is not None}}
    connection: psycopg.Connection[Any] = driver().connect(
        **settings, autocommit=True, prepare_threshold=None
    )
    return connection


def why(error: Exception) -> str:
    """The first line of what a failed connection said: about the server, never about rows."""
    words = str(error).strip().splitlines()
    return words[0] if words else type(error).__name__


@contextmanager
def snapshot(connection: psycopg.Connection[Any], level: str = ONE_STATE) -> Iterator[None]:
    """One read-only transaction over one state of the rows, its settings pinned and checked."""
    wanted = PINNED | BEGUN | {"transaction_isolation": level}
    pins = "; ".join(f"SET LOCAL {name} = {_value(text)}" for name, text in PINNED.items())
    asked = ", ".join(f"pg_catalog.current_setting('{name}')" for name in wanted)
    begin = f"BEGIN ISOLATION LEVEL {level.upper()} READ ONLY"
    cursor = connection.execute(f"{begin}; {pins}; SELECT {asked}".encode())
    try:
        while cursor.nextset():
            pass
        for name, said in zip(wanted, cursor.fetchone() or (), strict=True):
            if said != wanted[name]:
                raise Refused(
                    f"the server says {name} = {said!r} where {wanted[name]!r} is needed. Nothing "
                    "was read."
                )
        yield
    finally:
        if not connection.closed:
            connection.execute("ROLLBACK")  # nothing was written, so there is nothing to keep


def _value(text: str) -> str:
    """A setting's text; the path is a list, so it is not quoted."""
    return text if ", pg_" in text else f"'{text}'"


def reach(url: str) -> psycopg.Connection[Any]:
    """A connection to where rows are, or a refusal that says why there is none."""
    address = Address.read(url)
    try:
        return connect(address)
    except driver().Error as error:
        raise SchemaError(f"source={address.shown!r} cannot be reached: {why(error)}.") from None


@contextmanager
def first_look(url: str, table: str | None, connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Names, types and n. Errors are about the server or the role, not about rows."""
    psycopg, shown = driver(), Address.read(url).shown
    try:
        with snapshot(connection):
            yield
    except psycopg.errors.InsufficientPrivilege:
        raise SchemaError(
            f"table={table!r}: this role may not read it, or a row security policy "
            "would hide some of its rows. `sulq postgres grant` prints what to run."
        ) from None
    except psycopg.Error as error:
        raise SchemaError(
            f"source={shown!r}, table={table!r} could not be read "
            f"({type(error).__name__}). Does a plain SELECT over all its rows work?"
        ) from None
