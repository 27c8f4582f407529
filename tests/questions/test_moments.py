"""Means, squares and products of the same expressions: their price, and the error that buys."""

import itertools
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from helpers import checked, opened, reference_engine

import sulq
from sulq.errors import MICRO
from sulq.learn.second_moments import moments_query
from sulq.privacy.pricing import tariff_of
from sulq.sql import compile_statement
from sulq.values.schema import Schema

COLUMNS = {
    "x": {"type": "number", "low": -3, "high": 5, "nullable": False},
    "y": {"type": "integer", "low": 0, "high": 90, "nullable": False},
    "s": {"type": "boolean", "nullable": False},
    "row": {"type": "integer", "low": 0, "high": 999, "nullable": False, "public": True},
}
AGGREGATES = ["var_pop(x)", "var_pop(y)", "covar_pop(x, y)", "corr(x, y)", "regr_slope(y, x)"]
STATEMENTS = [
    *AGGREGATES, "covar_pop(x, y) / var_pop(x)", "corr(x, y), avg(x)", "stddev(y), count(*)"
]  # fmt: skip


def asked(select, where):
    """The query of a statement's sums."""
    text = f"select {select} from t" + (" where s" if where else "")
    schema = Schema.load({"columns": COLUMNS})
    (query,) = compile_statement(text, schema, "t").queries
    return query


def worst_rows():
    """Rows at the ends, in the middle and between, and where two are furthest apart."""
    at = [0, 1 / 4, 0.382, 1 / 2, 0.618, 3 / 4, 1]
    pairs = list(itertools.product(at, at))
    return pa.table(
        {
            "x": [-3 + 8 * u for u, _ in pairs],
            "y": [round(90 * v) for _, v in pairs],
            "s": [True] * len(pairs),
            "row": list(range(len(pairs))),
        }
    )


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize("select", STATEMENTS)
def test_no_two_rows_are_further_apart_than_the_price(select, where, guarantee):
    """Each row by itself, then all pairs; the price is reached within a tenth where it should be.

    A price 5% low would be seen for variances and correlations.
    """
    query = asked(select, where)
    engine = reference_engine(worst_rows(), {"columns": COLUMNS})
    (question,) = checked([query], engine, guarantee=guarantee)
    by_row = sulq.Query(query.values, by="row", where=query.where)
    (each,) = checked([by_row], engine, guarantee=guarantee)
    (sums,) = engine.sums([each])
    mixed = np.array([[sum(a * b for a, b in zip(m, r, strict=True)) for m in question.mix]
                      for r in sums[: worst_rows().num_rows]], dtype=object)  # fmt: skip
    scale = [float(r.weight2) ** 0.5 / float(r.unit) for r in question.releases]
    steps = mixed.astype(float) * scale
    public = [i for i, r in enumerate(question.releases) if r.name == "1" and not where]
    steps[:, public] = 0  # a count that everybody knows
    price = tariff_of(question, sulq.Promise(1.0, 1e-6, 1000, guarantee=guarantee)).price
    paid = price.micro / MICRO - len(public)
    pairs = steps[:, None, :] - steps[None, :, :]
    worst = (steps**2).sum(axis=1).max()
    if guarantee == "beliefs":
        worst = max(worst, (pairs**2).sum(axis=2).max())
    assert worst <= paid * (1 + 1e-6)
    if select in AGGREGATES:
        assert worst > 0.95 * paid


def variance_of(weights2, of, rho=0.5, mean=0.25):
    """The variance of the aggregate's noise, times n^2 / R, ranges scaled to 1.

    `weights2` says of x, y, xy, xx, yy: one over the variance of its sum, scaled.
    """
    w = weights2
    if of == "var":
        return 1 / w["xx"] + (2 * mean) ** 2 / w["x"]
    if of == "slope":
        moved = mean**2 * (1 + (1 - 2 * rho) ** 2)
        return moved / w["x"] + 1 / w["xy"] + rho**2 / w["xx"]
    about = 2 * mean**2 / w["x"] + 1 / w["xy"]
    return about if of == "covar" else about + rho**2 / 4 * (1 / w["xx"] + 1 / w["yy"])


@pytest.mark.parametrize("guarantee", ["dp", "beliefs"])
@pytest.mark.parametrize(("select", "of"), [
    ("var_pop(x)", "var"), ("covar_pop(x, y)", "covar"), ("corr(x, y)", "corr"),
    ("regr_slope(y, x)", "slope"),
])  # fmt: skip
def test_the_error_is_at_most_that_of_the_moments_of_pca(select, of, guarantee):
    """At the same price, with means a quarter of the range off the middle and correlation 1/2."""
    db = opened(worst_rows(), {"columns": COLUMNS}, guarantee=guarantee, name="t")
    question = checked([asked(select, False)], db._pipeline.engine, guarantee=guarantee)[0]
    names = {
        "var": ["x", "xx"], "covar": ["x", "y", "xy"], "slope": ["x", "y", "xy", "xx"],
        "corr": ["x", "y", "xy", "xx", "yy"],
    }  # fmt: skip
    ranges = {"x": 1, "y": 1, "xy": Fraction(1, 2), "xx": Fraction(1, 4), "yy": Fraction(1, 4)}
    texts = {"x": "x", "y": "y", "xy": "* ((y)", "xx": "* ((x)", "yy": "((y) - 45.0) * ((y)"}
    ours = {}
    for name in names[of]:
        (release,) = (
            r for r in question.releases
            if (r.name == texts[name] if len(name) == 1 else texts[name] in r.name)
            and (name != "xy" or "((x)" in r.name)
        )  # fmt: skip
        ours[name] = float(release.weight2 / ranges[name] ** 2)
    columns = ("x",) if of == "var" else ("x", "y")
    pca = moments_query(db, columns, None, 1 / 3)
    times = float(db.price(f"select {select} from t").queries / db.price(pca).queries)
    w2 = pca.values.mean_weight**2
    theirs = {"x": w2 * times, "xy": 2 * times, "xx": times, "yy": times}
    assert variance_of(ours, of) < variance_of(theirs, of)
