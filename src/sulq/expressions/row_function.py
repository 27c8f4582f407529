"""@sulq.row: a Python function of named columns -> an expression that every engine runs.

A row function is the text of its expression, over columns named like its parameters: it can stand
wherever an expression can. Called with other columns, constants or expressions, it is theirs.
In SQL it is called by name, once `expand` knows it.
"""

from __future__ import annotations

import ast
import builtins
import datetime
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sulq.errors import QueryNotAllowed
from sulq.expressions import python_calls as calls
from sulq.expressions import python_texts as texts
from sulq.expressions.dialect import tokens_of
from sulq.expressions.parse import MAX_TEXT, check_size
from sulq.expressions.python_expressions import Unset
from sulq.expressions.python_reader import Reader
from sulq.expressions.python_terms import ATOM, OR, Term, column, constant, filled, mark
from sulq.values.schema import LARGEST

MAX_SOURCE = 50_000  # characters of Python
MAX_SQL = 100_000  # of a statement, its functions written out
MAX_CALLS = 1_000  # in one statement
MODULES = {"math": math, "datetime": datetime, "re": re}
BUILTINS: dict[str, Any] = {
    name: f
    for name, f in vars(builtins).items()
    if f is range or (callable(f) and (f in calls.FUNCTIONS or f in calls.SEVERAL))
}


class RowFunction(str):
    """A function of a row, as the text of its expression."""

    name: str
    parameters: tuple[str, ...]
    source: str
    function: Callable[..., Any] | None  # the Python function itself, to try it on values
    _body: Term
    _defaults: dict[str, Any]

    @classmethod
    def read(
        cls, f: ast.FunctionDef, source: str, outer: Callable[[str], Any], where: str,
        first_line: int = 1,
    ) -> RowFunction:  # fmt: skip
        """A function's syntax tree -> the row function."""
        reader = Reader(where, outer, first_line)
        names, defaults = _parameters(f, reader)
        body = reader.body(f, {name: mark(i) for i, name in enumerate(names)})
        given = [constant(defaults[n]) if n in defaults else column(n) for n in names]
        text = filled(body, given).text
        if len(text) > MAX_TEXT:
            raise reader.refuse(
                f,
                f"written out, {f.name} has {len(text):,} characters of SQL, at most {MAX_TEXT:,}: "
                "take fewer steps, or use a long result less often.",
            )
        self = cls(text)
        self.name, self.parameters, self.source = f.name, tuple(names), source
        self.function, self._body, self._defaults = None, body, defaults
        return self

    def __call__(self, *args: Any, **said: Any) -> str:
        """The expression over other columns: texts are expressions, all else is constant."""
        terms = [_given(a) for a in args]
        return self.applied(terms, {name: _given(a) for name, a in said.items()}).text

    def applied(self, args: Sequence[Any], said: Mapping[str, Any]) -> Term:
        """The term for some arguments, by place and by name."""
        if len(args) > len(self.parameters) or set(said) - set(self.parameters):
            raise QueryNotAllowed(f"{self.signature} does not take these arguments.")
        given = dict(zip(self.parameters, args, strict=False))
        if set(given) & set(said):
            raise QueryNotAllowed(f"{self.signature}: an argument was given twice.")
        given |= said
        lacking = [p for p in self.parameters if p not in given and p not in self._defaults]
        if lacking:
            raise QueryNotAllowed(f"{self.signature} wants {', '.join(lacking)} too.")
        terms = [given.get(p, self._defaults.get(p)) for p in self.parameters]
        return filled(self._body, [t if isinstance(t, Term) else constant(t) for t in terms])

    @property
    def signature(self) -> str:
        """As one calls it: score(age, income)."""
        return f"{self.name}({', '.join(self.parameters)})"

    def __repr__(self) -> str:
        return f"<row function {self.signature}: {str.__str__(self)}>"

    def __reduce__(self) -> Any:
        return str, (str(self),)


