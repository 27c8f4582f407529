"""`sulq encode`, as an owner types it."""

from __future__ import annotations

import json
import stat

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sulq
from sulq.cli import app

SCHEMA = """\
[columns.age]
type = "integer"
low = 0
high = 120
nullable = false
[columns.region]
values = ["north", "south"]
public = true
"""
SETTINGS = """\
source = "people.parquet"
schema = "people.toml"
epsilon = 1.0
queries = 100
"""
PROMISE = {"epsilon": 1.0, "queries": 100}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with people.parquet, its schema and a sulq.toml; the tests run in it."""
    table = pa.table({"age": [i % 90 for i in range(300)], "region": ["north", "south", "x"] * 100})
    pq.write_table(table, tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "sulq.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_encode_writes_a_store_with_the_ledger_of_its_rows(folder):
    """Schema and ledger come from sulq.toml; spending goes on in the store, and back."""
    run("count", "age > 40")
    said = run("encode", "people.parquet", "people.sulq").stdout
    assert said.startswith("Written: people.sulq.")
    assert stat.S_IMODE((folder / "people.sulq").stat().st_mode) == 0o600
    with sulq.open("people.sulq", **PROMISE) as store:
        assert store.budget.spent == 1
        assert store.rows == 300
        store.count("age > 50")
    assert "2 of 100 queries spent" in run("budget").stdout


def test_a_store_as_the_source_of_a_sulq_toml(folder):
    """Commands then ask the store, and find the ledger that it names."""
    run("count", "age > 40")
    run("encode", "people.parquet", "people.sulq")
    text = SETTINGS.replace('"people.parquet"', '"people.sulq"').replace(
        'schema = "people.toml"', ""
    )
    (folder / "sulq.toml").write_text(text)
    run("count", "age > 40")  # stored, free
    assert "1 of 100 queries spent" in run("budget").stdout
    run("sql", "select region, sum(age) from people group by region")
    assert "2 of 100 queries spent" in run("budget").stdout
    assert len(json.loads(run("history", "--json").stdout)["charges"]) == 2
    assert not (folder / "people.sulq.ledger").exists()


def test_encode_without_a_sulq_toml(folder):
    """--schema and --ledger say the same; as JSON too."""
    (folder / "sulq.toml").unlink()
    assert "schema: declare the columns" in run("encode", "people.parquet", "a.sulq", code=2).stderr
    said = run(
        "encode", "people.parquet", "a.sulq", "--schema", "people.toml", "--ledger", "own.ledger",
        "--json",
    ).stdout  # fmt: skip
    body = json.loads(said)
    assert body["store"] == "a.sulq"
    assert body["bytes"] == (folder / "a.sulq").stat().st_size
    with sulq.open("a.sulq", **PROMISE) as store:
        store.count("age > 3")
    assert (folder / "own.ledger").exists()


def test_encode_overwrites_nothing(folder):
    """A name that is taken, or that is no store's, is refused with exit code 2."""
    run("encode", "people.parquet", "people.sulq")
    assert "exists" in run("encode", "people.parquet", "people.sulq", code=2).stderr
    assert "ends in .sulq" in run("encode", "people.parquet", "people.db", code=2).stderr
    assert "does not exist" in run("encode", "nobody.parquet", "x.sulq", code=2).stderr
    assert "does not exist" in run("encode", "people.parquet", "no/x.sulq", code=2).stderr
