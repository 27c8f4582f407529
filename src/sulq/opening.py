"""sulq.open: source + schema + promise + ledger -> Database."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.check import several_rows
from sulq.database import Database
from sulq.errors import LedgerDamaged, PromiseError, Refused, SchemaError, SourceChanged
from sulq.noise import SystemNoise
from sulq.price import PRICINGS
from sulq.promise import Promise
from sulq.schema import Schema
from sulq.sources import Source, open_source

if TYPE_CHECKING:
    from sulq.engines.base import Engine
    from sulq.ledger import Ledger
    from sulq.seal import Seal

MEMORY = ":memory:"


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
        found = os.stat(self._path)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

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
            raise changed(self._path)
        self._version = version


def changed(path: Path | None) -> SourceChanged:
    """The one message for rows that are not the ledger's."""
    name = path.name if path else "the source"
    return SourceChanged(
        f"{name!r} is not the data its ledger began with. Nothing was charged.\n"
        "Restore the file, or run `sulq refresh` to go on with the new rows: it is logged, and "
        "what was spent stays spent."
    )


def open(
    source: Any,
    schema: Schema | str | Path | Mapping[str, Any] | None = None,
    *,
    epsilon: float | None = None,
    delta: float = 1e-6,
    queries: int | None = None,
    noise: str = "gaussian",
    guarantee: str = "beliefs",
    pricing: str = "geometry",
    ledger: str | Path | None = None,
    engine: str | None = None,
    table: str | None = None,
    name: str | None = None,
) -> Database:
    """Open a private table under a promise.

    `source` is a Parquet, CSV or DuckDB path, a pandas, Polars or Arrow frame, or a 2-D numpy
    array; `schema` a TOML path, a dict or a sulq.Schema. epsilon, delta and queries (T, the
    number of queries in the table's whole life) state the promise; they are fixed when its
    ledger begins. `ledger` is a path, or ":memory:" for a trial without a lifetime promise.
    """
    promise = _promise(epsilon, delta, queries, noise, guarantee)
    if pricing not in PRICINGS:
        raise PromiseError(f"pricing={pricing!r}, want one of {', '.join(PRICINGS)}.")
    found = _settled(open_source(source, table, name))
    declared = _declared(schema, source, found)
    running = _engine(found, declared, engine)
    where = str(ledger) if ledger is not None else found.ledger
    promise = _about(promise, running.schema)
    book, guard = _ledger(where, found, running, promise, pricing)
    return Database(running, promise, book, SystemNoise(), guard, pricing=pricing, name=found.name)


def _promise(
    epsilon: float | None, delta: float, queries: int | None, noise: str, guarantee: str
) -> Promise:
    if epsilon is None or queries is None:
        raise PromiseError(
            "state the promise: epsilon=..., queries=... (and delta=1e-6 unless given). "
            "`sulq plan --rows N` shows what each choice costs."
        )
    return Promise(epsilon, delta, queries, noise, guarantee)


def _about(promise: Promise, schema: Schema) -> Promise:
    """The promise with the one it protects: a row, or a person with all their rows."""
    if schema.unit is None:
        return promise
    if schema.unit.max_rows > 1 and promise.noise in ("binomial", "stitched"):
        raise PromiseError(several_rows(promise.noise))
    return replace(promise, subject="person")


def _declared(schema: Any, source: Any, found: Source) -> Schema | None:
    if found.facts is not None:
        return _of_store(found, schema)
    if schema is not None:
        return Schema.load(schema)
    if hasattr(source, "ndim") and hasattr(source, "dtype"):
        return None  # a bare array: x0, x1, ... in [0, 1]
    raise SchemaError(
        "schema: declare the columns, as a TOML path, a dict or a sulq.Schema. "
        "`sulq schema draft FILE` writes a first draft."
    )


def _engine(source: Source, schema: Schema | None, engine: str | None) -> Engine:
    if engine not in (None, "duckdb", "reference"):
        raise SchemaError(f"engine={engine!r}, want 'duckdb' or 'reference'.")
    from sulq.engines.duckdb import DuckDBEngine
    from sulq.progress import show

    running = DuckDBEngine(source, schema, show("scanning"))
    if engine == "reference":
        from sulq.engines.reference import ReferenceEngine

        return ReferenceEngine(running.arrow(), running.schema)
    return running


def _of_store(found: Source, schema: Any) -> Schema:
    """A store was made with one schema and has no other."""
    assert found.facts is not None
    own = Schema.load(found.facts["schema"])
    if schema is not None:
        asked = Schema.load(schema)
        same = asked.with_types({c.name: c.type for c in own.columns})
        if same.to_json() != own.to_json():
            raise SchemaError(
                f"{found.name!r} was encoded with another schema. Leave schema out, or encode "
                "the rows again."
            )
    return own


def encode(
    source: Any,
    schema: Schema | str | Path | Mapping[str, Any] | None,
    path: str | Path,
    *,
    ledger: str | Path | None = None,
    table: str | None = None,
    name: str | None = None,
) -> Path:
    """Write rows to an encoded store, on which private sums are plain integer sums.

    The store goes on with the ledger of the rows it was made from.
    """
    from sulq.engines.duckdb import DuckDBEngine
    from sulq.seal import Seal

    found = _settled(open_source(source, table, name))
    where = str(ledger) if ledger is not None else found.ledger
    out = Path(path).resolve()
    if out.suffix != ".sulq":
        raise SchemaError(f"path={str(path)!r}: the name of a store ends in .sulq.")
    if not out.parent.is_dir():
        raise SchemaError(f"path={str(path)!r}: the folder {str(out.parent)!r} does not exist.")
    if where == MEMORY:
        raise Refused("ledger: name the ledger file that the store's spending goes to.")
    facts = {
        "name": found.name,
        "ledger": os.path.relpath(Path(where).resolve(), out.parent),
        "fingerprint": Guard(found, Seal.open(where)).fingerprint,
    }
    DuckDBEngine.write_store(found, _declared(schema, source, found), out, facts)
    Seal.open(where).vouch(out)
    return out


