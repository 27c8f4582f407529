"""Requests and prices -> charges, on disk before any row is read.

The truth is a chain of entries, each carrying the hash of the one before. The other tables
are indexes on it, written in the same transaction and compared with it at every start. A
crash may waste a charge; it may never give an unpaid answer. See docs/reference/ledger.md.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from errno import EIO
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Integer,
    MetaData,
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_engine,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from sulq.errors import (
    BudgetExceeded,
    EngineFailed,
    LedgerDamaged,
    PromiseError,
    QueryNotAllowed,
    Refused,
    SchemaError,
    SourceChanged,
    SulqError,
    in_queries,
)
from sulq.seal import Seal, folder_lock, sync_folder

MEMORY = ":memory:"
BUSY_SECONDS = 30
LARGEST = 2**63 - 1  # what a BIGINT holds
RESERVED = ("open", "charge", "answer", "retry", "refresh")  # kinds with a meaning of their own
START = "0" * 64  # what entry 0 carries as the hash before it


# ---- values ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """A question to pay for: its canonical text, its price, and whose rows it concerns."""

    query: str
    price: int  # micro-queries
    cells: tuple[int, ...] | None  # ledger cells of public columns; None = everybody
    id: str | None = None  # the same id from the same analyst never pays twice
    analyst: str = ""

    def __post_init__(self) -> None:
        if type(self.price) is not int or self.price < 0:
            raise QueryNotAllowed(
                f"price={self.price!r}: a price is a whole number of micro-queries, 0 or more. "
                "Nothing was charged."
            )
        if not all(isinstance(text, str) for text in (self.query, self.id or "", self.analyst)):
            raise QueryNotAllowed(
                f"query={self.query!r}, id={self.id!r}, analyst={self.analyst!r}: each is a text. "
                "Nothing was charged."
            )


@dataclass(frozen=True, slots=True)
class Charge:
    """One line of the ledger: what was asked, its price, what was left."""

    number: int  # its entry in the chain
    query: str
    price: int  # micro-queries
    remaining: int  # micro-queries, the smallest over the cells after this charge
    request: str | None
    time: str  # UTC, ISO 8601
    analyst: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One link of the chain."""

    number: int
    kind: str
    body: dict[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """Where the chain ends and what has been spent."""

    number: int
    hash: str
    base: int  # micro-queries spent by everybody
    most: int  # the largest extra spending of one cell
    epoch: int  # the entry that brought the present rows: 0, or the last refresh


# ---- tables ---------------------------------------------------------------------------------

_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # so that it is SQLite's own row id
_TABLES = MetaData()

HEAD = Table(
    "head",
    _TABLES,
    Column("id", _NUMBER, primary_key=True, autoincrement=False),  # always 1: the row to lock
    Column("number", _NUMBER, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("base", _NUMBER, nullable=False),
    Column("most", _NUMBER, nullable=False),
    Column("epoch", _NUMBER, nullable=False),
)
ENTRIES = Table(
    "entries",
    _TABLES,
    Column("number", _NUMBER, primary_key=True, autoincrement=False),
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
    Column("epoch", _NUMBER, nullable=False),
    Column("answer", ForeignKey(ENTRIES.c.number)),
    UniqueConstraint("query", "epoch"),
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
    Column("cell", _NUMBER, primary_key=True, autoincrement=False),
    Column("spent", _NUMBER, nullable=False),  # beyond what everybody spent
)

_ANSWERS = ENTRIES.alias("answers")
_new_entry, _new_charge, _new_id = insert(ENTRIES), insert(CHARGES), insert(REQUESTS)
_head_row = select(*(c for c in HEAD.c if c.name != "id")).where(HEAD.c.id == 1)
_locked_head_row = _head_row.with_for_update()
_set_head = update(HEAD).where(HEAD.c.id == 1, HEAD.c.number == bindparam("seen"))
_entries_from = (
    select(ENTRIES)
    .where(ENTRIES.c.number >= bindparam("first"))
    .order_by(ENTRIES.c.number)
    .limit(bindparam("most"))
)
_charged = (
    select(CHARGES.c.query, ENTRIES.c.number, ENTRIES.c.body)
    .join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
    .where(CHARGES.c.query.in_(bindparam("queries", expanding=True)))
    .where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
)
_bound = (
    select(REQUESTS.c.request, CHARGES.c.query)
    .join(CHARGES, CHARGES.c.number == REQUESTS.c.charge)
    .where(REQUESTS.c.request.in_(bindparam("requests", expanding=True)))
)
_found = (
    select(ENTRIES.c.number, ENTRIES.c.body, _ANSWERS.c.body)
    .select_from(CHARGES)
    .join(ENTRIES, ENTRIES.c.number == CHARGES.c.number)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.query == bindparam("query"))
    .where(CHARGES.c.epoch == select(HEAD.c.epoch).scalar_subquery())
)
_answered = (
    select(CHARGES.c.number, CHARGES.c.epoch, _ANSWERS.c.body)
    .outerjoin(_ANSWERS, _ANSWERS.c.number == CHARGES.c.answer)
    .where(CHARGES.c.number.in_(bindparam("numbers", expanding=True)))
)
_set_answer = (
    update(CHARGES).where(CHARGES.c.number == bindparam("charge")).values(answer=bindparam("entry"))
)
_extras = select(CELLS.c.cell, CELLS.c.spent).where(
    CELLS.c.cell.in_(bindparam("cells", expanding=True))
)
_set_extra = (
    update(CELLS).where(CELLS.c.cell == bindparam("which")).values(spent=bindparam("extra"))
)


# ---- the chain ------------------------------------------------------------------------------


def canonical(body: Any) -> str:
    """Write JSON in the one form that is hashed: sorted keys, no spaces, ASCII."""
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)


