"""The command `sulq`: everything an owner and an analyst do, from a terminal.

Heavy libraries are imported inside the commands, so that `sulq --help` is quick.
"""

from __future__ import annotations

from typing import Annotated

import typer

from sulq import __version__
from sulq.cli import (
    ask,
    audit,
    learn,
    mine,
    owner,
    postgres,
    predict,
    prepare,
    rehearse,
    serve,
    shell,
)

app = typer.Typer(
    name="sulq",
    help="A statistical database that outsiders may query and no single row can be learned from.",
    epilog="Start with `sulq demo`. Each command explains itself: sulq COMMAND --help.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sulq {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A statistical database that outsiders may query and no single row can be learned from."""


prepare.add(app)
postgres.add(app)
ask.add(app)
rehearse.add(app)
shell.add(app)
learn.add(app)
predict.add(app)
audit.add(app)
mine.add(app)
owner.add(app)
serve.add(app)
