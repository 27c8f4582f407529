"""How many rows lie below each edge: the counts of cells that fit a noisy answer best.

No cell has fewer than no rows, and all cells have n at most, which is public.
Least squares under both is the likeliest set of counts under Gaussian noise. Of a column's cells
most are empty, and are found to be: what noise puts into them without the bounds is what made
quartiles stray. A function of what was released and of n alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
HELD = 100.0  # how much more it weighs that the counts add up to n than one released number
STEPS = 20  # for each cell, before it is given up


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
