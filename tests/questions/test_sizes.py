"""Looking at a price is free, so a question too large to ask is refused before it takes room."""

from __future__ import annotations

import pyarrow as pa
import pytest
from helpers import opened

import sulq
import sulq.planner
from sulq.values.query import Terms

SCHEMA = {"id": {"key": True}, "age": {"type": "integer", "low": 0, "high": 9}}
TABLE = pa.table({"id": [1, 2], "age": [3, 4]})


@pytest.fixture
def db():
    return opened(TABLE, SCHEMA)


def test_a_question_has_few_groups(db):
    """What is stored of groups grows with their square: 16,000 of them would be 3 GB to price."""
    groups = [("age > 3",)] * 1_001
    with pytest.raises(sulq.QueryNotAllowed, match=r"1,001 sums and counts .* at most 1,000"):
        db.price(sulq.Query(Terms((), groups)))
    with pytest.raises(sulq.QueryNotAllowed, match="1,001 sums and counts"):
        db.price(sulq.Query(Terms(["age"], groups[:1_000])))
    many = db.ask(sulq.Query(Terms(["age"], [("age > 3", "age")] * 20)))
    assert many.values.tolist() == [[7.0, *[1.0, -0.5] * 20]]


@pytest.mark.parametrize("together", [False, True])
def test_a_list_is_refused_where_it_becomes_too_long(db, monkeypatch, together):
    """What comes behind is not looked at: 200 wide questions in one body would be 27 GB."""
    looked = []

    def counting(query, *terms):
        looked.append(query)
        return check(query, *terms)

    check = sulq.planner.check
    monkeypatch.setattr(sulq.planner, "check", counting)
    wide = [sulq.Query(where="age > 3", by=sulq.Blocks(i, 100_000)) for i in range(40)]
    with pytest.raises(sulq.QueryNotAllowed, match="1,100,000 numbers, at most 1,000,000"):
        db.question(wide, together=together)
    assert len(set(looked)) == 11
