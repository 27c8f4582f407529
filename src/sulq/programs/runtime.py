"""Columns in, one number per row out, by wasmtime.

Every call has a store of its own, so threads share compiled code and nothing else.
"""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.programs.driver import COLUMNS, ROWS, RUN, Driven, Limits, driven
from sulq.programs.library import Spec, checked, engine, wasmtime
from sulq.programs.opcodes import F32, F64, I32, I64

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
