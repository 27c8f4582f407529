"""Boolean functions of a few named properties, as truth tables.

The text is read by the parser that reads every predicate, and evaluated on all combinations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import sulq
from sulq.expressions.domains import domain_batch
from sulq.expressions.parse import predicate

MOST = 16  # properties in one function: 65,536 combinations


def truth_table(text: str, names: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.bool_]]:
    """The names a Boolean function depends on, and its value on each of their combinations.

    The names keep their given order; the table has one axis for each, with False first.
    """
    declared = {name: {"type": "boolean", "nullable": False} for name in names}
    schema = sulq.Schema.load({"columns": declared})
    if not isinstance(text, str):
        raise sulq.QueryNotAllowed(f"{text!r}: want a Boolean expression such as 'a and not b'.")
    node = predicate(text, schema)
    used = [name for name in names if name in node.columns()]
    if len(used) > MOST:
        raise sulq.QueryNotAllowed(f"{len(used)} properties in one function, at most {MOST}.")
    batch = domain_batch(tuple(used), schema, 2**MOST)
    assert batch is not None
    # Combinations come with the first name changing fastest.
    table = batch.true(node).reshape((2,) * len(used)).transpose()
    for axis in reversed(range(len(used))):
        first, second = (table.take(i, axis) for i in (0, 1))
        if np.array_equal(first, second):  # it is named, but does not matter
            table = np.asarray(first)
            del used[axis]
    return tuple(used), table
