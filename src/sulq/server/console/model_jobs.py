"""Models on their way: learned in a thread, through the routes under /v1, one step after another.

How far each is stands in the registry, so that every process of a server can say so. A model
is made of noisy answers alone, so it may be kept there too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import sulq
from sulq.database import Database
from sulq.errors import MICRO, LimitReached, SulqError
from sulq.server.console.model_form import Wish, histogram
from sulq.server.console.saved_results import FORGET
from sulq.server.console.sessions import ago
from sulq.server.services import logs
from sulq.server.services.access import Principal, Record
from sulq.server.services.boards import Boards
from sulq.server.services.registry import Registry, now

AT_ONCE = 4  # models that are learned at a time,
EACH = 2  # and those of one person that are on their way
SILENT = timedelta(minutes=5)  # after which nobody seems to learn it any more
SHUT_DOWN = (
    "the server ended before this was learned. What was paid stays paid; learning the same "
    "again asks the same questions first, and those that were answered are free."
)
KEPT = 200  # models of one person from one dataset


@dataclass(frozen=True, slots=True)
class Job:
    """A model that someone wanted, and how far it is."""

    id: str
    created: str
    wish: Wish
    state: str  # running, ready or failed
    done: int
    total: int
    remaining_micro: int | None
    body: dict[str, Any]
    ended: str = ""  # when it was last heard of
    by: str = ""  # whose it is, if it is another's who shares it
    shared: bool = False

    @property
    def problem(self) -> str:
        """Why there is no model."""
        return str(self.body.get("problem", ""))


class Jobs:
    """Everybody's models, each for themselves and for those they share them with."""

    def __init__(self, registry: Registry, boards: Boards, alone: bool) -> None:
        self._registry, self._boards = registry, boards
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="learning")
        if alone:  # whatever was under way ended with the process before this one
            with registry.writing() as run:
                run("UPDATE models SET state = 'failed', body = ? WHERE state = 'running'",
                    json.dumps({"problem": SHUT_DOWN}))  # fmt: skip

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def start(
        self, principal: Principal, record: Record, id: str, wish: Wish,
        open: Callable[[], Database],
    ) -> None:  # fmt: skip
        """Learn a model, unless this request has begun it already."""
        with self._registry.writing() as run:
            if run("SELECT 1 FROM models WHERE id = ?", id).fetchone() is not None:
                return
            running = run(
                "SELECT count(*) FROM models WHERE person = ? AND state = 'running' "
                "AND seen BETWEEN ? AND ?", principal.person.id, ago(SILENT), ago(-SILENT),
            ).fetchone()[0]  # fmt: skip
            if running >= EACH:
                raise LimitReached(
                    f"{running} of your models are being learned, and no more may be. Nothing was "
                    "charged.\nWait for one of them.", 5.0,
                )  # fmt: skip
            run(
                "INSERT INTO models (id, dataset, person, asked, created, state, seen, progress) "
                "VALUES (?, ?, ?, ?, ?, 'running', ?, '{}')",
                id, record.id, principal.person.id, wish.to_json(), now(), now(),
            )  # fmt: skip
            run(FORGET.format("models"), record.id, principal.person.id, KEPT)
        self._threads.submit(self._learn, id, wish, open)

    def _learn(self, id: str, wish: Wish, open: Callable[[], Database]) -> None:
        """In its thread: learn, and keep what came of it, with what was paid and is left."""
        with suppress(Exception):  # a server that ends has closed the registry
            db: Any = None
            try:
                db = open()
                before = db.budget.remaining
                state, body = "ready", self._learned(id, wish, db)
            except SulqError as error:
                state, body = "failed", {"problem": str(error)}
            except Exception as error:
                logs.failure(error, route="learning")
                state, body = "failed", {"problem": SHUT_DOWN}
            with suppress(Exception):  # the key may have ended, or the server
                left = db.budget.remaining
                paid = int((before - left) * MICRO)
                body |= {"paid_micro": paid, "left_micro": int(left * MICRO)}
            with self._registry.writing() as run:
                run("UPDATE models SET state = ?, body = ?, seen = ? WHERE id = ?",
                    state, json.dumps(body), now(), id)  # fmt: skip

    def _learned(self, id: str, wish: Wish, db: Database) -> dict[str, Any]:
        model = wish.model()
        model.fit(
            db, columns=list(wish.columns), label=wish.label or None,
            progress=lambda steps: self._step(id, steps),
        )  # fmt: skip
        body = {"model": model.to_json()}
        return body | ({"histogram": histogram(db, model)} if wish.drawn else {})

    def _step(self, id: str, steps: sulq.Steps) -> None:
        left = steps.remaining
        said = {"done": steps.done, "total": steps.total,
                "remaining_micro": None if left is None else int(left * MICRO)}  # fmt: skip
        with self._registry.writing() as run:
            run("UPDATE models SET progress = ?, seen = ? WHERE id = ?",
                json.dumps(said), now(), id)  # fmt: skip

    # ---- looking --------------------------------------------------------------------------

    def get(self, principal: Principal, record: Record, id: str) -> Job:
        """One model of this principal, or one that is shared in the dataset; or NotFound."""
        row, whose = self._boards.found("model", principal, record, id)
        return replace(_job(row), **whose)

    def all(self, principal: Principal, record: Record) -> Sequence[Job]:
        """Every model of this principal from one dataset, newest first."""
        rows = self._registry.own_rows("models", record.id, principal.person.id, KEPT)
        return [_job(row) for row in rows]


def _job(row: Any) -> Job:
    state, body = row["state"], json.loads(row["body"] or "{}")
    if state == "running" and row["seen"] < ago(SILENT):
        state, body = "failed", {"problem": SHUT_DOWN}
    said = json.loads(row["progress"])
    return Job(
        row["id"], row["created"], Wish.from_json(row["asked"]), state, said.get("done", 0),
        said.get("total", 1), said.get("remaining_micro"), body, row["seen"],
    )  # fmt: skip
