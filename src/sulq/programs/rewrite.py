"""A module's functions -> functions that neither trap nor run on.

An instruction that could trap gets operands with which it cannot, and sets a flag where it would
have: there is no branch, so a trap takes no longer than none. At the head of a loop and of a
function fuel is paid; when it is used up the function returns, and so does everyone who called it.
Nothing is renumbered: what is added comes behind what is there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from graphlib import TopologicalSorter

from sulq.errors import QueryNotAllowed
from sulq.programs import opcodes as op
from sulq.programs.binary import PAGE, Function, Instruction, Module
from sulq.programs.encoding import constant, sized, unsigned, vector
from sulq.programs.opcodes import F32, F64, I32, I64
from sulq.programs.weights import Weights

EMPTY_BLOCK = b"\x40"
I32_EQZ, I32_EQ, I32_GT_U, I64_EQZ, I64_EQ, I64_LT_S = 0x45, 0x46, 0x4B, 0x50, 0x51, 0x53
I32_AND, I32_OR, I64_SUB = 0x71, 0x72, 0x7D
F32_LT, F32_GT, F32_GE, F64_LT, F64_GT, F64_GE = 0x5D, 0x5E, 0x60, 0x63, 0x64, 0x66

# Divisions: their type, and whether the smallest number by -1 has no result.
DIVISIONS = {
    0x6D: (I32, True), 0x6E: (I32, False), 0x6F: (I32, False), 0x70: (I32, False),
    0x7F: (I64, True), 0x80: (I64, False), 0x81: (I64, False), 0x82: (I64, False),
}  # fmt: skip
# Truncations: from which type, above (or from) what, below what, and the total one of its kind.
TRUNCATIONS = {
    0xA8: (F32, F32_GE, -(2.0**31), 2.0**31, 0), 0xA9: (F32, F32_GT, -1.0, 2.0**32, 1),
    0xAA: (F64, F64_GT, -(2.0**31) - 1, 2.0**31, 2), 0xAB: (F64, F64_GT, -1.0, 2.0**32, 3),
    0xAE: (F32, F32_GE, -(2.0**63), 2.0**63, 4), 0xAF: (F32, F32_GT, -1.0, 2.0**64, 5),
    0xB0: (F64, F64_GE, -(2.0**63), 2.0**63, 6), 0xB1: (F64, F64_GT, -1.0, 2.0**64, 7),
}  # fmt: skip
SCRATCH = [(3, I32), (2, I64), (1, F32), (1, F64)]  # locals behind a function's own


@dataclass(frozen=True)
class Places:
    """Where the globals are that are added."""

    fuel: int
    flag: int


def rewritten(
    module: Module, function: Function, weights: Weights, places: Places, metered: bool
) -> bytes:
    """One function's code."""
    return _Writer(module, function, weights, places, metered).code()


