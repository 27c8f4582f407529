"""Hostile programs: each is refused before anything is charged, or counts 0 where it misbehaves.

On twin tables, which differ in the one row that a program looks for, everything visible but the
noisy number is the same, and the sums differ by at most the unit that the price is for.
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from programs.modules import greedy, module, spec, wasm

import sulq
from sulq.errors import QueryNotAllowed
from sulq.programs.encoding import MAGIC, sized, unsigned

SCHEMA = {"columns": {
    "id": {"key": True},
    "secret": {"type": "integer", "low": 0, "high": 100, "nullable": False},
    "income": {"type": "number", "low": 0, "high": 1e6},
}}  # fmt: skip
N = 3_000
JOE = 1_234
IS_JOE = "(i32.eq (local.get 0) (i32.const 77))"
MEMORY = "(memory 1)"


def rows(secret):
    """A table in which one row, Joe's, has this secret; all others have less than 50."""
    numbers = np.arange(N) % 50
    numbers[JOE] = secret
    income = [None if i % 7 == 0 else float(i) for i in range(N)]
    return pa.table({"id": np.arange(N), "secret": numbers, "income": income})


def hostile(body, rest="", result="i32"):
    return module(f"(param i32) (result {result}) {body}", rest=rest)


# Programs that misbehave on Joe's row, and otherwise count every row.
ON_ONE_ROW = {
    "endless loop": hostile(f"(loop (br_if 0 {IS_JOE})) (i32.const 1)"),
    "long loop": hostile(
        f"(local i64) (if {IS_JOE} (then (loop (br_if 0 (i64.lt_u (local.tee 1 (i64.add "
        "(local.get 1) (i64.const 1))) (i64.const 4611686018427387904)))))) (i32.const 1)"
    ),
    "loop of calls": hostile(
        f"(loop (drop (call $g)) (br_if 0 {IS_JOE})) (i32.const 1)",
        "(func $g (result i32) (i32.const 1))",
    ),
    "unreachable": hostile(f"(if {IS_JOE} (then unreachable)) (i32.const 1)"),
    "unreachable in a call": hostile(
        f"(if {IS_JOE} (then (drop (call $g)))) (i32.const 1)", "(func $g (result i32) unreachable)"
    ),
    "division by zero": hostile(
        f"(drop (i32.div_u (i32.const 1) (i32.eqz {IS_JOE}))) (i32.const 1)"
    ),
    "overflow of a division": hostile(
        f"(drop (i32.div_s (i32.const -2147483648) (i32.sub (i32.const 0) {IS_JOE}))) (i32.const 1)"
        .replace("(i32.sub (i32.const 0)", "(select (i32.const -1) (i32.const 1)")
    ),
    "truncation of NaN": hostile(
        f"(drop (i32.trunc_f64_s (select (f64.const nan) (f64.const 1) {IS_JOE}))) (i32.const 1)"
    ),
    "load outside": hostile(
        f"(drop (i32.load (i32.mul {IS_JOE} (i32.const 65536)))) (i32.const 1)", MEMORY
    ),
    "store outside": hostile(
        f"(i32.store (i32.sub (i32.const 0) {IS_JOE}) (i32.const 1)) (i32.const 1)", MEMORY
    ),
    "infinity": hostile(
        f"(f64.div (f64.const 1) (f64.convert_i32_s (i32.eqz {IS_JOE})))", result="f64"
    ),
    "NaN": hostile(f"(select (f64.const nan) (f64.const 1) {IS_JOE})", result="f64"),
    "NaN with a payload": hostile(
        f"(select (f64.reinterpret_i64 (i64.const 0x7ff4dead0000beef)) (f64.const 1) {IS_JOE})",
        result="f64",
    ),
}  # fmt: skip

