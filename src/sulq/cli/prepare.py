"""Before anything is asked: demo, plan, schema draft, schema check, init, encode."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sulq.cli.common import Json, command, console, emit, note, settings_from, write
from sulq.config import FILE, Settings
from sulq.config import draft as draft_config
from sulq.errors import Refused, SchemaError

if TYPE_CHECKING:
    from rich.table import Table

    from sulq import Promise, Schema

Rows = Annotated[int, typer.Option("--rows", help="n, the rows of the table.")]
Queries = Annotated[int, typer.Option("--queries", help="T, the queries of its whole life.")]
Epsilon = Annotated[float, typer.Option("--epsilon", help="How far a confidence may grow.")]
Delta = Annotated[float, typer.Option("--delta", help="Except with this probability.")]
Noise = Annotated[str, typer.Option("--noise", help="gaussian, laplace, binomial or stitched.")]
Guarantee = Annotated[str, typer.Option("--guarantee", help="beliefs or dp.")]
DataFile = Annotated[Path, typer.Argument(help="A Parquet, CSV or DuckDB file.")]
DataOrAddress = Annotated[
    str, typer.Argument(help="A Parquet, CSV or DuckDB file, or a postgresql:// address.")
]
SchemaFile = Annotated[Path, typer.Argument(help="A schema, as TOML.")]
DataOrFolder = Annotated[Path, typer.Argument(help="A data file, or a new folder for a server.")]
FirstOwner = Annotated[str, typer.Option("--owner", help="The first owner of a server.")]
TableName = Annotated[str | None, typer.Option("--table", help="The table of a DuckDB file.")]
Out = Annotated[Path | None, typer.Option("--out", help="Write to this file, not to stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]
Folder = Annotated[Path, typer.Option("--dir", help="Where the demo's files go.")]
SchemaPath = Annotated[Path | None, typer.Option("--schema", help="Default: DATA's name, .toml.")]
StoreFile = Annotated[Path, typer.Argument(help="The store to write; its name ends in .sulq.")]
StoreSchema = Annotated[str | None, typer.Option("--schema", help="Default: as sulq.toml says.")]
StoreLedger = Annotated[
    str | None, typer.Option("--ledger", help="The ledger of these rows; default: beside DATA.")
]
Against = Annotated[
    str | None, typer.Option("--data", help="Also compare with this file's names and types.")
]

PANEL = "Before the first question"
EPSILONS = (0.1, 0.3, 1.0, 3.0)


def add(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, panel=PANEL)(demo)
    command(app, panel=PANEL)(plan)
    schema = typer.Typer(no_args_is_help=True, help="Draft and check a schema.")
    command(schema, "draft")(draft)
    command(schema, "check")(check)
    app.add_typer(schema, name="schema", rich_help_panel=PANEL)
    command(app, panel=PANEL)(init)
    command(app, panel=PANEL)(encode)


def demo(folder: Folder = Path(".demo")) -> None:
    """A guided tour on synthetic people: prices, answers, true values, budget.

    Example: sulq demo
    """
    from sulq.demo import run

    run(folder)


# ---- plan -----------------------------------------------------------------------------------


def plan(
    rows: Rows, queries: Queries = 1000, epsilon: Epsilon = 1.0, delta: Delta = 1e-6,
    noise: Noise = "gaussian", guarantee: Guarantee = "beliefs", as_json: Json = False,
) -> None:  # fmt: skip
    """What a promise costs, before any data is opened.

    One answer is a count, or a sum of numbers between 0 and 1.

    Example: sulq plan --rows 1000000 --queries 1000 --epsilon 1
    """
    from sulq.promise import Promise, plan_table

    promise = Promise(epsilon, delta, queries, noise, guarantee)
    lives = sorted({max(1, queries // 10), queries, queries * 10})
    table = plan_table(rows, lives, sorted({*EPSILONS, epsilon}), delta, noise, guarantee)
    for line in table:
        line["below_sampling"] = line["ratio"] < 1
    most = _most_queries(promise, rows)
    if as_json:
        words = promise.explain(rows)
        body = {"rows": rows, "promise": promise.to_json() | {"words": words}, "table": table}
        emit(body | {"most_queries_below_sampling": most}, "", True)
        return
    screen = console()
    screen.print(promise.explain(rows), markup=False)
    if most is not None:
        screen.print(
            f"With epsilon={epsilon:g}, up to {most:,} queries keep the noise of each below the "
            f"sampling error of {rows:,} rows." if most else
            f"With epsilon={epsilon:g}, even a single query is noisier than the sampling error."
        )  # fmt: skip
    screen.print(_plan_table(table, (queries, epsilon)))


def _plan_table(lines: list[dict[str, Any]], asked: tuple[int, float]) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("queries", "epsilon", "noise (std)", "95% within", "sampling"):
        table.add_column(name, justify="right")
    table.add_column("noise below?")
    last = None
    for line in lines:
        chosen = (line["queries"], line["epsilon"]) == asked
        if last not in (None, line["queries"]):
            table.add_section()
        last = line["queries"]
        verdict = "yes" if line["below_sampling"] else f"no, x {line['ratio']:,.3g}"
        numbers = (f"{_short(line[name])}" for name in ("std", "half_width", "sampling"))
        table.add_row(
            ">" if chosen else "", f"{line['queries']:,}", f"{line['epsilon']:g}", *numbers,
            verdict, style="bold" if chosen else None,
        )  # fmt: skip
    return table


def _short(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def _most_queries(promise: Promise, rows: int) -> int | None:
    """The largest T whose noise stays below the sampling error, where R is a plain formula."""
    per_query = promise.variance / promise.queries
    if promise.noise == "gaussian":  # R grows with T
        return max(0, int((rows / 4) / per_query * (1 - 1e-9)))
    if promise.noise == "laplace":  # R grows with T squared
        return max(0, int((rows / 4 / (per_query / promise.queries)) ** 0.5 * (1 - 1e-9)))
    return None


# ---- schema ---------------------------------------------------------------------------------


def draft(
    file: DataOrAddress, out: Out = None, table: TableName = None, force: Force = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """A first draft of a schema, from the file's metadata only.

    Bounds and categories are left blank: read off the rows they would be unpaid answers.

    Example: sulq schema draft people.parquet --out people.toml
    """
    from sulq.drafting import draft as text_of

    text = text_of(file, table)
    if out is None:
        emit({"draft": text}, text.rstrip("\n"), as_json)
        return
    _write_new(out, text, force)
    said = f"Written: {out}. Fill in bounds and categories, then: sulq schema check {out}"
    emit({"draft": text, "out": str(out)}, said, as_json)


def check(
    file: SchemaFile, data: Against = None, table: TableName = None, as_json: Json = False
) -> None:
    """Read a schema as sulq will, and say what it allows.

    Example: sulq schema check people.toml --data people.parquet
    """
    from sulq import Schema

    schema = Schema.load(file)
    if data is not None:
        schema = _bound(schema, data, table)
    if as_json:
        cells = {"cells": schema.cell_count, "digest": schema.digest}
        emit(schema.to_json() | cells, "", True)
        return
    console().print(_schema_table(schema))
    for line in _remarks(schema):
        typer.echo(line)


def _bound(schema: Schema, data: str, table: str | None) -> Schema:
    from sulq.drafting import stored_types
    from sulq.sources import bind, open_source

    stored = stored_types(open_source(data, table))
    known = {name: kind for name, kind in stored.items() if kind is not None}
    if len(known) == len(stored):
        return bind(schema, known)
    for column in schema.columns:  # a CSV: only its header says anything
        if column.name not in stored:
            raise SchemaError(
                f"column {column.name!r} is declared but not in the source. It has: "
                f"{', '.join(list(stored)[:20])}."
            )
    return schema


def _schema_table(schema: Schema) -> Table:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    for name in ("column", "type", "range or values", "public", "may be missing"):
        table.add_column(name, overflow="fold")
    for c in schema.columns:
        values = [str(v) for v in c.values or ()]
        listed = ", ".join(values[:8]) + (", ..." if len(values) > 8 else "")
        span = f"{c.low} to {c.high}" if c.bounded else listed
        public = "key" if c.key else "yes" if c.public else ""
        table.add_row(escape(c.name), c.type, escape(span), public, "" if not c.nullable else "yes")
    return table


def _remarks(schema: Schema) -> list[str]:
    """What the declarations mean for questions."""
    cells = schema.cell_count
    by = ", ".join(c.name for c in schema.cell_columns)
    said = [
        f"Spending is kept apart in {cells:,} cells, by {by}."
        if by
        else "No public column lists its values, so every question is charged to everyone."
    ]
    if schema.key is None:
        said.append("No key: samples and blocks of rows cannot be asked for.")
    open_ended = [
        c.name for c in schema.columns
        if c.type in ("integer", "number", "date") and not c.bounded and not c.key
    ]  # fmt: skip
    if open_ended:
        said.append(
            f"No bounds: {', '.join(open_ended)}. These can be compared but not summed; declare "
            "low and high from what you know, not from the rows."
        )
    return said


# ---- init -----------------------------------------------------------------------------------


def init(
    data: DataOrFolder, schema: SchemaPath = None, epsilon: Epsilon = 1.0, delta: Delta = 1e-6,
    queries: Queries = 1000, noise: Noise = "gaussian", guarantee: Guarantee = "beliefs",
    owner: FirstOwner = "owner", force: Force = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Write a sulq.toml beside the data, or make a new folder for a server.

    A server's folder gets its first owner, whose key is shown once.

    Example: sulq init people.parquet --epsilon 1 --queries 1000

    Example: sulq init clinic --owner anna
    """
    from sulq.sources import looks_like_data

    if not looks_like_data(data):
        from sulq.cli.serve import begin

        begin(data, owner, as_json)
        return
    from sulq.promise import Promise
    from sulq.sources import open_source

    promise = Promise(epsilon, delta, queries, noise, guarantee)  # refuses what cannot be kept
    source = open_source(data)
    declared = schema if schema is not None else data.with_name(f"{source.name}.toml")
    said = Settings(
        epsilon=promise.epsilon, delta=delta, queries=queries, noise=noise, guarantee=guarantee
    )
    folder = data.parent
    text = draft_config(data.name, os.path.relpath(declared, folder), said)
    _write_new(folder / FILE, text, force)
    emit(
        {"config": str(folder / FILE), "schema": str(declared)},
        f"Written: {folder / FILE}",
        as_json,
    )
    if not declared.exists():
        note(f"Next: sulq schema draft {data} --out {declared}")


def _write_new(path: Path, text: str, force: bool) -> None:
    if path.exists() and not force:
        raise Refused(f"{str(path)!r} is there already. Give --force to write over it.")
    write(path, text)


# ---- encode ---------------------------------------------------------------------------------


def encode(
    data: DataFile, out: StoreFile, schema: StoreSchema = None, ledger: StoreLedger = None,
    table: TableName = None, as_json: Json = False,
) -> None:  # fmt: skip
    """Write the rows to an encoded store, on which private sums are plain integer sums.

    The store holds what the rows hold, so it is as secret as they are. It goes on with their
    ledger: what was spent stays spent. Schema and ledger come from a sulq.toml beside DATA.

    Example: sulq encode people.parquet people.sulq
    """
    import sulq

    said = settings_from(data=str(data), schema=schema, ledger=ledger, table=table)
    made = sulq.encode(
        data, said.schema, out, ledger=said.ledger, table=said.table, name=said.name
    )  # fmt: skip
    body = {"store": str(out), "bytes": made.stat().st_size}
    emit(
        body, f"Written: {out}. Open it like any other file; its ledger is that of {data}.", as_json
    )
