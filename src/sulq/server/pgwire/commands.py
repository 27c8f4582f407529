"""Statements that ask nothing of rows: settings, transactions, cursors, EXPLAIN's layout."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from sulq.server.pgwire import statement_kinds as statements
from sulq.server.pgwire.problems import Problem
from sulq.server.pgwire.result_types import JSON, TEXT, ResultColumn
from sulq.server.pgwire.selects import Select
from sulq.server.pgwire.service_calls import Result
from sulq.server.pgwire.statement_kinds import ClientStatement, unquoted
from sulq.server.pgwire.variables import Variables

MAX_CURSORS = 50
PLAN = "QUERY PLAN"
NOTHING_TO_DO = ("savepoint", "release", "deallocate", "unlisten")
READ_ONLY = "nothing is written here: a SELECT of sums and counts may be asked"


@dataclass(slots=True)
class Cursor:
    """A result, and how far it was fetched."""

    result: Result
    at: int = 0


Asker = Callable[[ClientStatement, Select, Sequence[str]], Awaitable[Result | Cursor]]


class Commands:
    """What one connection remembers between statements."""

    def __init__(self, variables: Variables, ask: Asker) -> None:
        self._variables = variables
        self._ask = ask
        self.cursors: dict[str, Cursor] = {}
        self.status = "I"

    # ---- transactions -----------------------------------------------------------------------

    def fail(self) -> None:
        """A statement failed: a transaction does, too."""
        if self.status == "T":
            self.status = "E"

    def check(self, each: ClientStatement) -> None:
        """In a failed transaction only its end is heard."""
        if self.status == "E" and each.kind not in ("commit", "rollback"):
            raise Problem(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )

    async def run(
        self, each: ClientStatement, select: Select | None, literals: Sequence[str] = ()
    ) -> Result:
        """What a statement gives that is no SELECT."""
        if select is not None:
            found = await self._ask(each, select, literals)
            return self._declared(each, found) if isinstance(found, Cursor) else found
        if each.kind in NOTHING_TO_DO:
            return _done(each.kind.upper())
        doing = getattr(self, f"_{each.kind}", None)
        if doing is None:
            state = "25006" if each.word in WRITES else "0A000" if each.word else "42601"
            raise Problem(state, f"{each.word or 'this'}: {READ_ONLY}")
        made: Result = doing(each)
        return made

    def _begin(self, each: ClientStatement) -> Result:
        self.status = "T" if self.status == "I" else self.status
        return _done("BEGIN")

    def _commit(self, each: ClientStatement) -> Result:
        failed, self.status = self.status == "E", "I"
        self.cursors.clear()
        return _done("ROLLBACK" if failed else "COMMIT")

    def _rollback(self, each: ClientStatement) -> Result:
        to_savepoint = re.search(r"\bto\b", each.text, re.IGNORECASE)
        self.status = "T" if to_savepoint else "I"
        if not to_savepoint:
            self.cursors.clear()
        return _done("ROLLBACK")

    # ---- settings ---------------------------------------------------------------------------

    def _set(self, each: ClientStatement) -> Result:
        if statements.MODES.fullmatch(each.text):
            return _done("SET")
        found = statements.SET.fullmatch(each.text)
        if found is None or statements.SESSION_ROLE.fullmatch(each.text):
            raise Problem("42601", "want: set NAME = VALUE")
        special = (found[2] or "").lower()
        name = {"names": "client_encoding"}.get(special, "TimeZone" if special else found[1])
        self._variables.set(unquoted(name), unquoted(found[3]))
        return _done("SET")

    def _reset(self, each: ClientStatement) -> Result:
        found = statements.RESET.fullmatch(each.text)
        if found is None:
            raise Problem("42601", "want: reset NAME")
        name = "TimeZone" if found[1].lower().startswith("time ") else unquoted(found[1])
        self._variables.reset(None if name.lower() == "all" else name)
        return _done("RESET")

    def _show(self, each: ClientStatement) -> Result:
        (column, *rest), name = self._shown(each)
        if rest:
            rows = [(name, value, "") for name, value in self._variables.all()]
            return Result([column, *rest], list(rows), "SHOW")
        value = self._variables.get(name)
        if value is None:
            raise Problem("42704", f'unrecognized configuration parameter "{name[:60]}"')
        return Result([column], [(value,)], "SHOW")

    def _shown(self, each: ClientStatement) -> tuple[list[ResultColumn], str]:
        found = statements.SHOW.fullmatch(each.text)
        if found is None:
            raise Problem("42601", "want: show NAME")
        said = found[1].lower()
        if said == "all":
            return [ResultColumn(n, TEXT) for n in ("name", "setting", "description")], ""
        special = {"time": "TimeZone", "transaction": "transaction_isolation"}
        name = special.get(said.split()[0], unquoted(found[1])) if " " in said else unquoted(said)
        return [ResultColumn(name, TEXT)], name

    def _discard(self, each: ClientStatement) -> Result:
        self._variables.reset(None)
        self.cursors.clear()
        return _done("DISCARD ALL")

    # ---- cursors ----------------------------------------------------------------------------

    def _declared(self, each: ClientStatement, cursor: Cursor) -> Result:
        found = statements.DECLARE.fullmatch(each.text)
        assert found is not None
        if len(self.cursors) >= MAX_CURSORS:
            raise Problem("53400", f"more than {MAX_CURSORS} cursors")
        self.cursors[unquoted(found[1])] = cursor
        return Result([], [], "DECLARE CURSOR", cursor.result.notices)

    def _fetch(self, each: ClientStatement) -> Result:
        found = statements.FETCH.fullmatch(each.text)
        if found is None:
            raise Problem("0A000", "want: fetch COUNT from NAME; cursors go forward only")
        cursor = self.cursors.get(unquoted(found[3]))
        if cursor is None:
            raise Problem("34000", f'cursor "{unquoted(found[3])[:60]}" does not exist')
        said = (found[2] or "1").lower().split()[-1]
        count = 10**9 if said == "all" else 1 if said in ("next", "forward") else int(said[:9])
        rows = cursor.result.rows[cursor.at : cursor.at + count]
        cursor.at += len(rows)
        if found[1].lower() == "move":
            return _done(f"MOVE {len(rows)}")
        return Result(cursor.result.columns, rows, f"FETCH {len(rows)}")

    def _close(self, each: ClientStatement) -> Result:
        found = statements.CLOSE.fullmatch(each.text)
        if found is None:
            raise Problem("42601", "want: close NAME")
        if found[1].lower() == "all":
            self.cursors.clear()
        elif self.cursors.pop(unquoted(found[1]), None) is None:
            raise Problem("34000", f'cursor "{unquoted(found[1])[:60]}" does not exist')
        return _done("CLOSE CURSOR")

    # ---- statements with a SELECT in them ---------------------------------------------------

    def select_in(self, each: ClientStatement) -> str | None:
        """The SELECT that a statement is or holds."""
        if each.kind == "select":
            return each.text
        patterns = {"explain": (statements.EXPLAIN, 3), "declare": (statements.DECLARE, 2),
                    "copy": (statements.COPY, 1)}  # fmt: skip
        if each.kind not in patterns:
            return None
        pattern, group = patterns[each.kind]
        found = pattern.fullmatch(each.text)
        inner = None if found is None else statements.statement(found[group])
        if inner is None or inner.kind != "select":
            raise Problem("0A000", f"{each.word}: {READ_ONLY}")
        if each.kind == "explain":
            self._check_explain(each)
        return inner.text

    def _check_explain(self, each: ClientStatement) -> None:
        found = statements.EXPLAIN.fullmatch(each.text)
        assert found is not None
        words = f"{found[1] or ''} {found[2] or ''}".lower()
        if re.search(r"\banaly[sz]e\b(?!\s+(off|false|0))", words):
            raise Problem(
                "0A000", "EXPLAIN ANALYZE would ask and pay", "EXPLAIN alone shows the price, free"
            )

    def explained(self, each: ClientStatement, lines: list[str]) -> Result:
        """EXPLAIN's lines, as text or as JSON."""
        (column,) = self.columns(each)
        if column.oid == JSON:
            pairs = [line.partition(": ") for line in lines]
            body = [{"Plan": {name: value or True for name, _, value in pairs}}]
            return Result([column], [(json.dumps(body, indent=2),)], "EXPLAIN")
        return Result([column], [(line,) for line in lines], "EXPLAIN")

    def columns(self, each: ClientStatement) -> list[ResultColumn]:
        """The columns of SHOW, FETCH and EXPLAIN."""
        if each.kind == "show":
            return self._shown(each)[0]
        if each.kind == "fetch":
            found = statements.FETCH.fullmatch(each.text)
            cursor = self.cursors.get(unquoted(found[3])) if found else None
            if cursor is None:
                raise Problem("34000", "there is no such cursor")
            return cursor.result.columns
        found = statements.EXPLAIN.fullmatch(each.text)
        as_json = found is not None and re.search(r"format\s+json", found[1] or "", re.IGNORECASE)
        return [ResultColumn(PLAN, JSON if as_json else TEXT)]


WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "TRUNCATE", "GRANT", "REVOKE",
          "COMMENT", "MERGE", "REFRESH", "VACUUM", "ANALYZE", "COPY", "LOCK", "CALL")  # fmt: skip


def _done(tag: str) -> Result:
    return Result([], [], tag)
