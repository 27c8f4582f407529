"""What predicates and other row functions tell apart: constants, every value, yes/no facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sulq.expressions.functions import KERNEL_ONLY
from sulq.expressions.node import Node
from sulq.expressions.pieces import Line, fact, line, small
from sulq.values.schema import Schema


class Looking:
    """Finds what predicates and other row functions can tell apart."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.constants: dict[str, set[Any]] = {}
        self.every: set[str] = set()  # columns whose every value must be looked at
        self.nodes: dict[str, Node] = {}
        self.facts: dict[str, Node] = {}
        self._cut: dict[str, tuple[int, bool, Line | None]] = {}  # by how many constants

    def copy(self) -> Looking:
        """What was found so far, to find more."""
        other = Looking(self.schema)
        other.nodes, other.facts, other.every = dict(self.nodes), dict(self.facts), set(self.every)
        other.constants = {name: set(found) for name, found in self.constants.items()}
        other._cut = dict(self._cut)
        return other

    def lines(self) -> tuple[Line, ...] | None:
        """What was found, in the order of their names; None if a column has too many pieces."""
        found: list[Line] = []
        for name, node in self.nodes.items():
            made = self._line(name, node)
            if made is None:
                return None
            found.append(made)
        found += [fact(f, is_public(f.columns(), self.schema)) for f in self.facts.values()]
        return tuple(sorted(found, key=lambda n: n.base.text))

    def _line(self, name: str, node: Node) -> Line | None:
        """A column in pieces; constants are only ever added, so as many are the same ones."""
        known, every = self.constants.get(name, ()), name in self.every
        count, was_every, made = self._cut.get(name, (-1, False, None))
        if (count, was_every) != (len(known), every):
            made = line(node, self.schema[name], sorted(known, key=str), every)
            self._cut[name] = len(known), every, made
        return made

    def look(self, node: Node) -> None:
        """A yes/no node: a comparison with a constant, a formula of such, or a fact."""
        if node.op == "literal":
            return
        compared = _compared(node)
        if compared is not None and self.schema[compared[0].value].type != "key":
            self.cut(*compared)
        elif not self.look_into(node):
            self.facts[node.text] = node

    def cut(self, column: Node, constants: Iterable[Any]) -> None:
        """A column that is compared with these constants."""
        self.nodes[column.value] = column
        self.constants.setdefault(column.value, set()).update(constants)

    def look_into(self, node: Node) -> bool:
        """Every value of the columns that a node is made of; False if they have too many."""
        bare, inside, exact = _below(node)
        if not exact or not all(small(self.schema[c.value]) for c in bare):
            return False
        for column in bare:
            self.nodes[column.value] = column
            self.every.add(column.value)
        for part in inside:
            self.look(part)
        return True


def _compared(node: Node) -> tuple[Node, list[Any]] | None:
    """A column and the constants it is compared with, if that is all there is."""
    if node.op == "column":
        return node, []
    if node.op not in ("eq", "lt", "is_null"):
        return None
    columns = [_inner(a) for a in node.args if a.op != "literal"]
    if len(columns) != 1 or columns[0] is None:
        return None
    return columns[0], [a.value for a in node.args if a.op == "literal" and a.value is not None]


def _inner(node: Node) -> Node | None:
    """The column itself where it is compared as a number."""
    while node.op in ("to_number", "to_integer") and node.args[0].type in ("boolean", "integer"):
        node = node.args[0]
    return node if node.op == "column" else None


def _below(node: Node) -> tuple[list[Node], list[Node], bool]:
    """The columns and the yes/no parts that a node is made of; False: not to be evaluated here."""
    bare: dict[str, Node] = {}
    inside: list[Node] = []
    todo, exact = list(node.args or [node]), node.op not in KERNEL_ONLY
    while todo:
        part = todo.pop()
        if part.type == "boolean" and part.op != "literal":
            inside.append(part)
        elif part.op == "column":
            bare[part.text] = part
        else:
            exact = exact and part.op not in KERNEL_ONLY
            todo.extend(part.args)
    return list(bare.values()), inside, exact


def is_public(names: frozenset[str], schema: Schema) -> bool:
    """Are these columns, all of which are public?"""
    return bool(names) and all(schema[n].public for n in names)
