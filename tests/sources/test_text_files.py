"""JSON lines, SQLite, Excel and folders of Parquet files are asked like any other source."""

import gzip
import json
import sqlite3

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import opened as quiet_open
from typer.testing import CliRunner

import sulq
from sulq.cli import app
from sulq.errors import SchemaError, SourceChanged
from sulq.sources.draft import draft
from sulq.sources.source import files_of, open_source

SCHEMA = {
    "id": {"key": True, "type": "integer"},
    "age": {"type": "integer", "low": 0, "high": 100},
    "income": {"type": "number", "low": 0, "high": 10},
    "smoker": {"type": "boolean"},
    "city": {"values": ["Rome", "Oslo"]},
    "seen": {"type": "date", "low": "2000-01-01", "high": "2030-01-01"},
}
ROWS = [
    {"id": 1, "age": 30, "income": 2.5, "smoker": True, "city": "Rome", "seen": "2020-01-01"},
    {"id": 2, "age": 40, "income": 7, "smoker": False, "city": "Oslo", "seen": "2021-06-30"},
    {"id": 3, "age": None, "income": None, "smoker": None, "city": None, "seen": None},
    {"id": 4, "age": 50, "income": 0.1, "smoker": True, "city": "Bern", "seen": "2022-12-31"},
]


def lines_of(path, rows=ROWS):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def sqlite_of(path, rows=ROWS, table="people"):
    with sqlite3.connect(path) as file:
        file.execute(f"CREATE TABLE {table} (id, age, income, smoker, city, seen)")
        file.executemany(
            f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?, ?)", [tuple(r.values()) for r in rows]
        )
    file.close()
    return path


def excel_of(path, rows=ROWS, **sheets):
    book = openpyxl.Workbook()
    for name, found in ({"people": rows} | sheets).items():
        sheet = book.create_sheet(name)
        sheet.append(list(SCHEMA))
        for row in found:
            sheet.append(list(row.values()))
    del book["Sheet"]
    book.save(path)
    return path


def parquet_of(path, rows=ROWS):
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows).astype(
        {"age": "Int64", "smoker": "boolean", "seen": "datetime64[s]"}
    )
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), path)
    return path


def told(db):
    return [
        db.rows, db.sum("age").value, round(db.sum("income").value, 3), db.count("smoker").value,
        db.count("city = 'Rome'").value, db.count("seen >= date '2021-01-01'").value,
    ]  # fmt: skip


