"""db.project: new columns that are weighted sums of a table's own (PODS 05, 4.1.2).

A projection names formulas. Every question about these names is written again in terms of the
stored columns before it is checked, so it has one price, one charge and one promise like any
other, on every engine and over any wire.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from sulq.errors import QueryNotAllowed, Refused
from sulq.expressions.dialect import tokens_of
from sulq.expressions.parse import parse
from sulq.expressions.quoting import quote
from sulq.values.query import Leaf, Query
from sulq.values.schema import Column, Schema

WORDS = ("VAR", "IDENTIFIER")  # how the tokenizer calls plain and quoted names
AS_GIVEN = ("named", "edges", "workload")  # texts of a query that are no expressions


@dataclass(frozen=True)
class Projection:
    """Names and their formulas over the stored columns; `schema` is what a question may use."""

    formulas: Mapping[str, str]
    schema: Schema
    hidden: frozenset[str]  # the columns that the formulas stand for

    def written_out(self, query: Query) -> Query:
        """The same question in terms of the stored columns."""
        if not isinstance(query, Query):
            return query
        written: Query = self._part(query)
        return written

    def _part(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Leaf):
            return Leaf(self._tree(json.loads(value.tree)))
        if isinstance(value, tuple):
            return tuple(self._part(v) for v in value)
        if is_dataclass(value) and not isinstance(value, type):
            names = [f.name for f in fields(value) if f.name not in AS_GIVEN]
            return replace(value, **{name: self._part(getattr(value, name)) for name in names})
        return value

    def _tree(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return [self._tree(t) for t in tree]
        if not isinstance(tree, dict):
            return tree
        below = {k: self._tree(v) for k, v in tree.items() if k != "column"}
        return below | {"column": self._text(str(tree.get("column")))}

    def _text(self, text: str) -> str:
        """An expression or a column's name, with formulas where names stood."""
        found = self.schema.get(text)
        return self._written(text) if found is None else self.formulas.get(found.name, text)

    def _written(self, text: str) -> str:
        """An expression, with formulas where names stood."""
        from sqlglot.errors import SqlglotError

        try:
            tokens = tokens_of(text)
        except SqlglotError:
            return text  # to be refused as it stands
        out, at = [], 0
        for token in tokens:
            kind = token.token_type.name
            if kind not in WORDS:
                continue
            found = self.schema.get(token.text, quoted=kind == "IDENTIFIER")
            if found is not None and found.name in self.formulas:
                out += [text[at : token.start], f"({self.formulas[found.name]})"]
                at = token.end + 1
            elif found is None and token.text in self.hidden:
                raise QueryNotAllowed(
                    f"there is no column {token.text!r} in this projection. It has "
                    f"{', '.join(self.schema.names[:20])}; the table has the others."
                )
        return "".join([*out, text[at:]])


def projection(model: Any, schema: Schema, clip: float | None) -> Projection:
    """The components of a fitted model as columns beside those it was not fitted on."""
    if not hasattr(model, "as_columns"):
        raise Refused(
            f"project({type(model).__name__}): want a fitted sulq.learn.PCA or SVD, whose "
            "components become the columns."
        )
    described: Sequence[Mapping[str, Any]] = model.as_columns()
    used = {name for d in described for name in d["weights"]}
    for name in sorted(used):
        if schema.get(name, quoted=True) is None:
            raise QueryNotAllowed(f"project: the model was fitted on {name!r}, which is not here.")
    kept = tuple(c for c in schema.columns if c.name not in used)
    formulas = {str(d["name"]): _formula(d, schema, clip) for d in described}
    taken = {c.name.lower() for c in schema.columns} & {name.lower() for name in formulas}
    if taken:
        raise QueryNotAllowed(f"project: the table has columns {', '.join(sorted(taken))} already.")
    made = []
    for name, formula in formulas.items():
        node = parse(formula, schema)
        ends = float(node.low), float(node.high)
        made.append(Column(name, "number", *ends, nullable=node.nullable))
    return Projection(formulas, Schema((*made, *kept), schema.where), frozenset(used))


def _formula(described: Mapping[str, Any], schema: Schema, clip: float | None) -> str:
    """offset + weights . columns; missing where one of the columns is."""
    terms, gaps = [repr(float(described["offset"]))], []
    for name, weight in described["weights"].items():
        column, quoted = schema[name], quote(name)
        read = f"CAST({quoted} AS DOUBLE)" if column.type == "boolean" else quoted
        if weight:
            terms.append(f"{float(weight)!r} * {read}")
            gaps += [f"{quoted} IS NOT NULL"] if column.nullable else []
    total = " + ".join(terms)
    if clip is None:
        return total
    low, high = _ends(described, clip)
    clipped = f"LEAST(GREATEST({total}, {low!r}), {high!r})"
    # GREATEST passes over what is missing, as SQL's does: a gap would become the low end.
    return f"CASE WHEN {' AND '.join(gaps)} THEN {clipped} END" if gaps else clipped


def _ends(described: Mapping[str, Any], clip: float) -> tuple[float, float]:
    """`clip` standard deviations either way, within what the bounds allow."""
    if isinstance(clip, bool) or not isinstance(clip, int | float) or not 0 < clip < 1e6:
        raise QueryNotAllowed(f"clip={clip!r}: want a number of standard deviations, such as 4.")
    reach = clip * float(described["std"])
    low, high = max(described["low"], -reach), min(described["high"], reach)
    if not low < high:
        raise QueryNotAllowed(
            f"clip: component {described['name']} has no variance beyond the noise; project fewer."
        )
    return float(low), float(high)
