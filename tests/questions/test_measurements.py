"""Combinations of cell counts: exact, and no row moves them further than their price says."""

import itertools
import json
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from helpers import ENGINES, opened
from soak import times

import sulq
from sulq.errors import MICRO
from sulq.privacy.pricing import tariff_of
from sulq.questions.check import check
from sulq.values.schema import Schema

SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 11},
    "smoker": {"type": "boolean", "nullable": False},
    "region": {"values": ["north", "south", "east"], "public": True},
    "dose": {"type": "integer", "low": 0, "high": 3},
    "flag": {"type": "boolean"},
}
AGES = sulq.Bins("age", tuple(range(13)))
DOSES = sulq.Bins("dose", (0, 1, 2, 3, 4))


def rows():
    return pa.table(
        {
            "age": [0, 3, 3, 11, None, 5, 7, 7, 7, 1],
            "smoker": [True, False, True, True, False, False, True, False, True, True],
            "region": ["north", "south", "east", "east", "north", "south"] + ["north"] * 4,
            "dose": [0, 1, 2, 3, 3, None, 0, 0, 1, 2],
            "flag": [True] * 10,
        }
    )


def drawn_strategy(pick):
    """A strategy over some cells, as an analyst may write it."""
    by = pick.choice([(AGES,), ("smoker", AGES), ("region", AGES), ("region", "smoker", DOSES)])
    named = pick.random() < 0.5
    if named and by[-1] is AGES:
        return sulq.Query(sulq.Strategy(pick.choice(["ranges", "prefixes", "cells"])), by=by)
    if named:
        return sulq.Query(sulq.Strategy(("cells", pick.choice(["ranges", "prefixes"]))), by=by)
    cells = checked(sulq.Query(by=by), "dp").shape[0]
    width, height = pick.randint(1, 6), pick.randint(1, 6)
    matrix = [[pick.randint(-9, 9) for _ in range(width)] for _ in range(height)]
    columns = [pick.randint(-1, width - 1) for _ in range(cells)]
    weight = pick.choice([None, (Fraction(1, 7),)])
    return sulq.Query(sulq.Strategy(matrix=matrix, columns=columns), by=by, weights=weight)


def checked(query, guarantee):
    return check(query, Schema.load({"columns": SCHEMA}), "gaussian", guarantee)


def farthest(query, guarantee):
    """The largest squared step of one row's change, as a share of what the price covers.

    A row is put into every cell it may be in; its public values stay what they are.
    """
    question = checked(query, guarantee)
    promise = sulq.Promise(1.0, 1e-6, 1000, guarantee=guarantee)
    tariff = tariff_of(question, promise)
    covered = Fraction(tariff.price.micro, MICRO) * question.releases[0].unit ** 2
    size = question.shape[0]
    public = [
        tuple(x for x, a in zip(cell, question.axes, strict=True) if a.public)
        for cell in itertools.product(*(range(len(a.labels)) for a in question.axes))
    ]
    moved: dict[tuple, list] = {}
    for at in range(size):
        exact = [[int(i == at)] for i in range(size)]
        step = np.array(question.measurement.of(exact), dtype=object).ravel()
        moved.setdefault(public[at], []).append(step)
    worst = 0
    for steps in moved.values():
        nothing = np.zeros_like(steps[0])
        pairs = [(s, nothing) for s in steps]
        if guarantee == "beliefs":
            pairs += list(itertools.combinations(steps, 2))
        worst = max(worst, *(int(((a - b) ** 2).sum()) for a, b in pairs))
    return float(worst * question.releases[0].weight2 / covered) if covered else 0.0


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
def test_no_row_moves_combinations_further_than_their_price_says(guarantee):
    """60 random strategies (10,000 in soak), every pair of cells. A price 5% low would be seen."""
    pick = random.Random(17)
    shares = [farthest(drawn_strategy(pick), guarantee) for _ in range(times(60, 10_000))]
    assert max(shares) <= 1
    assert max(shares) > 0.999  # it is reached
    assert max(s / 0.95 for s in shares) > 1  # control: 5% less would not cover it


def test_the_price_is_the_largest_column():
    """(1, 2) and (2, -1): 5 under dp, 10 between the two under beliefs; a public cell is known."""
    query = sulq.Query(sulq.Strategy(matrix=[[1, 2], [2, -1]], columns=[0, 1]), by="smoker")
    for guarantee, price in (("dp", 5), ("beliefs", 10)):
        db = opened(rows(), {"columns": SCHEMA}, guarantee=guarantee)
        assert db.price(query).queries == price
        public = sulq.Strategy(matrix=[[1, 2, 0, 0], [2, -1, 0, 0]])
        assert db.price(sulq.Query(public, by="region", where="smoker")).queries == 5
        named = sulq.Query(sulq.Strategy("ranges"), by=AGES)
        assert db.price(named).queries <= (1 if guarantee == "dp" else 2)