def link_hash(previous: str, number: int, kind: str, body: str) -> str:
    """Hash one entry: SHA-256 of the hash before it, its number, its kind and its body."""
    return sha256(f"{previous}\n{number}\n{kind}\n{body}".encode()).hexdigest()


@lru_cache(maxsize=1024)
def _digest(*texts: str) -> str:
    return sha256(canonical(texts).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _as_charge(number: int, body: str) -> Charge:
    fields = json.loads(body)
    del fields["cells"]
    return Charge(number=number, **fields)


class _Spending:
    """What everybody spent, and what single cells spent beyond it."""

    def __init__(self, base: int, most: int, extra: Mapping[int, int]) -> None:
        self.base = base
        self.most = most
        self.extra = dict(extra)

    def add(self, price: int, cells: Iterable[int] | None) -> int:
        """Spend on these cells (None: everybody) and give the largest spending of any cell."""
        if cells is None:
            self.base += price
        else:
            for cell in cells:
                self.extra[cell] = self.extra.get(cell, 0) + price
                self.most = max(self.most, self.extra[cell])
        return self.base + self.most


class _Page:
    """What one transaction will write: entries first, then the indexes on them."""

    def __init__(self, connection: Connection, head: Head) -> None:
        self.connection = connection
        self.seen = head
        self.head = head
        self.entries: list[dict[str, Any]] = []
        self.indexes: dict[Any, list[dict[str, Any]]] = {}

    def append(self, kind: str, body: Mapping[str, Any]) -> int:
        """Add one entry to the chain and give its number."""
        number, previous, text = self.head.number + 1, self.head.hash, canonical(body)
        new = link_hash(previous, number, kind, text)
        self.entries.append(
            {"number": number, "kind": kind, "body": text, "previous": previous, "hash": new}
        )
        self.head = replace(self.head, number=number, hash=new)
        return number

    def index(self, statement: Any, rows: list[dict[str, Any]]) -> None:
        """Keep these rows for after the entries."""
        if rows:
            self.indexes.setdefault(statement, []).extend(rows)

    def write(self) -> None:
        """Put everything and the new head into the transaction."""
        if not self.entries:
            return
        self.connection.execute(_new_entry, self.entries)
        for statement, rows in self.indexes.items():
            self.connection.execute(statement, rows)
        moved = self.connection.execute(_set_head, asdict(self.head) | {"seen": self.seen.number})
        if moved.rowcount != 1:
            raise LedgerDamaged(
                "The ledger's head moved inside a transaction. Nothing was charged."
            )


# ---- the ledger -----------------------------------------------------------------------------


class Ledger:
    """A durable account of what was asked, paid and answered.

    Safe among threads, processes and forked children. Every charge is on disk when `charge`
    returns and every answer when `record` returns.
    """

    def __init__(self, path: Path | None, engine: Engine, seal: Seal | None) -> None:
        self._path = path
        self._engine = engine
        self._seal = seal
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._file = _identity(path)
        self._seen = Head(0, START, 0, 0, 0)
        self.name = ""
        self.cells = 0
        self.total = 0
        self.terms: dict[str, Any] = {}
        self._epoch = 0
        _OPEN.add(self)

    # -- opening --

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        terms: Mapping[str, Any],
        cells: int,
        total: int,
        name: str,
        seal: Seal | None = None,
    ) -> Ledger:
        """Open the ledger for these terms, or begin it. The promise in it never changes."""
        opening = _opening(terms, cells, total, name)
        if str(where) == MEMORY:
            ledger = cls(None, _connect(None), None)
            _begin(ledger._engine, opening)
            ledger._start()
        else:
            path = Path(os.path.realpath(where))
            if not path.exists():
                _create(path, opening, seal)
            ledger = cls.reopen(path, seal=seal)
        try:
            ledger._same_terms(opening)
        except SulqError:
            ledger.close()
            raise
        ledger.name = name
        return ledger

    @classmethod
    def reopen(cls, where: str | Path, *, seal: Seal | None = None) -> Ledger:
        """Open an existing ledger with the terms recorded in it."""
        path = Path(os.path.realpath(where))
        _refuse_poisoned(path)
        if not path.exists():
            raise Refused(f"ledger={str(path)!r} does not exist. Nothing was charged.")
        ledger = cls(path, _connect(path), seal)
        try:
            ledger._start()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _start(self) -> None:
        """Believe nothing: walk the chain, compare the tables, then the mark outside."""
        # The mark first: another process may charge and mark while the chain is walked.
        mark = self._seal.marked() if self._seal is not None else None
        with self._reading() as connection:
            replay = _audit(connection)
            if self._seal is not None:
                self._seal.check_mark(mark, replay.head.number, lambda n: _hash_of(connection, n))
        self._seen, self._epoch = replay.head, replay.head.epoch
        self.terms, self.cells, self.total = replay.terms, replay.cells, replay.total
        self.name = replay.name
        if self._seal is not None:
            self._seal.mark(self._seen.number, self._seen.hash)

    def _same_terms(self, opening: Mapping[str, Any]) -> None:
        terms = opening["terms"]
        _same_promise(self.terms, terms)
        if opening["total"] != self.total:
            raise PromiseError(
                f"total={in_queries(opening['total'])} but the ledger was opened with "
                f"total={in_queries(self.total)}.{_WHY_FIXED}"
            )
        different = _differing(self.terms.get("schema"), terms.get("schema"))
        if opening["cells"] != self.cells:
            different.append(f"cells={opening['cells']} but the ledger has cells={self.cells}")
        if different:
            raise SchemaError(
                f"The schema is not the ledger's: {'; '.join(different)}. "
                "Nothing was charged.\nGo back to the old schema, or run `sulq refresh` to go on "
                "with the new one: it is logged, and spending goes on."
            )

    def close(self) -> None:
        """Let go of the file. Using the ledger again opens it again."""
        with self._lock:
            self._engine.dispose()

    # -- transactions --

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._lock, self._failures(Refused), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _writing(self, failure: type[SulqError] = Refused) -> Iterator[_Page]:
        """Hold the head, append what the caller adds, commit, then mark it outside."""
        with self._lock:
            with self._failures(failure):
                writer = self._engine.connect().execution_options(writes=True)
                with writer as connection, connection.begin():
                    head = Head(*connection.execute(_locked_head_row).one())
                    self._check_extends(connection, head)
                    page = _Page(connection, head)
                    yield page
                    page.write()
                self._seen = page.head
            if self._seal is not None and page.entries:
                self._seal.mark(page.head.number, page.head.hash)

    @contextmanager
    def _failures(self, failure: type[SulqError]) -> Iterator[None]:
        """Turn what the database library raises into what the ledger says."""
        self._check_usable()
        try:
            yield
        except (DBAPIError, sqlite3.Error) as error:
            raise _explained(error, self._path, failure) from error

    def _check_usable(self) -> None:
        if self._path is None:
            if self._pid != os.getpid():
                raise LedgerDamaged(
                    "An in-memory ledger cannot be shared with a forked process: each would "
                    "spend the whole budget. Use a ledger file. Nothing was charged."
                )
            return
        _refuse_poisoned(self._path)
        if _identity(self._path) != self._file:
            raise LedgerDamaged(
                f"The ledger {self._path.name!r} was moved or replaced while in use. "
                "Nothing was charged. Put the file back and start again."
            )

    def _check_extends(self, connection: Connection, head: Head) -> None:
        """The chain must end where this process last saw it, or continue from there."""
        seen = self._seen
        if head == seen:
            return
        if head.number <= seen.number:
            raise LedgerDamaged(
                f"The ledger changed behind this process at entry {seen.number}. "
                "Nothing was charged."
            )
        number, last = seen.number, seen.hash
        remaining = self.total - head.base - head.most
        for row in _walk(connection, seen.number + 1):
            number += 1
            last = _checked_link(row, number, last)
            if row.kind == "charge":
                remaining = json.loads(row.body)["remaining"]
        if remaining != self.total - head.base - head.most:
            raise _damaged(number, "and the spending do not agree")
        if (number, last) != (head.number, head.hash):
            raise _damaged(head.number, "is not where the chain ends")
        self._seen = head

    # -- paying --

    def find(self, query: str) -> tuple[Charge, str | None] | None:
        """The charge already made for this question and its answer, if there is one."""
        with self._reading() as connection:
            row = connection.execute(_found, {"query": _digest(query)}).first()
        if row is None:
            return None
        return _as_charge(row[0], row[1]), _answer_in(row[2])

    def charge(self, requests: Sequence[Request]) -> list[Charge]:
        """Pay for all of them or for none; durable when it returns.

        A question already charged, or asked again with the same request id, pays nothing.
        """
        requests = [self._normal(request) for request in requests]
        with self._reading() as connection:
            head = _read_head(connection)
            charges, bound = _look_up(connection, requests)
        if all(_key(r) in charges and (r.id is None or _id_key(r) in bound) for r in requests):
            return [charges[_key(request)] for request in requests]
        with self._writing() as page:
            if page.head.epoch != self._epoch:
                raise SourceChanged(
                    f"{self.name!r} was refreshed by another process. Nothing was charged. "
                    "Open the database again to ask about the new rows."
                )
            if page.head != head:
                charges, bound = _look_up(page.connection, requests)
            return self._append_charges(page, requests, charges, bound)

    def _append_charges(
        self,
        page: _Page,
        requests: Sequence[Request],
        charges: dict[str, Charge],
        bound: dict[str, str],
    ) -> list[Charge]:
        fresh_ids = [r for r in requests if r.id is not None and _bind(bound, r)]
        new: dict[str, Request] = {}
        for request in requests:
            if _key(request) not in charges:
                new.setdefault(_key(request), request)
        spending = self._afford(page, new.values())
        for key, request in new.items():
            charges[key] = self._append_charge(page, request, spending)
        for request in fresh_ids:
            self._append_id(page, request, charges[_key(request)])
        page.head = replace(page.head, base=spending.base, most=spending.most)
        return [charges[_key(request)] for request in requests]

    def _append_charge(self, page: _Page, request: Request, spending: _Spending) -> Charge:
        remaining = self.total - spending.add(request.price, request.cells)
        fields: dict[str, Any] = {
            "query": request.query,
            "price": request.price,
            "remaining": remaining,
            "request": request.id,
            "time": _now(),
            "analyst": request.analyst,
        }
        number = page.append("charge", fields | {"cells": request.cells})
        row = {"number": number, "query": _key(request), "epoch": page.head.epoch}
        page.index(_new_charge, [row])
        cells = request.cells or ()
        page.index(_set_extra, [{"which": c, "extra": spending.extra[c]} for c in cells])
        return Charge(number=number, **fields)

    def _append_id(self, page: _Page, request: Request, charge: Charge) -> None:
        """Bind a request id to its charge, with an entry of its own unless the charge has it."""
        if (charge.request, charge.analyst) != (request.id, request.analyst):
            body = {"charge": charge.number, "request": request.id, "analyst": request.analyst}
            page.append("retry", body | {"time": _now()})
        page.index(_new_id, [{"request": _id_key(request), "charge": charge.number}])

    def _afford(self, page: _Page, new: Iterable[Request]) -> _Spending:
        """The spending before these requests; refuse them if any cell would exceed the total."""
        everybody, added = 0, dict[int, int]()
        for request in new:
            if request.cells is None:
                everybody += request.price
            for cell in request.cells or ():
                added[cell] = added.get(cell, 0) + request.price
        head = page.head
        before = _extras_of(page.connection, added)
        loads = [(everybody + added[cell], before[cell]) for cell in added]
        if everybody:
            loads.append((everybody, head.most))
        price, extra = max(loads, key=sum, default=(0, 0))
        remaining = self.total - head.base - extra
        if price > remaining:
            raise BudgetExceeded(price, remaining, self.name)
        return _Spending(head.base, head.most, before)

    def _normal(self, request: Request) -> Request:
        """Cells sorted and once each; all of them means everybody."""
        if request.cells is None:
            return request
        cells = sorted(set(request.cells))
        if any(type(c) is not int or not 0 <= c < self.cells for c in cells):
            raise QueryNotAllowed(
                f"cells={request.cells!r}: the ledger has cells 0 to {self.cells - 1}. "
                "Nothing was charged."
            )
        return replace(request, cells=None if len(cells) == self.cells else tuple(cells))

    # -- answers and other entries --

    def record(self, answers: Sequence[tuple[int, str]]) -> list[str]:
        """Store answers to charges and give what is stored: the first one wins."""
        with self._writing(EngineFailed) as page:
            numbers = {"numbers": sorted({number for number, _ in answers})}
            rows = page.connection.execute(_answered, numbers)
            stored = {}
            for number, epoch, body in rows:
                stored[number] = _answer_in(body)
                if epoch > self._epoch and body is None:
                    raise EngineFailed(
                        f"{self.name!r} was refreshed by another process, so an answer about the "
                        "old rows is not kept. The charge stands, asking again does not pay "
                        "again. Open the database again."
                    )
            kept = []
            for number, text in answers:
                if number not in stored:
                    raise LedgerDamaged(
                        f"Charge {number} is not in the ledger: no answer is given."
                    )
                answer = stored[number]
                if answer is None:
                    answer = stored[number] = text
                    entry = page.append("answer", {"charge": number, "answer": text})
                    page.index(_set_answer, [{"charge": number, "entry": entry}])
                kept.append(answer)
            return kept

    def note(self, kind: str, body: Mapping[str, Any]) -> int:
        """Append an entry that the owner should find later, such as "override"."""
        if kind in RESERVED or not kind.isidentifier() or len(kind) > 16:
            raise ValueError(f"kind={kind!r}: a short word, not one of {', '.join(RESERVED)}")
        with self._writing() as page:
            return page.append(kind, {**body, "time": _now()})

    def renew(
        self, terms: Mapping[str, Any], body: Mapping[str, Any], *, cells: int | None = None
    ) -> int:
        """Go on with changed rows: logged, the same promise, spending goes on.

        Answers about the rows before are kept in the history but no longer given.
        """
        new: dict[str, Any] = json.loads(canonical(terms))
        _same_promise(self.terms, new)
        if cells is not None and cells != self.cells:
            raise SchemaError(
                f"cells={cells} but the ledger has {self.cells}: what each cell spent could not "
                "be carried over. Nothing was charged.\nKeep the public columns and their values."
            )
        with self._writing() as page:
            epoch = page.append("refresh", {"terms": new, "body": body, "time": _now()})
            page.head = replace(page.head, epoch=epoch)
        self.terms, self._epoch = new, epoch
        return epoch

    # -- looking --

    def budget(self) -> tuple[int, int, int]:
        """Total, spent and remaining in micro-queries, for the cell that spent most."""
        with self._reading() as connection:
            head = _read_head(connection)
        spent = head.base + head.most
        return self.total, spent, self.total - spent

    def spent_by_cell(self) -> dict[int, int]:
        """What the rows of each cell have spent, in micro-queries."""
        with self._reading() as connection:
            base = _read_head(connection).base
            return {cell: base + extra for cell, extra in connection.execute(select(CELLS))}

    def base(self) -> int:
        """What everybody has spent, in micro-queries."""
        with self._reading() as connection:
            return _read_head(connection).base

    def history(self) -> list[Charge]:
        """Every charge ever made, oldest first."""
        rows = select(ENTRIES.c.number, ENTRIES.c.body).where(ENTRIES.c.kind == "charge")
        with self._reading() as connection:
            charges = connection.execute(rows.order_by(ENTRIES.c.number)).all()
        return [_as_charge(number, body) for number, body in charges]

    def entries(self) -> Iterator[Entry]:
        """Every entry of the chain, oldest first."""
        with self._reading() as connection:
            last = _read_head(connection).number
        first = 0
        while first <= last:
            with self._reading() as connection:
                rows = _entries(connection, first)
            for row in rows:
                yield Entry(row.number, row.kind, json.loads(row.body), row.previous, row.hash)
            first += max(len(rows), 1)

    def verify(self) -> int:
        """Walk the whole chain and compare the tables with it; give the number of entries."""
        with self._reading() as connection:
            return _audit(connection).head.number + 1


