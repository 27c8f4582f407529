"""Locally weighted regression: a line at every place, from noisy sums in bins around it.

One question asks for the rows in each bin of the columns, and for the sum of the label in it. A row
is in one bin, so its price grows neither with the bins nor with the places that are predicted.
What is predicted at a place is the height there of the line that fits the bins best, each weighed
by a normal kernel of its distance. A row counts as being in the middle of its bin.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import sulq
from sulq.expressions.quoting import quote
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, WELL_ABOVE, Regressor
from sulq.learn.cuts import Cut, cut_of
from sulq.learn.model_pictures import Drawn
from sulq.learn.parameters import About, parameter
from sulq.learn.second_moments import CENTRE, count_and_sum_weights
from sulq.learn.shape_pictures import along_text
from sulq.learn.task import NOBODY, LeftOut, Task, bounds_of, conjoined, lacking

COARSE = 0.1  # of the label's range: a kernel whose line has more noise than this is widened
WIDER = math.sqrt(2.0)  # by this
WIDEST = 4.0  # ranges of a column: wider is the same everywhere
ENOUGH, MAX_BINS = 2_000, 90_000  # bins of all columns together
AT_ONCE = 4_000_000  # numbers for places x bins x columns in memory


@dataclass(kw_only=True, eq=False, repr=False)
class LocallyWeightedRegression(Drawn, Regressor):
    """A number from one or few columns, by a line that follows the rows around each place.

    The label is a number with declared bounds, or Boolean; `fit(X, y)` needs `label_bounds`, the
    range that y can have. Each column is cut into its declared bins, or `bins` equal ones, fewer
    where columns are many. `bandwidth` is the standard deviation of the kernel in columns scaled to
    [0, 1]; where the rows under it are too few for the noise it is widened. degree=0 fits a mean
    instead of a line.

    bin_counts_ and bin_sums_ are what was asked, and may be looked at again with another bandwidth
    or degree: set it and predict, nothing is asked. predict(X, return_std=True) says what noise
    alone does.
    """

    about = About(
        "local-regression", "A number from few columns, by a line around each place.",
        "--columns age --label income --out curve.json", "Local regression", "number",
    )  # fmt: skip

    bandwidth: float = parameter(0.1, "Of the kernel, of a column's range.", low=0, above=True)
    degree: int = parameter(1, "1 for lines, 0 for means.", low=0)
    bins: int = parameter(
        20, "For numbers without declared bins.", low=2, words="Bins of a number", first=20, most=50
    )
    bounds: Any = parameter(None, BOUNDS)
    # --- learning -----------------------------------------------------------------------

    def _query(self, task: Task) -> sulq.Query:
        names, label, schema = task.columns, task.label, task.db.schema
        if label is None:
            raise sulq.QueryNotAllowed("label=None: name the column to predict.")
        if not names or label in names or len(set(names)) < len(names):
            raise sulq.QueryNotAllowed(
                f"columns={list(names)!r}: name each once, and not the label {label!r}."
            )
        bounds_of(schema, [*names, label])  # refuses what is no number
        cuts = self._cuts(task)
        if math.prod(cut.cells for cut in cuts) > MAX_BINS:
            raise sulq.QueryNotAllowed(
                f"columns={list(names)!r} have more than {MAX_BINS:,} bins together. Use fewer "
                "columns."
            )
        where = conjoined(*(f"{quote(n)} IS NOT NULL" for n in lacking(schema, names)))
        weights = count_and_sum_weights(1, task.db.promise.guarantee)
        by = tuple(cut.by for cut in cuts)
        return sulq.Query(sulq.Sums((label,), CENTRE), by=by, where=where, weights=weights)

    def _cuts(self, task: Task) -> list[Cut]:
        """How columns fall into bins: fewer of each where all together would be too many."""
        most = max(int(ENOUGH ** (1 / len(task.columns))) - 1, 2)  # one more is for other values
        return [cut_of(task.db.schema, name, min(self.bins, most)) for name in task.columns]

    def _price(self, task: Task) -> sulq.Price:
        price: sulq.Price = task.db.price(task.finest([self._query(task)])[0])
        return price

    def _fit(self, task: Task) -> None:
        (query,) = task.finest([self._query(task)])
        answer = task.db.ask(query)
        cuts = self._cuts(task)
        sizes = [cut.size - cut.other for cut in cuts]
        table = answer.values.reshape([*(cut.cells for cut in cuts), 2])
        inner = table[tuple(slice(n) for n in sizes)].reshape(-1, 2)
        self._scale(task)
        ((low,), (width,)) = bounds_of(task.db.schema, [str(task.label)])
        self.label_low_, self.label_width_ = float(low), float(width)
        self.bin_counts_, self.bin_sums_ = inner[:, 0], inner[:, 1]
        self.count_std_, self.sum_std_ = map(float, answer.stds[0][:2])
        middles = [middles_of(cut) for cut in cuts]
        placed = (np.array(list(itertools.product(*middles))) - self.low_) / self.width_
        self.bin_places_ = placed
        found = LeftOut.of(task.db.rows, self.bin_counts_, self.count_std_)
        some = lacking(task.db.schema, [*task.columns, str(task.label)])
        self._leave_out(found if some else NOBODY)

    # --- using it -----------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The label at each row, in its own units; with return_std what noise alone does to it."""
        unit = self._unit(X)
        known = ~np.isnan(unit).any(axis=1)
        values, stds = np.full(len(unit), np.nan), np.full(len(unit), np.nan)
        step = max(AT_ONCE // max(self.bin_places_.size, 1), 1)
        places = np.flatnonzero(known)
        for i in range(0, len(places), step):
            some = places[i : i + step]
            values[some], stds[some] = self._at(np.clip(unit[some], 0.0, 1.0))
        values = self.label_low_ + self.label_width_ * np.clip(CENTRE + values, 0.0, 1.0)
        return (values, self.label_width_ * stds) if return_std else values

    def _at(self, places: Array) -> tuple[Array, Array]:
        """The fit at some places, each with a kernel as wide as it must be."""
        wide = np.full(len(places), float(self.bandwidth))
        heights, stds = np.zeros(len(places)), np.zeros(len(places))
        left = np.arange(len(places))
        while len(left):
            apart2 = ((places[left][:, None] - self.bin_places_) ** 2).sum(axis=2)
            weights = np.exp(-apart2 / (2 * wide[left][:, None] ** 2))
            rows = weights @ self.bin_counts_
            noise = self.count_std_ * np.sqrt((weights**2).sum(axis=1))
            found = self._line(places[left], weights, np.maximum(rows, noise + 1e-9))
            heights[left], stds[left] = found
            poor = (rows <= np.maximum(WELL_ABOVE * noise, 1e-9)) | (found[1] > COARSE)
            left = left[poor & (wide[left] < WIDEST)]
            wide[left] *= WIDER
        return heights, stds

    def _line(self, places: Array, weights: Array, rows: Array) -> tuple[Array, Array]:
        """The height of the weighted least squares line at each place, and its noise.

        Over bins with counts n, sums s and kernel weights K, x being their distance from the place:
        the slope is S^-1 (sum K s x - m sum K s), S the covariance of x and m its mean. Directions
        in which rows vary by no more than noise shows get less of a slope. Noise in s and n moves
        the height by sum K (1 - (x - m) S^-1 m) (ds - height(x) dn).
        """
        K = weights / rows[:, None]
        height = K @ self.bin_sums_
        if not self.degree:
            off2 = self.sum_std_**2 + self.count_std_**2 * height**2
            return height, np.sqrt((K**2).sum(axis=1) * off2)
        x = self.bin_places_ - places[:, None]
        Kn = K * self.bin_counts_
        m = np.einsum("pb,pbi->pi", Kn, x)
        S = np.einsum("pb,pbi,pbj->pij", Kn, x, x) - m[:, :, None] * m[:, None]
        least = WELL_ABOVE * self.count_std_ * np.sqrt((K**2 * (x**2).sum(axis=2) ** 2).sum(axis=1))
        values, vectors = np.linalg.eigh(S)
        values = np.maximum(values, np.maximum(least, 1e-9)[:, None])
        inverse = np.einsum("pij,pj,pkj->pik", vectors, 1 / values, vectors)
        pull = np.einsum("pb,pbi->pi", K * self.bin_sums_, x) - m * height[:, None]
        slope = np.einsum("pij,pj->pi", inverse, pull)
        height = height - (m * slope).sum(axis=1)
        lean = np.einsum("pij,pj->pi", inverse, m)
        row = K * (1 - np.einsum("pbi,pi->pb", x - m[:, None], lean))
        line = height[:, None] + np.einsum("pbi,pi->pb", x, slope)
        off2 = self.sum_std_**2 + self.count_std_**2 * line**2
        return height, np.sqrt((row**2 * off2).sum(axis=1))

    def _words(self) -> str:
        return along_text(self)


def middles_of(cut: Cut) -> list[float]:
    """Where the rows of each bin are taken to be; whole numbers a to b - 1 are in [a, b)."""
    if not cut.edges:
        return [float(value) for value in cut.values]
    whole = all(isinstance(edge, int) for edge in cut.edges)
    pairs = list(itertools.pairwise(cut.edges))
    return [(float(a) + float(b) - whole) / 2 for a, b in pairs]
