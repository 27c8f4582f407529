"""Sums modulo q (Duan, 4.1): one number of which multiples of q are taken away.

A residue is a function of its sum, so it is judged as that sum by either rule, and counts as the
whole of it from then on: a residue is never answered where its sum would not be. That fewer rows
hide one another in one residue by itself (modulo.py) is not used: other answers stand beside it.

Where sums have a dither there are no residues. Without it, those for several q would tell the sum
that the dither hides; with it, a small one would be noise alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sulq.audit.total import Total, restore, total_of
from sulq.errors import QueryNotAllowed
from sulq.expressions.parse import shorten
from sulq.expressions.stored_tree import dumps
from sulq.questions.check import CheckedQuery
from sulq.questions.question import Bundle
from sulq.values.answer import Answer
from sulq.values.query import Query
from sulq.values.schema import Schema

LARGEST = 2**31  # of q


@dataclass(frozen=True, slots=True)
class ResidueBundle(Bundle):
    """A question of one number, of which only the rest by `modulus` is stored and told."""

    modulus: int = LARGEST


def residue_of(
    query: Query, q: Any, schema: Schema, dither: Fraction
) -> tuple[Total, CheckedQuery]:
    """Check a sum and its modulus. The canonical form is the sum's, with "modulo" beside it."""
    if not isinstance(q, int) or isinstance(q, bool) or not 2 <= q <= LARGEST:
        raise QueryNotAllowed(
            f"modulo: q={shorten(repr(q))}, want a whole number from 2 to {LARGEST:,}. Nothing was "
            "charged."
        )
    if dither:
        raise QueryNotAllowed(
            f"modulo: sums have a dither of {float(dither):g} here. A residue without it would "
            "tell what it hides, and with it a small one would be noise alone. Ask for the sum; "
            "residues need dither=0. Nothing was charged."
        )
    total, checked = total_of(query, schema)
    if total.value.node.type == "number":
        raise QueryNotAllowed(
            "modulo: want a count, or a sum of whole numbers; round what is summed, as in "
            "floor(x). Nothing was charged."
        )
    text = dumps(json.loads(checked.text) | {"modulo": q})
    return restore(text, schema), replace(checked, text=text)


def as_residue(answer: Answer, q: int) -> Answer:
    """The answer to a sum, or to its residue, as a residue."""
    return replace(
        answer,
        exact=tuple(tuple(x % q for x in row) for row in answer.exact),
        names=(f"modulo {q}",),
    )
