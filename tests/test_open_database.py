"""Opening a table: what may be left out, and what is said beside it."""

from __future__ import annotations

import warnings

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sulq
from sulq.sources.draft import draft

SCHEMA = {"a": {"type": "integer", "low": 0, "high": 3}}
TABLE = pa.table({"a": [0, 1, 2, 3] * 50})


@pytest.fixture
def path(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_a_ledger_knows_its_promise(path):
    """Left out on reopening, the promise is the ledger's; what is said must agree with it."""
    terms = {"epsilon": 2.0, "delta": 1e-5, "queries": 50, "guarantee": "dp", "pricing": "paper"}
    with sulq.open(path, SCHEMA, **terms) as db:
        first, answer = db.promise, db.count("a > 1")
    with sulq.open(path, SCHEMA) as db:
        assert db.promise == first
        assert db.pricing == "paper"
        assert db.count("a > 1").value == answer.value
        assert db.budget.spent == 1
    with sulq.open(path, SCHEMA, queries=50) as db:
        assert db.promise == first
    for wrong in ({"queries": 51}, {"epsilon": 3.0}, {"delta": 1e-7}, terms | {"delta": 1e-6}):
        with pytest.raises(sulq.PromiseError, match="but the ledger has"):
            sulq.open(path, SCHEMA, **wrong)


def test_a_new_table_needs_a_promise(path):
    """Nothing is guessed where no ledger has begun."""
    for said in ({}, {"epsilon": 1.0}, {"queries": 10}, {"ledger": ":memory:"}):
        with pytest.raises(sulq.PromiseError, match="state the promise"):
            sulq.open(path, SCHEMA, **said)
    assert not path.with_name("rows.parquet.ledger").exists()


def test_only_a_ledger_in_memory_by_default_warns():
    """A frame without ledger= is warned about; an explicit ':memory:' is not."""
    with pytest.warns(UserWarning, match="the ledger is in memory") as said:
        sulq.open(TABLE, SCHEMA, epsilon=1.0, queries=10).close()
    assert said[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sulq.open(TABLE, SCHEMA, epsilon=1.0, queries=10, ledger=":memory:").close()


def test_a_delta_above_one_row_in_n_warns():
    """n is public, so the warning may name it; below 1/n there is none."""
    terms = {"epsilon": 1.0, "queries": 10, "ledger": ":memory:"}
    with pytest.warns(UserWarning, match=r"delta=0.01 is above 1/n = 0.005 for 200 rows"):
        sulq.open(TABLE, SCHEMA, delta=0.01, **terms).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sulq.open(TABLE, SCHEMA, delta=0.004, **terms).close()


def test_a_folder_that_cannot_be_written_says_how(path, monkeypatch):
    """The refusal names ledger=."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sulq.ledger.seal.Path.mkdir", refuse)
    with pytest.raises(sulq.Refused, match="Permission denied") as refused:
        sulq.open(path, SCHEMA, epsilon=1.0, queries=10)
    assert "Keep the ledger in a folder that can be written: ledger=" in str(refused.value)


@pytest.mark.parametrize("most", [-3, 11, "-3"])
def test_an_allotment_is_refused_in_queries(most):
    """No micro-queries in what an owner reads."""
    with sulq.open(TABLE, SCHEMA, epsilon=1.0, queries=10, ledger=":memory:") as db:
        with pytest.raises(sulq.Refused) as refused:
            db.allot("bob", most)
        assert "micro" not in str(refused.value)
        assert "0 " in str(refused.value)
        assert not db.allotments()


def test_a_draft_of_a_csv_writes_each_line_once(tmp_path):
    """One line for the type of each column."""
    (tmp_path / "rows.csv").write_text("id,age\n1,2\n")
    blocks = draft(tmp_path / "rows.csv").split("[columns.")[1:]
    assert len(blocks) == 2
    for block in blocks:
        lines = block.strip().splitlines()
        assert sum("type =" in line for line in lines) == 1
        assert len(set(lines)) == len(lines)


def test_a_draft_of_a_csv_names_columns_as_a_question_does(tmp_path):
    """A column without a name has the one that it is read by; two of one name are refused."""
    path = tmp_path / "rows.csv"
    path.write_text("id,,age\n1,2,3\n")
    assert "[columns.column1]" in draft(path)
    path.write_text("id,ID\n1,2\n")
    with pytest.raises(sulq.SchemaError, match="two columns are named 'ID'"):
        draft(path)
