"""sulq.check_data: what of each column does not fit its declaration, for the owner alone."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sulq
from sulq.cli import app

COLUMNS = {
    "id": {"key": True},
    "born": {"type": "date", "low": "1900-01-01", "high": "2030-01-01"},
    "weight": {"type": "number", "low": 0, "high": 200},
    "income": {"type": "integer", "low": 0, "high": 100_000},
    "smoker": {"type": "boolean"},
    "sex": {"values": ["male", "female"]},
    "age": {"type": "integer", "low": 0, "high": 120},
}
TOML = "\n".join(
    f"[columns.{name}]\n" + "\n".join(f"{k} = {json.dumps(v)}" for k, v in said.items())
    for name, said in COLUMNS.items()
).replace('"1900-01-01"', "1900-01-01").replace('"2030-01-01"', "2030-01-01")  # fmt: skip
HEAD = "id;born;weight;income;smoker;sex;age\n"
WRONG = (
    "1;17-08-1984;81,5;1,234;J;Male;34\n"
    "2;18-09-1990;64,25;52,100;N;FEMALE;200\n"
    "3;01-01-1990;;70,000;J;male ;\n"
    "4;02-02-1991;55,5;12,000;J;unknown;41\n"
)
RIGHT = "1;1984-08-17;81.5;1234;true;male;34\n2;1990-09-18;64.25;52100;0;female;20\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(TOML)
    (tmp_path / "wrong.csv").write_text(HEAD + WRONG)
    (tmp_path / "right.csv").write_text(HEAD + RIGHT)
    return tmp_path


def fits(source, schema=None):
    found = sulq.check_data(source, schema or {"columns": COLUMNS})
    return {c.name: c for c in found.columns}


def test_every_wrong_declaration_is_counted_and_explained(folder):
    """Dates, decimal commas, thousands, J and N, capitals: exact counts, and the remedy."""
    found = fits("wrong.csv")
    counted = {n: (c.unreadable, c.outside, c.missing) for n, c in found.items()}
    assert counted == {
        "id": (0, 0, 0), "born": (4, 0, 0), "weight": (3, 0, 1), "income": (4, 0, 0),
        "smoker": (3, 0, 0), "sex": (0, 4, 0), "age": (0, 1, 1),
    }  # fmt: skip
    for name, said in (("born", "17-08-1984"), ("weight", "decimal = ','"), ("income", "1,234"),
                       ("smoker", "J and N"), ("sex", "capitals")):  # fmt: skip
        assert said in found[name].advice
    assert found["age"].advice == ""


def test_what_fits_is_not_complained_of(folder):
    """A file as declared: nothing lost, no advice."""
    found = sulq.check_data("right.csv", {"columns": COLUMNS})
    assert not found.bad
    assert not found.warnings()
    assert all(c.unreadable + c.outside + c.missing == 0 for c in found.columns)


@pytest.mark.parametrize("kind", ["frame", "parquet", "duckdb"])
def test_frames_and_files_with_types_are_counted_too(folder, kind):
    """Numbers outside, NaN as missing, a Boolean that is 2, a category that is not listed."""
    table = pa.table(
        {"x": [1.0, float("nan"), 9.0, None], "b": [0, 1, 2, None], "c": ["a", "b", None, "a"]}
    )
    schema = {"columns": {"x": {"type": "number", "low": 0, "high": 5},
                          "b": {"type": "boolean"}, "c": {"values": ["a"]}}}  # fmt: skip
    source = table
    if kind == "parquet":
        source = folder / "t.parquet"
        pq.write_table(table, source)
    if kind == "duckdb":
        import duckdb

        source = folder / "t.duckdb"
        with duckdb.connect(str(source)) as connection:
            connection.register("given", table)
            connection.execute("create table t as select * from given")
    found = fits(source, schema)
    counted = {n: (c.unreadable, c.outside, c.missing) for n, c in found.items()}
    assert counted == {"x": (0, 1, 2), "b": (1, 0, 1), "c": (0, 1, 1)}


def test_the_command_says_so_and_fails(folder):
    """`sulq schema check --data`: shares, advice, exit code 1; 0 for a file that fits."""
    ran = CliRunner().invoke(app, ["schema", "check", "people.toml", "--data", "wrong.csv"])
    assert ran.exit_code == 1
    assert "100.00% unreadable" in ran.stdout
    assert "dates such as 17-08-1984: declare date_format = '%d-%m-%Y'" in ran.stdout
    assert "lost: born, weight, income, smoker, sex" in ran.stderr
    asked = ["schema", "check", "people.toml", "--data", "right.csv", "--json"]
    fine = CliRunner().invoke(app, asked)
    assert fine.exit_code == 0
    assert json.loads(fine.stdout)["data"]["columns"][1]["unreadable_share"] == 0


def test_init_warns_of_a_column_that_is_wholly_lost(folder):
    """`sulq init` tells the owner before anything is asked; a part that is lost is no warning.

    Unless it is one of two values.
    """
    ran = CliRunner().invoke(app, ["init", "wrong.csv", "--schema", "people.toml"])
    assert ran.exit_code == 0
    assert "Warning: column 'born': no value can be read as declared" in ran.stderr
    assert "'smoker': one of its two values" in ran.stderr
    assert "'age'" not in ran.stderr


def test_nothing_of_it_is_stored_or_reaches_a_question(folder):
    """Opening and asking go on without a word; no file beside the data is made by a check."""
    before = set(folder.iterdir())
    sulq.check_data("wrong.csv", {"columns": COLUMNS})
    assert set(folder.iterdir()) == before
    with sulq.open("wrong.csv", "people.toml", epsilon=1.0, queries=10, ledger=":memory:") as db:
        assert db.count("born > date '1980-01-01'").note == ""


def test_a_boolean_of_which_one_value_is_read_is_bad(folder):
    """N reads as false and J as nothing: less than half is lost, and nothing is ever true."""
    lines = "".join(f"{i};{'JN'[i % 2]};{'x' if i == 7 else 'true'}\n" for i in range(99))
    (folder / "paid.csv").write_text("id;paid;seen\n" + lines.replace("0;J", "0;N"))
    schema = {"id": {"key": True}, "paid": {"type": "boolean"}, "seen": {"type": "boolean"}}
    found = sulq.check_data("paid.csv", {"columns": schema})
    paid = found.columns[1]
    assert paid.lost < 0.5
    assert [c.name for c in found.bad] == ["paid"]
    (said,) = found.warnings()
    assert "'paid'" in said
    assert "declare true = " in said


def of_people():
    """A thousand people, the i-th with i % 40 + 1 rows."""
    owners = [i for i in range(1000) for _ in range(i % 40 + 1)]
    months = [n % 5 + 1 for i in range(1000) for n in range(i % 40 + 1)]
    return pa.table({"visit": list(range(len(owners))), "person": owners, "month": months})


UNIT = {"column": "person", "max_rows": 8}
VISITS = {"columns": {"visit": {"key": True}, "person": {"type": "integer"}}, "unit": UNIT}


@pytest.mark.parametrize("kind", ["frame", "csv", "parquet"])
def test_rows_beyond_the_limit_are_counted_for_the_owner(tmp_path, kind):
    """Exactly: 25 people for each number of rows from 1 to 40, of which eight count."""
    import pyarrow.csv

    source = table = of_people()
    if kind != "frame":
        source = tmp_path / f"visits.{kind}"
        (pq.write_table if kind == "parquet" else pyarrow.csv.write_csv)(table, source)
    (limit,) = sulq.check_data(source, VISITS).limits
    assert limit.to_json() == {
        "table": "", "max_rows": 8, "people": 1000, "people_over": 25 * 32, "rows": 25 * 820,
        "rows_left_out": 25 * sum(range(1, 33)),
    }  # fmt: skip
    assert "max_rows = 8 leaves out 13,200 of 20,500 rows, of 800 of 1,000 people" in str(
        sulq.check_data(source, VISITS)
    )
    with sulq.open(source, VISITS, name="v", epsilon=1.0, queries=9) as db:
        assert db.rows == limit.rows - limit.rows_left_out


def test_rows_of_too_many_periods_are_counted_too():
    """Those of a person's fourth and fifth month, and beyond two rows in each of the first."""
    month = {"values": [1, 2, 3, 4, 5], "public": True}
    schema = {
        "columns": VISITS["columns"] | {"month": month}, "period": {"column": "month"},
        "unit": UNIT | {"max_rows": 2, "max_periods": 3},
    }  # fmt: skip
    (limit,) = sulq.check_data(of_people(), schema).limits
    counted = [sum(min((n - m + 4) // 5, 2) for m in range(3)) for n in range(1, 41)]
    assert limit.rows - limit.rows_left_out == 25 * sum(counted)
    assert limit.people_over == 25 * sum(c < n for n, c in enumerate(counted, 1))
    assert sulq.check_data(of_people(), {"columns": VISITS["columns"]}).limits == ()


def test_each_table_of_events_has_its_own_count():
    """Of people who are there; the table of people has no limit."""
    tables = {
        "people": pa.table({"person": list(range(10)), "age": [30] * 10}),
        "visits": pa.table({"visit": list(range(60)), "person": [i % 12 for i in range(60)]}),
    }
    schema = {
        "unit": {"column": "person"},
        "tables": {
            "people": {"columns": {"age": {"type": "integer", "low": 0, "high": 99}}},
            "visits": {"max_rows": 3, "columns": {"visit": {"key": True}}},
        },
    }
    (limit,) = sulq.check_data(tables, schema).limits
    assert (limit.table, limit.people, limit.people_over) == ("visits", 10, 10)
    assert (limit.rows, limit.rows_left_out) == (50, 20)