def row(function: Callable[..., Any]) -> RowFunction:
    """Make a row function of a Python function of named columns.

    >>> @sulq.row
    ... def risk(age, bmi):
    ...     if age > 65 or bmi > 35:
    ...         return 1
    ...     return 0.5 if bmi > 30 else 0
    >>> db.mean(risk)
    """
    if not inspect.isfunction(function):
        raise QueryNotAllowed("sulq.row takes a function: write @sulq.row above its def.")
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise QueryNotAllowed(
            f"the source of {function.__name__} cannot be read. Define it in a file or a notebook, "
            "or give its text to sulq.row_functions."
        ) from None
    tree = _syntax(source, function.__name__)
    found = next((f for f in tree.body if isinstance(f, ast.FunctionDef)), None)
    if found is None:
        raise QueryNotAllowed(f"{function.__name__}: write it as def, not as lambda.")
    closed = inspect.getclosurevars(function)
    known = {**closed.globals, **closed.nonlocals}
    made = RowFunction.read(
        found, source, lambda name: _outside(name, known), function.__name__,
        function.__code__.co_firstlineno,
    )  # fmt: skip
    made.function = function
    return made


def row_functions(source: str, where: str = "the definitions") -> dict[str, RowFunction]:
    """The functions that a Python text defines, each a row function. Nothing of it is run.

    The text holds functions, constants, and imports of math, datetime and sulq; a decorator
    @sulq.row or @row may stand above a function.
    """
    check_size(source, MAX_SOURCE)
    known: dict[str, Any] = {}
    reader = Reader(where, lambda name: _outside(name, known))
    for s in _syntax(source, where).body:
        if isinstance(s, ast.FunctionDef):
            if not all(ast.unparse(d) in ("sulq.row", "row") for d in s.decorator_list):
                raise reader.refuse(s, "the one decorator that is read is @sulq.row.")
            text = ast.get_source_segment(source, s) or ""
            known[s.name] = RowFunction.read(s, text, reader.outer, where)
        elif isinstance(s, ast.Import | ast.ImportFrom):
            known |= _imported(s, reader)
        elif not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)):
            names, _ = reader.statement(s, {})
            known |= names or {}
    found = {n: f for n, f in known.items() if isinstance(f, RowFunction)}
    if not found:
        raise QueryNotAllowed(f"{where}: there is no function. Write def score(age): return ...")
    return found


def expand(sql: str, *functions: RowFunction) -> str:
    """A statement or an expression in which the calls of row functions are written out."""
    return Expansion(functions).written(sql)


# ---- reading ------------------------------------------------------------------------------


