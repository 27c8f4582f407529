"""Messages of PostgreSQL's protocol, version 3: bytes -> values, values -> bytes.

What a client sends is read strictly: a message has exactly the fields that it must have, in its
own length, or it is Malformed. Nothing here waits or decides.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from sulq.values.safe_text import visible

PROTOCOL = 196608  # 3.0
CANCEL = 80877102
SSL = 80877103
GSS = 80877104
MAX_FIELDS = 1000  # of a Bind or a Parse


class Malformed(Exception):
    """These bytes are no such message."""


class _Reader:
    """Takes a message apart from its front."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str) -> int:
        """One integer, 'h' or 'i'."""
        try:
            (found,) = struct.unpack_from(f"!{form}", self._data, self._at)
        except struct.error:
            raise Malformed from None
        self._at += struct.calcsize(form)
        return int(found)

    def count(self) -> int:
        """How many fields follow."""
        found = self.number("h")
        if not 0 <= found <= MAX_FIELDS:
            raise Malformed
        return found

    def numbers(self, form: str) -> tuple[int, ...]:
        """A count, and so many integers."""
        return tuple(self.number(form) for _ in range(self.count()))

    def text(self) -> str:
        """A string that ends with a zero byte."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise Malformed
        found = self._data[self._at : end]
        self._at = end + 1
        try:
            return found.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed from None

    def part(self, count: int) -> bytes:
        """So many bytes."""
        if count < 0 or self._at + count > len(self._data):
            raise Malformed
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is None and self._at != len(self._data):
            raise Malformed  # something is left of it


# ---- what clients send ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Parse:
    """A statement to be prepared under a name."""

    name: str
    text: str
    types: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes) -> Parse:
        """From the body of the message."""
        with _Reader(data) as reader:
            return cls(reader.text(), reader.text(), reader.numbers("i"))


@dataclass(frozen=True, slots=True)
class Bind:
    """Values for a prepared statement, and the portal that they make of it."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    results: tuple[int, ...]

    @classmethod
    def read(cls, data: bytes) -> Bind:
        """From the body of the message."""
        with _Reader(data) as reader:
            portal, statement, formats = reader.text(), reader.text(), reader.numbers("h")
            values = tuple(_value(reader) for _ in range(reader.count()))
            results = reader.numbers("h")
        if not {*formats, *results} <= {0, 1} or len(formats) not in (0, 1, len(values)):
            raise Malformed
        return cls(portal, statement, formats, values, results)


def _value(reader: _Reader) -> bytes | None:
    length = reader.number("i")
    if length < -1:
        raise Malformed
    return None if length == -1 else reader.part(length)


@dataclass(frozen=True, slots=True)
class Named:
    """Describe or Close: a statement ('S') or a portal ('P') of a name."""

    kind: str
    name: str

    @classmethod
    def read(cls, data: bytes) -> Named:
        """From the body of the message."""
        with _Reader(data) as reader:
            found = cls(reader.part(1).decode("latin-1"), reader.text())
        if found.kind not in ("S", "P"):
            raise Malformed
        return found


@dataclass(frozen=True, slots=True)
class Execute:
    """A portal to be run, for so many rows at most; 0: all."""

    portal: str
    most: int

    @classmethod
    def read(cls, data: bytes) -> Execute:
        """From the body of the message."""
        with _Reader(data) as reader:
            return cls(reader.text(), max(reader.number("i"), 0))


def query_text(data: bytes) -> str:
    """The text of a simple Query."""
    with _Reader(data) as reader:
        return reader.text()


def startup(data: bytes) -> dict[str, str]:
    """The parameters of a start: user, database, options and others."""
    found: dict[str, str] = {}
    with _Reader(data) as reader:
        while name := reader.text():
            found[name] = reader.text()
            if len(found) > 50:
                raise Malformed
    return found


def cancel(data: bytes) -> tuple[int, int]:
    """Which connection is to stop what it does: its number and its secret."""
    with _Reader(data) as reader:
        return reader.number("i"), reader.number("I")


def sasl_first(data: bytes) -> tuple[str, bytes]:
    """The mechanism that a client chose, and its first message."""
    with _Reader(data) as reader:
        return reader.text(), _value(reader) or b""


# ---- what is sent to clients ----------------------------------------------------------------


def message(kind: str, *parts: bytes) -> bytes:
    """One message of a kind."""
    body = b"".join(parts)
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def text(value: str) -> bytes:
    """A string that ends with a zero byte; one inside of it is left out."""
    return value.replace("\0", "").encode("utf-8", "replace") + b"\0"


def authentication(step: int, *parts: bytes) -> bytes:
    """A step of letting somebody in: 10 offers mechanisms, 11 goes on, 12 proves, 0 is the end."""
    return message("R", struct.pack("!i", step), *parts)


PARSED = message("1")
BOUND = message("2")
CLOSED = message("3")
NO_DATA = message("n")
SUSPENDED = message("s")
EMPTY = message("I")
COPIED = message("c")


def parameter(name: str, value: str) -> bytes:
    """A setting that the client is told of."""
    return message("S", text(name), text(value))


def key_data(number: int, secret: int) -> bytes:
    """By what this connection is named in a request to cancel."""
    return message("K", struct.pack("!iI", number, secret))


def ready(status: str) -> bytes:
    """The next statement may come; 'I': no transaction, 'T': in one, 'E': in a failed one."""
    return message("Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement is done."""
    return message("C", text(tag))


def described(columns: Sequence[tuple[str, int, int]], formats: Sequence[int]) -> bytes:
    """The columns of a result: name, type and size of each."""
    fields = [
        text(name) + struct.pack("!ihihih", 0, 0, oid, size, -1, form)
        for (name, oid, size), form in zip(columns, formats, strict=True)
    ]
    return message("T", struct.pack("!h", len(fields)), *fields)


def parameters(types: Sequence[int]) -> bytes:
    """The types of a statement's parameters."""
    return message("t", struct.pack(f"!h{len(types)}i", len(types), *types))


def row(values: Sequence[bytes | None]) -> bytes:
    """One row of a result."""
    parts = [b"\xff\xff\xff\xff" if v is None else struct.pack("!i", len(v)) + v for v in values]
    return message("D", struct.pack("!h", len(values)), *parts)


def copy_out(columns: int) -> bytes:
    """Rows follow as text."""
    return message("H", struct.pack(f"!bh{columns}h", 0, columns, *[0] * columns))


def report(kind: str, fields: Mapping[str, str]) -> bytes:
    """An error ('E') or a notice ('N'), field by field."""
    parts = [code.encode() + text(visible(value)) for code, value in fields.items() if value]
    return message(kind, *parts, b"\0")


def negotiated(unknown: Sequence[str]) -> bytes:
    """Version 3.0 is spoken here, whatever newer one was asked for."""
    return message("v", struct.pack("!ii", 0, len(unknown)), *map(text, unknown))
