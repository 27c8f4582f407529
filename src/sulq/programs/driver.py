"""The loop over the rows of a batch, inside WebAssembly, and the module that holds it.

Before each row fuel, flag, globals and memory are as they were before the first, so nothing that a
row did is there for the next. A row that set the flag, or whose result is not finite, counts 0.
Columns stand in a memory of their own, which no instruction of the program can name.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.programs import opcodes as op
from sulq.programs.binary import PAGE, Module
from sulq.programs.encoding import (
    MAGIC,
    constant,
    function_type,
    memory,
    section,
    sized,
    text,
    unsigned,
    vector,
)
from sulq.programs.library import Spec, checked, engine, wasmtime
from sulq.programs.opcodes import F32, F64, I32, I64
from sulq.programs.rewrite import Places, rewritten
from sulq.programs.weights import check_calls, export_type, weights_of

ROWS = 2**13  # at a time
RUN, COLUMNS = "run", "columns"
LOADED = {I32: 0x28, I64: 0x29, F32: 0x2A, F64: 0x2B}
STORED = {I64: 0x37, F64: 0x39}
SHIFT = {4: 2, 8: 3}
I32_EQZ, I32_EQ, I32_LT_U, I32_ADD, I32_AND, I32_SHL = 0x45, 0x46, 0x49, 0x6A, 0x71, 0x74
I64_LT_S, I64_GT_S, I64_EXTEND, F64_EQ, F64_SUB = 0x53, 0x55, 0xAC, 0x61, 0xA1
F64_MIN, F64_MAX, F64_PROMOTE = 0xA4, 0xA5, 0xBB
MEMORY_COPY = bytes([op.PREFIX, 0x0A])
N, ROW, RESULT, GOOD = 0, 1, 2, 3  # the driver's locals


@dataclass(frozen=True)
class Limits:
    """What a row's result lies in, and how many instructions it may take."""

    low: float
    high: float
    fuel: int


@dataclass(frozen=True)
class Driven:
    """A module to run, and where its columns stand in memory."""

    code: bytes
    types: tuple[int, ...]  # of the columns
    places: tuple[int, ...]  # where each begins; the last is the result's
    result: int  # the type of the results: i64 or f64


