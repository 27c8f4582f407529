"""Covariances, correlations and components of columns that lie in different databases."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2
from scipy.stats import t as student
from soak import in_soak
from vertical.data import NUMBER, database, people_apart

import sulq
from sulq import vertical
from sulq.learn.second_moments import Moments
from sulq.vertical.blocks import BlockSums, freedom_of, together
from sulq.vertical.common_people import People
from sulq.vertical.covariance import across, scaled_of

BLOCKS = 4_000
APART = people_apart(60, BLOCKS)


def columns(n, d, seed=0):
    """Numbers in [0, 1] with one strong direction."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(n, 1))
    X = 0.5 + 0.12 * shared * np.linspace(1.0, 0.6, d) + 0.06 * rng.normal(size=(n, d))
    return np.clip(X, 0.0, 1.0)


def sources(X, each=2, declared=NUMBER, **settings):
    made = []
    for i in range(0, X.shape[1], each):
        names = [f"x{j}" for j in range(i, min(i + each, X.shape[1]))]
        held = {name: X[:, j] for j, name in enumerate(names, i)}
        made.append((database(held, declared, name=f"db{i}", **settings), names))
    return made


@pytest.fixture(scope="module")
def exact():
    """Sixty people, each in a block of their own, no noise."""
    X = columns(60, 4)
    asked = sources(X, epsilon=1e9, queries=100)
    return vertical.covariance(asked, blocks=BLOCKS, seed=APART), X, asked


def test_covariances_are_those_of_the_joined_tables(exact):
    """Within a database and across; means beside them."""
    found, X, _ = exact
    assert found.names == ("x0", "x1", "x2", "x3")
    assert np.allclose(found.values, np.cov(X.T, bias=True), atol=2e-4)
    assert np.allclose(found.mean, X.mean(axis=0), atol=1e-3)
    assert np.allclose(found.values, found.values.T)
    assert found["x0", "x3"] == pytest.approx(np.cov(X.T, bias=True)[0, 3], abs=2e-4)
    with pytest.raises(sulq.Refused, match="x9"):
        found["x9", "x0"]


def test_correlations(exact):
    """They are near numpy's, and free once the covariance is paid."""
    found, X, asked = exact
    assert np.allclose(found.correlation().values, np.corrcoef(X.T), atol=0.03)
    again = vertical.correlation(asked, blocks=BLOCKS, seed=APART)  # the same questions: free
    assert np.allclose(again.values, found.correlation().values)
    low, high = again.interval()
    assert np.all((low >= -1) & (high <= 1))
    assert "price" in str(again)


def test_own_units():
    """A column in thousands has covariances in thousands."""
    X = columns(60, 2)
    wide = {"type": "number", "low": 0.0, "high": 1000.0, "nullable": False}
    one = database({"x": 1000 * X[:, 0]}, wide, name="a", epsilon=1e9)
    other = database({"x": X[:, 1]}, NUMBER, name="b", epsilon=1e9)
    found = vertical.covariance([(one, ["x"]), (other, ["x"])], blocks=BLOCKS, seed=APART)
    assert found.names == ("a 1.x", "b 2.x")
    true = np.cov(1000 * X[:, 0], X[:, 1], bias=True)
    assert np.allclose(found.values, true, rtol=0.05)


def test_errors_are_those_announced():
    """Every entry across, over 150 draws of blocks and noise; false alarm 1e-9 each entry."""
    n, blocks, noise = 10_000, 300, 0.5
    X = columns(n, 4)
    true = np.cov(X.T, bias=True)[:2, 2:]
    rng, pulls = np.random.default_rng(3), []
    for _ in range(150):
        cell = rng.integers(0, blocks, n)
        people = People(np.bincount(cell, minlength=blocks).astype(float))
        exact = np.stack([np.bincount(cell, weights=x, minlength=blocks) for x in X.T], axis=1)
        noisy = exact + rng.normal(size=exact.shape) * math.sqrt(noise)
        a, b = (BlockSums(noisy[:, s], np.full(2, noise), people)
                for s in (slice(0, 2), slice(2, 4)))  # fmt: skip
        cov, variance = together(a, b)
        pulls.append((cov - true) / np.sqrt(variance))
    z = np.array(pulls)
    assert np.all(np.abs(z.mean(axis=0)) * math.sqrt(len(z)) < 6.2)
    sizes = chi2.cdf(np.square(z).sum(axis=0), len(z))
    assert np.all((sizes > 1e-9) & (sizes < 1 - 1e-9))
    halved = chi2.cdf(np.square(z * 2).sum(axis=0), len(z))
    assert np.all(halved > 1 - 1e-9)


def test_few_blocks_have_wide_intervals():
    """Errors that 16 products tell are known badly, which the interval says."""
    X = columns(200, 2)
    sides = [database({"x": X[:, i]}, NUMBER, name=f"{i}", epsilon=1e9) for i in (0, 1)]
    found = vertical.covariance([(db, ["x"]) for db in sides], blocks=16)
    low, high = found.interval()
    assert high[0, 1] - low[0, 1] > 1.3 * 2 * 1.96 * found.stds[0, 1]
    assert found["0 1.x", "1 2.x"].interval() == (low[0, 1], high[0, 1])


