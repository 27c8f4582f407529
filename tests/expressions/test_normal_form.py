"""One form for all predicates that are true of the same rows."""

import itertools

import pytest

from sulq.expressions.normal_form import _between, _by_groups, _factored, _groups, _table, plain
from sulq.expressions.parse import predicate
from sulq.values.schema import Schema

SCHEMA = Schema.load(
    {
        "age": {"type": "integer", "low": 0, "high": 120},
        "smoker": {"type": "boolean"},
        "well": {"type": "boolean", "nullable": False},
        "income": {"type": "number", "low": 0, "high": 1000},
        "region": {"values": ["north", "south", "east"], "public": True},
    }
)
TERMS = (
    "age > 40", "(age < 20 or age > 60)", "smoker", "well", "income between 10 and 20",
    "region <> 'north'", "(smoker or well)", "age is null", "age > 200", "income >= 0",
    "(region = 'east' or age < 10)",
)  # fmt: skip


@pytest.mark.parametrize("terms", [*itertools.combinations(TERMS, 3)], ids=" and ".join)
def test_groups_of_terms_say_what_the_whole_table_says(terms):
    """A conjunction taken apart by its columns has the parts that its whole truth table has."""
    node = predicate(" and ".join(terms), SCHEMA)
    groups = _groups(node.args)
    if len(groups) == 1:
        return
    apart, whole = _by_groups(groups, SCHEMA), _factored(node, SCHEMA)
    assert apart is not None
    assert whole is not None
    assert {p.node.text for p in apart.parts} == {p.node.text for p in whole.parts}


COLUMNS = {
    "bounded": {"type": "integer", "low": -3, "high": 4},
    "whole": {"type": "integer", "low": 0, "high": 5, "nullable": False},
    "endless": {"type": "integer"},
    "share": {"type": "number", "low": -3, "high": 4},
    "sure": {"type": "number", "low": 0, "high": 4.5, "nullable": False},
    "real": {"type": "number"},
}
ENDS = ("{0} > {1}", "{0} >= {1}", "{1} > {0}", "{1} >= {0}")


@pytest.mark.parametrize("name", COLUMNS)
def test_what_lies_between_constants_is_what_its_table_says(name):
    """Every pair of comparisons with constants inside, at and beyond the ends of a column."""
    schema = Schema.load({name: COLUMNS[name]})
    more = (-3.5, 0.5) if COLUMNS[name]["type"] == "number" else (1, 5)
    some = [end.format(name, c) for end in ENDS for c in (-9, -3, -2, 0, 4, 9, *more)]
    for pair in itertools.combinations_with_replacement(some, 2):
        node = predicate(" and ".join(pair), schema)
        quick, whole = _between(node, schema), _table(plain(node), schema)
        assert quick is not None
        assert whole is not None
        assert quick[0] == whole[0], pair
        assert quick[1].lines == whole[1].lines, pair
        assert quick[1].table.tolist() == whole[1].table.tolist(), pair


@pytest.mark.parametrize(
    "text", ["age = 3", "age > 2.5", "age > 3 or age < 1", "not age > 3", "income = 3",
             "age > 3 and smoker", "sort > 1", "age > 1 and sort > 1"],
)  # fmt: skip
def test_nothing_else_is_between_constants(text):
    """Other columns, constants and formulas have a table."""
    more = {"age": {"type": "integer"}, "smoker": {"type": "boolean"}, "income": {"type": "number"},
            "sort": {"values": [1, 2, 3]}}  # fmt: skip
    schema = Schema.load(more)
    assert _between(predicate(text, schema), schema) is None