# ---- reading tables -------------------------------------------------------------------------


def _read_head(connection: Connection) -> Head:
    return Head(*connection.execute(_head_row).one())


def _entries(connection: Connection, first: int) -> Sequence[Row[Any]]:
    return connection.execute(_entries_from, {"first": first, "most": 1000}).all()


def _walk(connection: Connection, first: int) -> Iterator[Row[Any]]:
    """Every entry from this one on, in pages; a damaged file may not send it in circles."""
    while rows := _entries(connection, first):
        yield from rows
        if rows[-1].number < first:
            raise _damaged(first, "is out of place")
        first = rows[-1].number + 1


def _hash_of(connection: Connection, number: int) -> str | None:
    row = connection.execute(select(ENTRIES.c.hash).where(ENTRIES.c.number == number)).first()
    return None if row is None else str(row[0])


def _answer_in(body: str | None) -> str | None:
    return None if body is None else str(json.loads(body)["answer"])


def _extras_of(connection: Connection, cells: Iterable[int]) -> dict[int, int]:
    wanted = list(cells)
    if not wanted:
        return {}
    return {cell: spent for cell, spent in connection.execute(_extras, {"cells": wanted})}


def _key(request: Request) -> str:
    return _digest(request.query)


def _id_key(request: Request) -> str:
    return _digest(request.analyst, request.id or "")


