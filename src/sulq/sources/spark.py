"""Talking to Spark: a session of our own, rows found by name, and where they lie.

pyspark is imported only when something of Spark is opened. The owner's session is used, never
changed: statements run in a session beside it, whose settings are pinned.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.errors import MissingExtra, SchemaError
from sulq.sources.lake_tables import FORMATS, check_plain, refusal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# What a statement of ours is held to, whatever the owner's session says.
PINNED = {
    "spark.sql.ansi.enabled": "false",  # nothing raises because of a row
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",  # a moment is the same date on every machine
    "spark.sql.variable.substitute": "false",  # ${env:...} is just text
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.parquet.filterPushdown": "false",  # a file is not believed about its own rows
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.adaptive.enabled": "true",  # few groups take few tasks
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(2**17),
}
# Of the owner's settings of SQL, those that say where rows are and how fast they are read. What
# an expression means is not among them: that is as Spark is shipped, and as pinned above.
SQL = "spark.sql."
KEPT = ("artifact.", "catalog", "defaultCatalog", "sources.", "hive.", "files.", "parquet.",
        "orc.", "shuffle.", "adaptive.", "autoBroadcast", "inMemoryColumnarStorage.",
        "statistics.")  # fmt: skip
LOSING = ("ignoreCorruptFiles", "ignoreMissingFiles")
INDEXES = ("InMemoryFileIndex", "TahoeLogFileIndex", "PreparedDeltaFileIndex")  # all below a root
THROUGH = ("SubqueryAlias", "View")  # parts of a plan that change no row
LOG = "_delta_log"


def is_spark(source: Any) -> bool:
    """Is it a frame or a session of Spark's? Found without importing it."""
    return type(source).__module__.split(".")[0] == "pyspark"


def driver() -> Any:
    """pyspark.sql, or how to get it."""
    try:
        import pyspark.sql
    except ImportError:
        raise MissingExtra("Spark needs: pip install 'sulq[spark]'") from None
    if find_spec("pandas") is None:  # Spark asks for it where Arrow batches leave the JVM
        raise MissingExtra("Spark needs pandas too: pip install 'sulq[spark]'")
    return pyspark.sql


