"""Tables of an older version -> tables of this one.

Entries are the truth and never change; every other table is an index on them. So an upgrade
makes the missing indexes anew from the chain, in one transaction.
"""

from __future__ import annotations

from sqlalchemy import Connection, insert, inspect, select

from sulq.errors import LedgerDamaged
from sulq.ledger.allotments import as_rows
from sulq.ledger.chain import ANALYSTS, LAYOUT, VERSION, walk
from sulq.ledger.replay import Replay


def is_current(connection: Connection) -> bool:
    """Are the tables those of this version? Refuses what a newer version has made."""
    tables = inspect(connection)
    if not tables.has_table("entries"):
        return True  # no ledger at all: reading it will say so
    if not tables.has_table("layout"):
        return False
    version = connection.execute(select(LAYOUT.c.version)).scalar()
    if version is not None and version > VERSION:
        raise LedgerDamaged(
            f"The ledger was written by a newer version of sulq (its tables are version {version}, "
            f"this one knows {VERSION}). Nothing is answered.\nInstall the newer sulq."
        )
    return version == VERSION


def upgrade(connection: Connection) -> None:
    """Bring version 1, which had no analysts, to this one."""
    replay = Replay()
    for row in walk(connection, 0):
        replay.take(row)
    for table in (ANALYSTS, LAYOUT):
        table.drop(connection, checkfirst=True)  # half of an upgrade is none
        table.create(connection)
    rows = as_rows(replay.analysts)
    if rows:
        connection.execute(insert(ANALYSTS), rows)
    connection.execute(insert(LAYOUT), {"version": VERSION})
