"""A module as text, one instruction a line, so that its owner can read what was run.

It is WebAssembly's own text: wat2wasm makes a module of it that has the same functions. Parts that
are of no use here (unused tables, names, sections of compilers) are left out.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator

from sulq.programs import opcodes as op
from sulq.programs.binary import Function, FunctionType, Instruction, Module
from sulq.programs.opcodes import F32, F64, I32, I64, NAMES

COMPARED = "eqz eq ne lt_s lt_u gt_s gt_u le_s le_u ge_s ge_u"
WHOLE = "clz ctz popcnt add sub mul div_s div_u rem_s rem_u and or xor shl shr_s shr_u rotl rotr"
FLOAT = "abs neg ceil floor trunc nearest sqrt add sub mul div min max copysign"
CASTS = (
    "i32.wrap_i64 i32.trunc_f32_s i32.trunc_f32_u i32.trunc_f64_s i32.trunc_f64_u i64.extend_i32_s "
    "i64.extend_i32_u i64.trunc_f32_s i64.trunc_f32_u i64.trunc_f64_s i64.trunc_f64_u "
    "f32.convert_i32_s f32.convert_i32_u f32.convert_i64_s f32.convert_i64_u f32.demote_f64 "
    "f64.convert_i32_s f64.convert_i32_u f64.convert_i64_s f64.convert_i64_u f64.promote_f32 "
    "i32.reinterpret_f32 i64.reinterpret_f64 f32.reinterpret_i32 f64.reinterpret_i64 "
    "i32.extend8_s i32.extend16_s i64.extend8_s i64.extend16_s i64.extend32_s"
)
NUMERIC = [
    *(f"{kind}.{name}" for kind in ("i32", "i64") for name in COMPARED.split()),
    *(f"{kind}.{name}" for kind in ("f32", "f64") for name in ["eq", "ne", "lt", "gt", "le", "ge"]),
    *(f"{kind}.{name}" for kind in ("i32", "i64") for name in WHOLE.split()),
    *(f"{kind}.{name}" for kind in ("f32", "f64") for name in FLOAT.split()),
    *CASTS.split(),
]
SATURATED = [f"{i}.trunc_sat_{f}_{s}" for i in ("i32", "i64") for f in ("f32", "f64") for s in "su"]
MOVED = (
    "i32.load i64.load f32.load f64.load i32.load8_s i32.load8_u i32.load16_s i32.load16_u "
    "i64.load8_s i64.load8_u i64.load16_s i64.load16_u i64.load32_s i64.load32_u i32.store "
    "i64.store f32.store f64.store i32.store8 i32.store16 i64.store8 i64.store16 i64.store32"
)
SAID = {
    **{0x45 + i: name for i, name in enumerate(NUMERIC)},
    **{0x28 + i: name for i, name in enumerate(MOVED.split())},
    op.UNREACHABLE: "unreachable", 0x01: "nop", op.BLOCK: "block", op.LOOP: "loop", op.IF: "if",
    op.ELSE: "else", op.END: "end", op.BR: "br", op.BR_IF: "br_if", op.BR_TABLE: "br_table",
    op.RETURN: "return", op.CALL: "call", op.DROP: "drop", op.SELECT: "select",
    op.SELECT_TYPED: "select", op.LOCAL_GET: "local.get", op.LOCAL_SET: "local.set",
    op.LOCAL_TEE: "local.tee", op.GLOBAL_GET: "global.get", op.GLOBAL_SET: "global.set",
    op.MEMORY_SIZE: "memory.size",
}  # fmt: skip


def text_of(module: Module) -> str:
    """The text of a module."""
    return "\n".join(["(module", *(f"  {line}" for line in _lines(module)), ")"]) + "\n"


def _lines(module: Module) -> Iterator[str]:
    for i, kind in enumerate(module.types):
        yield f"(type (;{i};) (func{_signature(kind)}))"
    for i, function in enumerate(module.functions):
        yield from _function(module, i, function)
    if module.pages is not None:
        yield f"(memory {module.pages})"
    for i, found in enumerate(module.globals):
        held = f"(mut {NAMES[found.type]})" if found.mutable else NAMES[found.type]
        yield f"(global (;{i};) {held} ({_constant(found.type, found.start)}))"
    for name, i in module.exports.items():
        yield f"(export {_quoted(name.encode())} (func {i}))"
    for place, piece in module.segments:
        yield f"(data (i32.const {place}) {_quoted(piece)})"


def _signature(kind: FunctionType) -> str:
    parts = zip(("param", "result"), kind, strict=True)
    return "".join(f" ({word} {' '.join(NAMES[k] for k in some)})" for word, some in parts if some)


def _function(module: Module, number: int, function: Function) -> Iterator[str]:
    yield f"(func (;{number};) (type {function.type})"
    declared = [NAMES[kind] for many, kind in function.locals for _ in range(many)]
    if declared:
        yield f"  (local {' '.join(declared)})"
    depth = 1
    for instruction in function.body[:-1]:
        code = instruction.code
        depth -= code in (op.ELSE, op.END)
        yield "  " * depth + _instruction(module, instruction)
        depth += code in (op.ELSE, *op.WITH_BLOCK_TYPE)
    yield ")"


def _instruction(module: Module, i: Instruction) -> str:
    raw = module.code[i.start : i.end]
    if i.code == op.PREFIX:
        return SATURATED[raw[1] & 0x7F]
    kind = next((k for k, code in op.CONSTANTS.items() if code == i.code), None)
    if kind is not None:
        return _constant(kind, raw)
    said = SAID[i.code]
    if i.code in op.WITH_INDEX:
        return f"{said} {i.value}"
    if i.code in op.WITH_BLOCK_TYPE:
        return said + _block_type(raw)
    if i.code in op.LOADS or i.code in op.STORES:
        return f"{said} offset={i.value} align={2 ** (raw[1] & 0x3F)}"
    if i.code == op.BR_TABLE:
        return f"{said} {' '.join(map(str, _numbers(raw[1:])[1:]))}"
    if i.code == op.SELECT_TYPED:
        return f"{said} (result {NAMES[raw[-1]]})"
    return said


def _block_type(raw: bytes) -> str:
    if len(raw) == 2 and raw[1] == 0x40:
        return ""
    if len(raw) == 2 and raw[1] in NAMES:
        return f" (result {NAMES[raw[1]]})"
    return f" (type {_numbers(raw[1:])[0]})"


def _constant(kind: int, raw: bytes) -> str:
    if kind in (I32, I64):
        (value,) = _numbers(raw[1:], signed=True)
        return f"{NAMES[kind]}.const {value}"
    form, bits, mantissa = ("<f", "<I", 23) if kind == F32 else ("<d", "<Q", 52)
    (number,), (pattern,) = struct.unpack(form, raw[1:]), struct.unpack(bits, raw[1:])
    said = number.hex()
    if math.isnan(number):
        sign = "-" if pattern >> (31 if kind == F32 else 63) else ""
        said = f"{sign}nan:0x{pattern & (2**mantissa - 1):x}"
    assert kind in (F32, F64)
    return f"{NAMES[kind]}.const {said}"


def _numbers(raw: bytes, signed: bool = False) -> list[int]:
    """Every LEB128 number of some bytes."""
    found, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            found.append(value - (1 << shift) if signed and byte & 0x40 else value)
            value, shift = 0, 0
    return found


def _quoted(raw: bytes) -> str:
    plain = (chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02x}" for b in raw)
    return f'"{"".join(plain)}"'