def failures() -> tuple[type[Exception], ...]:
    """All that a call into Spark may raise. Its words may quote rows."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError, OSError


@dataclass(frozen=True)
class SparkRows:
    """Rows found by Spark, and what tells one state of them from another."""

    frame: DataFrame  # of our own session
    roots: tuple[str, ...] | None  # the files and folders that hold them, and nothing else does
    whole: bool = False  # all columns of these files, under their own names
    constant: bool = False  # part of the program, so they never change
    log: bool = False  # a Delta table: what its log says counts, not which files are there
    parts: Mapping[str, SparkRows] | None = None  # several tables; `frame` is the first one's

    @property
    def session(self) -> SparkSession:
        """The session that reads them."""
        return self.frame.sparkSession

    @property
    def path(self) -> Path | None:
        """The one file or folder of this machine that holds them."""
        if self.log or not self.whole or self.roots is None or len(self.roots) != 1:
            return None
        return local(self.roots[0])

    @property
    def place(self) -> str | None:
        """Where they lie, whatever they are called; None for what was only computed."""
        return None if self.roots is None else f"spark {' '.join(self.roots)}"

    @property
    def places(self) -> tuple[str, ...]:
        """The same of each table."""
        several = [self] if self.parts is None else list(self.parts.values())
        return tuple(p.place for p in several if p.place is not None)

    def listing(self) -> str | None:
        """Moves when a file was added, replaced or taken away; None if nothing would tell."""
        if self.parts is not None:
            found = [part.listing() for part in self.parts.values()]
            return None if None in found else " ".join(map(str, found))
        if self.constant:
            return "constant"
        if self.roots is None:
            return None
        places = [f"{root}/{LOG}" if self.log else root for root in self.roots]
        here = [local(place) for place in places]
        if all(place is not None for place in here):
            return " ".join(line for place in here if place for line in _files(place))
        files = self.session.read.format("binaryFile").option("recursiveFileLookup", "true")
        seen = "sum(CAST(xxhash64(path, length, modificationTime) AS DECIMAL(20, 0)))"
        found = files.load(places).selectExpr("count(*)", seen).collect()
        return str(tuple(map(str, found[0])))


def find_rows(source: Any, table: str | None) -> SparkRows:
    """A frame, a table or view by name, or a Parquet or Delta path, in a session of our own."""
    given = _session(source)
    for name in LOSING:
        if given.conf.get(f"{SQL}files.{name}") == "true":
            raise _loses(f"{SQL}files.{name} = true in this session")
    own = _beside(given)
    if isinstance(source, driver().DataFrame):
        return _rows(source, own)
    if table is not None:
        with _opening(f"table={table!r}"):
            temporary = given.catalog.getTable(table).isTemporary  # seen by its session only
            return _rows((given if temporary else own).table(table), own)
    if source is None or is_spark(source):
        raise SchemaError("table: name the table or view of Spark's catalog, table='db.people'.")
    here = Path(source).exists()
    where = str(Path(source).resolve() if here else source)
    with _opening(f"source={where!r}"):
        log = _exists(own, f"{where}/{LOG}")
        files = re.sub(r"[\\*?\[\]{},]", r"\\\g<0>", where) if here else where  # no pattern
        return _rows(own.read.format("delta" if log else "parquet").load(files), own)


def find_tables(frames: Mapping[str, Any]) -> SparkRows:
    """Several frames by name, in one session of our own."""
    for frame in frames.values():
        if not isinstance(frame, driver().DataFrame):
            raise SchemaError("source: give every table as a frame of Spark's, or none.")
    given = _session(next(iter(frames.values())))
    own = _beside(given)
    parts = {name: _rows(frame, own) for name, frame in frames.items()}
    first = next(iter(parts.values()))
    return SparkRows(first.frame, None, parts=parts)


def _session(source: Any) -> SparkSession:
    """The session of a frame, the one given, or the one of this program."""
    spark = driver()
    if not is_spark(source):
        with _opening("engine='spark'"):
            begun: SparkSession | None = spark.SparkSession.getActiveSession()
            return begun or spark.SparkSession.builder.getOrCreate()
    given = source.sparkSession if isinstance(source, spark.DataFrame) else source
    if "connect" in type(given).__module__:
        raise SchemaError(
            "source: a Spark Connect session cannot say where its rows lie. Open them in a "
            "program that runs on the cluster's driver."
        )
    if not isinstance(given, spark.SparkSession):
        raise SchemaError(
            f"source: {type(source).__name__} is not known. Give a DataFrame of pyspark.sql, or a "
            "session and table='db.people'."
        )
    return given


def _beside(given: SparkSession) -> SparkSession:
    """A session of our own with the owner's settings, but for what SQL means."""
    own = given.newSession()
    theirs: dict[str, str] = given.conf.getAll
    known: dict[str, str] = own.conf.getAll
    for name in {*theirs, *known}:
        kept = not name.startswith(SQL) or name.removeprefix(SQL).startswith(KEPT)
        with suppress(*failures()):  # some are fixed when a cluster starts, so they are the same
            if not kept:
                own.conf.unset(name)
            elif name in theirs and known.get(name) != theirs[name]:
                own.conf.set(name, theirs[name])
    for name, value in PINNED.items():
        own.conf.set(name, value)
    return own


