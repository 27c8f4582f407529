"""Latent semantic indexing: exact without noise, and the same question as SVD."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq import learn
from sulq.learn import LSI, SVD

TERMS = ["cat", "dog", "stock", "bond"]
DECLARED = {name: {"type": "boolean", "nullable": False} for name in TERMS}


def documents(n=2000, seed=0):
    """Some are about animals and some about money; both have one of their words or two."""
    rng = np.random.default_rng(seed)
    animals = rng.random(n) < 0.5
    return np.column_stack([
        (rng.random(n) < 0.6) & animals, (rng.random(n) < 0.6) & animals,
        (rng.random(n) < 0.5) & ~animals, (rng.random(n) < 0.5) & ~animals,
    ])  # fmt: skip


def database(**settings):
    rows = pa.table(dict(zip(TERMS, documents().T, strict=True)))
    return opened(rows, DECLARED, guarantee="dp", **settings)


def fitted(db, **made):
    return LSI(2, **made).fit(db, columns=TERMS)


@pytest.mark.filterwarnings("ignore:epsilon=")
def test_without_noise_it_is_that_of_the_documents():
    """Term vectors are those of numpy's SVD, up to sign."""
    model, X = fitted(database(epsilon=1e9)), documents().astype(float)
    _, values, vectors = np.linalg.svd(X, full_matrices=False)
    want = vectors[:2].T * values[:2] / np.sqrt(len(X))
    assert np.allclose(np.abs(model.term_vectors_), np.abs(want), atol=1e-3)
    X = X[X.any(axis=1)]
    placed = X @ vectors[:2].T
    placed /= np.linalg.norm(placed, axis=1, keepdims=True)
    assert np.allclose(model.similarity(X[:1], X)[0], placed @ placed[0], atol=1e-3)
    assert model.similarity(np.zeros((1, 4)), X)[0].tolist() == [0.0] * len(X)


def test_terms_and_documents_that_go_together():
    """With noise too: a cat is nearer to a dog than to a bond, and finds dogs."""
    model = fitted(database(epsilon=1.0, quiet=False), budget=500)
    assert model.terms_like("cat")[0][0] == "dog"
    assert model.terms_like("bond", most=1)[0][0] == "stock"
    held = np.array([[0, 0, 1, 1], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=float)
    assert model.search("cat", held)[0][0] == 1
    assert model.search(["stock"], held, most=2)[0][0] in (0, 2)
    assert model.search([0, 0, 1, 0], held)[-1][0] == 1
    (first, *_) = model.search("cat", np.array([[np.nan] * 4, [0, 1, 0, 0]]))
    assert first[0] == 1


def test_it_asks_what_svd_asks():
    """So the second of both is free."""
    db = database(quiet=False)
    model = fitted(db)
    spent = db.budget.spent
    assert spent == LSI(2).price(db, TERMS).queries > 0
    SVD(2).fit(db, columns=TERMS)
    assert db.budget.spent == spent
    again = learn.from_json(json.dumps(model.to_json()))
    assert again.terms_like("cat") == model.terms_like("cat")
    assert model.plot().figures[-1].title == "How near terms are to each other"


def test_what_is_no_term_is_refused():
    """A term that is no column is named, with those that are."""
    model = fitted(database())
    for call in (lambda: model.terms_like("fish"), lambda: model.search("fish", [[0] * 4])):
        with pytest.raises(sulq.Refused, match="term='fish', want one of cat, dog"):
            call()
