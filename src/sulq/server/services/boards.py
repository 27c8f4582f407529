"""Boards and shares: which answers and models people of a dataset let each other look at.

Only ids, names and order are here; answers and models stay where they are kept. Whoever may see a
dataset may see what was shared in it, and change nothing of it: each statement names the person
whose it is, so another's looks like a missing one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import LimitReached, NotFound, QueryNotAllowed
from sulq.server.services.access import Principal, Record
from sulq.server.services.registry import Registry, Run, now

KINDS = ("answer", "model", "board")
MAX_NAME = 120  # letters
MAX_BOARDS = 50  # of one person in one dataset
MAX_ITEMS = 30  # of a board
# Rows of `asked` or `models` that a person may look at: their own, those shared in the dataset,
# and answers on a board that was shared.
MAY_SEE = (
    "t.dataset = ? AND (t.person = ? OR EXISTS (SELECT 1 FROM shares s WHERE s.kind = ? "
    "AND s.item = t.id AND s.dataset = t.dataset) OR EXISTS (SELECT 1 FROM board_items i "
    "JOIN shares s ON s.kind = 'board' AND s.item = i.board AND s.dataset = t.dataset "
    "WHERE i.answer = t.id))"
)


@dataclass(frozen=True, slots=True)
class Item:
    """A question on a board."""

    answer: str  # the id under which its answer is kept
    title: str
    chart: str


@dataclass(frozen=True, slots=True)
class Board:
    """Answers under names, in an order."""

    id: str
    name: str
    person: int
    by: str  # whose it is
    created: str
    shared: bool
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class SharedItem:
    """Something that somebody lets others look at."""

    kind: str
    id: str
    by: str
    by_id: int
    created: str


class Boards:
    """Everybody's boards, and what is shared in each dataset."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    # ---- looking --------------------------------------------------------------------------

    def own(self, principal: Principal, record: Record) -> list[Board]:
        """A person's boards of a dataset, by name."""
        return [b for b in self.all(principal, record) if b.person == principal.person.id]

    def all(self, principal: Principal, record: Record) -> list[Board]:
        """One's own boards of a dataset and those that others share in it, by name."""
        rows = self._registry.all(
            "SELECT b.*, p.name AS by_name, (SELECT count(*) FROM shares s WHERE s.kind = 'board' "
            "AND s.item = b.id) AS shared FROM boards b JOIN people p ON p.id = b.person "
            "WHERE b.dataset = ? AND (b.person = ? OR EXISTS (SELECT 1 FROM shares s WHERE "
            "s.kind = 'board' AND s.item = b.id)) ORDER BY b.name, b.created, b.id",
            record.id, principal.person.id,
        )  # fmt: skip
        return [self._board(row) for row in rows]

    def get(self, principal: Principal, record: Record, id: str) -> Board:
        """One's own board, or a shared one; or NotFound."""
        found = [board for board in self.all(principal, record) if board.id == id]
        if not found:
            raise NotFound("there is no such board.")
        return found[0]

    def _board(self, row: Any) -> Board:
        items = self._registry.all(
            "SELECT answer, title, chart FROM board_items WHERE board = ? ORDER BY place, answer",
            row["id"],
        )
        found = tuple(Item(i["answer"], i["title"], i["chart"]) for i in items)
        return Board(row["id"], row["name"], row["person"], row["by_name"], row["created"],
                     bool(row["shared"]), found)  # fmt: skip

    # ---- one's own boards -----------------------------------------------------------------

    def make(self, principal: Principal, record: Record, name: str) -> str:
        """A new board; gives its id."""
        if len(self.own(principal, record)) >= MAX_BOARDS:
            raise LimitReached(f"you have {MAX_BOARDS} boards here, and no more are kept.")
        id = secrets.token_hex(16)
        with self._registry.writing() as run:
            run("INSERT INTO boards (id, dataset, person, name, created) VALUES (?, ?, ?, ?, ?)",
                id, record.id, principal.person.id, _named(name), now())  # fmt: skip
        return id

    def rename(self, principal: Principal, record: Record, id: str, name: str) -> None:
        """Call one's own board something else."""
        self._mine(principal, record, id)
        with self._registry.writing() as run:
            run("UPDATE boards SET name = ? WHERE id = ?", _named(name), id)

    def remove(self, principal: Principal, record: Record, id: str) -> None:
        """Give one's own board up; the answers stay."""
        self._mine(principal, record, id)
        with self._registry.writing() as run:
            run("DELETE FROM board_items WHERE board = ?", id)
            run("DELETE FROM shares WHERE kind = 'board' AND item = ?", id)
            run("DELETE FROM boards WHERE id = ?", id)

    def arrange(self, principal: Principal, record: Record, id: str, items: Sequence[Item]) -> None:
        """What stands on one's own board, in order; every answer must be one's own."""
        self._mine(principal, record, id)
        if len(items) > MAX_ITEMS:
            raise LimitReached(f"a board has room for {MAX_ITEMS} answers. Make another one.")
        with self._registry.writing() as run:
            run("DELETE FROM board_items WHERE board = ?", id)
            for place, item in enumerate({i.answer: i for i in items}.values()):
                if not _is_own(run, "asked", item.answer, principal, record):
                    raise NotFound("there is no such answer of yours.")
                run(
                    "INSERT INTO board_items (board, place, answer, title, chart) "
                    "VALUES (?, ?, ?, ?, ?)",
                    id, place, item.answer, _named(item.title), item.chart[:20],
                )  # fmt: skip

    def _mine(self, principal: Principal, record: Record, id: str) -> Board:
        found = [board for board in self.own(principal, record) if board.id == id]
        if not found:
            raise NotFound("there is no such board of yours.")
        return found[0]

    # ---- shares ---------------------------------------------------------------------------

    def share(self, principal: Principal, record: Record, kind: str, id: str) -> None:
        """Let everybody of the dataset look at one's own answer, model or board."""
        table = _table(kind)
        with self._registry.writing() as run:
            if not _is_own(run, table, id, principal, record):
                raise NotFound(f"there is no such {kind} of yours.")
            run("DELETE FROM shares WHERE kind = ? AND item = ?", kind, id)
            run("INSERT INTO shares (kind, item, dataset, person, created) VALUES (?, ?, ?, ?, ?)",
                kind, id, record.id, principal.person.id, now())  # fmt: skip

    def stop(self, principal: Principal, record: Record, kind: str, id: str) -> None:
        """Take a share back; it need not be there."""
        with self._registry.writing() as run:
            run("DELETE FROM shares WHERE kind = ? AND item = ? AND dataset = ? AND person = ?",
                kind, id, record.id, principal.person.id)  # fmt: skip

    def shared(self, record: Record) -> list[SharedItem]:
        """Everything that is shared in a dataset, newest first."""
        rows = self._registry.all(
            "SELECT s.kind, s.item, s.person, s.created, p.name FROM shares s "
            "JOIN people p ON p.id = s.person WHERE s.dataset = ? ORDER BY s.created DESC, s.item",
            record.id,
        )  # fmt: skip
        return [
            SharedItem(r["kind"], r["item"], r["name"], r["person"], r["created"]) for r in rows
        ]

    def visible(self, kind: str, principal: Principal, record: Record, id: str) -> Any:
        """The row of an answer or a model that this principal may look at, with `by`; or None."""
        return self._registry.one(
            "SELECT t.*, p.name AS by_name, (SELECT count(*) FROM shares s WHERE s.kind = ? AND "
            f"s.item = t.id) AS shared FROM {_table(kind)} t JOIN people p ON p.id = t.person "
            f"WHERE t.id = ? AND {MAY_SEE}",
            kind, id, record.id, principal.person.id, kind,
        )  # fmt: skip

    def found(
        self, kind: str, principal: Principal, record: Record, id: str
    ) -> tuple[Any, dict[str, Any]]:
        """The same or NotFound; and whose it is, if not theirs, and whether it is shared."""
        row = self.visible(kind, principal, record, id)
        if row is None:
            raise NotFound(f"there is no such {kind} of yours.")
        by = "" if row["person"] == principal.person.id else row["by_name"]
        return row, {"by": by, "shared": bool(row["shared"])}


def _is_own(run: Run, table: str, id: str, principal: Principal, record: Record) -> bool:
    own = f"SELECT 1 FROM {table} WHERE id = ? AND dataset = ? AND person = ?"
    return run(own, id, record.id, principal.person.id).fetchone() is not None


def _table(kind: str) -> str:
    found = {"answer": "asked", "model": "models", "board": "boards"}.get(kind)
    if found is None:
        raise NotFound(f"nothing of the kind {kind[:20]!r} is shared.")
    return found


def _named(name: str) -> str:
    plain = " ".join(name.split())[:MAX_NAME]
    if not plain:
        raise QueryNotAllowed("give it a name first.")
    return plain
