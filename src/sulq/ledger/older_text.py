"""The text of a question in a ledger from before expressions were JSON -> the JSON it has now.

Entries never change, so this is read whenever such a ledger is opened, and nowhere else. It is
the same question said in another way: two texts that differ become two that differ, so every
old charge is found under its own JSON. What is no such text stays as it is.
"""

from __future__ import annotations

import ast
import json
import re
from functools import lru_cache
from typing import Any

from sulq.expressions.stored_tree import dumps
from sulq.questions.check import FORM, OLDER_FORM

LAST_FORM = 2  # of the older texts; those before had none
_READ = (ValueError, KeyError, TypeError, IndexError, AttributeError, SyntaxError, RecursionError)
_JSON = tuple(f'"form":{form},"kind"' for form in (OLDER_FORM, FORM))
_TOKEN = re.compile(
    r"""(?P<open>\() | (?P<close>\)) | (?P<space>[ ])
    | (?P<kind>[cbifdt]):(?P<value>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^ ()]+)
    | (?P<unit>'[a-z]+')
    | (?P<word>[^ ()]+)""",
    re.VERBOSE,
)


def question_of(text: str) -> str:
    """The question as it is stored now."""
    if not text.startswith(("{", "[")) or any(mark in text for mark in _JSON):
        return text
    try:
        body = json.loads(text)
        if isinstance(body, dict) and "batch" in body:
            return json.dumps({"batch": [question_of(part) for part in body["batch"]]})
        if isinstance(body, list):
            return f"[{','.join(dumps(_part(json.loads(part))) for part in body)}]"
        return dumps(_part(body))
    except _READ:
        return text


def _part(body: dict[str, Any]) -> dict[str, Any]:
    form = body.get("form")
    if form not in (None, LAST_FORM):
        raise ValueError(form)
    values = body["values"]
    said = {
        "values": _dense(values) if isinstance(values, str) else [_tree(v) for v in values],
        "by": [_axis(text) for text in body["by"]],
        "form": OLDER_FORM if form is None else FORM,
    }
    return body | said | {n: _tree(body[n]) for n in ("rows", "where") if n in body}


def _tree(text: str) -> Any:
    """An expression: (add c:'age' i:1) -> ["add", {"column": "age"}, 1]."""
    stack: list[list[Any]] = [[]]
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text)
        at = found.end()
        if found["open"]:
            stack.append([])
        elif found["close"]:
            call = stack.pop()
            stack[-1].append(call)
        elif not found["space"]:
            stack[-1].append(_atom(found, calling=len(stack) > 1 and not stack[-1]))
    ((tree,),) = stack
    return tree


def _atom(found: re.Match[str], calling: bool) -> Any:
    """A constant or a column; or, first in its brackets, what is called."""
    kind, value, word = found["kind"], found["value"], found["word"]
    if found["unit"]:
        return _quoted(found["unit"])
    if word and calling:
        return word
    if word:
        name, _, of = word.partition(":")
        if name != "null":
            raise ValueError(word)
        return {"null": of} if of else None
    if kind == "c":
        return {"column": _quoted(value)}
    if kind == "t":
        return _quoted(value)
    if kind == "d":
        return {"date": value}
    return value == "1" if kind == "b" else int(value) if kind == "i" else float(value)


@lru_cache(maxsize=1024)  # the same few names, in every charge
def _quoted(text: str) -> Any:
    return ast.literal_eval(text)


def _axis(text: str) -> Any:
    kind, _, rest = text.strip("()").partition(" ")
    if kind == "bins":
        at = text.rindex(" [")
        return {"bins": _tree(text[6:at]), "edges": json.loads(text[at:-1])}
    if kind == "blocks":
        seed, count = map(int, rest.split(" "))
        return {"blocks": count, "seed": seed}
    if kind == "leaf":
        return {"leaf": json.loads(text[6:-1])}
    if kind in ("nearest", "side"):
        points, numbers, complete = _listed(text)
        name = {"nearest": "centres", "side": "weights"}[kind]
        return {kind: points, name: ast.literal_eval(numbers)} | complete
    return _tree(text)


def _dense(text: str) -> dict[str, Any]:
    """Several columns at once: (sums ["c:'age'"] 32768 None False)."""
    points, numbers, complete = _listed(text)
    centre, norm, means, *counted = numbers.split(" ")
    said = {"columns": points, "centre": int(centre), "means": means == "True"}
    norms = {"row_norm": None if norm == "None" else int(norm)}
    return said | norms | complete | ({"counted": True} if counted else {})


def _listed(text: str) -> tuple[list[Any], str, dict[str, bool]]:
    """The expressions in front, what follows them, and whether rows had to have them all."""
    end = text.rindex("] ") + 1
    points = [_tree(point) for point in ast.literal_eval(text[text.index("[") : end])]
    rest = text[end + 1 : -1]
    complete = {"complete": True} if " complete" in rest else {}
    return points, rest.replace(" complete", ""), complete
