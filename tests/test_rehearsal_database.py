"""sulq.rehearsal: synthetic rows from the schema alone, marked everywhere, nothing spent."""

from __future__ import annotations

import datetime
import json
import tomllib
import warnings

import pytest
from helpers import SilentNoise, opened
from typer.testing import CliRunner

import sulq
from sulq.cli import demo_data
from sulq.preview import KeptRehearsals, Previews
from sulq.rehearsal_database import MISSING, NOTE, PLENTY, made_up
from sulq.server.console.result_view import body_of

SCHEMA = tomllib.loads(demo_data.SCHEMA)
MIXED = {
    "id": {"key": True},
    "age": {"type": "integer", "low": 18, "high": 21, "nullable": False},
    "weight": {"type": "number", "low": 30.0, "high": 200.0},
    "sex": {"values": ["female", "male"]},
    "grade": {"values": [1, 2, 3], "nullable": False},
    "born": {"type": "date", "low": "2000-02-28", "high": "2000-03-01"},
    "smoker": {"type": "boolean"},
    "name": {"type": "text"},
    "visits": {"type": "integer"},
    "seen": {"type": "date"},
}
BY_REGION = "select region, count(*), avg(income) from people group by region"


def made(schema, rows=5000):
    return made_up(sulq.Schema.load(schema), rows).to_pydict()


def known(values):
    return {v for v in values if v is not None}


# --- rows -------------------------------------------------------------------------------


def test_rows_lie_within_the_declarations():
    """Every declared value turns up, nothing else does, and the ends of a range included."""
    rows = made(MIXED)
    assert rows["id"] == list(range(5000))
    assert known(rows["age"]) == {18, 19, 20, 21}
    assert all(30 <= w <= 200 for w in known(rows["weight"]))
    assert known(rows["sex"]) == {"female", "male"}
    assert known(rows["grade"]) == {1, 2, 3}
    days = {datetime.date(2000, 2, 28), datetime.date(2000, 2, 29), datetime.date(2000, 3, 1)}
    assert known(rows["born"]) == days
    assert known(rows["smoker"]) == {False, True}
    assert all(word.isalpha() and 3 <= len(word) <= 8 for word in known(rows["name"]))


def test_some_are_missing_where_that_is_declared():
    """About as many as said, and none elsewhere."""
    rows = made(MIXED)
    for name in ("weight", "sex", "born", "smoker", "name", "visits", "seen"):
        missing = sum(v is None for v in rows[name])
        assert 0.5 * MISSING < missing / 5000 < 1.5 * MISSING, name
    for name in ("id", "age", "grade"):
        assert None not in rows[name]


def test_a_text_key_is_text():
    """Keys have their declared type."""
    rows = made({"who": {"key": True, "type": "text"}}, 3)
    assert rows["who"] == ["0", "1", "2"]


def test_a_person_has_as_many_rows_as_may_count():
    """With a [unit], each person owns max_rows rows, and the promise speaks of one person."""
    schema = {
        "unit": {"column": "person", "max_rows": 4},
        "columns": {"person": {"type": "integer"}, "age": MIXED["age"]},
    }
    assert made(schema, 10)["person"] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    db = sulq.rehearsal(schema, rows=1000, name="visits")
    real = opened(made_up(sulq.Schema.load(schema), 8), schema, name="visits")
    asked = "select count(*), count(distinct person) from visits"
    assert db.price(asked) == real.price(asked)
    assert db.promise == real.promise
    assert "person" in str(db.promise)
    assert db.sql(asked).note == f"{NOTE}; each person counts with at most 4 rows"


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_as_many_rows_as_asked(rows):
    """rows= is how many are made."""
    assert sulq.rehearsal(MIXED, rows=rows).rows == rows


@pytest.mark.parametrize("rows", [-1, True, 1.5, "10", 10**13])
def test_rows_must_be_a_whole_number(rows):
    """Other numbers are refused."""
    with pytest.raises(sulq.Refused, match="rows="):
        sulq.rehearsal(MIXED, rows=rows)


# --- marked -----------------------------------------------------------------------------


@pytest.fixture
def db():
    return sulq.rehearsal(SCHEMA, rows=1000, name="people")


def test_everything_that_comes_back_says_it_is_a_rehearsal(db):
    """Answers, tables, batches, means of both kinds; on paper, in notebooks and as JSON."""
    asked = [
        db.count("age > 40"),
        db.sum("income"),
        db.mean("age"),
        db.mean("income", "smoker"),
        *db.ask([sulq.Query(), sulq.Query("age")]),
        *db.ask([sulq.Query(where=f"age > {age}") for age in range(20)]),  # one shared histogram
        db.ask(sulq.Query(by="sex")).table(),
        db.histogram("age"),
        db.crosstab(["sex", "smoker"]),
        db.sql(BY_REGION),
    ]
    for answer in asked:
        assert answer.note.startswith(NOTE)
        assert answer.note.count(NOTE) == 1
        assert NOTE in str(answer)
        assert NOTE in answer._repr_html_()
        assert answer.to_json()["note"] == answer.note
    assert NOTE in repr(db)


