"""What rule="duan" takes for granted, in numbers: Berry-Esseen, and (alpha, beta) of a sample."""

import math

import numpy as np
import pytest
from audit.harness import audited, duan, people
from scipy.stats import binom, norm

from sulq.audit.limits import alpha_of, gaussian_within

TABLE = people(4000)


@pytest.mark.parametrize(("n", "p"), [(50, 0.5), (400, 0.1), (4000, 0.3), (4000, 0.01)])
def test_berry_esseen_bounds_the_distance_of_a_count(n, p):
    """The largest distance of a binomial count from its limit is below the bound; not far below."""
    norm_of_row = math.sqrt(n * p * (1 - p))
    k = np.arange(n + 1)
    cdf, limit = binom.cdf(k, n, p), norm.cdf(k, n * p, norm_of_row)
    far = max(abs(cdf - limit).max(), abs(cdf[:-1] - limit[1:]).max())
    assert far <= gaussian_within(1, norm_of_row)
    assert far > gaussian_within(1, norm_of_row) / 10  # a bound ten times smaller would be wrong


def test_a_review_says_what_the_limit_is_worth():
    """Under rule="duan" only: the least singular value as numpy finds it, the bound, delta / m."""
    db = duan(TABLE, queries=4, epsilon=4.0)
    found = db.review(["c", "a", "b"]).limits
    vectors = np.array([np.array(TABLE[n], dtype=float) for n in "cab"])
    vectors -= vectors.mean(axis=1, keepdims=True)
    least = np.linalg.svd(vectors, compute_uv=False).min()
    assert found.least == pytest.approx(least)
    assert found.gaussian_within == pytest.approx(0.4748 * math.sqrt(3) / least)
    assert (found.wanted, found.alpha) == (1e-6 / 4, None)
    said = str(db.review(["c"]))
    assert "Berry-Esseen" in said
    assert "not backed by the limit theorem" in said
    assert db.limits() is None
    db.count("c")
    assert db.limits().questions == 1
    assert audited(TABLE).review(["a"]).limits is None


def test_alpha_covers_the_rows_but_with_probability_beta():
    """400 pairs of samples, beta = 0.2: too far apart 40 to 120 times. False alarm: 1e-6 a run.

    A third of alpha is exceeded far more often.
    """
    rng = np.random.default_rng(7)
    n, m, missed, third = 3000, 1000, 0, 0

    def drawn(rows):
        a = rng.random(rows) < 0.3
        return np.array([a, a ^ (rng.random(rows) < 0.2), rng.random(rows) < 0.5], dtype=float)

    for _ in range(400):
        sample, rows = drawn(m), drawn(n)
        least, alpha = alpha_of(sample, n, beta=0.2)
        away = abs(np.linalg.eigvalsh(np.cov(rows, bias=True))[0] - least)
        missed += away > alpha
        third += away > alpha / 3
    assert 40 <= missed <= 120
    assert third > 200


def test_a_sample_says_its_alpha_and_beta():
    """`simulate`: shown beside the review, from public rows alone."""
    db = duan(TABLE, queries=4, epsilon=6.0, simulate=people(1000, seed=77))
    found = db.review(["c", "a"]).limits
    assert found.beta == 0.05
    assert 0 < found.alpha < found.eigenvalue < 0.25
    assert "alpha = " in str(found)
    again = type(db.review(["c"])).from_json(db.review(["c", "a"]).to_json())
    assert again.limits == found
