"""What a row of a program can take at most, in seconds on this machine.

An instruction's worst is measured once in each process: loops of the slowest kinds there are, on
rows that use up all of their fuel.
"""

from __future__ import annotations

import time
from functools import lru_cache
from hashlib import sha256

import numpy as np

from sulq.programs.driver import run
from sulq.programs.library import Spec, checked, wasmtime
from sulq.programs.weights import check_calls, weights_of

ROWS, FUEL, TRIES = 8, 100_000, 3
HEAD = '(module (memory 1) (func (export "f") (param i32) (result i32) (local i64 f64)'
SLOW = (  # what a loop does over and over: ten times, so that its own head weighs little
    "(local.set 1 (i64.div_s (i64.const -0x3000000000000) (i64.or (i64.const 3) (local.get 1))))",
    f"(local.set 2 {'(f64.sqrt ' * 6}(f64.add (local.get 2) (f64.const 1e300)){')' * 6})",
    "(local.set 2 (f64.div (f64.const 2) (f64.div (f64.const 3) (local.get 2))))",
    "(local.set 2 (f64.mul (f64.add (local.get 2) (f64.const 1e-310)) (f64.const 0.5)))",
    "(i64.store (i32.wrap_i64 (local.get 1)) (i64.load (i32.wrap_i64 (local.get 1))))",
    "(local.set 1 (i64.trunc_f64_s (f64.nearest (f64.convert_i64_s (local.get 1)))))",
)


def worst_seconds(spec: Spec) -> float:
    """The most that one row can take; less than its fuel's worth where there is no loop."""
    return most_instructions(spec) * unit_seconds()


def most_instructions(spec: Spec) -> int:
    """The most that one row can pay for."""
    module = checked(spec.code)
    most = check_calls([weights_of(f) for f in module.functions])[module.exports[spec.export]]
    return spec.fuel if most is None else min(most, spec.fuel)


@lru_cache(maxsize=1)
def unit_seconds() -> float:
    """How long an instruction can take, of the slowest kinds."""
    return max(_seconds(f"{HEAD} (loop {body * 10} (br 0)) (i32.const 1)))") for body in SLOW)


def _seconds(text: str) -> float:
    code = bytes(wasmtime().wat2wasm(text))
    spec = Spec(sha256(code).hexdigest(), "f", 0, 1, FUEL, code)
    rows = [np.ones(ROWS, np.int32)]
    run(spec, rows)
    found = []
    for _ in range(TRIES):
        start = time.perf_counter()
        run(spec, rows)
        found.append(time.perf_counter() - start)
    return min(found) / (ROWS * FUEL)
