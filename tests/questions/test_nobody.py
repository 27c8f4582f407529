"""Questions about no row, and columns with one value: a price like any other, or none at all."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from helpers import opened

import sulq
from sulq import Bins, Query
from sulq.values.marginals import Marginals
from sulq.values.query import Mean, Products, Strategy

COLUMNS = {
    "id": {"type": "integer", "key": True},
    "age": {"type": "integer", "low": 0, "high": 100, "nullable": False},
    "smoker": {"type": "boolean", "nullable": False},
    "kind": {"values": ["a", "b"], "nullable": False},
    "sort": {"values": ["x"], "nullable": False},
    "person": {"type": "text"},
    "region": {"values": ["n", "s"], "public": True, "nullable": False},
    "month": {"values": ["1", "2", "3", "4"], "public": True, "nullable": False},
}
PERIODS = {
    "columns": COLUMNS, "period": {"column": "month"},
    "unit": {"column": "person", "max_rows": 1, "max_periods": 3},
}  # fmt: skip
NOBODY = ["smoker is null", "age is null", "age > 50 and age < 20", "smoker and not smoker",
          "region = 'n' and region = 's'", "smoker is null and region = 'n'", "false"]  # fmt: skip
SUMS = {
    "count": Query(), "sum": Query(["age"]), "mean": Query(Mean("age")),
    "crosstab": Query(by=["kind", "smoker"]), "bins": Query(["age"], by=Bins("age", [0, 50, 100])),
    "products": Query(Products(["age", "smoker"])),
    "strategy": Query(Strategy(("prefixes",)), by=Bins("age", list(range(0, 100, 10)))),
}  # fmt: skip


def database(schema, **terms):
    n = 60
    table = pa.table({
        "id": np.arange(n), "age": np.arange(n), "smoker": np.arange(n) % 3 == 0,
        "kind": ["a", "b"] * (n // 2), "sort": ["x"] * n,
        "person": [f"p{i // 4}" for i in range(n)], "region": ["n", "s", "s"] * (n // 3),
        "month": [str(1 + i % 4) for i in range(n)],
    })  # fmt: skip
    return opened(table, schema, quiet=False, name="people", **terms)


@pytest.mark.parametrize("schema", [COLUMNS, PERIODS], ids=["rows", "periods"])
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_sums_over_nobody_are_zero_and_free(schema, noise):
    """A contradiction cannot be moved by any row: exactly 0, at no price, whatever is summed."""
    db = database(schema, noise=noise)
    for where in NOBODY:
        for name, query in SUMS.items():
            if name == "strategy" and noise == "laplace":
                continue
            asked = replace(query, where=where)
            assert db.price(asked).micro == 0, (where, name)
            assert not db.estimate(asked).values.any(), (where, name)
            answer = db.ask(asked)
            assert not answer.values.any(), (where, name)
            assert answer.public, (where, name)
        tables = db.ask([Query(by="kind", where=where), Query(by=["kind", "smoker"], where=where)])
        assert not any(table.values.any() for table in tables)
        for text in ("count(*), avg(age), stddev(age)", "count(distinct kind)"):
            with suppress(sulq.QueryNotAllowed):
                db.sql(f"select {text} from people where {where}")
    assert db.history() == []


@pytest.mark.parametrize("schema", [COLUMNS, PERIODS], ids=["rows", "periods"])
def test_no_contradiction_costs_more_than_the_question_without_it(schema):
    """Also of what is chosen, and of tables together; and a price is 0 only where it is free."""
    db = database(schema)
    chosen = "select percentile_disc(0.5) within group (order by age) from people"
    for where in NOBODY:
        tables = Marginals(["kind", "smoker"], 2, where=where)
        assert db.question(tables).price.micro == 0
        plain, bent = db.price(chosen), db.price(f"{chosen} where {where}")
        assert 0 < bent.micro <= plain.micro


def test_what_concerns_no_period_is_priced_as_one():
    """A percentile over no period was priced at 0: people of 0 periods. It is at least one."""
    db = database(PERIODS)
    text = "select percentile_disc(0.5) within group (order by age) from people"
    one = db.price(f"{text} where month = '1'").micro
    assert db.price(f"{text} where month = '1' and month = '2'").micro == one == 1_000_000


def test_columns_of_one_value_are_asked_together():
    """Tables and counts over a column that takes one value only have common cells, too."""
    db = database(COLUMNS)
    tables = [Query(by=["sort", "kind"]), Query(by=["sort", Bins("age", [0, 9, 20, 100])]),
              Query(by=["sort", Bins("age", [0, 20, 100])])]  # fmt: skip
    assert [len(answer.exact) for answer in db.ask(tables)] == [6, 8, 6]
    assert len(db.ask([Query(where=f"age > {a} and sort = 'x'") for a in range(0, 90, 9)])) == 10
    db.sql("select sort, kind, count(*) from people group by rollup (sort, kind)")
    db.marginals(["sort", "kind", "smoker"], 2)


@pytest.mark.parametrize("where", [None, *NOBODY])
def test_marginals_of_nobody_have_a_price(where):
    """Residuals whose prices are all 0 were divided by their sum."""
    db = database(PERIODS)
    for consistent in (False, True):
        asked = Marginals(["kind", "smoker", "region"], 2, where=where, consistent=consistent)
        question = db.question(asked)
        assert (question.price.micro == 0) == (where is not None)
        db.answer(question)
