"""What an accepted module may be, and what fuel a run of it takes at most.

Fuel is counted in instructions. A function's own instructions are paid when it is entered, a loop's
at each of its rounds; so what was paid is never less than what was run.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sulq.errors import QueryNotAllowed
from sulq.programs import opcodes as op
from sulq.programs.binary import Function, FunctionType, Module

MAX_PARAMETERS = 32


@dataclass(frozen=True)
class Weights:
    """What a function pays: for its own instructions, and for one round of each of its loops."""

    entry: int
    loops: dict[int, int]  # by the place of the loop among the instructions
    calls: list[int] = field(default_factory=list)  # functions, once for each place


def export_type(module: Module, name: str) -> FunctionType:
    """What the function of this name takes and gives; refuse one that is no function of a row."""
    if name not in module.exports:
        known = ", ".join(sorted(module.exports)[:20]) or "none"
        raise QueryNotAllowed(
            f"program: there is no exported function {name[:80]!r}. It exports: {known}."
        )
    found = module.type_of(module.exports[name])
    if len(found.results) != 1:
        raise QueryNotAllowed(f"program: {name} gives {len(found.results)} values, want one.")
    if not 1 <= len(found.parameters) <= MAX_PARAMETERS:
        raise QueryNotAllowed(
            f"program: {name} takes {len(found.parameters)} values, want 1 to {MAX_PARAMETERS}."
        )
    return found


def weights_of(function: Function) -> Weights:
    """Count a function's instructions, those of each loop by themselves."""
    entry, loops, calls = 0, dict[int, int](), list[int]()
    inside: list[int | None] = [None]  # the loop that each open block is in
    for place, instruction in enumerate(function.body):
        code = instruction.code
        if code == op.LOOP:
            loops[place] = 0
        loop = place if code == op.LOOP else inside[-1]
        if loop is None:
            entry += 1
        else:
            loops[loop] += 1
        if code == op.CALL:
            calls.append(instruction.value)
        if code in op.WITH_BLOCK_TYPE:
            inside.append(loop)
        elif code == op.END:
            inside.pop()
    return Weights(entry, loops, calls)


def check_calls(weights: list[Weights]) -> list[int | None]:
    """The most fuel that each function can take, None where it has loops; refuse recursion."""
    found: dict[int, int | None] = {}
    for first in range(len(weights)):
        todo, open_ = [(first, False)], set[int]()
        while todo:
            f, done = todo.pop()
            if done:
                open_.discard(f)
                found[f] = _fuel(weights[f], found)
            elif f not in found:
                open_.add(f)
                todo.append((f, True))
                for g in weights[f].calls:
                    if g in open_:
                        raise QueryNotAllowed(
                            f"program: function {g} calls itself, directly or through others. "
                            "Recursion is not allowed: write a loop."
                        )
                    todo.append((g, False))
    return [found[f] for f in range(len(weights))]


def _fuel(weights: Weights, found: dict[int, int | None]) -> int | None:
    total = weights.entry
    for g in weights.calls:
        most = found[g]
        if most is None:
            return None
        total += most
    return None if weights.loops else total
