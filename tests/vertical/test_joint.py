"""The 2x2 table across two databases: every Boolean function, prices, several databases."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from vertical.data import BOOLEAN, database, people_apart, properties, two

import sulq
from sulq import vertical
from sulq.vertical.joint import Joint, cells

ALONE = 4_000  # blocks, so that few people share one and sums over blocks are exact
FEW = 60
APART = people_apart(FEW, ALONE)
SURE = 1e9  # epsilon: no noise to speak of, and none is claimed


@pytest.fixture(scope="module")
def exact():
    """Two databases without noise, everybody in a block of their own, and who has what."""
    hospital, insurer, a, b = two(FEW, seed=3, epsilon=SURE)
    return vertical.joint(hospital, "a", insurer, "b", blocks=ALONE, seed=APART), a, b


FUNCTIONS = {
    "a and b": lambda a, b: a & b, "a and not b": lambda a, b: a & ~b,
    "not a and b": lambda a, b: ~a & b, "not (a or b)": lambda a, b: ~(a | b),
    "a or b": lambda a, b: a | b, "a or not b": lambda a, b: a | ~b,
    "not a or b": lambda a, b: ~a | b, "not (a and b)": lambda a, b: ~(a & b),
    "a": lambda a, b: a, "b": lambda a, b: b, "not a": lambda a, b: ~a, "not b": lambda a, b: ~b,
    "a xor b": lambda a, b: a ^ b, "a = b": lambda a, b: a == b,
    "a or not a": lambda a, b: a | ~a, "a and not a": lambda a, b: a & ~a,
}  # fmt: skip


@pytest.mark.parametrize("text", FUNCTIONS)
def test_all_sixteen_functions(exact, text):
    """Each Boolean function of a and b has the probability it has in the joined table."""
    found, a, b = exact
    assert found.probability(text) == pytest.approx(FUNCTIONS[text](a, b).mean(), abs=1e-4)


def test_there_are_sixteen_functions():
    """No two of the functions of two properties are the same."""
    points = [np.array(x) for x in itertools.product((False, True), repeat=2)]
    tables = {tuple(bool(f(a, b)) for a, b in points) for f in FUNCTIONS.values()}
    assert len(tables) == 16


def test_what_follows_from_the_table(exact):
    """Delta, conditionals, correlation and odds ratio are those of the joined table."""
    found, a, b = exact
    both, only_a, only_b, none = ((a & b).mean(), (a & ~b).mean(), (~a & b).mean(),
                                  (~a & ~b).mean())  # fmt: skip
    near = {"abs": 1e-3}
    assert found.delta == pytest.approx(b[a].mean() - b.mean(), **near)
    assert found.p_b_given_a == pytest.approx(b[a].mean(), **near)
    assert found.conditional("a", given="not b") == pytest.approx(a[~b].mean(), **near)
    assert found.conditional("a xor b", given="a or b") == pytest.approx(
        (only_a + only_b) / (1 - none), **near
    )
    assert found.correlation == pytest.approx(np.corrcoef(a, b)[0, 1], **near)
    assert found.odds_ratio == pytest.approx(both * none / (only_a * only_b), rel=1e-2)


def test_a_table_is_never_below_zero():
    """However noisy, the four cells are probabilities and intervals stay within [0, 1]."""
    hospital, insurer, _, _ = two(300, quiet=False, epsilon=0.5)
    found = vertical.joint(hospital, "a", insurer, "b")
    cells = [found.probability(f) for f in
             ("a and b", "a and not b", "not a and b", "not (a or b)")]  # fmt: skip
    assert sum(cells) == pytest.approx(1.0)
    for cell in cells:
        low, high = cell.interval(0.99)
        assert 0.0 <= low <= cell <= high <= 1.0
        assert high > low
    low, high = found.odds_ratio.interval()
    assert 0.0 <= low <= high <= math.inf
    assert -1.0 <= found.interval()[0] <= found.interval()[1] <= 1.0


RARE = {  # P[a], P[b], cov(a, b), in a table where P[a] and P[b] have errors of 0.0087
    "the same rare people": (0.01, 0.01, 0.0099),
    "all of a rare a": (0.01, 0.02, 0.0098),
    "none of a rare b": (0.5, 0.01, -0.005),
    "almost all of almost everybody": (0.99, 0.99, 0.0099),
}


@pytest.mark.parametrize("name", RARE)
def test_intervals_cover_at_the_edge_of_what_can_be(name):
    """P near 0 or 1 and a covariance as large as can be, less exact P than covariance.

    Over 600 draws 95% intervals cover in at least 90%: true 95% falls below that with
    probability 2e-7, and the draws are fixed. Before, some covered in 39%.
    """
    true, stds = np.array(RARE[name]), np.array([0.0087, 0.0087, 0.0008])
    neither, b_only, a_only, both = cells(true)
    with np.errstate(divide="ignore"):
        ratio = float(np.float64(both * neither) / max(a_only * b_only, 0.0))
    rng, hits = np.random.default_rng(5), dict.fromkeys(("delta", "b|a", "both", "odds", "r"), 0)
    for _ in range(600):
        found = Joint(true + stds * rng.normal(size=3), np.diag(stds**2), math.inf, (), 2000.0)
        pairs = {
            "delta": (found.delta, true[2] / true[0]),
            "b|a": (found.p_b_given_a, both / true[0]),
            "both": (found.probability("a and b"), both),
            "odds": (found.odds_ratio, ratio),
            "r": (found.correlation, true[2] / math.sqrt(np.prod(true[:2] * (1 - true[:2])))),
        }
        for what, (estimate, value) in pairs.items():
            low, high = estimate.interval()
            hits[what] += low - 1e-9 <= value <= high + 1e-9
            assert low <= estimate <= high
    assert all(count >= 0.9 * 600 for count in hits.values()), hits


def test_nobody_with_a_property_has_any_odds():
    """0/0 is said to be 1, and to be anything; it once was infinite, for certain."""
    found = Joint(np.array([-0.001, 0.2, 0.0]), np.diag([1e-6, 1e-6, 1e-6]), 100.0, (), 1000.0)
    assert found.odds_ratio == 1.0
    assert found.odds_ratio.interval() == (0.0, math.inf)
    assert found.p_b_given_a.interval() == (0.0, 1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("c", "c"),
        ("a and", "and"),
        ("a +", "a"),
        (7, "7"),
        ("count(a) > 1", "count"),
        ("a; b", "a"),
    ],
)
def test_a_function_that_is_none_is_refused(exact, text, said):
    """The refusal says what is allowed."""
    with pytest.raises(sulq.QueryNotAllowed, match=said):
        exact[0].probability(text)


def test_a_condition_that_never_holds_is_refused(exact):
    """No share is taken of nothing."""
    with pytest.raises(sulq.QueryNotAllowed, match="never true"):
        exact[0].conditional("a", given="b and not b")


def test_levels_are_checked(exact):
    """A level is a number between 0 and 1."""
    for level in (0, 1, True, "a"):
        with pytest.raises(sulq.Refused, match="level"):
            exact[0].interval(level)


def test_an_estimate_is_a_number():
    """It adds, compares and formats as a float, and says its interval."""
    found = vertical.estimate.plain(0.25, 0.01, (0.0, 1.0))
    assert found + 1 == 1.25
    assert f"{found:.3f}" == "0.250"
    assert str(found) == "0.2500 +/- 0.0196 (95%)"
    assert found.std == pytest.approx(0.01)
    assert found.to_json()["low"] == pytest.approx(0.25 - 0.0196, abs=1e-4)


# --- prices and budgets ------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", ["beliefs", "dp"])
def test_the_price_is_known_before_and_paid_once(guarantee):
    """One query a side whatever the number of blocks; the same again is free."""
    hospital, insurer, _, _ = two(2000, queries=1, guarantee=guarantee, quiet=False)
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b")
    assert [p.micro for p in plan.prices] == [1_000_000, 1_000_000]
    assert hospital.budget.spent == insurer.budget.spent == 0
    found = vertical.implication(hospital, "a", insurer, "b")
    assert found.price == plan.prices
    assert hospital.budget.spent == insurer.budget.spent == 1
    again = vertical.joint(hospital, "a", insurer, "b")
    assert again.delta == found.delta
    assert len(hospital.history()) == 1


def test_a_budget_buys_less_noise():
    """Prices follow the budget on both sides."""
    hospital, insurer, _, _ = two(2000, queries=100, quiet=False)
    rough, fine = (
        vertical.plan(vertical.implication, hospital, "a", insurer, "b", budget=b)
        for b in (0.1, 100)
    )
    assert all(0.09 < float(p) <= 0.1 for p in rough.prices)
    assert all(99 < float(p) <= 100 for p in fine.prices)
    assert fine.error < rough.error / 10
    assert vertical.plan(vertical.joint, hospital, "a", insurer, "b", budget=[1, 2]).prices[
        1
    ].queries == pytest.approx(2, rel=1e-5)


@pytest.mark.parametrize("budget", [0, -1, True, "1", [1], [1, 2, 3], math.nan])
def test_a_budget_that_is_none_is_refused(budget):
    """Neither side is charged."""
    hospital, insurer, _, _ = two(300)
    with pytest.raises(sulq.Refused):
        vertical.joint(hospital, "a", insurer, "b", budget=budget)
    assert hospital.budget.spent == insurer.budget.spent == 0


@pytest.mark.parametrize("poor", [0, 1])
def test_nobody_pays_unless_all_can(poor):
    """Whoever cannot pay is asked first, and refuses before anyone is charged."""
    a, b = properties(500)
    queries = [3, 3]
    queries[poor] = 2
    dbs = [database({"a": a}, name="x", queries=queries[0]),
           database({"b": b}, name="y", queries=queries[1])]  # fmt: skip
    with pytest.raises(sulq.BudgetExceeded, match="'x'" if poor == 0 else "'y'"):
        vertical.joint(dbs[0], "a", dbs[1], "b", budget=3)
    assert [db.budget.spent for db in dbs] == [0, 0]


def test_three_databases_pay_once_each():
    """Three pairs, one price for each database."""
    a, b = properties(FEW, seed=3)
    c = np.random.default_rng(4).random(FEW) < 0.5
    dbs = [database({"p": x}, name=n, queries=1, epsilon=SURE)
           for x, n in ((a, "x"), (b, "y"), (c, "z"))]  # fmt: skip
    sides = [(db, "p") for db in dbs]
    options = {"blocks": ALONE, "seed": APART}
    assert [p.micro for p in vertical.plan(vertical.pairwise, sides, **options).prices] == [
        10**6
    ] * 3
    found = vertical.pairwise(sides, **options)
    assert [db.budget.spent for db in dbs] == [1, 1, 1]
    exact = {(0, 1): (a, b), (0, 2): (a, c), (1, 2): (b, c)}
    assert {(i, j) for i, j, _ in found} == set(exact)
    for i, j, joint in found:
        x, y = exact[i, j]
        assert joint.probability("a and b") == pytest.approx((x & y).mean(), abs=1e-3)
    assert found.joint(2, 0).probability("a and not b") == pytest.approx((c & ~a).mean(), abs=1e-3)
    for wrong in ((0, 3), (-1, 0), (True, 0)):
        with pytest.raises(sulq.Refused):
            found.joint(*wrong)


def test_several_properties_of_one_database():
    """Each is paid for where it is; two of one database are not mined across."""
    a, b = properties(FEW, seed=3)
    one = database({"a": a, "b": b}, name="one", queries=2, epsilon=SURE)
    other = database({"c": a ^ b}, name="other", queries=1, epsilon=SURE)
    found = vertical.pairwise([(one, "a"), (other, "c"), (one, "b")], blocks=ALONE, seed=APART)
    assert [p.micro for p in found.price] == [2 * 10**6, 10**6]
    twice = vertical.plan(vertical.pairwise, [(one, "a"), (other, "c"), (one, "a")])
    assert [p.micro for p in twice.prices] == [10**6, 10**6]  # one question, asked once
    assert found.joint(2, 1).probability("a and b") == pytest.approx((b & (a ^ b)).mean(), abs=1e-3)
    with pytest.raises(sulq.QueryNotAllowed, match="one database"):
        found.joint(0, 2)


def test_one_database_is_not_two():
    """The same database on both sides is refused, also through two handles that share a ledger."""
    hospital, _, _, _ = two(500)
    with pytest.raises(sulq.QueryNotAllowed, match="one database"):
        vertical.joint(hospital, "a", hospital, "a")


def test_two_handles_of_one_ledger_are_noticed(tmp_path):
    """One stored answer on both sides would count its noise as agreement."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    a, _ = properties(500)
    pq.write_table(pa.table({"id": np.arange(500), "a": a}), tmp_path / "t.parquet")
    schema = {"columns": {"id": {"key": True}, "a": BOOLEAN}}
    settings = {"epsilon": 1.0, "queries": 5}
    with sulq.open(tmp_path / "t.parquet", schema, **settings) as one:
        with (
            sulq.open(tmp_path / "t.parquet", schema, **settings) as two_,
            pytest.raises(sulq.QueryNotAllowed, match="same noisy sums"),
        ):
            vertical.joint(one, "a", two_, "a")
        assert one.budget.spent == 1