def test_other_notes_stay():
    """A group too small for the noise is still said to be so."""
    few = sulq.rehearsal(SCHEMA, rows=10, name="people").sql(BY_REGION)
    assert "too few rows for the noise" in few.note


def test_a_chart_is_marked(db, tmp_path):
    """It says that rows are made up."""
    db.histogram("sex").plot(tmp_path / "out.svg")
    assert NOTE in (tmp_path / "out.svg").read_text()


# --- the same calls, nothing spent ------------------------------------------------------


def test_no_warning_and_no_file(tmp_path, monkeypatch):
    """A rehearsal makes no promise, so it need not warn about one; it writes nothing."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sulq.rehearsal(SCHEMA).count()
    assert list(tmp_path.iterdir()) == []


def test_the_budget_does_not_run_out():
    """Three times T questions are answered; the noise is still that of T."""
    db = sulq.rehearsal(SCHEMA, queries=2, name="people")
    for age in range(6):
        db.count(f"age > {age}")
    assert db.budget.total * 1_000_000 == PLENTY
    assert db.promise.queries == 2


@pytest.mark.parametrize(
    "promise",
    [{}, {"epsilon": 0.5, "queries": 100}, {"guarantee": "dp"}, {"noise": "laplace"}],
)
def test_prices_and_error_bars_are_the_real_ones(promise):
    """What a question costs here, and its standard deviation, are those of the real table."""
    real = opened(demo_data.people(1000), SCHEMA, name="people", **promise)
    tried = sulq.rehearsal(SCHEMA, name="people", **promise)
    assert tried.price(BY_REGION) == real.price(BY_REGION)
    assert tried.count("smoker").std == real.count("smoker").std
    assert tried.promise == real.promise


def test_what_is_refused_is_refused_here_too(db):
    """Statements and promises meet the same checks."""
    with pytest.raises(sulq.QueryNotAllowed, match="would return rows"):
        db.sql("select age from people")
    with pytest.raises(sulq.PromiseError):
        sulq.rehearsal(SCHEMA, epsilon=-1)


def test_the_table_is_called_as_its_schema_file(tmp_path):
    """Without a file it is called rehearsal."""
    (tmp_path / "clinic.toml").write_text(demo_data.SCHEMA)
    db = sulq.rehearsal(tmp_path / "clinic.toml")
    assert db.name == "clinic"
    assert len(db.sql("select count(*) from clinic")) == 1
    assert sulq.rehearsal(SCHEMA).name == "rehearsal"


def test_the_name_stays_callable_whatever_was_imported_first():
    """sulq.rehearsal is the function, never a module of that name."""
    import sulq.rehearsal_database

    assert callable(sulq.rehearsal)
    assert "rehearsal" in sulq.__all__


# --- the preview ------------------------------------------------------------------------


def test_a_preview_reads_no_private_row_and_spends_nothing():
    """Price and expected error come from the schema, the promise and n alone."""
    real = opened(demo_data.people(3000), SCHEMA, name="people")
    looked = Previews(real)
    real._pipeline.engine.sums = None  # a touch would raise
    seen = looked.look(BY_REGION)
    assert seen.price == real.price(BY_REGION)
    assert not seen.free
    assert real.budget.spent == 0
    assert list(seen.widths) == ["count(*)", "avg(income)"]


def test_a_preview_knows_what_is_free():
    """A statement asked before is shown as free."""
    real = opened(demo_data.people(3000), SCHEMA, name="people")
    real.sql(BY_REGION)
    assert Previews(real).look(BY_REGION).free
    assert str(Previews(real).look(BY_REGION)).startswith("free: asked before")


def test_the_expected_error_is_that_of_rows_spread_evenly():
    """On such rows the answer's own half-width is what the preview said, within 2%."""
    asked = "select count(*), avg(income), avg(age) from people where age > 60"
    table = made_up(sulq.Schema.load(SCHEMA), 50_000)
    real = opened(table, SCHEMA, name="people")
    assert isinstance(real._pipeline.noise, SilentNoise)
    seen, answer = Previews(real).look(asked), real.sql(asked)
    for name, width in seen.widths.items():
        half = (answer[f"{name}_high"][0] - answer[f"{name}_low"][0]) / 2
        assert width.usual == pytest.approx(half, rel=0.02)


def test_the_prompt_and_the_console_say_the_same():
    """One preview: the same widths, from synthetic rows that nothing is charged for."""
    real = opened(demo_data.people(3000), SCHEMA, name="people")
    rehearsals = KeptRehearsals()
    for text in (BY_REGION, "select count(*), avg(age) from people where smoker"):
        seen = Previews(real).look(text).widths
        said = dict(rehearsals.errors(real, text))
        assert said == {
            name: ("" if width.even else "about ") + str(width).replace("+/-", "±")
            for name, width in seen.items()
        }
    (kept,) = rehearsals._kept.values()
    assert kept.db.budget.spent == real.budget.spent == 0


