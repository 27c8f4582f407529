"""A stored question -> words a person reads, and the Query it came from.

The ledger keeps questions as JSON, so that equal questions are equal texts. Here they become
"count where age > 40 and smoker". Best effort: what has no short wording is shown as it is
stored. Nothing is charged by these words.
"""

from __future__ import annotations

import base64
import json
from fractions import Fraction
from typing import Any

import numpy as np

from sulq.expressions.stored_tree import dumps
from sulq.expressions.wording import INFIX, sql_of
from sulq.questions.contributions import exact_root
from sulq.questions.people_view import stored_person_rows
from sulq.values.query import (
    Bins,
    Blocks,
    Discover,
    Mean,
    Partition,
    Percentile,
    Query,
    Residual,
    Rows,
    Strategy,
    Terms,
    Values,
)

UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
LONGEST = 400  # letters of a question in a list
AXES = {"nearest": "nearest centre", "side": "side of a plane", "leaf": "leaf of a tree"}


def parts_of(canonical: str) -> list[dict[str, Any]]:
    """The parts of a question, as a SQL statement may have several; ValueError if it is none."""
    body = json.loads(canonical)
    parts = body if isinstance(body, list) else [body]
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(canonical)
    return parts


def _sql(tree: Any) -> str:
    """A stored expression as SQL that reads back the same."""
    return sql_of(tree)


def _said(tree: Any, outer: int = 0) -> str:
    """The same for people."""
    return sql_of(tree, outer, short=True)


# ---- words ----------------------------------------------------------------------------------


def readable(canonical: str) -> str:
    """Say a stored question in words; the stored text itself if that fails."""
    try:
        return _shorten(_on_one_line("; ".join(_sentence(part) for part in parts_of(canonical))))
    except UNREADABLE:
        return _shorten(canonical)


