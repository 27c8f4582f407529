"""What columns of numbers look like: a public list, the same for every table."""

import numpy as np
import pytest

from sulq.privacy.strategy_matrix import UNIT, strategy_matrix
from sulq.profile_cells import edges_of
from sulq.profile_shapes import FALLS, MIXED, MOST, Shapes, shapes, shapes_of
from sulq.values.schema import Column

EDGES = {
    (kind, fine): np.array([float(e) for e in edges_of(Column("x", kind), fine=fine)])
    for kind in ("number", "integer") for fine in (True, False)
}  # fmt: skip
NUMBERS = EDGES["number", True]
MATRIX = strategy_matrix(("prefixes",), (len(NUMBERS) - 1,), True) / UNIT
ROWS = 1000


@pytest.mark.parametrize("edges", EDGES.values())
def test_every_shape_is_shares_of_all_rows(edges):
    """None below 0, 1 in all, whatever the cells."""
    found = shapes(edges)
    assert found.shape[1] == len(edges) - 1
    assert (found >= 0).all()
    assert np.allclose(found.sum(axis=1), 1)


def test_the_list_is_the_same_on_both_sides_of_0():
    """But for small whole numbers, which are counted from 0 up."""
    found = shapes(NUMBERS)
    squares = (found**2).sum(axis=1)
    apart = squares[:, None] + squares - 2 * found @ found[:, ::-1].T
    turned = apart.min(axis=0) < 1e-9
    assert len(found) - 2 * len(MOST) * len(FALLS) <= turned.sum() < len(found)


def test_shares_of_zeros_and_of_the_rest_are_at_most_all():
    """And all that is possible together has probability 1."""
    zeros, whole, likely = MIXED.T
    assert (zeros + whole <= 1 + 1e-9).all()
    assert likely.sum() == pytest.approx(1)


def test_a_column_that_looks_like_one_in_the_list_is_expected():
    """A quarter zeros, the rest as many of each size up to 16: within 5% of all rows."""
    kept = Shapes(NUMBERS, MATRIX)
    values = np.concatenate([np.zeros(250), np.linspace(0.01, 16, 750)])
    counts = np.histogram(values, NUMBERS)[0]
    noise = 20 * np.random.default_rng(2).standard_normal(len(counts))
    found = kept.expected(MATRIX @ counts + noise, 20.0, ROWS)
    assert np.abs(found.cumsum() - counts.cumsum()).max() < 0.05 * ROWS
    assert found[kept.zero] == pytest.approx(counts[kept.zero], abs=0.05 * ROWS)


def test_a_list_is_made_once_for_the_same_cells_and_answers():
    """Two hundred columns share one."""
    edges = edges_of(Column("x", "number"), fine=True)
    assert shapes_of(edges, MATRIX) is shapes_of(list(edges), MATRIX.copy())
