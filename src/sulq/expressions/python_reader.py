"""A Python function's syntax tree -> the SQL expression that has its value on every row.

The function is run by hand once, with terms of SQL in place of values: an assignment names a term,
an `if` becomes a CASE, a loop over constants is unrolled. Nothing of it is ever executed. What the
language lacks is refused with its line and column, and with what to write instead.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sulq.expressions.python_expressions import LISTED, Expressions, Names, Unset, as_term
from sulq.expressions.python_terms import Term, choice, constant


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a function goes on behind the statements that were read."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What a function returns: one thing or the other."""

    condition: Term
    then: Any
    last: Any


HOLE = Hole()
Flow = tuple[Names | None, Any]  # the names behind some statements, and what was returned before


class Reader(Expressions):
    """Reads the body of one function."""

    def body(self, function: ast.FunctionDef, names: Names) -> Term:
        """The term that a function returns."""
        try:
            after, returned = self.block(function.body, names)
            return written(returned if after is None else put(returned, constant(None)))
        except RecursionError:
            raise self.refuse(function, "the function is nested too deeply.") from None

    def block(self, statements: Sequence[ast.stmt], names: Names) -> Flow:
        """Read statements in order; what stands behind a return is not read."""
        returned: Any = HOLE
        current: Names | None = names
        for statement in statements:
            if current is None:
                break
            current, more = self.statement(statement, current)
            returned = put(returned, more)
        return current, returned

    def statement(self, s: ast.stmt, names: Names) -> Flow:
        """Read one statement."""
        if isinstance(s, ast.Return):
            found = constant(None) if s.value is None else self.term(s.value, names)
            return None, found
        if isinstance(s, ast.If):
            return self._if(s, names)
        if isinstance(s, ast.For):
            return self._for(s, names)
        if isinstance(s, ast.Assign):
            value = self.value(s.value, names)
            for target in s.targets:
                names = self.assigned(target, value, names)
            return names, HOLE
        if isinstance(s, ast.AnnAssign) and s.value is not None:
            return self.assigned(s.target, self.value(s.value, names), names), HOLE
        if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name):
            read = ast.copy_location(ast.Name(s.target.id, ast.Load()), s.target)
            found = self.binary(s, s.op, self.value(read, names), self.value(s.value, names))
            return names | {s.target.id: found}, HOLE
        docstring = isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)
        if docstring or isinstance(s, ast.Pass):
            return names, HOLE
        raise self.refuse(s, _statement_hint(s))

    def _if(self, s: ast.If, names: Names) -> Flow:
        test = self.value(s.test, names)
        if not isinstance(test, Term):
            return self.block(s.body if test else s.orelse, names)
        then, last = self.block(s.body, dict(names)), self.block(s.orelse, dict(names))
        if then[1] is HOLE and last[1] is HOLE:
            returned: Any = HOLE
        else:
            returned = Branch(test, then[1], last[1])
        if then[0] is None or last[0] is None:
            return (last[0] if then[0] is None else then[0]), returned
        return self._merged(test, then[0], last[0]), returned

    def _merged(self, test: Term, then: Names, last: Names) -> Names:
        """The names behind an `if`."""
        everything = dict.fromkeys([*then, *last])
        self.work += len(everything)
        return {n: self.chosen(test, then.get(n, Unset()), last.get(n, Unset()))
                for n in everything}  # fmt: skip

    def _for(self, s: ast.For, names: Names) -> Flow:
        if s.orelse:
            raise self.refuse(s, "a loop has no else here; write it behind the loop.")
        returned: Any = HOLE
        current: Names | None = names
        for item in self.items(s.iter, names):
            if current is None:
                break
            current, more = self.block(s.body, self.assigned(s.target, item, current))
            returned = put(returned, more)
        return current, returned


def put(returned: Any, more: Any) -> Any:
    """What was returned before, and behind it, where the function went on, what was then."""
    if returned is HOLE:
        return more
    if more is HOLE or not isinstance(returned, Branch):
        return returned
    return Branch(returned.condition, put(returned.then, more), put(returned.last, more))


def written(returned: Any) -> Term:
    """A returned value as one term."""
    if isinstance(returned, Branch):
        return choice(returned.condition, written(returned.then), written(returned.last))
    return constant(None) if returned is HOLE else as_term(returned)


def _statement_hint(s: ast.stmt) -> str:
    hints = {
        ast.While: "`while` may never end; write for i in range(...) with a constant end.",
        ast.Raise: "a row function cannot fail; return None, and the row is missing.",
        ast.Try: "nothing fails here; what Python would raise for is missing.",
        ast.Assert: "a row function cannot fail; return None, and the row is missing.",
        ast.Break: "`break` is not read; use `return`, or keep the result in a name with `if`.",
        ast.Continue: "`continue` is not read; put the rest of the loop under an `if`.",
        ast.FunctionDef: "define it outside, with @sulq.row of its own.",
        ast.Match: "write if and elif.",
    }
    return hints.get(type(s), f"{type(s).__name__} is no statement of row functions. {LISTED}")