def _look_up(
    connection: Connection, requests: Sequence[Request]
) -> tuple[dict[str, Charge], dict[str, str]]:
    """Charges by question and questions by request id, as far as the ledger has them."""
    rows = connection.execute(_charged, {"queries": [_key(r) for r in requests]})
    charges = {query: _as_charge(number, body) for query, number, body in rows}
    bound: dict[str, str] = {}
    ids = [_id_key(r) for r in requests if r.id is not None]
    if ids:
        bound = {id: query for id, query in connection.execute(_bound, {"requests": ids})}
    for request in requests:
        if request.id is None or _id_key(request) not in bound:
            continue
        _bind(bound, request)
        if _key(request) not in charges:
            raise QueryNotAllowed(
                f"request id {request.id!r} was used before the rows were refreshed. "
                "Nothing was charged.\nAsk with a new id to pay for an answer about the new rows."
            )
    return charges, bound


def _bind(bound: dict[str, str], request: Request) -> bool:
    """Bind the request's id to its question; False if it was bound already."""
    id_key, key = _id_key(request), _key(request)
    if bound.get(id_key, key) != key:
        raise QueryNotAllowed(
            f"request id {request.id!r} was used for another question. Nothing was charged.\n"
            "Use a new id for a new question."
        )
    if id_key in bound:
        return False
    bound[id_key] = key
    return True


