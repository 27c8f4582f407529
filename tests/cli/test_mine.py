"""sulq publish and sulq mine: price first, then the file, then questions to it without a ledger."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sulq
from sulq.cli import app

SCHEMA = """
[columns.id]
key = true
[columns.smoker]
type = "boolean"
nullable = false
[columns.disease]
type = "boolean"
nullable = false
[columns.age]
type = "integer"
low = 0
high = 99
nullable = false
"""
CONFIG = """
source = "people.parquet"
schema = "people.toml"
epsilon = 5.0
queries = 20
"""


def run(*words, **options):
    return CliRunner().invoke(app, list(words), env={"NO_COLOR": "1", "COLUMNS": "100"}, **options)


@pytest.fixture
def place(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(2000), "smoker": rng.random(2000) < 0.3,
               "disease": rng.random(2000) < 0.2, "age": rng.integers(0, 99, 2000)}  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "sulq.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ("smoker", "disease", "old: age >= 65")


def test_publish_then_mine(place):
    """The price is said first and kept; the file answers where there is neither data nor ledger."""
    said = run("publish", *WORDS, "--price", "--json")
    assert json.loads(said.output)["price_micro"] == 6_000_000
    made = run("publish", *WORDS, "--out", "f.parquet", "--yes", "--json")
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["price_micro"] == 6_000_000
    assert "6 of 20 queries spent" in run("budget").output
    for name in ("people.parquet", "people.toml", "sulq.toml"):
        (place / name).unlink()
    shown = run("mine", "f.parquet")
    assert "smoker, disease, old" in shown.output
    asked = run("mine", "f.parquet", "smoker and not old", "disease", "--json")
    body = json.loads(asked.output)
    assert 0 <= body["smoker and not old"]["value"] <= 1
    assert body["disease"]["tables"] == [["smoker", "disease"], ["disease", "old"]]
    assert "from 1 tables: (smoker disease)" in run("mine", "f.parquet", "smoker = disease").output


def test_nothing_is_paid_without_a_yes(place):
    """A publication is paid only after someone agreed to its price."""
    assert run("publish", *WORDS, "--out", "f.parquet", input="n\n").exit_code == 1
    assert run("publish", *WORDS, "--out", "f.parquet", "--json").exit_code == 2
    assert run("publish", *WORDS).exit_code == 2
    assert run("publish", *WORDS, "--out", "no/where.parquet", "--yes").exit_code == 2
    assert run("publish", "smoker", "smoker", "--width", "1", "--price").exit_code == 2
    assert not (place / "f.parquet").exists()
    with sulq.open("people.parquet", "people.toml", epsilon=5.0, queries=20) as db:
        assert db.budget.spent == 0
    assert run("publish", *WORDS, "--out", "f.parquet", input="y\n").exit_code == 0


def test_what_cannot_be_mined_is_said(place):
    """An unknown item, a file that is no publication and a missing file are refused."""
    assert run("publish", *WORDS, "--out", "f.parquet", "--yes").exit_code == 0
    for words in (("f.parquet", "nothing"), ("people.parquet",), ("missing.parquet",)):
        said = run("mine", *words)
        assert said.exit_code == 2
        assert "Refused" in said.output or "QueryNotAllowed" in said.output
