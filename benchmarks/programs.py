"""Programs: rows a second through WebAssembly, and that neither a trap nor fuel takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256

import numpy as np
from wasmtime import wat2wasm

import sulq
from benchmarks.measure import Line, in_turn
from sulq.programs.driver import run
from sulq.programs.library import Spec

ROWS = 2_000_000
FEW = 200_000
# Rows a second and core that are wanted; as the seconds that a row may take.
FREE, METERED = 1 / 5_000_000, 1 / 500_000
SCORE = """(module (func (export "f") (param i32 f64 i32) (result f64)
  (f64.add (f64.div (f64.convert_i32_s (local.get 0)) (f64.const 200))
    (f64.add (select (f64.const 0.2) (f64.const 0) (f64.gt (local.get 1) (f64.const 30)))
      (select (f64.const 0.25) (f64.const 0) (local.get 2))))))"""
LOOP = """(module (func (export "f") (param i32 f64 i32) (result f64) (local i32 f64)
  (loop
    (local.set 4 (f64.add (local.get 4) (f64.div (local.get 1) (f64.convert_i32_s
      (i32.add (local.get 3) (i32.const 1))))))
    (br_if 0 (i32.lt_s (local.tee 3 (i32.add (local.get 3) (i32.const 1))) (i32.const 20))))
  (local.get 4)))"""
TRAP = """(module (func (export "f") (param i32 i32) (result i32)
  (i32.add (i32.rem_s (local.get 0) (local.get 1)) (i32.div_s (local.get 0) (local.get 1)))))"""
LOAD = """(module (memory 1) (func (export "f") (param i32) (result i32)
  (i32.load (local.get 0))))"""
STORE = """(module (memory 1) (func (export "f") (param i32) (result i32)
  (i32.store (local.get 0) (i32.const 1)) (i32.load (local.get 0))))"""


def spec(text: str, low: float = 0, high: float = 1) -> Spec:
    code = bytes(wat2wasm(text))
    return Spec(sha256(code).hexdigest(), "f", low, high, 10_000, code)


def lines() -> Iterator[Line]:
    yield from speeds()
    yield from traps()
    yield sulq_beside_sql()


def columns(rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.integers(0, 120, rows), rng.random(rows) * 50, rng.random(rows) < 0.3]


def speeds() -> Iterator[Line]:
    free, metered, store = spec(SCORE, 0.0, 1.0), spec(LOOP, 0.0, 1e4), spec(STORE)
    many, few = columns(ROWS), columns(FEW)
    places = [few[0].astype(np.int32)]
    a, b, c = in_turn(
        lambda: run(free, many), lambda: run(metered, few), lambda: run(store, places)
    )
    for what, seconds, rows, wanted, most in (
        ("a program without loops, 12 instructions", a, ROWS, FREE, 1.0),
        ("a program with a loop of 20 rounds, metered", b, FEW, METERED, 1.0),
        ("a program that stores, one page of memory anew for every row", c, FEW, METERED, 2.0),
    ):
        note = f"{rows / seconds / 1e6:.2f} million rows a second"
        yield Line(what, seconds, rows * wanted, f"{rows * wanted:g} s wanted", most, note)


def traps() -> Iterator[Line]:
    """The same module on rows that all trap, and on rows of which none does."""
    divide, load = spec(TRAP, 0, 1000), spec(LOAD)
    x = np.arange(ROWS, dtype=np.int32) % 1000 + 7
    none, every = np.full(ROWS, 7, np.int32), np.zeros(ROWS, np.int32)
    yield compared(
        "division by 0 on every row",
        lambda: run(divide, [x, every]),
        lambda: run(divide, [x, none]),
    )
    outside = np.full(ROWS, 2**30, np.int32)
    yield compared(
        "a load outside on every row", lambda: run(load, [outside]), lambda: run(load, [every])
    )


def compared(what: str, trap: Callable[[], object], plain: Callable[[], object]) -> Line:
    ours, other = in_turn(trap, plain, rounds=15)
    return Line(what, ours, other, "on none", 1.05)


def sulq_beside_sql() -> Line:
    """A whole count by a program, beside the same as SQL that also runs in the kernel."""
    import pyarrow as pa

    rng = np.random.default_rng(2)
    table = pa.table({"age": rng.integers(0, 120, ROWS), "bmi": rng.random(ROWS) * 50})
    sure = {"low": 0, "nullable": False}
    age, bmi = {"type": "integer", "high": 120} | sure, {"type": "number", "high": 50} | sure
    schema = {"columns": {"age": age, "bmi": bmi}}
    db = sulq.open(table, schema, epsilon=1.0, queries=10**6, ledger=":memory:", programs=True)
    code = bytes(wat2wasm(
        '(module (func (export "f") (param i32 f64) (result f64) '
        "(f64.mul (local.get 1) (f64.convert_i32_s (local.get 0)))))"
    ))  # fmt: skip
    program = sulq.Program(code, "f", columns=["age", "bmi"], low=0, high=6000)
    asked = iter(range(10**6))

    def ask(text: str) -> object:
        return db.ask(sulq.Query((text,), where=f"bmi >= {next(asked)}e-9"))

    ours, other = in_turn(lambda: ask(program), lambda: ask("exp(age / 200) * bmi"))
    return Line("a sum of a program over 2 million rows", ours, other, "exp(age / 200) * bmi", 1.5)
