"""A Spark of the tests' own: a small cluster whose workers are processes apart.

One is begun when first needed and ended with the tests that use it; no two run at once. Java is
the machine's: `make test` installs one where there is none and it may.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

CLUSTER = "local-cluster[2,1,1024]"  # two workers, a core and a gigabyte each
JAVA = "openjdk-17-jre-headless"
MISSING = f"Spark needs pyspark and a Java: pip install 'sulq[spark]', apt-get install {JAVA}"
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # for a Java that lives a minute
MANY_ROWS = 100_000  # more are read from a file
LOCK = Path(tempfile.gettempdir()) / f"sulq-spark-{os.getuid()}.lock"
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "2",
    "spark.task.maxFailures": "4",
}


def here() -> bool:
    """Are pyspark and a Java there?"""
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    return importlib.util.find_spec("pyspark") is not None and java is not None


def need() -> None:
    """Fail on a CI machine without Spark, and skip elsewhere."""
    if here():
        return
    if os.environ.get("CI") == "true":
        pytest.fail(MISSING, pytrace=False)
    pytest.skip(MISSING)


@contextmanager
def cluster(master: str = CLUSTER, java_options: str = BRIEF):
    """A session on a new cluster, while no other test of this machine has one."""
    need()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with LOCK.open("w") as handle, tempfile.TemporaryDirectory(prefix="sulq-spark-") as folder:
        fcntl.flock(handle, fcntl.LOCK_EX)
        session = started(folder, master, java_options)
        try:
            yield session
        finally:
            stop(session)


def started(folder: str, master: str, java_options: str):
    from pyspark.sql import SparkSession

    made = SparkSession.builder.master(master).appName("sulq tests")
    places = {
        "spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.local.dir": f"{folder}/local",
        "spark.driver.extraJavaOptions": f"{java_options} -Dderby.system.home={folder}",
        "spark.executor.extraJavaOptions": java_options,
    }  # fmt: skip
    os.environ["SPARK_WORKER_DIR"] = folder
    for name, value in (SETTINGS | places).items():
        made = made.config(name, value)
    session = made.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def stop(session) -> None:
    """End the cluster and its Java, so that another may begin."""
    from pyspark import SparkContext

    session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait(timeout=60)
        SparkContext._gateway = SparkContext._jvm = None


# ---- tables ---------------------------------------------------------------------------------


def frame(session, table, schema=None):
    """An Arrow table as a Spark frame: what Spark's own readers would make of its columns."""
    import pyarrow as pa
    import pyarrow.parquet

    columns = {}
    for name in table.column_names:
        declared = schema and schema.get(name, quoted=True)
        columns[name] = _plain(table.column(name), declared)
    safe = pa.table(list(columns.values()), names=[f"c{i}" for i in range(len(columns))])
    if table.num_rows < MANY_ROWS:
        return session.createDataFrame(safe).toDF(*columns)
    path = Path(session.conf.get("spark.local.dir")) / f"{id(safe)}.parquet"
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(safe, path, row_group_size=MANY_ROWS)
    return session.read.parquet(str(path)).toDF(*columns)


def _plain(column, declared):
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(pa.chunked_array([c.dictionary_decode() for c in column.chunks]), declared)
    if pa.types.is_null(kind):
        return column.cast(_kind_of_nothing(declared))
    if pa.types.is_timestamp(kind):
        each = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[kind.unit]
        whole = column.cast(pa.int64())
        if kind.unit == "ns":
            cut = [None if x is None else x // 1000 for x in whole.to_pylist()]
            whole = pa.chunked_array([pa.array(cut, pa.int64())])
        return pc.multiply(whole, each).cast(pa.timestamp("us", kind.tz and "UTC"))
    wider = {
        "uint8": pa.int16(), "uint16": pa.int32(), "uint32": pa.int64(), "halffloat": pa.float32(),
        "date64[ms]": pa.date32(), "large_string": pa.string(), "string_view": pa.string(),
    }  # fmt: skip
    if pa.types.is_uint64(kind):
        from decimal import Decimal

        exact = [None if x is None else Decimal(x) for x in column.to_pylist()]
        return pa.chunked_array([pa.array(exact, pa.decimal128(20, 0))])
    return column.cast(wider[str(kind)]) if str(kind) in wider else column


def _kind_of_nothing(declared):
    """What a column without any value is stored as, by its declaration."""
    import pyarrow as pa

    if declared is None or (declared.values and isinstance(declared.values[0], str)):
        return pa.string()
    kinds = {"boolean": pa.bool_(), "number": pa.float64(), "date": pa.date32(),
             "text": pa.string()}  # fmt: skip
    return kinds.get(declared.type, pa.int64())
