"""Every command of `sulq`, as an owner and an analyst type them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.calls import run, run_json
from programs.modules import module

import sulq
from sulq.cli import app

SCHEMA = """\
[columns.id]
key = true
[columns.age]
type = "integer"
low = 0
high = 120
nullable = false
[columns.region]
values = ["north", "south"]
public = true
[columns.income]
type = "number"
low = 0
high = 100000
nullable = false
[columns.smoker]
type = "boolean"
"""
SETTINGS = """\
source = "people.parquet"
schema = "people.toml"
epsilon = 1.0
queries = 100
"""
ROWS = 300


def table(rows=ROWS, first=0):
    return pa.table(
        {
            "id": list(range(rows)),
            "age": [(first + 7 * i) % 90 for i in range(rows)],
            "region": ["north" if i % 3 else "south" for i in range(rows)],
            "income": [float(100 * i) for i in range(rows)],
            "smoker": [i % 4 == 0 for i in range(rows)],
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with people.parquet, its schema and a sulq.toml; the tests run in it."""
    pq.write_table(table(), tmp_path / "people.parquet")
    (tmp_path / "people.toml").write_text(SCHEMA)
    (tmp_path / "sulq.toml").write_text(SETTINGS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# ---- the command itself ---------------------------------------------------------------------


def test_version():
    """`sulq --version` prints the version and nothing else."""
    assert run("--version").stdout == f"sulq {sulq.__version__}\n"


def commands(group=app, before=""):
    """The name of every command there is, such as "schema draft"."""
    for command in group.registered_commands:
        yield before + (command.name or command.callback.__name__)
    for inner in group.registered_groups:
        yield from commands(inner.typer_instance, f"{before}{inner.name} ")


@pytest.mark.parametrize("command", sorted(commands()))
def test_every_command_has_help_with_an_example(command):
    """--help says what a command does and how it is typed."""
    text = run(*command.split(), "--help").stdout
    assert f"Example: sulq {command}" in " ".join(text.split())


def test_help_imports_nothing_heavy():
    """`sulq --help` answers at once: no engine, no numpy."""
    script = (
        "import sys; from sulq.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'duckdb', 'pyarrow', 'sqlalchemy', 'scipy') "
        "if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout.splitlines()[-1] == "[]"


# ---- before the first question --------------------------------------------------------------


def test_plan_shows_the_noise_beside_the_sampling_error():
    """The reference value of section 3: R/T = 28.6223 at epsilon 1, delta 1e-6."""
    text = run("plan", "--rows", "1000000", "--queries", "1000", "--epsilon", "1").stdout
    assert "73.1%" in text
    assert "8,734 queries" in text
    assert "> " in text
    body = run_json("plan", "--rows", "1000000", "--queries", "1000", "--epsilon", "1")
    (asked,) = [r for r in body["table"] if (r["queries"], r["epsilon"]) == (1000, 1.0)]
    assert asked["variance"] == pytest.approx(28622.3, rel=1e-4)
    assert asked["below_sampling"] is True
    most = body["most_queries_below_sampling"]
    assert sulq.Promise(1.0, 1e-6, most).variance < 250_000
    assert sulq.Promise(1.0, 1e-6, most + 1).variance >= 250_000


@pytest.mark.parametrize("more", [["--noise", "laplace"], ["--guarantee", "dp"]])
def test_plan_for_other_promises(more):
    """The largest T is right for each noise that has a formula."""
    most = run_json("plan", "--rows", "1000000", *more)["most_queries_below_sampling"]
    options = {more[0].removeprefix("--"): more[1]}
    assert sulq.Promise(1.0, 1e-6, most, **options).std < 500
    assert sulq.Promise(1.0, 1e-6, most + 1, **options).std >= 499.9


def test_plan_refuses_what_cannot_be_promised():
    """A promise that cannot be kept is refused by the plan too."""
    assert "epsilon" in run("plan", "--rows", "10", "--epsilon", "-1", code=2).stderr


def test_draft_lists_names_and_types_and_no_value_of_a_row(folder):
    """A draft of any rows of the same types is the same text."""
    text = run("schema", "draft", "people.parquet").stdout
    pq.write_table(table(rows=20, first=50), folder / "people.parquet")
    assert run("schema", "draft", "people.parquet").stdout == text
    assert 'type = "integer"\n# low =\n# high =' in text
    assert "nobody paid for" in text
    assert "north" not in text


def test_draft_can_be_checked(folder):
    """A drafted schema passes `schema check`, and is not overwritten without --force."""
    run("schema", "draft", "people.parquet", "--out", "new.toml")
    body = run_json("schema", "check", "new.toml", "--data", "people.parquet")
    assert body["columns"]["income"] == {"type": "number"}
    refused = run("schema", "draft", "people.parquet", "--out", "new.toml", code=2)
    assert "--force" in refused.stderr


def test_draft_of_a_csv_guesses_types_and_says_so(folder):
    """Types of a CSV are only in its rows: a guess for the owner to check, and no value."""
    (folder / "people.csv").write_text('id;"my age";region\n1;SECRET;north\n')
    text = run("schema", "draft", "people.csv").stdout
    assert '[columns."my age"]' in text
    assert "SECRET" not in text
    assert 'type = "integer"     # guessed from the first rows' in text
    (folder / "draft.toml").write_text(text)
    assert run_json("schema", "check", "draft.toml")["columns"]["my age"] == {"type": "text"}
    (folder / "people.csv").write_text("id,age\n")
    (folder / "draft.toml").write_text(run("schema", "draft", "people.csv").stdout)
    assert "type is missing" in run("schema", "check", "draft.toml", code=2).stderr


def test_draft_of_a_duckdb_file_with_odd_columns(folder):
    """Column names with spaces and quotes survive the draft of a DuckDB file."""
    import duckdb

    with duckdb.connect(str(folder / "x.duckdb")) as connection:
        connection.execute(
            "create table a (d date, l integer[], n decimal(9,2)); create table b (x int)"
        )
    assert "a, b" in run("schema", "draft", "x.duckdb", code=2).stderr
    text = run("schema", "draft", "x.duckdb", "--table", "a").stdout
    assert "# [columns.l]" in text
    assert '[columns.n]\ntype = "number"' in text


def test_check_shows_the_columns_and_what_they_mean(folder):
    """A whole schema is shown as a table, with what it means for questions."""
    text = run("schema", "check", "people.toml").stdout
    assert "0 to 120" in text
    assert "3 cells, by region" in text


def test_check_names_the_line(folder):
    """A mistake in a schema is reported with its line."""
    (folder / "bad.toml").write_text('[columns.age]\ntype = "integr"\n')
    assert "line 2" in run("schema", "check", "bad.toml", code=2).stderr


def test_check_compares_with_the_data(folder):
    """A column that is declared but not in the data is named."""
    (folder / "bad.toml").write_text(
        '[columns.age]\ntype = "boolean"\n[columns.income]\ntype="date"'
    )
    refused = run("schema", "check", "bad.toml", "--data", "people.parquet", code=2)
    assert "stores it as DOUBLE" in refused.stderr


def test_init_writes_settings_that_open(folder):
    """The settings that `init` writes open the table without further options."""
    (folder / "sulq.toml").unlink()
    said = run("init", "people.parquet", "--epsilon", "2", "--queries", "50")
    assert "Written" in said.stdout
    assert run_json("count", "smoker")["remaining_micro"] == 49_000_000
    assert "epsilon = 2.0" in (folder / "sulq.toml").read_text()
    assert "--force" in run("init", "people.parquet", code=2).stderr


def test_init_proposes_as_many_queries_as_suit_the_rows(folder):
    """As many as keep the noise below the sampling error, or as exact as --error says."""
    (folder / "sulq.toml").unlink()
    found = run_json("init", "people.parquet")
    rows, queries = found["rows"], found["queries"]
    assert queries == max(1, int(rows / 4 / 28.6223))
    assert f"queries = {queries}" in (folder / "sulq.toml").read_text()
    exact = run_json("init", "people.parquet", "--error", "0.5", "--force")["queries"]
    assert exact == int((0.5 * rows / 1.96) ** 2 / 28.6223)
    both = run("init", "people.parquet", "--error", "0.5", "--queries", "3", "--force", code=2)
    assert "say one of them" in both.stderr
    never = run("init", "people.parquet", "--error", "1e-9", "--force", code=2)
    assert "not even one count" in never.stderr
    assert run_json("plan", "--rows", "344")["promise"]["queries"] == 3


def test_init_says_what_comes_next(folder):
    """Without a schema, `init` names the command that drafts one."""
    (folder / "people.toml").unlink()
    said = run("init", "people.parquet", "--force")
    assert "schema draft" in said.stderr


# ---- asking ---------------------------------------------------------------------------------


def test_count_prints_a_number_its_error_and_its_price(folder):
    """A count is one line: the number, its error, its price, what is left."""
    said = run("count", "age > 40 and smoker")
    assert "+/- 105 (95%), price 1 query, 99 left" in said.stdout
    assert "Fixed from now on: epsilon=1" in said.stderr


def test_count_as_json_is_exact_and_alone_on_stdout(folder):
    """With --json stdout holds one document, with exact numbers."""
    body = run_json("count", "smoker")
    ((exact,),) = body["exact"]
    assert float(Fraction(exact)) == body["value"]
    assert body["price_micro"] == 1_000_000
    assert body["low"] < body["value"] < body["high"]


def test_the_same_question_again_is_free_and_says_so(folder):
    """The stored answer comes back, and nothing more is spent."""
    first, second = run_json("count", "smoker"), run_json("count", "smoker")
    assert (first["free"], second["free"]) == (False, True)
    assert first["exact"] == second["exact"]
    assert "nothing was charged" in run("count", "smoker").stderr


def test_sum_and_mean(folder):
    """Sums and means are answered in the column's own units."""
    assert "price 1 query" in run("sum", "income", "--where", "smoker").stdout
    assert "price 1 query" in run("mean", "income").stdout
    assert "price 1 query" in run("mean", "age", "--where", "smoker").stdout


def test_functions_of_a_file_are_written_out(folder):
    """The same question as by hand, so free the second time."""
    (folder / "mine.py").write_text("def old(age, limit=65):\n    return age > limit\n")
    first = run("count", "old(age)", "--define", "mine.py", "--json")
    again = run("count", "age > 65", "--json")
    assert json.loads(first.stdout)["value"] == json.loads(again.stdout)["value"]
    assert json.loads(again.stdout)["free"]
    assert "cannot be read" in run("count", "old(age)", "--define", "no.py", code=2).stderr
    assert len(run_json("histogram", "old", "--define", "mine.py")["rows"]) == 2
    assert len(run_json("crosstab", "old(age)", "smoker", "--define", "mine.py")["rows"]) == 6
    learned = ("id3", "--columns", "old,smoker", "--label", "region", "--define", "mine.py")
    assert "price at most" in run("learn", *learned, "--price").stdout


def test_histogram_by_bins_and_by_edges(folder):
    """Bins may be a number or the edges themselves."""
    assert len(run_json("histogram", "age", "--bins", "4")["rows"]) == 4
    rows = run_json("histogram", "age", "--bins", "0,18,120")["rows"]
    assert [row["age"] for row in rows] == ["0 to 17", "18 to 120"]
    assert "bins='x'" in run("histogram", "age", "--bins", "x", code=2).stderr


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_histogram_draws(folder, ending):
    """--plot writes a picture of the histogram."""
    run("histogram", "region", "--plot", f"out.{ending}")
    start = (folder / f"out.{ending}").read_bytes()[:8]
    assert start.startswith(b"<svg" if ending == "svg" else b"\x89PNG")


def test_a_chart_that_cannot_be_drawn_is_refused_before_paying(folder):
    """A picture that cannot be written is refused before the ledger begins."""
    assert ".svg and .png" in run("histogram", "region", "--plot", "x.pdf", code=2).stderr
    assert "does not exist" in run("histogram", "region", "--plot", "no/x.svg", code=2).stderr
    assert not (folder / "people.parquet.ledger").exists()


def test_crosstab(folder):
    """A crosstab has a row for each pair of declared values."""
    rows = run_json("crosstab", "region", "smoker")["rows"]
    assert {row["region"] for row in rows} == {"north", "south", "(other)"}


def test_sql(folder):
    """A SELECT from the command line is answered as a table."""
    rows = run_json("sql", "select region, count(*) from people group by region")["rows"]
    assert [row["region"] for row in rows] == ["north", "south", "(other)"]
    price = run("price", "sql", "select smoker, count(*) from people group by smoker").stdout
    assert "price 2 queries" in price


# ---- prices ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "price"),
    [
        (["count", "age > 3"], "1"),
        (["count"], "0"),
        (["count", "smoker", "--error", "105.4"], "0.98"),
        (["sum", "income"], "1"),
        (["mean", "income"], "1"),
        (["mean", "income", "--where", "smoker"], "1"),
        (["histogram", "age", "--bins", "50"], "2"),
        (["histogram", "region"], "0"),
        (["crosstab", "region", "smoker"], "2"),
    ],
)
def test_prices_spend_nothing(folder, question, price):
    """A price is shown, no ledger begins, and asking then pays exactly that."""
    body = run_json("price", *question)
    assert float(Fraction(body["price_queries"])) == pytest.approx(float(price), rel=0.01)
    assert "Nothing was spent" in run("price", *question).stdout
    assert not (folder / "people.parquet.ledger").exists()
    assert run_json(*question)["price_micro"] == body["price_micro"]


def test_a_price_says_how_exact_the_answer_will_be(folder):
    """A price stands beside the error that it buys."""
    assert "+/- 105 (95%)" in run("price", "count", "smoker").stdout
    assert "it is public, so the answer is exact" in run("price", "count").stdout
    width = run_json("price", "mean", "income")["half_widths"][0]
    answer = run_json("mean", "income")
    assert answer["high"] - answer["low"] == pytest.approx(2 * width)


# ---- errors ---------------------------------------------------------------------------------


def test_a_refusal_is_one_message_and_exit_code_2(folder):
    """A refusal is one message on stderr, without a traceback, and exit code 2."""
    run("count", "smoker")
    refused = run("count", "nothing > 3", code=2)
    assert refused.stdout == ""
    assert refused.stderr.startswith("QueryNotAllowed: there is no column 'nothing'")
    assert "Traceback" not in refused.stderr


def test_a_refusal_as_json(folder):
    """With --json a refusal is a document of type, message and charge."""
    body = run_json("count", "smoker", "--error", "0.001", code=2)
    assert body["error"]["type"] == "BudgetExceeded"
    assert body["error"]["charged"] is False
    assert "Nothing was charged" in body["error"]["message"]


def test_a_damaged_ledger_is_exit_code_1(folder):
    """What is no refusal ends with exit code 1."""
    import sqlite3

    run("count", "smoker")
    with sqlite3.connect(folder / "people.parquet.ledger") as connection:
        connection.execute("update entries set body = replace(body, '1000000', '1') where number=1")
    body = run_json("verify", code=1)
    assert body["error"]["type"] == "LedgerDamaged"
    assert body["error"]["charged"] is None


def test_no_table_is_said_kindly(tmp_path, monkeypatch):
    """Without settings and options the message says how to name a table."""
    monkeypatch.chdir(tmp_path)
    for command in (["count"], ["budget"], ["refresh", "--reason", "x", "--yes"]):
        assert "which table?" in run(*command, code=2).stderr


def test_a_changed_promise_is_refused(folder):
    """A ledger that has begun keeps its promise, whatever the options say."""
    run("count", "smoker")
    assert "epsilon" in run("count", "--epsilon", "2", code=2).stderr


def test_an_explicit_memory_ledger_does_not_warn(folder):
    """Who writes :memory: knows; what it means is said where it matters."""
    assert "Warning" not in run("count", "--ledger", ":memory:").stderr
    assert "gone when its program ends" in run("history", "--ledger", ":memory:", code=2).stderr


# ---- finding the settings -------------------------------------------------------------------


def test_settings_from_another_folder(folder, tmp_path_factory, monkeypatch):
    """--config and --data both find the sulq.toml beside the data."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    one = run_json("count", "smoker", "--config", folder / "sulq.toml")
    two = run_json("count", "smoker", "--data", folder / "people.parquet")
    assert one["exact"] == two["exact"]


def test_everything_on_the_command_line(folder):
    """No settings file is needed if every option is given."""
    (folder / "sulq.toml").unlink()
    body = run_json(
        "count", "smoker", "--data", "people.parquet", "--schema", "people.toml", "--epsilon",
        "0.5", "--queries", "10", "--guarantee", "dp", "--delta", "1e-5", "--ledger", "mine.ledger",
    )  # fmt: skip
    assert body["remaining_micro"] == 9_000_000
    assert (folder / "mine.ledger").exists()
    assert run_json("budget", "--ledger", "mine.ledger")["spent_micro"] == 1_000_000


def test_a_sulq_toml_about_another_table_is_not_used(folder):
    """Settings beside one file do not apply to another file."""
    shutil.copy("people.parquet", "other.parquet")
    assert "state the promise" in run("count", "--data", "other.parquet", code=2).stderr


def test_options_override_the_file(folder):
    """An option outweighs the same setting in the file."""
    assert run_json("count", "smoker", "--queries", "7")["remaining_micro"] == 6_000_000


# ---- the owner ------------------------------------------------------------------------------


@pytest.fixture
def asked(folder):
    """Three questions: for everybody, for the north only, and by age."""
    run("count", "age > 40 and smoker")
    run("count", "region = 'north' and smoker")
    run("histogram", "age", "--bins", "3")
    return folder


def test_what_earlier_answers_tell_is_free(asked):
    """`sulq estimate` says it, `sulq price` beside the price; what they do not tell is refused."""
    run("crosstab", "region", "smoker")
    before = run_json("budget")["spent_micro"]
    found = run_json("estimate", "count", "smoker")
    assert found["low"] < found["value"] < found["high"]
    assert found["price_micro"] == 0
    assert "smoker" not in run("estimate", "sql", "select avg(smoker) as share from people").stdout
    (mean,) = run_json("estimate", "mean", "smoker")["rows"]
    assert mean["mean_low"] < mean["mean_high"]
    assert run_json("price", "count", "smoker")["estimate"]["value"] == found["value"]
    assert "you already know this: " in run("price", "count", "smoker").output
    assert run_json("price", "count", "age = 7")["estimate"] is None
    assert "do not tell this" in run("estimate", "count", "age = 7", code=2).output
    assert run_json("budget")["spent_micro"] == before


def test_budget_by_public_cell(asked):
    """Rows outside the north paid nothing for the north's question."""
    body = run_json("budget")
    spent = {c["cell"]["region"]: c["spent_micro"] for c in body["cells"]}
    assert spent == {"north": 4_000_000, "south": 3_000_000, None: 3_000_000}
    assert body["remaining_micro"] == 96_000_000
    assert "4 of 100 queries spent, 96 left" in run("budget").stdout


def test_history_in_words(asked):
    """The history shows each question as a person would write it."""
    text = " ".join(run("history", env={"COLUMNS": "160"}).stdout.split())
    assert "count where age > 40 and smoker" in text
    assert "count where region = 'north' and smoker" in text
    assert "count by age in 3 bins from 0 to 120" in text
    body = run_json("history", "--last", "1")
    assert [c["price"] for c in body["charges"]] == [2_000_000]


def test_history_before_anything(folder):
    """Before the first question the history says that there is none."""
    assert "nothing has been asked yet" in run("history", code=2).stderr


def test_verify_counts_the_entries(asked):
    """A whole chain is confirmed with its number of entries and its head."""
    body = run_json("verify")
    assert body["entries"] == 7  # the opening, three charges, three answers
    assert f"{body['entries']} entries" in run("verify").stdout


def test_the_ledger_can_be_looked_at_without_the_rows(asked):
    """budget, history, verify and report need the ledger only."""
    (asked / "people.parquet").unlink()
    for command in ("budget", "history", "verify", "report"):
        run(command)


def test_report_shows_everything_but_answers(asked):
    """The page has the promise, the questions and the spending, and no noisy answer."""
    page = run("report").stdout
    for text in ("73.1%", "count where age > 40 and smoker", "| region | category | north, south |",
                 "| north | 4 | 96 |", "7 entries", run_json("verify")["head"]):  # fmt: skip
        assert text in page
    assert "+/-" not in page
    assert "answers" not in run_json("report")


def test_report_with_answers_gives_what_was_answered(asked):
    """--answers shows the stored noisy numbers, the very ones the analyst saw."""
    run("mean", "income", "--where", "smoker")
    run("sql", "select region, count(*), avg(income), stddev(age) from people group by region")
    given = run_json("count", "age > 40 and smoker")["value"]
    rows = run_json("histogram", "age", "--bins", "3")["rows"]
    body = run_json("report", "--answers")
    assert None not in body["answers"].values()
    assert body["answers"]["1"][0]["values"] == [[given]]
    shown = body["answers"]["5"][0]["values"][: len(rows)]  # nobody can be in the last cell
    assert shown == [[row["count"]] for row in rows]
    page = run("report", "--answers").stdout
    assert f"{given:,.0f} +/- 105" in page
    assert "0 to 39" in page


def test_report_to_a_file(asked):
    """The report can be written to a file."""
    assert run("report", "--out", "report.md").stdout == ""
    assert (asked / "report.md").read_text().startswith("# Privacy report: people")
    run("report", "--out", "report.json", "--json")
    assert json.loads((asked / "report.json").read_text())["name"] == "people"
    assert "cannot be written" in run("report", "--out", "no/report.md", code=2).stderr


def test_refresh_goes_on_with_new_rows(asked):
    """Changed rows stop the database until the owner says so; spending stays."""
    pq.write_table(table(rows=400), asked / "people.parquet")
    assert "SourceChanged" in run("count", code=2).stderr
    said = run("refresh", "--reason", "rows of March", input="y\n")
    assert "400 rows; 4 of 100 queries spent" in said.stdout
    assert run_json("count", "age > 99")["remaining_micro"] == 95_000_000
    assert "rows of March" in run("report").stdout


def test_refresh_asks_first(asked):
    """A refresh changes nothing until someone agrees."""
    run("refresh", "--reason", "x", input="n\n", code=1)
    assert "--yes" in run_json("refresh", "--reason", "x", code=2)["error"]["message"]
    assert run_json("verify")["entries"] == 7
    assert run_json("refresh", "--reason", "x", "--yes")["rows"] == ROWS


def test_override_after_an_older_copy_was_restored(asked):
    """The older copy is refused; the owner may go on, and every report says so."""
    ledger = asked / "people.parquet.ledger"
    shutil.copy(ledger, asked / "copy")
    run("count", "age > 50")
    ledger.unlink()
    shutil.copy(asked / "copy", ledger)
    assert "sulq override" in run("count", code=1).stderr
    assert "--yes" in run("override", "--reason", "disk lost", code=2).stderr
    assert "reason" in run("override", "--reason", " ", "--yes", code=2).stderr
    body = run_json("override", "--reason", "disk lost", "--yes")
    assert body["number"] == 8  # the last entry that was seen
    run("count", "age > 60")
    page = run("report").stdout
    assert "disk lost" in page
    assert "beyond the promise" in page


def test_override_after_the_ledger_was_lost(asked):
    """A lost ledger is gone on from only by an override, which is logged."""
    (asked / "people.parquet.ledger").unlink()
    assert "is gone" in run("count", code=1).stderr
    assert "is gone" in run("budget", code=1).stderr
    run("override", "--reason", "disk lost", "--yes")
    assert run_json("budget")["spent_micro"] == 0
    assert "disk lost" in run("report").stdout
    run("count", "smoker")


def test_override_that_cannot_go_on_forgets_nothing(asked):
    """If a new ledger could not begin, the mark stays and the database stays stopped."""
    (asked / "people.parquet.ledger").unlink()
    (asked / "people.toml").rename("away.toml")
    run("override", "--reason", "disk lost", "--yes", code=2)
    (asked / "away.toml").rename("people.toml")
    assert "is gone" in run("count", code=1).stderr


def test_as_a_program(folder):
    """The installed command: JSON on stdout, notes on stderr, exit codes."""
    program = Path(sys.executable).with_name("sulq")
    good = subprocess.run([program, "count", "smoker", "--json"], capture_output=True, text=True)
    assert good.returncode == 0
    assert json.loads(good.stdout)["price_micro"] == 1_000_000
    bad = subprocess.run([program, "count", "nope"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")


# ---- a scan that failed ---------------------------------------------------------------------


@pytest.fixture
def stopped(asked, monkeypatch):
    """A folder whose database stopped: a scan failed in words that quote a row."""
    from sulq.engines.duckdb import DuckDBEngine

    with monkeypatch.context() as patch:
        patch.setattr(DuckDBEngine, "sums", lambda self, queries: int("joe@example.org"))
        failed = run("count", "age > 41", code=1)
    assert "EngineFailed" in failed.stderr
    assert "joe@" not in failed.output
    return asked


def test_a_stopped_database_is_shown_and_resumed(stopped):
    """budget, history and verify say what failed; resume wants a reason and is logged."""
    spent = run_json("budget")["spent_micro"]
    assert "Frozen: 'people' is frozen" in run("count", "age > 42", code=2).stderr
    assert run_json("count", "age > 42", code=2)["error"]["type"] == "Frozen"
    for command in ("budget", "history", "verify"):
        said = run(command).stderr
        assert "with ValueError. Nothing new is answered until you go on: sulq resume" in said
        assert "It was asked: count where age >= 42" in said
        found = run_json(command)["frozen"]
        assert (found["engine"], found["error"]) == ("DuckDB", "ValueError")
        assert "joe@" not in json.dumps(found)
    assert "--yes" in run("resume", "--reason", "mended", "--json", code=2).stdout
    assert "reason" in run("resume", "--reason", " ", "--yes", code=2).stderr
    assert "answers again" in run("resume", "--reason", "mended", "--yes").stdout
    assert "+/-" in run("count", "age > 41").stdout
    assert run_json("budget") == run_json("budget") | {"spent_micro": spent, "frozen": None}
    assert "nothing is frozen" in run("resume", "--reason", "again", "--yes", code=2).stderr


def test_the_report_tells_what_stopped_it(stopped):
    """A reviewer reads what failed and why it went on."""
    run("resume", "--reason", "mended in 1.1", "--yes")
    page = run("report").stdout
    assert "a scan failed on DuckDB with ValueError: count where age >= 42" in page
    assert "mended in 1.1" in page


def test_programs_are_asked_and_shown(folder):
    """A module's functions are called by name; the owner lists and reads what was run."""
    old = module("(param i32) (result i32) (i32.gt_s (local.get 0) (i32.const 65))")
    (folder / "old.wasm").write_bytes(old)
    asked = ("count", "f(age)", "--define", "old.wasm")
    assert "programs are off" in run(*asked, code=2).stderr
    assert "No question ran a program yet." in run("program", "list").stdout
    with (folder / "sulq.toml").open("a") as file:
        file.write("\nprograms = true\nprogram_fuel = 10000\n")
    assert "price 1 query" in run(*asked).stdout
    (found,) = run_json("program", "list")["programs"]
    assert found["functions"] == ["f(i32) -> i32"]
    shown = run("program", "show", found["hash"][:10], "--out", "again.wasm")
    assert f"f[{found['hash'][:8]}](age)" in shown.stdout
    assert (folder / "again.wasm").read_bytes() == old
    text = run("program", "show", found["hash"][:10], "--text").stdout
    assert "i32.const 65" in text
    assert "i32.gt_s" in text
    assert "no program whose hash begins" in run("program", "show", "zz", code=2).stderr
    assert f"f[{found['hash'][:8]}](age)" in run("history").stdout
    assert f"f[{found['hash'][:8]}](age)" in run("report").stdout
