"""Keys: public, compared free, and refused in words where they cannot name the same people."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2
from vertical.data import BOOLEAN, database, properties, sums_of

import sulq
from sulq import vertical
from sulq.vertical.common_people import SharedPeople, counted_together
from sulq.vertical.joint import joint_of

N = 150


def pair(keys_a, keys_b, **settings):
    rng = np.random.default_rng(5)
    made = []
    for keys, name in ((keys_a, "hospital"), (keys_b, "insurer")):
        column = rng.random(len(keys)) < 0.5
        made.append(database({"p": column}, keys=keys, name=name, **settings))
    return made


CALLS = {
    "joint": lambda a, b: vertical.joint(a, "p", b, "p"),
    "test": lambda a, b: vertical.implication(a, "p", b, "p", method="test", subsets=5),
    "crosstab": lambda a, b: vertical.crosstab(a, "p", b, "p"),
    "covariance": lambda a, b: vertical.covariance([(a, ["p"]), (b, ["p"])]),
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda k: [None, *k[1:]], "1 of 150 rows in 'insurer' have no key"),
        (lambda k: [k[1], *k[1:]], "1 of 150 rows in 'insurer' repeat a key"),
        (lambda k: k[:-40], "150 keys and 'insurer' 110; about 1"),
        (lambda k: [x + 40 for x in k], "about 1"),
        (lambda k: [x + 10_000 for x in k], "That may be nobody"),
        (lambda k: [f"p{x}" for x in k], "integer in 'hospital', text in 'insurer'"),
        (lambda k: [], "'insurer' has no rows"),
    ],
)
def test_keys_that_do_not_fit_are_refused_free(change, said):
    """Missing, repeated, fewer, shifted, foreign, of another type: said so, nothing charged."""
    keys = list(range(N))
    hospital, insurer = pair(keys, change(keys))
    for call in CALLS.values():
        with pytest.raises(sulq.QueryNotAllowed, match=said):
            call(hospital, insurer)
    assert hospital.budget.spent == insurer.budget.spent == 0
    assert hospital.history() == insurer.history() == []


def test_no_key_is_said():
    """A table without a key is refused."""
    import pyarrow as pa
    from helpers import opened

    bare = opened(pa.table({"p": [True, False]}), {"columns": {"p": BOOLEAN}})
    other, _ = pair(list(range(N)), list(range(N)))
    with pytest.raises(sulq.QueryNotAllowed, match="declares no key"):
        vertical.joint(other, "p", bare, "p")


def test_the_order_of_rows_does_not_matter():
    """Rows are matched by key, not by place; text keys too."""
    a, b = properties(N, delta=0.3)
    turn = np.random.default_rng(6).permutation(N)
    for names in (np.arange(N), np.array([f"person {i}" for i in range(N)])):
        hospital = database({"a": a}, keys=names, name="hospital", epsilon=1e9)
        insurer = database({"b": b[turn]}, keys=names[turn], name="insurer", epsilon=1e9)
        found = vertical.joint(hospital, "a", insurer, "b", blocks=6_000, seed=1)
        assert found.probability("a and b") == pytest.approx((a & b).mean(), abs=0.02)


# --- overlap -----------------------------------------------------------------------------------


def test_shared_keys_are_counted():
    """Within five standard deviations of the truth, for nested, crossing and foreign keys.

    False alarm 1e-6 a case; the seeds are fixed.
    """
    for other in (range(200, 600), range(0, 1000), range(399, 800)):
        hospital, insurer = pair(list(range(400)), list(other))
        found = counted_together(hospital, insurer, seed=0)
        true = len(set(range(400)) & set(other))
        assert abs(found.count - true) < 5 * found.std + 1
        assert found.std < 3


def test_overlap_is_estimated_when_it_is_asked_for():
    """Few people, each in a block of their own: the estimate is the joined table's."""
    a, b = properties(300, delta=0.3, seed=8)
    hospital = database({"a": a[:250]}, keys=np.arange(250), name="hospital", epsilon=1e9)
    insurer = database({"b": b[50:]}, keys=np.arange(50, 300), name="insurer", epsilon=1e9)
    found = vertical.joint(hospital, "a", insurer, "b", blocks=6_000, overlap=True)
    x, y = a[50:250], b[50:250]
    assert "people who are in both" in found.note
    assert found.people == pytest.approx(200, abs=5)
    assert found.p_a == pytest.approx(x.mean(), abs=0.02)
    assert found.probability("a and b") == pytest.approx((x & y).mean(), abs=0.03)


