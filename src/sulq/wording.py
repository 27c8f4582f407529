"""A charge's canonical text -> words a person reads, and the Query it came from.

The ledger keeps questions as JSON with s-expressions, so that equal questions are equal texts.
Here they become "count where age > 40 and smoker". Best effort: what has no short wording is
shown as it is stored. Nothing is charged by these words.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sulq.query import Bins, Blocks, Mean, Partition, Query, Rows, Terms, Values

UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, SyntaxError)
LONGEST = 400  # letters of a question in a list
TOKEN = re.compile(
    r"""\s*(?:
      (?P<open>\() | (?P<close>\))
    | (?P<list>\[[^\]]*\])
    | (?P<kind>[cbifdt]):(?P<value>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\s()]+)
    | (?P<text>'(?:\\.|[^'\\])*')
    | (?P<word>[^\s()]+)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Step:
    """One operation of an s-expression: its name and what stands in it."""

    op: str
    args: tuple[Any, ...] = ()


# ---- reading --------------------------------------------------------------------------------


def _read(text: str) -> Step:
    """Read one s-expression; ValueError if it is none."""
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if found is None:
            raise ValueError(text)
        at = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            op, *args = stack.pop()
            stack[-1].append(Step(op.args[0], tuple(args)))
        else:
            stack[-1].append(_atom(found))
    ((only,),) = stack
    assert isinstance(only, Step)
    return only


def _atom(found: re.Match[str]) -> Step:
    if found["list"]:
        return Step("list", tuple(ast.literal_eval(found["list"])))
    if found["text"]:
        return Step("word", (ast.literal_eval(found["text"]),))
    if found["word"]:
        return Step("word", (found["word"],))
    kind, value = found["kind"], found["value"]
    if kind in "ct":
        return Step({"c": "column", "t": "text"}[kind], (ast.literal_eval(value),))
    if kind == "b":
        return Step("literal", ("true" if value == "1" else "false",))
    return Step("literal", (f"date '{value}'" if kind == "d" else value,))


def _say(text: str) -> Step:
    """Read for people: 2.0 as 2, though SQL would tell them apart."""
    return _short(_read(text))


def _short(step: Step) -> Step:
    if step.op == "literal":
        return Step("literal", (re.sub(r"^(-?\d+)\.0$", r"\1", step.args[0]),))
    return Step(step.op, tuple(_short(a) if isinstance(a, Step) else a for a in step.args))


# ---- SQL ------------------------------------------------------------------------------------

INFIX = {"or": 1, "and": 2, "eq": 4, "ne": 4, "lt": 4, "le": 4, "add": 5, "sub": 5, "days": 5,
         "shift": 5, "mul": 6, "div": 6, "mod": 6}  # fmt: skip
SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "add": "+", "sub": "-", "mul": "*",
         "div": "/", "mod": "%", "days": "-", "shift": "+"}  # fmt: skip
FLIPPED = {"lt": ">", "le": ">="}
NOT, LOOSE, TIGHT = 3, 4, 9  # how tightly the rest binds
PLAIN = ("abs", "sign", "floor", "ceil", "round", "sqrt", "ln", "exp", "power", "least",
         "greatest", "coalesce", "length", "lower", "upper", "xor")  # fmt: skip


def _sql(step: Step, outer: int = 0) -> str:
    """Write a step as SQL, in brackets where the outer operation binds tighter."""
    text, tightness = _written(step)
    return f"({text})" if tightness < outer else text


def _written(step: Step) -> tuple[str, int]:
    op, args = step.op, step.args
    if op == "column":
        return _name(args[0]), TIGHT
    if op == "text":
        return "'" + args[0].replace("'", "''") + "'", TIGHT
    if op in ("literal", "word"):
        return str(args[0]), 6 if str(args[0]).startswith("-") else TIGHT
    if op in INFIX:
        return _infix(op, args), INFIX[op]
    if op in ("to_number", "to_integer"):  # SQL does these by itself where they are needed
        return _written(args[0])
    if op == "not" and args[0].op == "is_null":
        return f"{_sql(args[0].args[0], LOOSE + 1)} is not null", LOOSE
    if op == "not":
        return f"not {_sql(args[0], NOT)}", NOT
    if op == "neg":
        return f"-{_sql(args[0], 7)}", 6
    if op == "is_null":
        return f"{_sql(args[0], LOOSE + 1)} is null", LOOSE
    if op == "in":
        return f"{_sql(args[0], LOOSE + 1)} in ({', '.join(map(_sql, args[1:]))})", LOOSE
    if op == "like":
        return f"{_sql(args[0], LOOSE + 1)} like {_sql(args[1])}", LOOSE
    if op == "case":
        pairs = zip(args[:-1:2], args[1:-1:2], strict=True)
        branches = " ".join(f"when {_sql(a)} then {_sql(b)}" for a, b in pairs)
        return f"case {branches} else {_sql(args[-1])} end", TIGHT
    if op == "part":
        return f"extract({args[0].args[0]} from {_sql(args[1])})", TIGHT
    if op in PLAIN:
        return f"{op}({', '.join(map(_sql, args))})", TIGHT
    raise ValueError(op)


def _infix(op: str, args: tuple[Step, ...]) -> str:
    level = INFIX[op]
    if op in ("and", "or"):
        return f" {op} ".join(_sql(a, level + 1) for a in sorted(args, key=_simple_last))
    a, b = args
    sign = SIGNS[op]
    if op in FLIPPED and a.op == "literal":
        a, b, sign = b, a, FLIPPED[op]
    elif op in ("eq", "ne") and a.op in ("literal", "text"):
        a, b = b, a
    # a - (b - c) keeps its brackets; comparisons do not chain.
    return f"{_sql(a, level + (level == LOOSE))} {sign} {_sql(b, level + 1)}"


