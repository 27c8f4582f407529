"""The assignment of rows to cells and persons: every attribute that decides is in its digest."""

from collections import Counter
from dataclasses import fields, is_dataclass, replace

import pytest

from sulq.errors import SchemaError
from sulq.ledger.claims import check_people
from sulq.values.assignment import NOT_OF_PERSONS, Assignment
from sulq.values.schema import Column, Schema

WORTH = {"type": "integer", "low": 0, "high": 9}
REGION = {"values": ["north", "south"], "public": True}
MONTH = {"values": ["jan", "feb"], "public": True}
PERSON = {"type": "text"}
WORLDS = {
    "shards": {
        "columns": {
            "id": {"key": True, "type": "integer", "shards": 4}, "region": REGION, "worth": WORTH
        },
        "lookups": {"areas": {"on": "region", "rows": [{"region": "north", "flat": True}]}},
    },
    "people": {
        "columns": {"id": {"key": True}, "person": PERSON, "month": MONTH, "worth": WORTH},
        "unit": {"column": "person", "max_rows": 1, "max_periods": 2},
        "period": {"column": "month"},
        "file": {"delimiter": ";"},
    },
    "tables": {
        "unit": {"column": "person"} | PERSON,
        "tables": {
            "people": {"columns": {"old": {"type": "boolean"}}},
            "visits": {"max_rows": 2, "columns": {"id": {"key": True}, "worth": WORTH}},
        },
    },
}  # fmt: skip


def attributes(value, path=()):
    """Every attribute of the declarations in a schema, as the way to it."""
    if is_dataclass(value):
        for field in fields(value):
            if field.compare:
                yield (*path, field.name)
                yield from attributes(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for i, each in enumerate(value):
            yield from attributes(each, (*path, i))


def other(value):
    """Something else of the same kind."""
    if is_dataclass(value):
        return None
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, tuple) and value:
        return value[:-1]
    return value + type(value)(1) if isinstance(value, int | float) else f"{value}2"


def changed(value, path):
    """The declaration with something else there."""
    if not path:
        return other(value)
    if isinstance(path[0], int):
        inner = changed(value[path[0]], path[1:])
        return (*value[: path[0]], inner, *value[path[0] + 1 :])
    return replace(value, **{path[0]: changed(getattr(value, path[0]), path[1:])})


@pytest.mark.parametrize("world", WORLDS)
def test_every_attribute_of_what_decides_is_in_the_digest(world, monkeypatch):
    """Walked over the dataclasses: no attribute is left out, but for those of private columns."""
    monkeypatch.setattr(Schema, "__post_init__", lambda self: None)  # also what nobody could write
    schema = Schema.load(WORLDS[world])
    known, walked = Assignment.of(schema), Counter()
    for path in attributes(schema):
        if path == ("columns",) or (path[0] == "columns" and schema.star):
            continue  # the columns of several tables are those of the star
        if len(path) == 1 and getattr(schema, path[0]) in (None, ()):
            continue  # walked in another world
        try:
            digest = Assignment.of(changed(schema, path)).digest
        except (KeyError, TypeError):
            continue  # no schema at all
        walked[path[-1]] += 1
        private = path[0] == "columns" and schema.columns[path[1]] not in known.columns
        assert (digest == known.digest) == (private and path[-1] != "key"), path
    assert {f.name for f in fields(Column)} <= set(walked)


@pytest.mark.parametrize("world", WORLDS)
def test_the_digest_is_the_same_when_a_schema_is_read_back(world):
    """A ledger keeps declarations with their names sorted."""
    schema = Schema.load(WORLDS[world])

    def by_name(value):
        if isinstance(value, dict):
            return {name: by_name(value[name]) for name in sorted(value)}
        return value

    back = Schema.load(by_name(schema.to_json()))
    back = back.in_order([c.name for c in schema.cell_columns if c is not schema.shards])
    assert Assignment.of(back).digest == Assignment.of(schema).digest


@pytest.mark.parametrize("field", [f.name for f in fields(Column) if f.name not in NOT_OF_PERSONS])
def test_how_a_person_is_read_never_changes(field, monkeypatch):
    """Each attribute by which a stored value becomes a person, of one table and of several."""
    monkeypatch.setattr(Schema, "__post_init__", lambda self: None)
    for schema in (Schema.load(WORLDS[world]) for world in ("people", "tables")):
        place = [c.name for c in schema.columns].index("person")
        with pytest.raises(SchemaError, match=f"'person' is read as {field}="):
            check_people(schema, changed(schema, ("columns", place, field)))


def test_the_range_of_a_person_may_grow():
    """New people may have larger numbers; who the others are does not change."""

    def people(**more):
        spec = {"type": "integer", "low": 0} | more
        return Schema.load(
            {"columns": {"person": spec}, "unit": {"column": "person", "max_rows": 1}}
        )

    check_people(people(high=9), people(high=99))
    with pytest.raises(SchemaError, match="thousands=','"):
        check_people(people(high=9), people(high=9, thousands=","))
