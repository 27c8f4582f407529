"""What an analyst may try by mining: spend more than announced, tell twins apart, crash it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from vertical.data import BOOLEAN, NUMBER, database, properties

import sulq
from sulq import vertical

N = 200
BOTH = {"p": BOOLEAN, "x": NUMBER}
CALLS = {
    "joint": lambda a, b: vertical.joint(a, "p", b, "p"),
    "implication": lambda a, b: vertical.implication(a, "p", b, "p", budget=2),
    "test": lambda a, b: vertical.implication(a, "p", b, "p", method="test", subsets=8),
    "pairwise": lambda a, b: vertical.pairwise([(a, "p"), (b, "p"), (b, "x > 0.5")]),
    "crosstab": lambda a, b: vertical.crosstab(a, "p", b, "p"),
    "covariance": lambda a, b: vertical.covariance([(a, ["p", "x"]), (b, ["x"])], budget=3),
}
PLANS = {
    "joint": lambda a, b: vertical.plan(vertical.joint, a, "p", b, "p"),
    "implication": lambda a, b: vertical.plan(vertical.implication, a, "p", b, "p", budget=2),
    "test": lambda a, b: vertical.plan(
        vertical.implication, a, "p", b, "p", method="test", subsets=8
    ),
    "pairwise": lambda a, b: vertical.plan(vertical.pairwise, [(a, "p"), (b, "p"), (b, "x > 0.5")]),
    "crosstab": lambda a, b: vertical.plan(vertical.crosstab, a, "p", b, "p"),
    "covariance": lambda a, b: vertical.plan(
        vertical.covariance, [(a, ["p", "x"]), (b, ["x"])], budget=3
    ),
}


class WildNoise:
    """Draws anything at all: the answers know nothing of the rows."""

    def __init__(self, reach):
        self.reach, self.random = reach, random.Random(0)

    def draw(self, law, count):
        return [self.random.randint(-self.reach, self.reach) for _ in range(count)]


def sides(first=True, **settings):
    """Two databases; `first` is one private value of one row."""
    a, b = properties(N)
    a[0] = first
    x = np.linspace(0, 1, N)
    x[0] = 0.9 if first else 0.1
    made = [
        database({"p": p, "x": v}, BOTH, name=name, **settings)
        for p, v, name in ((a, x, "hospital"), (b, x[::-1].copy(), "insurer"))
    ]
    return made[0], made[1]


@pytest.mark.parametrize("call", CALLS)
def test_whatever_the_answers_are_nothing_more_is_spent(call):
    """Answers that are pure chance, and huge: it ends, within what it may say and spend."""
    a, b = sides(queries=50)
    prices = PLANS[call](a, b).prices
    for db in (a, b):
        db._pipeline.noise = WildNoise(10**15)
    found = CALLS[call](a, b)
    assert str(found)
    assert [db.budget.spent for db in (a, b)] == [p.queries for p in found.price]
    assert all(paid.micro <= most.micro for paid, most in zip(found.price, prices, strict=True))
    if hasattr(found, "delta"):
        low, high = found.interval()
        assert -1 <= low <= high <= 1
        assert 0 <= found.p_a <= 1


@pytest.mark.parametrize("call", CALLS)
def test_twins_look_alike(call):
    """One private value apart: plans, prices, questions and the ledger are the same."""
    seen = []
    for first in (True, False):
        a, b = sides(first, queries=50)
        plan = str(PLANS[call](a, b))
        for db in (a, b):
            db._pipeline.noise = WildNoise(10**12)
        CALLS[call](a, b)
        seen.append([plan, *([(c.query, c.price) for c in db.history()] for db in (a, b))])
    assert seen[0][0] == seen[1][0]
    assert seen[0][1] == seen[1][1]
    if call != "test":  # where b is asked about sets that the noisy answers about a have chosen
        assert seen[0][2] == seen[1][2]


def test_a_publication_of_chance_is_read_too(tmp_path):
    """Huge noise makes a file that loads, and probabilities that are probabilities."""
    a, _ = sides(queries=50)
    a._pipeline.noise = WildNoise(10**15)
    made = vertical.publish(a, {"p": "p", "q": "x > 0.5"}, 1, tmp_path / "f.parquet")
    assert made.price.queries == a.budget.spent == 4
    file = vertical.Publication.load(tmp_path / "f.parquet")
    low, high = file.probability("p and not q").interval()
    assert 0 <= low <= high <= 1


def test_every_call_is_charged_where_it_is_asked():
    """Six ways to ask about one property: no answer about other questions comes free."""
    a, b = sides(queries=10**6)
    spent = 0
    for i in range(6):
        vertical.joint(a, "p", b, "p", blocks=20 + i % 3, seed=i // 3)
        assert a.budget.spent == b.budget.spent == spent + 1
        spent += 1
    with pytest.raises(sulq.BudgetExceeded):
        vertical.joint(a, "p", b, "p", budget=10**6)
    assert a.budget.spent == spent


def test_free_counts_are_bounded():
    """Sizes cost nothing, so there are only so many at once."""
    a, _ = sides()
    with pytest.raises(sulq.QueryNotAllowed, match="at most 1,000,000"):
        a.sizes(*[sulq.Rows.blocks(i, 100_000) for i in range(11)])


@pytest.mark.parametrize(
    "text", ["p -- p", "p /* */", "p\x00", "p" * 100_000, "(" * 5000 + "p" + ")" * 5000, "'", '"']
)
def test_hostile_predicates_are_refused_or_harmless(text, tmp_path):
    """As property, attribute or function: an answer like any other, or a refusal."""
    a, b = sides(queries=50)
    calls = (
        lambda: vertical.joint(a, text, b, "p"),
        lambda: vertical.publish(a, {"p": text}, 1, tmp_path / "f.parquet"),
        lambda: vertical.crosstab(a, text, b, "p"),
        lambda: vertical.joint(a, "p", b, "p").probability(text.replace("p", "a")),
    )
    said = []
    for call in calls:
        try:
            call()
        except sulq.SulqError as refusal:
            said.append(str(refusal))
    assert all(len(text) < 2000 for text in said)
    assert a.budget.spent <= 5
