"""Offline: a list of questions, which could be answered together, which break it and why."""

import json

import pyarrow.parquet as pq
import pytest
from audit.harness import SCHEMA, audited, duan, opened_noisy, people
from typer.testing import CliRunner

import sulq
from sulq import settings_file as config
from sulq.audit import review
from sulq.cli import app

TABLE = people(4000)
QUERIES = [
    "c", "select count(*) from frame where b", "c and id <> 17", "c and id < 20", "not c",
    sulq.Query(where="c xor b"), "x >", "select avg(x) from frame", "select count(*), sum(x) from "
    "frame", "c or b",
]  # fmt: skip


def test_duan_says_which_and_why():
    """Low variation, or correlated with which earlier ones, by their numbers in the list."""
    db = duan(TABLE, queries=4, epsilon=4.0)
    found = review(QUERIES, db)
    assert [f.number for f in found.together] == [1, 2, 6, 8]
    kinds = {f.number: f.kind for f in found.broken}
    assert kinds == {
        3: "correlated", 4: "low variation", 5: "correlated", 7: "not allowed", 9: "correlated",
        10: "correlated",
    }  # fmt: skip
    why = {f.number: f.why for f in found}
    assert "#1 leave" in why[3]
    assert why[5].startswith("#1 leave 0 of it")
    assert "#6" in why[10]  # by its number in the list, not by its place among the answered
    assert "its norm is" in why[4]
    assert "not a SQL expression" in why[7]
    assert "4 of 10 questions could be answered together under rule='duan'" in str(found)
    assert db.budget.spent == 0
    assert db.history() == []


def test_classes_says_which_and_why():
    """A review names each question that would be refused, with its reason."""
    found = review(QUERIES, audited(TABLE))
    assert [f.number for f in found.broken] == [3, 4, 7, 8, 9]
    third = found.findings[2]
    assert third.kind == "too few alike"
    assert "would single out 1 row by id" in third.why
    assert "#3 count where id <> 17 and c: refused, too few alike" in str(found)
    assert len(found) == 10
    assert json.loads(json.dumps(found.to_json()))["together"] == 5


def test_a_review_begins_anew():
    """It judges the list by itself, not beside what the database has answered."""
    db = audited(TABLE)
    db.count("a")
    assert review(["a and id <> 17"], db).findings[0].ok
    assert review([], db).findings == ()


def test_a_review_needs_audited_terms():
    """A noisy database, and what is no list, are refused."""
    with pytest.raises(sulq.Refused, match="mode='audited'"):
        review(["a"], opened_noisy(TABLE))
    with pytest.raises(sulq.Refused, match="want a list"):
        review("a", audited(TABLE))


# --- the command ----------------------------------------------------------------------------------

SQL = """\
-- how many; a semicolon in a comment is none
select count(*) from people where c;
select count(*) from people where c and region not like 'no;rth';
select count(*) from people where c and id <> 17; ;
select sum(x) from people
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pq.write_table(TABLE, tmp_path / "people.parquet")
    lines = []
    for name, column in SCHEMA.items():
        lines += [f"[columns.{name}]", *(f"{k} = {json.dumps(v)}" for k, v in column.items())]
    (tmp_path / "people.toml").write_text("\n".join(lines))
    (tmp_path / "queries.sql").write_text(SQL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, ["audit", *words], env={"COLUMNS": "100", "NO_COLOR": "1"})


DATA = ("--data", "people.parquet", "--schema", "people.toml")


def test_the_command_reviews_a_file(folder):
    """`sulq review` says of every statement whether it would be answered."""
    result = run("queries.sql", *DATA, "--prior", "c=0.4..0.6")
    assert result.exit_code == 0, result.output
    assert "#1 count where c: answered" in result.output
    assert "#3 count where id <> 17 and c: refused" in result.output
    assert "#4 select sum(x) from people: refused, not allowed" in result.output
    assert "2 of 4 questions could be answered together under rule='classes'" in result.output
    assert sorted(p.name for p in folder.iterdir()) == [
        "people.parquet", "people.toml", "queries.sql",
    ]  # fmt: skip


def test_the_command_with_the_papers_rule_and_json(folder):
    """The rule is an option, and the outcome may be JSON."""
    words = ("--rule", "duan", "--epsilon", "4", "--known", "0", "--json")
    body = json.loads(run("queries.sql", *DATA, *words).stdout)
    assert body["rule"] == "duan"
    assert [f["ok"] for f in body["findings"]] == [True, False, False, True]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.sql", *DATA), "cannot be read"),
        (("empty.sql", *DATA), "has no statement"),
        (("open.sql", *DATA), "not closed"),
        (("queries.sql", *DATA), "no default"),
        (("queries.sql", *DATA, "--prior", "c"), "want column=0.3"),
        (("queries.sql", *DATA, "--prior", "c=0.1..0.2..0.3"), "want column=0.3"),
        (("queries.sql",), "which table"),
    ],
)
def test_the_command_says_what_is_missing(folder, words, said):
    """It ends with 2 and names what is wrong."""
    (folder / "empty.sql").write_text(" -- nothing\n;")
    (folder / "open.sql").write_text("select 'a")
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.output


def test_settings_of_the_mode_live_in_sulq_toml(folder):
    """With mode = "audited" in it, every command asks the audited table."""
    (folder / config.FILE).write_text(
        'source = "people.parquet"\nschema = "people.toml"\nepsilon = 1.0\nqueries = 20\n'
        'mode = "audited"\nindependent_rows = true\ndither = 0\n[priors]\nc = [0.4, 0.6]\n'
    )
    asked = CliRunner().invoke(app, ["count", "c"])
    assert asked.exit_code == 0, asked.output
    assert "+/- 0 (95%), price 1 query, 19 left" in asked.output
    refused = CliRunner().invoke(app, ["count", "c and id <> 3", "--json"])
    assert refused.exit_code == 2
    assert json.loads(refused.stdout)["error"] | {"message": ""} == {
        "type": "AuditRefused", "message": "", "charged": True,
    }  # fmt: skip
    again = CliRunner().invoke(app, ["count", "c and id <> 3", "--json"])
    assert json.loads(again.stdout)["error"]["charged"] is False
    page = CliRunner().invoke(app, ["report", "--answers"])
    assert "refused: this would single out 1 row by id" in page.output
    changed = CliRunner().invoke(app, ["refresh", "--reason", "more", "--yes"])
    assert "audited answers are exact" in changed.output
    for wrong in ('independent_rows = "yes"', "priors = 3", "known = true"):
        (folder / config.FILE).write_text(wrong)
        assert CliRunner().invoke(app, ["budget"]).exit_code == 2