# Programs that try to carry something from one row to the next: allowed, and in vain.
STATEFUL = {
    "global": hostile(
        f"(global.set 0 (i32.or (global.get 0) {IS_JOE})) (global.get 0)",
        "(global (mut i32) (i32.const 0))",
    ),
    "memory": hostile(
        f"(i32.store (i32.const 8) (i32.or (i32.load (i32.const 8)) {IS_JOE})) "
        "(i32.load (i32.const 8))",
        MEMORY,
    ),
    "memory below the data": hostile(
        f"(i32.store8 (i32.const 65535) (i32.or (i32.load8_u (i32.const 65535)) {IS_JOE})) "
        "(i32.load8_u (i32.const 65535))",
        '(memory 1) (data (i32.const 0) "x")',
    ),
    "a global after a trap": hostile(
        f"(if {IS_JOE} (then (global.set 0 (i32.const 1)) unreachable)) (global.get 0)",
        "(global (mut i32) (i32.const 0))",
    ),
}  # fmt: skip

LOCALS = MAGIC + bytes.fromhex("0106 0160017f017f 0302 0100 0705 0101660000".replace(" ", ""))
LOCALS += b"\x0a" + sized(b"\1" + sized(b"\1" + unsigned(2**31) + b"\x7f\x20\0\x0b"))

