"""Every way a schema can be wrong: the message names the line, the problem and the fix."""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest
from helpers import duckdb_engine

from sulq import Schema, SchemaError

GOOD = """
[columns.id]
key = true

[columns.age]
type = "integer"
low = 0
high = 120
bins = [0, 18, 65, 120]

[columns.region]
values = ["north", "south"]
public = true

[columns.smoker]
type = "boolean"
nullable = false

[columns.born]
type = "date"
low = 1900-01-01
high = 2020-12-31

[columns."a b"]
type = "number"
low = -1
high = 1.5
"""

# What follows the line [columns.x], the line in the file to be named, words of the message.
BAD = [
    ("", 3, "type is missing", "Give one of"),
    ("low = 0", 3, "type is missing", "Give one of"),
    ('type = "float"', 4, "type = 'float'", "want one of integer"),
    ("type = 3", 4, "type = 3", "want one of"),
    ('type = "integer"\nlow = 0', 3, "high is missing", "both ends"),
    ('type = "integer"\nhigh = 0', 3, "low is missing", "both ends"),
    ('type = "integer"\nlow = 5\nhigh = 5', 5, "low = 5 is not below high = 5", ""),
    ('type = "integer"\nlow = 9\nhigh = 5', 5, "low = 9 is not below high = 5", ""),
    ('type = "integer"\nlow = 0.5\nhigh = 5', 5, "low = 0.5", "whole number"),
    ('type = "integer"\nlow = 0\nhigh = 9007199254740993', 6, "high =", "2**53"),
    ('type = "integer"\nlow = "0"\nhigh = 5', 5, "low = '0'", "want a number"),
    ('type = "integer"\nlow = true\nhigh = 5', 5, "low = True", "want a number"),
    ('type = "number"\nlow = nan\nhigh = 5', 5, "low = nan", "finite"),
    ('type = "number"\nlow = 0\nhigh = inf', 6, "high = inf", "finite"),
    ('type = "number"\nlow = 0\nhigh = 1e301', 6, "high = 1e+301", "finite"),
    ('type = "date"\nlow = "yesterday"\nhigh = 2020-01-01', 5, "low = 'yesterday'", "2020-01-31"),
    ('type = "date"\nlow = 3\nhigh = 2020-01-01', 5, "low = 3", "2020-01-31"),
    ('type = "boolean"\nlow = 0\nhigh = 1', 5, "low does not apply", "'boolean'"),
    ('type = "text"\nhigh = 1', 5, "high does not apply", "'text'"),
    ('type = "category"', 3, "values is missing", "List the categories"),
    ('type = "integer"\nvalues = [1, 2]', 5, "values belong to a category", "'integer'"),
    ("values = []", 4, "values = []", "at least one"),
    ('values = "north"', 4, "values = 'north'", "want a list"),
    ('values = ["a", 1]', 4, "all be strings or all be integers", ""),
    ("values = [1.5]", 4, "all be strings or all be integers", ""),
    ("values = [true, false]", 4, "all be strings or all be integers", ""),
    ('values = ["a", "b", "a"]', 4, "listed twice: a", ""),
    ("values = [9007199254740993]", 4, "within +-2**53", ""),
    (
        f"values = {json.dumps([str(i) for i in range(10_001)])}",
        4,
        "10,001 values",
        "at most 10,000",
    ),
    ('type = "boolean"\npublic = "yes"', 5, "public = 'yes'", "true or false"),
    ('type = "boolean"\nkey = 1', 5, "key = 1", "true or false"),
    ('type = "boolean"\nnullable = "no"', 5, "nullable = 'no'", "true or false"),
    ('type = "date"\nkey = true', 4, "a key is integer or text", "not date"),
    ('type = "boolean"\nlowest = 3', 5, "'lowest' is not a setting", "Known: type, low"),
    ('type = "boolean"\nbins = [0, 1]', 5, "bins do not apply", "'boolean'"),
    ('type = "number"\nbins = [1]', 5, "bins = [1]", "at least two edges"),
    ('type = "number"\nbins = "0 1"', 5, "bins = '0 1'", "a list"),
    ('type = "number"\nbins = [0, 0]', 5, "bins must rise", ""),
    ('type = "number"\nlow = 0\nhigh = 1\nbins = [5, 6]', 7, "bins lie outside", "low = 0"),
    ('type = "number"\nbins = [0, "x"]', 5, "bins = 'x'", "want a number"),
]


