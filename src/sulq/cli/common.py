"""What every command shares: how results and errors leave, how a database is found.

People read text on stdout; with --json, stdout is one JSON document, errors included. Notes
and warnings go to stderr.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sulq import settings_file as config
from sulq.cli.options import GATHERED, Json, keyword
from sulq.errors import MICRO, Refused, SulqError, in_queries
from sulq.settings_file import Settings
from sulq.values.safe_text import json_text, one_line, visible
from sulq.values.schema import OTHER

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sulq import Database
    from sulq.ledger import Ledger

# ---- results and errors ---------------------------------------------------------------------


class Said:
    """What a command says: JSON for programs; texts and tables, one below the other, for people."""

    def __init__(
        self, body: Any, *parts: str | Table, notes: Sequence[str] = (), code: int = 0
    ) -> None:
        self.body = body
        self.parts = parts
        self.notes = notes  # beside it, on stderr
        self.code = code  # of the exit

    def show(self, as_json: bool) -> None:
        """Write it, and leave with its exit code."""
        if as_json:
            say(json_text(self.body))
        for part in () if as_json else self.parts:
            say(part) if isinstance(part, str) else console().print(part)
        for text in self.notes:
            note(text)
        if self.code:
            raise typer.Exit(self.code)


def say(text: str = "", *, err: bool = False) -> None:
    """Write to the terminal; what would move its cursor or turn its writing is spelled out."""
    typer.echo(visible(text), err=err)


def note(text: str) -> None:
    """Say something beside the result."""
    say(text, err=True)


def console(**options: Any) -> Console:
    """Rich, without colour where nobody watches."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False, **options)


