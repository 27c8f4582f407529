"""sulq mcp: tools for an AI agent, which pays within a limit that you set."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sulq.cli.common import note, opened
from sulq.settings_file import Settings

HOW = "Whoever starts `sulq mcp` sets the limit: sulq mcp --spend 5 (queries)."
Limit = Annotated[
    str | None,
    typer.Option("--spend", help="Queries that the agent may spend; nothing without it."),
]
Name = Annotated[
    str,
    typer.Option("--analyst", help="Whose questions the ledger says they are; not on a server."),
]


def mcp(settings: Settings, spend: Limit = None, analyst: Name = "agent") -> None:
    """Tools for an AI agent over stdin and stdout (Model Context Protocol).

    The agent sees schema, prices and budget, tries statements on made-up rows, and asks what it was
    shown the price of, within --spend. Without it, only what was asked before is answered.

    Example: sulq mcp --spend 5
    """
    from sulq.client.database import RemoteDatabase
    from sulq.mcp.local_databases import LocalDatabases
    from sulq.mcp.stdio import serve_lines
    from sulq.spending_limit import SpendingLimit

    limit = SpendingLimit(spend, HOW)
    with opened(settings) as db:
        remote = isinstance(db, RemoteDatabase)
        asked = db if remote else db.as_analyst(analyst)
        note(f"{db.name}: ready for an agent, which may spend {spend or 'nothing'}.")
        serve_lines(LocalDatabases({db.name: asked}, limit), sys.stdin.buffer, sys.stdout.buffer)
