"""The cell of whatever is missing or was not declared: '(other)', where the schema allows one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from helpers import opened

import sulq

SCHEMA = {
    "trade": {"values": ["baker", "other"]},
    "shift": {"values": ["day", "night"], "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120, "nullable": False},
    "weight": {"type": "number", "low": 0, "high": 200},
}
ROWS = [("baker", "day", 5, 80.0), ("other", "day", 50, None), ("smith", "night", 120, 1.0)]
TABLE = pa.Table.from_pylist([dict(zip(SCHEMA, row, strict=True)) for row in ROWS])


@pytest.fixture
def db():
    return opened(TABLE, SCHEMA, name="people")


@pytest.mark.parametrize(
    "ask",
    [
        lambda db: db.histogram("trade"),
        lambda db: db.sql("select trade, count(*) as count from people group by trade"),
    ],
    ids=["histogram", "sql"],
)
def test_a_category_called_other_is_not_the_catch_all(db, ask):
    """A declared 'other' and what was not declared are two rows with two names, in frames too."""
    table = ask(db)
    wanted = {"baker": 1.0, "other": 1.0, "(other)": 1.0}
    assert dict(zip(table["trade"], table["count"], strict=True)) == wanted
    for names in (table.to_pandas()["trade"].tolist(), table.to_arrow()["trade"].to_pylist()):
        assert names == list(wanted)
    assert db.ask(sulq.Query(by="trade")).cells == ("baker", "other", None)


def test_the_name_of_the_catch_all_cannot_be_declared():
    """No label can be taken for it: not a declared value, not a text that a question makes."""
    with pytest.raises(sulq.SchemaError, match=r"'\(other\)' is the name of the cell for whatever"):
        opened(TABLE, SCHEMA | {"trade": {"values": ["baker", "(other)"]}})
    db = opened(TABLE, SCHEMA, name="people")
    with pytest.raises(sulq.QueryNotAllowed, match="give that text another name"):
        db.price(sulq.Query(by="case when trade = 'baker' then '(other)' end"))


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        ("trade", ["baker", "other", "(other)"]),
        ("shift", ["day", "night"]),
        ("upper(shift)", ["DAY", "NIGHT"]),
        ("shift = 'day'", ["false", "true"]),
        ("trade = 'baker'", ["false", "true", "(other)"]),
        ("case when age < 65 then 'young' when age >= 65 then 'old' end", ["old", "young"]),
        ("case when age < 65 then 'young' end", ["young", "(other)"]),
        (sulq.Bins("age", [0, 60, 120]), ["0 to 59", "60 to 120"]),
        (sulq.Bins("age", [0, 60, 119]), ["0 to 59", "60 to 119", "(other)"]),
        (sulq.Bins("weight", [0, 100, 200]), ["0 to 100", "100 to 200", "(other)"]),
        (sulq.Bins("coalesce(weight, 0)", [0, 100, 200]), ["0 to 100", "100 to 200"]),
    ],
    ids=str,
)
def test_the_catch_all_is_shown_where_the_schema_allows_one(by, shown):
    """Whether it is there depends on the declarations alone; `.cells` are as they always were."""
    for rows in (TABLE, TABLE.slice(0, 1), TABLE.slice(0, 0)):
        answer = opened(rows, SCHEMA).ask(sulq.Query(by=by))
        table = answer.table()
        assert table[table.by[0]] == shown
        assert len(answer.cells) == len(answer.values)
        assert set(answer.cells) - {None} == set(answer.cells[: len(shown) - ("(other)" in shown)])


def test_groups_of_several_keys_leave_out_what_cannot_be(db):
    """Every statement does, medians within groups included."""
    text = "select shift, trade, median(age) as middle from people group by shift, trade"
    found = {(row["shift"], row["trade"]) for row in db.sql(text)}
    assert found == {(s, t) for s in ("day", "night") for t in ("baker", "other", "(other)")}
    pairs = db.crosstab(["shift", "trade"])
    assert len(pairs) == 6
    assert pairs["count"] == [1.0, 1.0, 0.0, 0.0, 0.0, 1.0]


HALVES = {"half a character": "\\ud800", "the other half": "\\udfff", "NUL": "\\u0000"}


@pytest.mark.parametrize("letter", HALVES.values(), ids=HALVES)
def test_a_leaf_holds_no_text_that_an_engine_fails_at(letter):
    """A failed scan stops the table for everybody, so nobody can ask for one; nothing is paid."""
    schema = SCHEMA | {"name": {"type": "text"}}
    db = opened(TABLE.append_column("name", pa.array(["a", "b", "c"])), schema)
    tree = f'{{"column": "name", "branches": [["{letter}", null]], "other": null}}'
    with pytest.raises(sulq.QueryNotAllowed, match="NUL or half a character"):
        db.ask(sulq.Query(by=sulq.Leaf(tree)))
    assert db.frozen is None
    assert db.budget.spent == 0
    assert db.ask(sulq.Query(by=sulq.Leaf(tree.replace(letter, "a")))).values[0, 0] == 1.0
