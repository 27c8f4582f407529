"""What `sulq.open(..., mode="audited")` adds: the owner's terms, an auditor, a public sample."""

from __future__ import annotations

import warnings
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sulq.audit.promise import WEAK, AuditPromise, audit_promise
from sulq.audit.rules import auditor_of
from sulq.errors import Refused
from sulq.privacy.noise import SystemNoise
from sulq.sources.source import open_source

if TYPE_CHECKING:
    from sulq.audit.database import AuditedDatabase
    from sulq.engines.base import Engine
    from sulq.ledger import Ledger
    from sulq.ledger.guard import Guard


class Audit:
    """The owner's terms, checked before the source is opened."""

    def __init__(
        self, *, priors: Any, simulate: Any, independent_columns: bool, **terms: Any
    ) -> None:
        self._promise = audit_promise(
            priors=priors, simulate=simulate, independent_columns=independent_columns, **terms
        )
        self._priors = priors
        self._independent = independent_columns
        self._simulate = simulate
        self._sample: Engine | None = None

    def bound(self, engine: Engine) -> AuditPromise:
        """The promise about this table. A sample is drawn and named here, once."""
        if self._simulate is not None:
            self._sample = _sample(self._simulate, engine)
        name = None if self._sample is None else _name(self._sample)
        return self._promise.bound(engine.schema, self._priors, name, self._independent)

    def database(
        self, engine: Engine, promise: AuditPromise, ledger: Ledger, guard: Guard, name: str
    ) -> AuditedDatabase:
        """The database, and a word where it promises less than it seems to."""
        from sulq.audit.database import AuditedDatabase

        if promise.rule == "duan":
            warnings.warn(WEAK, stacklevel=4)
        auditor = auditor_of(promise, engine, self._sample)
        return AuditedDatabase(
            engine, promise, ledger, SystemNoise(), guard, auditor, sample=self._sample, name=name
        )


def _sample(simulate: Any, engine: Engine) -> Engine:
    """The public sample: a table, or what a function of n gives. Never the private rows."""
    from sulq.engines.duckdb import DuckDBEngine

    rows = simulate(engine.rows) if callable(simulate) else simulate
    found = DuckDBEngine(open_source(rows), engine.schema)
    if found.rows == 0:
        raise Refused("simulate: the sample has no rows.")
    return found


def _name(sample: Any) -> str:
    """A hash of the sample: a ledger goes on with the one it began with. It is public."""
    import pyarrow as pa

    table = sample.arrow().combine_chunks()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sha256(sink.getvalue()).hexdigest()
