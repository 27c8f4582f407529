"""Connections and cursors: a SELECT goes in, rows of noisy numbers come out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sulq.dbapi.pep249 import NUMBER, Errors, InterfaceError, NotSupportedError, code_of, translated
from sulq.dbapi.substitution import substituted
from sulq.errors import MICRO
from sulq.stepwise import in_steps

if TYPE_CHECKING:
    from sulq.database import Database
    from sulq.spending_limit import SpendingLimit
    from sulq.values.price import Price
    from sulq.values.table import Table

ALIVE = re.compile(r"\s*select\s+(\d{1,9})\s*;?\s*", re.IGNORECASE)  # is anybody there?
HOW = (
    "EXPLAIN SELECT ... shows the price, free. To allow it, connect with a limit: "
    "sulq.dbapi.connect(db, spend=5) (queries)."
)
EXPLAIN = re.compile(r"\s*explain\s+", re.IGNORECASE)


def connect(
    source: Any, *, free: bool = False, spend: Any = None, intervals: bool = True, **options: Any
) -> Connection:
    """Connect to a Database, or to what `sulq.open` opens, with its options.

    A path that ends in .toml is a sulq.toml. A Database that was open before stays open when
    the connection is closed. free=True spends nothing: statements are estimated from stored
    answers alone. spend=5 lets the connection spend five queries and no more. Without it the limit
    is what the promise has left, which whoever opened the rows chose; a dataset of a server, which
    somebody else opened, is not spent on. intervals=False leaves out the low and high columns
    beside each number.
    """
    from sulq.database import Database
    from sulq.open_database import open
    from sulq.spending_limit import SpendingLimit

    with translated():
        theirs = isinstance(source, Database) and source.of_server
        limit = None if spend is None and not theirs else SpendingLimit(spend, HOW)
    said: dict[str, Any] = {"free": free, "limit": limit, "intervals": intervals}
    if isinstance(source, Database):
        if options:
            names = ", ".join(options)
            raise InterfaceError(f"{names}: this database is open already; its promise stands.")
        return Connection(source, owned=False, **said)
    with translated():
        if isinstance(source, str | Path) and str(source).endswith(".toml"):
            from sulq.settings_file import Settings

            made = open(**Settings.load(source).arguments | options)
            return Connection(made, owned=True, **said)
        return Connection(open(source, **options), owned=True, **said)


def widest(half_widths: Sequence[float | None]) -> float | None:
    """The largest expected error that is known."""
    return max((w for w in half_widths if w is not None), default=None)


class Connection(Errors):
    """One database, as PEP 249 sees it."""

    autocommit = True  # each answer stands by itself

    def __init__(
        self, db: Database, *, owned: bool, free: bool = False,
        limit: SpendingLimit | None = None, intervals: bool = True,
    ) -> None:  # fmt: skip
        self._db: Database | None = db
        self._owned = owned
        self.free = free  # are statements estimated from stored answers, and never paid?
        self.limit = limit  # what may be spent from here; None: what the promise has left
        self.intervals = intervals  # are there low and high columns beside each number?

    @property
    def db(self) -> Database:
        """The database, with its budget, prices and history."""
        return self._check()

    def _check(self) -> Database:
        if self._db is None:
            raise InterfaceError("the connection is closed.")
        return self._db

    def cursor(self) -> Cursor:
        """A place to ask from."""
        self._check()
        return Cursor(self)

    def commit(self) -> None:
        """Do nothing: every charge is durable before its answer comes back."""
        self._check()

    def rollback(self) -> None:
        """Do nothing: what was spent stays spent."""
        self._check()

    def close(self) -> None:
        """Let go of the database, if it was opened here."""
        db, self._db = self._db, None
        if db is not None and self._owned:
            db.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Cursor:
    """Asks statements and hands out the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.lastrowid = None
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self.price: Price | None = None  # of the statement; asked again it is free
        self.table: Table | None = None  # the last result, with .remaining and .note
        self._rows: Iterator[tuple[Any, ...]] = iter(())

    def _check(self) -> Database:
        if self._closed:
            raise InterfaceError("the cursor is closed.")
        return self.connection.db

    # --- asking -----------------------------------------------------------------------

    def execute(self, operation: str, parameters: Sequence[Any] = ()) -> Cursor:
        """Ask one SELECT, with a value for each `?`; it is paid now, unless asked before.

        EXPLAIN before it shows its price and expected error, free.
        """
        return self.executemany(operation, [() if parameters is None else parameters])

    def executemany(self, operation: str, seq_of_parameters: Sequence[Sequence[Any]]) -> Cursor:
        """Ask the statement once for each list of parameters; the rows follow each other."""
        db = self._check()
        self._forget()
        statements = [substituted(operation, p) for p in seq_of_parameters]
        if len(statements) == 1 and (alive := ALIVE.fullmatch(statements[0])):
            self.description = [(alive[1], NUMBER, *[None] * 5)]
            return self._holding([(int(alive[1]),)])
        if statements and EXPLAIN.match(statements[0]):
            return self._explained(db, [EXPLAIN.sub("", s, count=1) for s in statements])
        with translated():
            if len(statements) > 1:
                for statement in statements:  # refused before the first is paid, or not at all
                    db.price(statement)
            with in_steps(db):
                tables = [self._asked_of(db, statement) for statement in statements]
        if not tables:
            return self
        found = [self._columns(table) for table in tables]
        self.table = tables[-1]
        self.price = sum((t.price for t in tables[1:]), tables[0].price)
        self.description = [
            (name, code_of([v for columns in found for v in columns[name]]), *[None] * 5)
            for name in found[-1]
        ]
        return self._holding([row for c in found for row in zip(*c.values(), strict=True)])

    def _holding(self, rows: list[tuple[Any, ...]]) -> Cursor:
        self.rowcount, self._rows = len(rows), iter(rows)
        return self

    def _explained(self, db: Database, statements: Sequence[str]) -> Cursor:
        """Prices, what asking now would charge, expected errors (95%), what is left; in queries."""
        with translated():
            asked = [db.question(statement) for statement in statements]
            rows = [
                (float(q.price), db.unpaid(q) / MICRO, widest(q.price.half_widths),
                 float(db.left(q)))
                for q in asked
            ]  # fmt: skip
        names = ("price", "to_pay", "error_95", "remaining")
        self.description = [(name, NUMBER, *[None] * 5) for name in names]
        return self._holding(rows)

    def _asked_of(self, db: Database, statement: str) -> Table:
        """The answer to one statement, within what may be spent."""
        limit = self.connection.limit
        if limit is None or self.connection.free:
            return db.sql(statement, free=self.connection.free)
        question = db.question(statement)
        with limit.paying(db, question) as most:
            table: Table = db.answer(question, most=most)
        return table

    def _columns(self, table: Table) -> dict[str, list[Any]]:
        columns = table.typed()
        ends = {f"{name}{end}" for name in table.numbers for end in ("_low", "_high")}
        if self.connection.intervals:
            return columns
        return {name: column for name, column in columns.items() if name not in ends}

    def callproc(self, procname: str, parameters: Sequence[Any] = ()) -> None:
        """Not supported."""
        raise NotSupportedError("there are no stored procedures.")

    def nextset(self) -> None:
        """There is never a second set."""
        self._check()

    # --- fetching ---------------------------------------------------------------------

    def _asked(self) -> Iterator[tuple[Any, ...]]:
        self._check()
        if self.description is None:
            raise InterfaceError("nothing was asked yet: execute a SELECT first.")
        return self._rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None."""
        return next(self._asked(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them unless a size is given."""
        rows = self._asked()
        wanted = self.arraysize if size is None else size
        return [row for _, row in zip(range(wanted), rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return list(self._asked())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._asked())

    # --- the rest of PEP 249 ----------------------------------------------------------

    def setinputsizes(self, sizes: Any) -> None:
        """Do nothing, as PEP 249 allows."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Do nothing, as PEP 249 allows."""

    def close(self) -> None:
        """Drop the rows."""
        self._forget()
        self._closed = True

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
