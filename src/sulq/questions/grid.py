"""A row's contribution as a whole number: the grid that an expression's values are put on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from sulq.expressions.functions import call
from sulq.expressions.node import Node

FINE = 30  # a number's range is cut into about 2**FINE steps
FINEST = 1000  # no step is below 2**-FINEST, so that a float64 can hold it
WIDEST = 40  # grid integers of one row stay below 2**WIDEST, so that noise fits beside them


@dataclass(frozen=True, slots=True)
class Value:
    """A row's contribution as an integer: round(node * 2**scale), within [low, high].

    A missing value contributes 0, or the end nearest to it where none may be missing.
    """

    node: Node
    scale: int
    low: int
    high: int


def gridded(node: Node) -> Value:
    """Put a bounded node on its grid: whole numbers as they are, wide and others on 2**-scale."""
    if node.type == "integer" and max(-node.low, node.high) > 2**WIDEST:
        node = call("to_number", node)
    if node.type != "number":
        return Value(node, 0, int(node.low), int(node.high))
    reach = max(abs(node.low), abs(node.high)) or 1.0
    width = (node.high - node.low) or reach
    scale = min(FINE - math.frexp(width)[1] + 1, WIDEST - math.frexp(reach)[1], FINEST)
    factor = Fraction(2) ** scale
    low, high = Fraction(node.low) * factor, Fraction(node.high) * factor
    return Value(node, scale, math.ceil(low), max(math.floor(high), math.ceil(low)))
