"""How much one key may spend in all, at every door: a cap that its owner set.

A key that an agent or a dashboard holds needs a bound that a person chose. What is unpaid of a
question is taken from the cap before it waits for its batch, and given back if it was refused: a
crash may waste a little of the cap, never overspend it. A question that was paid before takes
nothing. Two copies of a new question at one moment may both count.

The HTTP API and the console need no cap, since whoever asks there has seen a price or chose to ask.
Doors whose questions a program writes (MCP, PostgreSQL's protocol) ask `of` first and refuse to
spend without a cap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sulq.errors import MICRO, BudgetExceeded, NotFound, Refused, in_queries
from sulq.server.services.audit_log import record
from sulq.server.services.registry import Registry
from sulq.values.price import micro_of

MAX_MICRO = 10**9 * MICRO  # more than any promise lasts


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
        """The cap of the key of this public half; None: it has none."""
        row = self._registry.one("SELECT spend_cap, spent FROM keys WHERE id = ?", key)
        if row is None or row["spend_cap"] is None:
            return None
        return Cap(int(row["spend_cap"]), int(row["spent"]))

    def set(self, tenant: int, key: str, queries: Any) -> Cap | None:
        """Let a key of this tenant spend at most so many queries in all; None: no cap.

        What it spent under an earlier cap counts on, until a cap is taken away.
        """
        most = cap_of(queries)
        with self._registry.writing() as run:
            done = run(
                "UPDATE keys SET spend_cap = ?, spent = CASE WHEN ? THEN 0 ELSE spent END "
                "WHERE id = ? AND person IN (SELECT id FROM people WHERE house = ?)",
                most, most is None, key, tenant,
            )  # fmt: skip
            if done.rowcount != 1:
                raise NotFound(f"there is no key {key!r}.")
            row = run("SELECT p.* FROM keys k JOIN people p ON p.id = k.person WHERE k.id = ?",
                      key).fetchone()  # fmt: skip
            record(run, tenant, "cap", about=row["name"], about_id=f"{row['role']}:{row['id']}",
                   key=key, queries="none" if most is None else in_queries(most))  # fmt: skip
        return self.of(key)

    def take(self, key: str, micro: int) -> None:
        """Take a price from a key's cap, or refuse; nothing of it if the key has no cap."""
        if micro == 0:
            return
        with self._registry.writing() as run:
            taken = run(
                "UPDATE keys SET spent = spent + ? WHERE id = ? AND spend_cap IS NOT NULL "
                "AND spent + ? <= spend_cap", micro, key, micro,
            ).rowcount  # fmt: skip
        cap = None if taken else self.of(key)
        if cap is not None:
            raise BudgetExceeded(micro, cap.left, whose=" of what the owner lets this key spend")

    def give_back(self, key: str, micro: int) -> None:
        """Put back what was taken for a question that was refused."""
        if micro:
            with self._registry.writing() as run:
                run("UPDATE keys SET spent = CASE WHEN spent > ? THEN spent - ? ELSE 0 END "
                    "WHERE id = ? AND spend_cap IS NOT NULL", micro, micro, key)  # fmt: skip


def cap_of(queries: Any) -> int | None:
    """A cap in micro-queries as it is kept; None: none."""
    if queries is None:
        return None
    most = micro_of(queries)
    if not 0 <= most <= MAX_MICRO:
        raise Refused(f"cap={queries!r}: want a number of queries, from 0 to {MAX_MICRO // MICRO}.")
    return most
