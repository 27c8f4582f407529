"""The machine's clock accepted by whoever runs the server, in each owner's audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sulq.errors import Refused
from sulq.server.services.audit_log import record
from sulq.server.services.registry import Registry
from sulq.values.safe_text import checked_text

MAX_REASON = 1000
LIVING = "SELECT count(*) FROM keys WHERE revoked IS NULL AND expires > ?"


def accept(registry: Registry, reason: str) -> dict[str, Any]:
    """Let time go on from the machine's clock, at every server of this registry."""
    if not reason.strip() or len(reason) > MAX_REASON:
        raise Refused(
            f"reason: say why, in at most {MAX_REASON:,} letters; the audit log keeps it."
        )
    checked_text(reason, "reason", MAX_REASON, lines=True)
    before = registry.clock.accept()
    after = registry.clock.time()
    with registry.writing() as run:
        for owner in run("SELECT id FROM people WHERE role = 'owner' ORDER BY id").fetchall():
            record(run, owner["id"], "clock", reason=reason, before=_text(before))
    counts = [registry.one(LIVING, _text(moment))[0] for moment in (before, after)]
    return {"before": _text(before), "time": _text(after), "keys_before": counts[0],
            "keys": counts[1]}  # fmt: skip


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