def test_public_terms_charge_their_own_rows_only():
    """A property with a public part is charged to those rows."""
    a, b = properties(400)
    region = np.where(np.arange(400) % 2 == 0, "north", "south")
    declared = {"a": BOOLEAN, "region": {"values": ["north", "south"], "public": True}}
    hospital = database({"a": a, "region": region}, declared, queries=1)
    insurer = database({"b": b}, name="insurer", queries=2)
    vertical.joint(hospital, "a and region = 'north'", insurer, "b")
    spent = {cell["region"]: cell["spent"] for cell in hospital.budget_by_cell()}
    assert spent == {"north": 1, "south": 0, None: 0}
    vertical.joint(hospital, "a and region = 'south'", insurer, "b")
    assert insurer.budget.spent == 1


@pytest.mark.parametrize("noise", ["laplace", "binomial", "stitched"])
def test_other_noise_works_too(noise):
    """Every kind of noise is even about 0, with a known spread: that is all that is used."""
    hospital, insurer, a, b = two(4000, quiet=False, noise=noise, epsilon=5.0, queries=10, seed=1)
    found = vertical.joint(hospital, "a", insurer, "b")
    low, high = found.probability("a and b").interval(1 - 1e-9)
    assert low <= (a & b).mean() <= high
    assert found.probability("a and b").std < 0.15


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"blocks": 3}, "blocks=3"), ({"blocks": 10**6}, "blocks"), ({"blocks": True}, "blocks"),
        ({"seed": "x"}, "seed"), ({"seed": 2**70}, "seed"), ({"expected": 0}, "expected"),
        ({"expected": (0.1, 0.2, 0.3)}, "expected"), ({"method": "magic"}, "method"),
    ],
)  # fmt: skip
def test_options_are_checked(options, said):
    """Neither side is charged for what cannot be."""
    hospital, insurer, _, _ = two(300)
    with pytest.raises(sulq.Refused, match=said):
        vertical.implication(hospital, "a", insurer, "b", **options)
    assert hospital.budget.spent == insurer.budget.spent == 0


