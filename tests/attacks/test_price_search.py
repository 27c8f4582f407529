"""A search for a pair of rows that moves an answer more than its price says.

Random questions as analysts write them: marginals with weights and budgets, CUBE, ROLLUP and
GROUPING SETS, batches of counts that overlap, histograms with subtotals, strategies, quantiles.
Each is planned and priced as it would be asked; then a row takes every value it may have, and what
it adds is measured by the noise that is paid for: the squared distance of two rows, in standard
deviations, times R.
"""

import itertools
import random
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened
from soak import some, times

import sulq
from sulq.errors import QueryNotAllowed
from sulq.kernel.sums import batches_of, grid, member_cells
from sulq.questions.residual import Projected
from sulq.strategies import sharing

KINDS = {
    "kind": ["x", "y", "z", None],
    "sure": [False, True, None],
    "place": ["n", "s"],  # public
    "age": [*range(10), None],
    "hour": [*range(4)],
}
SCHEMA = {
    "kind": {"values": ["x", "y", "z"]},
    "sure": {"type": "boolean"},
    "place": {"values": ["n", "s"], "public": True, "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 9},
    "hour": {"type": "integer", "low": 0, "high": 3, "nullable": False},
    "row": {"type": "integer", "low": 0, "high": 9999, "public": True, "key": True},
}
EVERY = list(itertools.product(*KINDS.values()))
TESTS = ["sure", "not sure", "kind = 'x'", "age > 4", "hour < 2 or sure", "place = 'n'"]


@pytest.fixture(scope="module", params=["dp", "beliefs"])
def db(request):
    """Every row that there may be, once."""
    columns = dict(zip(KINDS, map(list, zip(*EVERY, strict=True)), strict=True))
    table = pa.table(columns | {"row": list(range(len(EVERY)))})
    return opened(table, SCHEMA, guarantee=request.param, name="t")


# --- random questions ---------------------------------------------------------------------


def condition(pick):
    """A predicate or none."""
    return pick.choice([None, None, pick.choice(TESTS)])


def some_marginals(pick):
    columns = pick.sample(list(KINDS), pick.randint(2, 4))
    width = pick.randint(1, min(3, len(columns)))
    weighted = pick.sample(list(itertools.combinations(columns, width)), 1)
    return sulq.Marginals(
        columns, width, where=condition(pick), budget=pick.choice([None, 1, 3.5]),
        weights={t: pick.randint(1, 50) for t in weighted} if pick.random() < 0.5 else {},
    )  # fmt: skip


def some_groupings(pick):
    keys = pick.sample(list(KINDS), pick.randint(1, 3))
    sets = [pick.sample(keys, pick.randint(0, len(keys))) for _ in range(pick.randint(1, 3))]
    listed = ", ".join(f"({', '.join(s)})" for s in sets)
    by = pick.choice(
        [f"cube({', '.join(keys)})", f"rollup({', '.join(keys)})", f"grouping sets ({listed})"]
    )
    where = condition(pick)
    shown = ", ".join(keys) if not by.startswith("grouping") else "count(*) as m"
    return f"select {shown}, count(*) as n from t" + (f" where {where}" if where else "") + (
        f" group by {by}"
    )  # fmt: skip


def some_batch(pick):
    where = condition(pick)
    counts = []
    for _ in range(pick.randint(2, 8)):
        low, high = sorted(pick.sample(range(11), 2))
        parts = [f"age >= {low} and age < {high}"]
        parts += [where] if where else []
        parts += [pick.choice(TESTS)] if pick.random() < 0.3 else []
        counts.append(sulq.Query(where=" and ".join(f"({p})" for p in parts)))
    return counts


def some_pieces(pick):
    """Counts of rectangles of two columns, whose pieces alone are told apart."""
    ends = [(*sorted(pick.sample(range(11), 2)), pick.randint(0, 3)) for _ in range(12)]
    return [sulq.Query(where=f"age >= {a} and age < {b} and hour <= {h}") for a, b, h in ends]


def some_subtotals(pick):
    where = condition(pick)
    column, most = pick.choice([("age", 9), ("hour", 3)])

    def bins():
        inner = pick.sample(range(1, most), pick.randint(1, most - 1))
        return sulq.Bins(column, (0, *sorted(inner), most))

    asked = [sulq.Query(by=bins(), where=where) for _ in range(pick.randint(1, 3))]
    if pick.random() < 0.4:
        asked.append(sulq.Query(by=(bins(), pick.choice(["sure", "kind", "place"])), where=where))
    for _ in range(pick.randint(1, 3)):
        parts = [f"{column} >= {pick.randint(0, most)}", *([where] if where else [])]
        asked.append(sulq.Query(where=" and ".join(f"({p})" for p in parts)))
    return asked


def some_strategy(pick):
    ages = sulq.Bins("age", tuple(range(11)))
    by = pick.choice([(ages,), ("sure", ages), ("place", ages), ("kind", ages)])
    if pick.random() < 0.2:
        both = [pick.choice(["ranges", "prefixes", "suffixes", "cells"]) for _ in range(2)]
        cut = (*by[:-1], sulq.Bins("hour", (0, 1, 2, 3, 4)), ages)
        return sulq.Query(sulq.Strategy(both), by=cut, where=condition(pick))
    if pick.random() < 0.5:
        workload = pick.choice(["ranges", "prefixes", "suffixes", "cells", "cdf"])
        return sulq.Query(sulq.Strategy(workload), by=by, where=condition(pick))
    cells = {1: 11}.get(len(by)) or {"sure": 33, "place": 33, "kind": 44}[by[0]]
    width, height = pick.randint(1, 5), pick.randint(1, 5)
    matrix = [[pick.randint(-9, 9) for _ in range(width)] for _ in range(height)]
    columns = [pick.randint(-1, width - 1) for _ in range(cells)]
    return sulq.Query(sulq.Strategy(matrix=matrix, columns=columns), by=by)


def some_quantile(pick):
    by = pick.choice([None, "place", "kind"])
    where = condition(pick)
    median = f"median({pick.choice(['age', 'hour', 'age + hour'])}) as m"
    shown = f"{by}, {median}" if by else median
    return f"select {shown} from t" + (f" where {where}" if where else "") + (
        f" group by {by}" if by else ""
    )  # fmt: skip


SORTS = [
    some_marginals, some_groupings, some_batch, some_subtotals, some_strategy, some_quantile
]  # fmt: skip


# --- how far rows move them ---------------------------------------------------------------


def everyone(db):
    """All rows as the kernel sees them, and their places."""
    schema = db.schema
    table = pa.table(dict(zip(KINDS, map(list, zip(*EVERY, strict=True)), strict=True)))
    table = table.append_column("row", pa.array(range(len(EVERY))))
    (batch,) = batches_of([table], table.column_names, len(EVERY), schema)
    return batch, np.array([row[list(KINDS).index("place")] for row in EVERY])


def steps(query, tariff, batch):
    """What every row adds to the numbers of one query, in standard deviations of their noise."""
    member, cells = member_cells(query, batch)
    values = np.stack([grid(v, batch.evaluate(v.node)) for v in query.values], axis=1)
    values = (values * member[:, None]).astype(float)
    if query.mix is not None:
        values = values @ np.array(query.mix, dtype=float).T
    size = query.shape[0]
    if query.measurement is None:
        moved = np.zeros((len(cells), size, values.shape[1]))
        moved[np.arange(len(cells)), cells] = values
        scale = [m / law.std for m, law in zip(tariff.multiples, tariff.laws, strict=True)]
        return (moved * np.array(scale)).reshape(len(cells), -1)
    each = combinations(query.measurement, size)
    found = each[cells] * values * (tariff.multiples[0] / tariff.laws[0].std)
    if isinstance(query.measurement, Projected):  # noise of the cells, then their differences
        each = [np.eye(m - 1) - 1 / m for m in query.measurement.sizes]
        inverse = reduce(np.kron, each, np.eye(1))
        found = found @ np.linalg.cholesky(np.atleast_2d(inverse))
    return found


def combinations(measurement, size):
    """What one row in each cell adds, by the product's own code."""
    units = ([[int(i == at)] for i in range(size)] for at in range(size))
    return np.array([[x for (x,) in measurement.of(unit)] for unit in units], dtype=float)


def farthest(db, question, batch, places):
    """The largest squared step that a row can make, as a share of what is paid for."""
    guarantee, variance = db.promise.guarantee, float(db.promise.exact_variance)
    worst = 0.0
    for bundle in question.bundles:
        moved = np.concatenate([steps(q, t, batch) for q, t in bundle.parts], axis=1)
        lengths = (moved**2).sum(axis=1)
        far = lengths.max()
        if guarantee == "beliefs":
            for place in set(places):  # what is public is the same in both
                some = moved[places == place]
                apart = lengths[places == place]
                far = max(far, (apart[:, None] + apart - 2 * some @ some.T).max())
        paid = float(bundle.price.queries)
        worst = max(worst, far * variance / paid if paid else far)
    return worst


@pytest.mark.parametrize("seed", some(range(23, 28), 1))
def test_no_pair_of_rows_moves_an_answer_more_than_its_price(db, seed):
    """60 random questions (5 x 2,000 in soak), every row and every pair of rows that may be."""
    shares = searched(db, SORTS, random.Random(seed), times(60, 2_000))
    assert len(shares) == len(SORTS)
    assert all(max(found) <= 1 + 1e-9 for found in shares.values()), shares
    assert all(max(found) > 0.99 for found in shares.values())  # it is reached: 1% less is seen


@pytest.mark.parametrize("seed", some(range(28, 30), 1))
def test_nor_one_to_counts_over_wide_columns(db, seed, monkeypatch):
    """10 random batches (2 x 500 in soak) of columns that are said to have too many values."""
    monkeypatch.setattr(sharing, "MAX_CELLS", 3)
    shares = searched(db, [some_pieces], random.Random(seed), times(10, 500))["some_pieces"]
    assert 0.99 < max(shares) <= 1 + 1e-9


def searched(db, sorts, pick, number):
    """So many random questions: by sort, how far rows move each as a share of its price."""
    batch, places = everyone(db)
    shares = {}
    for i in range(number):
        sort = sorts[i % len(sorts)]
        try:
            question = db.question(sort(pick))
        except QueryNotAllowed:
            continue
        if not question.bundles:
            continue
        shares.setdefault(sort.__name__, []).append(farthest(db, question, batch, places))
    print({name: (len(found), max(found)) for name, found in shares.items()})
    return shares