MADE = {
    "people.jsonl": lines_of,
    "people.ndjson.gz": lambda p: p.write_bytes(
        gzip.compress("".join(json.dumps(r) + "\n" for r in ROWS).encode())
    ) and p,
    "people.sqlite": sqlite_of,
    "people.db": sqlite_of,  # by its first bytes
    "people.xlsx": excel_of,
    "people.parquet": parquet_of,
    "folder": lambda p: [parquet_of(p / f"{i}.parquet", ROWS[i:i + 1]) for i in range(4)] and p,
    "deep": lambda p: [
        parquet_of(p / str(i) / "a.parquet", ROWS[2 * i:2 * i + 2]) for i in range(2)
    ] and p,
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_the_same_rows_give_the_same_answers(tmp_path, name):
    """From every kind of file: numbers, truths, dates, categories, and what is missing."""
    path = MADE[name](tmp_path / name)
    with quiet_open(path, SCHEMA) as db:
        assert told(db) == [4, 120, 9.6, 2, 1, 2]


@pytest.mark.parametrize("name", ["people.jsonl", "people.sqlite", "people.xlsx", "folder"])
def test_a_changed_file_stops_the_database(tmp_path, name):
    """Its ledger lies beside it, and knows the rows that it began with."""
    path = MADE[name](tmp_path / name)
    quiet_open(path, SCHEMA, ledger=tmp_path / "a.ledger").close()
    with quiet_open(path, SCHEMA, ledger=tmp_path / "a.ledger") as db:
        if name == "folder":
            parquet_of(path / "5.parquet", [ROWS[0] | {"id": 9}])
        else:
            path.write_bytes(path.read_bytes() + b"\n")
        with pytest.raises(SourceChanged):
            db.count("smoker")


@pytest.mark.parametrize(
    "line",
    ["not json", "[1, 2]", "{", '{"age": {"x": 1}}', '{"age": [1]}', "", "null", '"\\ud800"'],
)
def test_a_line_that_is_no_object_is_a_row_without_values(tmp_path, line):
    """Nothing fails; what an object has not is missing, and so is what is nested."""
    path = lines_of(tmp_path / "a.jsonl")
    path.write_text(path.read_text() + line + "\n" + json.dumps(ROWS[0]) + "\n")
    with quiet_open(path, SCHEMA) as db:
        assert db.sum("age").value == 150
        assert db.rows in (5, 6)


def test_bytes_that_are_no_text_are_missing(tmp_path):
    """A whole line of JSON, a single value of SQLite: nothing fails, whatever is asked."""
    path = lines_of(tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes() + b'{"id": 9, "city": "\xff\xfe"}\n')
    with quiet_open(path, SCHEMA) as db:
        assert told(db) == [5, 120, 9.6, 2, 1, 2]
    place = sqlite_of(tmp_path / "b.sqlite")
    with sqlite3.connect(place) as file:
        file.execute("INSERT INTO people VALUES (5, CAST(x'ff' AS TEXT), x'00', 'x', x'ff', 'x')")
    file.close()
    with quiet_open(place, SCHEMA) as db:
        assert told(db) == [5, 120, 9.6, 2, 1, 2]


def test_a_table_is_named_where_there_are_several(tmp_path):
    """Tables of SQLite and sheets of Excel: the message lists them."""
    base = sqlite_of(tmp_path / "a.sqlite")
    sqlite_of(base, ROWS[:1], "visits")
    book = excel_of(tmp_path / "a.xlsx", visits=ROWS[:1])
    for path in (base, book):
        with pytest.raises(SchemaError, match="people, visits"):
            quiet_open(path, SCHEMA)
        with quiet_open(path, SCHEMA, table="visits") as db:
            assert db.rows == 1


def test_a_ledger_is_of_one_table(tmp_path):
    """The other table of the same file is not the data that its ledger began with."""
    base = sqlite_of(tmp_path / "a.sqlite")
    sqlite_of(base, ROWS[:1], "visits")
    quiet_open(base, SCHEMA, table="people", ledger=tmp_path / "a.ledger").close()
    with pytest.raises(sulq.SulqError, match="visits"):
        quiet_open(base, SCHEMA, table="visits", ledger=tmp_path / "a.ledger")


def test_what_a_log_holds_is_not_in_the_file(tmp_path):
    """SQLite with a write-ahead log that is not empty: say how to mend it."""
    path = tmp_path / "a.sqlite"
    sqlite_of(path)
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("DELETE FROM people")
    writer.commit()
    with pytest.raises(SourceChanged, match="wal_checkpoint"):
        quiet_open(path, SCHEMA)
    writer.close()


def test_a_pattern_chooses_files(tmp_path):
    """Only those that it names, and new ones that it names change the data."""
    for i in range(4):
        parquet_of(tmp_path / "data" / f"202{i}.parquet", ROWS[i : i + 1])
    parquet_of(tmp_path / "data" / "_old.parquet")
    pattern, ledger = f"{tmp_path}/data/202[0-1].parquet", tmp_path / "a.ledger"
    assert [p.name for p in files_of(open_source(pattern))] == ["2020.parquet", "2021.parquet"]
    with quiet_open(pattern, SCHEMA, ledger=ledger) as db:
        assert db.rows == 2
        parquet_of(tmp_path / "data" / "2025.parquet")  # not of the pattern
        assert db.count("smoker").value == 1
        (tmp_path / "data" / "2021.parquet").unlink()
        with pytest.raises(SourceChanged):
            db.count("not smoker")
    with pytest.raises(SchemaError, match="no Parquet file"):
        quiet_open(f"{tmp_path}/data/*.csv", SCHEMA)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SchemaError, match="no Parquet file"):
        quiet_open(tmp_path / "empty", SCHEMA)


def test_a_file_of_a_folder_is_not_other_data(tmp_path):
    """Opened by itself, with a ledger beside the folder's, it is recognised; and the other way."""
    for i in range(2):
        parquet_of(tmp_path / "d" / f"{i}.parquet", ROWS[2 * i : 2 * i + 2])
        parquet_of(tmp_path / "e" / f"{i}.parquet", [r | {"age": 7} for r in ROWS[i : i + 1]])
    quiet_open(tmp_path / "d", SCHEMA, ledger=tmp_path / "a.ledger").close()
    with pytest.raises(sulq.SulqError, match="already have a ledger"):
        quiet_open(tmp_path / "d" / "0.parquet", SCHEMA, ledger=tmp_path / "b.ledger")
    quiet_open(tmp_path / "e" / "0.parquet", SCHEMA, ledger=tmp_path / "c.ledger").close()
    with pytest.raises(sulq.SulqError, match="already have a ledger"):
        quiet_open(tmp_path / "e", SCHEMA, ledger=tmp_path / "f.ledger")


