"""ID3 decision trees (PODS 05, 4.4): a level is one batch of histograms, one scan.

For every open node and every attribute that may still split it, a level asks for the counts of
rows by branch and by class. One histogram per attribute, by (leaf of the tree so far, branch,
class), holds them for all nodes at once: a row is in one cell of it, so its price does not grow
with the number of nodes.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.base import BOUNDS, Classifier
from sulq.learn.cuts import Cut, cuts_of, usable
from sulq.learn.model_pictures import decisions, saved, tree_of
from sulq.learn.parameters import About, parameter
from sulq.learn.task import EXACT, MICRO, NOBODY, LeftOut, Task, all_within, conjoined, noise_std
from sulq.learn.trees import (
    Heard,
    LeafRule,
    Node,
    agreed,
    best_attribute,
    flat,
    landed,
    leaf_tree,
    prune,
    settle,
)


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


# ---- what is asked about a level of the tree ------------------------------------------------
# Ours: one histogram per attribute, by (leaf of the tree so far, branch, class). The paper's, for
# databases with pricing="paper": for each open node by itself N_T, N_j, and for each attribute
# N_j^A and N_jk^A, that is 1 + t + d (t + t^2) numbers.

LEAST_STD = 1e-3  # of a count, where there is no noise


class Levels:
    """A tree that grows by a level whenever it asks; `open` are the nodes it asks about."""

    def __init__(self, task: Task, cuts: list[Cut], rule: LeafRule) -> None:
        self.db = task.db
        self.cuts = cuts
        self.label = str(task.label)
        self.classes = len(task.classes)
        self.rule = rule
        self.where = task.complete
        # The last cell has no class: a value nobody declared, or a missing one.
        self.label_cells = self.classes + (task.labelled is not None)
        self.root = Node()
        self.open = [self.root]

    def grow(self, share: Any) -> bool:
        """Ask about the open nodes and split them; False: none has rows enough to ask about."""
        queries = self._within(share)
        if not queries:
            return False
        # Tables asked together would not be independent, as what is learned from them supposes.
        heard = self.heard(self._ask(queries))
        opened = []
        for node, said in zip(self.open, heard, strict=True):
            chosen = best_attribute(said, node, self.rule)
            if chosen is not None:
                opened += node.split(chosen, said.tables[chosen], said.variances[chosen])
        self.open = opened
        return True

    def _ask(self, queries: list[sulq.Query]) -> list[Any]:
        return self.db.ask(queries, share=False)

    def left_out(self) -> LeftOut:
        """Rows that are in no class of the root: they miss a column or the label."""
        return LeftOut.of(self.db.rows, self.root.counts, math.sqrt(self.root.variance))

    def _within(self, share: Any) -> list[sulq.Query]:
        """What to ask for so many queries, after closing nodes too small for its noise.

        Where the answer would be too large to be asked for, only the larger half stays open.
        """
        std = self.std(share)
        self.open = [n for n in self.open if n.total >= self._least(n, std)]
        while self.open:
            try:
                return all_within(self.db, self.queries(), share)
            except sulq.QueryNotAllowed:
                if self.root in self.open:
                    raise
                order = sorted(self.open, key=lambda node: -node.total)
                self.open = order[: len(order) // 2]
        return []

    def _least(self, node: Node, std: float) -> float:
        """The rows a node needs so that some attribute may split it."""
        sizes = [self.cuts[a].size for a in self.attributes(node)]
        return self.rule.least(min(sizes), self.classes, std)

    def std(self, share: Any) -> float:
        """The standard deviation of a count at so high a price of a level."""
        if share is None:
            return self._natural_std
        power = 1.0 if self.db.promise.noise == "laplace" else 0.5
        return self._natural_std * math.pow(self.natural() / share, power)

    @cached_property
    def _prices(self) -> list[sulq.Price]:
        """Of a histogram of each attribute by class."""
        queries = [sulq.Query(by=(cut.by, self.label), where=self.where) for cut in self.cuts]
        return [self.db.price(query) for query in queries]

    @cached_property
    def _natural_std(self) -> float:
        """Of a count, at the database's own noise."""
        return noise_std(self.db, self._prices[0])

    @property
    def counts(self) -> int:
        """How many counts a node is split by: of each attribute its branches, by class too."""
        return sum(cut.size for cut in self.cuts) * (1 + self.classes)

    def attributes(self, node: Node) -> list[int]:
        """Those that did not lead to the node."""
        return [a for a in range(len(self.cuts)) if a not in node.used]

    # --- our count ------------------------------------------------------------------------

    def queries(self) -> list[sulq.Query]:
        """A histogram per attribute that some open node may be split by."""
        tree, _ = leaf_tree(self.root, self.cuts, frozenset(self.open))
        leaf = () if tree is None else (sulq.Leaf(tree),)
        by = [(*leaf, self.cuts[a].by, self.label) for a in self._asked()]
        return [sulq.Query(by=each, where=self.where) for each in by]

    def heard(self, answers: list[Any]) -> list[Heard]:
        """Each open node's part of the answers."""
        _, leaves = leaf_tree(self.root, self.cuts, frozenset(self.open))
        place = {node: i for i, node in enumerate(leaves)}
        tables = {
            a: self._table(answer, self.cuts[a])
            for a, answer in zip(self._asked(), answers, strict=True)
        }
        std = max(answers[0].stds[0][0], LEAST_STD)
        return [
            agreed(node, {a: tables[a][place[node]] for a in self.attributes(node)}, std)
            for node in self.open
        ]

    def natural(self) -> Fraction:
        """The price of the level at the database's own noise: no more than the dearest for each."""
        return len(self._asked()) * max(price.queries for price in self._prices)

    def price(self, depth: int) -> sulq.Price:
        """The most paid for so many levels; the attribute at the root is used up by then."""
        micro = [price.micro for price in self._prices]
        return sulq.Price(sum(micro) + (depth - 1) * (len(micro) - 1) * max(micro))

    def _asked(self) -> list[int]:
        return sorted(set().union(*(self.attributes(node) for node in self.open)))

    def _table(self, answer: Any, cut: Cut) -> Array:
        """Leaves x branches x classes; what cannot be, and what has no class, is left out."""
        cells = answer.values[:, 0].reshape(-1, cut.cells, self.label_cells)
        return np.asarray(cells[:, : cut.size, : self.classes])


