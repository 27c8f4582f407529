"""The command `sulq`: everything an owner and an analyst do, from a terminal.

Heavy libraries are imported inside the commands, so that `sulq --help` is quick.

    ask.py              questions: count, sum, mean, histogram, crosstab, SQL; prices, rehearsals
    audit.py            sulq audit: which questions of a file could be answered exactly
    common.py           what commands share: results and errors, finding a database
    demo.py             sulq demo: a private table behind a server, asked over HTTP
    demo_data.py        synthetic people for the demo, from a fixed seed
    discover.py         sulq discover: values that enough rows have
    learn.py            sulq learn: models from noisy sums, priced before they are paid
    line_editing.py     a prompt with arrow keys, completion and a history
    mcp.py              sulq mcp: tools for an AI agent, over stdin and stdout
    mine.py             sulq publish and sulq mine: noisy tables in a file, and questions to it
    options.py          options that several commands take, alone or together
    owner.py            budget, history, verify, report, append, refresh, resume
    postgres.py         sulq postgres grant: the SQL an administrator runs
    predict.py          sulq predict: a model applied to rows that the analyst holds
    prepare.py          demo, plan, schema draft, schema check, init, encode
    programs_run.py     sulq program: the WebAssembly that paid questions ran
    profile.py          sulq profile: what every column looks like, for one price
    running.py          sulq running: totals so far at every period
    sample.py           sulq sample: synthetic rows from a model
    serve.py            the server from a terminal: serve, allot, alarms, clock, backup, restore
    server_accounts.py  sulq owner, analyst, key: who offers datasets, and who may ask them
    server_datasets.py  sulq dataset: what a server offers
    server_log.py       sulq audit-log and sulq webhook: what owners of a server show and hear
    shell.py            sulq shell: a prompt that shows the price of a statement first
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Any

import typer

from sulq import __version__
from sulq.cli import (
    ask,
    audit,
    discover,
    learn,
    mcp,
    mine,
    owner,
    postgres,
    predict,
    prepare,
    profile,
    programs_run,
    running,
    sample,
    serve,
    server_accounts,
    server_datasets,
    server_log,
    shell,
)
from sulq.cli.common import command, say

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
        say(f"sulq {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A statistical database that outsiders may query and no single row can be learned from."""


def _add(panel: str, **commands: Callable[..., Any]) -> None:
    for name, function in commands.items():
        command(app, name, function, panel)


def _group(panel: str, name: str, text: str, module: ModuleType) -> None:
    """The functions of a module called name_word, as `sulq name word`."""
    group = typer.Typer(no_args_is_help=True, help=text)
    for function, found in vars(module).items():
        if function.startswith(f"{name}_"):
            command(group, function.removeprefix(f"{name}_"), found)
    app.add_typer(group, name=name, rich_help_panel=panel)


FIRST, ASKING, LEARNING = "Before the first question", "Asking", "Learning"
OWNER, SERVER = "For the owner", "A server for others"

_add(FIRST, demo=prepare.demo, plan=prepare.plan)
_group(FIRST, "schema", "Draft and check a schema.", prepare)
_add(FIRST, init=prepare.init, encode=prepare.encode)
_group(FIRST, "postgres", "Rights for a PostgreSQL source or ledger.", postgres)
ask.add(app, ASKING)
_add(
    ASKING,
    profile=profile.profile,
    discover=discover.discover,
    running=running.running,
    rehearse=ask.rehearse,
    shell=shell.shell,
)
models = typer.Typer(no_args_is_help=True, help="Learn a model from noisy sums.", cls=learn.Kinds)
app.add_typer(models, name="learn", rich_help_panel=LEARNING)
_add(LEARNING, predict=predict.predict, sample=sample.sample)
_add(OWNER, audit=audit.audit, publish=mine.publish)
_add(ASKING, mine=mine.mine, mcp=mcp.mcp)
_add(
    OWNER, budget=owner.budget, history=owner.history,
    verify=owner.verify, report=owner.report, append=owner.append, refresh=owner.refresh,
    resume=owner.resume, override=owner.override,
)  # fmt: skip
_group(OWNER, "program", "The WebAssembly that questions ran.", programs_run)
_add(
    SERVER, serve=serve.serve, allot=serve.allot, alarms=serve.alarms, clock=serve.clock,
    backup=serve.backup, restore=serve.restore,
)  # fmt: skip
_add(SERVER, **{"audit-log": server_log.audit_log})
_group(SERVER, "webhook", "Where an owner hears what happens.", server_log)
_group(SERVER, "dataset", "What the server offers.", server_datasets)
_group(SERVER, "analyst", "Who may ask.", server_accounts)
_group(SERVER, "key", "Keys, stored hashed.", server_accounts)
_group(SERVER, "owner", "Who offers datasets.", server_accounts)
