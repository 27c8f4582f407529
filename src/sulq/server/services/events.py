"""Who was let in and who decided what, kept in the registry: freezes, invitations, keys.

A ledger knows what was asked. What stands here is for the owner's timeline and report beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sulq.server.services import audit_log, outbox
from sulq.server.services.actors import Actor, acting
from sulq.server.services.registry import Registry, now
from sulq.server.services.registry_file import Run

# What is said of each kind; {who} is the person it is about.
WORDS = {
    "freeze": "frozen",
    "thaw": "thawed",
    "invite": "{who} was invited",
    "uninvite": "the invitation of {who} was taken back",
    "remove": "{who} was removed: their keys and invitations ended",
    "close": "closed",
    "refresh": "its rows are taken as they are",
    "append": "rows of new periods were taken in",
}
LOGGED = WORDS.keys() - {"remove"}  # in the audit log too, which says of whom removed by itself


def note(
    run: Run, dataset: int, kind: str, *, who: str | None = None, who_id: str = "",
    by: Actor | None = None, reason: str | None = None,
) -> None:  # fmt: skip
    """One more decision about a dataset, of whoever acts unless `by` says who decided.

    The owner's audit log has it too, with the reason.
    """
    actor = by or acting.get()
    run("INSERT INTO events (dataset, time, kind, person, decided) VALUES (?, ?, ?, ?, ?)",
        dataset, now(), kind, who, actor.name)  # fmt: skip
    if kind in LOGGED:
        tenant, name = run("SELECT house, name FROM datasets WHERE id = ?", dataset).fetchone()
        audit_log.record(run, tenant, kind, about=who or "", about_id=who_id, by=actor,
                         dataset=name, reason=reason)  # fmt: skip
        if kind == "freeze":
            said = f"{name!r} is frozen by {actor.name}: nothing may be asked."
            outbox.enqueue(run, tenant, outbox.FROZEN, said, dataset=name)


def events_of(registry: Registry, dataset: int) -> list[dict[str, Any]]:
    """What happened around a dataset, oldest first, in words."""
    rows = registry.all("SELECT * FROM events WHERE dataset = ? ORDER BY id", dataset)
    members = registry.all(
        "SELECT p.name FROM members m JOIN people p ON p.id = m.person WHERE m.dataset = ?", dataset
    )
    known = {row["name"] for row in members} | {row["person"] for row in rows if row["person"]}
    found = [_line(row) for row in rows]
    found += [line for line in _keys(registry, dataset) if line.pop("holder") in {None, *known}]
    return sorted(found, key=lambda line: str(line["time"]))


def _line(row: Any) -> dict[str, Any]:
    by = f" by {row['decided']}" if row["decided"] else ""
    what = WORDS[row["kind"]].format(who=row["person"]) + by
    return {"time": row["time"], "kind": row["kind"], "what": what, "analyst": row["person"]}


def _keys(registry: Registry, dataset: int) -> Iterator[dict[str, Any]]:
    """Keys that open it, if their holder is let in: when each was made, and revoked."""
    rows = registry.all(
        "SELECT k.id, k.label, k.datasets, k.created, k.expires, k.revoked, k.ended, k.why, "
        "p.name, p.role, "
        "d.name AS dataset FROM keys k JOIN people p ON p.id = k.person "
        "JOIN datasets d ON d.house = p.house WHERE d.id = ? ORDER BY k.rowid", dataset,
    )  # fmt: skip
    for row in rows:
        scope = None if row["datasets"] is None else json.loads(row["datasets"])
        if scope is not None and row["dataset"] not in scope:
            continue
        owner = row["role"] == "owner"
        label = f" ({row['label']})" if row["label"] else ""
        line = {"analyst": None if owner else row["name"], "holder": None if owner else row["name"],
                "key": row["id"]}  # fmt: skip
        until = f"until {row['expires'][:10]}"
        yield line | {"time": row["created"], "kind": "key",
                      "what": f"a key{label} was made for {row['name']}, {until}"}  # fmt: skip
        if row["revoked"]:
            yield line | {"time": row["revoked"], "kind": "revoke",
                          "what": f"a key{label} of {row['name']} ended"}  # fmt: skip
        elif row["ended"]:
            yield line | {"time": row["ended"], "kind": "revoke",
                          "what": f"a key{label} of {row['name']} ended: {row['why']}"}  # fmt: skip