def overlapping(seed, noise=3.0, blocks=400, n=20_000):
    """One estimate on the overlap of two tables that differ outside it."""
    rng = np.random.default_rng(seed)
    a, b = properties(n, delta=0.2, seed=1)
    a[: n // 4] = rng.random(n // 4) < 0.8  # who is in one table only is quite different
    b[3 * n // 4 :] = rng.random(n // 4) < 0.1
    keys = np.arange(n)
    left, right = keys[: 3 * n // 4], keys[n // 4 :]
    sides = [sums_of(x[k].astype(float), blocks, seed, noise, rng, k)
             for x, k in ((a, left), (b, right))]  # fmt: skip
    both = slice(n // 4, 3 * n // 4)
    return joint_of(*sides, SharedPeople(n / 2, 1.0), ()), a[both], b[both]


def test_overlap_intervals_cover():
    """Mean and spread of the errors on the overlap are those announced; false alarm 1e-9 each."""
    pulls = {"p_a": [], "p_b": [], "both": [], "delta": []}
    for seed in range(200):
        found, a, b = overlapping(seed)
        true = {"p_a": a.mean(), "p_b": b.mean(), "both": (a & b).mean(),
                "delta": b[a].mean() - b.mean()}  # fmt: skip
        made = {"p_a": found.p_a, "p_b": found.p_b, "both": found.probability("a and b"),
                "delta": found.delta}  # fmt: skip
        for name in pulls:
            pulls[name].append((float(made[name]) - true[name]) / made[name].std)
    for name, z in pulls.items():
        assert abs(np.mean(z)) * math.sqrt(len(z)) < 6.1, name
        assert 1e-9 < chi2.cdf(np.square(z).sum(), len(z)) < 1 - 1e-9, name


# --- what is public ----------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["duckdb", "reference"])
def test_public_counts_are_exact_and_free(engine):
    """Sizes of public sets and faults of keys cost nothing and leave nothing in the ledger."""
    keys = [1, 2, 2, None, 5, None, 7]
    region = ["n", "s", "n", "s", "n", "s", "n"]
    declared = {"p": BOOLEAN, "region": {"values": ["n", "s"], "public": True}}
    db = database(
        {"p": [True] * 7, "region": region}, declared, keys=keys, quiet=False, engine=engine
    )
    assert db.key_counts() == sulq.KeyCounts(rows=7, missing=2, repeated=1)
    blocks, sample, north = db.sizes(
        sulq.Rows.blocks(3, 4), sulq.Rows.sample(3, 0.5), sulq.Rows.where("region = 'n'")
    )
    assert len(blocks) == 4
    assert sum(blocks) == 7
    assert 0 <= sample[0] <= 7
    assert north == (4,)
    assert db.sizes() == []
    assert db.budget.spent == 0
    assert db.history() == []


@pytest.mark.parametrize("rows", [sulq.Rows.where("p"), "p", None, 3])
def test_only_public_sets_are_counted(rows):
    """A private predicate is refused: its count would be an answer nobody paid for."""
    db = database({"p": [True, False]})
    if rows is None:
        assert db.sizes(rows) == [(2,)]
        return
    with pytest.raises(sulq.QueryNotAllowed):
        db.sizes(rows)


def test_twins_have_the_same_public_counts():
    """Two tables that differ in one private value show the same."""
    one, other = (database({"p": [x, True, False]}) for x in (True, False))
    rows = sulq.Rows.blocks(1, 5)
    assert one.sizes(rows) == other.sizes(rows)
    assert one.key_counts() == other.key_counts()


def test_counting_keys_needs_one():
    """key_counts of a table without a key is refused."""
    import pyarrow as pa
    from helpers import opened

    with pytest.raises(sulq.QueryNotAllowed, match="key"):
        opened(pa.table({"p": [True]}), {"columns": {"p": BOOLEAN}}).key_counts()


def test_a_failing_engine_says_nothing_of_rows():
    """Free counts fail without a charge and without the engine's words."""
    db = database({"p": [True, False]})

    def broken(queries):
        raise RuntimeError("row 17 holds secrets")

    db._pipeline.engine.sums = broken
    with pytest.raises(sulq.Refused, match="Nothing was charged") as caught:
        db.key_counts()
    assert "secrets" not in str(caught.value)
