"""Are the rows still those the ledger began with?

A file says so by its times, or else by its bytes. A table on a server has neither: it says so
by the server's own counters of what was written to it, or else by a hash of all its rows. What
Spark reads from elsewhere says so by a list of its files, or else by such a hash.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.errors import SourceChanged
from sulq.sources import Source

if TYPE_CHECKING:
    from sulq.engines.base import Engine
    from sulq.engines.postgres import PostgresEngine
    from sulq.engines.spark import SparkEngine
    from sulq.seal import Seal


class Guard:
    """Watches that the rows stay those the ledger began with."""

    def __init__(self, source: Source, seal: Seal | None) -> None:
        self._path = source.path
        self._seal = seal
        self._version = self._look()
        self._origin = source.facts["fingerprint"] if source.facts else None
        if self._origin and seal is not None and not seal.vouches(self._stored(source)):
            raise SourceChanged(
                f"the store {self._stored(source).name!r} is not as `sulq encode` made it beside "
                "this ledger. Nothing was charged.\nEncode the rows again."
            )
        self._fingerprint = self._origin or (
            seal.fingerprint(self._place(source)) if seal else None
        )

    @staticmethod
    def _stored(source: Source) -> Path:
        assert source.path is not None
        return source.path

    @staticmethod
    def _place(source: Source) -> Any:
        return source.path if source.path is not None else source.frame

    def _look(self) -> tuple[int, ...] | None:
        if self._path is None:
            return None
        paths = sorted(self._path.rglob("*")) if self._path.is_dir() else [self._path]
        seen = [os.stat(path) for path in paths]
        return tuple(
            x for f in seen for x in (f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns)
        )

    @property
    def claims(self) -> tuple[str, ...]:
        """All that belongs to one ledger only; the rows themselves last."""
        return () if self._fingerprint is None else (self._fingerprint,)

    @property
    def fingerprint(self) -> str | None:
        """The keyed fingerprint of the rows; None for a ledger in memory."""
        return self._fingerprint

    def check(self) -> None:
        """Raise if the file is no longer what it was."""
        try:
            version = self._look()
            if version == self._version:
                return
            same = (
                self._seal is not None
                and self._origin is None
                and self._seal.fingerprint(self._path) == self._fingerprint
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
        self._seen = engine.version()  # before the rows: a change in between is seen later
        self._fingerprint = None
        self._claims: tuple[str, ...] = ()
        if seal is None:
            self._rows = engine.contents()[-1]
            return
        columns = (engine.rows, sorted(engine.schema.names))
        version = None if self._seen is None else f"{engine.place} {columns} {self._seen}"
        found = seal.of_version(version, engine.contents)
        self._rows = self._fingerprint = found[-1]
        place = [] if engine.place is None else [seal.of_contents(engine.place)]
        self._claims = (*place, *found)

    @property
    def claims(self) -> tuple[str, ...]:
        """The table, its rows with all their columns, and with those declared."""
        return self._claims

    def check(self) -> None:
        """Raise if the rows, as far as they are declared, are no longer what they were."""
        seen = self._engine.version()
        if seen is not None and seen == self._seen:
            return
        rows = self._engine.contents()[-1]
        if (rows if self._seal is None else self._seal.of_contents(rows)) != self._rows:
            raise changed(self._name)
        self._seen = seen


class SparkFileGuard(Guard):
    """Files that Spark reads: watched as any file is, and known by their rows as frames are."""

    def __init__(self, source: Source, engine: SparkEngine, seal: Seal | None) -> None:
        super().__init__(source, seal)
        self._rows = () if seal is None else TableGuard(source, engine, seal).claims

    @property
    def claims(self) -> tuple[str, ...]:
        """The place, its rows, and last the bytes, by which another engine knows them too."""
        return (*self._rows, *super().claims)


def guard_of(source: Source, engine: Engine, seal: Seal | None) -> Guard:
    """Who watches this source."""
    if source.kind == "spark" and source.path is not None:
        return SparkFileGuard(source, engine, seal)  # type: ignore[arg-type]
    if source.kind == "spark" or source.url is not None:
        return TableGuard(source, engine, seal)  # type: ignore[arg-type]
    return Guard(source, seal)


def changed(name: str) -> SourceChanged:
    """The one message for rows that are not the ledger's."""
    return SourceChanged(
        f"{name!r} is not the data its ledger began with. Nothing was charged.\n"
        "Restore the rows, or run `sulq refresh` to go on with the new ones: it is logged, and "
        "what was spent stays spent."
    )
