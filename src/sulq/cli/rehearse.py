"""sulq rehearse: a statement tried on synthetic rows from the schema alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sulq.cli.common import Json, command, emit
from sulq.config import Settings
from sulq.errors import Refused, SchemaError

if TYPE_CHECKING:
    from sulq import Database

Statement = Annotated[str, typer.Argument(help="A SELECT, as `sulq sql` takes it.")]
Rows = Annotated[int, typer.Option("--rows", help="How many synthetic rows.")]


def add(app: typer.Typer) -> None:
    """Add the command to the app."""
    command(app, panel="Asking")(rehearse)


def rehearse(
    settings: Settings, statement: Statement, rows: Rows = 1000, as_json: Json = False
) -> None:
    """Try a SELECT on synthetic rows made from the schema alone. Nothing is spent.

    Only the schema is read: neither the data nor the ledger need be there.

    Example: sulq rehearse --schema people.toml "select sex, count(*) from people group by sex"
    """
    with rehearsed(settings, rows) as db:
        table = db.sql(statement)
    emit(table.to_json(), str(table), as_json)


def rehearsed(settings: Settings, rows: int) -> Database:
    """Synthetic rows under the settings' promise, called as the real table is."""
    import sulq

    if settings.schema is None:
        raise Refused("which schema? Give --schema FILE.toml, or run it beside a sulq.toml.")
    promise = {
        name: value
        for name in ("epsilon", "delta", "queries", "noise", "guarantee", "pricing")
        if (value := getattr(settings, name)) is not None
    }
    return sulq.rehearsal(settings.schema, rows, name=_table(settings), **promise)


def _table(settings: Settings) -> str | None:
    """What SQL calls the real table; None leaves it to the schema's name."""
    from sulq.sources import open_source

    if settings.name is not None or settings.source is None:
        return settings.name
    try:
        return open_source(settings.source).name
    except SchemaError:  # the data is elsewhere
        return Path(settings.source).stem
