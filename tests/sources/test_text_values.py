"""Texts read as declared: dates, numbers and truths as people write them; nothing fails."""

import datetime

import duckdb
import pytest
from helpers import opened as quiet_open

import sulq
from sulq.errors import SchemaError
from sulq.sources.text_values import stored_as, typed
from sulq.values.schema import Schema

WORDS = {"type": "boolean", "true": ["J", "ja"], "false": ["N"]}
COMMA = {"type": "number", "decimal": ","}
GERMAN = {"type": "number", "decimal": ",", "thousands": "."}
GROUPED = {"type": "integer", "thousands": ","}
DAYS = {"type": "date", "date_format": "%d-%m-%Y"}

READ = [
    (DAYS, "17-08-1984", datetime.date(1984, 8, 17)),
    (DAYS, " 17-08-1984 ", datetime.date(1984, 8, 17)),
    (DAYS, "1984-08-17", None),
    (DAYS, "31-02-1984", None),
    ({"type": "date", "date_format": "%m/%d/%y"}, "08/17/84", datetime.date(1984, 8, 17)),
    (COMMA, "3,5", 3.5),
    (COMMA, "-,5", -0.5),
    (COMMA, "3.5", None),
    (COMMA, "1e3", 1000.0),
    (GERMAN, "1.234.567,25", 1234567.25),
    (GERMAN, "1234,5", 1234.5),
    (GERMAN, "1.5", None),  # no group of three: not 15, and not 1.5
    (GERMAN, "12.34", None),
    (GROUPED, "1,234", 1234),
    (GROUPED, "12,34", None),
    (GROUPED, "1 234", None),
    ({"type": "integer", "thousands": " "}, "1 234", 1234),
    (WORDS, "j", True),
    (WORDS, "JA", True),
    (WORDS, "n", False),
    (WORDS, "true", None),
    (WORDS, "", None),
    ({"type": "integer"}, "7", 7),
    ({"type": "integer"}, "x", None),
    ({"type": "text"}, "x", "x"),
    ({"values": [1, 2]}, "2", 2),
]


@pytest.mark.parametrize(("said", "text", "value"), READ)
def test_a_text_is_read_as_it_is_declared(said, text, value):
    """The value that a person means, or nothing; never another value, never an error."""
    column = Schema.load({"x": said})["x"]
    found = (
        duckdb.connect()
        .execute(
            f"SELECT {typed(column, 'x')} AS v, typeof(v) FROM (SELECT ?::VARCHAR AS x)", [text]
        )
        .fetchone()
    )
    assert found == (value, stored_as(column))


def test_no_text_fails(tmp_path):
    """Whatever stands in a file, each way of reading gives a value or nothing."""
    odd = ["", " ", "%", "%d", "-", "+", ",", ".", "1,", ",,", "1.2.3", "9" * 400, "1e999", "nan",
           "inf", "é", "\u202f", "'", "''", "\\", "0x10", "99-99-9999", "1 234", "\t"]  # fmt: skip
    connection = duckdb.connect()
    for said, _, _ in READ:
        column = Schema.load({"x": said})["x"]
        sql = f"SELECT count({typed(column, 'x')}) FROM (SELECT unnest(?::VARCHAR[]) AS x)"
        connection.execute(sql, [odd]).fetchone()


def test_a_file_as_people_write_it_is_asked(tmp_path):
    """Dates, decimal commas, thousands, J and N in one CSV in cp1252: every row counts."""
    path = tmp_path / "leute.csv"
    path.write_text(
        "id;geboren;lohn;größe;raucher;ort\n"
        "1;17-08-1984;1.234,50;1,80;J;Köln\n2;01-02-1990;900;1,65;N;Bonn\n"
        "3;31-12-1970;12.000,00;;ja;Köln\n",
        encoding="cp1252",
    )
    schema = {
        "file": {"encoding": "cp1252", "delimiter": ";"},
        "columns": {
            "id": {"key": True},
            "geboren": {**DAYS, "low": "1900-01-01", "high": "2030-01-01"},
            "lohn": {**GERMAN, "low": 0, "high": 20_000},
            "größe": {**COMMA, "low": 0, "high": 3},
            "raucher": WORDS,
            "ort": {"values": ["Köln", "Bonn"]},
        },
    }
    found = sulq.check_data(path, schema)
    assert [(c.unreadable, c.outside) for c in found.columns] == [(0, 0)] * 6
    with quiet_open(path, schema) as db:
        assert db.sum("lohn").value == pytest.approx(14134.5, abs=0.1)
        assert db.count("raucher").value == 2
        assert db.count("ort = 'Köln'").value == 2
        assert db.count("geboren < date '1985-01-01'").value == 2
        assert db.sum("größe").value == pytest.approx(3.45, abs=1e-3)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"type": "number", "date_format": "%d-%m-%Y"}, "date_format applies to date"),
        ({"type": "date", "date_format": "%d-%m"}, "year, month and day"),
        ({"type": "date", "date_format": "%d-%m-%Y %Q"}, "year, month and day"),
        ({"type": "date", "decimal": ","}, "decimal applies to number"),
        ({"type": "number", "decimal": ";"}, "want one of"),
        ({"type": "number", "decimal": ",", "thousands": ","}, "the same sign"),
        ({"type": "number", "thousands": "."}, "the same sign"),
        ({"type": "boolean", "true": ["J"]}, "declare both"),
        ({"type": "boolean", "true": ["J"], "false": ["j"]}, "both true and false"),
        ({"type": "boolean", "true": [], "false": ["N"]}, "want words"),
    ],
)
def test_a_wrong_way_of_writing_is_refused(said, message):
    """In words that say what is wanted, with the column's name."""
    with pytest.raises(SchemaError, match=message) as refused:
        Schema.load({"x": said})
    assert "'x'" in str(refused.value)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"encoding": "klingon"}, "is not known"),
        ({"delimiter": "#"}, "want a comma"),
        ({"hive_partitions": 1}, "want true or false"),
        ({"colour": 1}, "nothing else"),
    ],
)
def test_a_wrong_file_format_is_refused(said, message):
    """What is said of the file is checked before the file is looked at."""
    with pytest.raises(SchemaError, match=message):
        Schema.load({"file": said, "columns": {"x": {"type": "text"}}})


def test_the_schema_keeps_how_it_is_written():
    """There and back as JSON; a schema that says nothing of it is as it always was."""
    body = {
        "columns": {"x": DAYS, "y": WORDS, "z": GERMAN},
        "file": {"encoding": "cp1252", "delimiter": ";"},
    }
    assert Schema.load(Schema.load(body).to_json()) == Schema.load(body)
    plain = Schema.load({"x": {"type": "date"}}).to_json()
    assert plain == {"columns": {"x": {"type": "date"}}}


def test_a_file_in_another_encoding_says_how_to_mend_it(tmp_path):
    """Not UTF-8 and nothing declared: the message names the setting."""
    path = tmp_path / "a.csv"
    path.write_bytes("id,größe\n1,2\n".encode("cp1252"))
    with pytest.raises(SchemaError, match=r"\[file\]"):
        quiet_open(path, {"id": {"key": True}})
    with pytest.raises(SchemaError, match="not text in utf-16"):
        quiet_open(path, {"file": {"encoding": "utf-16"}, "columns": {"id": {"key": True}}})
