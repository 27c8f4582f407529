"""Random trees: their splits are drawn without looking at data, their leaves are noisy counts.

Which column a node splits by, and where, comes from public randomness over declared bounds and
values. All that is asked is how many rows of each class every leaf has: one histogram a tree, all
trees in one batch. A leaf's class shares are drawn to those of the nodes above it where noise is
large, and what a row is predicted to be is the mean of its leaves' shares.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, Classifier
from sulq.learn.cuts import Cut, cuts_of, usable
from sulq.learn.model_pictures import saved, strengths, strengths_text
from sulq.learn.parameters import About, parameter
from sulq.learn.task import NOBODY, LeftOut, Task, noise_std, within
from sulq.learn.trees import shares_of

Numbers = NDArray[np.int64]
ROWS_A_LEAF = 6.0  # standard deviations of a count that an average leaf should have
DEEPEST = 12
VARIANCE = 0.1  # of a class's share from a node to one below it, as noise is weighed against
LEAF = -1  # the column of a node that is not split


@dataclass(frozen=True, slots=True)
class Forest:
    """Trees as arrays, trees x nodes: below node i are 2i + 1 and 2i + 2.

    A number's row goes to the second if its bin is `place` or above it, a category's if its value
    is the one at `place`.
    """

    cuts: tuple[Cut, ...]
    columns: Numbers  # the number of the column that a node splits by, or LEAF
    places: Numbers

    @property
    def depth(self) -> int:
        """Levels of nodes that may be split."""
        return int(self.columns.shape[1] + 1).bit_length() - 2

    def leaf(self, tree: int) -> tuple[Any, list[int]]:
        """The tree that `sulq.Leaf` takes, and which node each of its leaves is."""
        order: list[int] = []
        return self._below(tree, 0, order), order

    def _below(self, tree: int, node: int, order: list[int]) -> Any:
        c = int(self.columns[tree, node])
        if c == LEAF:
            order.append(node)
            return None
        cut, place = self.cuts[c], int(self.places[tree, node])
        first, second = 2 * node + 1, 2 * node + 2
        if cut.edges:
            below = self._below(tree, first, order)
            above = self._below(tree, second, order)
            test = {"column": cut.column, "threshold": cut.edges[place]}
            return test | {"below": below, "above": above}
        same = self._below(tree, second, order)
        other = self._below(tree, first, order)
        return {"column": cut.column, "branches": [[cut.values[place], same]], "other": other}

    def landed(self, codes: Numbers, tree: int) -> Numbers:
        """The node that each row ends in; codes are rows x columns.

        A row stays where it is asked for a value that it misses.
        """
        at = np.zeros(len(codes), dtype=np.int64)
        rows = np.arange(len(codes))
        ordered = np.array([bool(cut.edges) for cut in self.cuts])
        missing = np.array([cut.size - 1 if cut.other else -1 for cut in self.cuts])
        for _ in range(self.depth):
            c = self.columns[tree, at]
            code, place = codes[rows, c], self.places[tree, at]
            second = np.where(ordered[c], code >= place, code == place)
            stays = (c == LEAF) | (code == missing[c])
            at = np.where(stays, at, 2 * at + 1 + second)
        return at

    def counted(self, tree: int, leaves: Array, variance: float) -> tuple[Array, Array]:
        """Class counts of every node from those of the leaves, and their variances."""
        _, order = self.leaf(tree)
        counts = np.zeros((self.columns.shape[1], leaves.shape[1]))
        variances = np.zeros(len(counts))
        counts[order], variances[order] = leaves, variance
        for node in range(len(counts) // 2 - 1, -1, -1):
            if self.columns[tree, node] != LEAF:
                below = [2 * node + 1, 2 * node + 2]
                counts[node], variances[node] = counts[below].sum(axis=0), variances[below].sum()
        return counts, variances


def grown(cuts: Sequence[Cut], trees: int, depth: int, seed: int) -> Forest:
    """Different trees whose splits are drawn evenly; fewer where there are not so many."""
    rng = np.random.default_rng(seed)
    found: dict[bytes, tuple[Numbers, Numbers]] = {}
    for _ in range(trees):
        columns, places = _drawn(cuts, depth, rng)
        found[columns.tobytes() + places.tobytes()] = columns, places
    return Forest(tuple(cuts), *map(np.array, zip(*found.values(), strict=True)))


def _drawn(cuts: Sequence[Cut], depth: int, rng: np.random.Generator) -> tuple[Numbers, Numbers]:
    """A tree: at each node a column, then one of its places that still splits."""
    columns = np.full(2 ** (depth + 1) - 1, LEAF, dtype=np.int64)
    places = np.zeros_like(columns)
    # What is left of every column at a node: its bins, or its values.
    left = {0: [tuple(range(cut.size - cut.other)) for cut in cuts]}
    for node in range(2**depth - 1):
        ranges = left.pop(node, [])
        splits = [c for c, mine in enumerate(ranges) if len(mine) > 1]
        if not splits:
            continue
        c = int(rng.choice(splits))
        mine, ordered = ranges[c], bool(cuts[c].edges)
        i = int(rng.integers(ordered, len(mine)))
        columns[node], places[node] = c, mine[i]
        parts = (mine[:i], mine[i:]) if ordered else (mine[:i] + mine[i + 1 :], mine[i:][:1])
        for below, part in enumerate(parts, 2 * node + 1):
            left[below] = [*ranges[:c], part, *ranges[c + 1 :]]
    return columns, places


@dataclass(kw_only=True, eq=False, repr=False)
class RandomTrees(Classifier):
    """Classes from many trees whose splits are random and whose leaves are noisy counts.

    The label is a Boolean column or one with listed values; `fit(X, y)` needs `classes`, what y can
    be, unless y is an array of Booleans. Splits are drawn with random_state from declared bounds
    and values; it never seeds the noise. Numbers are split at declared bins, or at one of `bins`
    equal ones. `n_estimators` trees share `budget`, each over all rows: that is closer than each
    over a block of them. Trees are as deep as `max_depth` and the number of rows allow.

    node_counts_ holds the noisy class counts of every node, trees x nodes x classes, node_stds_
    their noise, node_shares_ what is predicted. column_strengths_ is how much impurity the splits
    by each column take away, of all that splits do; strength_stds_ its error over the trees.
    """

    about = About(
        "random-trees", "Classes from many trees with random splits and noisy leaves.",
        "--columns age,region --label smoker --out trees.json", "Random trees", "class", True,
    )  # fmt: skip

    _usable = staticmethod(usable)

    n_estimators: int = parameter(32, "How many trees.", low=1, words="Trees", first=32, most=100)
    max_depth: int = parameter(
        6, "The deepest that a leaf may be.", low=1, words="Levels", first=6, most=DEEPEST
    )
    bins: int = parameter(
        16, "For numbers without declared bins.", low=2, words="Bins of a number", first=16, most=50
    )
    random_state: int = parameter(0, "Seeds the public splits, not noise.")
    bounds: Any = parameter(None, BOUNDS)

    def _forest(self, task: Task) -> Forest:
        """The trees, from what is declared and n, which is public."""
        _ = task.classes  # refused before the columns are
        cuts = cuts_of(task, self.bins)
        share = None if task.budget is None else Fraction(task.budget) / self.n_estimators
        one = within(task.db, sulq.Query(by=str(task.label), where=task.complete), share)
        std = max(noise_std(task.db, task.db.price(one)), 1e-9)
        fed = int(math.log2(max(task.db.rows / (ROWS_A_LEAF * std), 2.0)))
        return grown(cuts, self.n_estimators, min(self.max_depth, DEEPEST, fed), self.random_state)

    def _queries(self, task: Task, forest: Forest) -> list[sulq.Query]:
        trees = [forest.leaf(tree)[0] for tree in range(len(forest.columns))]
        by = [(sulq.Leaf(tree), str(task.label)) if tree else str(task.label) for tree in trees]
        return task.finest([sulq.Query(by=each, where=task.complete) for each in by])

    def _price(self, task: Task) -> sulq.Price:
        asked = dict.fromkeys(self._queries(task, self._forest(task)))
        return sum((task.db.price(query) for query in asked), sulq.Price(0))

    def _fit(self, task: Task) -> None:
        forest, k = self._forest(task), len(task.classes)
        # Tables asked together would not be independent, as what is learned from them supposes.
        answers = task.db.ask(self._queries(task, forest), share=False)
        counts, variances = [], []
        for tree, answer in enumerate(answers):
            leaves = answer.values[:, 0].reshape(len(forest.leaf(tree)[1]), -1)[:, :k]
            found = forest.counted(tree, leaves, answer.stds[0][0] ** 2)
            counts.append(found[0])
            variances.append(found[1])
        self._use(task)
        self.classes_ = task.classes
        self.cuts_ = tuple((c.column, c.values, c.edges, c.other) for c in forest.cuts)
        self.node_columns_, self.node_places_ = forest.columns, forest.places
        self.node_counts_, self.node_stds_ = np.array(counts), np.sqrt(variances)
        self._settle(task)
        taken = taken_away(forest, self.node_counts_, self.node_stds_**2)
        self.column_strengths_, self.strength_stds_ = strengths_of(taken)

    def _settle(self, task: Task) -> None:
        """The class shares of every node, from the root down, and how many rows are in none."""
        known = 1 / np.maximum(self.node_stds_[:, 0], 1e-9) ** 2
        self.class_count_ = known @ self.node_counts_[:, 0] / known.sum()
        self.class_count_std_ = float(known.sum() ** -0.5)
        found = LeftOut.of(task.db.rows, self.class_count_, self.class_count_std_)
        self._leave_out(found if task.known else NOBODY)
        shares = np.empty_like(self.node_counts_)
        shares[:, 0] = shares_of(self.class_count_)
        for node in range(1, shares.shape[1]):
            above = shares[:, (node - 1) // 2]
            counts, std = self.node_counts_[:, node], self.node_stds_[:, node]
            there = np.maximum(counts, 0.0)
            rows = there.sum(axis=1, keepdims=True)
            own = np.where(rows > 0, there / np.where(rows > 0, rows, 1.0), above)
            off = (std[:, None] / np.maximum(rows, 1e-9)) ** 2
            shares[:, node] = above + VARIANCE / (VARIANCE + off) * (own - above)
        self.node_shares_ = shares

    # --- using it -----------------------------------------------------------------------

    def apply(self, X: Any) -> Any:
        """The number of the node that each row ends in, rows x trees."""
        self._check_fitted()
        rows, cuts = self._rows(X), tuple(Cut(*cut) for cut in self.cuts_)
        codes = np.array([cut.codes(rows[:, i]) for i, cut in enumerate(cuts)]).T
        forest = Forest(cuts, self.node_columns_, self.node_places_)
        return np.array([forest.landed(codes, tree) for tree in range(len(forest.columns))]).T

    def predict_proba(self, X: Any) -> Array:
        """The mean share of each class, in the order of classes_, in the leaves of each row."""
        at = self.apply(X)
        return np.asarray(self.node_shares_[np.arange(at.shape[1]), at].mean(axis=1))

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def plot(self, path: str | Path | None = None) -> sulq.Picture:
        """How much each column tells, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        return saved(strengths_text(self), strengths(self), path)

    def _words(self) -> str:
        trees, nodes = self.node_columns_.shape
        deep = (nodes + 1).bit_length() - 2
        return f"{trees} random trees of at most {deep} levels.\n{strengths_text(self)}"