def _on_one_line(text: str) -> str:
    """What a terminal or a page would obey is written out: whoever asked chose these letters."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _sentence(body: dict[str, Any]) -> str:
    if "batch" in body:
        return f"a batch of {len(body['batch']):,} questions, charged one by one"
    if "running" in body:
        first, last = body["running"]["from"] + 1, body["running"]["to"]
        of = {name: value for name, value in body["of"].items() if name != "error"}
        which = f"{first} to {last}" if last > first else f"{first}"
        return f"running totals of {_sentence(of)}, answers of periods {which}"
    parts = [_what(body)]
    if "modulo" in body:  # of an audited table
        parts.append(f"modulo {body['modulo']}")
    if body.get("by"):
        parts.append("by " + " and ".join(_axis_words(a) for a in body["by"]))
    if body.get("sample"):
        parts.append(_chosen(body["sample"]))
    terms = [body[name] for name in ("rows", "where") if name in body]
    if terms:  # a lone OR needs no brackets
        inside = INFIX["and"] if len(terms) == 2 else 0
        parts.append("where " + " and ".join(_said(term, inside) for term in terms))
    if "per_person" in body:
        parts.append(_per_person(body["per_person"]))
    if body.get("error"):
        parts.append(f"within {float(Fraction(body['error'])):,.6g}")
    return " ".join(parts)


def _per_person(body: dict[str, Any]) -> str:
    """Whose rows these are, in words."""
    return "of people" + (f" with rows where {_said(body['rows'])}" if "rows" in body else "")


def _chosen(sample: list[Any]) -> str:
    """A set of keys, whole shards or a seeded sample, in words."""
    if sample[0] == "keys":
        return f"over the rows with {sample[2]:,} named keys ({sample[1][:12]})"
    ends = sample[4:]
    share = Fraction(sum(ends[1::2]) - sum(ends[::2]) if ends[1:] else ends[0], 2**31 - 1)
    kind = "shards that are" if ends[1:] else "a seeded sample of"
    return f"over {kind} {float(share):.3g} of the rows"


def _what(body: dict[str, Any]) -> str:
    values, kind = body["values"], body["kind"]
    if kind == "mean":
        return f"mean({_said(values[1])})"
    if kind == "residual":
        return "what counts say beyond their margins"
    if kind == "percentile":
        return f"a value above {float(Fraction(body['strategy']['percentile'])):g} of the rows"
    if kind == "discover":
        return f"values of {body['strategy']['discover']} that enough rows have"
    if kind == "strategy":
        said = body["strategy"]
        return f"{' x '.join(said) if isinstance(said, list) else 'combinations'} of counts"
    if isinstance(values, dict):  # several columns at once
        return f"{kind} of {', '.join(map(_said, values['columns']))}"
    return ", ".join("count" if _is_one(v) else f"sum({_said(v)})" for v in values)


def _is_one(tree: Any) -> bool:
    """Is it what a count adds up?"""
    return isinstance(tree, int) and tree == 1


def _axis_words(axis: Any) -> str:
    if not isinstance(axis, dict) or "column" in axis:
        return _said(axis)
    if "bins" in axis:
        edges = axis["edges"]
        return f"{_said(axis['bins'])} in {len(edges) - 1} bins from {edges[0]:g} to {edges[-1]:g}"
    if "blocks" in axis:
        return f"{axis['blocks']:,} blocks (seed {axis['seed']})"
    return next(words for name, words in AXES.items() if name in axis)


def groups_in(canonical: str) -> list[str]:
    """What each part of a question is grouped by, in words; "" where that cannot be told."""
    try:
        return [", ".join(map(_axis_name, part.get("by") or ())) for part in parts_of(canonical)]
    except UNREADABLE:
        return []


def _axis_name(axis: Any) -> str:
    """A column by its name, whatever its bins."""
    binned = isinstance(axis, dict) and "bins" in axis
    return _said(axis["bins"]) if binned else _axis_words(axis)


# ---- queries --------------------------------------------------------------------------------


def query_of(part: dict[str, Any]) -> Query | None:
    """The Query that one part came from, as far as it can be told; check it by its own text."""
    try:
        if part.get("sample") or "modulo" in part or isinstance(part["values"], dict):
            return None
        return Query(
            values=_strategy(part["strategy"]) if "strategy" in part else _values(part),
            by=tuple(_axis(axis) for axis in part["by"]) or None,
            where=_sql(part["where"]) if "where" in part else None,
            rows=Rows.where(_sql(part["rows"])) if "rows" in part else None,
            error=Fraction(part["error"]) if "error" in part else None,
            weights=_weights(part),
            per_person=stored_person_rows(part),
        )
    except UNREADABLE:
        return None


def _weights(body: dict[str, Any]) -> tuple[Fraction, ...] | None:
    """The weights of a list of sums or a strategy, where they are not all 1."""
    squares = [Fraction(w) for w in body["weights"]]
    if body["kind"] == Terms.kind and set(squares) == {Fraction(1)}:
        return Fraction(1), Fraction(1)  # sums that are weighted alike, as all were once
    if body["kind"] not in ("list", "strategy", "residual") or set(squares) == {Fraction(1)}:
        return None
    return tuple(map(exact_root, squares))


def _strategy(said: Any) -> Strategy | Residual | Percentile | Discover:
    if said == "residual":
        return Residual()
    if "percentile" in said:
        return Percentile(said["percentile"], said["over"])
    if isinstance(said, list):
        return Strategy(tuple(said))
    if "discover" in said:
        return Discover(said["discover"], said.get("at_least"))
    numbers = np.frombuffer(base64.b64decode(said["matrix"]), dtype="<i4")
    matrix = numbers.reshape(said["rows"], -1).tolist()
    return Strategy(matrix=tuple(map(tuple, matrix)), columns=tuple(said["columns"]))


def _values(body: dict[str, Any]) -> Values:
    trees = body["values"]
    if body["kind"] == "mean":
        return Mean(_sql(trees[1]))
    if body["kind"] == "list":
        return tuple(map(_sql, trees))
    groups: dict[int, list[str]] = {}
    alone = set()  # values that leave as they are: plain sums, and counts that are not known
    for row in body["mix"]:
        count, *rest = (j for j, x in enumerate(row) if x)
        if rest:  # a sum about the middle, taken with the count of its group
            condition = _ungated(trees[count], "coalesce", 1)
            group = groups.setdefault(count, [_sql(condition)])
            group.append(_sql(_ungated(trees[rest[0]], "case", 2)))
        else:
            alone.add(count)
    first = min(groups, default=len(trees))  # plain sums stand before the groups
    counted = not groups or body["weights"][first : first + 2] == ["1", "1"]
    known = tuple(i for i, count in enumerate(groups) if count not in alone)
    sums = tuple(map(_sql, trees[:first]))
    return Terms(sums, tuple(tuple(g) for g in groups.values()), counted, known)


def _ungated(tree: Any, op: str, inside: int) -> Any:
    """What a group wraps around its condition and its expressions, taken off again."""
    gate = isinstance(tree, list) and tree[0] == op and _is_constant(tree[-1])
    return tree[inside] if gate else tree


def _is_constant(tree: Any) -> bool:
    return not isinstance(tree, list) and not (isinstance(tree, dict) and "column" in tree)


def _axis(axis: Any) -> str | Partition:
    if not isinstance(axis, dict) or "column" in axis:
        return _sql(axis)
    if "bins" in axis:
        return Bins(_sql(axis["bins"]), tuple(axis["edges"]))
    if "blocks" in axis:
        return Blocks(axis["seed"], axis["blocks"])
    raise ValueError(dumps(axis))
