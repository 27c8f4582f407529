"""The binary format -> a Module, or where and why it is refused.

Everything is counted before room is made for it, and nothing unknown is passed on. That types fit
is checked by wasmtime's validator (library.py), of the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sulq.errors import QueryNotAllowed
from sulq.programs import opcodes as op
from sulq.programs.encoding import MAGIC

MAX_BYTES = 2**17
MAX_INSTRUCTIONS = 10_000  # targets of a br_table counted
MAX_FUNCTIONS = 300
MAX_TYPES = 500
MAX_LOCALS = 250  # of a function, its parameters counted
MAX_RESULTS = 16
MAX_GLOBALS = 100
MAX_NESTING = 50
MAX_EXPORTS = 1_000
MAX_SEGMENTS = 1_000
PAGE = 2**16
MAX_PAGES = 16
CUSTOM, TYPES, IMPORTS, FUNCTIONS, TABLES, MEMORIES, GLOBALS, EXPORTS = range(8)
START, ELEMENTS, CODE, DATA, DATA_COUNT = range(8, 13)
ORDER = [TYPES, IMPORTS, FUNCTIONS, TABLES, MEMORIES, GLOBALS, EXPORTS, START, ELEMENTS,
         DATA_COUNT, CODE, DATA]  # fmt: skip


class FunctionType(NamedTuple):
    """What a function takes and gives."""

    parameters: tuple[int, ...]
    results: tuple[int, ...]


class Global(NamedTuple):
    """A global: its type, whether it changes within a row, and what it begins as."""

    type: int
    mutable: bool
    start: bytes  # the constant's instruction
    raw: bytes  # all of it, as it is written


class Instruction(NamedTuple):
    """One instruction: where it stands, and what was read behind it."""

    code: int
    start: int
    end: int
    value: int = 0  # an index, a block's type, or the offset of a load or store
    targets: tuple[int, ...] = ()  # of a br_table


@dataclass
class Function:
    """A function's locals and instructions."""

    type: int
    locals: list[tuple[int, int]] = field(default_factory=list)  # how many, of which type
    body: list[Instruction] = field(default_factory=list)


@dataclass
class Module:
    """A module as it is read."""

    code: bytes
    types: list[FunctionType] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    pages: int | None = None  # of its memory; None: it has none
    globals: list[Global] = field(default_factory=list)
    exports: dict[str, int] = field(default_factory=dict)  # functions, by name
    segments: list[tuple[int, bytes]] = field(default_factory=list)  # what memory begins as

    def type_of(self, function: int) -> FunctionType:
        """What a function takes and gives."""
        return self.types[self.functions[function].type]


def read_module(code: bytes) -> Module:
    """Read a module, or refuse it with the place where it goes wrong."""
    if len(code) > MAX_BYTES:
        raise QueryNotAllowed(
            f"program: {len(code):,} bytes, at most {MAX_BYTES:,}. Strip it (wasm-opt -Oz, "
            "-Wl,--strip-all), or leave tables of numbers out."
        )
    if code[:8] != MAGIC:
        raise QueryNotAllowed(
            "program: these bytes are no WebAssembly module of version 1: they begin with "
            f"{code[:8].hex() or 'nothing'}, not with {MAGIC.hex()}."
        )
    return _Reader(code).module()