def test_errors_within_a_database_are_those_announced():
    """Noise on means and products alike, 400 draws; false alarm 1e-9 an entry."""
    mean, cov = np.array([0.3, -0.2]), np.array([[0.05, 0.02], [0.02, 0.04]])
    second, rng, pulls = cov + np.outer(mean, mean), np.random.default_rng(5), []
    people = People(np.ones(10))
    sums = [BlockSums(rng.normal(size=(10, 2)), np.ones(2), people) for _ in range(2)]
    for _ in range(400):
        noise = np.triu(rng.normal(size=(2, 2)))
        noise = (noise + np.triu(noise, 1).T) * 0.001
        made = Moments(mean + rng.normal(size=2) * 0.004, second + noise, 0.004,
                       np.full((2, 2), 0.001))  # fmt: skip
        found = scaled_of([made, made], sums)
        pulls.append(((found.covariance - np.kron(np.ones((2, 2)), cov)) /
                      np.sqrt(found.variance))[:2, :2])  # fmt: skip
    sizes = chi2.cdf(np.square(pulls).sum(axis=0), len(pulls))
    assert np.all((sizes > 1e-9) & (sizes < 1 - 1e-9))


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_prices_are_known_before_and_kept(guarantee):
    """A budget is not exceeded, nine tenths of it go to sums by block, and the rest within."""
    asked = sources(columns(500, 4), guarantee=guarantee, queries=3)
    plan = vertical.plan(vertical.covariance, asked, budget=3)
    assert all(2.99 < float(p) <= 3 for p in plan.prices)
    own, by_block = (asked[0][0].price(q).queries for q in plan.parts[0].queries)
    assert own == pytest.approx(0.3, abs=1e-3)
    found = vertical.covariance(asked, budget=3)
    assert [float(db.budget.spent) for db, _ in asked] == [float(p) for p in found.price]
    assert own + by_block <= 3


@in_soak
def test_a_plan_gives_what_its_function_gives():
    """Asked after correlations, the same questions are free and their plan gives the same."""
    asked = sources(columns(2000, 4), epsilon=1e6, queries=3)
    found = vertical.correlation(asked)
    planned = vertical.plan(vertical.correlation, asked).run()
    assert np.array_equal(planned.values, found.values)
    assert np.all(np.diag(planned.values) == 1.0)


def test_pca_across_databases():
    """The first component is the exact one's, with announced angles and the price kept."""
    X = columns(4000, 4)
    asked = sources(X, guarantee="dp", epsilon=50.0, queries=1, quiet=False)
    model = vertical.PCA(n_components=2, budget=1, blocks=1500)
    prices = model.price(asked)
    assert model.fit(asked) is model
    assert model.price_ == tuple(float(p) for p in prices)
    first = np.linalg.eigh(np.cov(X.T))[1][:, -1]
    angle = math.acos(min(1.0, abs(float(first @ model.components_[0]))))
    assert angle < 6 * model.component_angles_[0] + 0.02
    assert angle < 0.2
    assert model.transform(X[:3]).shape == (3, 2)
    assert model.columns_ == ("x0", "x1", "x2", "x3")
    body = model.to_json()
    again = vertical.PCA.from_json(body)
    assert np.allclose(again.components_, model.components_)
    assert again.get_params()["budget"] == 1


@pytest.mark.parametrize("scaled", [True, False])
def test_svd_is_that_of_the_joined_rows(scaled):
    """Each person's row lies in parts in two databases; without noise the SVD is numpy's."""
    X = columns(60, 4)
    asked = sources(X, epsilon=1e9, queries=100)
    model = vertical.SVD(3, scaled=scaled, blocks=BLOCKS, seed=APART).fit(asked)
    values, vectors = np.linalg.svd(X)[1:]
    assert np.allclose(model.singular_values_[0], values[0], rtol=1e-2)
    assert abs(float(vectors[0] @ model.components_[0])) == pytest.approx(1.0, abs=1e-3)
    found = model.components_ @ (X.T @ X) @ model.components_.T
    assert np.allclose(np.sqrt(np.diag(found))[:2], values[:2], rtol=5e-2)
    assert model.columns_ == ("x0", "x1", "x2", "x3")
    assert np.allclose(model.mean_, 0.0)  # about zero, unlike PCA
    again = vertical.SVD.from_json(model.to_json())
    assert np.allclose(again.transform(X[:3]), model.transform(X[:3]))


def test_svd_with_noise_announces_its_angle():
    """The first singular vector turns by no more than six times what is announced; fixed blocks.

    Six standard deviations: a false alarm once in a hundred million draws of the noise.
    """
    X = columns(4000, 4)
    asked = sources(X, guarantee="dp", epsilon=50.0, queries=1, quiet=False)
    model = vertical.SVD(2, budget=1, blocks=1500)
    prices = model.price(asked)
    model.fit(asked)
    assert model.price_ == tuple(float(p) for p in prices)
    first = np.linalg.svd(X, full_matrices=False)[2][0]
    angle = math.acos(min(1.0, abs(float(first @ model.components_[0]))))
    assert angle < 6 * model.component_angles_[0] + 0.02
    assert angle < 0.1
    with pytest.raises(sulq.Refused, match="n_components"):
        vertical.SVD(5).fit(asked)


