"""Which auditor judges under a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sulq.audit.promise import AuditPromise
from sulq.errors import Refused

if TYPE_CHECKING:
    from sulq.audit.verdicts import Auditor
    from sulq.engines.base import Engine


def auditor_of(promise: AuditPromise, engine: Engine, sample: Engine | None) -> Auditor:
    """An auditor that has admitted nothing yet."""
    if promise.rule == "duan":
        from sulq.audit.duan import Duan

        return Duan(promise, sample or engine, engine.rows, sampled=sample is not None)
    from sulq.audit.classes import Classes

    groups = getattr(engine, "groups", None)
    if groups is None:
        raise Refused(
            "rule='classes' counts rows by public columns, which this engine does not do yet. "
            "Open the rows as Parquet, CSV, DuckDB or a frame."
        )
    return Classes(promise, engine.schema, engine.rows, groups)
