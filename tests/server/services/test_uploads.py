"""Files that owners send: streamed into their own folder, whole and readable or not at all."""

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from server.console.page_client import PageClient
from server.instance import made

from sulq.errors import LimitReached
from sulq.server.services import uploads

ROWS = b"age,city\n34,Rome\n51,Oslo\n"
MANY = b"age,city\n" + b"34,Rome\n" * 300_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    folder = tmp_path_factory.mktemp("uploads") / "instance"
    with made(folder).serving(upload_bytes=3_000_000, read_seconds=1.0) as served:
        yield served


def put(instance, name, body=ROWS, who="anna"):
    """Send a file, as soon as one that was cut off is noticed to be gone."""
    while (sent := instance.call("PUT", f"/v1/files/{name}", body, who)).status == 429:
        pass
    return sent


def left(instance):
    """All that lies in anna's folder, hidden or not."""
    folder = instance.folder / "data" / "anna"
    return sorted(p.name for p in folder.iterdir()) if folder.exists() else []


def test_a_file_arrives_and_can_be_used(instance):
    """What was sent is there to the byte, for its owner only, and a dataset is made of it."""
    sent = put(instance, "survey.csv", MANY)
    assert (sent.status, sent.json) == (201, {"source": "anna/survey.csv", "bytes": len(MANY)})
    path = instance.folder / "data" / "anna" / "survey.csv"
    assert path.read_bytes() == MANY
    assert path.stat().st_mode & 0o077 == 0
    found = instance.call("GET", "/v1/sources", None, "anna").json
    assert found["upload_bytes"] == 3_000_000
    assert {"name": "anna/survey.csv", "bytes": len(MANY), "dataset": None}.items() <= next(
        f for f in found["listed"] if f["name"] == "anna/survey.csv"
    ).items()
    assert "anna/survey.csv" not in instance.call("GET", "/v1/sources", None, "carl").json["files"]
    drafted = {"source": "anna/survey.csv"}
    assert instance.call("POST", "/v1/draft", drafted, "carl").status == 422
    columns = instance.call("POST", "/v1/draft", drafted, "anna").json["columns"]
    assert [c["type"] for c in columns] == [None, None]  # no row is read without being asked to
    columns = instance.call("POST", "/v1/draft", drafted | {"guess": True}, "anna").json["columns"]
    assert [(c["type"], c["guessed"]) for c in columns] == [("integer", True), ("text", True)]


@pytest.mark.parametrize(
    "name", ["..%2Fserver.db", "%2Fetc%2Fx.csv", ".hidden.csv", "a%00.csv", "x.exe", "x.csv.gz",
             "x" * 120 + ".csv", "a%2Fb.csv", "%2e%2e%2fx.csv", "con%5Cx.csv"],
)  # fmt: skip
def test_nobody_chooses_a_path(instance, name):
    """A name that is more than a name, or another kind of file, is refused; nothing is written."""
    before = left(instance), sorted(os.listdir(instance.folder / "data"))
    assert put(instance, name).status in (404, 422)
    assert (left(instance), sorted(os.listdir(instance.folder / "data"))) == before


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [("large.csv", b"a\n" + b"1\n" * 1_600_000, 413), ("empty.csv", b"", 422),
     ("wrong.parquet", b"PAR1 no more", 422), ("header.csv", b"\n1,2\n", 422)],
)  # fmt: skip
def test_what_cannot_be_used_leaves_nothing_behind(instance, name, body, status):
    """Too large, empty, or not what its name says: refused, and no trace of it stays."""
    before = left(instance)
    assert put(instance, name, body).status == status
    assert left(instance) == before


def test_a_name_is_used_once(instance):
    """A second file of the same name replaces nothing."""
    assert put(instance, "once.csv").status == 201
    assert put(instance, "once.csv", b"other\n1\n").status == 409
    assert (instance.folder / "data" / "anna" / "once.csv").read_bytes() == ROWS


def test_a_file_that_ends_in_the_middle_leaves_nothing(instance):
    """Whoever hangs up has sent nothing."""
    before, parts = left(instance), urlsplit(instance.url)
    with socket.create_connection((parts.hostname, parts.port)) as sent:
        head = (f"PUT /v1/files/half.csv HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n"
                f"authorization: Bearer {instance.keys['anna']}\r\n\r\n")  # fmt: skip
        sent.sendall(head.encode() + ROWS)
    put(instance, "after.csv")
    assert left(instance) == sorted([*before, "after.csv"])


def test_a_file_that_dribbles_is_cut_off(instance):
    """It must go on arriving; one that does not is refused after `read_seconds`."""
    parts = urlsplit(instance.url)
    with socket.create_connection((parts.hostname, parts.port)) as sent:
        head = (f"PUT /v1/files/slow.csv HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n"
                f"authorization: Bearer {instance.keys['anna']}\r\n\r\n")  # fmt: skip
        sent.sendall(head.encode())
        assert b" 408 " in sent.recv(1000)


def test_only_a_file_of_no_dataset_is_removed(instance):
    """What a dataset is made of stays, and so does what is another's or elsewhere."""
    assert put(instance, "gone.csv").status == 201
    assert instance.call("DELETE", "/v1/files/gone.csv", None, "carl").status == 404
    assert instance.call("DELETE", "/v1/files/gone.csv", None, "anna").status == 200
    assert "gone.csv" not in left(instance)
    for name in ("..%2Fpeople.parquet", "people.parquet", "..%2F..%2Fserver.db"):
        assert instance.call("DELETE", f"/v1/files/{name}", None, "anna").status == 404
    put(instance, "kept.csv")
    body = {"name": "kept", "source": "anna/kept.csv", "epsilon": 1.0, "queries": 9,
            "schema": {"columns": {"age": {"type": "integer", "low": 0, "high": 99}}}}  # fmt: skip
    assert instance.call("POST", "/v1/datasets", body, "anna").status == 201
    assert instance.call("DELETE", "/v1/files/kept.csv", None, "anna").status == 409


def test_no_uploads_where_none_are_wanted(tmp_path):
    """`upload_bytes = 0` takes none, and the page does not offer it."""
    with made(tmp_path / "instance").serving(upload_bytes=0) as instance:
        assert put(instance, "a.csv").status == 409
        assert b'type="file"' not in PageClient(instance, "anna").get("/console/new").body


def test_a_disk_is_not_filled(tmp_path, monkeypatch):
    """Room for ledgers is kept."""
    sent = uploads.Upload(tmp_path / "a.csv", (tmp_path / "a.csv").open("wb"), 10**9)
    usage = type("Usage", (), {"free": uploads.SPARE_BYTES + 5})
    monkeypatch.setattr(uploads.shutil, "disk_usage", lambda _: usage)
    sent.write(b"12345")
    with pytest.raises(LimitReached, match="nearly full"):
        sent.write(b"123456")
    sent.file.close()


def test_what_a_stopped_server_left_is_cleared(instance, monkeypatch):
    """Half a file of yesterday goes when the next one comes."""
    old = instance.folder / "data" / "anna" / f"{uploads.PART}old"
    old.mkdir(parents=True)
    Path(old, "half.csv").write_text("a")
    os.utime(old, (0, 0))
    assert put(instance, "next.csv").status == 201
    assert not old.exists()
