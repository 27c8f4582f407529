"""Where k-means begins: the cells of many public points, clustered offline.

A step of k-means has the same price for more centres, since a row is near one of them. So a few
steps are asked over many points that are spread over the box without looking at data. Cells well
above their noise become weighted points; the next question has points around these, and the last
cells are clustered into k, which asks nothing, as often as one likes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sulq.learn.arrays import Array

SHARES = (Fraction(2, 20), Fraction(2, 20), Fraction(3, 20))  # of the budget, question by question
FEWEST, MOST = 64, 256  # points of one question, where there are rows enough
POINTS_A_CLUSTER = 4
ROWS_A_CELL = 8.0  # standard deviations of a count that an average cell should have
COARSE = 0.25  # of a column's range: a cell whose mean has more noise than this is left out
STARTS, TURNS = 30, 30  # of the clustering offline
TRIED = 4  # points compared for each place of a start
FINEST = -4.0  # new points are up to 2^-4 as near to a cell as its nearest neighbour


@dataclass(frozen=True, slots=True)
class Cells:
    """Means of some rows, and about how many these are."""

    points: Array
    weights: Array

    def __len__(self) -> int:
        return len(self.points)


def how_many(k: int, rows: int, count_std: float) -> int:
    """Points of one question: as many as have cells well above the noise; 0: too few to help."""
    wanted = min(max(FEWEST, POINTS_A_CLUSTER * k), max(MOST, k))
    fed = int(rows / (ROWS_A_CELL * count_std)) if count_std > 0 else wanted
    return 0 if min(wanted, fed) < 2 * k else min(wanted, fed)


def kept(means: Array, counts: Array, count_std: float, sum_std: float, above: float) -> Cells:
    """The cells well above their noise."""
    large = counts > np.maximum(above * count_std, sum_std / COARSE)
    return Cells(means[large], counts[large])


def spread(cells: Cells, m: int, rng: np.random.Generator) -> Array:
    """m points: the cells, and around the heavy ones others, near and far.

    Half of the new ones lie in any direction, half towards or away from another cell: rows are
    often spread along few directions of many.
    """
    points, more = cells.points, m - len(cells)
    if more <= 0:
        return points[np.argsort(-cells.weights)[:m]]
    share = cells.weights / cells.weights.sum()
    at = rng.choice(len(points), size=more, p=share)
    direction = rng.normal(size=(more, points.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    reach = _nearest(points)[at] * 2.0 ** rng.uniform(FINEST, 0.0, more)
    moved = direction * reach[:, None]
    if len(points) > 1:
        other = rng.choice(len(points), size=more, p=share)
        part = rng.choice([-1.0, 1.0], more) * 2.0 ** rng.uniform(FINEST, -1.0, more)
        towards = part[:, None] * (points[other] - points[at])
        moved = np.where((rng.random(more) < 0.5)[:, None] & (other != at)[:, None], towards, moved)
    return np.vstack([points, np.clip(points[at] + moved, 0.0, 1.0)])


def clustered(cells: Cells, k: int, rng: np.random.Generator) -> Array:
    """The best k centres of weighted points that many starts lead to. Nothing is asked.

    They stand in the order of their coordinates, so that two fits number clusters alike.
    """
    if len(cells) <= k:
        best = spread(cells, k, rng)
    else:
        found = [_settled(cells, _started(cells, k, rng)) for _ in range(STARTS)]
        best = min(found, key=lambda centres: _inertia(cells, centres))
    return best[np.lexsort(best.T[::-1])]


def _started(cells: Cells, k: int, rng: np.random.Generator) -> Array:
    """k-means++: each next centre a point far from those before, the best of a few."""
    points, weights = cells.points, cells.weights
    chosen = [int(rng.choice(len(points), p=weights / weights.sum()))]
    far = distances2(points, points[chosen])[:, 0]
    while len(chosen) < k:
        pull = weights * far
        even = pull.sum() <= 0.0  # all points are where a centre is
        tried = rng.choice(len(points), size=TRIED, p=None if even else pull / pull.sum())
        left = np.minimum(far[:, None], distances2(points, points[tried]))
        best = int((weights @ left).argmin())
        chosen.append(int(tried[best]))
        far = left[:, best]
    return points[chosen]


def _settled(cells: Cells, centres: Array) -> Array:
    """Steps of k-means over the weighted points until nothing moves."""
    near: NDArray[np.int64] | None = None
    for _ in range(TURNS):
        found = distances2(cells.points, centres).argmin(axis=1)
        if near is not None and np.array_equal(near, found):
            break
        near = found
        inside = (near == np.arange(len(centres))[:, None]) * cells.weights
        total = inside.sum(axis=1)[:, None]
        means = inside @ cells.points / np.where(total > 0, total, 1.0)
        centres = np.where(total > 0, means, centres)
    return centres


def _inertia(cells: Cells, centres: Array) -> float:
    return float(cells.weights @ distances2(cells.points, centres).min(axis=1))


def _nearest(points: Array) -> Array:
    """How far each point is from the nearest other one; half the box, where there is none."""
    if len(points) == 1:
        return np.array([0.5])
    far = distances2(points, points)
    np.fill_diagonal(far, np.inf)
    return np.asarray(np.sqrt(far.min(axis=1)))


def distances2(rows: Array, centres: Array) -> Array:
    """Squared distances, rows x centres."""
    cross = rows @ centres.T
    out = (rows**2).sum(axis=1)[:, None] - 2 * cross + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(out, 0.0))
