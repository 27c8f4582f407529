"""Random valid modules, written as text: every accepted instruction, loops that end, traps."""

from __future__ import annotations

import random
import struct

TYPES = ("i32", "i64", "f32", "f64")
WHOLE_UNARY = ("clz", "ctz", "popcnt", "extend8_s", "extend16_s")
WHOLE_BINARY = (
    "add", "sub", "mul", "div_s", "div_u", "rem_s", "rem_u", "and", "or", "xor", "shl", "shr_s",
    "shr_u", "rotl", "rotr",
)  # fmt: skip
FLOAT_UNARY = ("abs", "neg", "ceil", "floor", "trunc", "nearest", "sqrt")
FLOAT_BINARY = ("add", "sub", "mul", "div", "min", "max", "copysign")
WHOLE_TESTS = ("eq", "ne", "lt_s", "lt_u", "gt_s", "gt_u", "le_s", "le_u", "ge_s", "ge_u")
FLOAT_TESTS = ("eq", "ne", "lt", "gt", "le", "ge")
CASTS = {
    "i32": [("i32.wrap_i64", "i64"), ("i32.reinterpret_f32", "f32"), ("i64.eqz", "i64"),
            *[(f"i32.{kind}_{f}_{s}", f) for kind in ("trunc", "trunc_sat")
              for f in ("f32", "f64") for s in "su"]],
    "i64": [("i64.extend_i32_s", "i32"), ("i64.extend_i32_u", "i32"), ("i64.extend32_s", "i64"),
            ("i64.reinterpret_f64", "f64"),
            *[(f"i64.{kind}_{f}_{s}", f) for kind in ("trunc", "trunc_sat")
              for f in ("f32", "f64") for s in "su"]],
    "f32": [("f32.demote_f64", "f64"), ("f32.reinterpret_i32", "i32"),
            *[(f"f32.convert_{i}_{s}", i) for i in ("i32", "i64") for s in "su"]],
    "f64": [("f64.promote_f32", "f32"), ("f64.reinterpret_i64", "i64"),
            *[(f"f64.convert_{i}_{s}", i) for i in ("i32", "i64") for s in "su"]],
}  # fmt: skip
LOADS = {
    "i32": ("load", "load8_s", "load8_u", "load16_s", "load16_u"),
    "i64": ("load", "load8_s", "load8_u", "load16_s", "load16_u", "load32_s", "load32_u"),
    "f32": ("load",), "f64": ("load",),
}  # fmt: skip
STORES = {"i32": ("store", "store8", "store16"), "i64": ("store", "store8", "store16", "store32"),
          "f32": ("store",), "f64": ("store",)}  # fmt: skip
EDGES = {
    "i32": [0, 1, -1, 2, 7, 100, 2**31 - 1, -(2**31), 65_535, 65_536, 131_072],
    "i64": [0, 1, -1, 3, 2**31, 2**53, 2**63 - 1, -(2**63)],
    "f32": [0.0, -0.0, 1.0, -1.5, 2.0**31, -(2.0**31), 2.0**63, 2.0**64, 1e-40, 3e38],
    "f64": [0.0, -0.0, 0.5, -1.0, 2.0**31, -(2.0**31) - 1, 2.0**32, 2.0**63, 1e300, 5e-324,
            float("inf"), float("-inf")],
}  # fmt: skip


def value_of(kind, rng):
    """A number of a type: an edge of it, or any."""
    if rng.random() < 0.6:
        found = rng.choice(EDGES[kind])
    elif kind in ("i32", "i64"):
        bits = int(kind[1:])
        found = rng.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1)) >> rng.randrange(bits)
    else:
        found = rng.uniform(-10, 10) * 10.0 ** rng.randrange(-3, 12)
    return struct.unpack("<f", struct.pack("<f", found))[0] if kind == "f32" else found


def _written(kind, value):
    if kind in ("i32", "i64"):
        return f"({kind}.const {value})"
    if value in (float("inf"), float("-inf")):
        return f"({kind}.const {'-' if value < 0 else ''}inf)"
    return f"({kind}.const {value!r})"