@pytest.mark.parametrize("engine", ENGINES)
def test_combinations_are_exact_on_every_engine(engine):
    """What leaves without noise is the matrix times the counts, to the last digit."""
    db = opened(rows(), {"columns": SCHEMA}, engine=None if engine == "reference" else engine)
    matrix = [[3, 0, -1, 2], [1, 1, 1, 0]]
    columns = [0] * 6 + [1, 2, 3, 3, 3, 3] + [-1]
    answer = db.ask(sulq.Query(sulq.Strategy(matrix=matrix, columns=columns), by=AGES))
    # six rows of at most five, none of six, three of seven, one of eleven, one missing
    assert [int(x) for (x,) in answer.exact] == [5 * 3 - 3 + 2, 5 + 0 + 3]
    ranges = db.ask(sulq.Query(sulq.Strategy("prefixes"), by=("region", AGES)))
    assert len(ranges.exact) == 4 * 12  # (other) is a region too
    assert ranges.cells[12] == ("south", 0)


def test_large_counts_stay_exact():
    """Counts beyond 2^53 times entries of 2^20: whole numbers all the way."""
    query = sulq.Query(sulq.Strategy(matrix=[[2**20, -1, 7]]), by="flag")
    counts = [2**60 + 1, 2**59 + 3, 5]
    cells = checked(query, "dp").measurement.of([[c] for c in counts])
    assert cells == [[2**20 * counts[0] - counts[1] + 7 * counts[2]]]


def test_a_strategy_is_one_question_however_it_is_written():
    """Its JSON reads back, its text is one, and the second time is free."""
    db = opened(rows(), {"columns": SCHEMA}, quiet=False)
    for strategy in (sulq.Strategy("ranges"), sulq.Strategy(matrix=np.eye(13, dtype=int))):
        query = sulq.Query(strategy, by=AGES)
        again = sulq.Query.from_json(json.loads(json.dumps(query.to_json())))
        assert again == query
        first = db.ask(query)
        spent = db.budget.spent
        assert db.ask(again).exact == first.exact
        assert db.budget.spent == spent
    other = sulq.Query(sulq.Strategy(matrix=2 * np.eye(13, dtype=int)), by=AGES)
    assert db.ask(other).price.micro == 4 * first.price.micro


def test_what_is_public_is_combined_without_noise():
    """Counts of public cells are free and exact, combined too."""
    db = opened(rows(), {"columns": SCHEMA}, quiet=False)
    answer = db.ask(sulq.Query(sulq.Strategy(matrix=[[1, 1, 1, 1], [1, -1, 0, 0]]), by="region"))
    assert answer.public
    assert [int(x) for (x,) in answer.exact] == [10, 4]


@pytest.mark.parametrize(
    ("strategy", "by", "said"),
    [
        (sulq.Strategy(), AGES, "one of them"),
        (sulq.Strategy("ranges", matrix=[[1]]), AGES, "one of them"),
        (sulq.Strategy("ranges"), None, "by="),
        (sulq.Strategy("squares"), AGES, "prefixes"),
        (sulq.Strategy(("ranges", "ranges")), AGES, "last columns"),
        (sulq.Strategy(matrix=[[1.5]]), AGES, "whole numbers"),
        (sulq.Strategy(matrix=[[1], [1, 2]]), AGES, "of one length"),
        (sulq.Strategy(matrix=[[2**21]]), AGES, "1,048,576"),
        (sulq.Strategy(matrix=[[1]]), AGES, "13 cells"),
        (sulq.Strategy(matrix=[[1]], columns=[1] * 13), AGES, "13 cells"),
        (sulq.Strategy(matrix=[[1]], columns=True), AGES, "13 cells"),
        (sulq.Strategy("ranges"), sulq.Bins("age", tuple(np.linspace(0, 11, 2000))), "1,536"),
    ],
)
def test_what_is_no_strategy_is_refused(strategy, by, said):
    """Each refusal says what is wanted, and nothing is charged."""
    db = opened(rows(), {"columns": SCHEMA})
    with pytest.raises(sulq.QueryNotAllowed, match=said):
        db.ask(sulq.Query(strategy, by=by))
    assert db.budget.spent == 0


def test_other_noise_has_no_strategies():
    """The matrices are made for squared distances."""
    db = opened(rows(), {"columns": SCHEMA}, noise="laplace")
    with pytest.raises(sulq.QueryNotAllowed, match="gaussian"):
        db.price(sulq.Query(sulq.Strategy("ranges"), by=AGES))
