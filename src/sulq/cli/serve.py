"""The server from a terminal: serve, allot, alarms, clock, backup, restore.

These work on a server's folder, whether or not a server runs on it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sulq.cli.common import Said, grid, say
from sulq.cli.options import Analyst, Dataset, Reason, ServerFolder, services_of
from sulq.errors import in_queries

Folder = Annotated[Path, typer.Argument(help="The server's folder, made by `sulq init DIR`.")]
Amount = Annotated[str, typer.Argument(help="Queries, such as 100 or 12.5; `all`: no limit.")]
Out = Annotated[Path, typer.Argument(help="A new folder for the copy.")]
Copy = Annotated[Path, typer.Argument(help="A folder that `sulq backup` made.")]
Host = Annotated[str | None, typer.Option("--host", help="Default 127.0.0.1.")]
Port = Annotated[int | None, typer.Option("--port", help="Default 8707; 0: any that is free.")]
Postgres = Annotated[
    int | None, typer.Option("--postgres", help="A port for PostgreSQL's clients, such as 5433.")
]
Workers = Annotated[int | None, typer.Option("--workers", help="Processes; default 1.")]
Certificate = Annotated[str | None, typer.Option("--certificate", help="TLS: a PEM file.")]
PrivateKey = Annotated[str | None, typer.Option("--private-key", help="TLS: its key, a PEM file.")]
Beyond = Annotated[
    bool | None,
    typer.Option("--beyond-loopback", help="Plain HTTP for other machines, behind a proxy."),
]


def begin(folder: Path, owner: str) -> Said:
    """Make a server's folder; `sulq init DIR` comes here."""
    from sulq.server.services.folder import begin as make

    key = make(folder, owner)
    if key is None:
        said = f"Made {folder}. It joins the servers whose registry it shares; owners are there."
        return Said({"folder": str(folder), "owner": None, "key": None, "expires": None}, said)
    said = (
        f"Made {folder}. The owner {owner!r} has this key, shown only now:\n\n    {key.text}\n\n"
        f"It expires on {key.expires[:10]}. Next: sulq dataset add FILE --dir {folder}, or "
        f"sulq serve {folder} and make one in a browser."
    )
    body = {"folder": str(folder), "owner": owner, "key": key.text, "expires": key.expires}
    return Said(body, said)


def serve(
    folder: Folder = Path(), host: Host = None, port: Port = None, workers: Workers = None,
    certificate: Certificate = None, private_key: PrivateKey = None, beyond_loopback: Beyond = None,
    postgres: Postgres = None,
) -> None:  # fmt: skip
    """Serve a folder's datasets over HTTP until it is shut down.

    Listens on this machine only, unless there is TLS. The log goes to stderr, a line of JSON for
    each request, without values or secrets.

    Example: sulq serve clinic
    """
    from sulq.server import process as running
    from sulq.server import workers as processes
    from sulq.server.services.settings import Settings

    settings = Settings.load(
        folder, host=host, port=port, workers=workers, certificate=certificate,
        private_key=private_key, beyond_loopback=beyond_loopback or None, postgres=postgres,
    )  # fmt: skip
    settings.check_listening()
    with services_of(folder) as services:  # is it a server's folder, and can it be read?
        doubt = services.registry.clock.doubt
    if doubt is not None:
        say(str(doubt), err=True)
    bound = running.listening(settings)
    url, own = running.address(settings, bound), running.listening_for_postgres(settings)
    say(f"Serving {folder} on {url}. Stop with Ctrl-C.")
    if own is not None:
        say(f"PostgreSQL's clients: host {settings.host}, port {own.getsockname()[1]}.")
    if sys.stdout.isatty():  # a link is as good as a key, so it goes nowhere but to a person
        from sulq.server.console.sessions import entrance

        path = entrance(folder)
        if path is not None:
            say(f"The owner may sign in once, within half an hour: {url}{path}")
    sys.stdout.flush()
    (processes.serve_many if settings.workers > 1 else running.serve)(settings, bound, own)


