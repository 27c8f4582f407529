"""Several ways to group, answered from one that is finer than all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sulq.engines.base import Matrix
from sulq.questions.check import CheckedQuery
from sulq.questions.contributions import Dense
from sulq.questions.partitions import Axis

MAX_CELLS = 2**12  # of the finer grouping

Axes = tuple[Axis, ...]


def finest(queries: Sequence[CheckedQuery]) -> Axes | None:
    """The axes of all queries together; None if they are alike, too many, or do not add up."""
    axes = tuple(dict.fromkeys(a for q in queries for a in q.axes))
    if len({q.axes for q in queries}) == 1 or math.prod(len(a.labels) for a in axes) > MAX_CELLS:
        return None
    people = any(isinstance(q.values, Dense) for q in queries)  # may be in several cells
    twice = any(len(set(q.axes)) < len(q.axes) for q in queries)
    return None if people or twice else axes


def margin(query: CheckedQuery, axes: Axes, found: Matrix) -> Matrix:
    """The sums of a query from those of the finer one."""
    width = query.shape[1]
    cube = np.array(found, dtype=object).reshape(*(len(a.labels) for a in axes), width)
    kept = [axes.index(a) for a in query.axes]
    others = tuple(i for i in range(len(axes)) if i not in kept)
    rest = [i for i in range(len(axes)) if i in kept]
    summed = cube.sum(axis=others) if others else cube
    order = [rest.index(i) for i in kept]
    rows: Matrix = summed.transpose(*order, len(kept)).reshape(query.shape).tolist()
    return rows
