"""Programs by their SHA-256, and what is needed to run one.

A question names a program by its hash. Its bytes are kept here as long as they were used lately;
the ledger keeps those that were paid for.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

from sulq.errors import MissingExtra, QueryNotAllowed
from sulq.programs.binary import MAX_BYTES, FunctionType, Module, read_module
from sulq.programs.rewrite import STACK_BYTES, check_stack
from sulq.programs.weights import check_calls, export_type, weights_of

KEPT_BYTES = 2**26  # of modules, in this process
FUEL = 10_000  # instructions of a row, unless said otherwise
MAX_FUEL = 1_000_000_000
MISSING = "programs need wasmtime: pip install 'sulq[programs]'. Nothing was charged."


@dataclass(frozen=True, slots=True)
class Spec:
    """A function of a module, the range of its results and the most instructions of a row."""

    hash: str
    export: str
    low: float
    high: float
    fuel: int
    code: bytes = field(compare=False, repr=False)

    @property
    def tree(self) -> list[Any]:
        """What the ledger knows it by."""
        return [self.hash, self.export, self.low, self.high, self.fuel]


def wasmtime() -> Any:
    """The library that runs programs."""
    try:
        import wasmtime as found
    except ImportError:
        raise MissingExtra(MISSING) from None
    return found


@lru_cache(maxsize=64)
def checked(code: bytes) -> Module:
    """A module, read and checked whole; refused if anything in it is not allowed."""
    module = read_module(code)
    check_calls([weights_of(f) for f in module.functions])
    _check_types(code)
    check_stack(module)
    return module


@lru_cache(maxsize=1)
def engine(process: int) -> Any:
    """wasmtime, set up; one for each process, since a forked child must make its own."""
    library = wasmtime()
    config = library.Config()
    config.cranelift_nan_canonicalization = True
    config.parallel_compilation = False
    config.max_wasm_stack = STACK_BYTES
    config.signals_based_traps = False  # the host's signals stay its own,
    config.memory_reservation = config.memory_guard_size = 0  # and its address space
    return library.Engine(config)


atexit.register(engine.cache_clear)  # while wasmtime is still there to let go of it


def _check_types(code: bytes) -> None:
    library = wasmtime()
    try:
        library.Module.validate(engine(os.getpid()), code)
    except library.WasmtimeError as error:
        said = " ".join(str(error).split())[:300]
        raise QueryNotAllowed(f"program: it is not valid WebAssembly: {said}.") from None


def signature(code: bytes, export: str) -> FunctionType:
    """What a function of a module takes and gives."""
    return export_type(checked(code), export)


class _Library:
    """Modules that were used lately, in a bounded room."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    def add(self, code: bytes) -> str:
        """Check a module and keep it; its hash."""
        if len(code) > MAX_BYTES:
            read_module(code)  # says so
        name = sha256(code).hexdigest()
        checked(code)
        with self._lock:
            if name not in self._known:
                self._known[name] = code
                self._size += len(code)
            self._known.move_to_end(name)
            while self._size > KEPT_BYTES:
                self._size -= len(self._known.popitem(last=False)[1])
        return name

    def get(self, name: str) -> bytes | None:
        """The module with this hash, if it is kept."""
        with self._lock:
            if name in self._known:
                self._known.move_to_end(name)
            return self._known.get(name)


LIBRARY = _Library()
