"""The values that an expression can have, from declarations alone."""

import datetime

import numpy as np
import pytest

from sulq.expressions.domains import reachable
from sulq.expressions.operations import Evaluator
from sulq.expressions.parse import parse
from sulq.values.schema import Schema

SCHEMA = Schema.load({
    "born": {"type": "date", "low": "1926-01-01", "high": "2015-12-31", "nullable": False},
    "seen": {"type": "date", "low": "2016-01-01", "high": "2025-12-31", "nullable": False},
    "age": {"type": "integer", "low": 0, "high": 120},
    "weight": {"type": "integer", "low": 0, "high": 100_000, "nullable": False},
    "sick": {"type": "boolean", "nullable": False},
})  # fmt: skip


def test_bands_of_a_difference_of_years_are_those_that_can_occur():
    """Ages in bands of ten: eleven groups, not one for each of the numbers between the ends."""
    found = reachable(parse("floor((year(seen) - year(born)) / 10) * 10", SCHEMA), SCHEMA)
    assert found == tuple(range(0, 100, 10))


def test_too_many_values_are_nothing_to_list():
    """A difference of days has tens of thousands, and two such have too many combinations."""
    assert reachable(parse("(seen - born) * weight", SCHEMA), SCHEMA) is None


EXPRESSIONS = [
    "floor((year(seen) - year(born)) / 10) * 10",
    "month(seen) + 12 * (year(seen) - 2016)",
    "least(year(seen) - year(born), coalesce(age, -1))",
    "case when sick then year(born) % 7 else floor(age / 13) end",
    "abs(year(born) - year(seen)) % 10 - coalesce(age % 3, 5)",
    "date_trunc('year', born)",
    "case when year(seen) = year(born) + 1 then null else month(born) end",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_no_value_that_occurs_is_left_out(text):
    """Of 20,000 random rows each value is listed, and a missing one only where None is."""
    node, rng, rows = parse(text, SCHEMA), np.random.default_rng(3), 20_000
    epoch = datetime.date(1970, 1, 1)

    def days(name):
        ends = (SCHEMA[name].low - epoch).days, (SCHEMA[name].high - epoch).days
        return rng.integers(ends[0], ends[1] + 1, rows).astype("datetime64[D]")

    raw = {
        "born": days("born"), "seen": days("seen"), "age": rng.integers(0, 121, rows),
        "weight": rng.integers(0, 100_001, rows), "sick": rng.random(rows) < 0.5,
    }  # fmt: skip
    known = reachable(node, SCHEMA)
    assert known is not None
    from sulq.expressions.columns import Vector

    def vector(data):
        plain = data.astype("int64") if data.dtype.kind == "M" else data
        return Vector(plain, np.ones(rows, dtype=bool))

    found = Evaluator({n: vector(d) for n, d in raw.items()}, rows, SCHEMA).evaluate(node)
    values = set(found.data[found.valid].tolist())
    if node.type == "date":
        values = {epoch + datetime.timedelta(v) for v in values}
    assert values <= set(known)
    assert found.valid.all() or None in known
