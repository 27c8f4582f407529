"""sulq shell: a prompt that shows the price of a statement before it is paid."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import command, console, exit_code, looked_at, note, opened
from sulq.cli.rehearse import rehearsed
from sulq.config import Settings
from sulq.errors import MICRO, Refused, SulqError, in_queries

if TYPE_CHECKING:
    from sulq import Budget, Database, Table
    from sulq.preview import Preview, Previews

Yes = Annotated[bool, typer.Option("--yes", help="Pay without asking each time.")]
Rehearse = Annotated[
    bool, typer.Option("--rehearse", help="Begin with synthetic rows; nothing is spent.")
]

MOST_ROWS = 200  # of a table on the screen
MOST_CHARGES = 20  # of .history
MOST_REHEARSED = 100_000  # synthetic rows; fewer if the table has fewer
MOST_LINES = 1000  # of the history file
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


def add(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app, panel="Asking")(shell)


def shell(settings: Settings, yes: Yes = False, rehearse: Rehearse = False) -> None:
    """A prompt for SQL: the price of each statement before it is paid.

    Statements end with a semicolon; .help lists the rest. Statements may also be piped in:
    nobody can be asked then, so only --yes pays.

    Example: sulq shell
    """
    with Shell(settings, yes=yes, interactive=sys.stdin.isatty()) as prompt:
        if rehearse:
            prompt.rehearse("on")
        else:
            prompt.look()
        code = prompt.run()
    raise typer.Exit(code)


class Shell:
    """One session at the prompt."""

    def __init__(self, settings: Settings, *, yes: bool, interactive: bool) -> None:
        self.settings = settings
        self.yes = yes
        self.interactive = interactive
        self.code = 0  # what a script of statements ends with
        self._real: Database | None = None
        self._practice: Database | None = None
        self._previews: Previews | None = None
        self._last: Table | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- which rows ---------------------------------------------------------------------

    @property
    def db(self) -> Database:
        """The database that answers: synthetic rows in a rehearsal, else the real ones."""
        db = self._practice or self._real
        assert db is not None
        return db

    def look(self) -> None:
        """Open the real rows without beginning a ledger that has not begun."""
        in_memory = self.settings.source is not None and self.settings.ledger_path is None
        self._use(opened(self.settings) if in_memory else looked_at(self.settings))

    def _use(self, opening: Any) -> None:
        self._real = self._stack.enter_context(opening)
        self._fresh()

    def _fresh(self) -> None:
        from sulq.preview import Previews

        self._previews = Previews(self.db)
        self._stack.callback(self._previews.close)

    @property
    def begun(self) -> bool:
        """Is there a ledger already, on disk or for this session?"""
        from sulq.ledger.place import exists

        path = self.settings.ledger_path
        return path is None or exists(path)

    def rehearse(self, wanted: str) -> None:
        """Go over to synthetic rows, or come back."""
        if _on(wanted, ".rehearse"):
            rows = min(self._real.rows, MOST_REHEARSED) if self._real else 1000
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
                typer.echo()
                waiting = ""
            except EOFError:
                typer.echo()
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
        typer.echo(f"{db.name}: {db.rows:,} rows. {str(db.promise).splitlines()[0]}")
        if self._practice:
            typer.echo("Rehearsal: the rows are synthetic, made from the schema. Nothing is spent.")
        elif self.begun:
            typer.echo(f"{db.budget}.")
        else:
            typer.echo("The ledger begins with the first answer that is paid for.")
        typer.echo("Statements end with a semicolon; .help lists the rest.")

    def _prompt(self) -> str:
        state = "rehearsal" if self._practice else f"{_left(self.db.budget)} left"
        return f"{self.db.name}, {state}> "

    def _words(self) -> list[str]:
        commands = [line.split()[0] for line in HELP.splitlines() if line.startswith(".")]
        return [*commands, *self.db.columns, self.db.name, *KEYWORDS]

    # --- statements ---------------------------------------------------------------------

    def ask(self, statement: str) -> None:
        """Show the price, ask whether to pay it, then show the answer."""
        seen = self._look(statement)
        if self._practice is None and not seen.free and not self._may_pay(seen):
            typer.echo("Nothing was spent.")
            return
        if self._practice is None and not self.begun:
            self._use(opened(self.settings))
        self._last = self.db.sql(statement)
        self._show(self._last, seen)

    def _look(self, statement: str) -> Preview:
        assert self._previews is not None
        return self._previews.look(statement)

    def _may_pay(self, seen: Preview) -> bool:
        """Has someone agreed to this price?"""
        typer.echo(f"{_sentence(str(seen))}; {_left(self.db.budget)} left.")
        if self.yes:
            return True
        if not self.interactive:
            raise Refused(
                "nobody can be asked here whether to pay. Nothing was charged.\nSay --yes, or "
                "put `.yes on` before the statement."
            )
        if not self.begun:
            typer.echo("This begins the ledger: the promise is fixed from then on.")
        return confirmed("Pay? [y/N] ")

    def _show(self, table: Table, seen: Preview) -> None:
        if self.interactive:
            console().print(answer_table(table))
            hidden = len(table) - MOST_ROWS
            if hidden > 0:
                typer.echo(f"{hidden:,} more rows; `sulq sql --json` writes them all.")
            typer.echo(_sentence(self._receipt(table, seen)))
        else:
            typer.echo(str(table))
            if seen.free and self._practice is None:
                typer.echo("Asked before: free, nothing was charged.")

    def _receipt(self, table: Table, seen: Preview) -> str:
        """The budget line under an answer."""
        if self._practice is not None:
            return f"{table.note}; the price would be {seen.price}."
        paid = "asked before: free" if seen.free else f"price {seen.price}"
        said = f" ({table.note})" if table.note else ""
        return f"{paid}, {_left(self.db.budget)} left{said}."

    # --- dot commands -------------------------------------------------------------------

    def _obey(self, word: str, rest: str) -> None:
        commands: dict[str, Callable[[], None]] = {
            ".help": lambda: typer.echo(HELP),
            ".schema": self._schema,
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

    def _schema(self) -> None:
        from sulq.cli.prepare import _remarks, _schema_table

        console().print(_schema_table(self.db.schema))
        for line in _remarks(self.db.schema):
            typer.echo(line)

    def _budget(self) -> None:
        typer.echo(f"{self.db.budget}.")
        if not self.db.schema.cell_columns:
            return
        names = [c.name for c in self.db.schema.cell_columns]
        cells = sorted(self.db.budget_by_cell(), key=lambda cell: cell["remaining"])
        rows = [
            [*(_label(cell[n]) for n in names), *(_amount(cell[k]) for k in ("spent", "remaining"))]
            for cell in cells[:MOST_CHARGES]
        ]
        console().print(plain_table([*names, "spent", "left"], rows, labels=len(names)))
        if len(cells) > MOST_CHARGES:
            typer.echo(f"{len(cells) - MOST_CHARGES:,} more, with at least as much left.")

    def _history(self) -> None:
        from sulq.wording import readable

        charges = self.db.history()[-MOST_CHARGES:]
        if not charges:
            typer.echo("Nothing has been asked yet.")
            return
        rows = [
            [str(c.number), c.time[:19], readable(c.query), *map(_micro, (c.price, c.remaining))]
            for c in charges
        ]
        console().print(
            plain_table(["entry", "time (UTC)", "question", "price", "left"], rows, labels=3)
        )

    def _price(self, statement: str) -> None:
        typer.echo(f"{_sentence(str(self._look(statement)))}. Nothing was spent.")

    def _rehearse(self, wanted: str) -> None:
        self.rehearse(wanted)
        typer.echo(
            "Rehearsal: synthetic rows from now on, nothing is spent."
            if self._practice
            else f"The real rows from now on: {self.db.budget}."
        )

    def _set_yes(self, wanted: str) -> None:
        self.yes = _on(wanted, ".yes")
        typer.echo(f"Statements are paid {'without asking' if self.yes else 'after asking'}.")

    def _plot(self, path: str) -> None:
        if self._last is None:
            raise Refused(".plot: nothing to draw yet. Ask something with GROUP BY first.")
        if not path:
            raise Refused(".plot: where to? Give a file such as out.svg.")
        self._last.plot(path)
        typer.echo(f"Drawn: {path}")


# --- reading ------------------------------------------------------------------------------

KEYWORDS = (
    "select", "from", "where", "group by", "having", "order by", "limit", "count(*)", "sum(",
    "avg(", "median(", "stddev(", "filter (where",
)  # fmt: skip


def split(text: str) -> tuple[list[str], str]:
    """Statements that end with a semicolon, and what is not complete yet."""
    from sqlglot.errors import SqlglotError
    from sqlglot.tokens import TokenType  # type: ignore[attr-defined]

    from sulq.dialect import tokens_of

    try:
        tokens = tokens_of(text)
    except SqlglotError:  # a quote is left open
        return [], text
    statements, at, empty = [], 0, True
    for token in tokens:
        if token.token_type != TokenType.SEMICOLON:
            empty = False
            continue
        if not empty:
            statements.append(text[at : token.start].strip())
        at, empty = token.end + 1, True
    return statements, "" if empty else text[at:]


def confirmed(question: str) -> bool:
    """Ask, y or n; an interrupted question is a no."""
    with _unrecorded():
        try:
            return input(question).strip().lower() in ("y", "yes")
        except (KeyboardInterrupt, EOFError):
            typer.echo()
            return False


@contextmanager
def _unrecorded() -> Iterator[None]:
    """Keep y and n out of the history."""
    try:
        import readline
    except ImportError:
        yield
        return
    readline.set_auto_history(False)
    try:
        yield
    finally:
        readline.set_auto_history(True)


@contextmanager
def line_editing(words: list[str]) -> Iterator[None]:
    """Arrow keys, completion, and a history file that only its owner can read."""
    try:
        import readline
    except ImportError:  # not on every system
        yield
        return
    path = history_file()
    if path is not None:
        with suppress(OSError):
            readline.read_history_file(path)
    readline.set_completer_delims(" \t\n,()=<>+-*/")
    readline.set_completer(completer(words))
    readline.parse_and_bind("tab: complete")
    try:
        yield
    finally:
        if path is not None:
            with suppress(OSError):
                readline.set_history_length(MOST_LINES)
                readline.write_history_file(path)
                path.chmod(0o600)


def completer(words: list[str]) -> Callable[[str, int], str | None]:
    """What Tab offers for the beginning of a word."""

    def complete(start: str, number: int) -> str | None:
        found = [w for w in words if w.lower().startswith(start.lower())]
        return found[number] if number < len(found) else None

    return complete


def history_file() -> Path | None:
    """The file of past lines, readable by its owner only; None where it cannot be."""
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        path = Path(state) / "sulq" / "history"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        path.chmod(0o600)
    except (OSError, RuntimeError):  # no home, or not ours to write
        return None
    return path


def _on(wanted: str, word: str) -> bool:
    if wanted not in ("on", "off"):
        raise Refused(f"{word} {wanted}".rstrip() + ": want on or off.")
    return wanted == "on"


# --- tables -------------------------------------------------------------------------------


def answer_table(table: Table) -> Any:
    """An answer for the screen: labels, then each number with its error."""
    from sulq.answer import with_error

    head = [*table.by, *(f"{name} (95%)" for name in table.numbers)]
    rows = []
    for row, _ in zip(table, range(MOST_ROWS), strict=False):
        reach = {n: (row[f"{n}_high"] - row[f"{n}_low"]) / 2 for n in table.numbers}
        numbers = [with_error(row[n], reach[n]) for n in table.numbers]
        rows.append([*(_label(row[b]) for b in table.by), *numbers])
    return plain_table(head, rows, labels=len(table.by))


def plain_table(head: list[str], rows: list[list[str]], labels: int) -> Any:
    """A Rich table: so many columns of labels, then numbers."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, pad_edge=False)
    for i, name in enumerate(head):
        side: Any = "left" if i < labels else "right"
        table.add_column(Text(name), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _label(value: Any) -> str:
    return "other" if value is None else str(value)


def _micro(micro: int) -> str:
    return in_queries(micro).split()[0]


def _amount(queries: Any) -> str:
    return _micro(int(queries * MICRO))


def _left(budget: Budget) -> str:
    return _amount(budget.remaining)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