def grid(
    head: Sequence[str], rows: Iterable[Sequence[Any]], labels: int | None = None,
    *, unbroken: int = 0,
) -> Table:  # fmt: skip
    """A Rich table: so many columns of labels (all, unless said), then numbers.

    The first `unbroken` columns are whole on any screen, as ids that are copied from it must be.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=box.SIMPLE, pad_edge=False)
    for i, name in enumerate(head):
        number = labels is not None and i >= labels
        side: Any = "right" if number else "left"
        least = max((len(str(row[i])) for row in rows), default=0) if i < unbroken else None
        table.add_column(
            Text(one_line(name)), justify=side, overflow="fold", min_width=least,
            no_wrap=number or i < unbroken,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(one_line(OTHER if x is None else str(x))) for x in row))
    return table


def cells_table(cells: Sequence[Mapping[str, Any]], names: Sequence[str], most: int) -> Table:
    """What public cells spent; those with the least left, which decide what may be asked, first."""
    found = sorted(cells, key=lambda cell: cell["remaining"])
    rows = [
        [*(cell[n] for n in names), *(amount(cell[k]) for k in ("spent", "remaining"))]
        for cell in found[:most]
    ]
    table = grid([*names, "spent", "left"], rows, labels=len(names))
    if len(cells) > most:
        table.caption = (
            f"{len(cells) - most:,} more, with at least as much left: sulq budget --json"
        )
    return table


def charges_table(charges: Iterable[tuple[int, str, str, int, int]]) -> Table:
    """Charges: their numbers, times, questions, prices and what was left."""
    rows = [
        [number, time[:19], question, *map(amount, micro)]
        for number, time, question, *micro in charges
    ]
    return grid(["entry", "time (UTC)", "question", "price", "left"], rows, labels=3)


def amount(queries: int | Fraction) -> str:
    """A number of queries, a Fraction or in micro-queries: 12.5."""
    micro = queries if isinstance(queries, int) else int(queries * MICRO)
    return in_queries(micro).split()[0]


def read_lines(path: Path) -> list[bytes]:
    """The lines of an export with their ends, byte for byte, or a refusal in one sentence."""
    try:
        return path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be read: {error.strerror}.") from None


def write(path: Path, text: str) -> None:
    """Write a text file, or refuse in one sentence."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, or refuse in one sentence."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise Refused(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def confirm(question: str, yes: bool, as_json: bool) -> None:
    """Ask whether to go on, unless --yes has said so."""
    if yes:
        return
    if as_json:
        raise Refused("with --json nobody can be asked: say --yes.")
    typer.confirm(question, abort=True, err=True)


def exit_code(error: SulqError) -> int:
    """2 for a refusal, 1 for everything else."""
    return 2 if isinstance(error, Refused) else 1


@contextmanager
def messages(as_json: bool) -> Iterator[None]:
    """Turn sulq's errors into one message and an exit code, warnings into notes."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: note(f"Warning: {message}")
        try:
            yield
        except SulqError as error:
            kind = type(error).__name__
            if not as_json:
                note(f"{kind}: {error}")
            body = {"type": kind, "message": str(error), "charged": error.charged}
            Said({"error": body}, code=exit_code(error)).show(as_json)


# ---- commands -------------------------------------------------------------------------------


def command(
    app: typer.Typer, name: str, function: Callable[..., Said | None], panel: str | None = None,
    text: str | None = None, gathered: Mapping[str, Callable[..., Any]] | None = None,
) -> None:  # fmt: skip
    """Add a function to the app, with `messages` around it.

    What it gives is shown, as JSON with --json. A parameter named in `gathered`, or in
    options.GATHERED, is filled from the options of the function there. `text` is its help, instead
    of its docstring.
    """
    signature = inspect.signature(function, eval_str=True)
    own = signature.parameters
    makers = {n: m for n, m in (GATHERED | dict(gathered or {})).items() if n in own}
    shared = {n: inspect.signature(m, eval_str=True).parameters for n, m in makers.items()}
    parameters = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for some in ({k: p for k, p in own.items() if k not in makers}, *shared.values())
        for p in some.values()
    ]
    if signature.return_annotation is not None and "as_json" not in own:
        parameters.append(keyword("as_json", Json, False))
    parameters.sort(key=lambda p: p.name == "as_json")  # the last of all

    @functools.wraps(function)
    def run(**given: Any) -> None:
        as_json = given.get("as_json", False)
        if "as_json" not in own:
            given.pop("as_json", None)
        with messages(as_json):
            for name, make in makers.items():
                given[name] = make(**{k: given.pop(k) for k in shared[name]})
            said = function(**given)
            if said is not None:
                said.show(as_json)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name, help=text, rich_help_panel=panel)(run)


# ---- finding the database -------------------------------------------------------------------


def _need_source(settings: Settings) -> str:
    if settings.source is None:
        raise Refused(
            "which table? There is no sulq.toml here. Give --data FILE --schema FILE.toml, or "
            "--config PATH, or run `sulq init FILE` to write a sulq.toml."
        )
    return settings.source


def is_remote(source: str) -> bool:
    """Is it a dataset of a server, asked with the key in SULQ_KEY?"""
    return source.startswith(("http://", "https://"))


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database, and a note when this is the moment its ledger begins."""
    from sulq.ledger.location import exists, shown

    path = _ledger_here(settings)
    new = path is not None and not exists(path)
    with _database(settings) as db:
        if path is not None and new:
            said = db.promise.to_json()
            note(
                f"The ledger {shown(path)!r} begins. Fixed from now on: "
                f"epsilon={said['epsilon']:g}, delta={said['delta']:g}, "
                f"queries={said['queries']:,}, noise={said['noise']}, "
                f"guarantee={said['guarantee']}."
            )
        yield db


@contextmanager
def looked_at(settings: Settings) -> Iterator[Database]:
    """The database for a look: a ledger that has not begun is not begun by looking."""
    from sulq.ledger.location import exists

    path = _ledger_here(settings)
    instead: dict[str, str | None] = {}
    if path is None or not exists(path):
        instead = {"ledger": config.MEMORY, "group": None}
        warnings.filterwarnings("ignore", message="the ledger is in memory")
    with _database(settings, **instead) as db:
        yield db


def _ledger_here(settings: Settings) -> Path | str | None:
    """Where the ledger is, unless it is with a server or in memory."""
    return None if is_remote(_need_source(settings)) else own_ledger_path(settings)


def own_ledger_path(settings: Settings) -> Path | str | None:
    """Where the dataset's own ledger is: in a group that `ledger` names, beside the group's."""
    if settings.group is None or settings.source is None or settings.ledger == config.MEMORY:
        return settings.ledger_path
    from sulq.open_database import places
    from sulq.sources.source import open_source

    found = open_source(settings.source, settings.table, settings.name, settings.engine)
    own, _ = places(found, settings.ledger, settings.group)
    return own if "://" in own else Path(own)


def _database(settings: Settings, **instead: str | None) -> Database:
    """The database of a server or of a source here."""
    import sulq

    source = _need_source(settings)
    if is_remote(source):
        return sulq.connect(source)
    return sulq.open(**settings.arguments | instead)


@contextmanager
def ledger_of(settings: Settings) -> Iterator[Ledger]:
    """The ledger alone, with the terms recorded in it: the rows need not even be there."""
    from sulq.ledger import Ledger
    from sulq.ledger.location import exists, sealed, shown
    from sulq.ledger.seal import Seal

    if settings.ledger is None and is_remote(_need_source(settings)):
        raise Refused(
            "the ledger is with the server. Its owner sees it there; what you may still spend "
            "stands beside every answer."
        )
    path = own_ledger_path(settings)
    if path is None:
        raise Refused("a ledger in memory is gone when its program ends: there is nothing to show.")
    if not exists(path):
        if isinstance(path, Path) and (path.parent / ".sulq" / f"{path.name}.mark").exists():
            Seal.open(path).check_vacant()
        raise Refused(f"there is no ledger {shown(path)!r}: nothing has been asked yet.")
    ledger = Ledger.reopen(path, seal=sealed(path))
    try:
        yield ledger
    finally:
        ledger.close()
