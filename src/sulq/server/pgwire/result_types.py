"""Values and PostgreSQL's types: what results hold, as text and in binary; what parameters say."""

from __future__ import annotations

import datetime
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

BOOL, INT8, INT2, INT4, TEXT, OID, JSON = 16, 20, 21, 23, 25, 26, 114
FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR, DATE, TIMESTAMP = 700, 701, 705, 1042, 1043, 1082, 1114
TIMESTAMPTZ, NUMERIC, NAME, CHAR = 1184, 1700, 19, 18
ARRAYS = {BOOL: 1000, INT2: 1005, INT4: 1007, TEXT: 1009, INT8: 1016, FLOAT4: 1021, FLOAT8: 1022,
          OID: 1028, VARCHAR: 1015, NAME: 1003}  # fmt: skip
ELEMENTS = {array: element for element, array in ARRAYS.items()}
SIZES = {BOOL: 1, CHAR: 1, INT2: 2, INT4: 4, OID: 4, DATE: 4, FLOAT4: 4, INT8: 8, FLOAT8: 8,
         TIMESTAMP: 8, TIMESTAMPTZ: 8, NAME: 64}  # fmt: skip
PACKED = {INT2: "!h", INT4: "!i", INT8: "!q", OID: "!I", FLOAT4: "!f", FLOAT8: "!d"}
TEXTS = (TEXT, VARCHAR, BPCHAR, NAME, CHAR, UNKNOWN, JSON, 0)
EPOCH = datetime.date(2000, 1, 1)
MOMENT = datetime.datetime(2000, 1, 1)


class BadValue(Exception):
    """A parameter is no value of its type."""


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result."""

    name: str
    oid: int

    @property
    def described(self) -> tuple[str, int, int]:
        """As a description of rows has it."""
        return self.name, self.oid, SIZES.get(self.oid, -1)


# ---- results --------------------------------------------------------------------------------


def as_text(value: Any) -> str | None:
    """A value as PostgreSQL writes it."""
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case float():
            return _number(value)
        case list() | tuple():
            return "{" + ",".join(_element(v) for v in value) + "}"
        case dict():
            return json.dumps(value, default=str)
        case datetime.datetime():
            return value.isoformat(sep=" ")
    return str(value)


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    return text.removesuffix(".0")


def _element(value: Any) -> str:
    text = as_text(value)
    if text is None:
        return "NULL"
    plain = text and not any(c in '{},"\\ \t\n' for c in text) and text.lower() != "null"
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def encoded(value: Any, oid: int, form: int) -> bytes | None:
    """A value as bytes: text (0) or binary (1)."""
    if value is None:
        return None
    if form == 0:
        return (as_text(value) or "").encode("utf-8", "replace")
    return _binary(value, oid)


def _binary(value: Any, oid: int) -> bytes:
    if oid in PACKED:
        return struct.pack(PACKED[oid], float(value) if oid in (FLOAT4, FLOAT8) else int(value))
    if oid == BOOL:
        return b"\1" if value else b"\0"
    if oid == DATE:
        return struct.pack("!i", (value - EPOCH).days)
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return struct.pack("!q", (value - MOMENT) // datetime.timedelta(microseconds=1))
    if oid in ELEMENTS:
        return _array(value, ELEMENTS[oid])
    return (as_text(value) or "").encode("utf-8", "replace")


def _array(values: Sequence[Any], oid: int) -> bytes:
    if not values:
        return struct.pack("!iiI", 0, 0, oid)
    parts = [encoded(v, oid, 1) for v in values]
    head = struct.pack("!iiIii", 1, int(None in parts), oid, len(parts), 1)
    return head + b"".join(
        b"\xff\xff\xff\xff" if p is None else struct.pack("!i", len(p)) + p for p in parts
    )


# ---- parameters -----------------------------------------------------------------------------


def decoded(data: bytes | None, oid: int, form: int) -> Any:
    """A parameter as a plain value."""
    if data is None:
        return None
    try:
        return _from_binary(data, oid) if form == 1 else _from_text(data.decode("utf-8"), oid)
    except (ValueError, OverflowError, InvalidOperation, struct.error):
        raise BadValue from None


def _from_text(text: str, oid: int) -> Any:
    if oid in TEXTS:
        return text
    if oid in (INT2, INT4, INT8, OID):
        return _integer(text)
    if oid in (FLOAT4, FLOAT8):
        return float(text)
    if oid == NUMERIC:
        return Decimal(text[:100])
    if oid == BOOL:
        known = {"t": True, "true": True, "1": True, "on": True, "yes": True, "y": True}
        known |= {"f": False, "false": False, "0": False, "off": False, "no": False, "n": False}
        if text.strip().lower() not in known:
            raise BadValue
        return known[text.strip().lower()]
    if oid == DATE:
        return datetime.date.fromisoformat(text.strip())
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        return _day(datetime.datetime.fromisoformat(text.strip()))
    if oid in ELEMENTS:
        return [_from_text(v, ELEMENTS[oid]) for v in _elements(text)]
    raise BadValue


def _integer(text: str) -> int:
    found = int(text.strip()[:40])
    if abs(found) >= 2**63:
        raise BadValue
    return found


def _elements(text: str) -> list[str]:
    """The parts of an array of plain words."""
    if not (text.startswith("{") and text.endswith("}")) or '"' in text or "{" in text[1:]:
        raise BadValue
    return [part for part in text[1:-1].split(",") if part]


def _day(moment: datetime.datetime) -> datetime.date:
    """A moment that is a whole day; there are no others here."""
    if moment.replace(tzinfo=None) != datetime.datetime.combine(moment.date(), datetime.time()):
        raise BadValue
    return moment.date()


def _from_binary(data: bytes, oid: int) -> Any:
    if oid in TEXTS:
        return data.decode("utf-8")
    if oid in PACKED:
        (found,) = struct.unpack(PACKED[oid], data)
        return found
    if oid == BOOL:
        if len(data) != 1:
            raise BadValue
        return data != b"\0"
    if oid == DATE:
        (days,) = struct.unpack("!i", data)
        return EPOCH + datetime.timedelta(days=days)
    if oid in (TIMESTAMP, TIMESTAMPTZ):
        (micro,) = struct.unpack("!q", data)
        return _day(MOMENT + datetime.timedelta(microseconds=micro))
    if oid == NUMERIC:
        return _numeric(data)
    if oid in ELEMENTS:
        return _from_array(data, ELEMENTS[oid])
    raise BadValue


def _numeric(data: bytes) -> Decimal:
    """Digits of base 10,000, as PostgreSQL packs them."""
    count, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000) or not 0 <= count <= 100 or abs(weight) > 100:
        raise BadValue
    digits = struct.unpack_from(f"!{count}h", data, 8)
    found = sum((Decimal(d).scaleb(4 * (weight - i)) for i, d in enumerate(digits)), Decimal(0))
    return -found if sign else found


def _from_array(data: bytes, oid: int) -> list[Any]:
    dimensions, _, element = struct.unpack_from("!iiI", data)
    if dimensions == 0:
        return []
    (count,) = struct.unpack_from("!i", data, 12)
    if dimensions != 1 or element != oid or not 0 <= count <= 10_000:
        raise BadValue
    out, at = [], 20
    for _ in range(count):
        (length,) = struct.unpack_from("!i", data, at)
        at += 4
        out.append(None if length == -1 else _from_binary(data[at : at + length], oid))
        at += max(length, 0)
    return out