def allot(
    server: ServerFolder, dataset: Dataset, analyst: Analyst, queries: Amount
) -> Said:  # fmt: skip
    """Let an analyst spend at most so many queries in all. Logged in the ledger.

    A cap, not a reservation: T is one for everybody, because analysts can pool what they learn.

    Example: sulq allot people alice 100 --dir clinic
    """
    with server.opened() as (services, owner):
        person = services.people.analyst(owner.tenant, analyst)
        record = services.datasets.find(owner.tenant, dataset)
        db = services.datasets.opened(record).db
        services.datasets.allot(record, person, None if queries == "all" else queries)
        now = db.allotments()[person.in_ledger]
    most = "all there is" if now.allotted is None else in_queries(now.allotted)
    return Said(
        {"analyst": analyst, "allotted_micro": now.allotted, "spent_micro": now.spent},
        f"{analyst} may spend {most} on {dataset!r}, and has spent {in_queries(now.spent)}.",
    )


def alarms(
    server: ServerFolder,
    seen: Annotated[bool, typer.Option("--seen", help="Mark them as seen.")] = False,
) -> Said:
    """What an owner should look at: replies that were late, datasets that froze.

    Example: sulq alarms --dir clinic
    """
    with server.opened() as (services, owner):
        found = [dict(row) for row in services.registry.alarms(owner.tenant)]
        if seen:
            services.log.see_alarms(owner.tenant)
    rows = [(a["time"][:19], a["dataset"] or "", a["kind"], a["message"]) for a in found]
    return Said({"alarms": found}, grid(("time (UTC)", "dataset", "kind", "what"), rows))


def clock(
    server: ServerFolder,
    accept: Annotated[
        bool, typer.Option("--accept", help="Go on from the machine's clock as it is now.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; the audit log keeps it.")] = "",
) -> Said:
    """The time by which keys expire, and whether the machine's clock may be wrong.

    With --accept every server of this registry goes on from the machine's clock. Set that right
    first: if it is behind the time before, keys that had expired meanwhile are good again.

    Example: sulq clock --dir clinic
    """
    from sulq.server.services.accepted_clock import accept as accept_clock

    with server.opened() as (services, _):
        mark = services.registry.clock
        if accept:
            found = accept_clock(services.registry, reason)
            said = (
                f"Accepted: it is {found['time']}, and was {found['before']} before. "
                f"{found['keys']:,} keys are good, {found['keys_before']:,} were before."
            )
            return Said(found, said)
        doubt, moment = mark.doubt, mark.now()
    text = None if doubt is None else str(doubt)
    return Said({"time": moment, "doubt": text}, f"It is {moment}.", *([text] if text else []))


def backup(folder: Folder, out: Out) -> Said:
    """Copy everything but the rows; safe while a server runs.

    Example: sulq backup clinic clinic-monday
    """
    from sulq.server.services.folder import backup as make

    about = make(folder, out)
    registry = " and the registry" if about["registry"] else ", not the registry,"
    said = f"Copied {len(about['heads'])} ledgers{registry} to {out}. It is as secret."
    if about["passwords"]:
        said += f" It has {about['passwords']} passwords of PostgreSQL in it."
    said += f"\nIts digest, to keep elsewhere: {about['digest']}"
    notes = [
        f"Not copied, since it is elsewhere: {place}. Copy it with the .sulq folder beside it."
        for place in about["elsewhere"]
    ]
    return Said(about | {"out": str(out)}, said, notes=notes)


def restore(copy: Copy, folder: Folder, reason: Reason) -> Said:
    """Put a backup in place: whole into a new folder, or what is missing into an old one.

    A ledger is not put back if the folder has seen later entries than the copy has: answers
    would be forgotten. Nor is a second folder made while the first is still there. Each ledger
    says from then on that it was restored.

    Example: sulq restore clinic-monday clinic --reason "disk replaced"
    """
    from sulq.server.services.folder import restore as put_back

    found = put_back(copy, folder, reason)
    names = ", ".join(found["restored"]) or "nothing: every ledger is whole"
    return Said(found, f"Restored from {found['made']}: {names}.")
