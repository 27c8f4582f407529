"""What one estimate may take."""

import pytest
from helpers import opened

import sulq
from sulq import estimator

SCHEMA = {
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "sick": {"type": "boolean", "nullable": False},
}
ROWS = {"age": [30, 40, 50] * 20, "sick": [True, False, False] * 20}


@pytest.fixture
def db():
    pd = pytest.importorskip("pandas")
    return opened(pd.DataFrame(ROWS), SCHEMA)


def test_an_estimate_of_too_many_queries_is_refused(db, monkeypatch):
    """The refusal says how many there may be, and nothing is charged."""
    monkeypatch.setattr(estimator, "MAX_PARTS", 3)
    db.count("sick")
    few = [sulq.Query(where=f"sick and age > {k}") for k in (-1, -2, -3)]
    assert len(db.estimate(few)) == 3
    with pytest.raises(sulq.NotKnown, match="It is 4 queries; estimate at most 3 at once"):
        db.estimate([*few, sulq.Query(where="sick and age > -4")])
    assert db.budget.spent == 1


def test_an_estimate_looks_at_the_newest_answers(db, monkeypatch):
    """More queries at once look at fewer stored answers each."""
    db.count("sick")
    db.count("age > 35")
    monkeypatch.setattr(estimator, "MAX_PAIRS", 1)
    assert db.estimate(sulq.Query(where="not (age <= 35)")).value == pytest.approx(40)
    with pytest.raises(sulq.NotKnown):
        db.estimate(sulq.Query(where="not sick"))
