"""sulq dataset: what a server offers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sulq.cli.common import Said, confirm, grid, note
from sulq.cli.options import Dataset, Json, Reason, ServerFolder, TableName, Yes, with_queries
from sulq.cli.prepare import warn_of_lost
from sulq.errors import NotFound, Refused

Data = Annotated[str, typer.Argument(help="A Parquet, CSV or DuckDB file, or an address.")]
SchemaFile = Annotated[
    Path | None, typer.Option("--schema", help="Default: DATA's name, .toml, beside it.")
]
Called = Annotated[str | None, typer.Option("--name", help="Default: the file's name.")]
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
InGroup = Annotated[
    str | None,
    typer.Option("--group", help="Of datasets about the same people: one T for all, for good."),
]
Invited = Annotated[
    list[str] | None,
    typer.Option("--analyst", help="Invite them, a new one with a key; may be repeated."),
]
Programs = Annotated[bool, typer.Option("--programs", help="Let questions run WebAssembly.")]
Off = Annotated[bool, typer.Option("--off", help="No longer.")]
Fuel = Annotated[int | None, typer.Option("--fuel", help="The most instructions for a row.")]
Thawed = Annotated[str | None, typer.Option("--reason", help="Why, if a scan failed and froze it.")]
MoreRows = Annotated[Path | None, typer.Argument(help="A file of rows; none: they are there.")]
NewSchema = Annotated[Path | None, typer.Option("--schema", help="A changed schema.")]


def dataset_add(
    server: ServerFolder, data: Data, promise: dict[str, Any], schema: SchemaFile = None,
    name: Called = None, table: TableName = None, ledger: LedgerAt = None,
    description: Describe = "", analyst: Invited = None, refresh: Refresh = None,
    override: Override = None, group: InGroup = None, programs: Programs = False,
) -> Said:  # fmt: skip
    """Offer a table under a promise.

    Rows that were offered before go on with the ledger they have. An analyst named here is
    invited; one who is new gets a key, shown only now.

    Example: sulq dataset add people.parquet --dir clinic --analyst alice
    """
    from sulq.sources.row_count import count_rows
    from sulq.sources.source import open_source

    source = data if "://" in data else str(Path(data).resolve())
    found = open_source(source, table)
    own = found.name
    called = name or own
    declared = schema if schema is not None else Path(source).with_name(f"{own}.toml")
    if not declared.is_file():
        raise Refused(
            f"schema={str(declared)!r} does not exist. `sulq schema draft {data} --out "
            f"{declared.name}` writes a first one."
        )
    counted = promise["error"] is not None and found.path is not None
    promise = with_queries(promise, count_rows(found) if counted else None)
    arguments = promise | {"source": source, "schema": declared}
    arguments |= {"programs": True} if programs else {}
    if table is not None:
        arguments["table"] = table
    if group is not None:
        arguments["group"] = group
    if ledger is not None:
        arguments["ledger"] = ledger if "://" in ledger else str(Path(ledger).resolve())
    with server.opened() as (services, person):
        warn_of_lost(declared, source, table)
        note("Measuring how long questions take here ...")
        record = services.datasets.create(
            person, called, arguments, description=description, refresh=refresh, override=override
        )
        db = services.datasets.opened(record).db
        keys: dict[str, str] = {}
        for who in analyst or ():
            try:
                known = services.people.analyst(person.tenant, who)
            except NotFound:
                known = services.people.add_analyst(person.tenant, who)
                keys[who] = services.people.new_key(known).text
            services.people.invite(record.id, known)
        lines = [f"{called!r} is offered: {db.rows:,} rows, {db.budget}.", str(db.promise)]
        lines += [f"\n{who} has this key, shown only now:\n\n    {k}" for who, k in keys.items()]
        return Said({"dataset": called, "rows": db.rows, "keys": keys}, *lines)


def dataset_list(server: ServerFolder) -> Said:
    """The datasets, their state as looked at now, and who is invited.

    Example: sulq dataset list --dir clinic
    """
    with server.opened() as (services, owner):
        found: list[dict[str, Any]] = [
            {
                "name": r.name, "state": state.name, "created": r.created,
                "description": r.description, "analysts": services.people.members(r.id),
                "why": state.kind if state.is_fault else None,
                "message": state.message if state.is_fault else None,
            }
            for r in services.datasets.of_tenant(owner.tenant)
            for state in [services.states.look(r)]
        ]  # fmt: skip
    rows = [
        (d["name"], d["state"], d["created"][:10], ", ".join(d["analysts"]), d["why"] or "")
        for d in found
    ]
    said = [f"{d['name']}: {d['message']}" for d in found if d["why"]]
    table = grid(("name", "state", "created", "analysts", "why"), rows)
    return Said({"datasets": found}, table, *said)


def dataset_freeze(server: ServerFolder, name: Dataset) -> Said:
    """Answer nothing until it is thawed.

    Example: sulq dataset freeze people --dir clinic
    """
    return _set_state(server, name, "frozen")


def dataset_thaw(server: ServerFolder, name: Dataset, reason: Thawed = None) -> Said:
    """Answer again. After a scan that failed, say why: it is written into the ledger.

    Example: sulq dataset thaw people --dir clinic --reason "mended in the new version"
    """
    return _set_state(server, name, "open", reason)


def dataset_programs(
    server: ServerFolder, name: Dataset, off: Off = False, fuel: Fuel = None
) -> Said:
    """Let questions run WebAssembly, from the next one on, or no longer.

    Example: sulq dataset programs people --fuel 20000 --dir clinic
    """
    with server.opened() as (services, owner):
        record = services.datasets.find(owner.tenant, name)
        services.datasets.set_programs(record, not off, fuel)
        most = services.datasets.find(owner.tenant, name).program_fuel
    said = "off" if most is None else f"on, at most {most:,} instructions a row"
    return Said({"dataset": name, "program_fuel": most}, f"Programs of {name!r} are {said}.")


def dataset_close(
    server: ServerFolder, name: Dataset, yes: Yes = False, as_json: Json = False
) -> Said:
    """Take it away. Its ledger stays: the same rows offered again go on with it.

    Example: sulq dataset close people --dir clinic
    """
    confirm(f"Nobody can ask {name!r} any more. Close it?", yes, as_json)
    return _set_state(server, name, "closed")


def _set_state(server: ServerFolder, name: str, state: str, reason: str | None = None) -> Said:
    with server.opened() as (services, owner):
        services.datasets.set_state(services.datasets.find(owner.tenant, name), state, reason)
    return Said({"dataset": name, "state": state}, f"{name!r} is {state}.")


def dataset_append(
    server: ServerFolder, name: Dataset, rows: MoreRows = None, reason: Reason = "new periods"
) -> Said:  # fmt: skip
    """Take in rows of new periods. Logged; older periods keep what was spent on them.

    With a file, its rows are written into the source, a Parquet file or a folder of them; without,
    they are there already. A server that runs goes on with them at the next question.

    Example: sulq dataset append people march.parquet --dir clinic
    """
    with server.opened() as (services, owner):
        record = services.datasets.find(owner.tenant, name)
        services.datasets.append(record, None if rows is None else str(rows.resolve()), reason)
        db = services.datasets.opened(services.datasets.record(record.id)).db
        found = {"dataset": name, "rows": db.rows, "periods": db.periods}
    said = f"{name!r} has {found['rows']:,} rows, periods {db.periods[0]} to {db.periods[-1]}."
    return Said(found, said)


def dataset_refresh(
    server: ServerFolder, name: Dataset, reason: Reason, schema: NewSchema = None
) -> Said:  # fmt: skip
    """Go on with changed rows or a changed schema. Logged; what was spent stays spent.

    Example: sulq dataset refresh people --dir clinic --reason "rows of March"
    """
    with server.opened() as (services, owner):
        services.datasets.refresh(services.datasets.find(owner.tenant, name), reason, schema)
    return Said({"dataset": name, "refreshed": True}, f"{name!r} goes on with its rows as now.")