class _Writer:
    def __init__(
        self, module: Module, function: Function, weights: Weights, places: Places, metered: bool
    ) -> None:
        self.module, self.function, self.weights = module, function, weights
        self.places, self.metered = places, metered
        kind = module.types[function.type]
        self.results = kind.results
        first = len(kind.parameters) + sum(many for many, _ in function.locals)
        self.a32, self.b32, self.bad = first, first + 1, first + 2
        self.a64, self.b64, self.f32, self.f64 = first + 3, first + 4, first + 5, first + 6

    def code(self) -> bytes:
        groups = [*self.function.locals, *SCRATCH]
        out = [vector([unsigned(many) + bytes([kind]) for many, kind in groups])]
        if self.metered:
            out.append(self.pay(self.weights.entry))
        for place, instruction in enumerate(self.function.body):
            out.append(self.instruction(instruction))
            if self.metered and instruction.code == op.LOOP:
                out.append(self.pay(self.weights.loops[place]))
        return sized(b"".join(out))

    def instruction(self, i: Instruction) -> bytes:
        if i.code in DIVISIONS:
            return self.division(i.code)
        if i.code in TRUNCATIONS:
            return self.truncation(i.code)
        if i.code in op.LOADS:
            return self.load(i)
        if i.code in op.STORES:
            return self.store(i)
        return self.stop() if i.code == op.UNREACHABLE else self.same(i)

    def same(self, i: Instruction) -> bytes:
        return self.module.code[i.start : i.end]

    # ---- what is added -----------------------------------------------------------------

    def pay(self, weight: int) -> bytes:
        """Take fuel away; return if it is used up."""
        return b"".join([
            _get_global(self.places.fuel), constant(I64, weight), bytes([I64_SUB]),
            _tee(self.a64), _set_global(self.places.fuel),
            _get(self.a64), constant(I64, 0), bytes([I64_LT_S, op.IF]), EMPTY_BLOCK,
            self.stop(), bytes([op.END]),
        ])  # fmt: skip

    def stop(self) -> bytes:
        """Set the flag and return zeros."""
        zeros = b"".join(constant(kind, 0) for kind in self.results)
        return self.raised(constant(I32, 1)) + zeros + bytes([op.RETURN])

    def raised(self, bad: bytes) -> bytes:
        """Set the flag if this is not 0."""
        flag = self.places.flag
        return bad + _get_global(flag) + bytes([I32_OR]) + _set_global(flag)

    def division(self, code: int) -> bytes:
        kind, overflows = DIVISIONS[code]
        a, b = (self.a32, self.b32) if kind == I32 else (self.a64, self.b64)
        eqz, eq = (I32_EQZ, I32_EQ) if kind == I32 else (I64_EQZ, I64_EQ)
        bad = _get(b) + bytes([eqz])
        if overflows:
            least = -(2**31) if kind == I32 else -(2**63)
            bad += _get(a) + constant(kind, least) + bytes([eq])
            bad += _get(b) + constant(kind, -1) + bytes([eq, I32_AND, I32_OR])
        return b"".join([
            _set(b), _set(a), self.raised(bad + _tee(self.bad)),
            _get(a), constant(kind, 1), _get(b), _get(self.bad), bytes([op.SELECT, code]),
        ])  # fmt: skip

    def truncation(self, code: int) -> bytes:
        kind, above, low, high, total = TRUNCATIONS[code]
        x, below = (self.f32, F32_LT) if kind == F32 else (self.f64, F64_LT)
        inside = _get(x) + constant(kind, low) + bytes([above])
        inside += _get(x) + constant(kind, high) + bytes([below, I32_AND])
        raised = self.raised(inside + bytes([I32_EQZ]))
        return _set(x) + raised + _get(x) + bytes([op.PREFIX, total])

    def room(self, offset: int, size: int) -> int:
        """The largest address at which so many bytes lie inside of memory; negative if none."""
        return (self.module.pages or 0) * PAGE - offset - size

    def address(self, room: int) -> bytes:
        """The address that was set aside, or 0 with the flag where it is outside."""
        bad = _get(self.a32) + constant(I32, room) + bytes([I32_GT_U]) + _tee(self.bad)
        chosen = constant(I32, 0) + _get(self.a32) + _get(self.bad) + bytes([op.SELECT])
        return self.raised(bad) + chosen

    def load(self, i: Instruction) -> bytes:
        kind, size = op.LOADS[i.code]
        room = self.room(i.value, size)
        if room < 0:
            return bytes([op.DROP]) + self.raised(constant(I32, 1)) + constant(kind, 0)
        return _set(self.a32) + self.address(room) + self.same(i)

    def store(self, i: Instruction) -> bytes:
        kind, size = op.STORES[i.code]
        room = self.room(i.value, size)
        if room < 0:
            return bytes([op.DROP, op.DROP]) + self.raised(constant(I32, 1))
        value = {I32: self.b32, I64: self.b64, F32: self.f32, F64: self.f64}[kind]
        return _set(value) + _set(self.a32) + self.address(room) + _get(value) + self.same(i)


def _get(local: int) -> bytes:
    return bytes([op.LOCAL_GET]) + unsigned(local)


def _set(local: int) -> bytes:
    return bytes([op.LOCAL_SET]) + unsigned(local)


def _tee(local: int) -> bytes:
    return bytes([op.LOCAL_TEE]) + unsigned(local)


def _get_global(index: int) -> bytes:
    return bytes([op.GLOBAL_GET]) + unsigned(index)


def _set_global(index: int) -> bytes:
    return bytes([op.GLOBAL_SET]) + unsigned(index)


# ---- how deep the stack may become ----------------------------------------------------------
# A compiler keeps in a function's frame what it has no register for. How it shares places there is
# its own affair, so here none is shared: every value that a function's rewritten code can make, and
# every value that a jump can carry, has a place of its own. Calls form no circle (weights.py), so
# the deepest chain of them is the most that is ever needed at once.

STACK_BYTES = 2**21 - 2**16  # what wasmtime is given
MAX_STACK = STACK_BYTES // 2  # what a program may need by this count
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
        if needs[function] > MAX_STACK:
            raise QueryNotAllowed(
                f"program: {name[:80]} and what it calls could need {needs[function]:,} bytes of "
                f"stack, at most {MAX_STACK:,}. Nothing was charged.\nNest fewer calls, let "
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