# ---- the audit ------------------------------------------------------------------------------


def _damaged(number: int, what: str) -> LedgerDamaged:
    return LedgerDamaged(
        f"Ledger entry {number} {what}. The history cannot be trusted, so nothing is answered.\n"
        "Restore the newest copy of the ledger."
    )


def _checked_link(row: Row[Any], number: int, previous: str) -> str:
    """Check one entry against the hash before it and give its own hash."""
    if row.number != number:
        raise _damaged(number, "is missing")
    if row.previous != previous:
        raise _damaged(number, "does not follow from the one before")
    if row.hash != link_hash(row.previous, row.number, row.kind, row.body):
        raise _damaged(number, "was changed")
    return str(row.hash)


class _Replay:
    """The ledger's tables as the chain alone says they must be."""

    def __init__(self) -> None:
        self.terms: dict[str, Any] = {}
        self.cells = 0
        self.total = 0
        self.name = ""
        self.head = Head(-1, START, 0, 0, 0)
        self.spending = _Spending(0, 0, {})
        self.charges: dict[int, tuple[str, int, int | None]] = {}
        self.requests: dict[str, int] = {}

    def take(self, row: Row[Any]) -> None:
        """Follow one entry."""
        number = self.head.number + 1
        new = _checked_link(row, number, self.head.hash)
        self.head = replace(self.head, number=number, hash=new)
        try:
            self._follow(number, row.kind, json.loads(row.body))
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(number, "cannot be read") from error

    def _follow(self, number: int, kind: str, body: dict[str, Any]) -> None:
        if (kind == "open") != (number == 0):
            raise _damaged(number, "is out of place")
        if kind == "open":
            self.terms, self.cells, self.total = body["terms"], body["cells"], body["total"]
            self.name = body["name"]
        elif kind == "charge":
            self._charge(number, body)
        elif kind == "retry":
            self._bind(number, body, body["charge"])
        elif kind == "answer":
            self._answer(number, body["charge"])
        elif kind == "refresh":
            self.terms = body["terms"]
            self.head = replace(self.head, epoch=number)

    def _charge(self, number: int, body: dict[str, Any]) -> None:
        remaining = self.total - self.spending.add(body["price"], body["cells"])
        if body["price"] < 0 or remaining < 0 or remaining != body["remaining"]:
            raise _damaged(number, "does not add up")
        self.head = replace(self.head, base=self.spending.base, most=self.spending.most)
        self.charges[number] = (_digest(body["query"]), self.head.epoch, None)
        if body["request"] is not None:
            self._bind(number, body, number)

    def _bind(self, number: int, body: dict[str, Any], charge: int) -> None:
        id_key = _digest(body["analyst"], body["request"])
        if charge not in self.charges or id_key in self.requests:
            raise _damaged(number, "binds a request id wrongly")
        self.requests[id_key] = charge

    def _answer(self, number: int, charge: int) -> None:
        if charge not in self.charges or self.charges[charge][2] is not None:
            raise _damaged(number, "answers no open charge")
        self.charges[charge] = (*self.charges[charge][:2], number)

    def compare(self, connection: Connection) -> None:
        """Raise if a table says anything else."""
        extra = {cell: self.spending.extra.get(cell, 0) for cell in range(self.cells)}
        rows = connection.execute(select(HEAD)).all()
        same = {
            "head": [tuple(row) for row in rows] == [(1, *astuple(self.head))],
            "charges": _rows(connection, CHARGES) == self.charges,
            "requests": _rows(connection, REQUESTS) == {k: (v,) for k, v in self.requests.items()},
            "cells": _rows(connection, CELLS) == {cell: (spent,) for cell, spent in extra.items()},
        }
        for table, agrees in same.items():
            if not agrees:
                raise _damaged(self.head.number, f"and the table {table!r} do not agree")


