"""The expressions of a row function: Python's syntax tree -> a term of SQL, or a constant.

What the language lacks is refused with its line and column, and with what to write instead.
"""

from __future__ import annotations

import ast
import datetime
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sulq.errors import QueryNotAllowed
from sulq.expressions import python_calls as calls
from sulq.expressions import python_texts as texts
from sulq.expressions.python_terms import (
    AND,
    OR,
    PRODUCT,
    SUM,
    Term,
    both,
    choice,
    compared,
    constant,
    fits,
    joined,
    negation,
    negative,
)

MAX_STEPS = 1_000  # times that the bodies of loops are written out, all together
MAX_WORK = 100_000  # terms that are looked at, long ones counted more often
Names = dict[str, Any]
Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Unset:
    """A name that only one way through an `if` has given a value."""


class Expressions:
    """Reads what stands for a value, given the names that have one."""

    def __init__(self, where: str, outer: Callable[[str], Any], first_line: int = 1) -> None:
        self.where = where  # the file or function, as messages name it
        self.outer = outer  # what a name means outside the function; KeyError if nothing
        self.first_line = first_line
        self.steps = self.work = 0

    def refuse(self, node: ast.AST, problem: str) -> QueryNotAllowed:
        """What is wrong and where, as an error to raise."""
        line = getattr(node, "lineno", 1) + self.first_line - 1
        column = getattr(node, "col_offset", 0) + 1
        return QueryNotAllowed(f"{self.where}, line {line}, column {column}: {problem}")

    # ---- expressions ----------------------------------------------------------------------

    def term(self, e: ast.expr, names: Names) -> Term:
        """An expression that is one value of a row."""
        found = self.value(e, names)
        if not is_term(found):
            raise self.refuse(e, "a row has one value here, not several; write them one by one.")
        return self.guarded(e, lambda: as_term(found))

    def value(self, e: ast.expr, names: Names) -> Any:
        """A term, or what is the same for all rows: a constant, a tuple, a range, a dict."""
        read = READERS.get(type(e))
        if read is None:
            raise self.refuse(e, _expression_hint(e))
        found = read(self, e, names)
        if isinstance(found, Term):
            self.guarded(e, lambda: fits([found]))
            self.work += len(found.text) // 100
        self.work += 1
        if self.work > MAX_WORK:
            raise self.refuse(
                e, f"written out, the function has too many steps, more than {MAX_WORK:,}."
            )
        return found

    def guarded(self, e: ast.AST, make: Callable[[], Given]) -> Given:
        """What a part of SQL refuses, with the place it has in Python."""
        try:
            return make()
        except (QueryNotAllowed, texts.Unlisted) as error:
            raise self.refuse(e, str(error)) from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self.refuse(e, f"{error}.") from None

    def _name(self, e: ast.Name, names: Names) -> Any:
        if e.id in names:
            if isinstance(names[e.id], Unset):
                raise self.refuse(e, f"{e.id!r} has no one value here: give it one on every way.")
            return names[e.id]
        try:
            return self.outer(e.id)
        except KeyError:
            raise self.refuse(
                e, f"{e.id!r} is no argument of the function and no constant."
            ) from None

    def binary(self, at: ast.AST, op: ast.operator, a: Any, b: Any) -> Any:
        """a op b."""
        if type(op) not in OPERATORS:
            raise self.refuse(at, "want one of + - * / // % **, or `and`, `or` for truth.")
        plain, terms = OPERATORS[type(op)]
        if isinstance(a, Term) or isinstance(b, Term):
            right = b if terms is calls.power else self.single(at, b)
            return self.guarded(at, lambda: terms(self.single(at, a), right))
        return self.guarded(at, lambda: calls.small(plain(calls.number(a), calls.number(b))))

    def single(self, at: ast.AST, value: Any) -> Term:
        """A value of one row as a term; a tuple is none."""
        if not is_term(value):
            raise self.refuse(at, "this is between single values, not tuples.")
        return self.guarded(at, lambda: as_term(value))

    def _unary(self, e: ast.UnaryOp, names: Names) -> Any:
        a = self.value(e.operand, names)
        if isinstance(e.op, ast.Not):
            return negation(a) if isinstance(a, Term) else not a
        if isinstance(e.op, ast.Invert):
            raise self.refuse(e, "write `not` before a condition.")
        if not isinstance(a, Term):
            return self.guarded(
                e, lambda: calls.number(a) if isinstance(e.op, ast.UAdd) else -calls.number(a)
            )
        return a if isinstance(e.op, ast.UAdd) else negative(a)

    def _boolean(self, e: ast.BoolOp, names: Names) -> Any:
        isand = isinstance(e.op, ast.And)
        terms: list[Term] = []
        for part in e.values:
            found = self.value(part, names)
            if isinstance(found, Term):
                terms.append(found)
            elif not isinstance(found, bool):
                raise self.refuse(part, "`and` and `or` stand between conditions: compare it.")
            elif found is not isand:  # decides alone
                return found if not terms else self._joined(e, isand, [*terms, constant(found)])
        return self._joined(e, isand, terms) if terms else isand

    def _joined(self, e: ast.AST, isand: bool, terms: list[Term]) -> Term:
        self.guarded(e, lambda: fits(terms))
        return joined("and", AND, terms) if isand else joined("or", OR, terms)

    def _compare(self, e: ast.Compare, names: Names) -> Any:
        sides = [self.value(x, names) for x in (e.left, *e.comparators)]
        pairs = zip(e.ops, sides, sides[1:], e.comparators, strict=False)
        found = [self._compared(e, op, a, b) for op, a, b, _ in pairs]
        terms = [f for f in found if isinstance(f, Term)]
        if not all(f for f in found if not isinstance(f, Term)):
            terms = [*terms, constant(False)] if terms else []
            return self._joined(e, True, terms) if terms else False
        return self._joined(e, True, terms) if terms else True

    def _compared(self, e: ast.Compare, op: ast.cmpop, a: Any, b: Any) -> Any:
        if isinstance(op, ast.In | ast.NotIn):
            found = self._contained(e, a, b)
            if not isinstance(op, ast.NotIn):
                return found
            return negation(found) if isinstance(found, Term) else not found
        if not (isinstance(a, Term) or isinstance(b, Term)):
            return self.guarded(e, lambda: COMPARISONS[type(op)][0](a, b))
        equal = isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot)
        if equal and (a is None or b is None):
            missing = calls.is_missing(self.single(e, b if a is None else a))
            return negation(missing) if isinstance(op, ast.NotEq | ast.IsNot) else missing
        if isinstance(op, ast.Is | ast.IsNot):
            raise self.refuse(e, "`is` asks for None only; write == between values.")
        left, right = (self.single(e, x) for x in (a, b))
        return compared(left, COMPARISONS[type(op)][1], right)

    def _contained(self, e: ast.Compare, a: Any, b: Any) -> Any:
        if isinstance(b, Term):
            return self.guarded(e, lambda: calls.contains(b, a))
        if not isinstance(b, tuple | range | dict | str):
            raise self.refuse(e, "`in` wants constants, such as (1, 2, 3), or a text.")
        if not isinstance(a, Term):
            return self.guarded(e, lambda: a in b)
        among = self.written_out(e, tuple(b) if isinstance(b, dict | str) else b)
        if isinstance(b, str) or not all(calls.is_constant(i) for i in among):
            raise self.refuse(e, "`in` wants constants, such as (1, 2, 3).")
        return self.guarded(e, lambda: calls.one_of(a, among))

    def _conditional(self, e: ast.IfExp, names: Names) -> Any:
        test = self.value(e.test, names)
        if not isinstance(test, Term):
            return self.value(e.body if test else e.orelse, names)
        found = self.chosen(test, self.value(e.body, names), self.value(e.orelse, names))
        if isinstance(found, Unset):
            raise self.refuse(e, "the two sides are not alike.")
        return found

    def _tuple(self, e: ast.Tuple | ast.List | ast.Set, names: Names) -> Any:
        return tuple(self.value(x, names) for x in e.elts)

    def _dict(self, e: ast.Dict, names: Names) -> Any:
        keys = [self.value(k, names) for k in e.keys if k is not None]
        if len(keys) < len(e.keys):
            raise self.refuse(e, "** is not read.")
        if not all(calls.is_constant(k) for k in keys):
            raise self.refuse(e, "the keys of a dict are constants here.")
        return dict(zip(keys, (self.value(v, names) for v in e.values), strict=True))

    def _subscript(self, e: ast.Subscript, names: Names) -> Any:
        known = self.value(e.value, names)
        if isinstance(e.slice, ast.Slice):
            return self._slice(e, e.slice, known, names)
        key = self.value(e.slice, names)
        if isinstance(known, texts.Parts):
            return self.guarded(e, lambda: texts.part(known, key))
        if isinstance(known, Term):
            return self.guarded(e, lambda: texts.letter(known, key))
        if isinstance(known, dict):
            if isinstance(key, Term):
                return self.guarded(e, lambda: calls.looked_up(key, known, constant(None)))
            return known.get(key)
        if not isinstance(known, tuple | range) or not isinstance(key, int):
            raise self.refuse(e, "want a constant place of a tuple, or the key of a dict.")
        if not -len(known) <= key < len(known):
            raise self.refuse(e, f"there is no place {key} in a tuple of {len(known)}.")
        return known[key]

    def _slice(self, e: ast.Subscript, s: ast.Slice, known: Any, names: Names) -> Any:
        ends = [None if x is None else self.value(x, names) for x in (s.lower, s.upper, s.step)]
        if isinstance(known, Term):
            return self.guarded(e, lambda: texts.sliced(known, *ends))
        if not isinstance(known, tuple | range | str) or any(isinstance(x, Term) for x in ends):
            raise self.refuse(e, "a slice is one of a text or a tuple, with constant places.")
        return self.guarded(e, lambda: known[slice(*ends)])

    def _attribute(self, e: ast.Attribute, names: Names) -> Any:
        owner = self.value(e.value, names)
        if owner is math and e.attr in calls.CONSTANTS:
            return calls.CONSTANTS[e.attr]
        if owner is math:
            found = getattr(math, e.attr, None)
            if found in calls.FUNCTIONS:
                return found
            raise self.refuse(e, f"math.{e.attr} is not allowed. {calls.HINTS.get(e.attr, LISTED)}")
        if owner is datetime and e.attr in ("date", "datetime"):
            return getattr(datetime, e.attr)
        if owner is re and getattr(re, e.attr, None) in texts.PATTERNS:
            return getattr(re, e.attr)
        if isinstance(owner, Term) and e.attr in calls.ATTRIBUTES:
            return self.guarded(e, lambda: calls.ATTRIBUTES[e.attr](owner))
        raise self.refuse(e, f"{e.attr!r} is not known here. {calls.HINTS.get(e.attr, LISTED)}")

    def _generated(self, e: ast.GeneratorExp | ast.ListComp, names: Names) -> Any:
        (one, *more) = e.generators
        if more or one.ifs or one.is_async:
            raise self.refuse(e, "one `for` over constants without `if` is read; write a loop.")
        return tuple(self.value(e.elt, self.assigned(one.target, item, names))
                     for item in self.items(one.iter, names))  # fmt: skip

    # ---- calls ----------------------------------------------------------------------------

    def _call(self, e: ast.Call, names: Names) -> Any:
        if isinstance(e.func, ast.Attribute):
            owner = self.value(e.func.value, names)
            if owner not in MODULES:
                return self._method(e, owner, names)
        found = self.value(e.func, names)
        if any(isinstance(a, ast.Starred) for a in e.args):
            raise self.refuse(e, "* is not read in a call; write the arguments one by one.")
        args = [self.value(a, names) for a in e.args]
        said = {k.arg or "**": self.value(k.value, names) for k in e.keywords}
        if hasattr(found, "applied"):  # another row function
            return self.guarded(e, lambda: found.applied(args, said))
        if said:
            raise self.refuse(e, "this function takes no arguments by name here.")
        if found in texts.MADE:
            return self.guarded(e, lambda: texts.of_constants(found, args))
        if found in texts.PATTERNS:
            return self.guarded(e, lambda: texts.PATTERNS[found](*args))
        if found in calls.SEVERAL and len(args) == 1 and isinstance(args[0], tuple | range):
            args = list(self.written_out(e, args[0]))
        elif found in calls.SEVERAL and (len(args) < 2 or found not in (min, max)):
            raise self.refuse(e, "wants a tuple of values, or for min and max several of them.")
        make = calls.SEVERAL.get(found) or calls.FUNCTIONS.get(found)
        if make is None:
            word = ast.unparse(e.func)
            raise self.refuse(e, f"{word} is not allowed. {calls.HINTS.get(word, LISTED)}")
        if not any(isinstance(a, Term) for a in args):
            whole = found in calls.SEVERAL and found not in (min, max)
            given = [tuple(args)] if whole else args
            return self.guarded(e, lambda: calls.small(found(*given)))
        terms = [self.single(e, a) for a in args]
        self.guarded(e, lambda: fits(terms))
        return self.guarded(e, lambda: make(*terms))

    def _method(self, e: ast.Call, owner: Any, names: Names) -> Any:
        assert isinstance(e.func, ast.Attribute)
        name, args = e.func.attr, [self.value(a, names) for a in e.args]
        if isinstance(owner, Term) and name == "replace" and not args:
            said = {k.arg or "**": self.value(k.value, names) for k in e.keywords}
            return self.guarded(e, lambda: texts.replaced(owner, said))
        if e.keywords:
            raise self.refuse(e, f"{name} takes no arguments by name here.")
        if isinstance(owner, dict) and name == "get" and 1 <= len(args) <= 2:
            default = args[1] if len(args) == 2 else None
            if not isinstance(args[0], Term):
                return owner.get(args[0], default)
            return self.guarded(e, lambda: calls.looked_up(args[0], owner, as_term(default)))
        if not isinstance(owner, Term) or name not in calls.METHODS:
            hint = calls.HINTS.get(name, LISTED)
            raise self.refuse(e, f"the method {name!r} is not known here. {hint}")
        return self.guarded(e, lambda: calls.METHODS[name](owner, *args))

    # ---- names ----------------------------------------------------------------------------

    def chosen(self, test: Term, a: Any, b: Any) -> Any:
        """One value or another."""
        if type(a) is type(b) and a == b:
            return a
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.chosen(test, x, y) for x, y in zip(a, b, strict=True))
        if not (is_term(a) and is_term(b)):
            return Unset()
        if isinstance(a, texts.Match) or isinstance(b, texts.Match):
            return texts.chosen_match(test, a, b) or Unset()
        return choice(test, as_term(a), as_term(b))

    def items(self, e: ast.expr, names: Names) -> Iterator[Any]:
        """The constants that a loop runs over."""
        found = self.value(e, names)
        if isinstance(found, dict):
            found = tuple(found)
        if not isinstance(found, range | tuple):
            raise self.refuse(e, "a loop runs over range(...) of constants or over a tuple.")
        for item in found:
            self._step(e, 1)
            yield item

    def written_out(self, e: ast.AST, found: range | tuple[Any, ...]) -> tuple[Any, ...]:
        """All of a range or a tuple, which are steps like those of a loop."""
        self._step(e, len(found) if isinstance(found, range) else 0)
        return tuple(found)

    def _step(self, e: ast.AST, count: int) -> None:
        self.steps += count
        if self.steps > MAX_STEPS:
            raise self.refuse(e, f"the loops and ranges have more than {MAX_STEPS:,} steps in all.")

    def assigned(self, target: ast.expr, value: Any, names: Names) -> Names:
        """The names with what a target now is."""
        if isinstance(target, ast.Name):
            return names | {target.id: value}
        if isinstance(target, ast.Tuple | ast.List):
            if not isinstance(value, tuple | range) or len(value) != len(target.elts):
                raise self.refuse(target, f"wants {len(target.elts)} values on its right.")
            for part, item in zip(target.elts, value, strict=True):
                names = self.assigned(part, item, names)
            return names
        raise self.refuse(target, "assign to a name, or to names with commas between them.")


