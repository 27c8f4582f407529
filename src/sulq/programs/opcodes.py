"""The instructions of WebAssembly that are read; a program with any other is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

I32, I64, F32, F64 = 0x7F, 0x7E, 0x7D, 0x7C
NAMES = {I32: "i32", I64: "i64", F32: "f32", F64: "f64"}
SIZES = {I32: 4, I64: 8, F32: 4, F64: 8}

UNREACHABLE, BLOCK, LOOP, IF, ELSE, END = 0x00, 0x02, 0x03, 0x04, 0x05, 0x0B
BR, BR_IF, BR_TABLE, RETURN, CALL = 0x0C, 0x0D, 0x0E, 0x0F, 0x10
DROP, SELECT, SELECT_TYPED = 0x1A, 0x1B, 0x1C
LOCAL_GET, LOCAL_SET, LOCAL_TEE, GLOBAL_GET, GLOBAL_SET = 0x20, 0x21, 0x22, 0x23, 0x24
MEMORY_SIZE = 0x3F
I32_CONST, I64_CONST, F32_CONST, F64_CONST = 0x41, 0x42, 0x43, 0x44
CONSTANTS = {I32: I32_CONST, I64: I64_CONST, F32: F32_CONST, F64: F64_CONST}
PREFIX = 0xFC  # before the conversions that saturate

# What stands behind an instruction.
PLAIN = frozenset({UNREACHABLE, 0x01, ELSE, END, RETURN, DROP, SELECT, *range(0x45, 0xC5)})
WITH_BLOCK_TYPE = frozenset({BLOCK, LOOP, IF})
WITH_INDEX = frozenset({BR, BR_IF, CALL, LOCAL_GET, LOCAL_SET, LOCAL_TEE, GLOBAL_GET, GLOBAL_SET})


class Access(NamedTuple):
    """A load or a store: what it moves, and how many bytes of it."""

    type: int
    size: int


LOADS: Mapping[int, Access] = {
    0x28: Access(I32, 4), 0x29: Access(I64, 8), 0x2A: Access(F32, 4), 0x2B: Access(F64, 8),
    0x2C: Access(I32, 1), 0x2D: Access(I32, 1), 0x2E: Access(I32, 2), 0x2F: Access(I32, 2),
    0x30: Access(I64, 1), 0x31: Access(I64, 1), 0x32: Access(I64, 2), 0x33: Access(I64, 2),
    0x34: Access(I64, 4), 0x35: Access(I64, 4),
}  # fmt: skip
STORES: Mapping[int, Access] = {
    0x36: Access(I32, 4), 0x37: Access(I64, 8), 0x38: Access(F32, 4), 0x39: Access(F64, 8),
    0x3A: Access(I32, 1), 0x3B: Access(I32, 2), 0x3C: Access(I64, 1), 0x3D: Access(I64, 2),
    0x3E: Access(I64, 4),
}  # fmt: skip

# What is refused although it is WebAssembly, and what to do instead.
REFUSED: Mapping[int, str] = {
    0x06: "exceptions", 0x07: "exceptions", 0x08: "exceptions", 0x09: "exceptions",
    0x0A: "exceptions", 0x18: "exceptions", 0x19: "exceptions", 0x1F: "exceptions",
    0x11: "an indirect call: call functions by name",
    0x12: "a tail call: call and return", 0x13: "a tail call: call and return",
    0x14: "an indirect call: call functions by name",
    0x15: "an indirect call: call functions by name",
    0x25: "a table", 0x26: "a table",
    0x40: "memory.grow: memory is as large as it is declared",
    0xD0: "a reference", 0xD1: "a reference", 0xD2: "a reference", 0xD3: "a reference",
    0xD4: "a reference", 0xD5: "a reference", 0xD6: "a reference", 0xFB: "a reference",
    0xFD: "SIMD: compile without it", 0xFE: "threads and atomic memory",
}  # fmt: skip
BULK = "memory.copy, memory.fill or a table in bulk: compile with -mno-bulk-memory"