def taken_away(forest: Forest, counts: Array, variances: Array) -> Array:
    """The Gini impurity that splits by each column take away, trees x columns.

    With class shares p and q in the N and M rows below, a split takes away N M / (N + M) |p - q|^2.
    Noise alone adds about v/N^2 + w/M^2 a class to |p - q|^2, which is taken off.
    """
    out = np.zeros((len(counts), len(forest.cuts)))
    for node in range(counts.shape[1] // 2):
        column = forest.columns[:, node]
        split = np.flatnonzero(column != LEAF)
        below = np.maximum(counts[split][:, [2 * node + 1, 2 * node + 2]], 0.0)
        rows = np.maximum(below.sum(axis=2), 1e-9)
        (p, q), (n, m) = (below / rows[:, :, None]).transpose(1, 0, 2), rows.T
        noise = (variances[split][:, [2 * node + 1, 2 * node + 2]] / rows**2).sum(axis=1)
        apart = ((p - q) ** 2).sum(axis=1) - below.shape[2] * noise
        well = noise < VARIANCE  # otherwise there is nothing to see
        np.add.at(out, (split, column[split]), np.where(well, n * m / (n + m) * apart, 0.0))
    return out


def strengths_of(taken: Array) -> tuple[Array, Array]:
    """Each column's part of what all splits take away, and its standard error over the trees."""
    whole = max(float(taken.mean(axis=0).sum()), 1e-9)
    parts = taken / whole
    spread = parts.std(axis=0, ddof=1) if len(parts) > 1 else np.zeros(parts.shape[1])
    return np.maximum(parts.mean(axis=0), 0.0), spread / math.sqrt(len(parts))
