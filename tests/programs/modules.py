"""Small modules for the tests, as text; and what plain wasmtime says of them, row by row."""

from __future__ import annotations

import math
from functools import lru_cache
from hashlib import sha256

import wasmtime

from sulq.programs.library import Spec

F = '(func (export "f")'


def wasm(text):
    """The bytes of a module that is written as text."""
    return bytes(wasmtime.wat2wasm(text))


def module(body, *, rest=""):
    """A module with one exported function f, whose types and body are given."""
    return wasm(f"(module {rest} {F} {body}))")


def spec(code, low=0.0, high=1.0, fuel=10_000, export="f"):
    return Spec(sha256(code).hexdigest(), export, low, high, fuel, code)


@lru_cache(maxsize=1)
def plain_engine():
    config = wasmtime.Config()
    config.cranelift_nan_canonicalization = True
    return wasmtime.Engine(config)


def plainly(code, rows, low, high, export="f"):
    """Each row by a fresh instance of the module as it is: 0 for a trap or no finite number."""
    made = wasmtime.Module(plain_engine(), code)
    return [_row(made, row, low, high, export) for row in rows]


def _row(made, row, low, high, export):
    store = wasmtime.Store(plain_engine())
    function = wasmtime.Instance(store, made, []).exports(store)[export]
    try:
        found = function(store, *row)
    except wasmtime.Trap:
        found = 0
    if not math.isfinite(found):
        found = 0
    return min(max(found, low), high)


def greedy(chain, calls, kept=240):
    """A chain of functions that each keep 16 numbers of so many calls, in a loop that never runs.

    It goes down its chain on a row of 77 alone: a frame is made whole when a function is entered.
    """
    parts, left = [], 16 * calls
    while left > 0:
        parts.append(min(kept, left))
        left -= kept
    hungry = "call $g " * calls + " ".join(f"call $h{n}" for n in reversed(parts))
    takers = " ".join(f"(func $h{n} (param {'f64 ' * n}))" for n in set(parts))
    deep = " ".join(
        f"(func $c{k} (param i32) (result i32) local.get 0 "
        f"{f'call $c{k + 1}' if k + 1 < chain else ''} "
        f"block local.get 0 br_if 0 loop {hungry} end end)"
        for k in range(chain)
    )
    return module(
        "(param i32) (result i32) local.get 0 i32.const 77 i32.eq "
        "if (result i32) i32.const 1 call $c0 else i32.const 1 end",
        rest=f"(func $g (result {'f64 ' * 16}) {'f64.const 1 ' * 16}) {takers} {deep}",
    )


def wide(chain, many):
    """A chain of functions that each pass on so many numbers, and have need of them afterwards."""
    got = " ".join(f"local.get {i}" for i in range(many))
    deep = " ".join(
        f"(func $c{k} (param {'f64 ' * many}) (result f64) {got} "
        f"call $c{k + 1} {got} {'f64.add ' * many})"
        for k in range(chain)
    )
    last = f"(func $c{chain} (param {'f64 ' * many}) (result f64) local.get 0)"
    every = f"local.get 0 f64.convert_i32_s local.tee 1 {'local.get 1 ' * (many - 1)}"
    return module(f"(param i32) (result f64) (local f64) {every} call $c0", rest=f"{deep} {last}")
