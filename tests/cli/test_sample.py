"""sulq sample draws synthetic rows from a model, and spends nothing."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest
from learn.test_synthesizer import COLUMNS, database
from typer.testing import CliRunner

from sulq.cli import app
from sulq.learn import PCA, Synthesizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample")
    Synthesizer().fit(database(), columns=COLUMNS).save(folder / "model.json")
    PCA(1).fit(database(), columns=["age", "school"]).save(folder / "pca.json")
    return folder


def run(folder, *words):
    return CliRunner().invoke(app, ["sample", *(str(folder / w) for w in words[:2]), *words[2:]])


def test_rows_are_written_and_their_errors_said(folder):
    """`sulq sample` writes as many rows as asked, with the error of each table."""
    found = run(folder, "model.json", "rows.parquet", "--rows", "300", "--json")
    assert found.exit_code == 0, found.output
    body = json.loads(found.stdout)
    assert body["rows"] == pq.read_table(folder / "rows.parquet").num_rows == 300
    assert len(body["errors"]) == 15
    assert body["note"].startswith("SYNTHETIC")
    said = run(folder, "model.json", "rows.parquet", "--rows", "300")
    assert "age by pay: noise " in said.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("model.json", "rows.csv"), "want a .parquet file"),
        (("pca.json", "rows.parquet"), "is a PCA, want a Synthesizer"),
        (("none.json", "rows.parquet"), "cannot be read"),
        (("model.json", "rows.parquet", "--rows", "0"), "rows=0"),
    ],
)
def test_what_is_refused(folder, words, why):
    """The command fails and says why."""
    found = run(folder, *words)
    assert found.exit_code != 0
    assert why in found.output.replace("\n", " ")