@pytest.mark.parametrize(("body", "line", "problem", "fix"), BAD, ids=lambda x: str(x)[:40])
def test_a_bad_declaration_names_its_line_and_fix(tmp_path, body, line, problem, fix):
    """File, line, column, what is wrong, what is allowed."""
    path = tmp_path / "people.toml"
    path.write_text(f"# a comment\n\n[columns.x]\n{body}\n\n[columns.other]\ntype = 'text'\n")
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    message = str(caught.value)
    assert message.startswith(f"people.toml, line {line}: column 'x': ")
    assert problem in message
    assert fix in message


@pytest.mark.parametrize(("body", "line", "problem", "fix"), BAD, ids=lambda x: str(x)[:40])
def test_the_same_in_a_dict_has_no_line(body, line, problem, fix):
    """A dict has no lines: the column is named."""
    import tomllib

    with pytest.raises(SchemaError) as caught:
        Schema.load({"columns": {"x": tomllib.loads(body)}})
    assert str(caught.value).startswith("column 'x': ")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        '[columns]\nx = { type = "float" }',
        'columns.x = { type = "float" }',
        '[columns."x"]\ntype = "float"',
        "[columns]\n'x' = { type = 'float' }",
        "[ columns . x ]\n type = 'float'",
        "columns.x.type = 'float'",
    ],
)
def test_every_way_to_write_a_table_has_a_line(tmp_path, text):
    """Inline tables and quoted names are found too."""
    path = tmp_path / "s.toml"
    path.write_text("# first\n" + text)
    with pytest.raises(SchemaError, match=r"^s\.toml, line [23]: column 'x': type = 'float'"):
        Schema.load(path)


WHOLE = [
    ("", "no columns", "[columns.NAME]"),
    ("title = 'x'", "no columns", "[columns.NAME]"),
    ("columns = 3", "no columns", "[columns.NAME]"),
    ("[columns]\nx = 3", "s.toml, line 2: column 'x': got 3", "want a table"),
    (
        "[columns.x]\ntype = 'text'\n[columns.X]\ntype = 'text'",
        "line 3: columns 'x' and 'X' differ only in case",
        "Rename",
    ),
    (
        "[columns.a]\nkey = true\n[columns.b]\nkey = true",
        "line 4: columns a, b are all keys",
        "declare one",
    ),
    ("[columns.'']\ntype = 'text'", "line 1: column name '' is empty", ""),
    (f"[columns.{'x' * 201}]\ntype = 'text'", "longer than 200", ""),
    ("[columns.\"a\\nb\"]\ntype = 'text'", "unprintable", ""),
    ("[columns.x]\ntype = \n[columns.y]", "not valid TOML", "line 2"),
    ("[columns.x]\ntype = 'text'\n[columns.x]\ntype = 'text'", "not valid TOML", "line 3"),
    (
        "\n".join(f"[columns.c{i}]\npublic = true\nvalues = {list(range(30))}" for i in range(3)),
        "29,791 ledger cells",
        "at most 10,000",
    ),
]


