"""The server from a terminal: serve, and who may ask what.

These work on a server's folder, whether or not a server runs on it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Json, Yes, command, confirm, console, emit, note
from sulq.errors import Refused, in_queries

if TYPE_CHECKING:
    from sulq.server.people import Key
    from sulq.server.rooms import Rooms

PANEL = "A server for others"

Folder = Annotated[Path, typer.Argument(help="The server's folder, made by `sulq init DIR`.")]
Dir = Annotated[Path, typer.Option("--dir", help="The server's folder.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Whose; needed if there are several.")]
Name = Annotated[str, typer.Argument(help="A name: letters, digits, dots, dashes, underscores.")]
Dataset = Annotated[str, typer.Argument(help="The dataset's name.")]
Analyst = Annotated[str, typer.Argument(help="The analyst's name.")]
For = Annotated[
    list[str] | None, typer.Option("--dataset", help="Only for this dataset; may be repeated.")
]
Days = Annotated[int | None, typer.Option("--days", help="Days until it expires; default 90.")]
Label = Annotated[str, typer.Option("--label", help="A word to know it by.")]
Data = Annotated[str, typer.Argument(help="A Parquet, CSV or DuckDB file, or an address.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="Default: DATA's name, .toml, beside it.")
]
Called = Annotated[str | None, typer.Option("--name", help="Default: the file's name.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="How far a confidence may grow.")]
Delta = Annotated[float, typer.Option("--delta", help="Except with this probability.")]
Queries = Annotated[int, typer.Option("--queries", help="T, the queries of its whole life.")]
Noise = Annotated[str, typer.Option("--noise", help="gaussian, laplace, binomial or stitched.")]
Guarantee = Annotated[str, typer.Option("--guarantee", help="beliefs or dp.")]
Table = Annotated[str | None, typer.Option("--table", help="The table of a DuckDB file.")]
LedgerAt = Annotated[
    str | None,
    typer.Option("--ledger", help="A ledger they have already, or a PostgreSQL address for it."),
]
Describe = Annotated[str, typer.Option("--description", help="What analysts read about it.")]
Refresh = Annotated[
    str | None,
    typer.Option("--refresh", help="Why: go on with the ledger of this name on other rows."),
]
Override = Annotated[
    str | None,
    typer.Option("--override", help="Why: a new ledger although these rows have one. Shown."),
]
Invited = Annotated[
    list[str] | None,
    typer.Option("--analyst", help="Invite them, a new one with a key; may be repeated."),
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is written into the ledger.")]
NewSchema = Annotated[Path | None, typer.Option("--schema", help="A changed schema.")]
Amount = Annotated[str, typer.Argument(help="Queries, such as 100 or 12.5; `all`: no limit.")]
Out = Annotated[Path, typer.Argument(help="A new folder for the copy.")]
Copy = Annotated[Path, typer.Argument(help="A folder that `sulq backup` made.")]
Host = Annotated[str | None, typer.Option("--host", help="Default 127.0.0.1.")]
Port = Annotated[int | None, typer.Option("--port", help="Default 8707; 0: any that is free.")]
Workers = Annotated[int | None, typer.Option("--workers", help="Processes; default 1.")]
Certificate = Annotated[str | None, typer.Option("--certificate", help="TLS: a PEM file.")]
PrivateKey = Annotated[str | None, typer.Option("--private-key", help="TLS: its key, a PEM file.")]
Beyond = Annotated[
    bool | None,
    typer.Option("--beyond-loopback", help="Plain HTTP for other machines, behind a proxy."),
]


def add(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, panel=PANEL)(serve)
    groups: dict[str, tuple[str, tuple[Callable[..., None], ...]]] = {
        "dataset": ("What the server offers.", (dataset_add, dataset_list, dataset_freeze,
                    dataset_thaw, dataset_close, dataset_refresh)),
        "analyst": ("Who may ask.", (analyst_add, analyst_list, analyst_invite, analyst_uninvite,
                    analyst_remove)),
        "key": ("Keys, stored hashed.", (key_new, key_list, key_revoke)),
        "owner": ("Who offers datasets.", (owner_add,)),
    }  # fmt: skip
    for name, (text, functions) in groups.items():
        group = typer.Typer(no_args_is_help=True, help=text)
        for function in functions:
            command(group, function.__name__.split("_", 1)[1])(function)
        app.add_typer(group, name=name, rich_help_panel=PANEL)
    rest: tuple[Callable[..., None], ...] = (allot, alarms, backup, restore)
    for function in rest:
        command(app, panel=PANEL)(function)


@contextmanager
def opened(folder: Path) -> Iterator[Rooms]:
    """A server's folder."""
    from sulq.server.rooms import Rooms
    from sulq.server.settings import Settings

    rooms = Rooms.open(Settings.load(folder))
    try:
        yield rooms
    finally:
        rooms.close()