def driven(module: Module, name: str, limits: Limits) -> Driven:
    """The module that runs an exported function over rows."""
    kind, target = export_type(module, name), module.exports[name]
    weights = [weights_of(f) for f in module.functions]
    most = check_calls(weights)[target]
    metered = most is None or most > limits.fuel
    stores = any(i.code in op.STORES for f in module.functions for i in f.body)
    added = Places(len(module.globals), len(module.globals) + 1)
    own = 0 if module.pages is None else 1
    places, size = [], 0
    for each in (*kind.parameters, F64):
        places.append(size)
        size += ROWS * op.SIZES[each]
    pages = [] if module.pages is None else [memory(module.pages)]
    pages.append(memory(-(-size // PAGE)))
    if stores and module.pages:
        pages.append(memory(module.pages))  # what memory is before each row
    result = I64 if kind.results[0] in (I32, I64) else F64
    loop = _Loop(module, target, limits, added, own, tuple(places), len(pages) > own + 1)
    bodies = [
        rewritten(module, f, w, added, metered)
        for f, w in zip(module.functions, weights, strict=True)
    ]
    code = _assembled(module, pages, own, [*bodies, loop.code()])
    return Driven(code, kind.parameters, tuple(places), result)


def _assembled(module: Module, pages: list[bytes], own: int, bodies: list[bytes]) -> bytes:
    types = [function_type(*t) for t in module.types] + [function_type([I32], [])]
    functions = [unsigned(f.type) for f in module.functions] + [unsigned(len(module.types))]
    zero = {kind: bytes([kind, 1]) + constant(kind, 0) + bytes([op.END]) for kind in (I64, I32)}
    values = [g.raw for g in module.globals] + [zero[I64], zero[I32]]
    exports = [
        text(RUN) + b"\0" + unsigned(len(module.functions)), text(COLUMNS) + b"\2" + unsigned(own)
    ]  # fmt: skip
    data = []
    for index in [0, own + 1][: len(pages) - own]:
        for place, piece in module.segments:
            where = constant(I32, place - 2**32 if place >= 2**31 else place) + bytes([op.END])
            data.append(b"\2" + unsigned(index) + where + sized(piece))
    parts = [section(1, types), section(3, functions), section(5, pages), section(6, values),
             section(7, exports), section(10, bodies), section(11, data)]  # fmt: skip
    return MAGIC + b"".join(parts)


class _Loop:
    """for i in range(n): result[i] = clamped(f(columns[i]))"""

    def __init__(
        self, module: Module, target: int, limits: Limits, added: Places, own: int,
        places: tuple[int, ...], fresh: bool,
    ) -> None:  # fmt: skip
        self.module, self.target, self.limits, self.added = module, target, limits, added
        self.own, self.places, self.fresh = own, places, fresh
        self.kind = module.type_of(target)
        self.result = I64 if self.kind.results[0] in (I32, I64) else F64

    def code(self) -> bytes:
        locals_ = [(1, I32), (1, self.result), (1, I32)]
        out = [vector([unsigned(many) + bytes([kind]) for many, kind in locals_])]
        out += [bytes([op.BLOCK, 0x40]), _get(N), bytes([I32_EQZ, op.BR_IF, 0, op.LOOP, 0x40])]
        out += [self.begin(), _get(ROW), *self.shifted(F64)]
        for kind, place in zip(self.kind.parameters, self.places, strict=False):
            out += [_get(ROW), *self.shifted(kind), bytes([LOADED[kind]]), self.at(kind, place)]
        out += [bytes([op.CALL]), unsigned(self.target), self.finished()]
        out += [bytes([STORED[self.result]]), self.at(F64, self.places[-1])]
        out += [_get(ROW), constant(I32, 1), bytes([I32_ADD, op.LOCAL_TEE, ROW]), _get(N)]
        out += [bytes([I32_LT_U, op.BR_IF, 0, op.END, op.END, op.END])]
        return sized(b"".join(out))

    def shifted(self, kind: int) -> list[bytes]:
        """The row's number -> how far its value is from a column's begin."""
        return [constant(I32, SHIFT[op.SIZES[kind]]), bytes([I32_SHL])]

    def at(self, kind: int, place: int) -> bytes:
        """Alignment, memory and offset of a column."""
        align = SHIFT[op.SIZES[kind]]
        return unsigned(align | 0x40) + unsigned(self.own) + unsigned(place)

    def begin(self) -> bytes:
        """Everything as it was before the first row."""
        out = [constant(I64, self.limits.fuel), _set_global(self.added.fuel)]
        out += [constant(I32, 0), _set_global(self.added.flag)]
        for index, found in enumerate(self.module.globals):
            if found.mutable:
                out += [found.start, _set_global(index)]
        if self.fresh:
            size = constant(I32, (self.module.pages or 0) * PAGE)
            out += [constant(I32, 0), constant(I32, 0), size, MEMORY_COPY]
            out += [unsigned(0), unsigned(self.own + 1)]
        return b"".join(out)

    def finished(self) -> bytes:
        """A result -> 0 where the flag is set or it is not finite; then within its range."""
        given, low, high = self.kind.results[0], self.limits.low, self.limits.high
        out = [{I32: bytes([I64_EXTEND]), F32: bytes([F64_PROMOTE])}.get(given, b"")]
        out += [bytes([op.LOCAL_SET, RESULT, op.GLOBAL_GET]), unsigned(self.added.flag)]
        out += [bytes([I32_EQZ, op.LOCAL_SET, GOOD])]
        value = _get(RESULT)
        if self.result == F64:
            finite = value + value + bytes([F64_SUB]) + constant(F64, 0) + bytes([F64_EQ])
            out += [value, constant(F64, 0), finite, _get(GOOD), bytes([I32_AND, op.SELECT])]
            out += [constant(F64, low), bytes([F64_MAX]), constant(F64, high), bytes([F64_MIN])]
            return b"".join(out)
        out += [value, constant(I64, 0), _get(GOOD), bytes([op.SELECT])]
        for end, beyond in ((low, I64_LT_S), (high, I64_GT_S)):
            out += [bytes([op.LOCAL_SET, RESULT]), constant(I64, end), value, value]
            out += [constant(I64, end), bytes([beyond, op.SELECT])]
        return b"".join(out)


def _get(local: int) -> bytes:
    return bytes([op.LOCAL_GET, local])


def _set_global(index: int) -> bytes:
    return bytes([op.GLOBAL_SET]) + unsigned(index)


# ---- running it -----------------------------------------------------------------------------
# Every call has a store of its own, so threads share compiled code and nothing else.

DTYPES: dict[int, Any] = {I32: np.int32, I64: np.int64, F32: np.float32, F64: np.float64}


def run(spec: Spec, columns: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The function's value on every row: whole numbers of a whole function, else floats."""
    library = wasmtime()
    found, module = _compiled(spec, os.getpid())
    store = library.Store(engine(os.getpid()))
    instance = library.Instance(store, module, [])
    parts = instance.exports(store)
    loop, memory = parts[RUN], parts[COLUMNS]
    size = memory.data_len(store)
    address = ctypes.addressof(memory.data_ptr(store).contents)
    room = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
    rows = len(columns[0])
    out = np.empty(rows, dtype=DTYPES[found.result])
    views = [
        room[place : place + ROWS * np.dtype(DTYPES[kind]).itemsize].view(DTYPES[kind])
        for kind, place in zip((*found.types, found.result), found.places, strict=True)
    ]
    for start in range(0, rows, ROWS):
        many = min(ROWS, rows - start)
        for view, column in zip(views[:-1], columns, strict=True):
            view[:many] = column[start : start + many]
        loop(store, many)
        out[start : start + many] = views[-1][:many]
    return out


def prepare(spec: Spec) -> None:
    """Compile it: whatever is wrong with a program is found before anything is charged."""
    _compiled(spec, os.getpid())


@lru_cache(maxsize=64)
def _compiled(spec: Spec, process: int) -> tuple[Driven, Any]:
    found = driven(checked(spec.code), spec.export, Limits(spec.low, spec.high, spec.fuel))
    return found, wasmtime().Module(engine(process), found.code)


atexit.register(_compiled.cache_clear)  # while wasmtime is still there to let go of them
