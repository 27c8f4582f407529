"""How many rows lie below each edge: the counts of cells that fit a noisy answer best.

No cell has fewer than no rows, and all cells have n at most, which is public. `rising` is least
squares under both, the likeliest set of counts under Gaussian noise. Of a column's cells most are
empty, and are found to be: what noise puts into them without the bounds makes quartiles stray.
`likely` adds what columns of numbers look like (`profile_shapes.py`). Both are functions of what
was released, of n, and of what is public.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sulq.profile_shapes import Shapes

Array = NDArray[np.float64]

HELD = 100.0  # how much more it weighs that the counts add up to n than one released number
STEPS = 20  # for each cell, before it is given up
SPREADS = (0.005, 0.02, 0.08, 0.3, 1.0)  # how far a column may differ from what is expected
FLOOR = 0.2  # of what a cell would have if all had the same
TURNS = 2


def rising(matrix: Array, released: Array, rows: int) -> Array:
    """The sums of the counts x >= 0 with the least |matrix x - released|, from 0 on."""
    from scipy.optimize import nnls

    cells = matrix.shape[1]
    columns = np.pad(matrix, [(0, 0), (0, 1)])  # rows without a value are in no cell
    scale = max(float(rows), 1.0)
    asked = np.vstack([columns, np.full((1, columns.shape[1]), HELD)])
    wanted = np.append(released / scale, HELD * rows / scale)
    try:
        found = nnls(asked, wanted, maxiter=STEPS * cells)[0][:cells] * scale
    except RuntimeError:  # it went round in circles: without what is below nothing
        found = np.maximum(np.linalg.solve(matrix, released), 0.0)
    return np.concatenate([[0.0], found.cumsum()])


def likely(shapes: Shapes, released: Array, std: float, rows: int) -> Array:
    """The same of numbers of any size, by what columns of them look like.

    Counts are c = s + d: s is expected of the shapes, and d, by how much this column differs, has
    the variance v rows (s + rows/(5 cells)). v is that in SPREADS under which the answer is
    likeliest; d is the likeliest then. Less noise leaves less to the shapes: in the end nothing.
    """
    if rows < 1 or std <= 0:
        return rising(shapes.matrix, released, rows)
    expected = shapes.expected(released, std, rows)
    moved = shapes.matrix.T @ (released - shapes.matrix @ expected) / std**2
    squares = shapes.squares / std**2
    fits = [_likelihood(squares, moved, _varied(expected, rows, v)) for v in SPREADS]
    spread = SPREADS[int(np.argmax(fits))]
    counts, seen = expected, shapes.matrix.T @ released / std**2
    for _ in range(TURNS):  # cells found to be fuller than expected may vary more the next time
        varied = _varied(np.maximum(counts, expected), rows, spread)
        counts = _least(squares + np.diag(1 / varied), seen + expected / varied)
    whole = max(float(counts.sum()), 1.0)
    return np.concatenate([[0.0], counts.cumsum()]) * min(rows / whole, 1.0)


def _least(squares: Array, moved: Array) -> Array:
    """The x >= 0 with the least x'squares x/2 - moved'x, but for cells that are left out early."""
    found, left = np.zeros(len(moved)), np.arange(len(moved))
    while len(left):
        counts = np.linalg.solve(squares[np.ix_(left, left)], moved[left])
        if (counts >= 0).all():
            found[left] = counts
            return found
        left = left[counts > 0]
    return found


def _varied(counts: Array, rows: int, spread: float) -> Array:
    return np.asarray(spread * rows * (counts + FLOOR * rows / len(counts)))


def _likelihood(squares: Array, moved: Array, varied: Array) -> float:
    """The logarithm, but for what is the same for all, of how likely the answer is then."""
    whole = squares + np.diag(1 / varied)
    grown = 2 * np.log(np.diagonal(np.linalg.cholesky(whole))).sum() + np.log(varied).sum()
    return float(moved @ np.linalg.solve(whole, moved) - grown) / 2
