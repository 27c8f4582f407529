"""A decision tree as it grows from noisy counts: which attribute to split by, what to prune.

A table holds, for one node and one attribute, the noisy count of rows by branch and class.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sulq.learn.arrays import Array
from sulq.learn.cuts import Cut

Numbers = NDArray[np.int64]
SUBSTANCE = 3.0  # standard deviations by which a subtree must differ from noise to stay


@dataclass(eq=False)
class Node:
    """A node: the way to it, its noisy class counts and their variance, and what is below."""

    path: tuple[tuple[int, int], ...] = ()  # attribute and branch, from the root
    counts: Array | None = None  # of each class; None: nobody asked yet
    variance: float = math.inf
    attribute: int = -1  # -1: a leaf
    children: list[Node] = field(default_factory=list)
    shares: Array | None = None  # of each class, as predicted

    @property
    def used(self) -> frozenset[int]:
        """The attributes that led here; they tell nothing more."""
        return frozenset(attribute for attribute, _ in self.path)

    @property
    def total(self) -> float:
        """N_T, the noisy count of its rows that have a class."""
        return math.inf if self.counts is None else float(self.counts.sum())

    def learn(self, counts: Array, variance: float) -> None:
        """Class counts heard again: the best mean of both."""
        if self.counts is None:
            self.counts, self.variance = counts, variance
            return
        known, new = 1 / max(self.variance, 1e-300), 1 / max(variance, 1e-300)
        self.counts = (known * self.counts + new * counts) / (known + new)
        self.variance = 1 / (known + new)

    def split(self, attribute: int, table: Array, variance: float) -> list[Node]:
        """One child for each branch, with the counts that the attribute's table gives it."""
        self.attribute = attribute
        self.children = [
            Node((*self.path, (attribute, branch)), counts, variance)
            for branch, counts in enumerate(table)
        ]
        return self.children

    def walk(self) -> Iterator[Node]:
        """Every node, each before those below it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True)
class Heard:
    """What a level said about one node, for each attribute left."""

    tables: dict[int, Array]  # branches x classes
    rows: dict[int, Array]  # in each branch
    variances: dict[int, float]  # of an entry of the table
    std: float  # of a count as it was asked


def agreed(node: Node, tables: dict[int, Array], std: float) -> Heard:
    """Tables of one node, all of which count the same rows: made to agree by least squares.

    Summed over its t branches a table gives the class counts, each with variance t std^2, so
    their best mean weighs a table by 1/t. What a table's sum is off from the node's best counts
    is then spread evenly over its branches.
    """
    weights = {a: 1 / len(table) for a, table in tables.items()}
    sums = np.sum([weights[a] * table.sum(axis=0) for a, table in tables.items()], axis=0)
    node.learn(sums / sum(weights.values()), std**2 / sum(weights.values()))
    assert node.counts is not None
    out, variances = {}, {}
    for a, w in weights.items():
        out[a] = tables[a] + w * (node.counts - tables[a].sum(axis=0))
        variances[a] = std**2 * (1 - w) + node.variance * w**2
    return Heard(out, {a: np.asarray(t.sum(axis=1)) for a, t in out.items()}, variances, std)


def gamma(branches: float, classes: int, max_gain_loss: float) -> float:
    """The paper's t^2 / Delta: a node of fewer than gamma standard deviations is not split."""
    return branches * classes / max_gain_loss


@dataclass(frozen=True, slots=True)
class LeafRule:
    """When a node has too few rows to be split: the paper's N_T < gamma e.

    With `delta` e = sqrt(R ln(1/delta)), R being the variance of a count: the paper's letter.
    Without, e is one standard deviation.
    """

    max_gain_loss: float
    delta: float | None = None

    @property
    def reach(self) -> float:
        """e, in standard deviations of a count."""
        return 1.0 if self.delta is None else math.sqrt(math.log(1 / self.delta))

    def least(self, branches: float, classes: int, std: float) -> float:
        """The rows that a node needs to be split."""
        return gamma(branches, classes, self.max_gain_loss) * self.reach * std

    def probability(self, counts: int) -> float:
        """Lemma 4: how likely at least all the counts of a node are within e of the truth.

        A normal count is beyond e with probability erfc(e / sqrt(2)); 1 - counts times that.
        """
        return max(0.0, 1.0 - counts * math.erfc(self.reach / math.sqrt(2)))