# ---- serving --------------------------------------------------------------------------------


def begin(folder: Path, owner: str, as_json: bool) -> None:
    """Make a server's folder; `sulq init DIR` comes here."""
    from sulq.server.folder import begin as make

    key = make(folder, owner)
    said = (
        f"Made {folder}. The owner {owner!r} has this key, shown only now:\n\n    {key.text}\n\n"
        f"It expires on {key.expires[:10]}. Next: sulq dataset add FILE --dir {folder}, or "
        f"sulq serve {folder} and make one in a browser."
    )
    body = {"folder": str(folder), "owner": owner, "key": key.text, "expires": key.expires}
    emit(body, said, as_json)


def serve(
    folder: Folder = Path(), host: Host = None, port: Port = None, workers: Workers = None,
    certificate: Certificate = None, private_key: PrivateKey = None, beyond_loopback: Beyond = None,
) -> None:  # fmt: skip
    """Serve a folder's datasets over HTTP until stopped.

    Listens on this machine only, unless there is TLS. The log goes to stderr, a line of JSON for
    each request, without values or secrets.

    Example: sulq serve clinic
    """
    from sulq.server import running
    from sulq.server.settings import Settings

    settings = Settings.load(
        folder, host=host, port=port, workers=workers, certificate=certificate,
        private_key=private_key, beyond_loopback=beyond_loopback or None,
    )  # fmt: skip
    settings.check_listening()
    with opened(folder):
        pass  # is it a server's folder, and can it be read?
    bound = running.listening(settings)
    url = running.address(settings, bound)
    typer.echo(f"Serving {folder} on {url}. Stop with Ctrl-C.")
    if sys.stdout.isatty():  # a link is as good as a key, so it goes nowhere but to a person
        from sulq.console.entrances import entrance

        path = entrance(folder)
        if path is not None:
            typer.echo(f"The owner may sign in once, within half an hour: {url}{path}")
    sys.stdout.flush()
    (running.serve_many if settings.workers > 1 else running.serve)(settings, bound)


# ---- datasets -------------------------------------------------------------------------------