class RandomModule:
    """A module of some functions; f is exported, the others are called by those before them."""

    def __init__(self, seed):
        rng = self.rng = random.Random(seed)
        self.memory = rng.random() < 0.6
        self.globals = [rng.choice(TYPES) for _ in range(rng.randrange(3))]
        helpers = rng.randrange(3)
        self.types = [
            (tuple(rng.choice(TYPES) for _ in range(rng.randrange(1, 4))), rng.choice(TYPES))
            for _ in range(1 + helpers)
        ]
        self.parameters, self.result = self.types[0]
        whole = self.result in ("i32", "i64")
        self.low, self.high = rng.choice(
            [(0, 1), (-5, 5), (-(2**40), 2**40)] if whole else [(0.0, 1.0), (-1e6, 1e6)]
        )
        parts = [self._function(i) for i in range(1 + helpers)]
        self.text = f"(module {self._outside()} {' '.join(parts)})"

    def rows(self, count):
        return [tuple(value_of(k, self.rng) for k in self.parameters) for _ in range(count)]

    def _outside(self):
        out = [
            f"(global $g{i} (mut {k}) {_written(k, value_of(k, self.rng))})"
            for i, k in enumerate(self.globals)
        ]
        if self.memory:
            data = "".join(f"\\{self.rng.randrange(256):02x}" for _ in range(64))
            out += ["(memory 1)", f'(data (i32.const 8) "{data}")']
            out += [f'(data (i32.const 65530) "{data[:18]}")']
        return " ".join(out)

    def _function(self, index):
        parameters, result = self.types[index]
        self.index, self.loops = index, 0
        own = [self.rng.choice(TYPES) for _ in range(3)]
        self.locals = [*parameters, *own]
        body = " ".join(self.statement(3) for _ in range(self.rng.randrange(4)))
        body += " " + self.expression(result, 4)
        counters = " ".join("i32" for _ in range(self.loops))
        name = '(export "f")' if index == 0 else ""
        head = f"(func $f{index} {name} (param {' '.join(parameters)}) (result {result})"
        # Counters stand behind the other locals; the text names them by number.
        first = len(self.locals)
        for i in range(self.loops):
            body = body.replace(f"$counter{i}.", str(first + i))
        return f"{head} (local {' '.join(own)} {counters}) {body})"

    # ---- numbers -----------------------------------------------------------------------

    def expression(self, kind, depth):
        rng, again = self.rng, lambda k: self.expression(k, depth - 1)
        if depth <= 0 or rng.random() < 0.1:
            return self.leaf(kind)
        whole, choice = kind in ("i32", "i64"), rng.randrange(12)
        if choice < 3:
            op = rng.choice(WHOLE_BINARY if whole else FLOAT_BINARY)
            return f"({kind}.{op} {again(kind)} {again(kind)})"
        if choice == 3:
            return f"({kind}.{rng.choice(WHOLE_UNARY if whole else FLOAT_UNARY)} {again(kind)})"
        if choice < 6:
            op, source = rng.choice(CASTS[kind])
            return f"({op} {again(source)})"
        if choice == 6 and kind == "i32":
            of = rng.choice(TYPES)
            op = rng.choice(WHOLE_TESTS if of in ("i32", "i64") else FLOAT_TESTS)
            return f"(i32.eqz ({of}.{op} {again(of)} {again(of)}))"
        if choice == 7:
            return f"(select {again(kind)} {again(kind)} {again('i32')})"
        if choice == 8:
            test = again("i32")
            return f"(if (result {kind}) {test} (then {again(kind)}) (else {again(kind)}))"
        if choice == 9 and self.memory:
            op, offset = rng.choice(LOADS[kind]), rng.choice([0, 4, 60, 65_528, 2**32 - 1])
            return f"({kind}.{op} offset={offset} {self.address(depth)})"
        if choice == 10:
            called = [i for i, t in enumerate(self.types) if i > self.index and t[1] == kind]
            if called:
                target = rng.choice(called)
                return f"(call $f{target} {' '.join(again(k) for k in self.types[target][0])})"
        if choice == 11:
            left = f"(drop (br_if 0 {again(kind)} {again('i32')}))"
            return f"(block (result {kind}) {left} {again(kind)})"
        places = [i for i, k in enumerate(self.locals) if k == kind]
        return f"(local.tee {rng.choice(places)} {again(kind)})" if places else self.leaf(kind)

    def leaf(self, kind):
        found = [f"(local.get {i})" for i, k in enumerate(self.locals) if k == kind]
        found += [f"(global.get $g{i})" for i, k in enumerate(self.globals) if k == kind]
        found += ["(memory.size)"] if kind == "i32" and self.memory else []
        return self.rng.choice([*found, _written(kind, value_of(kind, self.rng))])

    def address(self, depth):
        if self.rng.random() < 0.7:  # most are inside
            return f"(i32.and {self.expression('i32', depth - 1)} (i32.const 4095))"
        return self.expression("i32", depth - 1)

    # ---- what is done ------------------------------------------------------------------

    def statement(self, depth):
        rng, again = self.rng, lambda k: self.expression(k, depth)
        choice = rng.randrange(10)
        if choice < 3 or depth <= 0:
            place = rng.randrange(len(self.locals))
            return f"(local.set {place} {again(self.locals[place])})"
        if choice == 3 and self.globals:
            place = rng.randrange(len(self.globals))
            return f"(global.set $g{place} {again(self.globals[place])})"
        if choice in (4, 5) and self.memory:
            kind = rng.choice(TYPES)
            return f"({kind}.{rng.choice(STORES[kind])} {self.address(depth)} {again(kind)})"
        if choice == 6:
            then, other = self.statement(depth - 1), self.statement(depth - 1)
            return f"(if {again('i32')} (then {then}) (else {other}))"
        if choice in (7, 8):
            counter = f"$counter{self.loops}."
            self.loops += 1
            rounds, inside = rng.randrange(1, 5), self.statement(depth - 1)
            return (
                f"(local.set {counter} (i32.const {rounds})) (loop {inside} (br_if 0 (local.tee "
                f"{counter} (i32.sub (local.get {counter}) (i32.const 1)))))"
            )
        if choice == 9 and rng.random() < 0.4:
            end = rng.choice(["unreachable", f"(return {again(self.types[self.index][1])})"])
            return f"(if {again('i32')} (then {end}))"
        targets = " ".join(str(rng.randrange(2)) for _ in range(3))
        return f"(block (block (br_table {targets} {again('i32')})) {self.statement(depth - 1)})"
