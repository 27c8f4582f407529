"""The bytes of WebAssembly, as far as they are written here."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from sulq.programs.opcodes import CONSTANTS, F32, F64

MAGIC = b"\0asm\1\0\0\0"


def unsigned(value: int) -> bytes:
    """LEB128."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """LEB128 of a number that may be negative."""
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def vector(items: Sequence[bytes]) -> bytes:
    """How many there are, then each."""
    return unsigned(len(items)) + b"".join(items)


def sized(body: bytes) -> bytes:
    """How many bytes there are, then these."""
    return unsigned(len(body)) + body


def section(number: int, items: Sequence[bytes]) -> bytes:
    """A section of some items; nothing for none."""
    return bytes([number]) + sized(vector(items)) if items else b""


def constant(kind: int, value: float) -> bytes:
    """The instruction that gives a constant of a type."""
    code = bytes([CONSTANTS[kind]])
    if kind == F32:
        return code + struct.pack("<f", value)
    return code + (struct.pack("<d", value) if kind == F64 else signed(int(value)))


def function_type(parameters: Iterable[int], results: Iterable[int]) -> bytes:
    """What a function takes and gives."""
    return (
        b"\x60" + vector([bytes([p]) for p in parameters]) + vector([bytes([r]) for r in results])
    )


def memory(pages: int) -> bytes:
    """A memory that cannot grow."""
    return b"\x01" + unsigned(pages) * 2


def text(word: str) -> bytes:
    """A name."""
    return sized(word.encode())
