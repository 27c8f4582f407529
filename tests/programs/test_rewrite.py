"""The rewritten module gives, row by row, what the module itself gives, or 0 where that fails."""

from __future__ import annotations

import numpy as np
import pytest
from programs.modules import module, plainly, spec, wasm
from programs.random_modules import EDGES, RandomModule
from soak import times

from sulq.programs import opcodes, rewrite
from sulq.programs.driver import DTYPES, run
from sulq.programs.library import checked

ENOUGH = 10**8  # instructions: no generated module takes so many


def driven(code, rows, low, high, fuel=ENOUGH):
    """What the rewritten module gives for some rows."""
    kinds = checked(code).type_of(checked(code).exports["f"]).parameters
    columns = [
        np.array([row[i] for row in rows], dtype=DTYPES[kind]) for i, kind in enumerate(kinds)
    ]
    return run(spec(code, low, high, fuel), columns).tolist()


def random_module(seed):
    made = RandomModule(seed)
    return wasm(made.text), made


@pytest.mark.parametrize("block", range(times(4, 40)))
def test_random_modules_give_what_plain_ones_give(block):
    """1,000 random valid modules agree with wasmtime run on a fresh instance for every row."""
    failed = 0
    for seed in range(25 * block, 25 * block + 25):
        code, made = random_module(seed)
        rows = made.rows(24)
        expected = plainly(code, rows, made.low, made.high)
        assert driven(code, rows, made.low, made.high) == expected, seed
        failed += expected.count(min(max(0, made.low), made.high))
    assert failed > 0  # some of them trap, or there is nothing to be held


def test_random_modules_catch_a_rewriter_that_forgets_the_flag(monkeypatch):
    """The comparison has teeth: without the flag, rows that trap would count."""
    monkeypatch.setattr(rewrite._Writer, "raised", lambda self, bad: bad + bytes([opcodes.DROP]))
    wrong = 0
    for seed in range(20):
        code, made = random_module(seed)
        rows = made.rows(24)
        found = driven(code, rows, made.low, made.high, ENOUGH - 1)  # compiled anew
        wrong += found != plainly(code, rows, made.low, made.high)
    assert wrong > 0


DIVISIONS = [(t, op) for t in ("i32", "i64") for op in ("div_s", "div_u", "rem_s", "rem_u")]


@pytest.mark.parametrize(("kind", "op"), DIVISIONS)
def test_divisions_are_total(kind, op):
    """By 0, and the smallest number by -1, count 0; all else divides as WebAssembly does."""
    code = module(
        f"(param {kind} {kind}) (result {kind}) ({kind}.{op} (local.get 0) (local.get 1))"
    )
    rows = [(a, b) for a in EDGES[kind] for b in EDGES[kind]]
    ends = (-(2**53), 2**53)
    assert driven(code, rows, *ends) == plainly(code, rows, *ends)


TRUNCATIONS = [f"{i}.trunc_{f}_{s}" for i in ("i32", "i64") for f in ("f32", "f64") for s in "su"]


@pytest.mark.parametrize("op", TRUNCATIONS)
def test_truncations_are_total(op):
    """Beyond the range, an infinity and NaN count 0; the last number inside does not."""
    kind, source = op[:3], op.split("_")[1]
    code = module(f"(param {source}) (result {kind}) ({op} (local.get 0))")
    dtype = np.float32 if source == "f32" else np.float64
    ends = [dtype(s * 2.0**k) for k in (0, 31, 32, 63, 64) for s in (1, -1)]
    near = [np.nextafter(e, dtype(to)) for e in ends for to in (-np.inf, np.inf)]
    odd = [dtype(x) for x in (-(2.0**31) - 1, -(2.0**31) - 0.5, -0.99, np.nan, np.inf, -np.inf)]
    rows = [(float(x),) for x in (*ends, *near, *odd)]
    assert driven(code, rows, -(2**53), 2**53) == plainly(code, rows, -(2**53), 2**53)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("offset", [0, 1, 65_528, 65_535, 65_536, 2**31, 2**32 - 1])
