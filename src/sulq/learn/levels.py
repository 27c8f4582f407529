"""What ID3 asks about a level of its tree, in our count and in the paper's.

Ours: one histogram per attribute, by (leaf of the tree so far, branch, class). The paper's, for
databases with pricing="paper": for each open node by itself N_T, N_j, and for each attribute
N_j^A and N_jk^A, that is 1 + t + d (t + t^2) numbers.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import sulq
from sulq.learn.arrays import Array
from sulq.learn.cuts import Cut
from sulq.learn.task import MICRO, LeftOut, Task, all_within, conjoined, noise_std
from sulq.learn.trees import Heard, LeafRule, Node, agreed, best_attribute, leaf_tree

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
        """The standard deviation of a count when a level may cost so much."""
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
        """What the level costs at the database's own noise: no more than the dearest for each."""
        return len(self._asked()) * max(price.queries for price in self._prices)

    def price(self, depth: int) -> sulq.Price:
        """The most that so many levels cost; the attribute at the root is used up by then."""
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
