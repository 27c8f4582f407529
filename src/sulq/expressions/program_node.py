"""A program called in an expression: program('SHA-256', 'f', low, high, fuel, arguments).

Its hash, the name of its function, the range of its results, its fuel and its arguments are its
canonical form. A missing argument makes the value missing; whatever else goes wrong in a row makes
it 0, or the end of the range that is nearest to 0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions.node import Node, any_null, kind_of, node_of, refuse, shown, typed_null
from sulq.programs.library import LIBRARY, MAX_FUEL, Spec, signature
from sulq.programs.opcodes import F32, F64, I32, I64, NAMES
from sulq.values.schema import LARGEST, Schema

SETTINGS = 5  # arguments before the columns
HASH = re.compile(r"[0-9a-f]{64}")
EXPORT = re.compile(r"[A-Za-z_$][\w.$]{0,199}", re.ASCII)
WHOLE = (I32, I64)


@dataclass(frozen=True, slots=True)
class Call:
    """What a node calls, and the words whose places its arguments are; () for numbers."""

    spec: Spec
    words: tuple[tuple[Any, ...], ...]


def has_program(node: Node | None) -> bool:
    """Does a program run in it?"""
    if node is None or "(program " not in node.text:
        return False
    return any(part.op == "program" for part in node.walk())


def spec_of(hash: Any, export: Any, low: Any, high: Any, fuel: Any) -> Spec:
    """A function of a known module, its range and its fuel, each as it is kept."""
    if not isinstance(hash, str) or not HASH.fullmatch(hash) or not isinstance(export, str):
        raise refuse("program", "begins with the SHA-256 of a module and a function's name.")
    if not EXPORT.fullmatch(export):
        raise refuse("program", f"{export[:80]!a} is no name of a function: letters, digits, _.$")
    code = LIBRARY.get(hash)
    if code is None:
        raise QueryNotAllowed(
            f"program {hash[:12]}...: its module is not known here. Make it with "
            "sulq.Program(path, 'f'), which sends it along. Nothing was charged."
        )
    whole = signature(code, export).results[0] in WHOLE
    ends = []
    for end in (low, high):
        number = isinstance(end, int | float) and not isinstance(end, bool)
        if not number or not math.isfinite(end) or abs(end) > LARGEST:
            raise refuse("program", "low and high are numbers within +-2**53.")
        if whole and end != int(end):
            raise refuse("program", f"{export} gives whole numbers: low and high are whole too.")
        ends.append(int(end) if whole else float(end))
    if not ends[0] < ends[1]:
        raise refuse("program", f"low={ends[0]}, high={ends[1]}: low is below high.")
    if isinstance(fuel, bool) or not isinstance(fuel, int) or not 1 <= fuel <= MAX_FUEL:
        raise refuse("program", f"fuel={fuel!r}: want 1 to {MAX_FUEL:,} instructions.")
    return Spec(hash, export, ends[0], ends[1], fuel, code)


def called(args: Sequence[Node], schema: Schema) -> Node:
    """The call that an expression writes: five constants, then what the function takes."""
    if len(args) < SETTINGS:
        raise refuse("program", "wants a hash, a name, low, high, fuel, then the arguments.")
    spec = spec_of(*(_constant(a) for a in args[:SETTINGS]))
    return program_node(spec, args[SETTINGS:], schema)


def program_node(spec: Spec, args: Sequence[Node], schema: Schema) -> Node:
    """A function of a module, over arguments that it can take."""
    kinds = signature(spec.code, spec.export).parameters
    if len(args) != len(kinds):
        takes = ", ".join(NAMES[k] for k in kinds)
        raise refuse(
            spec.export, f"takes {len(kinds)} arguments ({takes}), not {len(args)}. Name them: "
            f"sulq.Program(path, {spec.export!r}, columns=[...]), or call it with them."
        )  # fmt: skip
    given = tuple(_argument(spec.export, a, k) for a, k in zip(args, kinds, strict=True))
    names = frozenset[str]().union(*(a.columns() for a in given))
    if all(schema[name].public for name in names):
        raise refuse(
            spec.export, "reads public columns alone, or none. What is public is free and exact: "
            "write it as an expression, or give the program a private column too."
        )  # fmt: skip
    words = tuple(_words(spec.export, a, schema) for a in given)
    return made(Call(spec, words), given)


def made(call: Call, args: Sequence[Node]) -> Node:
    """The node of a call."""
    spec = call.spec
    kind = "number"
    if isinstance(spec.low, int):
        kind = "boolean" if (spec.low, spec.high) == (0, 1) else "integer"
    given = tuple(args)
    return node_of("program", given, kind, spec.low, spec.high, any_null(given), value=call)


def _constant(node: Node) -> Any:
    if node.op == "neg" and node.args[0].op == "literal":
        return -node.args[0].value
    if node.op != "literal":
        raise refuse("program", "its hash, name, low, high and fuel are constants.")
    return node.value


def _argument(name: str, a: Node, kind: int) -> Node:
    """An argument that a parameter of this type can hold."""
    if a.type == "null":
        return typed_null("integer")
    if kind in (F32, F64) or a.type in ("boolean", "text", "date"):
        return a
    if a.type == "number":
        raise refuse(
            name, f"takes a whole number ({NAMES[kind]}) where {shown(a)} is {kind_of(a)}: write "
            "round(x) or floor(x), or let the program take f64."
        )  # fmt: skip
    if kind == I32 and not -(2**31) <= a.low <= a.high < 2**31:
        raise refuse(
            name, f"takes i32 where {shown(a)} may be beyond 32 bits: declare its low and high, "
            "or let the program take i64 or f64."
        )  # fmt: skip
    return a


def _words(name: str, a: Node, schema: Schema) -> tuple[Any, ...]:
    """The declared values whose places stand for a category's words."""
    if a.type != "text":
        return ()
    values = schema[a.value].values if a.op == "column" else None
    if values is None:
        raise refuse(
            name, f"takes numbers, {shown(a)} is text: give a category's column, which counts as "
            "its place in the schema's list, or a condition such as starts_with(t, 'x')."
        )  # fmt: skip
    return tuple(values)
