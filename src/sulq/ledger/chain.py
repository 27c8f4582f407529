"""The ledger's tables, and how entries are chained, written and read back.

`entries` is the truth: each entry carries the hash of the one before, so none can be changed,
added or removed unseen. The other tables are indexes on it. A `Page` writes both in one
transaction, and nothing else writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from heapq import nlargest
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Executable,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    insert,
    select,
    text,
    update,
)

from sulq.errors import LedgerDamaged
from sulq.ledger.older_text import question_of
from sulq.ledger.statements import run
from sulq.ledger.types import Charge, Head

EMPTY = Head(-1, "0" * 64, 0, 0, 0)  # the head before entry 0
PAGE_ROWS = 1000  # entries read at a time
GROUP = "group"  # what entry 0 of a group's ledger says of itself
BATCH = '{"batch"'  # how the free line begins that stands for a whole list with a request id
RUNNING = '{"running"'  # how a stretch of running totals begins, which goes on after an append


# ---- tables ---------------------------------------------------------------------------------

NUMBER = BigInteger().with_variant(Integer, "sqlite")  # so that it is SQLite's own row id
_TABLES = MetaData()

HEAD = Table(
    "head",
    _TABLES,
    Column("id", NUMBER, primary_key=True, autoincrement=False),  # always 1: the row to lock
    Column("number", NUMBER, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("base", NUMBER, nullable=False),
    Column("most", NUMBER, nullable=False),
    Column("epoch", NUMBER, nullable=False),
)
ENTRIES = Table(
    "entries",
    _TABLES,
    Column("number", NUMBER, primary_key=True, autoincrement=False),
    Column("kind", String(16), nullable=False),
    Column("body", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)
CHARGES = Table(
    "charges",
    _TABLES,
    Column("number", ForeignKey(ENTRIES.c.number), primary_key=True, autoincrement=False),
    Column("query", String(64), nullable=False),
    Column("epoch", NUMBER, nullable=False),
    Column("answer", ForeignKey(ENTRIES.c.number)),
    Column("analyst", Text, nullable=False),
    Column("time", Text, nullable=False),
    # question, running: of totals that go on, or batch: the line of a whole list
    Column("kind", String(8), nullable=False),
    Column("question", Text),  # JSON, where the entry has an older text of it; NULL: as there
    UniqueConstraint("query", "epoch"),
    Index("charges_by_analyst", "analyst", "number"),
    Index("charges_by_time", "time"),
)
REQUESTS = Table(
    "requests",
    _TABLES,
    Column("request", String(64), primary_key=True),
    Column("charge", ForeignKey(CHARGES.c.number), nullable=False),
    sqlite_with_rowid=False,
)
CELLS = Table(
    "cells",
    _TABLES,
    Column("cell", NUMBER, primary_key=True, autoincrement=False),
    Column("spent", NUMBER, nullable=False),  # beyond what everybody spent
)
ANALYSTS = Table(
    "analysts",
    _TABLES,
    Column("analyst", Text, primary_key=True),
    Column("spent", NUMBER, nullable=False),
    Column("allotted", NUMBER),  # the most they may spend; NULL: as much as there is
)
LAYOUT = Table("layout", _TABLES, Column("version", NUMBER, primary_key=True))
# Of these tables: 1 had no analysts, 2 left spending with the cells at a refresh, 3 found charges
# neither by analyst nor by time.
VERSION = 4
IN_A_GROUP = 1000  # is added to it when a group is joined, of which older versions know nothing

# What the ledger of a group of datasets has besides: what each of them spent.
_GROUP_TABLES = MetaData()
MEMBERS = Table(
    "members",
    _GROUP_TABLES,
    Column("member", NUMBER, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),  # of its ledger
    Column("name", Text, nullable=False, unique=True),
    Column("ledger", Text, nullable=False),  # its file or schema, beside the group's
    Column("cells", NUMBER, nullable=False),
    Column("base", NUMBER, nullable=False),
    Column("most", NUMBER, nullable=False),
)
SHARES = Table(
    "shares",
    _GROUP_TABLES,
    Column("member", NUMBER, primary_key=True, autoincrement=False),
    Column("cell", NUMBER, primary_key=True, autoincrement=False),
    Column("spent", NUMBER, nullable=False),  # beyond what everybody of the member spent
)
SPENT = Table("spent", _GROUP_TABLES, Column("question", String(64), primary_key=True))

ASKED = ("charge", "answer", "retry")  # kinds of entries that are about questions
DECISION = f"kind NOT IN {ASKED}"  # the rest, of which there are few
# As text: an Index with a WHERE would load SQLAlchemy's PostgreSQL and all drivers it knows.
DECISIONS = text(
    f"CREATE INDEX IF NOT EXISTS entries_decisions ON entries (number) WHERE {DECISION}"
)

# Statements are built here once, not at every charge.
_head_row = select(*(c for c in HEAD.c if c.name != "id")).where(HEAD.c.id == 1)
_locked_head_row = _head_row.with_for_update()
_set_head = update(HEAD).where(HEAD.c.id == 1, HEAD.c.number == bindparam("seen"))
_HEAD = tuple(c.name for c in HEAD.c if c.name != "id")
_set_extras = update(CELLS).values(spent=bindparam("extra"))
_new_entry = insert(ENTRIES)
_entries_from = (
    select(ENTRIES)
    .where(ENTRIES.c.number >= bindparam("first"))
    .order_by(ENTRIES.c.number)
    .limit(PAGE_ROWS)
)


# ---- hashing --------------------------------------------------------------------------------


def canonical(body: Any) -> str:
    """Write JSON in the one form that is hashed: sorted keys, no spaces, ASCII."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def link_hash(previous: str, number: int, kind: str, body: str) -> str:
    """Hash one entry: SHA-256 of the hash before it, its number, its kind and its body."""
    return sha256(f"{previous}\n{number}\n{kind}\n{body}".encode()).hexdigest()