@pytest.mark.parametrize(("text", "problem", "fix"), WHOLE, ids=lambda x: x[:30])
def test_a_schema_that_does_not_fit_together(tmp_path, text, problem, fix):
    """What concerns several columns, or the file, says so."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(SchemaError) as caught:
        Schema.load(path)
    assert problem in str(caught.value)
    assert fix in str(caught.value)


@pytest.mark.parametrize("source", ["missing.toml", 5, None, ["age"], b"x"])
def test_what_is_no_schema_says_what_is(source):
    """A missing file or another type: a TOML path, a dict or a Schema."""
    with pytest.raises(SchemaError, match=r"TOML path, a dict or a sulq\.Schema"):
        Schema.load(source)


def test_a_folder_and_bytes_are_no_schema(tmp_path):
    """Neither a folder nor a file that is not text."""
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path, tmp_path / "bytes.toml"):
        with pytest.raises(SchemaError, match="cannot be read"):
            Schema.load(path)


def test_a_good_schema_is_read_whole(tmp_path):
    """Types, bounds, dates, categories, keys, bins, names with spaces."""
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    schema = Schema.load(path)
    assert schema.names == ["id", "age", "region", "smoker", "born", "a b"]
    assert schema.key.name == "id"
    assert schema.key.public
    assert (schema["age"].low, schema["age"].high, schema["age"].bins) == (0, 120, (0, 18, 65, 120))
    assert schema["born"].high == datetime.date(2020, 12, 31)
    assert schema["region"].listed == ("north", "south")
    assert not schema["smoker"].nullable
    assert schema.cells == (("north",), ("south",), (None,))


def test_a_schema_survives_json(tmp_path):
    """to_json and back is the same declaration, with the same digest."""
    path = tmp_path / "s.toml"
    path.write_text(GOOD)
    schema = Schema.load(path)
    again = Schema.load(json.loads(json.dumps(schema.to_json())))
    assert again == schema
    assert again.digest == schema.digest
    other = schema.to_json()
    other["columns"]["age"]["high"] = 121
    assert Schema.load(other).digest != schema.digest


def test_names_are_found_as_sql_finds_them():
    """Unquoted names in any case; quoted ones exactly."""
    schema = Schema.load({"Age": {"type": "boolean"}})
    assert schema.get("aGE").name == "Age"
    assert schema.get("age", quoted=True) is None
    assert schema.get("other") is None
    assert schema.get(5) is None


STORED = [
    ({"type": "integer"}, pa.string(), "declared integer", "VARCHAR"),
    ({"type": "number"}, pa.bool_(), "declared number", "BOOLEAN"),
    ({"type": "boolean"}, pa.string(), "declared boolean", "VARCHAR"),
    ({"type": "date"}, pa.string(), "declared date", "VARCHAR"),
    ({"type": "text"}, pa.int64(), "declared text", "BIGINT"),
    ({"values": ["a"]}, pa.int64(), "declared category", "BIGINT"),
    ({"values": [1]}, pa.string(), "declared category", "VARCHAR"),
    ({"type": "integer"}, pa.list_(pa.int64()), "declared integer", "BIGINT[]"),
    ({"type": "number"}, pa.binary(), "declared number", "BLOB"),
]


@pytest.mark.parametrize(("declared", "stored", "problem", "kind"), STORED, ids=str)
def test_a_column_stored_as_something_else_is_refused(declared, stored, problem, kind):
    """Found by its type, never by its values."""
    with pytest.raises(SchemaError) as caught:
        duckdb_engine(pa.table({"x": pa.array([], stored)}), {"x": declared})
    assert problem in str(caught.value)
    assert kind in str(caught.value)
    assert "Change the declaration or convert" in str(caught.value)


def test_a_column_that_is_not_there_is_refused():
    """The message lists what is there, and a name that differs in case only."""
    table = pa.table({"Age": [1]})
    with pytest.raises(
        SchemaError, match=r"'age' is declared but not in the source.*'Age'.*exactly"
    ):
        duckdb_engine(table, {"age": {"type": "integer"}})
    with pytest.raises(SchemaError, match="It has: Age"):
        duckdb_engine(table, {"size": {"type": "integer"}})


@pytest.mark.parametrize(
    "spec",
    [{"type": "integer", "max_length": 5}, {"type": "text", "max_length": 0},
     {"type": "text", "max_length": True}, {"type": "text", "max_length": 10_001},
     {"type": "text", "key": True, "max_length": 5}],
)  # fmt: skip
def test_a_length_is_for_texts_and_a_whole_number(spec):
    """Anything else is refused, with the setting named."""
    with pytest.raises(SchemaError, match="max_length"):
        Schema.load({"note": spec})


def test_a_declared_length_is_part_of_the_schema():
    """It is written and read again, and makes another schema."""
    short, bare = ({"note": {"type": "text"} | more} for more in ({"max_length": 5}, {}))
    found = Schema.load(short)
    assert found["note"].max_length == 5
    assert Schema.load(found.to_json()) == found
    assert found.to_json() != Schema.load(bare).to_json()
