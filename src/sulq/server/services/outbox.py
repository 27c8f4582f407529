"""Messages that are to be sent to an owner's webhook, written with what they tell of.

A message says what the owner's alarms and timeline say: which dataset, and what happened to it.
Nothing in it is computed from rows.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from sulq.ledger.chain import now
from sulq.server.services.registry_file import Run

BUDGET_LOW, FROZEN, STOPPED, LATE, KEY_EXPIRING, TEST = (
    "budget-low", "frozen", "stopped", "late", "key-expiring", "test",
)  # fmt: skip
KINDS = (BUDGET_LOW, FROZEN, STOPPED, LATE, KEY_EXPIRING, TEST)
MAX_WAITING = 1000  # messages of one owner; those beyond are in the alarms only


def enqueue(run: Run, tenant: int, kind: str, message: str, **more: Any) -> None:
    """One more message for an owner, if they have named a place for them."""
    assert kind in KINDS, kind
    if run("SELECT 1 FROM webhooks WHERE house = ?", tenant).fetchone() is None:
        return
    if run("SELECT count(*) FROM outbox WHERE house = ?", tenant).fetchone()[0] >= MAX_WAITING:
        return
    number = secrets.token_hex(8)
    said = {"id": number, "kind": kind, "time": now(), "message": message} | more
    run("INSERT INTO outbox (id, house, body, tries, due) VALUES (?, ?, ?, 0, ?)",
        number, tenant, json.dumps(said), now())  # fmt: skip