# Programs that are refused as they are.
REFUSED = {
    "memory.grow": (hostile("(memory.grow (local.get 0))", MEMORY), r"memory\.grow"),
    "memory.fill": (
        hostile("(memory.fill (i32.const 0) (i32.const 1) (local.get 0)) (i32.const 1)", MEMORY),
        "-mno-bulk-memory",
    ),
    "too much memory": (hostile("(local.get 0)", "(memory 17)"), "17 pages of memory, at most 16"),
    "shared memory": (hostile("(local.get 0)", "(memory 1 1 shared)"), "shared"),
    "64-bit memory": (hostile("(local.get 0)", "(memory i64 1)"), "larger than 32 bits"),
    "two memories": (hostile("(local.get 0)", "(memory 1) (memory 1)"), "2 memories, at most 1"),
    "import of a function": (
        hostile("(local.get 0)", '(import "env" "abort" (func))'), r"imports env\.abort",
    ),
    "import of a clock": (
        hostile("(local.get 0)", '(import "wasi_snapshot_preview1" "clock_time_get" (func))'),
        r"imports wasi_snapshot_preview1\.clock_time_get",
    ),
    "import of a memory": (
        hostile("(local.get 0)", '(import "e" "m" (memory 1))'), r"imports e\.m",
    ),
    "start function": (hostile("(local.get 0)", "(func $s) (start $s)"), "start function"),
    "recursion": (
        wasm('(module (func $f (export "f") (param i32) (result i32) (call $f (local.get 0))))'),
        "Recursion is not allowed",
    ),
    "recursion through others": (
        hostile(
            "(call $a (local.get 0))",
            "(func $a (param i32) (result i32) (call $b (local.get 0))) "
            "(func $b (param i32) (result i32) (call $a (local.get 0)))",
        ),
        "Recursion is not allowed",
    ),
    "indirect call": (
        hostile(
            "(call_indirect (type 0) (local.get 0) (i32.const 0))",
            "(type (func (param i32) (result i32))) (table 1 funcref)",
        ),
        "indirect call",
    ),
    "atomic": (
        hostile("(i32.atomic.load (local.get 0))", "(memory 1 1 shared)"), "shared",
    ),
    "fence": (hostile("(atomic.fence) (local.get 0)"), "threads"),
    "SIMD": (
        hostile("(i32x4.extract_lane 0 (i32x4.splat (local.get 0)))"), "SIMD",
    ),
    "relaxed SIMD": (
        hostile(
            "(i32x4.extract_lane 0 (i32x4.relaxed_trunc_f32x4_s (f32x4.splat (f32.const 1))))"
        ),
        "SIMD",
    ),
    "tail call": (hostile("(return_call $g (local.get 0))",
                          "(func $g (param i32) (result i32) (local.get 0))"), "tail call"),
    "table": (hostile("(drop (table.get 0 (i32.const 0))) (local.get 0)",
                      "(table 1 funcref)"), "table"),
    "two results": (hostile("(local.get 0) (local.get 0)", result="i32 i32"), "gives 2 values"),
    "no result": (wasm('(module (func (export "f") (param i32)))'), "gives 0 values"),
    "no arguments": (wasm('(module (func (export "f") (result i32) (i32.const 1)))'), "takes 0"),
    "no such function": (wasm('(module (func (export "g")))'), "no exported function 'f'"),
    "a vector": (
        wasm('(module (func (export "f") (param v128) (result i32) (i32.const 1)))'), "0x7b",
    ),
    "60 MB": (MAGIC + b"\0" * (60 * 2**20), "62,914,568 bytes"),
    "2^31 locals": (LOCALS, "2,147,483,648 locals"),
    "stack on one row": (greedy(150, 50), "could need 2,[0-9,]+ bytes of stack, at most 1,015,808"),
    "no module": (b"MZ\x90\0", "no WebAssembly"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_module_is_refused_before_anything_is_charged(name):
    """What could reach out, grow, share, recurse or exhaust is refused, and how to mend it."""
    code, said = REFUSED[name]
    with pytest.raises(QueryNotAllowed, match=said):
        sulq.Program(code, "f", columns=["secret"])


def test_without_its_bound_one_row_would_overflow_the_stack(monkeypatch):
    """What is refused is a threat: unbounded, the same module fails on a row of 77, on no other."""
    from wasmtime import Trap

    from sulq.programs import driver, library

    monkeypatch.setattr(library, "check_stack", lambda module: None)
    program = spec(greedy(150, 51))
    try:
        assert driver.run(program, [np.array([1, 2, 3], np.int32)]).tolist() == [1, 1, 1]
        with pytest.raises(Trap, match="call stack exhausted"):
            driver.run(program, [np.array([1, 77, 3], np.int32)])
    finally:
        library.checked.cache_clear()
        driver._compiled.cache_clear()


def visible(code, secret, *, quiet=True):
    """All that a program's questions show: prices, words, entries; and the exact sums below."""
    db = opened(rows(secret), SCHEMA, programs=True, quiet=quiet)
    program = sulq.Program(code, "f", columns=["secret"])
    asked = [
        sulq.Query((program,)), sulq.Query((program,), by=sulq.Bins("income", (0, 1e3, 1e6))),
        sulq.Query(where=f"{program} > 0.5" if program.spec.low == 0.0 else program),
    ]  # fmt: skip
    shown = [repr(db.price(query)) for query in asked]
    answers = [db.ask(query) for query in asked]
    shown += [(a.price, a.remaining, a.names, a.cells, a.stds) for a in answers]
    entries = [(e.kind, {k: v for k, v in e.body.items() if k not in ("time", "answer")})
               for e in db.entries() if e.kind != "open"]  # fmt: skip
    exact = [np.array([[float(x) for x in row] for row in a.exact]) for a in answers]
    return json.dumps([shown, entries], default=str), exact


@pytest.mark.parametrize("name", [*ON_ONE_ROW, *STATEFUL])
def test_twins_look_the_same(name):
    """A program that misbehaves on one row counts 0 there; no word, price or entry tells it."""
    code = (ON_ONE_ROW | STATEFUL)[name]
    with_joe, sums = visible(code, secret=77)
    without, others = visible(code, secret=5)
    assert with_joe == without
    for one, other in zip(sums, others, strict=True):
        assert np.abs(one - other).max() <= 1  # a unit of the price
    everybody = N - 1 if name in ON_ONE_ROW else int(name != "a global after a trap")
    assert sums[0][0][0] == everybody
    assert others[0][0][0] == (N if name in ON_ONE_ROW else 0)


def test_a_leaky_driver_would_be_noticed(monkeypatch):
    """The twins have teeth: with a driver that resets nothing, Joe's row shows in all behind it."""
    from sulq.programs import driver

    monkeypatch.setattr(driver._Loop, "begin", lambda self: b"")
    db = opened(rows(77), SCHEMA, programs=True, program_fuel=20_000)
    program = sulq.Program(STATEFUL["global"], "f", columns=["secret"], fuel=19_999)
    assert float(db.sum(program).exact[0][0]) == N - JOE


def test_the_noise_is_drawn_for_one_unit():
    """A program into [low, high] is priced as a column of that range: one query."""
    db = opened(rows(77), SCHEMA, programs=True)
    for low, high in ((0, 1), (0, 1000), (-5, 5)):
        code = module("(param i32) (result f64) (f64.convert_i32_s (local.get 0))")
        program = sulq.Program(code, "f", columns=["secret"], low=low, high=high)
        assert db.price(sulq.Query((program,))).micro == 1_000_000


KINDS = {
    "whole": ("(param i32) (result i32) (local.get 0)", (0, 10)),
    "yes or no": ("(param i32) (result i32) (i32.and (local.get 0) (i32.const 1))", (0, 1)),
    "long": ("(param i64) (result i64) (i64.mul (local.get 0) (i64.const -123456789123))", (-9, 9)),
    "single": ("(param f32) (result f32) (f32.sqrt (local.get 0))", (0.0, 3.0)),
    "double": ("(param f64) (result f64) (f64.div (f64.const 1) (local.get 0))", (0.0, 0.5)),
    "negative": ("(param f64) (result f64) (f64.neg (local.get 0))", (-60.0, -1.0)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_one_row_moves_a_sum_by_at_most_a_unit(kind, guarantee):
    """Below the noise, on twins: whatever one row becomes, sums move by what is paid for."""
    body, (low, high) = KINDS[kind]
    program = sulq.Program(module(body), "f", columns=["secret"], low=low, high=high)
    queries = [sulq.Query((program,)), sulq.Query((program,), where="income > 100")]
    found = []
    for secret in (0, 1, 50, 77, 100):
        db = opened(rows(secret), SCHEMA, programs=True, guarantee=guarantee)
        found.append([float(db.ask(q).exact[0][0]) for q in queries])
    moved = np.ptp(np.array(found), axis=0)
    width = max(high, 0) - min(low, 0)
    assert moved[0] <= high - low
    assert moved[1] <= width
    assert moved.max() > 0


def test_programs_are_off_unless_switched_on():
    """Without its owner's word no program runs: refused, uncharged, with how to mend it."""
    program = sulq.Program(ON_ONE_ROW["NaN"], "f", columns=["secret"])
    db = opened(rows(5), SCHEMA)
    for ask in (
        db.sum,
        db.mean,
        lambda p: db.count(f"{p} > 0.5"),
        lambda p: db.price(sulq.Query((p,))),
    ):
        with pytest.raises(QueryNotAllowed, match=r"programs are off.*\n.*programs=True"):
            ask(program)
    assert db.budget.spent == 0
    with pytest.raises(QueryNotAllowed, match=r"fuel=10,000, but a row may take 500"):
        opened(rows(5), SCHEMA, programs=True, program_fuel=500).sum(program)


def test_no_program_runs_where_nothing_is_paid(monkeypatch):
    """Prices, estimates, shared counts and public facts run no program."""
    from sulq.expressions import operations

    def never(*_):
        raise AssertionError("a program ran")

    monkeypatch.setattr(operations, "run", never)
    schema = {"columns": SCHEMA["columns"] | {"flag": {"type": "boolean", "nullable": False}}}
    table = rows(5).append_column("flag", pa.array([i % 2 == 0 for i in range(N)]))
    db = opened(table, schema, programs=True)
    program = sulq.Program(module("(param i32) (result i32) (local.get 0)"), "f", columns=["flag"])
    texts = [program, f"not {program}", f"{program} and flag", f"{program} or not flag"]
    db.price([sulq.Query(where=text) for text in texts])
    db.price(sulq.Query(by=(program,)))
    db.price(sulq.Query((f"case when {program} then 2 else 3 end",)))
    with pytest.raises(sulq.NotKnown):
        db.estimate(sulq.Query(where=program))


def test_a_program_of_public_columns_is_refused():
    """What is public is free: no program runs unpaid."""
    schema = {"columns": {"region": {"values": ["a", "b"], "public": True}}}
    db = opened(pa.table({"region": ["a", "b"] * 50}), schema, programs=True)
    program = sulq.Program(hostile("(local.get 0)"), "f", columns=["region"])
    with pytest.raises(QueryNotAllowed, match="public columns alone"):
        db.count(program)
    with pytest.raises(QueryNotAllowed, match="public columns alone"):
        db.count(program("1"))