def _rows(connection: Connection, table: Table) -> dict[Any, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in connection.execute(select(table))}


def _audit(connection: Connection) -> _Replay:
    """Replay the chain from its first entry and compare the tables with it."""
    replay = _Replay()
    for row in _walk(connection, 0):
        replay.take(row)
    if replay.head.number < 0:
        raise _damaged(0, "is missing")
    replay.compare(connection)
    return replay


# ---- terms ----------------------------------------------------------------------------------

_WHY_FIXED = (
    " The promise covers answers already given; raising T or epsilon later would break it. "
    "Nothing was charged.\nOpen the ledger with the values it was opened with."
)


def _opening(terms: Mapping[str, Any], cells: int, total: int, name: str) -> dict[str, Any]:
    """The body of entry 0."""
    if type(total) is not int or not 0 <= total <= LARGEST:
        raise PromiseError(f"total={total!r}: a whole number of micro-queries, 0 to 2**63 - 1.")
    if type(cells) is not int or cells < 1:
        raise SchemaError(f"cells={cells!r}: a ledger has one cell or more.")
    body = {"terms": terms, "cells": cells, "total": total, "name": name, "time": _now()}
    # A random id, so that two ledgers begun alike are never taken for each other.
    plain: dict[str, Any] = json.loads(canonical(body | {"id": secrets.token_hex(16)}))
    return plain


