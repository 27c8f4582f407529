"""ID3 decision trees (PODS 05, 4.4): a level is one batch of histograms, one scan.

For every open node and every attribute that may still split it, a level asks for the counts of
rows by branch and by class. One histogram per attribute, by (leaf of the tree so far, branch,
class), holds them for all nodes at once: a row is in one cell of it, so its price does not grow
with the number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import sulq

from .base import MICRO, Array, Learner, all_within, check_budget
from .cuts import Cut, cuts_of, rows_of, usable
from .levels import Levels, PaperLevels, planned, share_now
from .perceptron import classes_of, labels
from .pictures import drawn
from .tree_drawing import picture, seen, text
from .trees import flat, landed, prune, settle


class ID3(Learner):
    """A decision tree of categories, Booleans and binned numbers, from noisy counts.

    The label is a Boolean column or one with listed values. A level is one batch of questions,
    `max_depth` levels share `budget`; later ones get more, since their nodes have fewer rows.

    An attribute may split a node of at least gamma = t^2 / max_gain_loss standard deviations of
    a count (t^2: its branches times the classes, max_gain_loss: in bits), and terms of its gain
    below that standard deviation are skipped: the paper's rule. prune=True takes away, from the
    leaves up, what noise alone could have made. Numbers without declared bins are cut into
    `bins` equal ones.

    node_counts_ holds the noisy class counts of every node, the root first, node_stds_ their
    noise; text() and plot() draw the tree.
    """

    estimator_type = "classifier"

    def __init__(
        self,
        *,
        max_depth: int = 3,
        max_gain_loss: float = 1.0,
        bins: int = 4,
        prune: bool = True,
        budget: float | None = None,
        epsilon: float | None = None,
        delta: float = 1e-6,
        guarantee: str = "beliefs",
        bounds: Any = (0.0, 1.0),
    ) -> None:
        self.max_depth = max_depth
        self.max_gain_loss = max_gain_loss
        self.bins = bins
        self.prune = prune
        self.budget = budget
        self.epsilon = epsilon
        self.delta = delta
        self.guarantee = guarantee
        self.bounds = bounds

    def _columns(
        self, db: Any, columns: Sequence[str] | None, label: str | None
    ) -> tuple[str, ...]:
        """The columns asked for, or every one that can be cut but the label and keys."""
        if columns is not None:
            return super()._columns(db, columns, label)
        return usable(db.schema, label)

    def _price(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> sulq.Price:
        levels, depth = self._levels(db, columns, label, budget)
        if budget is None:
            return levels.price(depth)
        share = Fraction(budget) * share_now(levels.cuts, depth)
        all_within(db, levels.queries(), share)  # refuses what cannot be
        return sulq.Price(int(Fraction(budget) * MICRO))

    def _fit(self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any) -> None:
        price = self._price(db, columns, label, budget)
        check_budget(db, price)
        levels, depth = self._levels(db, columns, label, budget)
        # What the paper charges depends on how many nodes there will be: ask each at its price.
        left = None if budget is None and isinstance(levels, PaperLevels) else price.queries
        with self._steps(db, depth) as steps:
            for level in range(depth):
                share = None if left is None else left * share_now(levels.cuts, depth - level)
                if not levels.grow(share):
                    break
                left = None if left is None or share is None else left - share
                steps.step()
        if self.prune:
            prune(levels.root)
        settle(levels.root, np.full(levels.classes, 1 / levels.classes))
        self._keep(levels, columns, classes_of(db, label))

    def _levels(
        self, db: Any, columns: tuple[str, ...], label: str | None, budget: Any
    ) -> tuple[Levels, int]:
        """A tree that has not asked yet, and how deep it may become."""
        for name, least in (("max_depth", 1), ("bins", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise sulq.Refused(f"{name}={value!r}, want {least} or more.")
        if isinstance(self.max_gain_loss, bool) or not self.max_gain_loss > 0:
            raise sulq.Refused(f"max_gain_loss={self.max_gain_loss!r}, want bits, above 0.")
        classes = classes_of(db, label)
        kind = PaperLevels if getattr(db, "pricing", "geometry") == "paper" else Levels
        cuts = cuts_of(db.schema, columns, label, self.bins)
        levels = kind(db, cuts, str(label), len(classes), self.max_gain_loss)
        all_within(db, levels.queries(), budget)  # refuses what cannot be
        return levels, planned(levels, min(self.max_depth, len(cuts)), budget)

    def _keep(self, levels: Levels, columns: tuple[str, ...], classes: Any) -> None:
        self.columns_, self.n_features_in_, self.classes_ = columns, len(columns), classes
        self.cuts_ = tuple((c.column, c.values, c.edges, c.other) for c in levels.cuts)
        attributes, children, nodes = flat(levels.root, max(c.size for c in levels.cuts))
        self.node_columns_, self.node_children_ = attributes, children
        self.node_counts_ = np.array([node.counts for node in nodes])
        self.node_stds_ = np.sqrt([node.variance for node in nodes])
        self.node_shares_ = np.array([node.shares for node in nodes])

    def _target(self, y: Any) -> tuple[Any, dict[str, Any]]:
        return labels(y)

    # --- using it -----------------------------------------------------------------------

    def apply(self, X: Any) -> Any:
        """The number of the leaf that each row ends in."""
        self._check_fitted()
        rows = rows_of(X, self.columns_)
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

    def score(self, X: Any, y: Any) -> float:
        """The share of rows the analyst holds that are classified as y says."""
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def text(self) -> str:
        """The tree in words."""
        self._check_fitted()
        return text(seen(self))

    def plot(self, path: str | Path | None = None) -> sulq.Picture:
        """The tree drawn, saved as SVG or PNG if a path is given."""
        self._check_fitted()
        return drawn(picture(self), path)

    def __str__(self) -> str:
        return self.text() if hasattr(self, "columns_") else repr(self)
