"""One connection after it was let in: messages -> statements -> replies.

Simple queries and the extended protocol, transactions that hold nothing (a charge is never taken
back), cursors, COPY to the client. After an error in the extended protocol everything is skipped up
to the next Sync, as PostgreSQL does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sulq.dbapi import DataError
from sulq.dbapi.substitution import literal
from sulq.errors import SulqError
from sulq.server.pgwire import messages
from sulq.server.pgwire import statement_kinds as statements
from sulq.server.pgwire.client_socket import Gone, TooLong, Wire
from sulq.server.pgwire.commands import Commands, Cursor
from sulq.server.pgwire.copy_out import CopyOptions, copied
from sulq.server.pgwire.problems import Problem, malformed, notice, problem_of
from sulq.server.pgwire.result_types import BadValue, ResultColumn, decoded, encoded
from sulq.server.pgwire.selects import Select
from sulq.server.pgwire.service_calls import Asking, Result
from sulq.server.pgwire.statement_kinds import ClientStatement
from sulq.server.pgwire.variables import TOLD, Variables
from sulq.server.services import logs
from sulq.server.services.responses import UNEXPECTED
from sulq.server.services.settings import Settings

MAX_PREPARED = 500  # statements of one connection,
MAX_PORTALS = 50
MAX_ROWS_KEPT = 400_000  # and rows of portals and cursors that were not fetched yet
MAX_KEPT = 4_000_000  # letters of all prepared statements
MAX_TEXT = 131_072  # letters of one message,
SHORT = 2_000  # and so many that are read without a thread
CHUNK = 65_536  # bytes that are sent at a time
WORK = ("Q", "P", "B", "D", "E")  # messages that are read further
LISTED = ("explain", "show", "select", "fetch")  # what gives rows


@dataclass(slots=True)
class Prepared:
    """A statement under a name."""

    statement: ClientStatement
    select: Select | None = None
    types: list[int] = field(default_factory=list)
    columns: list[ResultColumn] | None = None


@dataclass(slots=True)
class Portal:
    """A prepared statement with its values, and how far its rows were fetched."""

    prepared: Prepared
    literals: list[str]
    formats: tuple[int, ...]
    result: Result | None = None
    at: int = 0

    def forms(self, count: int) -> list[int]:
        """How each column is sent."""
        if len(self.formats) <= 1:
            return [self.formats[0] if self.formats else 0] * count
        if len(self.formats) != count:
            raise Problem("08P01", f"{len(self.formats)} formats for {count} columns")
        return list(self.formats)


class Session:
    """One connection."""

    def __init__(
        self, wire: Wire, asking: Asking, variables: Variables, settings: Settings
    ) -> None:
        self._wire = wire
        self._asking = asking
        self._variables = variables
        self._settings = settings
        self._commands = Commands(variables, self._ask)
        self._prepared: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._skipping = False
        self._running: asyncio.Future[Any] | None = None
        self._cancelled = False
        self._told = self._to_tell()
        self.closing = False

    # ---- messages ---------------------------------------------------------------------------

    async def serve(self) -> None:
        """Answer until the client leaves."""
        for name, value in self._told.items():
            self._wire.write(messages.parameter(name, value))
        self._ready()
        while True:
            await self._wire.flush()
            await asyncio.sleep(0)  # a client with many messages is not served alone
            try:
                kind, body = await self._wire.message(self._settings.body_bytes)
            except TooLong:
                most = self._settings.body_bytes
                raise Problem(
                    "54000", f"a message is longer than {most:,} bytes", fatal=True
                ) from None
            if kind == "X":
                return
            await self._one(kind, body)
            if self.closing:
                raise Problem(
                    "57P01", "this server is shutting down", "connect again later", fatal=True
                )

    def _ready(self) -> None:
        self._wire.write(messages.ready(self._commands.status))

    async def _one(self, kind: str, body: bytes) -> None:
        if kind == "S":
            self._skipping = False
            if self._commands.status == "I":
                self._portals.clear()
            self._ready()
            return
        if kind in ("d", "c", "f") or (self._skipping and kind != "Q"):
            return  # of a COPY that was refused, or behind an error
        try:
            await self._guarded(self._dispatched(kind, body))
        except Problem as problem:
            if problem.fatal:
                raise
            self._commands.fail()
            self._wire.write(problem.sent())
            self._skipping = kind != "Q"
        if kind == "Q":
            self._skipping = False
            self._ready()

    async def _dispatched(self, kind: str, body: bytes) -> None:
        if kind in WORK:
            await self._asking.within_share()
        try:
            if kind == "Q":
                await self._query(messages.query_text(body))
            elif kind == "P":
                await self._parse(messages.Parse.read(body))
            elif kind == "B":
                await self._bind(messages.Bind.read(body), len(body))
            elif kind == "D":
                await self._describe(messages.Named.read(body))
            elif kind == "E":
                await self._execute(messages.Execute.read(body))
            elif kind == "C":
                self._close(messages.Named.read(body))
            elif kind == "F":
                raise Problem("0A000", "functions are called in a SELECT")
            elif kind != "H":
                raise malformed()
        except messages.Malformed:
            raise malformed() from None

    async def _guarded(self, doing: Awaitable[None]) -> None:
        """Run it; every error as a Problem, also that it was cancelled or takes too long."""
        self._cancelled = False
        self._running = asyncio.ensure_future(doing)
        try:
            async with asyncio.timeout(self._variables.timeout_seconds):
                await self._running
        except asyncio.CancelledError:
            if not self._cancelled:
                raise
            raise _cancelled("user request") from None
        except TimeoutError:
            raise _cancelled("statement timeout") from None
        except (Problem, Gone):
            raise
        except SulqError as error:
            principal = self._asking.principal
            raise problem_of(error, principal.is_owner, self._settings.folder) from None
        except Exception as error:
            logs.failure(error, route="postgres")
            raise Problem("XX000", UNEXPECTED, charged=None) from None
        finally:
            self._running = None

    def cancel(self) -> None:
        """Give up what is under way, if anything is."""
        if self._running is not None and not self._running.done():
            self._cancelled = True
            self._running.cancel()

    # ---- simple queries ---------------------------------------------------------------------

    async def _query(self, text: str) -> None:
        found = await self._divided(text)
        if found is None:
            raise Problem("54001", "too long, or too many statements in one message")
        for each in found:
            await self._asking.admit()
            if each.kind == "":
                self._wire.write(messages.EMPTY)
                continue
            self._commands.check(each)
            select = await self._read(each)
            if select is not None and select.count:
                raise Problem("42P02", "there is no parameter $1 in a simple query")
            if each.kind == "copy":
                await self._copy(each, select)
                continue
            result = await self._result(each, select)
            if result.columns or each.kind == "select":
                columns = [column.described for column in result.columns]
                self._wire.write(messages.described(columns, [0] * len(columns)))
            await self._send(result, [0] * len(result.columns), result.rows)
            self._done(result)

    async def _divided(self, text: str) -> list[ClientStatement] | None:
        """The statements of a text; None if it is too long, or has too many."""
        if len(text) >= MAX_TEXT:
            return None
        if len(text) < SHORT:
            return statements.statements(text)
        return await self._asking.metered(lambda: statements.statements(text))

    async def _read(self, each: ClientStatement) -> Select | None:
        """The SELECT that it is or holds."""
        text = self._commands.select_in(each)
        return None if text is None else await self._asking.read(text)

    async def _result(
        self, each: ClientStatement, select: Select | None, literals: Sequence[str] = ()
    ) -> Result:
        """What a statement gives."""
        if each.kind == "select" and select is not None:
            return await self._asking.select(select, literals)
        if each.kind in ("deallocate", "discard"):
            self._deallocate(each)
        return await self._commands.run(each, select, literals)

    def _deallocate(self, each: ClientStatement) -> None:
        found = statements.DEALLOCATE.fullmatch(each.text)
        if found is None or found[1].lower() == "all":
            self._prepared.clear()
        else:
            self._prepared.pop(statements.unquoted(found[1]), None)

    async def _ask(
        self, each: ClientStatement, select: Select, literals: Sequence[str]
    ) -> Result | Cursor:
        """What EXPLAIN and DECLARE want of a SELECT."""
        if each.kind == "explain":
            return self._commands.explained(each, await self._asking.explain(select, literals))
        made = Cursor(await self._asking.select(select, literals))
        self._check_kept()
        return made

    async def _copy(self, each: ClientStatement, select: Select | None) -> None:
        found = statements.COPY.fullmatch(each.text)
        assert select is not None
        assert found is not None
        options = CopyOptions.read(found[2])
        result = await self._asking.select(select)
        self._wire.write(messages.copy_out(len(result.columns)))
        for line in copied(result, options):
            self._wire.write(messages.message("d", line))
            await self._wire.flush()
        self._wire.write(messages.COPIED)
        result.tag = f"COPY {len(result.rows)}"
        self._done(result)

    async def _send(
        self, result: Result, forms: Sequence[int], rows: Sequence[tuple[Any, ...]]
    ) -> None:
        """Some rows, as quickly as the client takes them."""
        oids, waiting = [column.oid for column in result.columns], bytearray()
        for row in rows:
            values = [encoded(v, o, f) for v, o, f in zip(row, oids, forms, strict=True)]
            waiting += messages.row(values)
            if len(waiting) > CHUNK:
                self._wire.write(bytes(waiting))
                waiting.clear()
                await self._wire.flush()
        self._wire.write(bytes(waiting))

    def _done(self, result: Result) -> None:
        self._tell()
        if not self._variables.quiet:
            for said in result.notices:
                self._wire.write(notice(said))
        self._wire.write(messages.complete(result.tag))

    def _to_tell(self) -> dict[str, str]:
        return {name: self._variables.get(name) or "" for name in TOLD}

    def _tell(self) -> None:
        """Say which settings changed."""
        for name, value in self._to_tell().items():
            if self._told[name] != value:
                self._wire.write(messages.parameter(name, value))
                self._told[name] = value

    # ---- the extended protocol --------------------------------------------------------------

    async def _parse(self, said: messages.Parse) -> None:
        if said.name and said.name in self._prepared:
            raise Problem("42P05", f'prepared statement "{said.name[:60]}" already exists')
        kept = sum(len(p.statement.text) for p in self._prepared.values())
        if len(self._prepared) >= MAX_PREPARED or kept + len(said.text) > MAX_KEPT:
            raise Problem("53400", f"more than {MAX_PREPARED} prepared statements, or too long",
                          "deallocate those that are no longer used")  # fmt: skip
        found = await self._divided(said.text)
        if found is None or len(found) != 1:
            raise Problem("42601", "a prepared statement is one statement")
        (each,) = found
        if each.kind == "copy":
            raise Problem("0A000", "COPY is for simple queries here")
        await self._asking.admit()
        select = await self._read(each)
        made = Prepared(each, select)
        if select is not None:
            made.types = await self._asking.parameters(select, said.types)
        self._prepared[said.name] = made
        self._wire.write(messages.PARSED)

    async def _bind(self, said: messages.Bind, size: int) -> None:
        prepared = self._statement(said.statement)
        if len(said.values) != len(prepared.types):
            raise Problem(
                "08P01", f"{len(said.values)} values for {len(prepared.types)} parameters"
            )
        if len(self._portals) >= MAX_PORTALS:
            raise Problem("53400", f"more than {MAX_PORTALS} portals")
        forms = said.formats if len(said.formats) != 1 else said.formats * len(said.values)
        forms = forms or (0,) * len(said.values)

        def read() -> list[str]:
            return [
                literal(_plain(decoded(value, oid, form)))
                for value, oid, form in zip(said.values, prepared.types, forms, strict=True)
            ]

        try:
            values = read() if size < SHORT else await self._asking.metered(read)
        except (BadValue, DataError):
            raise Problem("22P02", "a parameter is no value of its type") from None
        self._portals[said.portal] = Portal(prepared, values, said.results)
        self._wire.write(messages.BOUND)

    async def _describe(self, said: messages.Named) -> None:
        portal = self._portal(said.name) if said.kind == "P" else None
        prepared = self._statement(said.name) if portal is None else portal.prepared
        if portal is None:
            self._wire.write(messages.parameters(prepared.types))
        columns = await self._columns(prepared)
        if columns is None:
            self._wire.write(messages.NO_DATA)
            return
        forms = [0] * len(columns) if portal is None else portal.forms(len(columns))
        self._wire.write(messages.described([c.described for c in columns], forms))

    async def _columns(self, prepared: Prepared) -> list[ResultColumn] | None:
        """The columns of a statement; None: it gives no rows."""
        each = prepared.statement
        if each.kind not in LISTED:
            return prepared.columns
        if each.kind == "select" and prepared.select is not None:
            return await self._asking.columns(prepared.select, prepared.types)
        return self._commands.columns(each)

    async def _execute(self, said: messages.Execute) -> None:
        portal = self._portal(said.portal)
        each = portal.prepared.statement
        if each.kind == "":
            self._wire.write(messages.EMPTY)
            return
        if portal.result is None:
            await self._asking.admit()
            self._commands.check(each)
            select = portal.prepared.select
            portal.result = await self._result(each, select, portal.literals)
            self._check_kept()
        result, start = portal.result, portal.at
        end = len(result.rows) if said.most == 0 else min(start + said.most, len(result.rows))
        await self._send(result, portal.forms(len(result.columns)), result.rows[start:end])
        portal.at = end
        if end < len(result.rows):
            self._wire.write(messages.SUSPENDED)
        else:
            portal.at, result.rows = 0, []  # they were all given
            self._done(result)

    def _check_kept(self) -> None:
        """Refuse to keep more rows that nobody fetches."""
        kept = [portal.result for portal in self._portals.values()]
        kept += [cursor.result for cursor in self._commands.cursors.values()]
        if sum(len(result.rows) for result in kept if result is not None) > MAX_ROWS_KEPT:
            self._portals.clear()
            self._commands.cursors.clear()
            raise Problem("53200", "too many rows are kept in portals and cursors; all were closed")

    def _close(self, said: messages.Named) -> None:
        (self._prepared if said.kind == "S" else self._portals).pop(said.name, None)
        self._wire.write(messages.CLOSED)

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Problem("26000", f'prepared statement "{name[:60]}" does not exist')
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        cursor = self._commands.cursors.get(name)
        if cursor is not None and name not in self._portals:  # DECLARE makes a portal, too
            made = Prepared(ClientStatement("declare", ""), columns=cursor.result.columns)
            return Portal(made, [], (), cursor.result, cursor.at)
        if name not in self._portals:
            raise Problem("34000", f'portal "{name[:60]}" does not exist')
        return self._portals[name]


def _cancelled(why: str) -> Problem:
    return Problem("57014", f"canceling statement due to {why}", charged=None)


def _plain(value: Any) -> Any:
    """A parameter as one literal has it; a list as PostgreSQL writes it."""
    return "{" + ",".join(str(v) for v in value) + "}" if isinstance(value, list) else value
