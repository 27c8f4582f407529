"""One form for all predicates that are true of the same rows, however they are written.

A predicate looks at a few pieces of each column's values (pieces.py). What it says of every
combination of pieces is its truth table; the table is written back as a predicate in one way only.
So `b`, `b = true` and `not not b` are one question, and so are `age > 40` and `age >= 41` of whole
numbers. "True" is what counts, as in a WHERE: false and missing are the same here. Parts that a
table would be too large for, or that look at long texts and wide numbers in other ways than by
comparing them with constants, stay as they are: two forms of one question are then paid twice, but
never do two questions get one form.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sulq.errors import QueryNotAllowed
from sulq.expressions.distinctions import Looking, is_public
from sulq.expressions.functions import call
from sulq.expressions.node import Node, literal
from sulq.expressions.operations import Evaluator
from sulq.expressions.pieces import Line, between
from sulq.expressions.program_node import made
from sulq.values.schema import Schema

MAX_CELLS = 2**14  # of a truth table
MAX_PARTS = 500  # of a predicate written from one
MAX_LINES = 6  # columns among which independent groups are looked for

Table = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Split:
    """A predicate as public rows and the private rest; None is everybody."""

    rows: Node | None
    where: Node | None


@lru_cache(maxsize=4096)
def split(node: Node, schema: Schema) -> Split:
    """The public rows that a predicate can be true of, and what it says beyond that."""
    rows: list[Node] = []
    where: list[Node] = []
    for part in _parts(node, schema):
        if isinstance(part, Node):
            (rows if is_public(part.columns(), schema) else where).append(part)
            continue
        private = tuple(i for i, n in enumerate(part.lines) if not n.public)
        if len(private) < len(part.lines) or not part.lines:
            rows.append(part.without(private).node)
        if private:
            where.append(part.node)
    return Split(_all(rows), _all(where))


def by_terms(terms: list[Node], schema: Schema) -> tuple[Node | None, Node | None]:
    """Public rows and the rest, term by term as they stand: how it was done before."""
    whole = terms[-1]
    if len(terms) == 1 and not any(schema[n].public for n in whole.columns()):
        return None, whole
    parts = [p for term in terms for p in (term.args if term.op == "and" else (term,))]
    public = [p for p in parts if is_public(p.columns(), schema)]
    private = [p for p in parts if not is_public(p.columns(), schema)]
    return (call("and", *public) if public else None), (call("and", *private) if private else None)


@lru_cache(maxsize=4096)
def truth(node: Node, schema: Schema) -> Node:
    """The one predicate that is true of the same rows."""
    parts = [p if isinstance(p, Node) else p.node for p in _parts(node, schema)]
    return call("and", *parts) if parts else literal(True)


@lru_cache(maxsize=4096)
def value(node: Node, schema: Schema) -> Node:
    """A row function with its conditions in normal form; one of 0 and 1 as a predicate.

    A missing value adds 0 to a sum, so what is 0, missing or false is the same here.
    """
    if counts(node):
        found = truth(_is_one(node), schema)
        if found.op != "literal":
            return found
        return literal(1) if found.value else node
    return exactly(node, schema)


def counts(node: Node) -> bool:
    """Is it 0 or 1 wherever it is known?"""
    return node.type in ("boolean", "integer") and node.low >= 0 and node.high <= 1


def folded(node: Node) -> tuple[Node, Node | None]:
    """A sum of what a row counts -> what is summed, and for which rows: SUM(CASE WHEN p ...)."""
    if node.op == "literal":
        return (literal(1) if node.value is True else node), None
    if counts(node):
        return literal(1), _is_one(node)
    if node.op == "case" and len(node.args) == 3:
        condition, then, last = node.args
        nothing = last.op == "literal" and last.value is None
        zero = last.op == "literal" and last.value == 0 and node.type == "integer"
        if nothing or (zero and then.low >= 0):
            return then, condition
    return node, None


def _is_one(node: Node) -> Node:
    return node if node.type == "boolean" else call("eq", node, literal(1))


def exactly(node: Node, schema: Schema) -> Node:
    """The same function, missing where it was, each WHEN in normal form."""
    if not node.args:
        return node
    args = [exactly(a, schema) for a in node.args]
    if node.op == "case":
        args[:-1:2] = [truth(a, schema) for a in node.args[:-1:2]]
    return _rebuilt(node, args)


# ---- tables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A truth table over some lines, independent of the rest of the predicate."""

    lines: tuple[Line, ...]
    table: Table

    def without(self, places: tuple[int, ...]) -> _Part:
        """What the other lines must be for it to be true at all."""
        if not places:
            return self
        kept = tuple(n for i, n in enumerate(self.lines) if i not in places)
        return _Part(kept, np.asarray(self.table.any(axis=places)))

    @cached_property
    def node(self) -> Node:
        return _written(self.lines, self.table)


