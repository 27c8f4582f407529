"""How much of the host's stack a program can need at most: refused above what there is, unrun.

A compiler keeps in a function's frame what it has no register for. How it shares places there is
its own affair, so here none is shared: every value that a function's rewritten code can make, and
every value that a jump can carry, has a place of its own. Calls form no circle (weights.py), so
the deepest chain of them is the most that is ever needed at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from sulq.errors import QueryNotAllowed
from sulq.programs import opcodes as op
from sulq.programs.binary import Function, Instruction, Module
from sulq.programs.rewrite import DIVISIONS, SCRATCH, TRUNCATIONS

STACK_BYTES = 2**21 - 2**16  # what wasmtime is given
MOST_BYTES = STACK_BYTES // 2  # what a program may need by this count
PLACE = 16  # bytes of a value: a whole vector register
FRAME = 512  # bytes of a frame besides: registers that are saved, addresses, alignment
DRIVER = 2**14  # bytes of the loop over the rows (driver.py) and of entering it
STOP, PAY, DIVISION, TRUNCATION, ACCESS = 3, 10, 19, 12, 11  # values that rewriting makes
EDGES = 3  # of a block: into it, around it, and the value where they meet


@dataclass
class _Open:
    """A block: what it takes and gives, the locals that change in it, the jumps to it."""

    carried: int
    changed: set[int] = field(default_factory=set)
    jumps: int = EDGES


def check_stack(module: Module) -> None:
    """Refuse a module with an exported function that could need too much of the stack."""
    needs = stack_bytes(module)
    for name, function in module.exports.items():
        if needs[function] > MOST_BYTES:
            raise QueryNotAllowed(
                f"program: {name[:80]} and what it calls could need {needs[function]:,} bytes of "
                f"stack, at most {MOST_BYTES:,}. Nothing was charged.\nNest fewer calls, let "
                "functions give fewer results, or use fewer locals and jumps: of the deepest chain "
                f"of calls every value counts {PLACE} bytes, every function {FRAME} more."
            )


def stack_bytes(module: Module) -> list[int]:
    """The most that each function can need, with all that it calls and the loop that runs it."""
    calls = {
        place: {i.value for i in function.body if i.code == op.CALL}
        for place, function in enumerate(module.functions)
    }
    found: dict[int, int] = {}
    for place in TopologicalSorter(calls).static_order():
        below = max((found[g] for g in calls[place]), default=0)
        found[place] = _frame(module, module.functions[place]) + below
    return [found[place] + DRIVER for place in range(len(module.functions))]


def _frame(module: Module, function: Function) -> int:
    kind = module.types[function.type]
    values = len(kind.parameters) + len(kind.results)
    values += sum(many for many, _ in [*function.locals, *SCRATCH])
    values += PAY + 2 * len(kind.results)
    values += sum(made(module, function, i) for i in function.body)
    values += _carried(module, function) + _passed(module, function)
    return FRAME + PLACE * values


def made(module: Module, function: Function, i: Instruction) -> int:
    """How many values the code makes that an instruction is rewritten to."""
    stop = STOP + 2 * len(module.types[function.type].results)  # zeros, and their return
    if i.code == op.CALL:
        return len(module.type_of(i.value).results)
    if i.code in DIVISIONS:
        return DIVISION
    if i.code in TRUNCATIONS:
        return TRUNCATION
    if i.code in op.LOADS or i.code in op.STORES:
        return ACCESS
    if i.code == op.LOOP:
        return PAY + stop
    return stop if i.code == op.UNREACHABLE else 1


def _passed(module: Module, function: Function) -> int:
    """The most values that one call passes and takes back: their place is shared by all calls."""
    types = [module.type_of(i.value) for i in function.body if i.code == op.CALL]
    return max((len(t.parameters) + len(t.results) for t in types), default=0)


def _carried(module: Module, function: Function) -> int:
    """Values that jumps carry: a block's own, and the locals that differ by the way taken."""
    total, open_ = 0, [_Open(len(module.types[function.type].results))]
    for i in function.body:
        if i.code in op.WITH_BLOCK_TYPE:
            open_.append(_Open(_arity(module, i.value)))
        elif i.code in (op.LOCAL_SET, op.LOCAL_TEE):
            open_[-1].changed.add(i.value)
        elif i.code in (op.BR, op.BR_IF):
            open_[-1 - i.value].jumps += 1
        elif i.code == op.RETURN:
            open_[0].jumps += 1
        elif i.code == op.BR_TABLE:
            for target in i.targets:
                open_[-1 - target].jumps += 1
        elif i.code == op.END:
            done = open_.pop()
            total += done.jumps * (done.carried + len(done.changed))
            if open_:
                open_[-1].changed |= done.changed
    return total


def _arity(module: Module, kind: int) -> int:
    """How many values a block of a type takes and gives."""
    if kind < 0:
        return int(kind + 128 in op.NAMES)
    return len(module.types[kind].parameters) + len(module.types[kind].results)