def dataset_add(
    data: Data, schema: SchemaFile = None, name: Called = None, epsilon: Epsilon = 1.0,
    delta: Delta = 1e-6, queries: Queries = 1000, noise: Noise = "gaussian",
    guarantee: Guarantee = "beliefs", table: Table = None, ledger: LedgerAt = None,
    description: Describe = "",
    analyst: Invited = None, refresh: Refresh = None, override: Override = None,
    folder: Dir = Path(), owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Offer a table under a promise.

    Rows that were offered before go on with the ledger they have. An analyst named here is
    invited; one who is new gets a key, shown only now.

    Example: sulq dataset add people.parquet --dir clinic --analyst alice
    """
    from sulq.sources import open_source

    source = data if "://" in data else str(Path(data).resolve())
    own = open_source(source, table).name
    called = name or own
    declared = schema if schema is not None else Path(source).with_name(f"{own}.toml")
    if not declared.is_file():
        raise Refused(
            f"schema={str(declared)!r} does not exist. `sulq schema draft {data} --out "
            f"{declared.name}` writes a first one."
        )
    arguments: dict[str, Any] = {
        "source": source, "schema": declared, "epsilon": epsilon, "delta": delta,
        "queries": queries, "noise": noise, "guarantee": guarantee,
    }  # fmt: skip
    if table is not None:
        arguments["table"] = table
    if ledger is not None:
        arguments["ledger"] = ledger if "://" in ledger else str(Path(ledger).resolve())
    with opened(folder) as rooms:
        person = rooms.people.owner(owner)
        note("Measuring how long questions take here ...")
        record = rooms.datasets.create(
            person, called, arguments, description=description, refresh=refresh, override=override
        )
        db = rooms.datasets.opened(record).db
        keys: dict[str, str] = {}
        for who in analyst or ():
            key = _invited(rooms, person.house, who, record.id)
            keys |= {who: key.text} if key is not None else {}
        lines = [f"{called!r} is offered: {db.rows:,} rows, {db.budget}.", str(db.promise)]
        lines += [f"\n{who} has this key, shown only now:\n\n    {k}" for who, k in keys.items()]
        emit({"dataset": called, "rows": db.rows, "keys": keys}, "\n".join(lines), as_json)


def _invited(rooms: Rooms, house: int, name: str, dataset: int) -> Key | None:
    """Invite an analyst; a new one gets a key."""
    from sulq.errors import NotFound

    key = None
    try:
        person = rooms.people.analyst(house, name)
    except NotFound:
        person = rooms.people.add_analyst(house, name)
        key = rooms.people.new_key(person)
    rooms.people.invite(dataset, person)
    return key


def dataset_list(folder: Dir = Path(), owner: Owner = None, as_json: Json = False) -> None:
    """The datasets, their state and who is invited.

    Example: sulq dataset list --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        found = [
            {
                "name": r.name, "state": r.state, "created": r.created,
                "description": r.description, "analysts": rooms.people.members(r.id),
            }
            for r in rooms.datasets.of_house(house)
        ]  # fmt: skip
    rows = [(d["name"], d["state"], d["created"][:10], ", ".join(d["analysts"])) for d in found]
    _table({"datasets": found}, ("name", "state", "created", "analysts"), rows, as_json)


def dataset_freeze(
    name: Dataset, folder: Dir = Path(), owner: Owner = None, as_json: Json = False
) -> None:
    """Answer nothing until it is thawed.

    Example: sulq dataset freeze people --dir clinic
    """
    _set_state(name, "frozen", folder, owner, as_json)


def dataset_thaw(
    name: Dataset, folder: Dir = Path(), owner: Owner = None, as_json: Json = False
) -> None:
    """Answer again.

    Example: sulq dataset thaw people --dir clinic
    """
    _set_state(name, "open", folder, owner, as_json)


def dataset_close(
    name: Dataset, yes: Yes = False, folder: Dir = Path(), owner: Owner = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Take it away. Its ledger stays: the same rows offered again go on with it.

    Example: sulq dataset close people --dir clinic
    """
    confirm(f"Nobody can ask {name!r} any more. Close it?", yes, as_json)
    _set_state(name, "closed", folder, owner, as_json)


def _set_state(name: str, state: str, folder: Path, owner: str | None, as_json: bool) -> None:
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        rooms.datasets.set_state(rooms.datasets.find(house, name), state)
    emit({"dataset": name, "state": state}, f"{name!r} is {state}.", as_json)


def dataset_refresh(
    name: Dataset, reason: Reason, schema: NewSchema = None, folder: Dir = Path(),
    owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Go on with changed rows or a changed schema. Logged; what was spent stays spent.

    Example: sulq dataset refresh people --dir clinic --reason "rows of March"
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        rooms.datasets.refresh(rooms.datasets.find(house, name), reason, schema)
    emit({"dataset": name, "refreshed": True}, f"{name!r} goes on with its rows as now.", as_json)


# ---- people ---------------------------------------------------------------------------------


def owner_add(name: Name, folder: Dir = Path(), days: Days = 365, as_json: Json = False) -> None:
    """One more owner, with a house of their own.

    Example: sulq owner add bruno --dir clinic
    """
    with opened(folder) as rooms:
        key = rooms.people.new_key(rooms.people.add_owner(name), days=days, label="first")
    _show_key(f"The owner {name!r}", key, as_json)


def analyst_add(
    name: Name, datasets: For = None, days: Days = None, folder: Dir = Path(),
    owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """A new analyst with a key, invited to some datasets.

    Example: sulq analyst add alice --dataset people --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        records = [rooms.datasets.find(house, d) for d in datasets or ()]
        person = rooms.people.add_analyst(house, name)
        for record in records:
            rooms.people.invite(record.id, person)
        key = rooms.people.new_key(person, days=days)
    _show_key(name, key, as_json)


def analyst_list(folder: Dir = Path(), owner: Owner = None, as_json: Json = False) -> None:
    """The analysts, and what each may ask.

    Example: sulq analyst list --dir clinic
    """
    with opened(folder) as rooms:
        found = rooms.people.analysts(rooms.people.owner(owner).house)
    rows = [(a["name"], a["created"][:10], ", ".join(a["datasets"])) for a in found]
    _table({"analysts": found}, ("name", "since", "datasets"), rows, as_json)


def analyst_invite(
    name: Analyst, dataset: Dataset, folder: Dir = Path(), owner: Owner = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Let an analyst ask a dataset.

    Example: sulq analyst invite alice people --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        record = rooms.datasets.find(house, dataset)
        rooms.people.invite(record.id, rooms.people.analyst(house, name))
    emit({"analyst": name, "dataset": dataset}, f"{name} may ask {dataset!r}.", as_json)


def analyst_uninvite(
    name: Analyst, dataset: Dataset, folder: Dir = Path(), owner: Owner = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Take an invitation back. What they spent stays spent.

    Example: sulq analyst uninvite alice people --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        record = rooms.datasets.find(house, dataset)
        rooms.people.uninvite(record.id, rooms.people.analyst(house, name))
    emit({"analyst": name, "dataset": dataset}, f"{name} may not ask {dataset!r}.", as_json)


def analyst_remove(
    name: Analyst, folder: Dir = Path(), owner: Owner = None, as_json: Json = False
) -> None:
    """End an analyst's keys and invitations. What they spent stays spent.

    Example: sulq analyst remove alice --dir clinic
    """
    with opened(folder) as rooms:
        rooms.people.remove_analyst(rooms.people.owner(owner).house, name)
    emit({"removed": name}, f"{name} is removed.", as_json)


# ---- keys -----------------------------------------------------------------------------------


def key_new(
    analyst: Annotated[str | None, typer.Argument(help="Whose; the owner's without one.")] = None,
    datasets: For = None, days: Days = None, label: Label = "", folder: Dir = Path(),
    owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """A new key, shown only now.

    Example: sulq key new alice --dataset people --days 30 --dir clinic
    """
    with opened(folder) as rooms:
        person = rooms.people.owner(owner)
        if analyst is not None:
            person = rooms.people.analyst(person.house, analyst)
        key = rooms.people.new_key(person, datasets=datasets, days=days, label=label)
    _show_key(person.name, key, as_json)


def key_list(folder: Dir = Path(), owner: Owner = None, as_json: Json = False) -> None:
    """Keys, without their secrets.

    Example: sulq key list --dir clinic
    """
    with opened(folder) as rooms:
        found = rooms.people.keys(rooms.people.owner(owner).house)
    rows = [
        (k["id"], k["person"], ", ".join(k["datasets"] or ["all"]), k["expires"][:10],
         (k["revoked"] or "")[:10], k["label"])
        for k in found
    ]  # fmt: skip
    head = ("key", "person", "datasets", "expires", "revoked", "label")
    _table({"keys": found}, head, rows, as_json)


def key_revoke(
    key: Annotated[str, typer.Argument(help="The key's id, as `sulq key list` shows it.")],
    folder: Dir = Path(), owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """End a key at once.

    Example: sulq key revoke 0123456789abcdef --dir clinic
    """
    with opened(folder) as rooms:
        rooms.people.revoke(rooms.people.owner(owner).house, key)
    emit({"revoked": key}, f"{key} is revoked.", as_json)


def _show_key(whose: str, key: Key, as_json: bool) -> None:
    said = (
        f"{whose} has this key, shown only now:\n\n    {key.text}\n\n"
        f"It expires on {key.expires[:10]}."
    )
    emit({"key": key.text, "id": key.id, "expires": key.expires}, said, as_json)


# ---- running it -----------------------------------------------------------------------------


def allot(
    dataset: Dataset, analyst: Analyst, queries: Amount, folder: Dir = Path(),
    owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Let an analyst spend at most so many queries in all. Logged in the ledger.

    A cap, not a reservation: T is one for everybody, because analysts can pool what they learn.

    Example: sulq allot people alice 100 --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        person = rooms.people.analyst(house, analyst)
        db = rooms.datasets.opened(rooms.datasets.find(house, dataset)).db
        db.allot(person.in_ledger, None if queries == "all" else queries)
        now = db.allotments()[person.in_ledger]
    most = "all there is" if now.allotted is None else in_queries(now.allotted)
    said = f"{analyst} may spend {most} on {dataset!r}, and has spent {in_queries(now.spent)}."
    emit({"analyst": analyst, "allotted_micro": now.allotted, "spent_micro": now.spent}, said,
         as_json)  # fmt: skip


def alarms(
    seen: Annotated[bool, typer.Option("--seen", help="Mark them as seen.")] = False,
    folder: Dir = Path(), owner: Owner = None, as_json: Json = False,
) -> None:  # fmt: skip
    """What an owner should look at: replies that were late, datasets that froze.

    Example: sulq alarms --dir clinic
    """
    with opened(folder) as rooms:
        house = rooms.people.owner(owner).house
        found = [dict(row) for row in rooms.registry.alarms(house)]
        if seen:
            rooms.registry.see_alarms(house)
    rows = [(a["time"][:19], a["dataset"] or "", a["kind"], a["message"]) for a in found]
    _table({"alarms": found}, ("time (UTC)", "dataset", "kind", "what"), rows, as_json)


def backup(folder: Folder, out: Out, as_json: Json = False) -> None:
    """Copy everything but the rows; safe while a server runs.

    Example: sulq backup clinic clinic-monday
    """
    from sulq.server.folder import backup as make

    about = make(folder, out)
    said = f"Copied {len(about['heads'])} ledgers and the registry to {out}. It is as secret."
    for place in about["elsewhere"]:
        note(
            f"Not copied, since it is elsewhere: {place}. Copy it with the .sulq folder beside it."
        )
    emit(about | {"out": str(out)}, said, as_json)


def restore(copy: Copy, folder: Folder, reason: Reason, as_json: Json = False) -> None:
    """Put a backup in place: whole into a new folder, or what is missing into an old one.

    A ledger is not put back if the folder has seen later entries than the copy has: answers
    would be forgotten. Each ledger says from then on that it was restored.

    Example: sulq restore clinic-monday clinic --reason "disk replaced"
    """
    from sulq.server.folder import restore as put_back

    found = put_back(copy, folder, reason)
    names = ", ".join(found["restored"]) or "nothing: every ledger is whole"
    emit(found, f"Restored from {found['made']}: {names}.", as_json)


def _table(body: Any, head: tuple[str, ...], rows: list[Any], as_json: bool) -> None:
    if as_json:
        emit(body, "", True)
        return
    from rich import box
    from rich.markup import escape
    from rich.table import Table as Grid

    table = Grid(box=box.SIMPLE, pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(str(x)) for x in row))
    console().print(table)