def _simple_last(step: Step) -> bool:
    return step.op in ("column", "not")


def _name(name: str) -> str:
    plain = re.fullmatch(r"[A-Za-z_]\w*", name) and name.lower() not in RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


RESERVED = frozenset({
    "all", "and", "any", "as", "between", "by", "case", "cast", "date", "else", "end", "exists",
    "false", "from", "group", "in", "is", "like", "not", "null", "on", "or", "order", "select",
    "table", "then", "true", "union", "user", "when", "where", "xor",
})  # fmt: skip


# ---- questions ------------------------------------------------------------------------------


ONE = ("i:1", "b:1")  # what a count adds up


def parts_of(canonical: str) -> list[str]:
    """The texts of a question asked in several parts, as a SQL statement is; or its own."""
    return json.loads(canonical) if canonical.startswith("[") else [canonical]


def readable(canonical: str) -> str:
    """Say a stored question in words; the stored text itself if that fails."""
    try:
        parts = [_sentence(json.loads(part)) for part in parts_of(canonical)]
        return _shorten("; ".join(parts))
    except UNREADABLE:
        return _shorten(canonical)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _sentence(body: dict[str, Any]) -> str:
    if "batch" in body:
        return f"a batch of {len(body['batch']):,} questions, charged one by one"
    parts = [_what(body)]
    if body.get("by"):
        parts.append("by " + " and ".join(_axis_words(a) for a in body["by"]))
    if body.get("sample"):
        share = Fraction(body["sample"][-1], 2**31 - 1)
        parts.append(f"over a seeded sample of {float(share):.3g} of the rows")
    terms = [_say(body[name]) for name in ("rows", "where") if body.get(name)]
    if terms:  # a lone OR needs no brackets
        inside = INFIX["and"] if len(terms) == 2 else 0
        parts.append("where " + " and ".join(_sql(term, inside) for term in terms))
    if body.get("error"):
        parts.append(f"within {float(Fraction(body['error'])):,.6g}")
    return " ".join(parts)


def _what(body: dict[str, Any]) -> str:
    values, kind = body["values"], body["kind"]
    if kind == "mean":
        return f"mean({_sql(_say(values[1]))})"
    if isinstance(values, str):  # several columns at once
        points = ast.literal_eval(values[values.index("[") : values.rindex("]") + 1])
        return f"{kind} of {', '.join(_sql(_say(p)) for p in points)}"
    return ", ".join("count" if v in ONE else f"sum({_sql(_say(v))})" for v in values)


def _axis_words(text: str) -> str:
    if text.startswith("(bins "):
        step = _say(text)
        edges = step.args[1].args
        return f"{_sql(step.args[0])} in {len(edges) - 1} bins from {edges[0]:g} to {edges[-1]:g}"
    if text.startswith("(blocks "):
        seed, count = text[8:-1].split()
        return f"{int(count):,} blocks (seed {seed})"
    for start, words in AXES.items():
        if text.startswith(f"({start} "):
            return words
    return _sql(_say(text))


AXES = {"nearest": "nearest centre", "side": "side of a plane", "leaf": "leaf of a tree"}


def query_of(canonical: str) -> Query | None:
    """The Query a stored text came from, as far as it can be told; check it by its own text."""
    try:
        body = json.loads(canonical)
        if body.get("sample") or isinstance(body["values"], str):
            return None
        return Query(
            values=_values(body),
            by=tuple(_axis(text) for text in body["by"]) or None,
            where=_sql(_read(body["where"])) if "where" in body else None,
            rows=Rows.where(_sql(_read(body["rows"]))) if "rows" in body else None,
            error=Fraction(body["error"]) if "error" in body else None,
        )
    except UNREADABLE:
        return None


def _values(body: dict[str, Any]) -> Values:
    steps = [_read(v) for v in body["values"]]
    if body["kind"] == "mean":
        return Mean(_sql(steps[1]))
    if body["kind"] == "list":
        return tuple(map(_sql, steps))
    groups: dict[int, list[str]] = {}
    for i, row in enumerate(body["mix"]):
        counts = [j for j, x in enumerate(row) if x and j != i]
        if counts:  # a sum about the middle, taken with the count of its group
            group = groups.setdefault(counts[0], [_sql(_ungated(steps[counts[0]], "coalesce", 0))])
            group.append(_sql(_ungated(steps[i], "case", 1)))
    first = min(groups, default=len(steps))  # plain sums stand before the groups
    counted = not groups or body["weights"][first : first + 2] == ["1", "1"]
    sums = tuple(map(_sql, steps[:first]))
    return Terms(sums, tuple(tuple(g) for g in groups.values()), counted)


def _ungated(step: Step, op: str, inside: int) -> Step:
    """What a group wraps around its condition and its expressions, taken off again."""
    gate = step.op == op and step.args[-1].op in ("literal", "word")
    return step.args[inside] if gate else step


def _axis(text: str) -> str | Partition:
    if text.startswith("(bins "):
        step = _read(text)
        return Bins(_sql(step.args[0]), step.args[1].args)
    if text.startswith("(blocks "):
        seed, count = text[8:-1].split()
        return Blocks(int(seed), int(count))
    return _sql(_read(text))
