"""Parquet files that belong to a table whose log says which of them count.

Delta Lake, Apache Iceberg and Apache Hudi keep old and deleted rows in files that lie beside those
that count. Read as plain Parquet, such a folder has all of them. So it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sulq.errors import SchemaError


@dataclass(frozen=True, slots=True)
class LakeFormat:
    """A format of tables, what shows that a folder holds one, and how to write its rows out."""

    name: str
    mark: str  # below the table's folder; * for any name
    folder: str  # that the message names
    mend: str


FORMATS = (
    LakeFormat(
        "Delta", "_delta_log", "_delta_log",
        "open it with engine='spark', which reads Delta's log, or export a snapshot: in DuckDB "
        "COPY (FROM delta_scan('{table}')) TO '{table}-snapshot.parquet'",
    ),
    LakeFormat(
        "Iceberg", "metadata/*.metadata.json*", "metadata",
        "export a snapshot: in DuckDB COPY (FROM iceberg_scan('{table}')) TO "
        "'{table}-snapshot.parquet'",
    ),
    LakeFormat(
        "Iceberg", "metadata/version-hint.text", "metadata",
        "export a snapshot: in DuckDB COPY (FROM iceberg_scan('{table}')) TO "
        "'{table}-snapshot.parquet'",
    ),
    LakeFormat(
        "Hudi", ".hoodie", ".hoodie",
        "export a snapshot: in Spark spark.read.format('hudi').load('{table}')"
        ".write.parquet('{table}-snapshot')",
    ),
)  # fmt: skip


def check_plain(files: Iterable[Path]) -> None:
    """Refuse files and folders that lie in a table with a log, wherever above them it is."""
    looked_at: set[Path] = set()
    for folder in _folders(files):
        for above in (folder, *folder.parents):
            if above in looked_at:
                break
            looked_at.add(above)
            for lake in FORMATS:
                if _has(above, lake.mark):
                    raise refusal(lake, above.name)


def _folders(files: Iterable[Path]) -> Iterator[Path]:
    """The folders of some files, as they are named and, behind links, as they are."""
    for path in files:
        for place in {path.absolute(), path.resolve()}:
            yield place if place.is_dir() else place.parent


def _has(folder: Path, mark: str) -> bool:
    try:
        return any(True for _ in folder.glob(mark))
    except OSError:  # a folder above that this user may not look into
        return False


def refusal(lake: LakeFormat, table: str) -> SchemaError:
    """The refusal of the folder of this name."""
    return SchemaError(
        f"source: the files belong to a table of {lake.name} ({table!r} has {lake.folder!r}), "
        "whose log says which of them count. Read as plain Parquet, rows that were deleted or "
        "replaced would come back. Nothing was charged.\nOpen rows without a log: "
        f"{lake.mend.format(table=table)}."
    )
