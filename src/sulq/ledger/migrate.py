"""Tables of an older version -> tables of this one.

Entries are the truth and never change; every other table is an index on them. So an upgrade
makes the missing indexes anew from the chain, in one transaction.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection, Table, insert, inspect, select

from sulq.errors import LedgerDamaged
from sulq.ledger.chain import (
    ANALYSTS,
    CHARGES,
    DECISIONS,
    IN_A_GROUP,
    LAYOUT,
    REQUESTS,
    VERSION,
    Page,
    damaged,
    hold_head,
    now,
    walk,
)
from sulq.ledger.replay import Replay


def is_current(connection: Connection) -> bool:
    """Are the tables those of this version? Refuses what a newer version has made."""
    tables = inspect(connection)
    if not tables.has_table("entries"):
        return True  # no ledger at all: reading it will say so
    if not tables.has_table("layout"):
        return False
    version = connection.execute(select(LAYOUT.c.version)).scalar()
    if version is not None and version % IN_A_GROUP > VERSION:
        raise LedgerDamaged(
            f"The ledger was written by a newer version of sulq (its tables are version {version}, "
            f"this one knows {VERSION}). Nothing is answered.\nInstall the newer sulq."
        )
    return version is not None and version % IN_A_GROUP == VERSION


def upgrade(connection: Connection) -> None:
    """Bring an older version to this one: its indexes are made anew from the chain.

    Version 1 had no analysts; 2, whose refreshes moved no spending; 3 found charges neither by
    analyst nor by time, and questions were not JSON. Rows that changed cells at a refresh before 3
    took along what was spent on them. Who they were is not known, so from now on all cells carry
    the most that any row can have spent, written into the chain. That may be more than the total,
    and then nothing is left.
    """
    replay = Replay()
    for row in walk(connection, 0):
        replay.take(row)
    for table in (REQUESTS, CHARGES, ANALYSTS, LAYOUT):
        table.drop(connection, checkfirst=True)
    for table in (CHARGES, REQUESTS, ANALYSTS, LAYOUT):
        table.create(connection)
    connection.execute(DECISIONS)
    requests = [{"request": key, "charge": charge} for key, charge in replay.requests.items()]
    analysts = [{"analyst": name} | asdict(known) for name, known in replay.analysts.items()]
    _fill(connection, CHARGES, list(replay.charges.values()))
    _fill(connection, REQUESTS, requests)
    _fill(connection, ANALYSTS, analysts)
    joined = IN_A_GROUP if replay.group is not None else 0
    _fill(connection, LAYOUT, [{"version": VERSION + joined}])
    if replay.behind:
        _carry(connection, replay)


def _fill(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        connection.execute(insert(table), rows)


def _carry(connection: Connection, replay: Replay) -> None:
    page = Page(connection, hold_head(connection))
    if page.head != replay.head:
        raise damaged(replay.head.number, "and the table 'head' do not agree")
    page.append("carry", {"remaining": replay.remaining, "time": now()})
    page.level()
    page.head = replace(page.head, base=replay.total - replay.remaining)
    page.write()
