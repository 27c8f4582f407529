"""The owner's priors: how they are written, what is refused, how rare a set may be."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from audit.harness import SCHEMA

import sulq
from sulq.audit.priors import Priors

DECLARED = sulq.Schema.load(SCHEMA | {"d": {"type": "boolean"}})


def read(given):
    return Priors.read(given, DECLARED)


def ends(priors, name):
    return [(b.value, float(b.low), float(b.high)) for b in priors.columns[name]]


def test_spellings():
    """A number, two ends, or each value; what is not said follows from the rest."""
    assert ends(read({"a": 0.3}), "a") == [(False, 0.7, 0.7), (True, 0.3, 0.3)]
    assert ends(read({"a": (0.2, 0.4)}), "a") == [(False, 0.6, 0.8), (True, 0.2, 0.4)]
    assert ends(read({"A": {"true": 0.25}}), "a") == [(False, 0.75, 0.75), (True, 0.25, 0.25)]
    assert ends(read({"d": 0.3}), "d") == [(False, 0, 0.7), (True, 0.3, 0.3), (None, 0, 0.7)]
    found = ends(read({"city": {"rome": 0.5, "oslo": [0.1, 0.2], "null": 0.1}}), "city")
    assert found == [("rome", 0.5, 0.5), ("oslo", 0.1, 0.2), ("lima", 0.2, 0.3), (None, 0.1, 0.1)]
    assert read({"a": 0.1}).columns["a"][1].low == Fraction(1, 10)
    for share in (1 / 3, 0.33333333333333337):  # a little below and above a third
        thirds = read({"city": {"rome": share, "oslo": share, "lima": share}})
        assert sum(b.low for b in thirds.columns["city"]) <= 1
        assert thirds.columns["city"][0].low > Fraction("0.333333")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "no default"),
        ({}, "no default"),
        ({"nobody": 0.3}, "no column"),
        ({"region": {"north": 0.5}}, "public"),
        ({"x": 0.5}, "only Booleans and declared categories"),
        ({"a": 1.5}, "want a probability"),
        ({"a": (0.5, 0.2)}, "want a probability"),
        ({"a": True}, "want a probability"),
        ({"a": float("nan")}, "want a probability"),
        ({"city": 0.5}, "give a probability for each value"),
        ({"city": {"paris": 0.5}}, "has no value"),
        ({"city": {"rome": 0.7, "oslo": 0.7}}, "cannot add up"),
        ({"a": {"true": 0.3, "false": 0.3}}, "cannot add up"),
    ],
)
def test_what_cannot_be_meant_is_refused(given, said):
    with pytest.raises(sulq.PromiseError, match=said):
        read(given)


def test_rarest_is_the_least_over_every_law_within_the_bounds():
    """Against laws tried one by one, each column's given the ones before it."""
    priors = read({"a": (0.2, 0.5), "city": {"rome": (0.1, 0.6), "oslo": (0.2, 0.4)}})
    names, rng = ("a", "city"), np.random.default_rng(1)
    corners = {name: list(_corners(priors.columns[name])) for name in names}
    for _ in range(5):
        members = rng.random(2 * 4) < 0.5
        table = members.reshape(4, 2)  # the first column varies fastest
        least = min(
            sum(p * sum(q for q, m in zip(own, row, strict=True) if m)
                for p, own, row in zip(city, each, table, strict=True))
            for city in corners["city"]
            for each in itertools.product(corners["a"], repeat=4)
        )  # fmt: skip
        assert priors.rarest(names, members) == pytest.approx(float(least), abs=1e-9)


def _corners(bounds):
    """The extreme laws within bounds: all but one value at an end."""
    for free in range(len(bounds)):
        others = [(b.low, b.high) for i, b in enumerate(bounds) if i != free]
        for chosen in itertools.product(*others):
            rest = 1 - sum(chosen)
            if bounds[free].low <= rest <= bounds[free].high:
                law = list(chosen)
                law.insert(free, rest)
                yield law


def test_json_keeps_every_digit():
    priors = read({"a": (0.1, 0.7), "city": {"rome": 0.3}})
    assert Priors.from_json(priors.to_json()) == priors
    assert "a: false 0.3 to 0.9, true 0.1 to 0.7" in str(priors)
