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
from sulq.guard import Guard as Guard
from sulq.guard import changed, guard_of
from sulq.noise import SystemNoise
from sulq.price import PRICINGS
from sulq.promise import Promise
from sulq.schema import Schema
from sulq.sources import Source, open_source

if TYPE_CHECKING:
    from sulq.audit.opening import Audit
    from sulq.audit.promise import AuditPromise
    from sulq.engines.base import Engine
    from sulq.ledger import Ledger
    from sulq.seal import Seal

MEMORY = ":memory:"
AUDITED = {"rule": "classes", "dither": 2, "known": 0.5, "independent_rows": False,
           "priors": None, "simulate": None}  # fmt: skip


def open(
    source: Any = None,
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
    mode: str = "noise",
    rule: str = "classes",
    dither: float = 2,
    known: float = 0.5,
    independent_rows: bool = False,
    priors: Mapping[str, Any] | None = None,
    simulate: Any = None,
) -> Database:
    """Open a private table under a promise.

    `source` is a Parquet, CSV or DuckDB path, a postgresql:// address with `table`, a pandas,
    Polars, Arrow or Spark frame, or a 2-D numpy array; `schema` a TOML path, a dict or a
    sulq.Schema. engine="spark" reads a path, or a `table` without a source, where Spark does.
    epsilon, delta and queries (T, the number of queries in the table's whole life) state the
    promise; they are fixed when its ledger begins. `ledger` is a path, a postgresql:// address
    that several machines may share, or ":memory:" for a trial without a lifetime promise.

    mode="audited" adds no noise but a small dither, and refuses what would tell one row; the
    arguments after `mode` belong to it. See docs/howto/audited.md before choosing it.
    """
    audit = _audit(
        mode, epsilon=epsilon, delta=delta, queries=queries, noise=noise, guarantee=guarantee,
        rule=rule, dither=dither, known=known, independent_rows=independent_rows, priors=priors,
        simulate=simulate,
    )  # fmt: skip
    promise = None if audit else _promise(epsilon, delta, queries, noise, guarantee)
    if pricing not in PRICINGS:
        raise PromiseError(f"pricing={pricing!r}, want one of {', '.join(PRICINGS)}.")
    found = _settled(open_source(source, table, name, engine))
    where = _place(found, ledger)
    declared = _declared(schema, source, found)
    running = _engine(found, declared, engine)
    if audit is not None:
        bound = audit.bound(running)
        book, guard = _ledger(where, found, running, bound, "audited")
        return audit.database(running, bound, book, guard, found.name)
    assert promise is not None
    promise = _about(promise, running.schema)
    book, guard = _ledger(where, found, running, promise, pricing)
    return Database(running, promise, book, SystemNoise(), guard, pricing=pricing, name=found.name)


def _audit(mode: str, **terms: Any) -> Audit | None:
    """What mode="audited" is opened with; refuse its arguments where they would mean nothing."""
    if mode == "audited":
        from sulq.audit.opening import Audit

        return Audit(**terms)
    if mode != "noise":
        raise PromiseError(f"mode={mode!r}, want 'noise' or 'audited'.")
    for name, default in AUDITED.items():
        if terms[name] is not None if default is None else terms[name] != default:
            raise PromiseError(f"{name}: belongs to mode='audited'. Say that too, or leave it out.")
    return None


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


def _place(found: Source, ledger: str | Path | None) -> str:
    """Where the ledger is. What Spark computed has no place of its own to keep one beside."""
    if ledger is None and found.kind == "spark" and found.ledger == MEMORY:
        raise Refused(
            "ledger: say where a Spark frame's spending is kept, ledger='people.ledger', or "
            "ledger=':memory:' for a trial without a lifetime promise. Nothing was charged."
        )
    return str(ledger) if ledger is not None else found.ledger


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
    if source.kind == "spark":
        return _on_spark(source, schema, engine)
    if source.url is not None:
        return _on_server(source, schema, engine)
    if engine not in (None, "duckdb", "reference"):
        raise SchemaError(f"engine={engine!r}, want 'duckdb', 'reference' or 'spark'.")
    from sulq.engines.duckdb import DuckDBEngine
    from sulq.progress import show

    running = DuckDBEngine(source, schema, show("scanning"))
    if engine == "reference":
        from sulq.engines.reference import ReferenceEngine

        return ReferenceEngine(running.arrow(), running.schema)
    return running


def _on_server(source: Source, schema: Schema | None, engine: str | None) -> Engine:
    """The rows stay where they are."""
    if engine not in (None, "postgres"):
        raise SchemaError(f"engine={engine!r}: rows in PostgreSQL are read by 'postgres'.")
    from sulq.engines.postgres import PostgresEngine

    assert schema is not None
    return PostgresEngine(source, schema)


