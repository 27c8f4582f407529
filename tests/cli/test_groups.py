"""A group from a terminal: two settings files that name one group and one ledger."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from sulq.cli import app

SETTINGS = """\
source = "{name}.parquet"
schema = "schema.toml"
epsilon = 1.0
queries = 10
group = "patients"
ledger = "clinic.ledger"
"""
SCHEMA = """\
[columns.id]
key = true
[columns.sick]
type = "boolean"
nullable = false
"""


def run(*words):
    found = CliRunner().invoke(app, [*words])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_each_dataset_has_its_own_history_and_all_one_budget(tmp_path, monkeypatch):
    """budget, history, verify and report are about one dataset; T is the group's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    for i, name in enumerate(("people", "visits")):
        sick = [key % (i + 2) == 0 for key in range(50)]
        pq.write_table(pa.table({"id": range(50), "sick": sick}), f"{name}.parquet")
        (tmp_path / f"{name}.config.toml").write_text(SETTINGS.format(name=name))
        run("count", "sick", "--config", f"{name}.config.toml")
    found = json.loads(run("budget", "--config", "people.config.toml", "--json"))
    assert found["spent_micro"] == 2_000_000
    assert [m["name"] for m in found["group"]["members"]] == ["people", "visits"]
    said = run("budget", "--config", "visits.config.toml")
    assert "Counted over the group 'patients', which has one T: people 1, visits 1." in said
    assert run("history", "--config", "people.config.toml").count("count where sick") == 1
    assert "The chain is whole: 4 entries" in run("verify", "--config", "people.config.toml")
    assert "counted over the group 'patients'" in run("report", "--config", "people.config.toml")
