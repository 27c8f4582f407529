"""sulq shell: a prompt that shows the price of a statement before it is paid."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.ask import rehearsed
from sulq.cli.common import (
    amount,
    cells_table,
    charges_table,
    console,
    exit_code,
    grid,
    looked_at,
    note,
    opened,
    own_ledger_path,
    say,
)
from sulq.cli.line_editing import confirmed, line_editing
from sulq.cli.prepare import said_of
from sulq.errors import Refused, SulqError
from sulq.settings_file import Settings

if TYPE_CHECKING:
    from sulq import Database, Table
    from sulq.preview import Preview, Previews

Yes = Annotated[bool, typer.Option("--yes", help="Pay without asking each time.")]
Rehearse = Annotated[
    bool, typer.Option("--rehearse", help="Begin with synthetic rows; nothing is spent.")
]

MAX_ROWS = 200  # of a table on the screen
MAX_CHARGES = 20  # of .history
HELP = """\
select ... ;        price, then y or n, then the answer. A statement may have several lines.
.price select ...   the price and the expected error; nothing is spent
.schema             the columns and what may be asked of them
.budget             what is spent and left, also by public cell
.history            the questions charged so far
.rehearse on|off    answer from synthetic rows, free
.yes on|off         pay without asking
.plot FILE          draw the last answer, as .svg or .png
.quit               leave; so does Ctrl-D. Ctrl-C cancels a line."""


def shell(settings: Settings, yes: Yes = False, rehearse: Rehearse = False) -> None:
    """A prompt for SQL: the price of each statement before it is paid.

    Statements end with a semicolon; .help lists the rest. Statements may also be piped in:
    nobody can be asked then, so only --yes pays.

    Example: sulq shell
    """
    with ExitStack() as stack:
        prompt = Shell(settings, stack, yes=yes, interactive=sys.stdin.isatty())
        if rehearse:
            prompt.rehearse("on")
        else:
            prompt.look()
        code = prompt.run()
    raise typer.Exit(code)


class Shell:
    """One session at the prompt."""

    def __init__(
        self, settings: Settings, stack: ExitStack, *, yes: bool, interactive: bool
    ) -> None:
        self.settings = settings
        self.yes = yes
        self.interactive = interactive
        self.code = 0  # what a script of statements ends with
        self._real: Database | None = None
        self._practice: Database | None = None
        self._previews: Previews  # of what answers now
        self._last: Table | None = None
        self._stack = stack  # closes what was opened

    # --- which rows ---------------------------------------------------------------------

    @property
    def db(self) -> Database:
        """The database that answers: synthetic rows in a rehearsal, else the real ones."""
        db = self._practice or self._real
        assert db is not None
        return db

    def look(self) -> None:
        """Open the real rows without beginning a ledger that has not begun."""
        in_memory = self.settings.source is not None and own_ledger_path(self.settings) is None
        self._use(opened(self.settings) if in_memory else looked_at(self.settings))

    def _use(self, opening: Any) -> None:
        self._real = self._stack.enter_context(opening)
        self._fresh()

    def _fresh(self) -> None:
        from sulq.preview import Previews

        self._previews = Previews(self.db)

    @property
    def begun(self) -> bool:
        """Is there a ledger already, on disk or for this session?"""
        from sulq.ledger.location import exists

        path = own_ledger_path(self.settings)
        return path is None or exists(path)

    def rehearse(self, wanted: str) -> None:
        """Go over to synthetic rows, or come back."""
        if _on(wanted, ".rehearse"):
            rows = self._real.rows if self._real else 1000
            self._practice = self._stack.enter_context(rehearsed(self.settings, rows))
            self._fresh()
        else:
            self._practice = None
            self._fresh() if self._real else self.look()

    # --- the loop -----------------------------------------------------------------------

    def run(self) -> int:
        """Read until the end; give the exit code."""
        if not self.interactive:
            self._script()
            return self.code
        self._greet()
        with line_editing(self._words()):
            self._converse()
        return 0

    def _script(self) -> None:
        """Statements from a pipe: no prompt, and nobody to ask."""
        waiting = ""
        for line in sys.stdin:
            rest = self._take(waiting, line)
            if rest is None:
                return
            waiting = rest
        if waiting:  # the last statement may do without its semicolon
            self._guarded(partial(self.ask, waiting.strip()))

    def _converse(self) -> None:
        waiting: str | None = ""
        while waiting is not None:
            try:
                line = input("   ...> " if waiting else self._prompt())
            except KeyboardInterrupt:
                say()
                waiting = ""
            except EOFError:
                say()
                return
            else:
                waiting = self._take(waiting, line + "\n")

    def _take(self, waiting: str, line: str) -> str | None:
        """Act on what is complete and give what is not; None ends the session."""
        if not waiting and line.lstrip().startswith("."):
            word, _, rest = line.strip().partition(" ")
            if word in (".quit", ".exit"):
                return None
            self._guarded(partial(self._obey, word, rest.strip()))
            return ""
        statements, rest = split(waiting + line)
        for statement in statements:
            self._guarded(partial(self.ask, statement))
        return rest

    def _guarded(self, act: Callable[[], None]) -> None:
        """Whatever is refused or interrupted is said in one message, and the prompt goes on."""
        try:
            act()
        except SulqError as error:
            note(f"{type(error).__name__}: {error}")
            self.code = self.code or exit_code(error)
        except KeyboardInterrupt:
            if not self.interactive:
                raise
            note("\nInterrupted. What was charged is not charged again: .history shows it.")

    def _greet(self) -> None:
        db = self.db
        say(f"{db.name}: {db.rows:,} rows. {str(db.promise).splitlines()[0]}")
        if self._practice:
            say("Rehearsal: the rows are synthetic, made from the schema. Nothing is spent.")
        elif self.begun:
            say(f"{db.budget}.")
        else:
            say("The ledger begins with the first answer that is paid for.")
        say("Statements end with a semicolon; .help lists the rest.")

    def _prompt(self) -> str:
        state = "rehearsal" if self._practice else f"{amount(self.db.budget.remaining)} left"
        return f"{self.db.name}, {state}> "

    def _words(self) -> list[str]:
        commands = [line.split()[0] for line in HELP.splitlines() if line.startswith(".")]
        return [*commands, *self.db.columns, self.db.name, *KEYWORDS]

    # --- statements ---------------------------------------------------------------------

    def ask(self, statement: str) -> None:
        """Show the price, ask whether to pay it, then show the answer."""
        seen = self._previews.look(statement)
        if self._practice is None and not seen.free and not self._may_pay(seen):
            say("Nothing was spent.")
            return
        if self._practice is None and not self.begun:
            self._use(opened(self.settings))
        self._last = self.db.sql(statement)
        self._show(self._last, seen)

    def _may_pay(self, seen: Preview) -> bool:
        """Has someone agreed to this price?"""
        say(f"{_sentence(str(seen))}; {amount(self.db.budget.remaining)} left.")
        if self.yes:
            return True
        if not self.interactive:
            raise Refused(
                "nobody can be asked here whether to pay. Nothing was charged.\nSay --yes, or "
                "put `.yes on` before the statement."
            )
        if not self.begun:
            say("This begins the ledger: the promise is fixed from then on.")
        return confirmed("Pay? [y/N] ")

    def _show(self, table: Table, seen: Preview) -> None:
        if self.interactive:
            console().print(answer_table(table))
            hidden = len(table) - MAX_ROWS
            if hidden > 0:
                say(f"{hidden:,} more rows; `sulq sql --json` writes them all.")
            say(_sentence(self._receipt(table, seen)))
        else:
            say(str(table))
            if seen.free and not seen.public and self._practice is None:
                say("Asked before: free, nothing was charged.")

    def _receipt(self, table: Table, seen: Preview) -> str:
        """The budget line under an answer."""
        if self._practice is not None:
            return f"{table.note}; the price would be {seen.price}."
        asked = "public: free" if seen.public else "asked before: free"
        paid = asked if seen.free else f"price {seen.price}"
        said = f" ({table.note})" if table.note else ""
        return f"{paid}, {amount(self.db.budget.remaining)} left{said}."

    # --- dot commands -------------------------------------------------------------------

    def _obey(self, word: str, rest: str) -> None:
        commands: dict[str, Callable[[], None]] = {
            ".help": lambda: say(HELP),
            ".schema": lambda: said_of(self.db.schema).show(False),
            ".budget": self._budget,
            ".history": self._history,
            ".price": lambda: self._price(rest),
            ".rehearse": lambda: self._rehearse(rest),
            ".yes": lambda: self._set_yes(rest),
            ".plot": lambda: self._plot(rest),
        }
        if word not in commands:
            raise Refused(f"{word}: no such command. .help lists them.")
        commands[word]()

    def _budget(self) -> None:
        say(f"{self.db.budget}.")
        names = [c.name for c in self.db.schema.cell_columns]
        if names:
            console().print(cells_table(self.db.budget_by_cell(), names, MAX_CHARGES))

    def _history(self) -> None:
        from sulq.questions.describe import readable

        charges = self.db.history()[-MAX_CHARGES:]
        if not charges:
            say("Nothing has been asked yet.")
            return
        console().print(
            charges_table(
                (c.number, c.time, readable(c.query), c.price, c.remaining) for c in charges
            )
        )

    def _price(self, statement: str) -> None:
        say(f"{_sentence(str(self._previews.look(statement)))}. Nothing was spent.")

    def _rehearse(self, wanted: str) -> None:
        self.rehearse(wanted)
        say(
            "Rehearsal: synthetic rows from now on, nothing is spent."
            if self._practice
            else f"The real rows from now on: {self.db.budget}."
        )

    def _set_yes(self, wanted: str) -> None:
        self.yes = _on(wanted, ".yes")
        say(f"Statements are paid {'without asking' if self.yes else 'after asking'}.")

    def _plot(self, path: str) -> None:
        if self._last is None:
            raise Refused(".plot: nothing to draw yet. Ask something with GROUP BY first.")
        if not path:
            raise Refused(".plot: where to? Give a file such as out.svg.")
        self._last.plot(path)
        say(f"Drawn: {path}")


# --- reading ------------------------------------------------------------------------------

KEYWORDS = (
    "select", "from", "where", "group by", "having", "order by", "limit", "count(*)", "sum(",
    "avg(", "median(", "stddev(", "filter (where",
)  # fmt: skip


def split(text: str) -> tuple[list[str], str]:
    """Statements that end with a semicolon, and what is not complete yet."""
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    from sulq.expressions.dialect import tokens_of

    try:
        tokens = tokens_of(text)
    except SqlglotError:  # a quote is left open
        return [], text
    statements, words, at = [], [], 0
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            words.append(token)
            continue
        if words:
            statements.append(text[words[0].start : words[-1].end + 1])
        words, at = [], token.end + 1
    return statements, text[at:] if words else ""


def _on(wanted: str, word: str) -> bool:
    if wanted not in ("on", "off"):
        raise Refused(f"{word} {wanted}".rstrip() + ": want on or off.")
    return wanted == "on"


# --- tables -------------------------------------------------------------------------------


def answer_table(table: Table) -> Any:
    """An answer for the screen: labels, then each number with its error."""
    head = [*table.by, *(f"{name} (95%)" for name in table.numbers)]
    rows = []
    for i, row in zip(range(MAX_ROWS), table, strict=False):
        numbers = [table.said(i, n) for n in table.numbers]
        rows.append([*(row[b] for b in table.by), *numbers])
    return grid(head, rows, labels=len(table.by))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
