"""Parquet files that a log of Delta, Iceberg or Hudi decides about are not read as they lie.

After one overwrite a Delta table has the old files still beside the new ones: read as plain
Parquet it has 100,000 rows where the table has 50,000.
"""

import json

import numpy as np
import pandas as pd
import pytest
from cli.calls import run
from server.instance import PROMISE, made

import sulq
from sulq.data_check import check_data
from sulq.ledger.types import Group
from sulq.open_database import append, refresh
from sulq.sources.lake_tables import check_plain

ROWS = 50_000
SCHEMA = {"columns": {"id": {"key": True}, "age": {"type": "integer", "low": 0, "high": 99}}}
TOML = '[columns.id]\nkey = true\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 99\n'
TERMS = {"epsilon": 1.0, "queries": 10}
LOGS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00001-5d3f.metadata.json",
    "Iceberg of Hadoop": "metadata/version-hint.text",
    "Iceberg, packed": "metadata/00001-5d3f.metadata.json.gz",
    "Hudi": ".hoodie/hoodie.properties",
}


def frame(first=0, rows=ROWS):
    return pd.DataFrame({"id": np.arange(first, first + rows), "age": np.arange(rows) % 100})


def lake(folder, log=LOGS["Delta"], rows=ROWS):
    """A table that was written and overwritten once: both files are still there."""
    inside = folder / "data" if "metadata" in log else folder
    inside.mkdir(parents=True)
    for part in range(2):
        frame(part * rows, rows).to_parquet(inside / f"part-{part}.parquet")
    (folder / log).parent.mkdir()
    (folder / log).write_text(json.dumps({"remove": {"path": "part-0.parquet"}}))
    return folder


def refused(work, table="people"):
    with pytest.raises(sulq.SchemaError, match="log says which of them count") as caught:
        work()
    said = str(caught.value)
    assert f"{table!r} has" in said
    assert "Nothing was charged" in said
    assert "Open rows without a log" in said
    return said


def test_control_the_plain_folder_of_release_2_has_twice_the_rows(tmp_path):
    """Without its log nothing tells; so the log is what decides."""
    folder = lake(tmp_path / "people")
    (folder / LOGS["Delta"]).unlink()
    (folder / "_delta_log").rmdir()
    with sulq.open(folder, SCHEMA, **TERMS) as db:
        assert db.rows == 2 * ROWS


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
@pytest.mark.parametrize(
    "place",
    [
        "people",  # the folder itself
        "",  # one above it
        "people/**/part-*.parquet",  # a pattern
        "people/part-1.parquet",  # one file of it
        "link.parquet",  # a link to that
        "linked",  # a folder of links
    ],
)
def test_no_way_to_its_files_reads_them(log, place, tmp_path):
    """Folder, parent, pattern, file, link: refused with the name of the table and the mend."""
    folder = lake(tmp_path / "people", log, rows=10)
    inside = folder / "data" if "metadata" in log else folder
    (tmp_path / "link.parquet").symlink_to(inside / "part-1.parquet")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "a.parquet").symlink_to(inside / "part-1.parquet")
    asked = place.replace("people/part", f"{inside.relative_to(tmp_path)}/part")
    refused(lambda: sulq.open(tmp_path / asked, SCHEMA, **TERMS))


def test_every_door_refuses(tmp_path, monkeypatch):
    """Open, check, refresh, append, groups, tables and the command line."""
    folder = lake(tmp_path / "people", rows=10)
    frame(rows=10).to_parquet(tmp_path / "plain.parquet")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.toml").write_text(TOML)
    kept = tmp_path / "plain.parquet.ledger"
    sulq.open("plain.parquet", SCHEMA, **TERMS).close()
    star = {
        "unit": {"column": "id"},
        "tables": {"part-0": {"columns": {"age": SCHEMA["columns"]["age"]}}},
    }
    group = Group("everybody", str(tmp_path / "g.ledger"))
    for door in (
        lambda: check_data(folder, SCHEMA),
        lambda: refresh(folder, SCHEMA, ledger=kept, reason="new"),
        lambda: append(folder, frame(99, 5), ledger=kept),
        lambda: sulq.open(folder, star, **TERMS),
        lambda: sulq.open(folder, SCHEMA, group=group, **TERMS),
        lambda: sulq.open(folder / "part-1.parquet", SCHEMA, engine="reference", **TERMS),
    ):
        refused(door)
    for command in (
        ["schema", "draft", folder],
        ["schema", "check", "people.toml", "--data", folder],
        ["encode", folder, "people.sulq", "--schema", "people.toml"],
        ["init", folder / "part-1.parquet"],
        ["count", "age > 30", "--data", folder, "--schema", "people.toml", "--epsilon", "1"],
    ):
        said = run(*command, code=2).output
        assert "log says which of them count" in " ".join(said.replace("│", " ").split()), command
    assert not (tmp_path / "people.ledger").exists()
    assert not (tmp_path / "people.sulq").exists()


def test_a_server_refuses(tmp_path):
    """A dataset of one of its files, over HTTP and by command; and an upload among them."""
    instance = made(tmp_path / "instance")
    folder = lake(instance.folder / "data" / "lake", rows=10)
    (tmp_path / "s.toml").write_text(TOML)
    said = ["--dir", instance.folder, "--schema", tmp_path / "s.toml"]
    promise = ["--epsilon", "1", "--queries", "9"]
    done = run("dataset", "add", folder / "part-1.parquet", *said, *promise, code=2)
    assert "log says which of them count" in " ".join(done.output.split())
    with instance.serving(upload_bytes=10**6) as served:
        body = {"name": "new", "source": "lake/part-1.parquet", "schema": SCHEMA} | PROMISE
        found = served.call("POST", "/v1/datasets", body, "anna")
        assert (found.status, found.error) == (422, "SchemaError"), found.body
        assert str(tmp_path) not in found.json["error"]["message"]
        (instance.folder / "data" / "anna" / "_delta_log").mkdir(parents=True)
        data = (folder / "part-1.parquet").read_bytes()
        sent = served.call("PUT", "/v1/files/b.parquet", data, "anna",
                           Content_Type="application/octet-stream")  # fmt: skip
        assert sent.status == 422, sent.body


def test_what_only_looks_like_a_log_is_read(tmp_path):
    """A folder called metadata with other files, a file beside a table: nothing is refused."""
    lake(tmp_path / "people", rows=10)
    (tmp_path / "metadata").mkdir()
    (tmp_path / "metadata" / "notes.json").write_text("{}")
    frame(rows=10).to_parquet(tmp_path / "plain.parquet")
    check_plain([tmp_path / "plain.parquet"])
    with sulq.open(tmp_path / "plain.parquet", SCHEMA, **TERMS) as db:
        assert db.rows == 10
