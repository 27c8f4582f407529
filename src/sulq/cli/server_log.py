"""sulq audit-log and sulq webhook: what an owner of a server shows others, and hears of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sulq.cli.common import Said, grid, read_lines, write_bytes
from sulq.cli.options import Out, ServerFolder

Head = Annotated[
    str | None, typer.Option("--head", help="NUMBER:HASH kept elsewhere, which must be in it.")
]
File = Annotated[
    Path | None, typer.Option("--file", help="Check this export instead of the server's log.")
]
LAST = 20


def audit_log(
    server: ServerFolder,
    out: Out = None,
    head: Head = None,
    file: File = None,
    last: Annotated[int, typer.Option("--last", help="Show so many entries.")] = LAST,
) -> Said:
    """Who was let in and who decided what: shown, checked, exported.

    Every link of the chain is checked. With --out all entries are written, one JSON object a line.

    Example: sulq audit-log --out log.ndjson --dir clinic
    """
    from sulq.server.services.audit_log import verify, who_of, words_of

    if file is not None:
        exported = read_lines(file)
    else:
        with server.opened() as (services, owner):
            exported = services.log.export(owner.tenant).splitlines(keepends=True)
    found = verify(exported, head)
    if out is not None:
        write_bytes(out, b"".join(exported))
    shown = [] if out is not None or last <= 0 else [json.loads(x) for x in exported[-last:]]
    rows = [(str(e["number"]), e["body"]["time"][:19], *who_of(e), words_of(e)) for e in shown]
    end = f"{found['number']}:{found['hash']}"
    said = f"The chain of {len(exported):,} entries is whole; it ends with {end}."
    table = [grid(("entry", "time (UTC)", "by", "name", "what"), rows)] if rows else []
    return Said({"head": found, "entries": shown}, *table, said)


# ---- webhook ----------------------------------------------------------------------------------


def webhook_set(
    server: ServerFolder,
    url: Annotated[str, typer.Argument(help="https://..., at a host of webhook_hosts.")],
) -> Said:
    """Have messages sent: budget low, frozen, late, key expiring. Shows the secret, once.

    Example: sulq webhook set https://hooks.example.org/sulq --dir clinic
    """
    with server.opened() as (services, owner):
        secret = services.webhooks.set(owner.tenant, url)
    said = f"Messages go to {url}, signed with this secret, shown only now:\n\n    {secret}"
    return Said({"url": url, "secret": secret}, said)


def webhook_show(server: ServerFolder) -> Said:
    """Where messages go, and how many wait.

    Example: sulq webhook show --dir clinic
    """
    with server.opened() as (services, owner):
        found = services.webhooks.shown(owner.tenant)
    said = f"Messages go to {found['url']} since {found['created'][:10]}; {found['waiting']} wait."
    return Said(found, said)


def webhook_test(server: ServerFolder) -> Said:
    """Send a message that says nothing; a running server sends it.

    Example: sulq webhook test --dir clinic
    """
    with server.opened() as (services, owner):
        services.webhooks.test(owner.tenant)
    return Said({"sent": True}, "A message is on its way, if a server runs.")


def webhook_remove(server: ServerFolder) -> Said:
    """Send no more messages.

    Example: sulq webhook remove --dir clinic
    """
    with server.opened() as (services, owner):
        services.webhooks.remove(owner.tenant)
    return Said({"removed": True}, "No more messages are sent.")
