"""What the owner looks at and decides: budget, history, verify, report, refresh, override."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq import config
from sulq.cli.common import (
    Json,
    Yes,
    command,
    confirm,
    console,
    emit,
    ledger_of,
    note,
    opened,
    write,
)
from sulq.config import Settings
from sulq.errors import Refused, in_queries

if TYPE_CHECKING:
    from rich.table import Table

Answers = Annotated[bool, typer.Option("--answers", help="Include the noisy answers given.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file, not to stdout.")]
Last = Annotated[int | None, typer.Option("--last", min=1, help="Only the last so many.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is written into the ledger.")]
PANEL = "For the owner"
MOST_CELLS = 40  # lines of `sulq budget`


def add(app: typer.Typer) -> None:
    """Add the owner's commands to the app."""
    for function in (budget, history, verify, report, refresh, override):
        command(app, panel=PANEL)(function)


# ---- looking --------------------------------------------------------------------------------


def budget(settings: Settings, as_json: Json = False) -> None:
    """What is spent and what is left, also for each public cell.

    Example: sulq budget
    """
    from sulq.report import budget_of

    with ledger_of(settings) as ledger:
        found = budget_of(ledger)
    if as_json:
        emit(found, "", True)
        return
    total, spent, left = (_amount(found[f"{k}_micro"]) for k in ("total", "spent", "remaining"))
    typer.echo(f"{spent} of {total} queries spent, {left} left for the rows that spent most.")
    if found["cells"]:
        console().print(_cells(found["cells"]))


def _cells(cells: list[dict[str, Any]]) -> Table:
    names = list(cells[0]["cell"])
    table = _plain_table(*names, numbers=("spent", "left"))
    # Those with the least left come first: they decide what may still be asked.
    for cell in sorted(cells, key=lambda c: c["remaining_micro"])[:MOST_CELLS]:
        labels = ["other" if v is None else str(v) for v in cell["cell"].values()]
        table.add_row(*labels, _amount(cell["spent_micro"]), _amount(cell["remaining_micro"]))
    if len(cells) > MOST_CELLS:
        table.caption = f"{len(cells) - MOST_CELLS:,} more, with at least as much left: --json"
    return table


def history(settings: Settings, last: Last = None, as_json: Json = False) -> None:
    """Every question ever charged, oldest first.

    Example: sulq history --last 20
    """
    from sulq.report import charges_of

    with ledger_of(settings) as ledger:
        charges = charges_of(ledger)[-last if last else 0 :]
    if as_json:
        emit({"charges": charges}, "", True)
    elif not charges:
        typer.echo("Nothing has been asked yet.")
    else:
        table = _plain_table("entry", "time (UTC)", "question", numbers=("price", "left"))
        for c in charges:
            amounts = _amount(c["price"]), _amount(c["remaining"])
            table.add_row(str(c["number"]), c["time"][:19], _safe(c["question"]), *amounts)
        console().print(table)


def verify(settings: Settings, as_json: Json = False) -> None:
    """Check the ledger's chain of hashes and the mark kept outside it.

    Example: sulq verify
    """
    from sulq.report import chain_of

    with ledger_of(settings) as ledger:
        found = chain_of(ledger)
    said = f"The chain is whole: {found['entries']:,} entries.\nHead: {found['head']}"
    emit(found | {"verified": True}, said, as_json)


def report(
    settings: Settings, answers: Answers = False, out: Out = None, as_json: Json = False
) -> None:
    """The page an owner shows a reviewer: the promise, what was asked, what is spent.

    Made from the ledger alone; no row is read. Markdown, or --json.

    Example: sulq report --out report.md
    """
    import json

    from sulq.report import markdown
    from sulq.report import report as full

    with ledger_of(settings) as ledger:
        found = full(ledger, answers=answers)
    text = json.dumps(found, indent=2, ensure_ascii=False) if as_json else markdown(found)
    if out is None:
        typer.echo(text.rstrip("\n"))
        return
    write(out, text.rstrip("\n") + "\n")
    note(f"Written: {out}")


# ---- deciding -------------------------------------------------------------------------------


def refresh(
    settings: Settings, reason: Reason, yes: Yes = False, as_json: Json = False
) -> None:  # fmt: skip
    """Go on with changed rows or a changed schema. Logged; what was spent stays spent.

    The public columns and their values must stay, since spending is kept by them.

    Example: sulq refresh --reason "rows of March added"
    """
    from sulq.opening import refresh as renew

    if settings.source is None:
        raise Refused("which table? Give --data FILE, --config PATH, or run it beside a sulq.toml.")
    confirm(
        "Answers given so far are kept in the history, and the same question will be paid for "
        "again. Go on with the rows as they are now?",
        yes, as_json,
    )  # fmt: skip
    db = renew(
        settings.source, settings.schema, ledger=settings.ledger, engine=settings.engine,
        table=settings.table, name=settings.name, reason=reason,
    )  # fmt: skip
    with db:
        left = db.budget
        body = {"rows": db.rows, "remaining_micro": int(left.remaining * 1_000_000)}
        emit(body, f"Refreshed: {db.rows:,} rows; {left}.", as_json)


def override(settings: Settings, reason: Reason, yes: Yes = False, as_json: Json = False) -> None:
    """Go on after the ledger was lost or an older copy restored. Says so in it, for good.

    Answers may then have been given beyond the promise. Restoring the newest copy is better.

    Example: sulq override --reason "disk lost, backup of May restored" --yes
    """
    from sulq.ledger import Ledger
    from sulq.ledger.place import exists, sealed

    path = settings.ledger_path
    if path is None:
        raise Refused(
            "which ledger? Give --ledger FILE, --config PATH, or run it beside a sulq.toml."
        )
    if not reason.strip():
        raise Refused("reason: say why; it stays in the ledger.")
    if not yes:
        raise Refused(
            "this gives up a promise: answers already given are no longer counted in full. If no "
            "newer copy of the ledger can be restored, say --yes."
        )
    _rehearse(settings, path)  # nothing is put aside unless the rest will work
    seal = sealed(path)
    rows = seal.current()
    known = seal.forget(reason)
    if not exists(path, seal):
        with opened(settings):
            pass
    with _closing(Ledger.reopen(path, seal=seal)) as ledger:
        number = ledger.note("override", known)
    if rows is not None:
        seal.remember(rows)  # the ledger is still about the rows it was about
    text = f"Written into the ledger as entry {number}. Every report will show it."
    emit({"entry": number, **known}, text, as_json)


def _rehearse(settings: Settings, path: Path | str) -> None:
    """Raise what would go wrong: a broken chain, or a new ledger that cannot begin."""
    import sulq
    from sulq.ledger import Ledger
    from sulq.ledger.place import exists, shown

    if exists(path):
        Ledger.reopen(path).close()
        return
    if settings.source is None:
        raise Refused(f"the ledger {shown(path)!r} is gone. Give --data too, to begin a new one.")
    warnings.filterwarnings("ignore", message="the ledger is in memory")
    sulq.open(**settings.arguments | {"ledger": config.MEMORY}).close()


def _closing(thing: Any) -> Any:
    from contextlib import closing

    return closing(thing)


# ---- tables ---------------------------------------------------------------------------------


def _plain_table(*names: str, numbers: tuple[str, ...] = ()) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in names:
        table.add_column(name, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _amount(micro: int) -> str:
    return in_queries(micro).split()[0]


def _safe(text: str) -> str:
    """Text that Rich shows as it is."""
    from rich.markup import escape

    return escape(text)