def _ledger(
    where: str, source: Source, engine: Engine, promise: Promise, pricing: str
) -> tuple[Ledger, Guard]:
    """Open or begin the ledger; the same data under another name is recognised."""
    from sulq.ledger import Ledger
    from sulq.seal import Seal, folder_lock

    terms = terms_of(engine, promise, pricing)
    facts: dict[str, Any] = {
        "terms": terms,
        "cells": engine.schema.cell_count,
        "total": promise.queries * 1_000_000,
        "name": source.name,
    }
    if where == MEMORY:
        warnings.warn(
            "the ledger is in memory: spending is forgotten when the program ends, so this makes "
            "no lifetime promise. Give ledger='people.ledger' to keep it.",
            stacklevel=4,
        )
        return Ledger.open(MEMORY, **facts), Guard(source, None)
    path = Path(where)
    if not path.parent.is_dir():
        raise Refused(f"ledger={where!r}: the folder {str(path.parent)!r} does not exist.")
    seal = Seal.open(path)
    guard = Guard(source, seal)
    assert guard.fingerprint is not None
    # Held from looking to remembering: of two openings at once, one finds the other's.
    with folder_lock(seal.folder):
        _check_unclaimed(seal, guard.fingerprint)
        before = seal.current()
        if before is not None and path.exists() and before != guard.fingerprint:
            raise changed(source.path)
        book = Ledger.open(path, seal=seal, **facts)
        if before is None and book.history():
            book.close()
            raise _unsealed(path)
        seal.remember(guard.fingerprint)
    return book, guard


def _check_unclaimed(seal: Seal, fingerprint: str) -> None:
    """Raise if another ledger of the folder is about these rows."""
    other = seal.known(fingerprint)
    if other is not None:
        place = str(seal.folder.parent / other)
        raise Refused(
            f"these rows already have a ledger in this folder, {other!r}. Nothing was charged.\n"
            f"Continue it with ledger={place!r}, so that what was spent stays spent."
        )


def _unsealed(path: Path) -> LedgerDamaged:
    return LedgerDamaged(
        f"The ledger {path.name!r} has charges, but the folder '.sulq' beside it does not know "
        "which rows they were about: it was lost, or the ledger was brought here alone. Nothing "
        "is answered.\nRestore the folder with the ledger, or run `sulq refresh`: it is logged, "
        "and what was spent stays spent."
    )


def _settled(source: Source) -> Source:
    """Refuse a DuckDB file with rows still in its write-ahead log, where no fingerprint sees."""
    if source.kind in ("duckdb", "store") and Path(f"{source.path}.wal").exists():
        raise SourceChanged(
            f"{source.name!r} has changes that are not in its file yet, in a .wal beside it. "
            "Nothing was charged.\nRun CHECKPOINT in DuckDB, or close the program that writes "
            "to it, and open it again."
        )
    return source


def refresh(
    source: Any,
    schema: Schema | str | Path | Mapping[str, Any] | None = None,
    *,
    ledger: str | Path | None = None,
    table: str | None = None,
    name: str | None = None,
    reason: str = "",
) -> Database:
    """Go on with changed rows or a changed schema: logged, the same promise and spending.

    The public columns and their values must stay, since spending is kept by them.
    """
    from sulq.ledger import Ledger
    from sulq.seal import Seal, folder_lock

    found = _settled(open_source(source, table, name))
    where = Path(str(ledger) if ledger is not None else found.ledger)
    seal = Seal.open(where)
    book = Ledger.reopen(where, seal=seal)
    declared = Schema.load(schema if schema is not None else book.terms["schema"])
    running = _engine(found, declared, None)
    guard = Guard(found, seal)
    recorded = dict(book.terms["promise"])
    pricing = recorded.pop("pricing")
    promise = Promise.from_json(recorded)
    _check_cells(Schema.load(book.terms["schema"]), running.schema)
    _check_people(Schema.load(book.terms["schema"]), running.schema)
    _about(promise, running.schema)
    assert guard.fingerprint is not None
    with folder_lock(seal.folder):
        _check_unclaimed(seal, guard.fingerprint)
        book.renew(
            terms_of(running, promise, pricing), {"reason": reason}, cells=running.schema.cell_count
        )
        seal.remember(guard.fingerprint)
    return Database(running, promise, book, SystemNoise(), guard, pricing=pricing, name=found.name)


def _check_people(old: Schema, new: Schema) -> None:
    """The promise is about a row or about a person, and about the same persons throughout."""
    before, after = (s.unit.column if s.unit else None for s in (old, new))
    if before != after:
        raise SchemaError(
            f"unit: column={after!r} but the ledger promised for {before!r}. Nothing was "
            "charged.\nKeep the [unit] of the schema; its max_rows may change."
        )


def _check_cells(old: Schema, new: Schema) -> None:
    """Spending is kept by the place of each public value, so these must stay as they are."""
    before, after = ([(c.name, c.listed) for c in s.cell_columns] for s in (old, new))
    if before != after:
        raise SchemaError(
            f"public columns {after} but the ledger has {before}: what each cell spent could not "
            "be carried over. Nothing was charged.\nKeep the public columns, their values and "
            "their order."
        )


def terms_of(engine: Engine, promise: Promise, pricing: str) -> dict[str, Any]:
    """What the ledger writes down when it begins: the promise and the declarations."""
    return {
        "promise": {**promise.to_json(), "pricing": pricing},
        "schema": engine.schema.to_json(),
        "rows": engine.rows,
    }
