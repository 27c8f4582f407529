"""What the owner looks at and decides: budget, history, verify, report, refresh, resume."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from sulq import settings_file as config
from sulq.cli.common import (
    Said,
    amount,
    cells_table,
    charges_table,
    confirm,
    ledger_of,
    note,
    opened,
    own_ledger_path,
    read_lines,
    write,
)
from sulq.cli.options import Json, Out, Reason, Yes
from sulq.errors import Refused
from sulq.settings_file import Settings
from sulq.sources.postgres import is_address

Answers = Annotated[bool, typer.Option("--answers", help="Include the noisy answers given.")]
NewRows = Annotated[str | None, typer.Argument(help="A file with rows of new periods.")]
Export = Annotated[
    Path | None, typer.Option("--file", help="Check this export instead of the ledger.")
]
KeptHead = Annotated[
    str | None, typer.Option("--head", help="NUMBER:HASH kept elsewhere, which must be in it.")
]
Last = Annotated[int | None, typer.Option("--last", min=1, help="Only the last so many.")]
MAX_CELLS = 40  # lines of `sulq budget`

# ---- looking --------------------------------------------------------------------------------


def budget(settings: Settings) -> Said:
    """What is spent and what is left, also for each public cell.

    Example: sulq budget
    """
    from sulq.report import budget_of, stop_of

    with ledger_of(settings) as ledger:
        found, stop = budget_of(ledger), stop_of(ledger)
    _show_stop(stop)
    total, spent, left = (amount(found[f"{k}_micro"]) for k in ("total", "spent", "remaining"))
    text = f"{spent} of {total} queries spent, {left} left for the rows that spent most."
    if "each_micro" in found:
        text += f"\n{amount(found['each_micro'])} left for a question about all periods."
    if "group" in found:
        group = found["group"]
        each = ", ".join(f"{m['name']} {amount(m['spent_micro'])}" for m in group["members"])
        text += f"\nCounted over the group {group['name']!r}, which has one T: {each}."
    cells = [
        c["cell"] | {"spent": c["spent_micro"], "remaining": c["remaining_micro"]}
        for c in found["cells"]
    ]
    tables = [cells_table(cells, list(found["cells"][0]["cell"]), MAX_CELLS)] if cells else []
    return Said(found | {"frozen": stop}, text, *tables)


def history(settings: Settings, last: Last = None) -> Said:
    """Every question ever charged, oldest first.

    Example: sulq history --last 20
    """
    from sulq.report import charges_of, stop_of

    with ledger_of(settings) as ledger:
        charges, stop = charges_of(ledger, last), stop_of(ledger)
    _show_stop(stop)
    shown = charges_table(
        (c["number"], c["time"], c["question"], c["price"], c["remaining"]) for c in charges
    )
    body = {"charges": charges, "frozen": stop}
    return Said(body, shown if charges else "Nothing has been asked yet.")


def verify(settings: Settings, file: Export = None, head: KeptHead = None) -> Said:
    """Check the ledger's chain of hashes and the mark kept outside it.

    With --file, check an export of a ledger instead: any byte of it that was changed is noticed.

    Example: sulq verify
    """
    from sulq.ledger.chain import damaged
    from sulq.ledger.chain_lines import follow, links_in
    from sulq.report import chain_of, stop_of

    if file is not None:
        ends = follow(links_in(read_lines(file), damaged), damaged, head)
        said = f"The chain is whole: {ends['number'] + 1:,} entries.\nHead: {ends['hash']}"
        body = {"entries": ends["number"] + 1, "head": ends["hash"], "verified": True}
        return Said(body | {"frozen": None}, said)
    if head is not None:
        raise Refused("--head: it goes with --file; a ledger's own end is marked beside it.")

    with ledger_of(settings) as ledger:
        found, stop = chain_of(ledger), stop_of(ledger)
    _show_stop(stop)
    text = f"The chain is whole: {found['entries']:,} entries.\nHead: {found['head']}"
    return Said(found | {"verified": True, "frozen": stop}, text)


def _show_stop(stop: dict[str, Any] | None) -> None:
    """Say what failed, if something did."""
    if stop is None:
        return
    note(
        f"Frozen since {stop['time']}: a scan failed although its engine ({stop['engine']}) was "
        f"there, with {stop['error']}. Nothing new is answered until you go on: sulq resume."
    )
    for question in stop["questions"]:
        note(f"  It was asked: {question}")


def report(settings: Settings, answers: Answers = False, out: Out = None,
           as_json: Json = False) -> Said | None:  # fmt: skip
    """The page an owner shows a reviewer: the promise, what was asked, what is spent.

    Made from the ledger alone; no row is read. Markdown, or --json.

    Example: sulq report --out report.md
    """
    from sulq.report import markdown
    from sulq.report import report as full

    with ledger_of(settings) as ledger:
        found = full(ledger, answers=answers)
    if out is None:
        return Said(found, markdown(found).rstrip("\n"))
    text = json.dumps(found, indent=2, ensure_ascii=False) + "\n" if as_json else markdown(found)
    write(out, text)
    note(f"Written: {out}")
    return None


# ---- deciding -------------------------------------------------------------------------------


def append(
    settings: Settings, rows: NewRows = None, reason: Reason = "new periods"
) -> Said:  # fmt: skip
    """Take in rows of new periods. Logged; older periods keep what was spent on them.

    With a file, its rows are written into the source, a Parquet file or a folder of them; without,
    they are there already. Only periods that had no rows may appear; anything else is a refresh.

    Example: sulq append march.parquet
    """
    from sulq.open_database import append as take_in

    if settings.source is None:
        raise Refused("which table? Give --data FILE, --config PATH, or run it beside a sulq.toml.")
    db = take_in(
        settings.source, rows, ledger=settings.ledger, table=settings.table, name=settings.name,
        reason=reason,
    )  # fmt: skip
    with db:
        opened = db.periods
        said = f"Appended: {db.rows:,} rows, periods {opened[0]} to {opened[-1]}; {db.budget}."
        return Said({"rows": db.rows, "periods": opened}, said)


def refresh(
    settings: Settings, reason: Reason, yes: Yes = False, as_json: Json = False
) -> Said:  # fmt: skip
    """Go on with changed rows or a changed schema. Logged; what was spent stays spent.

    Every public cell then carries the highest spending of any, since rows may have moved between
    them. The public columns and their values must stay.

    Example: sulq refresh --reason "rows of March added"
    """
    from sulq.open_database import refresh as renew

    if settings.source is None:
        raise Refused("which table? Give --data FILE, --config PATH, or run it beside a sulq.toml.")
    confirm(
        "Answers given so far are kept in the history, and the same question will be paid for "
        "again. Go on with the rows as they are now?",
        yes, as_json,
    )  # fmt: skip
    db = renew(
        settings.source, settings.schema, ledger=settings.ledger, engine=settings.engine,
        table=settings.table, name=settings.name, reason=reason, group=settings.group,
    )  # fmt: skip
    with db:
        left = db.budget
        body = {"rows": db.rows, "remaining_micro": int(left.remaining * 1_000_000)}
        return Said(body, f"Refreshed: {db.rows:,} rows; {left}.")


def resume(settings: Settings, reason: Reason, yes: Yes = False, as_json: Json = False) -> Said:
    """Go on after a scan failed and froze the database. Logged.

    Whether a scan fails may depend on rows: whoever asked has learned that this one did. Look at
    the question first, and repeat it on a copy of the rows.

    Example: sulq resume --reason "mended in the new version"
    """
    from sulq.report import stop_of

    with ledger_of(settings) as ledger:
        stop = stop_of(ledger)
        _show_stop(stop)
        if stop is not None:
            confirm(
                "If the same question fails again, it tells the same again. Go on?", yes, as_json
            )
        number = ledger.resume(reason)
    text = f"Written into the ledger as entry {number}. It answers again."
    return Said({"entry": number, "frozen": None}, text)


def override(settings: Settings, reason: Reason, yes: Yes = False) -> Said:
    """Go on after the ledger was lost or an older copy restored. Says so in it, for good.

    Answers may then have been given beyond the promise. Restoring the newest copy is better.

    Example: sulq override --reason "disk lost, backup of May restored" --yes
    """
    from sulq.ledger import Ledger
    from sulq.ledger.location import exists, sealed, settle

    path = own_ledger_path(settings)
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
    if not is_address(path):
        settle(seal)
    if not exists(path, seal):
        with opened(settings):
            pass
    with closing(Ledger.reopen(path, seal=seal)) as ledger:
        number = ledger.note("override", known)
    if rows is not None:
        seal.remember(rows)  # the ledger is still about the rows it was about
    text = f"Written into the ledger as entry {number}. Every report will show it."
    return Said({"entry": number, **known}, text)


def _rehearse(settings: Settings, path: Path | str) -> None:
    """Raise what would go wrong: a broken chain, or a new ledger that cannot begin."""
    import sulq
    from sulq.ledger import Ledger
    from sulq.ledger.location import exists, shown

    if exists(path):
        Ledger.reopen(path).close()
        return
    if settings.source is None:
        raise Refused(f"the ledger {shown(path)!r} is gone. Give --data too, to begin a new one.")
    warnings.filterwarnings("ignore", message="the ledger is in memory")
    sulq.open(**settings.arguments | {"ledger": config.MEMORY, "group": None}).close()