def _rows(frame: DataFrame, own: SparkSession) -> SparkRows:
    """The rows of a frame, seen from our own session under names c0, c1, ..."""
    if frame.isStreaming:
        raise SchemaError("source: a stream has no fixed rows. Write it to a table first.")
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        raise SchemaError(
            "source: this frame has other rows every time it is computed. Write it to a table "
            "first, and open that."
        )
    _check_readers(plan)
    plain, whole = _plain(plan)
    relation = plain.relation() if _name(plain) == "LogicalRelation" else None
    roots = None
    if relation is not None and _is_files(relation) and _name(relation.location()) in INDEXES:
        paths = relation.location().rootPaths()
        roots = tuple(sorted(paths.apply(i).toString() for i in range(paths.size())))
    delta = relation is not None and "delta" in _name(relation.fileFormat()).lower()
    log = roots is not None and delta
    if roots is not None and not delta:
        check_roots(own, roots)
    constant = _name(plain) == "LocalRelation"
    # A global view would do it too, but dropping one takes the owner's frame out of the cache.
    made = own._jvm.org.apache.spark.sql.classic.Dataset.ofRows(own._jsparkSession, plan)
    return SparkRows(driver().DataFrame(made, own), roots, whole, constant, log)


def _check_readers(plan: Any) -> None:
    """Raise if some reader leaves out rows that it cannot read: who they are is not public."""
    leaves = plan.collectLeaves()
    for leaf in (leaves.apply(i) for i in range(leaves.size())):
        if _name(leaf) == "LogicalRelation" and _is_files(leaf.relation()):
            options = leaf.relation().options()
            for name in (*LOSING, "mode"):
                value = str(options.get(name).get()) if options.contains(name) else ""
                if value.lower() in ("true", "dropmalformed"):
                    raise _loses(f"source: it was read with {name}={value!r}")


def _loses(why: str) -> SchemaError:
    return SchemaError(f"{why}: rows would go missing unnoticed.")


# --- Spark's own objects ----------------------------------------------------------------


def _name(thing: Any) -> str:
    """The class of one of Spark's own objects."""
    return str(thing.getClass().getSimpleName())


def _is_files(relation: Any) -> bool:
    return _name(relation) == "HadoopFsRelation"


def _plain(plan: Any) -> tuple[Any, bool]:
    """What is read, below parts that only name or choose columns; and are there none of these?"""
    whole = True
    while True:
        if _name(plan) == "Project":
            chosen = plan.projectList()
            columns = (chosen.apply(i) for i in range(chosen.size()))
            if not all(_is_column(c) for c in columns):
                return plan, False
            whole = False
        elif _name(plan) not in THROUGH:
            return plan, whole
        plan = plan.child()


def _is_column(expression: Any) -> bool:
    inner = expression.child() if _name(expression) == "Alias" else expression
    return _name(inner) == "AttributeReference"


def _exists(session: SparkSession, where: str) -> bool:
    """Is there such a file or folder, in any file system that Spark knows?"""
    path = session._jvm.org.apache.hadoop.fs.Path(where)
    settings = session._jsparkSession.sessionState().newHadoopConf()
    return bool(path.getFileSystem(settings).exists(path))


def check_roots(session: SparkSession, roots: Sequence[str]) -> None:
    """Refuse files that belong to a table with a log which this reader does not read."""
    for root in roots:
        here = local(root)
        if here is not None:
            check_plain([here, *(p for p in here.rglob("*") if p.is_dir())])
            continue
        jvm = session._jvm.org.apache.hadoop.fs
        place = jvm.Path(root)
        files = place.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        while place is not None:
            for lake in FORMATS:
                if files.globStatus(jvm.Path(place, lake.mark)):
                    raise refusal(lake, place.getName())
            place = place.getParent()


def local(root: str) -> Path | None:
    """A file: address as a path of this machine. Spark writes names as they are, signs and all."""
    path = root.removeprefix("file:")
    if path == root or (path.startswith("//") and not path.startswith("///")):
        return None
    return Path("/" + path.lstrip("/"))


def _files(place: Path) -> Iterator[str]:
    """Every file below, its size and its time."""
    for path in sorted([place] if place.is_file() else place.rglob("*")):
        found = os.stat(path)
        if path.is_file():
            yield f"{path} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"


@contextmanager
def _opening(what: str) -> Iterator[None]:
    """The first look: names and places. Errors are about the cluster, not about rows."""
    try:
        yield
    except failures() as error:
        raise SchemaError(
            f"{what} cannot be opened by Spark ({type(error).__name__}). Is it there, may this "
            "session read it, and is Java 17 or newer installed?"
        ) from None
