"""Arithmetic with noisy numbers: errors are carried along, and the same noise cancels."""

import math
import random
import statistics
from dataclasses import replace

import numpy as np
import pytest
from helpers import opened

import sulq
from sulq.values.uncertain import Uncertain

SCHEMA = {
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100, "nullable": False},
        "smoker": {"type": "boolean", "nullable": False},
        "region": {"values": ["north", "south"], "public": True},
    }
}
ROWS = {
    "age": [20, 30, 40, 50] * 5000,
    "smoker": [True, False, False, False] * 5000,
    "region": ["north", "south"] * 10000,
}


@pytest.fixture(scope="module")
def db():
    import pyarrow as pa

    return opened(pa.table(ROWS), SCHEMA)


def test_an_answer_less_itself_is_exactly_nothing(db):
    """The same noise cancels, also when the question was asked twice or means the same."""
    a = db.count("smoker")
    for b in (a, db.count("smoker"), db.count("smoker = true"), db.ask(sulq.Query(where="smoker"))):
        assert ((a - b).value, (a - b).std, str(a - b)) == (0.0, 0.0, "0 (exact)")
    assert (a / a).interval() == (1.0, 1.0)
    assert (a + a).std == 2 * a.std


def test_noise_of_different_questions_is_independent(db):
    """Errors add up as squares do."""
    a, b = db.count("smoker"), db.count("age > 30")
    assert (a + b).value == (a.value + b.value)
    assert (a + b).std == pytest.approx(math.hypot(a.std, b.std))
    assert (a - 2 * b).std == pytest.approx(math.hypot(a.std, 2 * b.std))
    low, high = (a + b).interval()
    assert high - low == pytest.approx(2 * 1.96 * math.hypot(a.std, b.std), rel=1e-3)


def test_a_sum_and_its_mean_have_the_same_noise(db):
    """n times the mean is the sum, and nothing is left of either."""
    assert (db.sum("age") - db.mean("age") * db.rows).std == pytest.approx(0, abs=1e-9)


def test_two_databases_do_not_share_noise(db):
    """The same question to another table is another answer."""
    import pyarrow as pa

    other = opened(pa.table(ROWS), SCHEMA)
    a, b = db.count("smoker"), other.count("smoker")
    assert (a - b).std == pytest.approx(math.hypot(a.std, b.std))


def test_what_was_computed_from_several_answers_is_added_in_full(db):
    """An estimate may share noise with anything: too wide rather than too narrow."""
    a = db.count("smoker")
    estimate = replace(db.count("age > 30"), noise=None)
    assert (a + estimate).std == pytest.approx(a.std + estimate.std)
    assert (estimate - estimate).std == 0.0
    shared = db.ask([sulq.Query(by="smoker"), sulq.Query(by=("smoker", "region"))])
    assert all(answer.noise is None or answer.price.micro for answer in shared)


def test_public_numbers_have_no_error(db):
    """A share of all rows is as wide as the count."""
    share = db.count("smoker") / db.count()
    assert share.value == 0.25
    assert share.std == pytest.approx(db.count("smoker").std / db.rows)


@pytest.mark.parametrize(
    ("name", "f"),
    [
        ("product", lambda a, b: a * b),
        ("quotient", lambda a, b: a / b),
        ("square", lambda a, b: a**2),
        ("inverse", lambda a, b: 1 / b),
        ("mixed", lambda a, b: 3 * a - b / 2 + 7),
        ("far", lambda a, b: abs(-a) + +b),
    ],
)
def test_the_error_is_that_of_the_noise(name, f):
    """Drawn 40,000 times, a formula scatters as it says it does. Seeded: no false alarm."""
    draw = random.Random(1)
    a, b = 900.0, 1400.0
    made = f(_number(a, 20.0), _number(b, 30.0))
    found = [f(a + draw.gauss(0, 20), b + draw.gauss(0, 30)) for _ in range(40_000)]
    scatter = statistics.stdev(found)
    assert made.std == pytest.approx(scatter, rel=0.03)
    assert made.std * 1.3 != pytest.approx(scatter, rel=0.03)  # a wrong one is noticed
    low, high = made.interval()
    inside = sum(low <= x <= high for x in found) / len(found)
    assert 0.94 < inside < 0.96


def _number(value, std):
    return Uncertain(value, {object(): std})


def test_a_divisor_near_nothing_leaves_nothing_to_say(db):
    """Any number may be the quotient."""
    a = _number(100.0, 5.0)
    for divisor in (_number(3.0, 1.0), _number(0.0, 1.0)):
        found = a / divisor
        assert str(found) == "too noisy to say (95%)"
        assert found.interval() == (-math.inf, math.inf) or math.isnan(found.value)
    assert math.isfinite((a / _number(5.0, 1.0)).std)
    with pytest.raises(ZeroDivisionError):
        a / 0


def test_numbers_are_formatted_and_rounded(db):
    """As floats are; without a format it is the whole answer."""
    a = db.sum("age")
    assert f"{a:,.0f}" == "700,000"
    assert (round(a), round(a, -5)) == (700_000, 700_000)
    assert f"{a}" == str(a)
    assert f"{a / 3:.2f}" == "233333.33"


def test_order_is_that_of_the_numbers(db):
    """sorted and max work; equal are only the same answers, never a number."""
    a, b = db.count("smoker"), db.count("age > 30")
    assert a < b
    assert b >= a
    assert a > 10
    assert max([a, b]) is b
    assert sorted([b, a])[0] is a
    assert a == db.count("smoker")
    assert a != 5000
    with pytest.raises(TypeError):
        _ = a < "many"
    with pytest.raises(TypeError):
        _ = a + "1"
    with pytest.raises(TypeError):
        _ = a + True


def test_plain_and_numpy_numbers_take_part(db):
    """On either side."""
    a = db.count("smoker")
    for two in (2, 2.0, np.float64(2), np.int64(2)):
        assert (two * a).value == (a * two).value == 10_000
        assert (two - a).value == -4998
        assert (two / a).std > 0


def test_many_numbers_at_once_are_refused(db):
    """A table of counts has no one value."""
    with pytest.raises(sulq.Refused, match=r"use \.values"):
        db.ask(sulq.Query(by="smoker")) + 1


def test_another_noise_widens_an_interval(db):
    """Laplace's tails are not normal ones: the widest law decides."""
    import pyarrow as pa

    plain = opened(pa.table(ROWS), SCHEMA, noise="laplace", queries=10)
    a, b = plain.count("smoker"), plain.count("age > 30")
    assert (2 * a).interval() == tuple(2 * x for x in a.interval())
    low, high = (a + b).interval()
    assert (high - low) / 2 >= 1.96 * (a + b).std
    assert (a + b).interval(0.5)[1] > (a + b).value
    with pytest.raises(sulq.Refused, match="level"):
        (a + b).interval(95)