def test_loads_and_stores_are_total(size, offset):
    """Outside of memory counts 0, to the byte; so does an address that would wrap around."""
    names = {1: "8_u", 2: "16_u", 4: "32_u", 8: ""}
    load = module(
        f"(param i32) (result i64) (i64.load{names[size]} offset={offset} (local.get 0))",
        rest='(memory 1) (data (i32.const 65528) "abcdefgh") (data (i32.const 0) "ijklmnop")',
    )
    store = module(
        f"(param i32) (result i64) (i64.store{names[size][:-2]} offset={offset} (local.get 0) "
        "(i64.const 7)) (i64.const 1)",
        rest="(memory 1)",
    )
    places = [0, 1, 2, 7, 8, 65_527, 65_528, 65_529, 65_535, 65_536, -1, -8, 2**31 - 1]
    rows = [(p,) for p in places]
    for code in (load, store):
        assert driven(code, rows, 0, 2**53) == plainly(code, rows, 0, 2**53)


def test_fuel_stops_a_row_and_no_other():
    """An endless loop on one row counts 0 there; a row's fuel is its own."""
    code = module("(param i32) (result i32) (loop (br_if 0 (local.get 0))) (i32.const 1)")
    flags = np.zeros(20_000, dtype=np.int32)
    flags[[3, 8191, 8192, 19_999]] = 1
    assert (run(spec(code, 0, 1, 1000), [flags]) == 1 - flags).all()


def test_less_fuel_gives_the_same_or_zero():
    """With less fuel a row has its value or 0, and never a value again once it had 0."""
    for seed in range(times(6, 100)):
        code, made = random_module(seed)
        rows = made.rows(24)
        whole, nothing = driven(code, rows, made.low, made.high), min(max(0, made.low), made.high)
        before = whole
        for fuel in (10_000, 300, 60, 10, 1):
            found = driven(code, rows, made.low, made.high, fuel)
            kept = zip(found, before, strict=True)
            assert all(x in (y, nothing) for x, y in kept), (seed, fuel)
            before = found


def test_fuel_is_never_less_than_what_ran():
    """A loop of n rounds pays for all of its instructions: at 9 each, 100 rounds need 900."""
    code = module(
        "(param i32) (result i32) (local i32) (loop (br_if 0 (i32.lt_s (local.tee 1 (i32.add "
        "(local.get 1) (i32.const 1))) (local.get 0)))) (local.get 1)"
    )
    rounds = np.arange(1, 200, dtype=np.int32)
    found = run(spec(code, 0, 1000, 902), [rounds])  # 2 stand outside of the loop
    assert found.tolist() == [n if n <= 100 else 0 for n in rounds.tolist()]


def test_calls_are_bounded_too():
    """Thirty functions that each call the next twice are 2^30 calls, and are stopped."""
    functions = " ".join(
        f"(func $g{i} (param i32) (result i32) (i32.add (call $g{i + 1} (local.get 0)) "
        f"(call $g{i + 1} (local.get 0))))"
        for i in range(30)
    )
    code = module(
        "(param i32) (result i32) (call $g0 (local.get 0))",
        rest=f"{functions} (func $g30 (param i32) (result i32) (local.get 0))",
    )
    assert run(spec(code, 0, 1, 10_000), [np.ones(100, np.int32)]).tolist() == [0] * 100


def test_no_row_sees_what_another_did():
    """Globals and memory begin anew: the same row gives the same value wherever it stands."""
    counter = module(
        "(param i32) (result i32) (global.set 0 (i32.add (global.get 0) (i32.const 1))) "
        "(i32.store (i32.const 16) (i32.add (i32.load (i32.const 16)) (i32.const 1))) "
        "(i32.add (global.get 0) (i32.load (i32.const 16)))",
        rest='(global (mut i32) (i32.const 5)) (memory 1) (data (i32.const 16) "\\07")',
    )
    found = run(spec(counter, 0, 10**6), [np.arange(20_000, dtype=np.int32)])
    assert (found == 6 + 8).all()


@pytest.mark.parametrize("seed", range(times(10, 200)))
def test_rows_are_alone(seed):
    """Order, neighbours and the size of a batch change no row's value."""
    code, made = random_module(seed)
    rows = made.rows(200)
    whole = driven(code, rows, made.low, made.high)
    assert driven(code, rows[::-1], made.low, made.high) == whole[::-1]
    parts = [driven(code, rows[i : i + 7], made.low, made.high) for i in range(0, 200, 7)]
    assert [x for part in parts for x in part] == whole
