"""Spectral clustering: exact without noise, priced before, and never failing for noise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import opened
from learn.data import columns_of, schema, table

import sulq
from sulq import learn
from sulq.learn import SVD, SpectralClustering

pytestmark = pytest.mark.filterwarnings("ignore:epsilon=")
D, K = 12, 3


def rows(n=3000, seed=0):
    """Three groups, each high in a third of the columns."""
    rng = np.random.default_rng(seed)
    which = np.arange(n) % K
    centres = 0.15 + 0.6 * (np.arange(D) % K == np.arange(K)[:, None])
    return np.clip(centres[which] + rng.normal(size=(n, D)) * 0.05, 0, 1), which


def database(**settings):
    X, _ = rows()
    return opened(table(X), schema(D), **settings)


def same_groups(found, which):
    """Is every group one of the true ones, whatever it is called?"""
    return len({*zip(found.tolist(), which.tolist(), strict=True)}) == K == len({*found.tolist()})


def test_without_noise_it_finds_the_groups():
    """Directions are SVD's, the centres those of the projected rows, in own units too."""
    X, which = rows()
    db = database(epsilon=1e9)
    model = SpectralClustering(K).fit(db, columns=columns_of(D))
    assert same_groups(model.predict(X), which)
    svd = SVD(K).fit(db, columns=columns_of(D))
    assert np.allclose(model.components_, svd.components_)
    assert np.allclose(model.transform(X), svd.transform(X))
    exact = np.array([X[which == g].mean(axis=0) for g in range(K)])
    own = [np.abs(exact - centre).max(axis=1).min() for centre in model.cluster_centers_]
    assert max(own) < 0.02
    assert model.cluster_fractions_ == pytest.approx([1 / 3] * 3, abs=1e-3)
    assert model.n_components_ == K


def test_the_price_is_known_before_and_no_more_is_spent():
    """With a budget and without; the directions are free for SVD afterwards."""
    for budget in (None, 40):
        db = database(quiet=False, queries=10**6, epsilon=5.0)
        model = SpectralClustering(K, budget=budget, max_iter=2)
        price = model.price(db, columns_of(D)).queries
        model.fit(db, columns=columns_of(D))
        assert 0 < db.budget.spent <= price
        if budget is None:
            spent = db.budget.spent
            SVD(K).fit(db, columns=columns_of(D))
            assert db.budget.spent == spent
    db = database(queries=2)
    with pytest.raises(sulq.BudgetExceeded):
        SpectralClustering(K).fit(db, columns=columns_of(D))
    assert db.history() == []


def test_noise_alone_is_no_error(monkeypatch):
    """Where every direction is noise the fit ends all the same, whatever the noise was."""
    real = SVD._learn

    def drowned(self, moments):
        real(self, moments)
        self.explained_variance_ = np.zeros_like(self.explained_variance_)

    monkeypatch.setattr(SVD, "_learn", drowned)
    model = SpectralClustering(K, max_iter=1).fit(database(epsilon=1.0), columns=columns_of(D))
    assert model.n_components_ == K
    monkeypatch.setattr(SVD, "_learn", lambda self, moments: (
        drowned(self, moments), self.explained_variance_.__setitem__(0, 0.5)
    ))  # fmt: skip
    model = SpectralClustering(K, max_iter=1).fit(database(epsilon=1.0), columns=columns_of(D))
    assert model.n_components_ == 1


def test_as_json_as_columns_and_drawn():
    """A model read back predicts the same."""
    X, _ = rows()
    db = database(epsilon=1e9)
    model = SpectralClustering(K).fit(db, columns=columns_of(D))
    again = learn.from_json(json.dumps(model.to_json()))
    assert np.array_equal(again.predict(X), model.predict(X))
    assert again.predict([[np.nan, *X[0][1:]]]).tolist() == [-1]
    view = db.project(again)
    assert view.mean("pc1").value == pytest.approx(model.transform(X)[:, 0].mean(), abs=1e-3)
    assert [figure.key for figure in model.plot().figures] == ["shares", "groups"]
    assert "Groups along 3 directions" in model.summary()


def test_what_cannot_be_is_refused_before_anything_is_asked():
    """Each refusal says what is wanted."""
    db = database()
    for model, said in (
        (SpectralClustering(K, n_components=13), "n_components=13, want 1 to 12"),
        (SpectralClustering(K, clip=0), "clip=0"),
        (SpectralClustering(K, budget=-1), "budget=-1"),
    ):
        with pytest.raises(sulq.Refused, match=said):
            model.fit(db, columns=columns_of(D))
    svd = SVD(2).fit(db, columns=columns_of(D)[:2])
    spent = db.budget.spent
    with pytest.raises(sulq.QueryNotAllowed, match="already"):
        SpectralClustering(2).fit(db.project(svd), columns=["pc1", "pc2"])
    assert db.budget.spent == spent