def test_what_cannot_be_asked_is_refused_free():
    """Neither side is charged."""
    asked = sources(columns(300, 4))
    db, _ = asked[0]
    for wrong in (
        [], [asked[0]], [asked[0], asked[0]], [(db, "x0"), asked[1]], [(db, []), asked[1]],
        [(db, ["nothing"]), asked[1]], [(db, ["id"]), asked[1]], 7,
    ):  # fmt: skip
        with pytest.raises(sulq.Refused):
            vertical.covariance(wrong)
    for k in (0, 5, True):
        with pytest.raises(sulq.Refused, match="n_components"):
            vertical.PCA(n_components=k).fit(asked)
    assert [d.budget.spent for d, _ in asked] == [0, 0]


def test_a_variance_lost_in_noise_has_no_correlation():
    """It is refused instead of divided by."""
    asked = sources(columns(100, 4), epsilon=0.01, quiet=False)
    with pytest.raises(sulq.Refused, match="lost in the noise"):
        vertical.correlation(asked)


# --- missing values -----------------------------------------------------------------------

MAYBE = {"type": "number", "low": 0.0, "high": 1.0}


def with_holes(X, share, seed=1):
    """Values gone more often where the first column is large, some of each column."""
    rng = np.random.default_rng(seed)
    often = np.clip(share * np.where(X[:, :1] > np.median(X[:, 0]), 1.6, 0.4), 0, 1)
    return np.where(rng.random(X.shape) < often, np.nan, X)


def nulls(X):
    """NaN as Arrow's missing value."""
    return {f"x{j}": pa.array(X[:, j], from_pandas=True) for j in range(X.shape[1])}


def pairwise_complete(X, each):
    """Covariances of people who have all columns of both databases. Independent code."""
    d = X.shape[1]
    out = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            used = [k for k in range(d) if k // each in (i // each, j // each)]
            kept = X[~np.isnan(X[:, used]).any(axis=1)]
            out[i, j] = np.cov(kept[:, i], kept[:, j], bias=True)[0, 1]
    return out


@pytest.mark.parametrize("share", [0.0, 0.1, 0.44])
def test_people_with_missing_values_are_left_out(share):
    """Without noise: covariances of those whom neither database leaves out, and how many it did."""
    X = with_holes(columns(60, 4), share)
    held = nulls(X)
    asked = []
    for names in (["x0", "x1"], ["x2", "x3"]):
        mine = {name: held[name] for name in names}
        asked.append((database(mine, MAYBE, name=names[0], epsilon=1e9, queries=100), names))
    found = vertical.covariance(asked, blocks=BLOCKS, seed=APART)
    assert np.allclose(found.values, pairwise_complete(X, 2), atol=3e-4)
    gone = [np.isnan(X[:, k : k + 2]).any(axis=1).sum() for k in (0, 2)]
    assert [x.rows for x in found.left_out] == pytest.approx(gone, abs=1e-3)
    assert ", in database 2" in str(found)
    model = vertical.PCA(2, blocks=BLOCKS, seed=APART).fit(asked)
    assert model.left_out_ == pytest.approx(tuple(gone), abs=1e-3)
    assert model.mean_[0] == pytest.approx(X[~np.isnan(X[:, :2]).any(axis=1), 0].mean(), abs=1e-3)
    assert "left out: " in model.summary()


def blocks_of(y, cell, blocks, rng, fill):
    """Counts and sums by block of one column about 1/2, with noise of variance 1."""
    there = ~np.isnan(y)
    sums = np.column_stack([
        np.bincount(cell, weights=(there | fill).astype(float), minlength=blocks),
        np.bincount(cell, weights=np.where(there, y - 0.5, 0.0), minlength=blocks),
    ])  # fmt: skip
    sizes = np.bincount(cell, minlength=blocks).astype(float)
    noise = np.array([1.0, 1.0])
    return BlockSums(sums + rng.normal(size=sums.shape) * np.sqrt(noise), noise, People(sizes))


def covered(fill, runs, blocks=4_000):
    """How often the 95% interval of one covariance holds that of the complete people."""
    rng, hits = np.random.default_rng(0), 0
    width = student.ppf(0.975, freedom_of(blocks))
    for seed in range(runs):
        X = with_holes(columns(40_000, 2, seed) / 2, 0.4, seed)  # the middle is far from it
        cell = rng.integers(0, blocks, len(X))
        a, b = (blocks_of(X[:, k], cell, blocks, rng, fill) for k in (0, 1))
        found, variance = across(a, b)
        true = pairwise_complete(X, 1)[0, 1]
        hits += abs(found[0, 0] - true) <= width * math.sqrt(variance[0, 0])
    return hits / runs


def test_intervals_hold_with_people_left_out():
    """87% of 200 or more cover; false alarm below 1e-5. Filled with the middle, few of 20 do."""
    assert covered(fill=False, runs=200) >= 0.87
    assert covered(fill=True, runs=20) <= 0.4
