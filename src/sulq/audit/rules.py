"""Which auditor judges under a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sulq.audit.promise import AuditPromise

if TYPE_CHECKING:
    from sulq.audit.verdicts import Auditor
    from sulq.engines.base import Engine


def auditor_of(promise: AuditPromise, engine: Engine, sample: Engine | None) -> Auditor:
    """An auditor that has admitted nothing yet."""
    if promise.rule == "duan":
        from sulq.audit.duan import Duan

        return Duan(promise, sample or engine, engine.rows, sampled=sample is not None)
    from sulq.audit.classes import Classes

    return Classes(promise, engine.schema, engine.rows, engine.groups)