class PaperLevels(Levels):
    """The paper's own questions, each node by itself: charged per number, as it charges."""

    def queries(self) -> list[sulq.Query]:
        """For each open node N_T, N_j, and N_j^A and N_jk^A of each attribute."""
        out = []
        for node in self.open:
            tests = [f"({self.cuts[a].tests()[branch]})" for a, branch in node.path]
            where = conjoined(self.where, *tests)
            out += [sulq.Query(where=where), sulq.Query(by=self.label, where=where)]
            for cut in (self.cuts[a] for a in self.attributes(node)):
                out.append(sulq.Query(by=cut.by, where=where))
                out.append(sulq.Query(by=(cut.by, self.label), where=where))
        return out

    def heard(self, answers: list[Any]) -> list[Heard]:
        """Counts as they were asked for; N_T is not needed beside N_j."""
        rest, std = iter(answers), answers[-1].stds[0][0]  # the first may be n, which is exact
        return [self._node(node, rest, std) for node in self.open]

    def _node(self, node: Node, rest: Any, std: float) -> Heard:
        _, counts = next(rest), next(rest).values[: self.classes, 0]
        node.learn(counts, std**2)
        rows, tables = {}, {}
        for a in self.attributes(node):
            cut = self.cuts[a]
            rows[a] = next(rest).values[: cut.size, 0]
            tables[a] = self._table(next(rest), cut)[0]
        return Heard(tables, rows, dict.fromkeys(tables, std**2), std)

    def natural(self) -> Fraction:
        """So much a number."""
        numbers = sum(self._numbers(self.attributes(node)) for node in self.open)
        return numbers * self._each.queries

    def price(self, depth: int) -> sulq.Price:
        """For as many nodes as there can be, with as many attributes left as there can be."""
        most = sorted(range(len(self.cuts)), key=lambda a: -self.cuts[a].cells)
        sizes = sorted((cut.size for cut in self.cuts), reverse=True)
        nodes = itertools.accumulate([1, *sizes[: depth - 1]], lambda x, y: x * y)
        levels = (n * self._numbers(most[: len(most) - i]) for i, n in enumerate(nodes))
        everyone: sulq.Price = self.db.price(sulq.Query(where=self.where))  # n itself is free
        return sulq.Price(self._each.micro * (sum(levels) - 1) + everyone.micro)

    @cached_property
    def _each(self) -> sulq.Price:
        """One query for a private number; more where one person may have several rows."""
        asked = [(sulq.Query(by=self.label), self.label_cells)]
        asked += [
            (sulq.Query(by=(cut.by, self.label)), cut.cells * self.label_cells) for cut in self.cuts
        ]
        prices = [(self.db.price(query).micro, numbers) for query, numbers in asked]
        return sulq.Price(max(-(-micro // numbers) for micro, numbers in prices))

    def _numbers(self, attributes: list[int]) -> int:
        """1 + t, and t_A + t_A t for each attribute."""
        cells = sum(self.cuts[a].cells for a in attributes)
        return 1 + self.label_cells + cells * (1 + self.label_cells)


class ExactLevels(Levels):
    """Our questions to a database that answers exactly or refuses: a level whole, or not at all."""

    def _ask(self, queries: list[sulq.Query]) -> list[Any]:
        return self.db.ask(queries, together=True)

    def std(self, share: Any) -> float:
        """Of the dither, whatever is paid."""
        return max(self._natural_std, LEAST_STD)

    def price(self, depth: int) -> sulq.Price:
        """The root's own, then one query for each number of as many nodes as there can be."""
        root = sum(price.micro for price in self._prices)
        sizes = sorted((cut.size for cut in self.cuts), reverse=True)
        nodes = list(itertools.accumulate(sizes[: depth - 1], lambda x, y: x * y))
        cells = sorted((cut.cells for cut in self.cuts), reverse=True)
        below = sum(n * sum(cells[: len(cells) - i - 1]) for i, n in enumerate(nodes))
        return sulq.Price(root + MICRO * self.label_cells * below)


def planned(levels: Levels, deepest: int, budget: Any) -> int:
    """How many levels n rows can feed: as many as leave an average node rows enough to split.

    n is public, so this looks at no row. More levels would only take from the first ones.
    """
    if isinstance(levels, PaperLevels | ExactLevels):
        return deepest
    t = branching(levels.cuts)
    for depth in range(deepest, 1, -1):
        left = levels.price(depth).queries if budget is None else Fraction(budget)
        for i in range(depth):
            share = left * share_now(levels.cuts, depth - i)
            if levels.db.rows < t**i * levels.rule.least(t, levels.classes, levels.std(share)):
                break
            left -= share
        else:
            return depth
    return 1


def branching(cuts: list[Cut]) -> float:
    """Branches of an attribute, on average; in `other` there is mostly nobody."""
    return math.exp(sum(math.log(max(cut.size - cut.other, 1)) for cut in cuts) / len(cuts))


def share_now(cuts: list[Cut], levels_left: int) -> Fraction:
    """The next level's part of what is left.

    A level down there are t times as many nodes, each with 1/t of the rows, and what is lost by
    choosing a worse attribute goes as the noise: t^level std in all. For a given sum of 1/std^2
    that is least where 1/std^2 goes as t^(2/3 level).
    """
    growth = branching(cuts) ** (2 / 3)
    total = sum(growth**i for i in range(levels_left))
    return Fraction(max(round(MICRO / total), 1), MICRO)