def test_rehearsals_that_are_left_out_are_closed(monkeypatch):
    """Eight are kept; the ninth closes the oldest, and other limits of programs are another one."""
    monkeypatch.setattr("sulq.preview.KEPT", 2)
    rehearsals, dbs = KeptRehearsals(), []
    for name in ("a", "b", "c"):
        real = opened(demo_data.people(50), SCHEMA, name=name)
        rehearsals.answer(real, f"select avg(age) from {name}")
        dbs += [kept.db for kept in rehearsals._kept.values() if kept.db not in dbs]
    assert [db._pipeline.lifetime._closed for db in dbs] == [True, False, False]
    fueled = opened(demo_data.people(50), SCHEMA, name="c", programs=True)
    rehearsals.answer(fueled, "select avg(age) from c")
    assert [kept.db.program_fuel for kept in rehearsals._kept.values()] == [
        None, fueled.program_fuel,
    ]  # fmt: skip


# --- the command ------------------------------------------------------------------------


def run(*words):
    from sulq.cli import app

    return CliRunner().invoke(app, ["rehearse", *words], env={"COLUMNS": "100"})


def test_rehearse_needs_the_schema_only(tmp_path, monkeypatch):
    """No data, no ledger, no sulq.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(demo_data.SCHEMA)
    ended = run("--schema", "people.toml", BY_REGION)
    assert ended.exit_code == 0, ended.output
    assert NOTE in ended.output
    assert [p.name for p in tmp_path.iterdir()] == ["people.toml"]


def test_rehearse_takes_the_promise_and_the_name_from_the_config(tmp_path, monkeypatch):
    """`sulq rehearse` reads sulq.toml."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(demo_data.SCHEMA)
    config = 'source = "people.parquet"\nschema = "schema.toml"\nepsilon = 2.0\nqueries = 10\n'
    (tmp_path / "sulq.toml").write_text(config)
    ended = run("--json", "--rows", "50", "select count(*) as n from people where smoker")
    assert ended.exit_code == 0, ended.output
    body = json.loads(ended.stdout)
    assert body["note"] == NOTE
    promise = sulq.Promise(epsilon=2.0, queries=10)
    row = body["rows"][0]
    assert row["n_high"] - row["n_low"] == pytest.approx(2 * promise.half_width(), rel=0.01)


def test_rehearse_without_a_schema_says_what_to_give(tmp_path, monkeypatch):
    """It ends with 2 and names --schema."""
    monkeypatch.chdir(tmp_path)
    ended = run("select count_if(smoker) from people")
    assert ended.exit_code == 2
    assert "--schema" in ended.output


# --- as many rows as the table has ----------------------------------------------------------

MEAN = "select avg(income) as m from people where smoker"


def half_width(rows):
    """Of an average, as a rehearsal of so many rows shows it."""
    (row,) = rows
    return (row["m_high"] - row["m_low"]) / 2


def test_error_bars_are_those_of_the_rows_it_stands_for():
    """Of 2,000,000 rows 5,000 are made, and an average is as close as over 2,000,000."""
    with (
        sulq.rehearsal(SCHEMA, 200_000, name="people") as all_made,
        sulq.rehearsal(SCHEMA, 200_000, name="people", made=5_000) as few_made,
        sulq.rehearsal(SCHEMA, 2_000_000, name="people", made=5_000) as larger,
    ):
        expected = half_width(all_made.sql(MEAN))
        assert few_made.rows == 200_000
        assert half_width(few_made.sql(MEAN)) == pytest.approx(expected, rel=0.1)
        assert half_width(larger.sql(MEAN)) == pytest.approx(expected / 10, rel=0.1)
        assert few_made.sql("select count(*) as n from people")["n"][0] > 150_000


def test_the_console_rehearses_as_many_rows_as_the_dataset_has():
    """What a page shows as rehearsed has the error bar that the real answer will have."""
    with sulq.rehearsal(SCHEMA, 200_000, name="people") as real:
        expected = half_width(real.sql(MEAN))
        shown = body_of(KeptRehearsals().answer(real, MEAN))
        assert half_width(shown["rows"]) == pytest.approx(expected, rel=0.1)


def test_programs_are_rehearsed():
    """On made-up rows, free; with a stated fuel, or not at all where that is None."""
    from programs.modules import module

    old = module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 19))")
    program = sulq.Program(old, "f", columns=["age"])
    with sulq.rehearsal({"columns": MIXED}, 2000, epsilon=1.0) as db:
        found = db.count(program)
        assert found.note.startswith(NOTE)
        assert found.value == pytest.approx(1000, abs=600)
        with pytest.raises(sulq.QueryNotAllowed, match="fuel=20,000, but a row may take 10,000"):
            db.count(sulq.Program(old, "f", columns=["age"], fuel=20_000))
    with (
        sulq.rehearsal({"columns": MIXED}, program_fuel=None) as db,
        pytest.raises(sulq.QueryNotAllowed, match="programs are off"),
    ):
        db.count(program)
