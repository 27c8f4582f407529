"""The papers' algorithms on exact sums, where the auditor allows them: all or nothing a step."""

import numpy as np
import pyarrow as pa
import pytest
from audit.harness import audited, duan
from sklearn.cluster import KMeans as ExactKMeans
from soak import in_soak

import sulq
from sulq.learn import ID3, PCA, KMeans

N = 20_000
SCHEMA = {
    "id": {"key": True, "type": "integer", "low": 0, "high": N},
    "x": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "y": {"type": "number", "low": 0, "high": 1, "nullable": False},
    "p": {"type": "boolean", "nullable": False},
    "q": {"type": "boolean", "nullable": False},
    "r": {"type": "boolean", "nullable": False},
    "ill": {"type": "boolean", "nullable": False},
}
PRIORS = {n: (0.2, 0.8) for n in ("p", "q", "r", "ill")}
CENTRES = np.array([[0.2, 0.3], [0.7, 0.8], [0.8, 0.2]])


@pytest.fixture(scope="module")
def table():
    """Three clouds; q goes with p, and ill with both."""
    return people(N)


def people(n):
    """Draw n rows."""
    rng = np.random.default_rng(5)
    points = np.clip(CENTRES[rng.integers(0, 3, n)] + rng.normal(0, 0.03, (n, 2)), 0, 1)
    p = rng.random(n) < 0.5
    q = rng.random(n) < np.where(p, 0.7, 0.3)
    r = rng.random(n) < 0.5
    ill = rng.random(n) < np.where(p & q, 0.8, np.where(p | q, 0.5, 0.2))
    return pa.table({"id": np.arange(n), "x": points[:, 0], "y": points[:, 1], "p": p, "q": q,
                     "r": r, "ill": ill})  # fmt: skip


def free(table, **terms):
    """The paper's rule at an epsilon that promises nothing, so that few rows are enough.

    At epsilon 1 the rule wants more rows: `test_models_are_answered_at_epsilon_1`.
    """
    return duan(table, SCHEMA, **{"epsilon": 10_000.0, "queries": 200} | terms)


def judged(table, **terms):
    """The default rule, with bounds that hold whatever a row's other values are."""
    return audited(table, SCHEMA, **{"priors": PRIORS, "queries": 200, "epsilon": 3.0} | terms)


def test_kmeans_is_exact_under_duan(table):
    """Lloyd's steps from the same start as scikit-learn's give the same centres."""
    start = CENTRES + 0.05
    model = KMeans(3, max_iter=2, init=start).fit(free(table), columns=["x", "y"])
    rows = np.column_stack([table["x"], table["y"]])
    exact = ExactKMeans(3, init=start, n_init=1, max_iter=2, tol=0, algorithm="lloyd").fit(rows)
    assert model.n_iter_ == 2
    assert np.allclose(model.cluster_centers_, exact.cluster_centers_, atol=1e-4)
    assert model.center_stds_.max() == 0


def test_kmeans_settles_and_asks_nothing_twice(table):
    """Once no centre moves, it stops: the paper refuses what it has answered."""
    db = free(table)
    model = KMeans(3, max_iter=12, init=CENTRES + 0.05).fit(db, columns=["x", "y"])
    assert model.n_iter_ == 2
    assert db.budget.spent == 2 * 8


def test_kmeans_of_booleans_under_classes(table):
    """Near which corner a row is, is a truth table: counts, which the default rule can judge."""
    db = judged(table)
    model = KMeans(2, max_iter=2, init=[[0.1, 0.2], [0.9, 0.8]])
    price = model.price(db, columns=["p", "q"])
    model.fit(db, columns=["p", "q"])
    data = np.column_stack([table["p"], table["q"]]).astype(float)
    near = ((data[:, None, :] - model.cluster_centers_[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert np.allclose(model.cluster_centers_, [data[near == k].mean(axis=0) for k in (0, 1)])
    assert db.budget.spent <= price.queries
    with pytest.raises(sulq.QueryNotAllowed, match="rule='classes'"):
        KMeans(2, max_iter=1).fit(db, columns=["x", "y"])


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_id3_is_exact(table, rule):
    """The tree of the exact counts, a level whole: p and q, then the other of them."""
    db = judged(table) if rule == "classes" else free(table)
    tree = ID3(max_depth=2, prune=False)
    price = tree.price(db, columns=["p", "q"], label="ill")
    tree.fit(db, columns=["p", "q"], label="ill")
    p, q, ill = (np.array(table[n]) for n in ("p", "q", "ill"))
    found = tree.predict_proba([[a, b] for a in (False, True) for b in (False, True)])[:, 1]
    exact = [ill[(p == a) & (q == b)].mean() for a in (False, True) for b in (False, True)]
    assert np.allclose(found, exact)
    assert db.budget.spent <= price.queries


@pytest.mark.parametrize("rule", ["classes", "duan"])
def test_pca_is_exact(table, rule):
    """Numbers under the paper's rule, Booleans under both: components of the exact covariance."""
    db = judged(table) if rule == "classes" else free(table)
    columns = ["p", "q", "r"] if rule == "classes" else ["x", "y", "p"]
    model = PCA().fit(db, columns=columns)
    data = np.column_stack([np.array(table[c], dtype=float) for c in columns])
    values = np.sort(np.linalg.eigvalsh(np.cov(data.T)))[::-1]
    assert np.allclose(model.explained_variance_, values, atol=1e-6)
    assert db.budget.spent == (6 if rule == "classes" else 8)


@pytest.mark.parametrize(("rows", "is_answered"), [(40_000, False), (90_000, True)])
def test_models_are_answered_at_epsilon_1(rows, is_answered):
    """PCA of three Booleans needs about 90,000 rows; docs/howto/audited.md says so."""
    data = people(rows)
    schema = SCHEMA | {"id": {"key": True, "type": "integer", "low": 0, "high": rows}}
    db = duan(data, schema, epsilon=1.0, queries=6)
    model = PCA()
    if not is_answered:
        with pytest.raises(sulq.AuditRefused):
            model.fit(db, columns=["p", "q", "r"])
        return
    model.fit(db, columns=["p", "q", "r"])
    exact = np.linalg.eigvalsh(np.cov([np.array(data[c], dtype=float) for c in ("p", "q", "r")]))
    assert np.allclose(model.explained_variance_, exact[::-1], atol=1e-6)


@in_soak
def test_a_tree_is_answered_at_epsilon_1():
    """ID3 of two levels needs about 3 million rows."""
    rows = 3_000_000
    schema = SCHEMA | {"id": {"key": True, "type": "integer", "low": 0, "high": rows}}
    db = duan(people(rows), schema, epsilon=1.0, queries=14)
    ID3(max_depth=2, prune=False).fit(db, columns=["p", "q"], label="ill")
    assert db.budget.spent == 12


def test_a_refused_step_is_refused_whole(table):
    """The auditor's no ends the fit; what was asked is charged, and nothing else was answered."""
    db = judged(table, priors={n: PRIORS[n] for n in ("p", "q")}, independent_columns=False)
    with pytest.raises(sulq.AuditRefused, match="too rare to hide"):
        PCA().fit(db, columns=["p", "q"])
    assert db.budget.spent == 3
    assert db.count("p").value == sum(table["p"].to_pylist())  # no trace of it
    small = duan(table, SCHEMA, epsilon=1.0, queries=50)
    with pytest.raises(sulq.AuditRefused):
        KMeans(3, max_iter=2).fit(small, columns=["x", "y"])