def _on_spark(source: Source, schema: Schema | None, engine: str | None) -> Engine:
    """The rows stay in their cluster."""
    if engine not in (None, "spark"):
        raise SchemaError(f"engine={engine!r}: a frame of Spark's is read by 'spark'.")
    from sulq.engines.spark import SparkEngine

    assert schema is not None
    return SparkEngine(source, schema)


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
    where: str, source: Source, engine: Engine, promise: Promise | AuditPromise, pricing: str
) -> tuple[Ledger, Guard]:
    """Open or begin the ledger; the same data under another name is recognised."""
    from sulq.ledger import Ledger
    from sulq.ledger.place import exists, sealed, shown

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
        return Ledger.open(MEMORY, **facts), guard_of(source, engine, None)
    seal = sealed(where)
    guard = guard_of(source, engine, seal)
    # Held from looking to remembering: of two openings at once, one finds the other's.
    with seal.held():
        _check_unclaimed(seal, guard)
        before = seal.current()
        if before is not None and exists(where, seal) and before != guard.fingerprint:
            raise changed(source.path.name if source.path else source.name)
        book = Ledger.open(where, seal=seal, **facts)
        if before is None and book.history():
            book.close()
            raise _unsealed(shown(where))
        _remember(seal, guard)
    return book, guard


def _remember(seal: Seal, guard: Guard) -> None:
    """Keep with the ledger what it is about; the rows as they are now come last."""
    for claim in guard.claims[:-1]:
        if not seal.remembers(claim):
            seal.remember(claim)
    seal.remember(guard.claims[-1])


def ledger_of_rows(
    source: Any, ledger: str | Path, table: str | None = None, schema: Any = None
) -> str | None:
    """Name the other ledger of this ledger's folder that is about these rows, if there is one.

    A table on a server says what it is through its engine, which wants a schema.
    """
    from sulq.ledger.place import sealed

    seal, found = sealed(ledger), _settled(open_source(source, table))
    if found.url is None:
        claims = Guard(found, seal).claims
    else:
        running = _engine(found, Schema.load(schema), None)
        try:
            claims = guard_of(found, running, seal).claims
        finally:
            running.close()
    return next((other for c in claims if (other := seal.known(c)) is not None), None)


def _check_unclaimed(seal: Seal, guard: Guard) -> None:
    """Raise if another ledger of the folder is about these rows."""
    for claim in guard.claims:
        other = seal.known(claim)
        if other is None:
            continue
        place = seal.folder.parent / other
        how = f" with ledger={str(place)!r}" if place.exists() else ""
        raise Refused(
            f"these rows already have a ledger in this folder, {other!r}. Nothing was charged.\n"
            f"Continue it{how}, so that what was spent stays spent."
        )


def _unsealed(name: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"The ledger {Path(name).name!r} has charges, but the folder '.sulq' beside it does not "
        "know which rows they were about: it was lost, or the ledger was brought here alone. "
        "Nothing is answered.\nRestore the folder with the ledger, or run `sulq refresh`: it is "
        "logged, and what was spent stays spent."
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
    engine: str | None = None,
    table: str | None = None,
    name: str | None = None,
    reason: str = "",
) -> Database:
    """Go on with changed rows or a changed schema: logged, the same promise and spending.

    The public columns and their values must stay, since spending is kept by them.
    """
    from sulq.ledger import Ledger
    from sulq.ledger.place import sealed

    found = _settled(open_source(source, table, name, engine))
    where = _place(found, ledger)
    seal = sealed(where)
    book = Ledger.reopen(where, seal=seal)
    if book.terms["promise"].get("mode") == "audited":
        book.close()
        raise Refused(
            "audited answers are exact: sums before and after a change would tell the rows that "
            "changed. Nothing was charged.\nRestore the rows, or open the new ones elsewhere with "
            "a ledger of their own, if nobody can take one for the other."
        )
    declared = Schema.load(schema if schema is not None else book.terms["schema"])
    running = _engine(found, declared, engine)
    guard = guard_of(found, running, seal)
    recorded = dict(book.terms["promise"])
    pricing = recorded.pop("pricing")
    promise = Promise.from_json(recorded)
    _check_cells(Schema.load(book.terms["schema"]), running.schema)
    _check_people(Schema.load(book.terms["schema"]), running.schema)
    _about(promise, running.schema)
    with seal.held():
        _check_unclaimed(seal, guard)
        book.renew(
            terms_of(running, promise, pricing), {"reason": reason}, cells=running.schema.cell_count
        )
        _remember(seal, guard)
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


def terms_of(engine: Engine, promise: Promise | AuditPromise, pricing: str) -> dict[str, Any]:
    """What the ledger writes down when it begins: the promise and the declarations."""
    return {
        "promise": {**promise.to_json(), "pricing": pricing},
        "schema": engine.schema.to_json(),
        "rows": engine.rows,
    }
