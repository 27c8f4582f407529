"""The owner's priors: how they are written, what is refused, how rare a set may be."""

import itertools
import json
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
    """Each refusal says what is wrong with the priors."""
    with pytest.raises(sulq.PromiseError, match=said):
        read(given)


def test_rarest_is_the_least_over_every_law_within_the_bounds():
    """Against laws tried one by one, each column's given the ones before it."""
    given = {"a": (0.2, 0.5), "city": {"rome": (0.1, 0.6), "oslo": (0.2, 0.4)}}
    priors = Priors.read(given, DECLARED, independent=True)
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


# --- columns that may go together ---------------------------------------------------------


CITIES = ["rome", "oslo", "lima", None]


def joint_of(p, q):
    """The combinations FF, TF, FT, TT as members, and the least probability of each."""
    least = [max(0.0, 1 - p - q), max(0.0, p - q), max(0.0, q - p), max(0.0, p + q - 1)]
    return list(zip(np.eye(4, dtype=bool), least, strict=True))


@pytest.mark.parametrize(("p", "q"), [(0.3, 0.4), (0.5, 0.5), (0.9, 0.8), (0.05, 0.9), (0.1, 0.1)])
def test_two_margins_allow_what_frechet_says(p, q):
    """max(0, P[A] + P[B] - 1) for each of the four combinations, and no more after rounding."""
    priors = read({"a": p, "b": q})
    for members, least in joint_of(p, q):
        assert least - 1e-7 <= priors.rarest(("a", "b"), members) <= least


def test_no_law_with_these_margins_makes_a_set_rarer():
    """Random laws and their own margins, widened: the bound is never above; sometimes it is met."""
    rng, near = np.random.default_rng(4), 0
    for _ in range(60):
        law = rng.dirichlet(np.full(2 * 2 * 4, rng.choice([0.05, 1.0]))).reshape(4, 2, 2)
        a, b, city = law.sum(axis=(0, 1)), law.sum(axis=(0, 2)), law.sum(axis=(1, 2))
        wide = rng.choice([0.0, 0.05])
        ends = {
            "a": (max(0, a[1] - wide), min(1, a[1] + wide)), "b": (b[1], b[1]),
            "city": {v: (p, min(1, p + 1e-12)) for v, p in zip(CITIES, city, strict=True)},
        }  # fmt: skip
        priors, members = read(ends), rng.random(16) < rng.choice([0.2, 0.8])
        least, true = priors.rarest(("a", "b", "city"), members), law.reshape(-1)[members].sum()
        assert least <= true + 1e-9
        near += true - least < 0.02
        free = Priors.read(ends, DECLARED, independent=True).rarest(("a", "b", "city"), members)
        assert least <= free + 1e-7
    assert near > 5


def test_a_joint_prior_bounds_combinations():
    """Its columns are read together, in any order, with others that nobody asked about."""
    table = {(False, False): 0.5, (True, False): 0.1, (False, True): 0.3, (True, True): 0.1}
    priors = read({("a", "b"): table, "c": 0.5})
    assert ends(priors, "a") == [(False, 0.8, 0.8), (True, 0.2, 0.2)]
    for names, flip in ((("a", "b"), False), (("b", "a"), True)):
        for (a, b), p in table.items():
            members = np.zeros(4, dtype=bool)
            members[(b + 2 * a) if flip else (a + 2 * b)] = True
            assert priors.rarest(names, members) == pytest.approx(p, abs=1e-8)
    alone = priors.rarest(("b",), np.array([False, True]))
    assert alone == pytest.approx(0.4, abs=1e-8)
    both = priors.rarest(("b", "c"), np.array([False, False, False, True]))
    assert both == 0.0  # P[b] + P[c] < 1, and nothing says that they are independent
    said = read({"a, b": {"true, true": (0.1, 0.2), "true, false": 0.1}})
    assert said.joints[0].names == ("a", "b")
    assert "a and b: " in str(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({("a", "b"): 0.5}, "each combination"),
        ({("a", "b"): {(True,): 0.5}}, "no combination"),
        ({("a", "b"): {(True, "maybe"): 0.5}}, "has no value"),
        ({("a", "nobody"): {(True, True): 0.5}}, "no column"),
        ({("a", "b"): {(True, True): 0.5}, "a": 0.5}, "in two of them"),
        ({("a", "a"): {(True, True): 0.5}}, "in two of them"),
        ({("a", "b"): {(True, True): 0.7, (True, False): 0.7}}, "cannot add up"),
    ],
)
def test_joint_priors_that_cannot_be_meant(given, said):
    """Refused with what is wrong."""
    with pytest.raises(sulq.PromiseError, match=said):
        read(given)


def test_json_keeps_every_digit():
    """Priors read back from JSON are the same."""
    for independent in (True, False):
        given = {"a": (0.1, 0.7), "city": {"rome": 0.3}, ("b", "c"): {(True, False): 0.1}}
        priors = Priors.read(given, DECLARED, independent)
        body = json.loads(json.dumps([priors.to_json(), priors.joints_json()]))
        assert Priors.from_json(*body, independent) == priors
    assert "a: false 0.3 to 0.9, true 0.1 to 0.7" in str(priors)
