"""What a program may need of the host's stack is counted before it runs, and never too low."""

from __future__ import annotations

import numpy as np
import pytest
from programs.modules import greedy, module, spec, wasm, wide
from programs.random_modules import RandomModule

from sulq.errors import QueryNotAllowed
from sulq.programs import opcodes as op
from sulq.programs import rewrite as stack
from sulq.programs.binary import _Reader, read_module
from sulq.programs.driver import run
from sulq.programs.library import checked
from sulq.programs.rewrite import Places, _Writer
from sulq.programs.weights import weights_of

# Instructions that leave no value behind.
SILENT = {0x01, op.BLOCK, op.IF, op.LOOP, op.ELSE, op.END, op.BR, op.BR_IF, op.BR_TABLE, op.RETURN,
          op.DROP, op.LOCAL_SET, op.GLOBAL_SET, op.UNREACHABLE, *op.STORES}  # fmt: skip


def needed(code):
    found = read_module(code)
    return stack.stack_bytes(found)[found.exports["f"]]


def values(code):
    """How many values some instructions make."""
    reader, made = _Reader(code), 0
    reader.at = 0
    while reader.at < len(code):
        made += reader.instruction().code not in SILENT
    return made


def test_every_value_of_the_rewritten_code_is_counted():
    """Each instruction of random modules is rewritten to code that makes no more than is counted.

    Divisions, truncations, loads, stores and unreachable are among them; fuel is counted apart.
    """
    seen = set()
    for seed in range(60):
        found = read_module(wasm(RandomModule(seed).text))
        for function in found.functions:
            weights = weights_of(function)
            writer = _Writer(found, function, weights, Places(200, 201), True)
            assert values(writer.pay(10**9)) <= stack.PAY + len(writer.results)
            for i in function.body:
                if i.code in op.WITH_BLOCK_TYPE or i.code == op.CALL:
                    continue  # types and calls are read within their own module
                made = stack.made(found, function, i)
                assert values(writer.instruction(i)) <= made, hex(i.code)
                seen.add(made)
    assert seen >= {1, stack.DIVISION, stack.TRUNCATION, stack.ACCESS, stack.STOP + 2}


def test_jumps_count_what_they_carry():
    """A block's values and the locals that change in it count at every jump to it."""

    def nested(inside):
        return needed(
            module(f"(param i32) (result i32) (local i32) (block {inside}) (local.get 0)")
        )

    change = "(local.set 1 (i32.const 5))"
    jump = "(br_if 0 (local.get 0))"
    plain, more = nested(change + jump), nested(change + jump + jump)
    assert more - plain == stack.PLACE * (2 + 1)  # two instructions, one local carried
    assert nested(jump + jump) - nested(jump) == stack.PLACE * 2
    table = "(br_table {} (local.get 0))"
    assert nested(change + table.format("0 0 0 0")) - nested(change + table.format("0")) == (
        stack.PLACE * 3
    )


@pytest.mark.parametrize("kind", [(20, 174), (40, 77), (290, 4)])
def test_the_hungriest_that_are_accepted_do_not_overflow(kind):
    """Chains of calls just below the bound run to their end; one call more is refused."""
    chain, calls = kind
    code = greedy(chain, calls)
    assert 0.95 * stack.MAX_STACK < needed(code) <= stack.MAX_STACK
    assert run(spec(code), [np.array([1, 77, 3], np.int32)]).tolist() == [1, 1, 1]
    with pytest.raises(QueryNotAllowed, match=r"bytes of stack, at most 1,015,808\. Nothing was"):
        checked(greedy(chain, calls + 1))


@pytest.mark.parametrize(("chain", "many"), [(12, 250), (100, 24)])
def test_locals_that_live_through_calls_do_not_overflow(chain, many):
    """As many parameters and calls as 10,000 instructions allow run to their end."""
    found = run(spec(wide(chain, many), 0, 10**6), [np.ones(3, np.int32)])
    assert found.tolist() == [chain * many + 1] * 3