class _Reader:
    """Reads bytes from a place on; every refusal names it."""

    def __init__(self, code: bytes) -> None:
        self.code, self.at, self.end = code, 8, len(code)
        self.found = Module(code)
        self.instructions = 0
        self.bodies = 0

    # ---- small things -------------------------------------------------------------------

    def refuse(self, problem: str, at: int | None = None) -> QueryNotAllowed:
        place = self.at if at is None else at
        return QueryNotAllowed(f"program, byte {place} (0x{place:x}): {problem}.")

    def byte(self) -> int:
        if self.at >= self.end:
            raise self.refuse("it ends in the middle of something")
        self.at += 1
        return self.code[self.at - 1]

    def bytes(self, count: int) -> bytes:
        if count > self.end - self.at:
            raise self.refuse("it ends in the middle of something")
        self.at += count
        return self.code[self.at - count : self.at]

    def number(self, bits: int = 32) -> int:
        """An unsigned number, LEB128."""
        start = self.at
        value, _ = self._sevens(bits)
        if value >> bits:
            raise self.refuse("a number is too large", start)
        return value

    def skip_signed(self, bits: int) -> int:
        """A signed number, LEB128."""
        start = self.at
        value, width = self._sevens(bits)
        value -= (value >> (width - 1)) << width
        if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise self.refuse("a number is too large", start)
        return value

    def _sevens(self, bits: int) -> tuple[int, int]:
        """Seven bits of each byte, the lowest first, and how many bits these are."""
        start, value, width = self.at, 0, 0
        while True:
            part = self.byte()
            value |= (part & 0x7F) << width
            width += 7
            if part < 0x80:
                return value, width
            if width >= bits:
                raise self.refuse("a number is too long", start)

    def count(self, most: int, what: str) -> int:
        start, found = self.at, self.number()
        if found > most:
            raise self.refuse(f"{found:,} {what}, at most {most:,}", start)
        return found

    def name(self) -> str:
        start, raw = self.at, self.bytes(self.number())
        try:
            found = raw.decode()
        except UnicodeDecodeError:
            raise self.refuse("a name is not UTF-8", start) from None
        if not found.isprintable():  # owners read names in their terminals
            raise self.refuse("a name has letters that cannot be shown", start)
        return found

    def value_type(self) -> int:
        found = self.byte()
        if found not in op.NAMES:
            raise self.refuse(
                f"type 0x{found:02x}, want i32, i64, f32 or f64 (no SIMD, no references)",
                self.at - 1,
            )
        return found

    # ---- sections -----------------------------------------------------------------------

    def module(self) -> Module:
        last = -1
        while self.at < len(self.code):
            start, number = self.at, self.byte()
            if number != CUSTOM:
                place = ORDER.index(number) if number in ORDER else -1
                if place <= last:
                    raise self.refuse(f"section {number} is unknown or out of order", start)
                last = place
            size = self.number()
            if size > len(self.code) - self.at:
                raise self.refuse("a section is longer than the module", start)
            self.end = self.at + size
            self.section(number, start)
            if self.at != self.end:
                raise self.refuse("a section has more bytes than it says")
            self.end = len(self.code)
        if self.bodies != len(self.found.functions):
            raise self.refuse("functions are declared that have no code")
        return self.found

    def section(self, number: int, start: int) -> None:
        readers: dict[int, Callable[[], Any]] = {
            TYPES: self.types, IMPORTS: self.imports, FUNCTIONS: self.declared,
            MEMORIES: self.memories, GLOBALS: self.globals, EXPORTS: self.exports,
            CODE: self.bodies_of_functions, DATA: self.data,
        }  # fmt: skip
        if number == START:
            raise self.refuse("a start function: only the function that is asked for runs", start)
        if number in readers:
            readers[number]()
        else:  # of no use without the instructions that are refused; wasmtime reads it too
            self.at = self.end

    def types(self) -> None:
        for _ in range(self.count(MAX_TYPES, "types")):
            if self.byte() != 0x60:
                raise self.refuse("a type that is no function's", self.at - 1)
            parameters = [self.value_type() for _ in range(self.count(MAX_LOCALS, "parameters"))]
            results = [self.value_type() for _ in range(self.count(MAX_RESULTS, "results"))]
            self.found.types.append(FunctionType(tuple(parameters), tuple(results)))

    def imports(self) -> None:
        start = self.at
        if self.number():
            module, name = self.name()[:80], self.name()[:80]
            raise self.refuse(
                f"it imports {module}.{name}, and a row function can reach nothing but its "
                "arguments. Compile it without imports",
                start,
            )

    def declared(self) -> None:
        for _ in range(self.count(MAX_FUNCTIONS, "functions")):
            self.found.functions.append(Function(self.index(len(self.found.types), "type")))

    def index(self, known: int, what: str) -> int:
        start, found = self.at, self.number()
        if found >= known:
            raise self.refuse(f"{what} {found:,} of {known:,}", start)
        return found

    def memories(self) -> None:
        for _ in range(self.count(1, "memories")):
            flags = self.byte()
            if flags > 1:
                raise self.refuse("a memory that is shared, or larger than 32 bits", self.at - 1)
            self.found.pages = self.count(MAX_PAGES, "pages of memory")
            if flags:
                self.number()

    def globals(self) -> None:
        for _ in range(self.count(MAX_GLOBALS, "globals")):
            start, kind, mutable = self.at, self.value_type(), self.byte()
            if mutable > 1:
                raise self.refuse("a global that is neither constant nor variable", self.at - 1)
            first = self.at
            self.constant(kind)
            found = self.code[first : self.at]
            if self.byte() != op.END:
                raise self.refuse("a global begins as one constant", self.at - 1)
            raw = self.code[start : self.at]
            self.found.globals.append(Global(kind, bool(mutable), found, raw))

    def constant(self, kind: int) -> int:
        """One constant of this type; its value, where it is whole."""
        if self.byte() != op.CONSTANTS[kind]:
            raise self.refuse("a constant of its type is wanted", self.at - 1)
        if kind in (op.I32, op.I64):
            return self.skip_signed(32 if kind == op.I32 else 64)
        self.bytes(op.SIZES[kind])
        return 0

    def exports(self) -> None:
        for _ in range(self.count(MAX_EXPORTS, "exports")):
            name, kind = self.name(), self.byte()
            if kind == 0:
                self.found.exports[name] = self.index(len(self.found.functions), "function")
            else:
                self.number()

    def data(self) -> None:
        for _ in range(self.count(MAX_SEGMENTS, "pieces of data")):
            start, flags, place = self.at, self.number(), 0
            if flags not in (0, 1):
                raise self.refuse("data for another memory", start)
            if flags == 0:
                place = self.constant(op.I32) % 2**32
                if self.byte() != op.END:
                    raise self.refuse("data stands at one constant place", self.at - 1)
            piece = self.bytes(self.number())
            if flags == 0:
                if place + len(piece) > (self.found.pages or 0) * PAGE:
                    raise self.refuse("data stands outside of the memory", start)
                self.found.segments.append((place, piece))

    # ---- code ---------------------------------------------------------------------------

    def bodies_of_functions(self) -> None:
        start, section = self.at, self.end
        if self.number() != len(self.found.functions):
            raise self.refuse("there is not one code for each function", start)
        for function in self.found.functions:
            size = self.number()
            if size > section - self.at:
                raise self.refuse("a function is longer than its section")
            self.end = self.at + size
            self.body(function)
            if self.at != self.end:
                raise self.refuse("a function goes on behind its end")
            self.end = section
            self.bodies += 1

    def body(self, function: Function) -> None:
        left = MAX_LOCALS - len(self.found.types[function.type].parameters)
        for _ in range(self.count(MAX_LOCALS, "groups of locals")):
            many = self.count(left, "locals")
            left -= many
            function.locals.append((many, self.value_type()))
        depth = 1
        while depth:
            found = self.instruction()
            function.body.append(found)
            depth += (found.code in op.WITH_BLOCK_TYPE) - (found.code == op.END)
            if depth > MAX_NESTING:
                raise self.refuse(f"blocks nested more than {MAX_NESTING} deep", found.start)

    def instruction(self) -> Instruction:
        start, code, value = self.at, self.byte(), 0
        targets: tuple[int, ...] = ()
        self.counted(1, start)
        if code in op.PLAIN:
            pass
        elif code in op.WITH_INDEX:
            value = self.number()
            if code == op.CALL and value >= len(self.found.functions):
                raise self.refuse(f"a call of function {value:,}, which there is not", start)
        elif code in op.WITH_BLOCK_TYPE:
            value = self.skip_signed(33)
            if value >= len(self.found.types) or (value < 0 and value + 128 not in (64, *op.NAMES)):
                raise self.refuse("a block of an unknown type", start)
        elif code in op.LOADS or code in op.STORES:
            if self.number() > 3:
                raise self.refuse("an alignment that no number has, or another memory", start)
            value = self.number()
        elif code == op.BR_TABLE:
            targets = self.targets(start)
        elif code in (op.I32_CONST, op.I64_CONST, op.F32_CONST, op.F64_CONST):
            self.at = start
            self.constant(next(kind for kind, c in op.CONSTANTS.items() if c == code))
        else:
            self.rare(code, start)
        return Instruction(code, start, self.at, value, targets)

    def targets(self, start: int) -> tuple[int, ...]:
        """Where a br_table goes, the last for all other numbers."""
        many = self.count(MAX_INSTRUCTIONS, "targets")
        self.counted(many, start)
        return tuple(self.number() for _ in range(many + 1))

    def rare(self, code: int, start: int) -> None:
        """Instructions with more behind them, and those that are refused."""
        if code == op.SELECT_TYPED:
            if self.number() != 1:
                raise self.refuse("select gives one value", start)
            self.value_type()
        elif code == op.MEMORY_SIZE:
            if self.byte():
                raise self.refuse("the size of another memory", start)
        elif code == op.PREFIX:
            if self.number() > 7:
                raise self.refuse(f"{op.BULK}, which is not allowed", start)
        else:
            known = op.REFUSED.get(code)
            raise self.refuse(f"{known or f'instruction 0x{code:02x}'} is not allowed", start)

    def counted(self, more: int, at: int) -> None:
        self.instructions += more
        if self.instructions > MAX_INSTRUCTIONS:
            raise self.refuse(f"more than {MAX_INSTRUCTIONS:,} instructions", at)
