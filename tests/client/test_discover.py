"""Values that nobody listed, asked over HTTP and from a terminal."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server.instance import made
from typer.testing import CliRunner

import sulq
from sulq.cli import app

SCHEMA = {"columns": {"word": {"type": "text"}, "age": {"type": "integer", "low": 0, "high": 9}}}


def rows():
    words = np.repeat(["flu", "cold", "rare"], [3000, 2000, 1])
    return pa.table({"word": words, "age": np.arange(5001) % 10})


def test_the_client_gets_what_the_server_found(tmp_path):
    """The same names and numbers, the same price; one value alone keeps its name."""
    terms = {"discoveries": 3, "queries": 30}
    with (
        made(tmp_path / "i", rows(), SCHEMA, **terms).serving() as served,
        sulq.connect(served.url, served.keys["bob"], "people") as db,
    ):
        assert db.promise.discoveries == 3
        assert db.price(sulq.Query(sulq.Discover("word"))).queries == 2
        found = db.discover("word")
        assert found["word"] == ["flu", "cold"]
        assert db.discover("word").columns == found.columns  # stored, and so free
        assert db.budget.spent == 2
        alone = db.sql(
            "select word, count(*) from people where word <> 'cold' group by word(discover => true)"
        )
        assert alone["word"] == ["flu"]
        with pytest.raises(sulq.QueryNotAllowed, match="declared integer"):
            db.discover("age")


def test_a_terminal_shows_the_price_and_the_values(tmp_path):
    """sulq discover, with the share in sulq.toml."""
    pq.write_table(rows(), tmp_path / "t.parquet")
    (tmp_path / "t.toml").write_text(
        '[columns.word]\ntype = "text"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 9\n'
    )
    (tmp_path / "sulq.toml").write_text(
        'source = "t.parquet"\nschema = "t.toml"\nepsilon = 1.0\nqueries = 30\ndiscoveries = 2\n'
    )
    where = ["--config", str(tmp_path / "sulq.toml"), "--json"]

    def run(*said):
        found = CliRunner().invoke(app, ["discover", "word", *said, *where])
        return json.loads(found.stdout)

    assert run("--price") == {"price_micro": 2_000_000}
    assert [row["word"] for row in run("--at-least", "1000")["rows"]] == ["flu", "cold"]