def _syntax(source: str, where: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise QueryNotAllowed(
            f"{where}, line {error.lineno}, column {error.offset}: {error.msg}."
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise QueryNotAllowed(f"{where}: the text is nested too deeply.") from None


def _parameters(f: ast.FunctionDef, reader: Reader) -> tuple[list[str], dict[str, Any]]:
    a = f.args
    if a.vararg or a.kwarg or a.kwonlyargs:
        raise reader.refuse(f, "name each argument: a column, or a constant with a default.")
    names = [p.arg for p in (*a.posonlyargs, *a.args)]
    values = [reader.value(d, {}) for d in a.defaults]
    for node, value in zip(a.defaults, values, strict=True):
        if not calls.is_constant(value):
            raise reader.refuse(node, "a default is a constant.")
    return names, dict(zip(names[len(names) - len(values) :], values, strict=True))


def _outside(name: str, known: Mapping[str, Any]) -> Any:
    """What a name means that a function did not make itself; KeyError if nothing usable."""
    found = known[name] if name in known else {**MODULES, **BUILTINS}[name]
    return _constant(found) if name in known else found


def _constant(value: Any) -> Any:
    """A value from outside, if it is one that a row function may use."""
    if isinstance(value, RowFunction | range) or value in MODULES.values() or value in _LISTED:
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return tuple(_constant(v) for v in value)
    if isinstance(value, dict):
        return {k: _constant(v) for k, v in value.items()}
    number = isinstance(value, int) and abs(value) <= LARGEST
    if isinstance(value, Unset) or not (number or calls.is_constant(value)):
        raise KeyError(value)
    return value


class _Listed:
    """Functions of Python's that may be called; whatever cannot be hashed is none."""

    def __contains__(self, value: object) -> bool:
        try:
            known = value in calls.FUNCTIONS or value in calls.SEVERAL
            return callable(value) and (known or value in texts.MADE or value in texts.PATTERNS)
        except TypeError:
            return False


_LISTED = _Listed()


def _imported(s: ast.Import | ast.ImportFrom, reader: Reader) -> dict[str, Any]:
    if isinstance(s, ast.Import):
        if all(a.name in (*MODULES, "sulq") for a in s.names):
            return {a.asname or a.name: MODULES[a.name] for a in s.names if a.name in MODULES}
    elif s.module == "sulq" and all(a.name == "row" for a in s.names):
        return {}
    elif s.module in MODULES:
        found = {a.asname or a.name: getattr(MODULES[s.module], a.name, None) for a in s.names}
        if all(f in _LISTED or isinstance(f, float) for f in found.values()):
            return found
    raise reader.refuse(s, "of other modules, math, re, datetime and sulq.row are read.")


def _given(value: Any) -> Any:
    """An argument from Python: text is an expression, all else is constant."""
    if isinstance(value, str):
        plain = re.fullmatch(r"[A-Za-z_]\w*", value)
        return column(value) if plain else Term(str(value), OR)
    return constant(value)


# ---- calls in SQL -------------------------------------------------------------------------


class Expansion:
    """Writes out the calls of known functions in texts, so many calls in all of them."""

    def __init__(self, functions: Sequence[RowFunction]) -> None:
        self.known = {f.name.lower(): f for f in functions}
        self.calls = 0

    def written(self, sql: str) -> str:
        """A statement or an expression; the name of a function by itself is its expression."""
        if not isinstance(sql, str):
            return sql  # whoever reads it says what is wrong
        lower = sql.lower()
        if not any(name in lower for name in self.known):
            return sql
        check_size(sql, MAX_SQL)
        alone = self.known.get(lower.strip())
        return self.text(sql) if alone is None else str(alone)

    def text(self, sql: str) -> str:
        """A text with its calls written out, those within their arguments too."""
        from sqlglot.errors import SqlglotError

        try:
            tokens = tokens_of(sql)
        except SqlglotError:
            return sql  # whoever reads it says what is wrong
        out, at, i = [], 0, 0
        while i < len(tokens):
            name = tokens[i].text.lower()
            plain = sql[tokens[i].start : tokens[i].end + 1].lower() == name
            if name in self.known and plain and i + 1 < len(tokens) and tokens[i + 1].text == "(":
                end, args = self.arguments(sql, tokens, i + 1)
                out += [sql[at : tokens[i].start], self.call(name, args)]
                at, i = tokens[end].end + 1, end
            i += 1
        found = "".join(out) + sql[at:]
        if len(found) > MAX_SQL:
            raise QueryNotAllowed(
                f"with its functions written out, the statement has more than {MAX_SQL:,} "
                "characters."
            )
        return found

    def call(self, name: str, args: list[str]) -> str:
        """What stands for one call."""
        self.calls += 1
        if self.calls > MAX_CALLS:
            raise QueryNotAllowed(f"at most {MAX_CALLS:,} calls of row functions at once.")
        function = self.known[name]
        terms = [Term(self.text(a).strip(), OR) for a in args]
        short = [
            Term(t.text, ATOM) if re.fullmatch(r"\w+|\"[^\"]+\"", t.text) else t for t in terms
        ]
        return f"({function.applied(short, {}).text})"

    def arguments(self, sql: str, tokens: list[Any], first: int) -> tuple[int, list[str]]:
        """Where the bracket at `first` closes, and the texts between its commas."""
        depth, begin, found = 0, tokens[first].end + 1, []
        for i in range(first, len(tokens)):
            word = tokens[i].text if sql[tokens[i].start] in "()[]{}," else ""
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(word, 0)
            if (depth == 1 and word == ",") or depth == 0:
                found.append(sql[begin : tokens[i].start])
                begin = tokens[i].end + 1
            if depth == 0:
                return i, found if any(f.strip() for f in found) else []
        raise QueryNotAllowed("there is a ( without its partner.")
