"""Parquet files that unpack to far more than they seem: refused before, or in little memory."""

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from server.instance import made, rows

from sulq.errors import SchemaError
from sulq.sources import parquet_bounds
from sulq.sources.parquet_bounds import check_footer, check_unpacked

PEAK = "open('/proc/self/status').read().split('VmHWM:')[1].split()[0]"  # kB, of this program only
SCHEMA = {"columns": {"age": {"type": "integer", "low": 0, "high": 120}}}
WORDS = {"columns": {"age": {"type": "text"}}}


def run_lengths(path, count=120_000_000):
    """One value, very often: a run of it is a few bytes, whatever its length."""
    ages = pa.repeat(pa.scalar(34, pa.int8()), 10_000_000)
    table = pa.table({"age": ages})
    how = {"compression": "zstd", "data_page_size": 1 << 30, "write_batch_size": 1 << 26}
    with pq.ParquetWriter(path, table.schema, **how) as file:
        for _ in range(count // len(ages)):
            file.write_table(table, row_group_size=len(ages))
    return path


def _peak():
    """The most memory that this process has had, in kB."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


LARGE_PAGE = """
import sys, pyarrow as pa, pyarrow.parquet as pq
how = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
table = pa.table({"age": pa.array(["y" * 500_000] * 600)})
pq.write_table(table, sys.argv[1], data_page_size=1 << 31, write_batch_size=100_000, **how)
"""


def large_page(path):
    """One page of texts that unpacks to 300 MB, written by another process."""
    subprocess.run([sys.executable, "-c", LARGE_PAGE, str(path)], check=True, timeout=120)


def dictionary(path, length, count):
    """One long text that many rows refer to."""
    words = pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array(["x" * length])
    )
    pq.write_table(
        pa.table({"age": words}), path, compression="zstd", dictionary_pagesize_limit=1 << 30
    )
    return path


@pytest.fixture(scope="module")
def crafted(tmp_path_factory):
    """The files in a folder of their own."""
    folder = tmp_path_factory.mktemp("crafted")
    run_lengths(folder / "runs.parquet")
    large_page(folder / "page.parquet")
    dictionary(folder / "long.parquet", 2_000_000, 100)
    dictionary(folder / "many.parquet", 200_000, 10_000)
    assert max(path.stat().st_size for path in folder.iterdir()) < 700_000
    return folder


def test_a_run_of_one_value_is_refused_from_the_footer(crafted, monkeypatch):
    """The limit is said, and no row is read."""
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", None)
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    with pytest.raises(SchemaError, match=r"120,000,000 rows of 1 columns.*at most 100,000,000"):
        check_footer(crafted / "runs.parquet")


@pytest.mark.parametrize(
    ("name", "words"),
    [("page", "within 134,217,728 bytes"), ("long", "more than 1,000,000 bytes"),
     ("many", "unpack to more than 1,000,000,000 bytes")],
)  # fmt: skip
def test_what_the_footer_does_not_tell_is_refused_in_little_memory(crafted, name, words):
    """A process of its own reads it, and its peak of memory stays below a bound."""
    path = str(crafted / f"{name}.parquet")
    check_footer(crafted / f"{name}.parquet")  # control: the footer is plausible
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from sulq.sources import parquet_bounds\n"
        "parquet_bounds.MEMORY_BYTES = 2**27\n"
        "try: parquet_bounds.check_unpacked(Path(sys.argv[1]))\n"
        "except Exception as error: print(error)\n"
        f"print({PEAK})"
    )
    run = [sys.executable, "-c", code, path]
    said, peak = subprocess.run(
        run, capture_output=True, text=True, check=True, timeout=120
    ).stdout.rsplit("\n", 2)[:2]
    assert words in said
    assert int(peak) < 300_000  # kB, of which the libraries take about 100,000


def test_control_the_same_page_takes_much_more_without_a_bound(crafted):
    """DuckDB unpacks a page whole, so that the bound above is what holds."""
    code = (
        "import duckdb, sys\n"
        "duckdb.sql(f\"SELECT max(strlen(age)) FROM '{sys.argv[1]}'\").fetchall()\n"
        f"print({PEAK})"
    )
    run = [sys.executable, "-c", code, str(crafted / "page.parquet")]
    found = subprocess.run(run, capture_output=True, text=True, check=True, timeout=120)
    assert int(found.stdout) > 350_000


def test_footers_that_are_none_or_too_long_are_refused_unread(tmp_path, monkeypatch):
    """Before a parser meets them."""
    monkeypatch.setattr(pq, "ParquetFile", None)
    path = tmp_path / "a.parquet"
    for content, words in [
        (b"", "cannot be read"), (b"PAR1 no more", "cannot be read"),
        (b"PAR1" + (2_000_000_000).to_bytes(4, "little") + b"PAR1", "footer has 2,000,000,000"),
    ]:  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(SchemaError, match=words):
            check_footer(path)


def test_plain_files_pass(tmp_path):
    """Rows of people, columns that no question reads, no rows at all, and a CSV."""
    odd = pa.table({"a b": [[1, 2], [3]], "t": ["x", None], "f": [1.5, None], "n": [None, None]})
    for table in (None, odd, odd.slice(0, 0)):
        path = rows(tmp_path / "people.parquet", table)
        check_footer(path)
        check_unpacked(path)
    (tmp_path / "a.csv").write_text("age\n1\n")
    check_footer(tmp_path / "a.csv")
    check_unpacked(tmp_path / "a.csv")


# ---- at every route that reads a file an owner names -------------------------------------------


@pytest.fixture(scope="module")
def served(crafted, tmp_path_factory):
    instance = made(tmp_path_factory.mktemp("bounds") / "instance")
    for path in crafted.iterdir():
        (instance.folder / "data" / path.name).write_bytes(path.read_bytes())
    with instance.serving() as found:
        yield found


PROMISE = {"name": "new", "schema": SCHEMA, "epsilon": 1.0, "delta": 1e-6, "queries": 100}
ROUTES = {
    "draft": ("/v1/draft", "source", {}),
    "check": ("/v1/check", "source", {"schema": SCHEMA}),
    "create": ("/v1/datasets", "source", PROMISE),
    "simulate": ("/v1/datasets", "simulate", PROMISE | {"source": "people.parquet"}),
    "append": ("/v1/datasets/people/append", "rows", {"reason": "new rows"}),
}


@pytest.mark.parametrize("route", ROUTES)
def test_no_route_reads_what_the_footer_refuses(served, route):
    """Refused in the words of the bound, wherever a file is named."""
    path, field, body = ROUTES[route]
    found = served.call("POST", path, body | {field: "runs.parquet"}, "anna")
    assert found.status == 422
    assert "100,000,000" in found.json["error"]["message"]


@pytest.mark.parametrize("name", ["runs", "page", "long", "many"])
def test_an_upload_is_read_once_in_little_memory(served, crafted, name, monkeypatch):
    """None of them arrives."""
    monkeypatch.setattr(parquet_bounds, "MEMORY_BYTES", 2**27)
    content = (crafted / f"{name}.parquet").read_bytes()
    found = served.call("PUT", f"/v1/files/{name}2.parquet", content, "anna")
    assert found.status == 422
    assert "Nothing was kept" in found.json["error"]["message"]
    assert not (served.folder / "data" / "anna" / f"{name}2.parquet").exists()


def test_a_check_keeps_to_its_memory(served, monkeypatch):
    """A page that is too large ends it, in words; the server goes on."""
    monkeypatch.setattr(parquet_bounds, "MEMORY_BYTES", 2**27)
    before = _peak()
    body = {"source": "page.parquet", "schema": WORDS}
    found = served.call("POST", "/v1/check", body, "anna")
    assert "could not be read to the end" in found.json["error"]["message"]
    assert _peak() - before < 200_000  # kB
    assert parquet_bounds._memory_bytes.get() is None
