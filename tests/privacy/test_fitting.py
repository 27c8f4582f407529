"""How many queries suit a table."""

import warnings

import pyarrow as pa
import pytest

import sulq
from sulq.errors import PromiseError
from sulq.privacy.fitting import fitting_queries, proposal
from sulq.privacy.promise import Promise


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
@pytest.mark.parametrize("error", [None, 0.01, 0.2])
@pytest.mark.parametrize("rows", [50, 344, 20_000, 10**6])
def test_it_is_the_most_that_fits(noise, guarantee, error, rows):
    """So many queries are as exact as wanted, and one more is not."""
    terms = {"epsilon": 1.0, "delta": 1e-6, "noise": noise, "guarantee": guarantee}
    found = fitting_queries(rows, error, **terms)

    def off(queries):
        made = Promise(queries=queries, **terms)
        return made.std / (rows**0.5 / 2) if error is None else made.half_width() / (error * rows)

    if found is None:
        assert off(1) > 1
    else:
        assert off(found) <= 1 < off(found + 1)


def test_three_queries_suit_344_rows():
    """The noise of three is just below the sampling error; of 1,000 it is above the table."""
    assert fitting_queries(344, epsilon=1.0, delta=1e-6) == 3
    said = proposal(344, Promise(epsilon=1.0, delta=1e-6, queries=1000))
    assert "off by up to 332, more than the 344 rows" not in said  # 332 is less than 344
    assert said == ""
    assert "3 queries" in proposal(344, Promise(epsilon=1.0, delta=1e-6, queries=1100))


def test_kinds_without_a_formula_are_not_guessed_at():
    """Their calibration takes seconds."""
    assert fitting_queries(1000, epsilon=1.0, delta=1e-6, noise="stitched") is None


@pytest.mark.parametrize("error", [0, -1, float("nan"), float("inf")])
def test_a_share_is_wanted(error):
    """Refused in words."""
    with pytest.raises(PromiseError, match="share of the rows"):
        fitting_queries(1000, error, epsilon=1.0, delta=1e-6)


def test_opening_warns_of_answers_that_say_nothing():
    """Once, when the table is opened; n is public, so the warning may be."""
    rows = pa.table({"x": [0.5] * 20})
    terms = {"epsilon": 1.0, "ledger": ":memory:"}
    with pytest.warns(UserWarning, match="more than the 20 rows there are"):
        sulq.open(rows, {"x": {"type": "number", "low": 0, "high": 1}}, queries=1000, **terms)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sulq.open(
            pa.table({"x": [0.5] * 2000}), {"x": {"type": "number", "low": 0, "high": 1}},
            queries=10, **terms,
        )  # fmt: skip