@lru_cache(maxsize=1024)
def digest(*texts: str) -> str:
    """Hash texts to the key under which an index finds them."""
    return sha256(canonical(texts).encode()).hexdigest()


def damaged(number: int, what: str) -> LedgerDamaged:
    """The error that names the first entry found wrong."""
    return LedgerDamaged(
        f"Ledger entry {number} {what}. The history cannot be trusted, so nothing is answered.\n"
        "Restore the newest copy of the ledger."
    )


def checked_link(row: Row[Any], number: int, previous: str) -> str:
    """Check one entry against the hash before it and give its own hash."""
    if row.number != number:
        raise damaged(number, "is missing")
    if row.previous != previous:
        raise damaged(number, "does not follow from the one before")
    if row.hash != link_hash(row.previous, row.number, row.kind, row.body):
        raise damaged(number, "was changed")
    return str(row.hash)


# ---- writing --------------------------------------------------------------------------------


def now() -> str:
    """The time an entry carries: UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Spending:
    """What everybody spent, and what single cells spent beyond it.

    One person may be in `width` cells: `most` is what so many of them spent at most. With more
    than one, `extra` has every cell that spent something.
    """

    def __init__(self, base: int, most: int, extra: Mapping[int, int], width: int = 1) -> None:
        self.base = base
        self.most = most
        self.extra = dict(extra)
        self.width = width

    def add(self, price: int, cells: Iterable[int] | None) -> int:
        """Spend on these cells (None: everybody) and give the largest spending of any cell."""
        if cells is None:
            self.base += price
        else:
            for cell in cells:
                self.extra[cell] = self.extra.get(cell, 0) + price
                self.most = max(self.most, self.extra[cell])
            if self.width > 1:
                self.most = sum(nlargest(self.width, self.extra.values()))
        return self.top

    @property
    def top(self) -> int:
        """What whoever spent most has spent."""
        return self.base + self.most

    def room(self, total: int, cells: Iterable[int] | None) -> int:
        """The highest price that a question about these cells may still have; None: everybody once.

        Someone whose rows are in k of these cells pays it k times. So for each k up to `width`,
        k times the price must fit beside what the k cells that spent most have spent, and the
        `width - k` others. Every place that says how much is left asks this.
        """
        left = total - self.base
        if cells is None or (self.width > 1 and self.top > total):
            return max(left - self.most, 0)
        asked = set(cells)
        own = nlargest(self.width, (self.extra.get(cell, 0) for cell in asked))
        others = nlargest(self.width - 1, (x for c, x in self.extra.items() if c not in asked))
        rooms = (
            (left - sum(own[:k]) - sum(others[: self.width - k])) // k
            for k in range(1, len(own) + 1)
        )
        return max(min(rooms, default=left), 0)

    def level(self) -> None:
        """Let every cell carry the highest spending of any: rows may have changed cells."""
        self.base, self.most, self.extra = self.base + self.most, 0, {}


class Page:
    """What one transaction will write: entries first, then the indexes on them."""

    def __init__(self, connection: Connection, head: Head) -> None:
        self.connection = connection
        self.head = head
        self.entries: list[dict[str, Any]] = []
        self.written = False
        self._seen = head
        self._indexes: dict[Executable, list[dict[str, Any]]] = {}

    def append(self, kind: str, body: Mapping[str, Any]) -> int:
        """Add one entry to the chain and give its number."""
        number, previous, text = self.head.number + 1, self.head.hash, canonical(body)
        new = link_hash(previous, number, kind, text)
        self.entries.append(
            {"number": number, "kind": kind, "body": text, "previous": previous, "hash": new}
        )
        self.head = replace(self.head, number=number, hash=new)
        return number

    def index(self, statement: Executable, *rows: dict[str, Any]) -> None:
        """Keep these rows for after the entries."""
        if rows:
            self._indexes.setdefault(statement, []).extend(rows)

    def level(self) -> None:
        """Let every cell carry the highest spending of any: rows may have changed cells."""
        self.index(_set_extras, {"extra": 0})
        self.head = replace(self.head, base=self.head.base + self.head.most, most=0)

    def write(self) -> None:
        """Put everything new and the new head into the transaction."""
        if not self.entries:
            return
        self.written = True
        run(self.connection, _new_entry, self.entries)
        for statement, rows in self._indexes.items():
            run(self.connection, statement, rows)
        head = {name: getattr(self.head, name) for name in _HEAD} | {"seen": self._seen.number}
        moved = run(self.connection, _set_head, head)
        if moved.rowcount != 1:
            raise LedgerDamaged(
                "The ledger's head moved inside a transaction. Nothing is answered."
            )
        self.entries, self._indexes, self._seen = [], {}, self.head


def is_group(opening: Mapping[str, Any]) -> bool:
    """Does this entry 0 begin the ledger of a group of datasets?"""
    return bool(opening["terms"].get("kind") == GROUP)


def begin(connection: Connection, opening: Mapping[str, Any]) -> None:
    """Make the tables and entry 0."""
    _TABLES.create_all(connection)
    if is_group(opening):
        _GROUP_TABLES.create_all(connection)
    connection.execute(DECISIONS)
    connection.execute(insert(LAYOUT), {"version": VERSION})
    connection.execute(insert(HEAD), asdict(EMPTY) | {"id": 1})
    page = Page(connection, EMPTY)
    page.append("open", opening)
    page.index(insert(CELLS), *({"cell": cell, "spent": 0} for cell in range(opening["cells"])))
    page.write()


# ---- reading --------------------------------------------------------------------------------


def read_head(connection: Connection) -> Head:
    """Where the chain ends."""
    return Head(*run(connection, _head_row).fetchone())


def hold_head(connection: Connection) -> Head:
    """The same, held against every other writer until the transaction ends."""
    return Head(*run(connection, _locked_head_row).fetchone())


def entries_from(connection: Connection, first: int) -> Sequence[Row[Any]]:
    """The next entries from this number on, at most a page of them."""
    return connection.execute(_entries_from, {"first": first}).all()


def walk(connection: Connection, first: int) -> Iterator[Row[Any]]:
    """Every entry from this one on, in pages; a damaged file may not send it in circles."""
    while rows := entries_from(connection, first):
        yield from rows
        if rows[-1].number < first:
            raise damaged(first, "is out of place")
        first = rows[-1].number + 1


class Following:
    """What the entries of a chain say, one after the other."""

    def __init__(self) -> None:
        self.head = EMPTY

    def take(self, row: Row[Any]) -> None:
        """Follow one entry."""
        number = self.head.number + 1
        new = checked_link(row, number, self.head.hash)
        self.head = replace(self.head, number=number, hash=new)
        try:
            self._follow(number, row.kind, json.loads(row.body))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise damaged(number, "cannot be read") from error

    def _follow(self, number: int, kind: str, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def compare(self, connection: Connection) -> None:
        """Raise if a table says anything else."""
        raise NotImplementedError


Followed = TypeVar("Followed", bound=Following)


def replayed(following: Followed, connection: Connection) -> Followed:
    """Follow the chain from its first entry, and compare the tables with it."""
    for row in walk(connection, 0):
        following.take(row)
    if following.head == EMPTY:
        raise damaged(0, "is missing")
    following.compare(connection)
    return following


def hash_of(connection: Connection, number: int) -> str | None:
    """The hash of one entry, if it is there."""
    row = connection.execute(select(ENTRIES.c.hash).where(ENTRIES.c.number == number)).first()
    return None if row is None else str(row[0])


def as_charge(number: int, body: str, question: str | None) -> Charge:
    """Read a charge back from its entry; `question` where the entry has an older text of it."""
    fields = json.loads(body)
    del fields["cells"]
    # For the rows it asked about; else for whoever spent most, in its group if it is in one.
    whole = fields.pop("group", fields["remaining"])
    fields["remaining"] = fields.pop("left", whole)
    if question is not None:
        fields["query"] = question
    return Charge(number=number, **fields)


def charge_row(number: int, body: Mapping[str, Any], epoch: int, since: int) -> dict[str, Any]:
    """The index on a charge, from its entry alone; its answer is not known yet.

    Running totals are about the rows `since` the last refresh, whatever was appended.
    """
    question = question_of(body["query"])
    kind = "batch" if question.startswith(BATCH) else "question"
    kind = "running" if question.startswith(RUNNING) else kind
    return {
        "number": number,
        "query": digest(question),
        "epoch": since if kind == "running" else epoch,
        "answer": None,
        "analyst": body["analyst"],
        "time": body["time"],
        "kind": kind,
        "question": None if question == body["query"] else question,
    }
