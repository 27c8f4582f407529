"""A module's text says what the module does: assembled again, it has the same functions."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs.modules import module, wasm
from programs.random_modules import RandomModule
from soak import times

from sulq.programs import opcodes as op
from sulq.programs.binary import read_module
from sulq.programs.disassembly import SAID, text_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"


def shape(found):
    """All that a module does, without where its bytes stand."""
    bodies = [
        (f.locals, [(i.code, found.code[i.start : i.end]) for i in f.body]) for f in found.functions
    ]
    return found.types, bodies, found.pages, found.globals, found.exports, found.segments


def again(code):
    return read_module(wasm(text_of(read_module(code))))


@pytest.mark.parametrize("seed", range(times(25, 500)))
def test_random_modules_are_the_same_again(seed):
    """Every instruction, constant and offset survives: to the byte."""
    code = wasm(RandomModule(seed).text)
    found = again(code)
    types, bodies, *rest = shape(read_module(code))
    types_again, bodies_again, *rest_again = shape(found)
    assert types_again[: len(types)] == types
    assert [body for _, body in bodies_again] == [body for _, body in bodies]
    assert rest_again == rest


def test_odd_constants_are_the_same_again():
    """NaN with payloads, infinities, subnormal numbers, the ends of whole ones."""
    odd = ["nan", "-nan", "nan:0x4000000000001", "inf", "-inf", "-0.0", "5e-324"]
    body = " ".join(f"(drop (f64.const {x}))" for x in odd)
    body += (
        " (drop (f32.const nan:0x200001)) (drop (f32.const 1e-45)) (drop (i32.const -2147483648))"
    )
    body += " (drop (i64.const -9223372036854775808)) (drop (select (result i32) (local.get 0) "
    body += "(i32.const 1) (local.get 0)))"
    code = module(f"(param i32) (result i32) {body} (local.get 0)")
    assert shape(again(code))[1] == shape(read_module(code))[1]


@pytest.mark.parametrize("name", ["digits.wasm", "distance.wasm"])
def test_what_compilers_make_reads_the_same_again(name):
    """Linkers write some numbers longer than they need be; the text of both is one."""
    code = (EXAMPLES / name).read_bytes()
    assert text_of(again(code)) == text_of(read_module(code))


def test_every_accepted_instruction_has_a_name():
    """None could be read that the text cannot say."""
    named = {*SAID, op.PREFIX, *op.CONSTANTS.values()}
    read = {*op.PLAIN, *op.WITH_INDEX, *op.WITH_BLOCK_TYPE, *op.LOADS, *op.STORES, op.BR_TABLE,
            op.SELECT_TYPED, op.MEMORY_SIZE, op.PREFIX, *op.CONSTANTS.values()}  # fmt: skip
    assert read == named
