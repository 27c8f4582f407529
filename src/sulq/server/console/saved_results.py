"""What was paid for through the console, kept to be looked at again: answers and models.

Only noisy numbers are kept here, and only their own person sees them, unless they are shared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sulq.server.console.question_form import FilledForm
from sulq.server.services.access import Principal, Record
from sulq.server.services.boards import Boards
from sulq.server.services.registry import Registry, now

LISTED = 100  # on a page
KEPT = 500  # answers of one person from one dataset; the ledger has all of them
FORGET = (
    "DELETE FROM {0} WHERE rowid IN (SELECT rowid FROM {0} WHERE dataset = ? AND person = ? "
    "ORDER BY rowid DESC LIMIT 1000000000 OFFSET ?) "
    "AND id NOT IN (SELECT answer FROM board_items) AND id NOT IN (SELECT item FROM shares)"
)


@dataclass(frozen=True, slots=True)
class Kept:
    """A question and its answer."""

    id: str
    created: str
    asked: FilledForm
    answer: dict[str, Any]
    by: str = ""  # whose it is, if it is another's who shares it
    shared: bool = False


class SavedResults:
    """Everybody's answers, each for themselves and for those they share them with."""

    def __init__(self, registry: Registry, boards: Boards) -> None:
        self._registry, self._boards = registry, boards

    def put(
        self,
        principal: Principal,
        record: Record,
        id: str,
        asked: FilledForm,
        answer: dict[str, Any],
    ) -> None:
        """Keep an answer; a second one of the same request is the same."""
        with self._registry.writing() as run:
            run(
                "INSERT INTO asked (id, dataset, person, created, question, answer) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                id, record.id, principal.person.id, now(), asked.to_json(), json.dumps(answer),
            )  # fmt: skip
            run(FORGET.format("asked"), record.id, principal.person.id, KEPT)

    def find(self, principal: Principal, record: Record, id: str) -> Kept | None:
        """One answer of this principal."""
        row = self._registry.own_row("asked", record.id, principal.person.id, id)
        return None if row is None else _kept(row)

    def get(self, principal: Principal, record: Record, id: str) -> Kept:
        """The same, or one that is shared in the dataset; or NotFound."""
        row, whose = self._boards.found("answer", principal, record, id)
        return replace(_kept(row), **whose)

    def all(self, principal: Principal, record: Record) -> Sequence[Kept]:
        """Every answer of this principal from one dataset, newest first."""
        rows = self._registry.own_rows("asked", record.id, principal.person.id, LISTED)
        return [_kept(row) for row in rows]


def _kept(row: Any) -> Kept:
    return Kept(
        row["id"], row["created"], FilledForm.from_json(row["question"]), json.loads(row["answer"])
    )