# ---- small things -------------------------------------------------------------------------

MODULES = (math, datetime, re)
LISTED = "docs/howto/row-functions.md lists what is."
OPERATORS: dict[type, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Term]]] = {
    ast.Add: (operator.add, lambda a, b: both(a, "+", b, SUM)),
    ast.Sub: (operator.sub, lambda a, b: both(a, "-", b, SUM)),
    ast.Mult: (operator.mul, lambda a, b: both(a, "*", b, PRODUCT)),
    ast.Div: (operator.truediv, lambda a, b: both(a, "/", b, PRODUCT)),
    ast.FloorDiv: (operator.floordiv, calls.floor_divided),
    ast.Mod: (operator.mod, calls.modulo),
    ast.Pow: (lambda a, b: calls.constant_power(a, b), calls.power),
}
COMPARISONS: dict[type, tuple[Callable[[Any, Any], Any], str]] = {
    ast.Eq: (operator.eq, "="),
    ast.NotEq: (operator.ne, "<>"),
    ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="),
    ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="),
    ast.Is: (operator.is_, ""),
    ast.IsNot: (operator.is_not, ""),
}
READERS: Mapping[type, Callable[..., Any]] = {
    ast.Constant: lambda reader, e, names: e.value,
    ast.Name: Expressions._name,
    ast.BinOp: lambda reader, e, names: reader.binary(
        e, e.op, reader.value(e.left, names), reader.value(e.right, names)
    ),
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._conditional,
    ast.Tuple: Expressions._tuple,
    ast.List: Expressions._tuple,
    ast.Set: Expressions._tuple,
    ast.Dict: Expressions._dict,
    ast.Subscript: Expressions._subscript,
    ast.Attribute: Expressions._attribute,
    ast.GeneratorExp: Expressions._generated,
    ast.ListComp: Expressions._generated,
    ast.Call: Expressions._call,
}


def is_term(value: Any) -> bool:
    """Is it one value of a row?"""
    return isinstance(value, Term) or calls.is_constant(value)


def as_term(value: Any) -> Term:
    """One value of a row as a term."""
    return value if isinstance(value, Term) else constant(value)


def _expression_hint(e: ast.expr) -> str:
    hints = {
        ast.Lambda: "define it outside, with @sulq.row of its own.",
        ast.JoinedStr: "text is compared, not built.",
        ast.NamedExpr: "assign on a line of its own.",
        ast.DictComp: "write the dict out.",
        ast.SetComp: "write a tuple of constants.",
    }
    return hints.get(type(e), f"{type(e).__name__} is not part of row functions. {LISTED}")