@dataclass(frozen=True, slots=True)
class _Factored:
    """A truth table of so many cells, as independent parts that must all be true."""

    cells: int
    parts: tuple[_Part, ...]

    def kept(self) -> _Factored | None:
        """Itself, unless it would be too long to write."""
        written = _all([part.node for part in self.parts])
        return self if written is None or written.size <= MAX_PARTS else None


def _parts(node: Node, schema: Schema) -> list[_Part | Node]:
    """A predicate as independent parts that must all be true."""
    groups = _groups(node.args) if node.op == "and" else []
    found = (_by_groups(groups, schema) if len(groups) > 1 else None) or _factored(node, schema)
    if found is not None:
        return list(found.parts)
    simple = node if node.op == "and" else _plain_or_not(node)
    terms = simple.args if simple.op == "and" else (node,)
    groups = _groups(terms)
    if len(groups) == 1:
        return list(terms)
    return [p for group in groups for p in _parts(call("and", *group), schema)]


def _by_groups(groups: list[list[Node]], schema: Schema) -> _Factored | None:
    """What `_factored` finds for groups without a column in common, each by itself.

    None where that may be another thing, for a table too large or with too many lines.
    """
    cells, parts = 1, list[_Part]()
    for group in groups:
        found = _factored(call("and", *group), schema)
        if found is None:
            return None
        cells *= found.cells
        parts += found.parts
    if cells > MAX_CELLS or sum(len(part.lines) for part in parts) > MAX_LINES:
        return None
    false = [part for part in parts if not part.table.any()]
    return _Factored(cells, tuple(false[:1] or parts)).kept()


@lru_cache(maxsize=256)  # few, since a table may have MAX_CELLS
def _factored(node: Node, schema: Schema) -> _Factored | None:
    """The truth table of a predicate in parts; None if it would be too large."""
    try:
        found = _between(node, schema) or _table(plain(node), schema)
        if found is None:
            return None
        cells, whole = found
        return _Factored(cells, tuple(_factors(whole.lines, whole.table))).kept()
    except QueryNotAllowed:  # too many parts for a table, not for a question
        return None


def _plain_or_not(node: Node) -> Node:
    try:
        return plain(node)
    except QueryNotAllowed:  # it would have too many parts
        return node


def _groups(terms: tuple[Node, ...]) -> list[list[Node]]:
    """Terms that share columns, together."""
    groups: list[tuple[set[str], list[Node]]] = []
    for term in terms:
        names, together = set(term.columns()), [term]
        for group in [g for g in groups if g[0] & names]:
            groups.remove(group)
            names |= group[0]
            together = group[1] + together
        groups.append((names, together))
    return [g for _, g in groups]


def _table(node: Node, schema: Schema) -> tuple[int, _Part] | None:
    """How many cells its table has, and what is needed of it."""
    looking = Looking(schema)
    looking.look(node)
    lines = looking.lines()
    if lines is None:
        return None
    shape = tuple(len(n) for n in lines)
    size = math.prod(shape)
    if size > MAX_CELLS:
        return None
    places = np.unravel_index(np.arange(size), shape) if shape else ()
    vectors = {n.base.text: n.vector(at) for n, at in zip(lines, places, strict=True)}
    named = [n for n in lines if n.base.op == "column"]
    known = {t: v for t, v in vectors.items() if not t.startswith("c:")}
    batch = Evaluator({n.base.value: vectors[n.base.text] for n in named}, size, schema, known)
    return size, _needed(lines, batch.true(node).reshape(shape))