def _differing(old: Any, new: Any, path: str = "") -> list[str]:
    """Name each value that differs: 'epsilon=2 but the ledger has epsilon=1'."""
    if old == new:
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        dot = f"{path}." if path else ""
        keys = sorted(old.keys() | new.keys())
        return [line for k in keys for line in _differing(old.get(k), new.get(k), f"{dot}{k}")]
    return [f"{path or 'it'}={new!r} but the ledger has {path or 'it'}={old!r}"]


def _same_promise(old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    different = _differing(old.get("promise"), new.get("promise"))
    if different:
        raise PromiseError(f"{'; '.join(different)}.{_WHY_FIXED}")


# ---- files ----------------------------------------------------------------------------------


def _connect(path: Path | None) -> Engine:
    """All that is particular to SQLite: one connection, a write-ahead log, every commit synced.

    PostgreSQL would need another engine here and nothing else: its writers wait for each
    other at the locked head row, SQLite's at BEGIN IMMEDIATE.
    """

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            MEMORY if path is None else f"file:{quote(str(path))}?mode=rw",
            uri=path is not None,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "fullfsync=ON"):
            connection.execute(f"PRAGMA {pragma}").close()
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=StaticPool, hide_parameters=True)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _begin(engine: Engine, opening: Mapping[str, Any]) -> None:
    """Make the tables and entry 0 in one transaction."""
    text = canonical(opening)
    first = {"number": 0, "hash": link_hash(START, 0, "open", text)}
    writer = engine.connect().execution_options(writes=True)
    with writer as connection, connection.begin():
        _TABLES.create_all(connection)
        connection.execute(
            insert(ENTRIES), first | {"kind": "open", "body": text, "previous": START}
        )
        connection.execute(insert(HEAD), first | {"id": 1, "base": 0, "most": 0, "epoch": 0})
        cells = [{"cell": cell, "spent": 0} for cell in range(opening["cells"])]
        connection.execute(insert(CELLS), cells)


