"""Discoveries on Zipf data beside OpenDP's partition selection, at the same epsilon and delta."""

import math

import numpy as np
import opendp.prelude as dp
import pandas as pd
import pytest
from helpers import opened
from scipy.stats import laplace, norm
from soak import times

import sulq
from sulq.privacy.thresholds import threshold
from sulq.values.query import Discover, Query

EPSILON, DELTA, ROWS = 1.0, 1e-6, 20_000
dp.enable_features("contrib", "honest-but-curious")


def words(rows=ROWS):
    """Zipf's law, exponent 1.3, up to 5,000 words, as counts that do not depend on chance."""
    share = 1 / np.arange(1, 5001) ** 1.3
    return np.floor(rows * share / share.sum()).astype(int)


def smallest(make, scale, delta):
    """OpenDP's least threshold whose map stays within delta, one row added or removed."""
    low, high = 2, 10**5
    while low < high:
        middle = (low + high) // 2
        enough = make(scale, middle).map((1, 1, 1))[1] <= delta
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def opendp(kind, questions):
    """Noise and threshold for so many questions: by zCDP for gaussian, by sums for laplace."""
    whole = dp.absolute_distance(T=int)
    domain = dp.map_domain(dp.atom_domain(T=str), dp.atom_domain(T=int))
    if kind == "laplace":
        space, scale = dp.l01inf_distance(whole), questions / EPSILON
        aside = DELTA / questions
        make = dp.m.make_laplace_threshold
    else:
        space, aside = dp.l02inf_distance(whole), DELTA / 2 / questions
        scale = math.sqrt(questions) * _zcdp_scale(whole)
        make = dp.m.make_gaussian_threshold
    return scale, smallest(lambda s, t: make(domain, space, s, threshold=t), scale, aside)


def _zcdp_scale(whole):
    low, high = 1.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        noise = dp.m.make_gaussian(dp.atom_domain(T=int), whole, middle)
        enough = dp.c.make_zCDP_to_approxDP(noise).map(1).epsilon(DELTA / 2) <= EPSILON
        low, high = (low, middle) if enough else (middle, high)
    return high


def ours(questions, guarantee="dp"):
    promise = sulq.Promise(
        EPSILON, DELTA, questions, guarantee=guarantee, discoveries=questions, share=DELTA / 2
    )
    law = promise.law(1024, 1 if guarantee == "dp" else 2)
    return law.std / 1024, threshold(law, 1024, promise.share / questions, 1, 1) / 1024


def recovered(law, scale, limit):
    """How many words are named on the average."""
    return float(law.sf((limit - words()) / scale).sum())


def test_more_is_recovered_than_by_opendps_gaussian_threshold():
    """At 1, 3 and 10 questions of one promise; by Laplace noise more is found for one alone."""
    for questions in (1, 3, 10):
        here = recovered(norm, *ours(questions))
        assert here > recovered(norm, *opendp("gaussian", questions))
        by_laplace = recovered(laplace, *opendp("laplace", questions))
        assert (here > by_laplace) == (questions > 1)


def test_the_product_recovers_what_is_computed():
    """Through the whole product, dp and T = 1: within 6 standard deviations. False alarm: 1e-8."""
    column = np.repeat([f"word {i}" for i in range(5000)], words())
    rows = pd.DataFrame({"word": column})
    schema = {"columns": {"word": {"type": "text"}}}
    terms = {"guarantee": "dp", "queries": 1, "discoveries": 1, "share": DELTA / 2, "quiet": False}
    chances = norm.sf((ours(1)[1] - words()) / ours(1)[0])
    least, most = (chances.sum() + k * math.sqrt((chances * (1 - chances)).sum()) for k in (-6, 6))
    for _ in range(times(1, 30)):
        with opened(rows, schema, **terms) as db:
            assert db.price(Query(Discover("word"))).queries == 1
            assert least <= len(db.discover("word")) <= most


@pytest.mark.parametrize("questions", [1, 10])
def test_figures(questions):
    """What docs/howto/undescribed.md says of this data."""
    found = {"here": ours(questions), "beliefs": ours(questions, "beliefs")}
    said = {1: {"here": 69, "beliefs": 45}, 10: {"here": 27, "beliefs": 17}}[questions]
    assert {name: round(recovered(norm, *f)) for name, f in found.items()} == said
