"""How much one key may spend in all, at every door: a cap that its owner set.

A key that an agent or a dashboard holds needs a bound that a person chose. What is unpaid of a
question is taken from the cap before it waits for its batch, and given back if it was refused: a
crash may waste a little of the cap, never overspend it. A question that was paid before takes
nothing. Two copies of a new question at one moment may both count.

What a key spends is taken from the caps of the keys that it was made with, too, so that nobody is
granted more than the one who grants it. Who holds a key with a cap sets caps only of keys that were
made with it.

The HTTP API and the console need no cap, since whoever asks there has seen a price or chose to ask.
Doors whose questions a program writes (MCP, PostgreSQL's protocol) ask `of` first and refuse to
spend without a cap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sulq.errors import MICRO, BudgetExceeded, NotFound, NotPermitted, Refused, in_queries
from sulq.server.services.actors import acting
from sulq.server.services.audit_log import record
from sulq.server.services.grounds import CHAIN
from sulq.server.services.registry import Registry
from sulq.values.price import micro_of

MAX_MICRO = 10**9 * MICRO  # more than any promise lasts
CAPS = (
    f"{CHAIN} SELECT k.id AS key, k.spend_cap, k.spent FROM chain c JOIN keys k ON k.id = c.id "
    "ORDER BY c.depth"
)
WHOSE = "SELECT k.spent, p.* FROM keys k JOIN people p ON p.id = k.person WHERE k.id = ?"


@dataclass(frozen=True, slots=True)
class Cap:
    """The most that one key may spend, and what it spent of it, in micro-queries."""

    most: int
    spent: int

    @property
    def left(self) -> int:
        """What it may still spend."""
        return max(self.most - self.spent, 0)


class SpendingCaps:
    """The caps of a registry's keys."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def of(self, key: str) -> Cap | None:
        """The tightest cap of the key of this public half and those it was made with; or None."""
        caps = [cap for _, cap in _caps(self._registry.all(CAPS, key))]
        return min(caps, key=lambda cap: cap.left, default=None)

    def set(self, tenant: int, key: str, queries: Any) -> Cap | None:
        """Let a key of this tenant spend at most so many queries in all; None: no cap.

        What it spent under an earlier cap counts on, until a cap is taken away. A request whose
        own key has a cap may set it only for keys that were made with that one.
        """
        most, by = cap_of(queries), acting.get().key
        with self._registry.writing() as run:
            if by and _caps(run(CAPS, by).fetchall()):
                above = [row["key"] for row in run(CAPS, key).fetchall()]
                if by not in above[1:]:
                    raise NotPermitted(
                        "this key has a cap itself, or was made with a key that has one: it sets "
                        "caps only of keys that were made with it. Nothing was changed."
                    )
            done = run(
                "UPDATE keys SET spend_cap = ?, spent = CASE WHEN ? THEN 0 ELSE spent END "
                "WHERE id = ? AND person IN (SELECT id FROM people WHERE house = ?)",
                most, most is None, key, tenant,
            )  # fmt: skip
            if done.rowcount != 1:
                raise NotFound(f"there is no key {key!r}.")
            row = run(WHOSE, key).fetchone()
            record(run, tenant, "cap", about=row["name"], about_id=f"{row['role']}:{row['id']}",
                   key=key, queries="none" if most is None else in_queries(most))  # fmt: skip
        return None if most is None else Cap(most, int(row["spent"]))

    def take(self, key: str, micro: int) -> None:
        """Take a price from every cap that holds for a key, or refuse; nothing without a cap."""
        if micro == 0:
            return
        with self._registry.writing() as run:
            caps = _caps(run(CAPS, key).fetchall())
            left = min((cap.left for _, cap in caps), default=micro)
            if left < micro:
                raise BudgetExceeded(micro, left, whose=" of what the owner lets this key spend")
            for id, _ in caps:
                run("UPDATE keys SET spent = spent + ? WHERE id = ?", micro, id)

    def give_back(self, key: str, micro: int) -> None:
        """Put back what was taken for a question that was refused."""
        if micro:
            with self._registry.writing() as run:
                for id, _ in _caps(run(CAPS, key).fetchall()):
                    run("UPDATE keys SET spent = CASE WHEN spent > ? THEN spent - ? ELSE 0 END "
                        "WHERE id = ?", micro, micro, id)  # fmt: skip


def _caps(rows: Sequence[Any]) -> list[tuple[str, Cap]]:
    """The caps among rows of CAPS, by key."""
    return [
        (row["key"], Cap(int(row["spend_cap"]), int(row["spent"])))
        for row in rows
        if row["spend_cap"] is not None
    ]


def cap_of(queries: Any) -> int | None:
    """A cap in micro-queries as it is kept; None: none."""
    if queries is None:
        return None
    most = micro_of(queries)
    if not 0 <= most <= MAX_MICRO:
        raise Refused(f"cap={queries!r}: want a number of queries, from 0 to {MAX_MICRO // MICRO}.")
    return most
