"""Rows grouped by a column as it is stored, then by what it is read as: fewer values to read.

Words are grouped before their places are looked up, whole numbers before they are clamped and put
into bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from sulq.engines.writer import Writer
from sulq.questions.partitions import Axis

MAX_FEW = 1_000  # values of a column that bins are of
MAX_GROUPS = 2**12  # by stored values


def worth_it(writer: Writer, axes: Sequence[Axis]) -> bool:
    """Is a column of these grouped by as it is stored?"""
    if any(writer.words(axis) is not None for axis in axes):
        return True
    groups = math.prod(_values(writer, axis) or len(axis.labels) for axis in axes)
    return groups <= MAX_GROUPS and any(_values(writer, axis) for axis in axes)


def stored(writer: Writer, axis: Axis) -> str:
    """The column to group by first; '' if what is grouped by is no column as it is stored."""
    first = writer.words(axis) is not None or _values(writer, axis)
    return writer.key_words(axis.node.value) if first and axis.node is not None else ""


def read(writer: Writer, axis: Axis, name: str) -> str:
    """What rows are grouped by in the end, from the stored value of this name."""
    words = writer.words(axis)
    if words is not None:
        return writer.place(words, name)
    assert axis.node is not None
    return writer.bins(axis, writer.integer(writer.schema[axis.node.value], name))


def _values(writer: Writer, axis: Axis) -> int:
    """How many values a stored column of few whole numbers has that bins are of; 0: no such."""
    node = axis.node
    if axis.kind != "bins" or node is None or node.op != "column" or len(axis.detail) < 3:
        return 0
    c = writer.schema[node.value]
    few = c.type == "integer" and c.bounded and c.high - c.low < MAX_FEW
    return int(c.high - c.low) + 2 if few and "INT" in writer.physical[c.name] else 0
