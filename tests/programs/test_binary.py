"""What is not WebAssembly of the accepted kind is refused, with the place where it goes wrong."""

from __future__ import annotations

import random

import pytest
from programs.modules import module, wasm
from programs.random_modules import RandomModule
from soak import times

from sulq.errors import QueryNotAllowed
from sulq.programs.binary import MAX_BYTES, MAX_INSTRUCTIONS, MAX_NESTING, read_module
from sulq.programs.encoding import MAGIC, section, sized, unsigned
from sulq.programs.library import checked, signature

SMALL = module("(param i32) (result i32) (local i32 i64) (i32.add (local.get 0) (i32.const 99))")
TYPE = section(1, [b"\x60\x01\x7f\x01\x7f"])
DECLARED = section(3, [b"\0"])


def code_of(body):
    return MAGIC + TYPE + DECLARED + section(10, [sized(body)])


def test_every_beginning_of_a_module_is_refused():
    """A module that ends too early is refused at whatever byte it ends; nothing else is raised."""
    for end in range(len(SMALL)):
        with pytest.raises(QueryNotAllowed, match="program"):
            signature(SMALL[:end], "f")
    signature(SMALL, "f")


def test_damaged_modules_are_refused_or_read():
    """Whatever bytes are changed: refused in words, or a valid module. Never another error."""
    rng, refused = random.Random(5), 0
    for seed in range(times(40, 2000)):
        code = bytearray(wasm(RandomModule(seed).text))
        for _ in range(rng.randrange(1, 4)):
            code[rng.randrange(len(code))] = rng.randrange(256)
        try:
            checked(bytes(code))
        except QueryNotAllowed as error:
            refused += str(error).startswith("program")
    assert refused > 10


MALFORMED = {
    "no bytes": b"",
    "text": b"(module)",
    "another version": b"\0asm\2\0\0\0",
    "a component": b"\0asm\x0d\0\1\0",
    "an unknown section": MAGIC + b"\x63\0",
    "sections out of order": MAGIC + DECLARED + TYPE,
    "a section twice": MAGIC + TYPE + TYPE,
    "a section that is too long": MAGIC + b"\1\xff\x01",
    "a section with more than it says": MAGIC + b"\1\2\0\0",
    "an endless number": MAGIC + b"\1" + b"\x80" * 40,
    "a number that is too large": MAGIC + b"\1\xff\xff\xff\xff\x7f",
    "2^32 types": MAGIC + b"\1\5" + unsigned(2**32 - 1),
    "2^31 locals": code_of(b"\1" + unsigned(2**31) + b"\x7f\x41\0\x0b"),
    "2^31 locals in groups": code_of(b"\x21" + (unsigned(2**26) + b"\x7f") * 33 + b"\x41\0\x0b"),
    "2^31 targets of a br_table": code_of(b"\0\x41\0\x0e" + unsigned(2**31) + b"\0\x0b"),
    "functions without code": MAGIC + TYPE + DECLARED,
    "code without functions": MAGIC + TYPE + section(10, [sized(b"\0\x41\0\x0b")]),
    "a function without its end": code_of(b"\0\x41\0"),
    "a function behind its end": code_of(b"\0\x41\0\x0b\x0b"),
    "a call of what is not there": code_of(b"\0\x41\0\x10\x07\x0b"),
    "an unknown type": MAGIC + section(1, [b"\x60\x01\x40\x00"]),
    "a result that is no number": code_of(b"\0\x0b"),
    "an operand of another type": code_of(b"\0\x43\0\0\0\0\x0b"),
    "a local that is not there": code_of(b"\0\x20\x63\x0b"),
    "else without if": code_of(b"\0\x05\x41\0\x0b"),
    "data outside of memory": wasm('(module (memory 1) (data (i32.const 65536) ""))')[:-1] + b"\1a",
    "a name that is not UTF-8": MAGIC + TYPE + DECLARED + section(7, [b"\1\xff\0\0"]),
    "a name that clears a terminal": wasm('(module (func (export "\\1b[2J")))'),
    "a name that turns its writing": wasm('(module (func (export "\\e2\\80\\aef")))'),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_bytes_are_refused(name):
    """What is not a module is refused at once, in words, without room for what it announces."""
    with pytest.raises(QueryNotAllowed, match="program"):
        checked(MALFORMED[name])


def test_a_refusal_names_the_byte():
    """The offset is that of the instruction that is refused."""
    code = module("(param i32) (result i32) (memory.grow (local.get 0))", rest="(memory 1)")
    place = code.index(b"\x40\x00\x0b")
    with pytest.raises(QueryNotAllowed, match=rf"byte {place} \(0x{place:x}\): memory\.grow"):
        read_module(code)


def test_long_modules_are_refused():
    """60 MB are refused by their length, and too many instructions at the first beyond."""
    with pytest.raises(QueryNotAllowed, match=f"62,914,560 bytes, at most {MAX_BYTES:,}"):
        checked(MAGIC + b"\0" * (60 * 2**20 - 8))
    long = module("(param i32) (result i32) " + "(drop (i32.const 1)) " * 15_000 + "(local.get 0)")
    with pytest.raises(QueryNotAllowed, match=f"more than {MAX_INSTRUCTIONS:,} instructions"):
        checked(long)


def test_deep_blocks_are_refused():
    """Blocks nest so deep, and no deeper."""
    nested = "(block " * (MAX_NESTING - 1) + ")" * (MAX_NESTING - 1)
    checked(module(f"(param i32) (result i32) {nested} (local.get 0)"))
    deeper = module(f"(param i32) (result i32) (block {nested}) (local.get 0)")
    with pytest.raises(QueryNotAllowed, match=f"nested more than {MAX_NESTING} deep"):
        checked(deeper)


def test_what_compilers_add_is_accepted():
    """Names, producers, unused tables and exported memories change nothing."""
    code = wasm(
        '(module (table 1 1 funcref) (memory (export "memory") 2) (global (mut i32) (i32.const 9)) '
        "(func $g (result i32) (i32.const 1)) (elem (i32.const 0) $g) "
        '(func (export "f") (param $age i32) (result i32) (local.get $age)))'
    )
    custom = b"\0" + sized(sized(b"producers") + b"\1\2\3")
    found = checked(code + custom)
    assert found.exports == {"f": 1}
    assert found.pages == 2
