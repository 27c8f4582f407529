"""Strategies: how close to the least error they are, computed from their whole numbers."""

import numpy as np
import pytest

from sulq.privacy.strategy_matrix import UNIT, strategy_matrix
from sulq.strategies.optimum import SCALE, best_matrix


def gram(workload, size):
    """W^T W of all ranges, or of all prefixes, and how many there are."""
    i = np.arange(size)
    late = np.maximum.outer(i, i)
    if workload == "suffixes":
        return np.minimum.outer(i, i) + 1.0, size
    if workload == "prefixes":
        return size - late.astype(float), size
    return (np.minimum.outer(i, i) + 1.0) * (size - late), size * (size + 1) / 2


def mean_variance(matrix, wanted, count, in_pairs):
    """At unit price: the mean variance of the wanted sums times what one row can move."""
    a = matrix.astype(float)
    products = a.T @ a
    lengths = np.diagonal(products)
    moved = lengths.max()
    if in_pairs:
        moved = max(moved, (np.add.outer(lengths, lengths) - 2 * products).max())
    return float((np.linalg.inv(products) * wanted).sum()) * moved / count


FIGURES = [  # no strategy is below 6.629, 5.261, 6.373 alone, 10.980, 7.602, 9.517 in pairs
    ("ranges", 121, False, 6.64),
    ("prefixes", 121, False, 5.29),
    ("prefixes", 256, False, 6.40),
    ("suffixes", 121, False, 5.29),
    ("ranges", 121, True, 11.0),
    ("prefixes", 121, True, 7.71),
    ("suffixes", 121, True, 7.71),
    ("prefixes", 256, True, 9.65),
]


@pytest.mark.parametrize(("workload", "size", "in_pairs", "most"), FIGURES)
def test_named_strategies_are_near_the_optimum(workload, size, in_pairs, most):
    """Mean variance at unit price; a tree of histograms has 9.18 and 7.30 for 121 cells."""
    matrix = strategy_matrix((workload,), (size,), in_pairs)
    wanted, count = gram(workload, size)
    assert mean_variance(matrix, wanted, count, in_pairs) <= most


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 333])
@pytest.mark.parametrize("workload", ["cells", "ranges", "prefixes"])
@pytest.mark.parametrize("in_pairs", [False, True])
def test_rounding_makes_no_column_longer(size, workload, in_pairs):
    """Lengths, and in pairs distances, of at most 1 in whole numbers."""
    a = strategy_matrix((workload,), (size,), in_pairs).astype(object)
    lengths = (a * a).sum(axis=0)
    assert lengths.max() <= UNIT**2
    if in_pairs and size <= 64:
        apart = np.add.outer(lengths, lengths) - 2 * (a.T @ a)
        assert apart.max() <= UNIT**2


def batches():
    pick = np.random.default_rng(5)
    cells = np.arange(40)
    pairs = np.sort(pick.integers(0, 40, (60, 2)), axis=1)
    yield np.array([(cells >= a) & (cells <= b) for a, b in pairs])
    yield np.array([cells > a for a in range(30)])
    yield pick.random((25, 12)) < 0.4
    yield np.eye(9, dtype=bool)


def bound(wanted):
    """No strategy with columns of length 1 has less: the dual of the problem at some multipliers.

    tr(G X^-1) >= (tr (M^1/2 G M^1/2)^1/2)^2 / tr(M) for every diagonal M and X_ii <= 1.
    """
    multipliers, best = np.ones(len(wanted)), 0.0
    for _ in range(200):
        root = np.sqrt(multipliers)
        values, vectors = np.linalg.eigh(wanted * np.outer(root, root))
        half = vectors * np.maximum(values, 0) ** 0.25 / root[:, None]
        best = max(best, np.sqrt(np.maximum(values, 0)).sum() ** 2 / multipliers.sum())
        lengths = (half**2).sum(axis=1)
        multipliers = np.maximum(multipliers * (lengths / lengths.max()) ** 2, 1e-12)
    return best


@pytest.mark.parametrize("batch", list(batches()), ids=["ranges", "thresholds", "random", "cells"])
def test_a_batch_has_a_matrix_near_its_optimum(batch):
    """Within 3% of a lower bound; in pairs never worse than twice, which costs the same."""
    work = batch.astype(float)
    work = work[:, work.any(axis=0)]
    wanted = work.T @ work
    alone = mean_variance(best_matrix(wanted, False), wanted, len(work), False)
    assert 0.999 <= alone * len(work) / bound(wanted) < 1.03
    in_pairs = mean_variance(best_matrix(wanted, True), wanted, len(work), True)
    assert in_pairs < 2.02 * alone


def test_matrices_are_small_whole_numbers():
    """So that they fit into a ledger: entries up to 1,024, below the diagonal nothing."""
    wanted, _ = gram("ranges", 30)
    for in_pairs in (False, True):
        found = best_matrix(wanted, in_pairs)
        assert np.abs(found).max() <= SCALE + 1
        assert not np.tril(found, -1).any()
