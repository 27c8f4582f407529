"""ID3 decision trees (PODS 05, 4.4): a level is one batch of histograms, one scan.

For every open node and every attribute that may still split it, a level asks for the counts of
rows by branch and by class. One histogram per attribute, by (leaf of the tree so far, branch,
class), holds them for all nodes at once: a row is in one cell of it, so its price does not grow
with the number of nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, Classifier
from sulq.learn.cuts import Cut, cuts_of, usable
from sulq.learn.levels import ExactLevels, Levels, PaperLevels, planned, share_now
from sulq.learn.model_pictures import decisions, saved, tree_of
from sulq.learn.parameters import About, parameter
from sulq.learn.task import EXACT, NOBODY, Task
from sulq.learn.trees import LeafRule, flat, landed, prune, settle


@dataclass(kw_only=True, eq=False, repr=False)
class ID3(Classifier):
    """A decision tree of categories, Booleans and binned numbers, from noisy counts.

    The label is a Boolean column or one with listed values; `fit(X, y)` needs `classes`, what y can
    be, unless y is an array of Booleans. A level is one batch of questions,
    `max_depth` levels share `budget`; later ones get more, since their nodes have fewer rows.

    An attribute may split a node of at least gamma = t^2 / max_gain_loss standard deviations of
    a count (t^2: its branches times the classes, max_gain_loss: in bits), and terms of its gain
    below that standard deviation are skipped: the paper's rule. With leaf_delta it is
    sqrt(R ln(1/leaf_delta)) instead of the standard deviation sqrt(R), as the paper writes it.
    prune=True takes away, from the leaves up, what noise alone could have made. Numbers without
    declared bins are cut into `bins` equal ones.

    node_counts_ holds the noisy class counts of every node, the root first, node_stds_ their
    noise; text() and plot() draw the tree. split_probability_ is Lemma 4's: at least so likely all
    counts of a node were within that error, and its attribute loses max_gain_loss at most, up to
    the lemma's constant.
    """

    about = About(
        "id3", "A decision tree of categories and bins, a few histograms per level.",
        "--columns age,region --label smoker --out tree.json", "Decision tree (ID3)", "class", True,
    )  # fmt: skip

    _usable = staticmethod(usable)

    max_depth: int = parameter(
        3, "The deepest that a leaf may be.", low=1, words="Levels", first=3, most=10
    )
    max_gain_loss: float = parameter(
        1.0, "Bits of gain that a split may have lost to noise.", low=0, above=True
    )
    leaf_delta: float | None = parameter(
        None, "The paper's leaf rule at this delta; by default one standard deviation.",
        low=0, high=1,
    )  # fmt: skip
    bins: int = parameter(
        4, "For numbers without declared bins.", low=2, words="Bins of a number", first=4, most=50
    )
    prune: bool = parameter(True, "Take away what noise alone could have made.")
    bounds: Any = parameter(None, BOUNDS)

    def _price(self, task: Task) -> sulq.Price:
        levels, depth = self._levels(task)
        return task.most(levels.price(depth), levels.queries(), share_now(levels.cuts, depth))

    def _fit(self, task: Task) -> None:
        price = self._price(task)
        task.check(price)
        levels, depth = self._levels(task)
        # What the paper charges depends on how many nodes there will be: ask each at its price.
        by_node = isinstance(levels, PaperLevels | ExactLevels)
        left = None if task.budget is None and by_node else price.queries
        with self._steps(task.db, depth) as steps:
            for level in range(depth):
                share = None if left is None else left * share_now(levels.cuts, depth - level)
                if not levels.grow(share):
                    break
                left = None if left is None or share is None else left - share
                steps.step()
        if self.prune:
            prune(levels.root)
        settle(levels.root, np.full(levels.classes, 1 / levels.classes))
        self._use(task)
        self.classes_ = task.classes
        self._keep(levels)
        self.split_probability_ = levels.rule.probability(levels.counts)
        self._leave_out(levels.left_out() if task.known else NOBODY)

    def _levels(self, task: Task) -> tuple[Levels, int]:
        """A tree that has not asked yet, and how deep it may become."""
        kind = {"paper": PaperLevels, EXACT: ExactLevels}.get(task.db.pricing, Levels)
        rule = LeafRule(self.max_gain_loss, self.leaf_delta)
        levels = kind(task, cuts_of(task, self.bins), rule)
        task.finest(levels.queries())  # refuses what cannot be
        return levels, planned(levels, min(self.max_depth, len(levels.cuts)), task.budget)

    def _keep(self, levels: Levels) -> None:
        self.cuts_ = tuple((c.column, c.values, c.edges, c.other) for c in levels.cuts)
        attributes, children, nodes = flat(levels.root, max(c.size for c in levels.cuts))
        self.node_columns_, self.node_children_ = attributes, children
        self.node_counts_ = np.array([node.counts for node in nodes])
        self.node_stds_ = np.sqrt([node.variance for node in nodes])
        self.node_shares_ = np.array([node.shares for node in nodes])

    # --- using it -----------------------------------------------------------------------

    def apply(self, X: Any) -> Any:
        """The number of the leaf that each row ends in."""
        self._check_fitted()
        rows = self._rows(X)
        codes = [Cut(*cut).codes(rows[:, i]) for i, cut in enumerate(self.cuts_)]
        return landed(self.node_columns_, self.node_children_, np.array(codes).T)

    def predict_proba(self, X: Any) -> Array:
        """The share of each class, in the order of classes_, in the leaf of each row."""
        at = self.apply(X)
        return np.asarray(self.node_shares_[at])

    def predict(self, X: Any) -> Any:
        """The class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def text(self) -> str:
        """The tree in words."""
        self._check_fitted()
        return tree_of(self).text

    def plot(self, path: str | Path | None = None) -> sulq.Picture:
        """The tree drawn, saved as SVG or PNG if a path is given."""
        return saved(self.text(), decisions(self), path)

    def __str__(self) -> str:
        return self.text() if hasattr(self, "columns_") else repr(self)
