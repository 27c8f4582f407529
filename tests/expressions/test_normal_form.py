"""One form for all predicates that are true of the same rows."""

import itertools

import pytest

from sulq.expressions.normal_form import _by_groups, _factored, _groups
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
