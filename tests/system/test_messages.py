"""What people are told who mistype a question: tests/fixtures/messages.sql, through every door."""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import ENGINES, opened, sums
from typer.testing import CliRunner

import sulq
from sulq.cli import app

FIXTURE = Path(__file__).parents[1] / "fixtures" / "messages.sql"
SCHEMA = {
    "id": {"type": "integer", "key": True},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "region": {"values": ["north", "south"], "public": True},
    "income": {"type": "number", "low": 0, "high": 100_000, "nullable": False},
    "smoker": {"type": "boolean"},
    "union": {"type": "boolean"},
}
TABLE = pa.table(
    {
        "id": [1, 2, 3, 4],
        "age": [20, 40, 70, 90],
        "region": ["north", "south", "north", "north"],
        "income": [50_000.0, 10.0, 20.0, 99_999.0],
        "smoker": [True, False, True, None],
        "union": [True, True, False, False],
    }
)
INTERNAL = re.compile(
    r"micro|bitwise|anonymous|sqlglot|duckdb|arrow|\b(lt|le|eq|ne|to_number|to_integer)\b|\x1b",
    re.I,
)


def cases():
    text = "".join(
        line
        for line in FIXTURE.read_text(encoding="utf-8").splitlines(keepends=True)
        if not line.startswith("--") or line.startswith(("-- says: ", "-- price: "))
    )
    found = re.findall(r"\s*(.+?);\n-- (says|price): (.*)\n", text)
    assert len(found) == text.count("-- says: ") + text.count("-- price: ") > 35
    return found


@pytest.fixture(scope="module")
def db():
    return opened(TABLE, SCHEMA, name="people")


def question(text):
    statement = re.match(r"(sel|explain)", text)
    return text if statement else sulq.Query(where=text)


@pytest.mark.parametrize(("text", "kind", "said"), cases())
def test_the_library_says_how_to_mend_it(db, caplog, text, kind, said):
    """The whole message, without internal names; nothing is charged and nothing is logged."""
    with caplog.at_level(logging.DEBUG):
        if kind == "price":
            assert float(db.price(question(text)).queries) == float(said)
        else:
            with pytest.raises(sulq.QueryNotAllowed) as refused:
                db.price(question(text))
            assert str(refused.value) == said
            assert not INTERNAL.search(said)
    assert not caplog.records
    assert db.budget.spent == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("typed")
    pq.write_table(TABLE, place / "people.parquet")
    lines = []
    for name, spec in SCHEMA.items():
        lines += [f"[columns.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in spec.items())]
    (place / "people.toml").write_text("\n".join(lines))
    (place / "sulq.toml").write_text(
        'source = "people.parquet"\nschema = "people.toml"\nepsilon = 1.0\nqueries = 100\n'
    )
    return place


def test_the_command_line_says_the_same(folder, monkeypatch):
    """`sulq sql` and `sulq count` refuse in the same words, with exit code 2."""
    monkeypatch.chdir(folder)
    for text, kind, said in cases():
        if kind == "says":
            command = ["sql", text] if isinstance(question(text), str) else ["count", text]
            done = CliRunner().invoke(app, [*command, "--json"])
            assert done.exit_code == 2, (text, done.output)
            error = json.loads(done.stdout)["error"]
            assert (error["message"], error["charged"]) == (said, False)


@pytest.mark.parametrize("name", ENGINES)
def test_a_case_of_texts_is_a_partition_on_every_engine(name):
    """Its labels come from the statement, a missing ELSE is '(other)', and every engine agrees."""
    level = "case when income > 40000 then 'high' when age > 65 then 'old' end"
    both = sulq.Query(by=level), sulq.Query(by=f"case when {level} = 'old' then 'o' else 'x' end")
    engine = ENGINES[name](TABLE, SCHEMA)
    assert sums(engine, *both) == [[[2], [1], [1]], [[1], [3]]]
    db = opened(TABLE, SCHEMA, name="people")
    table = db.sql(f"select {level} as level, count(*) as n from people group by level")
    assert dict(zip(table["level"], table["n"], strict=True)) == {"high": 2, "old": 1, "(other)": 1}


def test_top_is_limit():
    """SELECT TOP 1 gives the first group, and TOP beside LIMIT is refused."""
    db = opened(TABLE, SCHEMA, name="people")
    text = "region, count(*) as n from people where age > 30 group by region order by n desc"
    assert db.sql(f"select top 1 {text}")["region"] == ["north"]
    assert db.sql(f"select {text} limit 1")["region"] == ["north"]
    assert len(db.history()) == 1  # one question
    with pytest.raises(sulq.QueryNotAllowed, match="TOP wants a whole number, and no LIMIT"):
        db.price(f"select top 1 {text} limit 2")


def test_a_predicate_is_not_a_question_yet(db):
    """db.price('smoker') says which question it may have meant."""
    with pytest.raises(sulq.QueryNotAllowed) as refused:
        db.price("smoker")
    assert "db.price(sulq.Query(where='smoker'))" in str(refused.value)
    assert "select count(*) from people where smoker" in str(refused.value)