def test_a_view_is_no_table(tmp_path):
    """A view may run for ever, or give other rows each time: it is not there."""
    path = sqlite_of(tmp_path / "a.sqlite")
    with sqlite3.connect(path) as file:
        file.execute(
            "CREATE VIEW endless AS WITH RECURSIVE c(id) AS (SELECT 1 UNION ALL SELECT id + 1 "
            "FROM c) SELECT id, 1 AS age FROM c"
        )
    file.close()
    with pytest.raises(SchemaError, match="has the tables people"):
        quiet_open(path, SCHEMA, table="endless")
    with quiet_open(path, SCHEMA) as db:
        assert db.rows == 4


def test_folders_may_be_a_public_column(tmp_path):
    """year=2024/ on request, read as declared; a private one is refused."""
    for i, year in enumerate((2020, 2021, 2021, 2022)):
        parquet_of(tmp_path / "d" / f"year={year}" / f"{i}.parquet", ROWS[i : i + 1])
    columns = SCHEMA | {"year": {"values": [2020, 2021], "public": True}}
    asked = {"columns": columns, "file": {"hive_partitions": True}}
    with quiet_open(tmp_path / "d", asked) as db:
        assert db.count("year = 2021").value == 2
        assert [c["year"] for c in db.budget_by_cell()] == [2020, 2021, None]
        assert db.count("year = 2020 and smoker").value == 1
    with pytest.raises(SchemaError, match="not in the source"):
        quiet_open(tmp_path / "d", {"columns": columns})
    columns["year"] = {"values": [2020, 2021]}
    with pytest.raises(SchemaError, match="public = true"):
        quiet_open(tmp_path / "d", asked)


def test_a_renamed_folder_is_a_change(tmp_path):
    """A row that moves from year=2020 to year=2021 has another public value."""
    parquet_of(tmp_path / "d" / "year=2020" / "a.parquet")
    asked = {
        "columns": SCHEMA | {"year": {"values": [2020, 2021], "public": True}},
        "file": {"hive_partitions": True},
    }
    with quiet_open(tmp_path / "d", asked, ledger=tmp_path / "a.ledger") as db:
        (tmp_path / "d" / "year=2020").rename(tmp_path / "d" / "year=2021")
        with pytest.raises(SourceChanged):
            db.count("smoker")


def test_a_draft_says_what_it_guessed(tmp_path):
    """Types of a CSV with how values are written; the draft is a schema once bounds are known."""
    path = tmp_path / "a.csv"
    path.write_text("id;born;paid;ok;note\n1;17-08-1984;1.234,5;J;x\n2;01-12-1990;3,5;N;y\n")
    text = draft(path)
    for line in ('date_format = "%d-%m-%Y"', 'decimal = ","', 'thousands = "."',
                 'true = ["J"]', "# guessed from the first rows"):  # fmt: skip
        assert line in text
    (tmp_path / "a.toml").write_text(text)
    found = sulq.check_data(path, sulq.Schema.load(tmp_path / "a.toml"))
    assert [c.unreadable for c in found.columns] == [0] * 5


@pytest.mark.parametrize("name", ["people.jsonl", "people.sqlite", "people.xlsx", "folder"])
def test_the_command_line_reads_them_too(tmp_path, name):
    """draft, check and init, as for any other file."""
    path = MADE[name](tmp_path / name)
    run = CliRunner()
    drafted = run.invoke(app, ["schema", "draft", str(path)])
    assert drafted.exit_code == 0
    assert "[columns.income]" in drafted.output
    toml = tmp_path / "s.toml"
    toml.write_text('[columns.id]\nkey = true\n[columns.age]\ntype = "integer"\nlow=0\nhigh=9\n')
    checked = run.invoke(app, ["schema", "check", str(toml), "--data", str(path)])
    assert "75.00% outside" in checked.output, checked.output


def test_a_mixed_column_is_named(tmp_path):
    """A pandas column of numbers and texts, and two columns of one name."""
    mixed = pd.DataFrame({"a": [1, 2], "b": pd.Series([1, "x"], dtype=object)})
    with pytest.raises(SchemaError, match="column 'b' of the frame mixes types"):
        quiet_open(mixed, {"a": {"type": "integer"}})
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(SchemaError, match="called 'a'"):
        quiet_open(twice, {"a": {"type": "integer"}})