def _between(node: Node, schema: Schema) -> tuple[int, _Part] | None:
    """The same, quickly, for a column of whole numbers from one constant to another."""
    found = between(node, schema)
    if found is None:
        return None
    only, inside = found
    return len(only), _needed((only,), np.array(inside))


def _needed(lines: tuple[Line, ...], table: Table) -> _Part:
    """The same table without lines that do not matter."""
    dropped = [i for i in range(len(lines)) if (table == table.take([0], axis=i)).all()]
    return _Part(lines, table).without(tuple(dropped))


# ---- writing --------------------------------------------------------------------------------


def _all(parts: list[Node]) -> Node | None:
    needed = [p for p in parts if not (p.op == "literal" and p.value)]
    return call("and", *needed) if needed else None


def _written(lines: tuple[Line, ...], table: Table) -> Node:
    """The one predicate with this truth table."""
    if not lines or table.all() or not table.any():
        return literal(bool(table.any()))
    if len(lines) == 1:
        return lines[0].node(np.flatnonzero(table).tolist())
    parts = _factors(lines, table)
    if len(parts) > 1:
        return call("and", *(p.node for p in parts))
    parts = _factors(lines, ~table)
    if len(parts) > 1:
        return call("or", *(_written(p.lines, ~p.table) for p in parts))
    branches: dict[bytes, list[int]] = {}
    for i in range(len(lines[0])):
        if table[i].any():
            branches.setdefault(table[i].tobytes(), []).append(i)
    return call("or", *(
        call("and", lines[0].node(at), _needed(lines[1:], table[at[0]]).node)
        for at in branches.values()
    ))  # fmt: skip


def _factors(lines: tuple[Line, ...], table: Table) -> list[_Part]:
    """The table as a product of tables over separate lines, as many as there are."""
    left, out = tuple(range(len(lines))), []
    if len(lines) == 1 or not table.any():
        return [_Part(lines, table)]
    while left:
        first, others = left[0], left[1:]
        most = len(others) if len(left) <= MAX_LINES else 1
        for some in itertools.chain.from_iterable(
            itertools.combinations(others, n) for n in range(most)
        ):
            group = (first, *some)
            if _independent(table, lines, group, left):
                break
        else:
            group = left
        out.append(_Part(tuple(lines[i] for i in group), _shadow(table, group)))
        left = tuple(i for i in left if i not in group)
    return out


def _shadow(table: Table, group: tuple[int, ...]) -> Table:
    """For which values of these lines it can be true."""
    return np.asarray(table.any(axis=tuple(i for i in range(table.ndim) if i not in group)))


def _independent(
    table: Table, lines: tuple[Line, ...], group: tuple[int, ...], left: tuple[int, ...]
) -> bool:
    """Is it true exactly where both shadows are?"""
    rest = tuple(i for i in left if i not in group)
    both = tuple(sorted((*group, *rest)))
    seen = _shadow(table, both)
    a = _shadow(table, group).reshape([len(lines[i]) if i in group else 1 for i in both])
    b = _shadow(table, rest).reshape([len(lines[i]) if i in rest else 1 for i in both])
    return bool(np.array_equal(seen, a & b))


# ---- fewer kinds of nodes -------------------------------------------------------------------


@lru_cache(maxsize=4096)
def plain(node: Node) -> Node:
    """The same function with =, < and IS NULL only, and no other comparison."""
    if not node.args:
        return node
    args = [plain(a) for a in node.args]
    if node.op == "ne":
        return call("not", call("eq", *args))
    if node.op == "le":
        return call("not", call("lt", args[1], args[0]))
    if node.op == "in":
        return call("or", *(call("eq", args[0], item) for item in args[1:]))
    return _rebuilt(node, args)


def _rebuilt(node: Node, args: list[Node]) -> Node:
    """The node over other arguments of the same types."""
    if [a.text for a in args] == [a.text for a in node.args]:
        return node
    if node.op in ("days", "shift"):
        return call("sub" if node.op == "days" else "add", *args)
    if node.op == "program":
        return made(node.value, args)
    if node.op in ("part", "trunc"):
        return call(node.op, *args, literal(node.value))
    return call(node.op, *args)