def _create(path: Path, opening: Mapping[str, Any], seal: Seal | None) -> None:
    """Begin a ledger under another name and move it into place, so none is ever half made."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with _FORKING, folder_lock(path.parent):
            if path.exists():
                return  # another process was first
            _check_vacant(path, seal)
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            engine = _connect(temporary)
            try:
                _begin(engine, opening)
                with engine.connect() as connection:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()
            finally:
                engine.dispose()
            os.rename(temporary, path)
            sync_folder(path.parent)
    except (DBAPIError, sqlite3.Error) as error:
        raise _explained(error, path, Refused) from error
    except OSError as error:
        if error.errno == EIO:
            _POISONED.add(str(path))
        raise Refused(
            f"ledger={str(path)!r} cannot be created: {error.strerror}. Nothing was charged."
        ) from error
    finally:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{temporary}{suffix}").unlink(missing_ok=True)


def _check_vacant(path: Path, seal: Seal | None) -> None:
    if Path(f"{path}-wal").exists():
        raise LedgerDamaged(
            f"The ledger {path.name!r} is gone but {path.name}-wal is still there. "
            "Restore the ledger file, with that file beside it."
        )
    if seal is not None:
        seal.check_vacant()


def _identity(path: Path | None) -> tuple[int, int] | None:
    try:
        found = os.stat(path) if path is not None else None
    except FileNotFoundError:
        return None
    return None if found is None else (found.st_dev, found.st_ino)


# ---- failures -------------------------------------------------------------------------------

_POISONED: set[str] = set()

# Nothing of the transaction was kept: SQLite had not finished writing it, or never began.
_KEPT_NOTHING = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_BUSY: f"another process has held it for {BUSY_SECONDS} seconds",
    sqlite3.SQLITE_LOCKED: "another connection holds it",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "the file may not be opened",
}


def _refuse_poisoned(path: Path) -> None:
    if str(path) in _POISONED:
        raise LedgerDamaged(
            f"A write to the ledger {path.name!r} failed in this process, and after a failed "
            "write the system may report unsaved data as saved. No more answers are given.\n"
            "Check the disk and restart the process."
        )


def _explained(
    error: DBAPIError | sqlite3.Error, path: Path | None, failure: type[SulqError]
) -> SulqError:
    """Say what a failed statement or commit means for charges and answers."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    name = path.name if path is not None else MEMORY
    if code in _KEPT_NOTHING:
        kept = "The charge stands, asking again does not pay again"
        kept = "Nothing was charged" if issubclass(failure, Refused) else kept
        return failure(f"The ledger {name!r} cannot be written: {_KEPT_NOTHING[code]}. {kept}.")
    if code == sqlite3.SQLITE_IOERR and path is not None:
        _POISONED.add(str(path))
        return LedgerDamaged(
            f"Writing the ledger {name!r} failed ({cause}). No answer is given; a charge may have "
            "been made.\nCheck the disk and restart the process."
        )
    return LedgerDamaged(
        f"The ledger {name!r} cannot be read ({cause}). Nothing is answered.\n"
        "Restore the newest copy of the ledger."
    )


# ---- forks ----------------------------------------------------------------------------------
# SQLite keeps its file locks in process memory; a child that inherits an open connection
# believes it holds locks it does not. So connections are closed before every fork.

_OPEN: weakref.WeakSet[Ledger] = weakref.WeakSet()
_FORKING = threading.Lock()
_HELD: list[Ledger] = []


def _before_fork() -> None:
    _FORKING.acquire()
    for ledger in list(_OPEN):
        if ledger._path is not None:
            ledger._lock.acquire()
            _HELD.append(ledger)
            ledger._engine.dispose()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._lock.release()
    _FORKING.release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
