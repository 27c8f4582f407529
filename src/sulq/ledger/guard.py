"""Are the rows still those the ledger began with?

A file says so by its times, or else by its bytes. A table on a server has neither: it says so
by which transactions of the server are over, or else by a hash of all its rows. What
Spark reads from elsewhere says so by a list of its files, or else by such a hash.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sulq.errors import SourceChanged
from sulq.ledger import own_transactions
from sulq.sources.source import Source, files_of

if TYPE_CHECKING:
    from sulq.engines.base import Engine
    from sulq.engines.postgres.engine import PostgresEngine
    from sulq.engines.spark.engine import SparkEngine
    from sulq.ledger.seal import Seal
    from sulq.sources.postgres_catalog import Look


class Guard:
    """Watches that the rows stay those the ledger began with."""

    fingerprint: str | None
    claims: tuple[str, ...]
    known_as: tuple[str, ...]  # the same rows' fingerprints, those of older releases too

    def __init__(self, source: Source, seal: Seal | None) -> None:
        self._source = source
        self._path = source.path
        self._seal = seal
        self._version = self._look()
        self._origin = source.facts["fingerprint"] if source.facts else None
        if self._origin and seal and source.path and not seal.vouches(source.path):
            raise SourceChanged(
                f"the store {source.path.name!r} is not as `sulq encode` made it beside this "
                "ledger. Nothing was charged.\nEncode the rows again."
            )
        # The keyed fingerprint of the rows; None for a ledger in memory.
        self.fingerprint = self._origin or (self._found(seal) if seal else None)
        self.known_as = () if self.fingerprint is None else (self.fingerprint,)
        # All that belongs to one ledger only, each file of a folder too; the rows themselves last.
        files = self._files() if seal else None
        self.claims = (*(seal.fingerprint(f) for f in files or () if seal), *self.known_as)

    def _files(self) -> list[Path] | None:
        """The files of a folder that hold rows; None where there is one file, or none."""
        folder = self._path is not None and self._path.is_dir()
        several = self._source.kind in ("parquet", "star")
        return files_of(self._source) if folder and several else None

    def _found(self, seal: Seal) -> str:
        files = self._files()
        if files is not None and self._path is not None:
            return seal.fingerprint_of_files(self._path, files)
        return seal.fingerprint(self._source.frame if self._path is None else self._path)

    def _look(self) -> tuple[Any, ...] | None:
        """Names and times of the files: a folder that is renamed may be another public value."""
        if self._path is None:
            return None
        paths = self._files()
        if paths is None:
            paths = sorted(self._path.rglob("*")) if self._path.is_dir() else [self._path]
        seen = [(str(path), os.stat(path)) for path in paths]
        return tuple(
            x for name, f in seen
            for x in (name, f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns)
        )  # fmt: skip

    def look_with(self, engine: Any) -> None:
        """Look at a table through this engine from now on; a file is looked at without one."""

    def check(self) -> None:
        """Raise if the file is no longer what it was."""
        try:
            version = self._look()
            if version == self._version:
                return
            same = (
                self._seal is not None
                and self._origin is None
                and self._found(self._seal) == self.fingerprint
            )
        except FileNotFoundError:
            same = False
        if not same:
            raise changed(self._path.name if self._path else "the source")
        self._version = version


class TableGuard(Guard):
    """The same for a table on a server, which others may write to at any time.

    The table itself belongs to one ledger, whatever becomes of its rows: otherwise one row
    more would make a new table of it, with a new budget.
    """

    def __init__(
        self, source: Source, engine: PostgresEngine | SparkEngine, seal: Seal | None
    ) -> None:
        self._name = source.name
        self._engine = engine
        self._seal = seal
        self._hashed: Look | None = None  # of the rows, when they were last hashed
        own_transactions.watch()
        self._seen = engine.version()  # before the rows: a change in between is seen later
        self.fingerprint, self.claims, self.known_as = None, (), ()
        if seal is None:
            self._rows, self._hashed = engine.declared_contents()
            return
        columns = (engine.rows, sorted(engine.schema.names))
        version = None if self._seen is None else f"{engine.place} {columns} {self._seen}"
        found = seal.of_version(version, engine.contents)
        self._rows = self.fingerprint = found[-1]
        place = [seal.of_contents(place) for place in engine.places]
        # Each table, its rows with all their columns, and with those declared.
        self.claims, self.known_as = (*place, *found), found

    def look_with(self, engine: Any) -> None:
        """Look through this engine from now on, whose connection no scan holds."""
        self._engine = engine

    def check(self) -> None:
        """Raise if the rows, as far as they are declared, are no longer what they were."""
        seen = self._engine.version()
        if seen is not None and self._seen is not None and self._alike(self._seen, seen):
            self._seen = seen
            return
        rows, look = self._engine.declared_contents()
        if (rows if self._seal is None else self._seal.of_contents(rows)) != self._rows:
            raise changed(self._name)
        self._seen, self._hashed = seen, look

    def _alike(self, before: str, after: str) -> bool:
        """Have the rows not changed between these two versions?"""
        if before == after or own_transactions.only_own(before, after):
            return True
        numbers = own_transactions.ended_between(before, after)
        if self._hashed is None or numbers is None:
            return False
        return cast("PostgresEngine", self._engine).untouched(self._hashed, numbers)


class SparkFileGuard(Guard):
    """Files that Spark reads: watched as any file is, and known by their rows as frames are."""

    def __init__(self, source: Source, engine: SparkEngine, seal: Seal | None) -> None:
        super().__init__(source, seal)
        if seal is not None:
            # The place, its rows, and last the bytes, by which another engine knows them too.
            self.claims = (*TableGuard(source, engine, seal).claims, *self.claims)


def guard_of(source: Source, engine: Engine, seal: Seal | None) -> Guard:
    """Who watches this source."""
    if source.kind == "spark" and source.path is not None:
        return SparkFileGuard(source, engine, seal)  # type: ignore[arg-type]
    if source.kind == "spark" or source.url is not None:
        return TableGuard(source, engine, seal)  # type: ignore[arg-type]
    guard = Guard(source, seal)
    if source.kind in ("parquet", "duckdb"):
        # Refuses a file with a value that cannot be read; one that was read is not read again.
        if seal is None:
            engine.read_through()
        else:
            what = [guard.fingerprint, source.table, sorted(engine.schema.names)]
            seal.of_version(f"read through {what}", engine.read_through)
    return guard


def changed(name: str) -> SourceChanged:
    """The one message for rows that are not the ledger's."""
    return SourceChanged(
        f"{name!r} is not the data its ledger began with. Nothing was charged.\n"
        "Restore the rows, or run `sulq refresh` to go on with the new ones: it is logged, and "
        "what was spent stays spent. Rows of new periods are taken in by `sulq append`."
    )