def information(table: Array, rows: Array, least: float) -> float:
    """V_A = sum of N_jk log2(N_jk / N_j), leaving out terms whose counts are below `least`.

    The paper leaves out what is below N_T / gamma. A node that is split has N_T >= gamma times
    the noise, so the noise itself may stand there: it leaves out no more.
    """
    total = np.broadcast_to(rows[:, None], table.shape)
    smaller = np.minimum(table, total)
    kept = (smaller >= least) & (smaller > 0)
    return float((table[kept] * np.log2(table[kept] / total[kept])).sum())


def best_attribute(heard: Heard, node: Node, rule: LeafRule) -> int | None:
    """The attribute that gains most, among those the node has rows enough for."""
    found, best = None, -math.inf
    for a, table in heard.tables.items():
        if node.total < rule.least(len(table), table.shape[1], heard.std):
            continue
        value = information(table, heard.rows[a], rule.reach * heard.std)
        if value > best:
            found, best = a, value
    return found


# --- after the last query ----------------------------------------------------------------


def prune(node: Node) -> None:
    """From the leaves up, take away what noise alone could have made.

    If all leaves below had the node's class shares p, their counts c would be off c.sum() p by
    noise only: by E|r|^2 = variance (k - 2 + k |p|^2) for k classes.
    """
    for child in node.children:
        prune(child)
    leaves = [n for n in node.walk() if not n.children]
    if not node.children or any(n.counts is None for n in leaves):
        return
    counts = np.array([n.counts for n in leaves])
    variances = np.maximum([n.variance for n in leaves], 1e-9)
    shares = shares_of(counts.sum(axis=0))
    k = counts.shape[1]
    off = ((counts - counts.sum(axis=1, keepdims=True) * shares) ** 2).sum(axis=1)
    by_noise = len(leaves) * (k - 2 + k * float((shares**2).sum()))
    if float((off / variances).sum()) <= by_noise + SUBSTANCE * math.sqrt(2 * by_noise):
        node.attribute, node.children = -1, []


def shares_of(counts: Array) -> Array:
    """Class shares; below zero there is nothing, and of nothing all classes are alike."""
    there = np.maximum(counts, 0.0)
    total = float(there.sum())
    return there / total if total > 0 else np.full(len(there), 1 / len(there))


def settle(node: Node, above: Array) -> None:
    """The shares to predict: the node's own, drawn to those above it where noise is large.

    The counts' noise has variance v each, k v together, against a count of N rows: the own
    shares weigh N^2 / (N^2 + k v).
    """
    assert node.counts is not None
    own, total = shares_of(node.counts), max(node.total, 0.0)
    noise = len(own) * node.variance
    weight = total**2 / (total**2 + noise) if total > 0 else 0.0
    node.shares = weight * own + (1 - weight) * above
    for child in node.children:
        settle(child, node.shares)


def flat(root: Node, most: int) -> tuple[Numbers, Numbers, list[Node]]:
    """The tree as arrays: each node's attribute, its children's numbers, and the nodes.

    `most` is the largest number of branches; a leaf leads to itself.
    """
    nodes = list(root.walk())
    number = {node: i for i, node in enumerate(nodes)}
    attributes = np.array([node.attribute for node in nodes])
    children = np.repeat(np.arange(len(nodes))[:, None], most, axis=1)
    for i, node in enumerate(nodes):
        children[i, : len(node.children)] = [number[c] for c in node.children]
    return attributes, children, nodes


def landed(attributes: Numbers, children: Numbers, codes: Numbers) -> Numbers:
    """The leaf each row ends in; codes are its branches, rows x attributes."""
    at = np.zeros(len(codes), dtype=np.int64)
    rows = np.arange(len(codes))
    while True:
        below = children[at, codes[rows, attributes[at]]]
        if np.array_equal(below, at):
            return at
        at = below


def leaf_tree(
    node: Node, cuts: Sequence[Cut], opened: frozenset[Node]
) -> tuple[Any, list[Node | None]]:
    """The tree that `sulq.Leaf` takes, and which open node each of its leaves is.

    What has no open node below is one leaf: nobody asks about its parts.
    """
    if node in opened:
        return None, [node]
    if not any(n in opened for n in node.walk()):
        return None, [None]
    below = [leaf_tree(child, cuts, opened) for child in node.children]
    wanted = [any(n is not None for n in leaves) for _, leaves in below]
    tree, order = cuts[node.attribute].tree([tree for tree, _ in below], wanted)
    return tree, [n for branch in order for n in below[branch][1]]
