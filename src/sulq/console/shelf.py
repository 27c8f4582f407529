"""What was paid for through the console, kept to be looked at again: answers and models.

Only noisy numbers are kept here, and only their own person sees them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sulq.console.questions import Asked
from sulq.errors import NotFound
from sulq.server.access import Record, Visitor
from sulq.server.registry import Registry, now

LISTED = 100  # on a page
KEPT = 500  # answers of one person from one dataset; the ledger has all of them
FORGET = (
    "DELETE FROM {0} WHERE rowid IN (SELECT rowid FROM {0} WHERE dataset = ? AND person = ? "
    "ORDER BY rowid DESC LIMIT -1 OFFSET ?)"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A question and its answer."""

    id: str
    created: str
    asked: Asked
    answer: dict[str, Any]


class Shelf:
    """Everybody's answers, each for themselves."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def put(
        self, visitor: Visitor, record: Record, id: str, asked: Asked, answer: dict[str, Any]
    ) -> None:
        """Keep an answer; a second one of the same request is the same."""
        with self._registry.writing() as run:
            run(
                "INSERT OR IGNORE INTO asked (id, dataset, person, created, question, answer) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                id, record.id, visitor.person.id, now(), asked.to_json(), json.dumps(answer),
            )  # fmt: skip
            run(FORGET.format("asked"), record.id, visitor.person.id, KEPT)

    def find(self, visitor: Visitor, record: Record, id: str) -> Kept | None:
        """One answer of this visitor."""
        row = self._registry.one(
            "SELECT * FROM asked WHERE id = ? AND dataset = ? AND person = ?",
            id, record.id, visitor.person.id,
        )  # fmt: skip
        return None if row is None else _kept(row)

    def get(self, visitor: Visitor, record: Record, id: str) -> Kept:
        """The same, or NotFound."""
        found = self.find(visitor, record, id)
        if found is None:
            raise NotFound("there is no such answer of yours.")
        return found

    def all(self, visitor: Visitor, record: Record) -> Sequence[Kept]:
        """Every answer of this visitor from one dataset, newest first."""
        rows = self._registry.all(
            "SELECT * FROM asked WHERE dataset = ? AND person = ? "
            "ORDER BY rowid DESC LIMIT ?", record.id, visitor.person.id, LISTED,
        )  # fmt: skip
        return [_kept(row) for row in rows]


def _kept(row: Any) -> Kept:
    return Kept(
        row["id"], row["created"], Asked.from_json(row["question"]), json.loads(row["answer"])
    )
