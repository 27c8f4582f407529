"""Rows of new periods, taken in by a server: by its owner, logged, measured again."""

import json

import pandas as pd
import pyarrow as pa
import pytest
from server.console.page_client import PageClient, plain
from server.instance import made
from test_append_rows import MONTHS, SCHEMA, rows
from typer.testing import CliRunner

import sulq
from sulq.cli import app
from sulq.errors import MICRO

D = "/v1/datasets/people"


def table(*months):
    return pa.Table.from_pandas(pd.concat([rows(m) for m in months]), preserve_index=False)


@pytest.fixture
def made_here(tmp_path):
    return made(tmp_path / "i", table(MONTHS[0]), SCHEMA, queries=100)


def test_the_owner_appends_and_totals_go_on(made_here):
    """From a file of theirs; each month has spent its own, and all of it is logged."""
    path = made_here.folder / "data" / "feb.parquet"
    rows(MONTHS[1]).to_parquet(path)
    with made_here.serving(padding=True) as served:
        with (
            sulq.connect(served.url, served.keys["bob"], "people") as bob,
            sulq.connect(served.url, served.keys["anna"], "people") as anna,
        ):
            first = bob.running("count(*)", "sick").exact
            before = pace(made_here)
            with pytest.raises(sulq.NotPermitted):
                bob.append("feb.parquet")
            with pytest.raises(sulq.SchemaError):
                anna.append("nothing.parquet")
            with pytest.raises(sulq.Refused, match="names a file"):
                anna.append(rows(MONTHS[1]))
            grown = anna.append("feb.parquet", reason="rows of February")
            assert grown.rows == 40
            assert bob.periods == MONTHS[:2]
            after = bob.running("count(*)", "sick").exact
            assert after[:1] == first
            assert len(after) == 2
            by_month = {c["month"]: c["spent"] for c in anna.budget_by_cell()}
            assert by_month[MONTHS[0]] == 1 > by_month[MONTHS[1]] > 0
        said = served.call("GET", D, who="anna").json
        assert [d["kind"] for d in said["decisions"]] == ["open", "append"]
        assert said["decisions"][-1]["reason"] == "rows of February"
        timeline = served.call("GET", f"{D}/timeline", who="anna").json
        assert "rows of new periods were taken in" in json.dumps(timeline)
        log = served.call("GET", "/v1/audit-log", who="anna").body
        assert b"took in rows of new periods" in log or b'"append"' in log
        assert (before["rows"], pace(made_here)["rows"]) == (20, 40)  # measured again


def pace(instance):
    with instance.services() as services:
        (row,) = services.registry.all("SELECT pace FROM datasets WHERE name = 'people'")
    return json.loads(row["pace"])


def test_what_is_no_append_is_refused_and_it_goes_on(made_here):
    """Old months with rows in the file, a changed row, a table without periods."""
    rows(MONTHS[0]).to_parquet(made_here.folder / "data" / "again.parquet")
    with made_here.serving() as served:
        wrong = served.call("POST", f"{D}/append", {"reason": "x", "rows": "again.parquet"}, "anna")
        assert (wrong.status, wrong.error) == (409, "Refused")
        assert served.ask("sick").status == 200
        none = served.call("POST", "/v1/datasets/secrets/append", {"reason": "x"}, "carl")
        assert none.error == "SchemaError"
        rows(MONTHS[0]).assign(age=1).to_parquet(made_here.folder / "data" / "people.parquet")
        changed = served.call("POST", f"{D}/append", {"reason": "x"}, "anna")
        assert (changed.status, b"older periods changed" in changed.body) == (409, True)
        assert served.ask("age > 3").error == "SourceChanged"


def test_from_a_terminal_beside_a_server(made_here, tmp_path):
    """sulq dataset append: the next question is about the new rows too."""
    new = tmp_path / "feb.parquet"
    rows(MONTHS[1]).to_parquet(new)
    with made_here.serving() as served:
        assert served.ask("sick").status == 200
        where = ["--dir", str(made_here.folder), "--owner", "anna", "--json"]
        found = CliRunner().invoke(app, ["dataset", "append", "people", str(new), *where])
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout)["periods"] == MONTHS[:2]
        statuses = [served.ask(f"age > {i}").status for i in range(3)]
        assert statuses[-1] == 200
        cells = served.call("GET", f"{D}/budget").json["cells"]
        spent = {c["cell"]["month"]: c["spent_micro"] for c in cells}
        assert spent[MONTHS[0]] > spent[MONTHS[1]] >= MICRO


def test_from_the_console(made_here):
    """A form for the owner, where rows arrive by periods."""
    rows(MONTHS[1]).to_parquet(made_here.folder / "data" / "feb.parquet")
    page = "/console/datasets/people/owner"
    with made_here.serving():
        anna = PageClient(made_here, "anna")
        assert "New periods" in plain(anna.get(page))
        form = {"rows": "feb.parquet", "why_append": "rows of February"}
        assert anna.post(f"{page}/append", form).status == 303
        found = plain(anna.get(page))
        assert "rows of new periods taken in" in found
        assert "the last one 2026-02" in found
