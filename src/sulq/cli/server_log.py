"""sulq audit-log and sulq webhook: what an owner of a server shows others, and hears of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sulq.cli.common import Said, grid
from sulq.cli.options import Out, ServerFolder
from sulq.errors import Refused

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
    from sulq.server.services.audit_log import verify

    if file is not None:
        entries = _entries(file)
        found = verify(entries, head)
    else:
        with server.opened() as (services, owner):
            found = services.log.verify(owner.tenant, head)
            entries = list(services.log.all(owner.tenant))
    if out is not None:
        out.write_text("".join(json.dumps(entry) + "\n" for entry in entries), encoding="utf-8")
    shown = [] if out is not None else entries[-last:] if last > 0 else []
    rows = [(str(e["number"]), e["body"]["time"][:19], e["body"]["by"], e["what"]) for e in shown]
    end = f"{found['number']}:{found['hash']}"
    said = f"The chain of {len(entries):,} entries is whole; it ends with {end}."
    table = [grid(("entry", "time (UTC)", "by", "what"), rows)] if rows else []
    return Said({"head": found, "entries": shown}, *table, said)


def _entries(file: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        why = type(error).__name__
        raise Refused(f"{str(file)!r} cannot be read as an export: {why}.") from None


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
