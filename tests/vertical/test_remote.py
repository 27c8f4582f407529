"""Two servers, reached by sulq.connect: mining runs unchanged, each side charged by its own."""

from __future__ import annotations

import pytest
from server.instance import made

import sulq
from sulq import vertical


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two servers with a table of the same 200 people each, and a connection to both."""
    folder = tmp_path_factory.mktemp("servers")
    instances = [made(folder / name, queries=1000) for name in ("one", "two")]
    with (
        instances[0].serving() as one,
        instances[1].serving() as other,
        sulq.connect(one.url, one.keys["bob"], "people") as a,
        sulq.connect(other.url, other.keys["bob"], "people") as b,
    ):
        yield a, b


def test_all_of_it_works_over_http(two, tmp_path):
    """Every function, with the announced price on each side and nothing more."""
    a, b = two
    spent = [0, 0]

    def paid(price):
        for i, p in enumerate(price):
            spent[i] += p.queries
        assert [db.budget.spent for db in two] == spent

    plan = vertical.plan(vertical.implication, a, "secret", b, "age > 50")
    found = vertical.implication(a, "secret", b, "age > 50")
    assert found.price == plan.prices
    paid(found.price)
    assert vertical.joint(a, "secret", b, "age > 50").delta == found.delta
    paid(())
    paid(vertical.crosstab(a, "secret", b, "city", blocks=20).price)
    columns = [(a, ["age"]), (b, ["income"])]
    paid(vertical.covariance(columns, blocks=20).price)
    assert vertical.PCA(n_components=1, blocks=20).fit(columns).components_.shape == (1, 2)
    paid(())
    paid(vertical.implication(a, "secret", b, "age > 60", method="test", subsets=3).price)
    made_here = vertical.publish(a, {"s": "secret", "old": "age > 50"}, 1, tmp_path / "f.parquet")
    paid([made_here.price])
    file = vertical.Publication.load(tmp_path / "f.parquet")
    assert file.probability("s and old") == made_here.probability("s and old")


def test_refusals_are_the_embedded_ones(two):
    """Over HTTP the same errors are raised, and nothing is charged."""
    a, b = two
    before = [db.budget.spent for db in two]
    with pytest.raises(sulq.QueryNotAllowed):
        vertical.joint(a, "nothing", b, "secret")
    with pytest.raises(sulq.BudgetExceeded):
        vertical.joint(a, "secret", b, "secret", budget=1001)
    assert [db.budget.spent for db in two] == before