@pytest.mark.parametrize("sides", [[], [1, 2], "ab", [("x", "a"), ("y", "b")], None, [(1, 2, 3)]])
def test_sides_are_checked(sides):
    """A list of sides that cannot be is refused."""
    with pytest.raises(sulq.Refused):
        vertical.pairwise(sides)


@pytest.mark.parametrize("text", ["nothing", "a +", "sum(a)", 7, None, "a) or (true"])
def test_a_property_that_cannot_be_asked_is_refused(text):
    """Neither side is charged."""
    hospital, insurer, _, _ = two(300)
    with pytest.raises(sulq.QueryNotAllowed):
        vertical.joint(hospital, text, insurer, "b")
    assert hospital.budget.spent == insurer.budget.spent == 0


def test_results_print_and_have_a_json_form():
    """A plan names each side's price."""
    hospital, insurer, _, _ = two(500)
    plan = vertical.plan(vertical.implication, hospital, "a", insurer, "b")
    assert "1 query in 'hospital'; 1 query in 'insurer'" in str(plan)
    found = vertical.implication(hospital, "a", insurer, "b")
    assert set(found.to_json()) == {"delta", "p_a", "p_b", "p_b_given_a", "price_micro", "people"}
    assert "delta" in str(found)
    assert "price 1 query, 1 query" in str(found)
    assert "odds ratio" in str(vertical.joint(hospital, "a", insurer, "b"))
    with pytest.raises(sulq.Refused, match="no plan"):
        vertical.plan(print)
